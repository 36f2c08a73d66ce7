// SPDX-License-Identifier: Apache-2.0
// Stands before the C compilers of the system while tests run: a link to it, called cc, gcc, clang ..., lies
// in a folder that comes first in PATH. It runs the next program of that name, through ccache where that is
// installed, so that a text is compiled once however often tests compile it. ccache keeps only what ends as
// an object: a command that compiles and links is done in these two steps. What it does not understand, and
// what fails, it leaves to the compiler as it was called.
// $RLXC_TEST_LEVEL, as "-O1", stands for every level above it that a command asks for. gcc's sanitizers take
// most of a test's time, so what they compile is not optimised, what is undefined ends in a trap, and nobody
// writes down lines; TEST_SAY=1 has the sanitizers' words, with lines, instead. With -Og, gcc is spared a
// search for registers.
#include "base/str.h"
#include "base/vec.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

typedef VEC(const char *) Words;

typedef enum Step { BOTH_STEPS, ONLY_COMPILE, ONLY_LINK } Step;

// Options that take the next word as well, and beginnings of options that concern only one step.
typedef struct Option {
    const char *text;
    Step step;
} Option;

static const Option with_word[] = {
    {"-D", ONLY_COMPILE},       {"-U", ONLY_COMPILE},
    {"-I", ONLY_COMPILE},       {"-include", ONLY_COMPILE},
    {"-isystem", ONLY_COMPILE}, {"-iquote", ONLY_COMPILE},
    {"-MF", ONLY_COMPILE},      {"-MT", ONLY_COMPILE},
    {"-MQ", ONLY_COMPILE},      {"-idirafter", ONLY_COMPILE},
    {"-L", ONLY_LINK},          {"-l", ONLY_LINK},
    {"-Xlinker", ONLY_LINK},    {"-T", ONLY_LINK},
    {"-z", ONLY_LINK},          {"-u", ONLY_LINK},
    {"-e", ONLY_LINK},          {"-mllvm", BOTH_STEPS},
    {"-target", BOTH_STEPS},    {"--param", BOTH_STEPS},
};
static const Option beginnings[] = {
    {"-D", ONLY_COMPILE},   {"-U", ONLY_COMPILE}, {"-I", ONLY_COMPILE},     {"-M", ONLY_COMPILE},
    {"-l", ONLY_LINK},      {"-L", ONLY_LINK},    {"-Wl,", ONLY_LINK},      {"-shared", ONLY_LINK},
    {"-static", ONLY_LINK}, {"-r", ONLY_LINK},    {"-nostdlib", ONLY_LINK}, {"-fuse-ld", ONLY_LINK},
};
// Beginnings of options with which a command is the compiler's alone, but for those that ccache knows.
static const char *const alone[] = {
    "-E",        "-S", "-fsyntax-only",    "-save-temps",   "--save-temps", "-fwhole", "-flto",
    "-###",      "-v", "-dumpm",           "-print",        "--",           "-dumpv",  "-Xclang",
    "-fprofile", "@",  "-fcallgraph-info", "-fstack-usage", "-fdump"};

static const char *const known[] = {"--param", "--target=", "--sysroot=", "--specs=", "--std="};

// A command that compiles and links.
typedef struct Line {
    Arena *arena;
    Words compile, link; // options of each step; what is linked stays in its order, of sources the object
    Words sources, objects, languages;
    const char *language; // of the sources that follow, or NULL
    const char *folder;   // of the objects
    bool has_output, has_names; // -o, and -M...: the caller wants the names of headers
} Line;

static const char inside[] = "RLXC_KEPT_CC"; // set for what is started here

static bool begins(const char *s, const char *with)
{
    return strncmp(s, with, strlen(with)) == 0;
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

// The first program of that name in PATH that is not this one, or NULL. What another one of these has started
// looks where only the system's are: two that differ would call each other for ever.
static char *find_program(Arena *a, const char *name)
{
    const char *at = getenv(inside) != NULL ? "/usr/local/bin:/usr/bin:/bin" : getenv("PATH");
    while (at != NULL && *at != '\0') {
        const size_t n = strcspn(at, ":");
        char *path = arena_printf(a, "%.*s/%s", (int)n, at, name);
        if (access(path, X_OK) == 0 && !is_same_file(path, "/proc/self/exe"))
            return path;
        at += n + (at[n] == ':');
    }
    return NULL;
}

// --- how ccache is asked ----------------------------------------------------------------------------

// "/tmp/NAME" of a path within it, or NULL.
static char *temporary(Arena *a, const char *path)
{
    const char *top = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    const size_t n = strlen(top);
    if (!begins(path, top) || path[n] != '/' || path[n + 1] == '\0')
        return NULL;
    return arena_strndup(a, path, n + 1 + strcspn(path + n + 1, "/"));
}

static bool takes_word(const char *option)
{
    bool takes = str_equal(option, "-x") || str_equal(option, "-o");
    for (size_t i = 0; i < sizeof with_word / sizeof *with_word; i++)
        takes = takes || str_equal(option, with_word[i].text);
    return takes;
}

static bool has_path(const char *option)
{
    static const char *const options[] = {"-I", "-include", "-isystem", "-iquote", "-idirafter", "-MF", "-o"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (str_equal(option, options[i]))
            return true;
    return false;
}

static bool is_absolute(const char *const *words)
{
    for (const char *const *w = words; *w != NULL; w++) {
        const bool is_joined = begins(*w, "-I") && (*w)[2] != '\0';
        const bool is_path = (*w)[0] != '-' && (w == words || !takes_word(w[-1]) || has_path(w[-1]));
        if ((is_path && (*w)[0] != '/') || (is_joined && (*w)[2] != '/'))
            return false;
    }
    return true;
}

// Tests work in folders of ever new names. ccache makes paths within such a folder relative to where it runs:
// there, if that may be. The folder to run in, or NULL: this one.
static const char *choose_folder(Arena *a, const char *const *words, const char *source)
{
    char cwd[4096];
    const char *here = getcwd(cwd, sizeof cwd) != NULL ? temporary(a, cwd) : NULL;
    const char *base = here != NULL ? here : temporary(a, source);
    if (base != NULL)
        setenv("CCACHE_BASEDIR", base, 1);
    return here == NULL && base != NULL && is_absolute(words) ? base : NULL;
}

// Tests change HOME, so the folder of the cache is found without it. False: there is none.
static bool set_up_ccache(Arena *a)
{
    const struct passwd *who = getpwuid(getuid());
    const char *cache = who != NULL ? arena_printf(a, "%s/.cache", who->pw_dir) : "",
               *dir = getenv("CCACHE_DIR");
    if (dir == NULL) {
        dir = arena_printf(a, "%s/ccache", cache);
        (void)mkdir(cache, 0700);
    }
    setenv("CCACHE_DIR", dir, 1);
    setenv("CCACHE_NOHASHDIR", "1", 1);
    setenv("CCACHE_DEPEND", "1", 1);
    setenv("CCACHE_SLOPPINESS", "include_file_mtime,include_file_ctime", 1); // headers are as new as that
    return mkdir(dir, 0700) == 0 || access(dir, W_OK) == 0;
}

// The exit status; what is written to standard error goes to `said` where that is not NULL.
static int run(const Words *words, FILE *said, const char *folder)
{
    int status = 0;
    const pid_t pid = fork();
    if (pid == 0) {
        if (said != NULL)
            (void)dup2(fileno(said), STDERR_FILENO);
        if (folder == NULL || chdir(folder) == 0)
            execv(words->data[0], (char *const *)(uintptr_t)words->data);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

// --- reading a command ------------------------------------------------------------------------------

static bool begins_one_of(const char *word, const char *const *beginning, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (begins(word, beginning[i]))
            return true;
    return false;
}

static bool is_alone(const char *word)
{
    return str_equal(word, "-") || (begins_one_of(word, alone, sizeof alone / sizeof *alone) &&
                                    !begins_one_of(word, known, sizeof known / sizeof *known));
}

static bool is_source(const Line *l, const char *word)
{
    static const char *const ends[] = {".c", ".cc", ".cpp"};
    bool is = l->language != NULL;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        is = is || str_ends_with(word, ends[i]);
    return is;
}

static void add_to(Line *l, Step step, const char *word)
{
    if (step != ONLY_LINK)
        vec_push(l->arena, &l->compile, word);
    if (step != ONLY_COMPILE)
        vec_push(l->arena, &l->link, word);
}

static Step step_of(const char *word)
{
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (begins(word, beginnings[i].text))
            return beginnings[i].step;
    return BOTH_STEPS;
}

static void add_file(Line *l, const char *word)
{
    if (!is_source(l, word)) {
        vec_push(l->arena, &l->link, word);
        return;
    }
    const char *object = arena_printf(l->arena, "%s/%u.o", l->folder, l->sources.len);
    vec_push(l->arena, &l->sources, word);
    vec_push(l->arena, &l->objects, object);
    vec_push(l->arena, &l->languages, l->language);
    vec_push(l->arena, &l->link, object);
}

// Takes one option or file of words; the number of words, 0: it ends too early.
static int take(Line *l, char **words, int n)
{
    for (size_t i = 0; i < sizeof with_word / sizeof *with_word; i++) {
        if (!str_equal(words[0], with_word[i].text))
            continue;
        for (int k = 0; k < 2 && n > 1; k++)
            add_to(l, with_word[i].step, words[k]);
        return n > 1 ? 2 : 0;
    }
    if (str_equal(words[0], "-x") && n > 1) {
        l->language = str_equal(words[1], "none") ? NULL : words[1];
        return 2;
    }
    if (str_equal(words[0], "-o") && n > 1) {
        l->has_output = true;
        vec_push(l->arena, &l->link, words[0]);
        vec_push(l->arena, &l->link, words[1]);
        return 2;
    }
    l->has_names = l->has_names || begins(words[0], "-M");
    if (words[0][0] == '-')
        add_to(l, step_of(words[0]), words[0]);
    else
        add_file(l, words[0]);
    return 1;
}

static bool read_line(Line *l, char **words, int n)
{
    int taken = 1;
    for (int i = 0; i < n && taken > 0; i += taken)
        taken = is_alone(words[i]) ? 0 : take(l, words + i, n - i);
    return taken > 0 && l->sources.len > 0 && l->has_output;
}

// *source: its last file.
static bool only_compiles(char **words, int n, char **source)
{
    bool is_object = false;
    for (int i = 0; i < n; i++) {
        if (is_alone(words[i]))
            return false;
        is_object = is_object || str_equal(words[i], "-c");
        if (words[i][0] != '-' && (i == 0 || !takes_word(words[i - 1])))
            *source = words[i];
    }
    return is_object;
}

// --- the two steps ----------------------------------------------------------------------------------

// The file in which the compiler names the headers of a source.
static const char *names_of(Line *l, uint32_t number)
{
    return arena_printf(l->arena, "%s.d", l->objects.data[number]);
}

static bool compile(Line *l, const char *ccache, const char *cc, uint32_t number)
{
    Words words = {0};
    const char *source = l->sources.data[number];
    vec_push(l->arena, &words, ccache);
    vec_push(l->arena, &words, cc);
    for (uint32_t i = 0; i < l->compile.len; i++)
        vec_push(l->arena, &words, l->compile.data[i]);
    // With the names of headers ccache need not preprocess to know them (CCACHE_DEPEND).
    const char *const after[] = {"-Wno-unused-command-line-argument", "-c", "-o", l->objects.data[number]};
    const char *const names[] = {"-MD", "-MF", names_of(l, number)};
    for (size_t i = 0; i < sizeof after / sizeof *after; i++)
        vec_push(l->arena, &words, after[i]);
    for (size_t i = 0; i < sizeof names / sizeof *names && !l->has_names; i++)
        vec_push(l->arena, &words, names[i]);
    if (l->languages.data[number] != NULL) {
        vec_push(l->arena, &words, "-x");
        vec_push(l->arena, &words, l->languages.data[number]);
    }
    vec_push(l->arena, &words, source);
    vec_push(l->arena, &words, NULL);
    FILE *said = tmpfile();
    const bool ok = said != NULL && run(&words, said, choose_folder(l->arena, words.data + 2, source)) == 0;
    if (ok) {
        char bytes[4096];
        rewind(said);
        for (size_t n = fread(bytes, 1, sizeof bytes, said); n > 0; n = fread(bytes, 1, sizeof bytes, said))
            fwrite(bytes, 1, n, stderr);
    }
    if (said != NULL)
        fclose(said);
    return ok;
}

static bool link_objects(Line *l, const char *cc)
{
    Words words = {0};
    vec_push(l->arena, &words, cc);
    vec_push(l->arena, &words, "-Wno-unused-command-line-argument");
    for (uint32_t i = 0; i < l->link.len; i++)
        vec_push(l->arena, &words, l->link.data[i]);
    vec_push(l->arena, &words, NULL);
    return run(&words, NULL, NULL) == 0;
}

static bool compile_and_link(Arena *a, const char *ccache, const char *cc, char **words, int n)
{
    char folder[] = "/tmp/rlxc-objects-XXXXXX";
    if (mkdtemp(folder) == NULL)
        return false;
    Line l = {.arena = a, .folder = folder};
    bool ok = read_line(&l, words, n);
    for (uint32_t i = 0; i < l.sources.len && ok; i++)
        ok = compile(&l, ccache, cc, i);
    ok = ok && link_objects(&l, cc);
    for (uint32_t i = 0; i < l.objects.len; i++) {
        (void)unlink(l.objects.data[i]);
        (void)unlink(names_of(&l, i));
    }
    (void)rmdir(folder);
    return ok;
}

// Returns where the program cannot be started.
static void compile_only(Arena *a, const char *ccache, char **words, const char *source)
{
    Words all = {0};
    vec_push(a, &all, ccache);
    for (; *words != NULL; words++)
        vec_push(a, &all, *words);
    vec_push(a, &all, NULL);
    const char *folder = choose_folder(a, all.data + 2, source);
    if (folder == NULL || chdir(folder) == 0)
        execv(ccache, (char *const *)(uintptr_t)all.data);
}

static void lower_level(char **words, char *level)
{
    for (; level != NULL && *words != NULL; words++)
        if (begins(*words, "-O") && (*words)[2] > level[2] && (*words)[2] <= '9')
            *words = level;
}

static bool is_gcc(const char *cc)
{
    char *real = realpath(cc, NULL); // cc may be a link to clang
    const bool is = real != NULL && strstr(real, "clang") == NULL;
    free(real);
    return is;
}

// Is what it compiles checked by sanitizers (but for that of threads)?
static bool is_checked(char **words)
{
    bool is = false;
    for (; *words != NULL; words++)
        is = is || (begins(*words, "-fsanitize=") &&
                    (strstr(*words, "address") != NULL || strstr(*words, "undefined") != NULL));
    return is;
}

// The same words, and one with which gcc takes an eighth less of the time where they ask for little.
static char **add_region(Arena *a, char **words, int *n)
{
    static char region[] = "-fira-region=one";
    bool is_little = false;
    for (int i = 1; i < *n; i++)
        is_little = is_little || str_equal(words[i], "-Og");
    if (!is_little)
        return words;
    char **all = ARENA_ARRAY(a, char *, (size_t)*n + 2);
    memcpy(all, words, (size_t)*n * sizeof *words);
    all[(*n)++] = region;
    return all;
}

// The same words, and options with which gcc takes half of the time for the same checks, and a linker that
// takes half of the other's. *n: how many words.
static char **add_checks(Arena *a, char **words, int *n)
{
    static char calls[] = "--param", threshold[] = "asan-instrumentation-with-call-threshold=0",
                trap[] = "-fsanitize-undefined-trap-on-error", no_lines[] = "-g0", linker[] = "-fuse-ld=lld";
    char **all = ARENA_ARRAY(a, char *, (size_t)*n + 6);
    memcpy(all, words, (size_t)*n * sizeof *words);
    all[(*n)++] = calls;
    all[(*n)++] = threshold;
    if (find_program(a, "ld.lld") != NULL)
        all[(*n)++] = linker;
    if (getenv("TEST_SAY") == NULL) {
        all[(*n)++] = trap;
        all[(*n)++] = no_lines;
    }
    return all;
}

int main(int argc, char **argv)
{
    static char unoptimised[] = "-O0";
    Arena a = {0};
    lower_level(argv + 1, getenv("RLXC_TEST_LEVEL"));
    const char *slash = strrchr(argv[0], '/'), *name = slash != NULL ? slash + 1 : argv[0];
    char *const cc = find_program(&a, name), *const ccache = find_program(&a, "ccache"), *source = NULL;
    if (cc == NULL) {
        fprintf(stderr, "%s: not found\n", name);
        return 127;
    }
    argv[0] = cc;
    const bool is_outside = getenv(inside) == NULL;
    if (is_outside && is_gcc(cc) && is_checked(argv + 1)) {
        lower_level(argv + 1, unoptimised);
        argv = add_checks(&a, argv, &argc);
    } else if (is_outside && is_gcc(cc)) {
        argv = add_region(&a, argv, &argc);
    }
    if (is_outside && setenv(inside, "1", 1) == 0 && ccache != NULL && set_up_ccache(&a)) {
        if (only_compiles(argv + 1, argc - 1, &source) && source != NULL)
            compile_only(&a, ccache, argv, source);
        else if (compile_and_link(&a, ccache, cc, argv + 1, argc - 1))
            _exit(0);
    }
    execv(cc, argv);
    perror(cc);
    return 127;
}
