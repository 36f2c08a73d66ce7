// SPDX-License-Identifier: Apache-2.0
// Stands for rlxc in a test in Python, as a copy in a folder of the test's own. It runs the real one and
// writes down all that the call depends on and all that comes of it: tools/checks/recorded.py can then ask
// another rlxc whether it does the same, and need not repeat the test if so. Separate from kept_cc.c, which
// keeps what compilers make.
//
// The folder has `program` (three lines: the real rlxc; where the test may leave files; where contents are
// kept), and gets
//   calls      the calls, one block each, see print_call
//   state      the files that the test had after the last call
//   unusable   why the calls do not tell everything; the test must be repeated then
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LARGEST = 128 << 20, RACY_SECONDS = 1 };

// A file, folder or link of the test.
typedef struct Entry {
    const char *path;  // below the folder of the test
    char type;         // f, d, l; e: a program, or a part of one, that the test has made: rlxc reads none
    unsigned mode;     // permissions
    uint64_t hash[2];  // of the contents
    long long size, ns, inode; // as long as they are the same, the contents are; ns 0: they may not be
} Entry;

typedef VEC(Entry) Entries;

typedef struct Recorder {
    Arena arena;
    const char *folder, *program, *root, *blobs;
    Entries known; // after the last call
    Map by_path;   // index into them
} Recorder;

static void give_up(const Recorder *r, const char *why)
{
    Arena a = {0};
    FILE *f = fopen(arena_printf(&a, "%s/unusable", r->folder), "a");
    if (f != NULL)
        fprintf(f, "%s\n", why);
    if (f == NULL || fclose(f) != 0)
        _exit(125); // the test fails, and is repeated without
    arena_free(&a);
}

// --- text -----------------------------------------------------------------------------------------------

// Words may be of any bytes, lines are lines.
static void add_word(Str *s, const char *word)
{
    for (; *word != '\0'; word++)
        if ((unsigned char)*word <= ' ' || *word == '%')
            str_printf(s, "%%%02x", (unsigned)(unsigned char)*word);
        else
            str_char(s, *word);
}

static unsigned hex_digit(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static char *read_word(Arena *a, const char *s)
{
    char *word = arena_strdup(a, s), *to = word;
    for (; *s != '\0'; s++)
        if (*s == '%' && s[1] != '\0' && s[2] != '\0') {
            *to++ = (char)(hex_digit(s[1]) * 16 + hex_digit(s[2]));
            s += 2;
        } else {
            *to++ = *s;
        }
    *to = '\0';
    return word;
}

static char *read_line(Arena *a, FILE *f)
{
    char *line = NULL;
    size_t room = 0;
    const ssize_t n = getline(&line, &room, f);
    char *copy = n > 0 ? arena_strndup(a, line, (size_t)n - (line[n - 1] == '\n')) : NULL;
    free(line);
    return copy;
}

// --- files ----------------------------------------------------------------------------------------------

static char *read_all(Arena *a, const char *path, size_t *n)
{
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *bytes = NULL;
    *n = 0;
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size <= LARGEST) {
        bytes = arena_alloc(a, (size_t)st.st_size + 1);
        for (ssize_t got = 1; got > 0 && *n < (size_t)st.st_size; *n += got > 0 ? (size_t)got : 0)
            got = read(fd, bytes + *n, (size_t)st.st_size - *n);
    }
    if (fd >= 0)
        close(fd);
    return bytes;
}

static void hash_all(const char *bytes, size_t n, uint64_t hash[2])
{
    hash[0] = hash_bytes64(bytes, n, 1);
    hash[1] = hash_bytes64(bytes, n, UINT64_C(0x9e3779b97f4a7c15));
}

static void keep_blob(Recorder *r, const Entry *e, const char *bytes, size_t n)
{
    Arena a = {0};
    const char *path = arena_printf(&a, "%s/%016llx%016llx", r->blobs, (unsigned long long)e->hash[0],
                                    (unsigned long long)e->hash[1]);
    if (access(path, F_OK) != 0) {
        const char *part = arena_printf(&a, "%s.%ld", path, (long)getpid());
        FILE *f = fopen(part, "wb");
        const bool ok = f != NULL && fwrite(bytes, 1, n, f) == n;
        if (f == NULL || fclose(f) != 0 || !ok || rename(part, path) != 0)
            give_up(r, "a file could not be kept");
    }
    arena_free(&a);
}

static const Entry *find_known(const Recorder *r, const char *path)
{
    uint64_t at = 0;
    return map_get_str(&r->by_path, path, &at) ? &r->known.data[at] : NULL;
}

static bool is_same(const Entry *a, const Entry *b)
{
    return a->mode == b->mode && a->hash[0] == b->hash[0] && a->hash[1] == b->hash[1] &&
           (a->type == 'e' ? 'f' : a->type) == (b->type == 'e' ? 'f' : b->type);
}

// by_test: between calls, so that the contents are needed to make the call again.
static void read_contents(Recorder *r, Entry *e, const char *full, bool by_test)
{
    Arena a = {0};
    const Entry *was = find_known(r, e->path);
    size_t n = 0;
    if (was != NULL && was->ns != 0 && was->ns == e->ns && was->inode == e->inode && was->size == e->size) {
        memcpy(e->hash, was->hash, sizeof e->hash);
        e->type = was->type;
        return;
    }
    const char *bytes = read_all(&a, full, &n);
    if (bytes == NULL || n != (size_t)e->size)
        give_up(r, "a file is too large, or changes while it is read");
    else
        hash_all(bytes, n, e->hash);
    const bool is_changed = was == NULL || !is_same(was, e);
    if (!is_changed)
        e->type = was->type;
    else if (by_test && n >= 4 && memcmp(bytes, "\x7f" "ELF", 4) == 0)
        e->type = 'e';
    else if (by_test && bytes != NULL)
        keep_blob(r, e, bytes, n);
    arena_free(&a);
}

static void read_entry(Recorder *r, Entry *e, const char *full, bool by_test)
{
    struct stat st;
    struct timespec now;
    char target[4096];
    clock_gettime(CLOCK_REALTIME, &now);
    if (lstat(full, &st) != 0) {
        give_up(r, "a file went away while the files were listed");
        return;
    }
    e->mode = (unsigned)st.st_mode & 07777;
    if (S_ISDIR(st.st_mode)) {
        e->type = 'd';
    } else if (S_ISLNK(st.st_mode)) {
        const ssize_t n = readlink(full, target, sizeof target - 1);
        e->type = 'l';
        hash_all(target, n > 0 ? (size_t)n : 0, e->hash);
        if (by_test && n > 0)
            keep_blob(r, e, target, (size_t)n);
    } else if (S_ISREG(st.st_mode)) {
        e->type = 'f';
        e->size = (long long)st.st_size;
        e->inode = (long long)st.st_ino;
        e->ns = (long long)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
        read_contents(r, e, full, by_test);
        if (now.tv_sec - st.st_mtim.tv_sec <= RACY_SECONDS)
            e->ns = 0; // another change at the same time could not be told
    } else {
        give_up(r, "a file of another kind");
    }
}

// All below a folder, sorted.
static void list_files(Recorder *r, const char *below, bool by_test, Entries *out)
{
    struct dirent **names = NULL;
    const char *folder = arena_printf(&r->arena, "%s%s%s", r->root, *below != '\0' ? "/" : "", below);
    const int n = scandir(folder, &names, NULL, alphasort);
    if (n < 0)
        give_up(r, "a folder cannot be listed");
    for (int i = 0; i < n; i++) {
        const char *name = names[i]->d_name;
        if (!str_equal(name, ".") && !str_equal(name, "..")) {
            Entry e = {.path = arena_printf(&r->arena, "%s%s%s", below, *below != '\0' ? "/" : "", name)};
            read_entry(r, &e, arena_printf(&r->arena, "%s/%s", r->root, e.path), by_test);
            vec_push(&r->arena, out, e);
            if (e.type == 'd')
                list_files(r, e.path, by_test, out);
        }
        free(names[i]);
    }
    free(names);
}

static void know(Recorder *r, const Entries *entries)
{
    r->known = *entries;
    r->by_path = (Map){0};
    for (uint32_t i = 0; i < entries->len; i++)
        map_put_str(&r->arena, &r->by_path, entries->data[i].path, i);
}

// Lists what there is now, adds to `text` how it differs from what is known, and knows it.
static void add_changes(Recorder *r, bool by_test, Str *text)
{
    Entries now = {0};
    Map paths = {0};
    list_files(r, "", by_test, &now);
    for (uint32_t i = 0; i < now.len; i++)
        map_put_str(&r->arena, &paths, now.data[i].path, i);
    for (uint32_t i = r->known.len; i-- > 0;) {
        const Entry *was = &r->known.data[i];
        uint64_t unused = 0;
        if (was->type == 'e' || map_get_str(&paths, was->path, &unused))
            continue;
        str_add(text, by_test ? "removed " : "lost ");
        add_word(text, was->path);
        str_char(text, '\n');
    }
    for (uint32_t i = 0; i < now.len; i++) {
        const Entry *e = &now.data[i], *was = find_known(r, e->path);
        if (e->type == 'e' || (was != NULL && is_same(was, e)))
            continue;
        str_printf(text, "%s %c %o %016llx%016llx ", by_test ? "given" : "made", e->type, e->mode,
                   (unsigned long long)e->hash[0], (unsigned long long)e->hash[1]);
        add_word(text, e->path);
        str_char(text, '\n');
    }
    know(r, &now);
}

static void load_state(Recorder *r)
{
    FILE *f = fopen(arena_printf(&r->arena, "%s/state", r->folder), "r");
    Entries known = {0};
    for (char *line = f != NULL ? read_line(&r->arena, f) : NULL; line != NULL;
         line = read_line(&r->arena, f)) {
        Entry e = {0};
        unsigned long long hash[2];
        int at = 0;
        if (sscanf(line, "%c %o %llx %llx %lld %lld %lld %n", &e.type, &e.mode, &hash[0], &hash[1], &e.size,
                   &e.ns, &e.inode, &at) != 7)
            continue;
        e.hash[0] = hash[0];
        e.hash[1] = hash[1];
        e.path = read_word(&r->arena, line + at);
        vec_push(&r->arena, &known, e);
    }
    if (f != NULL)
        fclose(f);
    know(r, &known);
}

static void save_state(Recorder *r)
{
    FILE *f = fopen(arena_printf(&r->arena, "%s/state", r->folder), "w");
    for (uint32_t i = 0; f != NULL && i < r->known.len; i++) {
        const Entry *e = &r->known.data[i];
        Str path = str_new(&r->arena);
        add_word(&path, e->path);
        fprintf(f, "%c %o %llx %llx %lld %lld %lld %s\n", e->type, e->mode, (unsigned long long)e->hash[0],
                (unsigned long long)e->hash[1], e->size, e->ns, e->inode, str_text(&path));
    }
    if (f == NULL || fclose(f) != 0)
        give_up(r, "the state could not be written");
}

// --- calls ----------------------------------------------------------------------------------------------

// Why the call could not be made again in the same surroundings; NULL: it can.
static const char *find_obstacle(void)
{
    static const int limits[] = {RLIMIT_AS, RLIMIT_DATA, RLIMIT_CPU, RLIMIT_FSIZE};
    struct stat in, null;
    struct rlimit limit;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (getrlimit((__rlimit_resource_t)limits[i], &limit) != 0 || limit.rlim_cur != RLIM_INFINITY)
            return "a limit of memory, time or files";
    if (fstat(STDIN_FILENO, &in) != 0 || stat("/dev/null", &null) != 0 || in.st_rdev != null.st_rdev ||
        !S_ISCHR(in.st_mode))
        return S_ISREG(in.st_mode) ? NULL : "something to read at standard input that is no file";
    return NULL;
}

// The test will not be kept: rlxc takes the recorder's place, with the terminal, signals and limits that
// the test gave it.
static int become_program(const Recorder *r, char **argv)
{
    execv(r->program, argv);
    return 127;
}

static long long folder_time(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (long long)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec : -1;
}

static bool is_own(const Recorder *r, const char *path)
{
    const size_t n = strlen(r->root);
    return strncmp(path, r->root, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

// Files outside of the test's folder that the command names and that do not exist yet.
static uint32_t count_absent(const Recorder *r, char **words)
{
    uint32_t n = 0;
    for (; *words != NULL; words++) {
        const char *path = strchr(*words, '/');
        n += path != NULL && path == strchr(path, '/') && !is_own(r, path) && access(path, F_OK) != 0;
    }
    return n;
}

// What is left of a file at standard input, which the call will read.
static void keep_input(Recorder *r, Str *text)
{
    struct stat st;
    Entry e = {.type = 'f'};
    const off_t at = lseek(STDIN_FILENO, 0, SEEK_CUR);
    if (fstat(STDIN_FILENO, &st) != 0 || !S_ISREG(st.st_mode))
        return;
    const size_t n = st.st_size > at && st.st_size - at <= LARGEST ? (size_t)(st.st_size - at) : 0;
    char *bytes = arena_alloc(&r->arena, n + 1);
    if (at < 0 || st.st_size - at > LARGEST || pread(STDIN_FILENO, bytes, n, at) != (ssize_t)n)
        give_up(r, "standard input cannot be read");
    hash_all(bytes, n, e.hash);
    keep_blob(r, &e, bytes, n);
    str_printf(text, "reads %016llx%016llx\n", (unsigned long long)e.hash[0], (unsigned long long)e.hash[1]);
}

static void print_call(Recorder *r, char **argv, const char *cwd, bool is_joined, Str *text)
{
    extern char **environ;
    str_add(text, "call");
    for (char **w = argv; *w != NULL; w++) {
        str_char(text, ' ');
        add_word(text, *w);
    }
    str_add(text, "\nin ");
    add_word(text, cwd);
    str_add(text, "\nwith");
    for (char **e = environ; *e != NULL; e++) {
        str_char(text, ' ');
        add_word(text, *e);
    }
    str_printf(text, "\nto %s\n", is_joined ? "one" : "two");
    keep_input(r, text);
    add_changes(r, true, text);
}

// Between these texts rlxc says how long something took.
static const struct {
    const char *before, *after;
} times[] = {{": ", " ms (one run"}, {"\"ms\": ", ","}, {"\"seconds\": ", ","}};

// How many bytes from this one on are a time.
static size_t time_length(const char *bytes, size_t at)
{
    const size_t length = strspn(bytes + at, "0123456789.");
    for (size_t i = 0; i < sizeof times / sizeof *times && length > 0; i++) {
        const size_t n = strlen(times[i].before);
        if (at >= n && memcmp(bytes + at - n, times[i].before, n) == 0 &&
            strncmp(bytes + at + length, times[i].after, strlen(times[i].after)) == 0)
            return length;
    }
    return 0;
}

// Of what was said, but for times.
static void hash_said(Recorder *r, const char *bytes, size_t n, uint64_t hash[2])
{
    char *kept = arena_alloc(&r->arena, n + 1);
    size_t n_kept = 0;
    for (size_t i = 0; i < n; i += time_length(bytes, i))
        kept[n_kept++] = bytes[i++];
    hash_all(kept, n_kept, hash);
}

// What the program wrote.
static const char *read_said(Recorder *r, FILE *said, const char *name, size_t *n, Str *text)
{
    struct stat st;
    uint64_t hash[2];
    *n = fstat(fileno(said), &st) == 0 ? (size_t)st.st_size : 0;
    char *bytes = arena_alloc(&r->arena, *n + 1);
    if (pread(fileno(said), bytes, *n, 0) != (ssize_t)*n)
        give_up(r, "what was said cannot be read");
    hash_said(r, bytes, *n, hash);
    str_printf(text, "%s %016llx%016llx\n", name, (unsigned long long)hash[0], (unsigned long long)hash[1]);
    fclose(said);
    return bytes;
}

static void write_all(int to, const char *bytes, size_t n)
{
    for (size_t at = 0; at < n;) {
        const ssize_t put = write(to, bytes + at, n - at);
        if (put < 0 && errno != EINTR)
            break;
        at += put > 0 ? (size_t)put : 0;
    }
}

static int run_program(Recorder *r, char **argv, int out, int err)
{
    int status = 0;
    const pid_t pid = fork();
    if (pid == 0) {
        if (dup2(out, STDOUT_FILENO) >= 0 && dup2(err, STDERR_FILENO) >= 0)
            execv(r->program, argv);
        _exit(127);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (pid < 0 || !WIFEXITED(status)) {
        give_up(r, "rlxc was ended by a signal");
        return 1;
    }
    return WEXITSTATUS(status);
}

// Of the processor, so far, by what was started here.
static long long child_us(void)
{
    struct rusage u;
    (void)getrusage(RUSAGE_CHILDREN, &u);
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000LL + u.ru_utime.tv_usec + u.ru_stime.tv_usec;
}

static void note_time(Recorder *r)
{
    FILE *f = fopen(arena_printf(&r->arena, "%s/times", r->folder), "a");
    if (f != NULL) {
        fprintf(f, "%lld\n", child_us());
        fclose(f);
    }
}

// Runs the call and writes down what it did; what it said comes last, since that may go to files of the test.
static int record_call(Recorder *r, char **argv, bool is_joined, Str *text)
{
    FILE *out = tmpfile(), *err = tmpfile();
    size_t n_out = 0, n_err = 0;
    if (out == NULL || err == NULL)
        _exit(125);
    const int status = run_program(r, argv, fileno(out), fileno(is_joined ? out : err));
    note_time(r);
    str_printf(text, "status %d\n", status);
    const char *to_out = read_said(r, out, "out", &n_out, text);
    const char *to_err = read_said(r, err, "err", &n_err, text);
    add_changes(r, false, text);
    str_add(text, "end\n");
    save_state(r);
    FILE *f = fopen(arena_printf(&r->arena, "%s/calls", r->folder), "a");
    if (f == NULL || fputs(str_text(text), f) < 0 || fclose(f) != 0)
        give_up(r, "a call could not be written");
    write_all(STDOUT_FILENO, to_out, n_out);
    write_all(STDERR_FILENO, to_err, n_err);
    return status;
}

static int record(Recorder *r, char **argv)
{
    char cwd[4096];
    struct stat out, err;
    Str text = str_new(&r->arena);
    if (getcwd(cwd, sizeof cwd) == NULL || fstat(STDOUT_FILENO, &out) != 0 || fstat(STDERR_FILENO, &err) != 0)
        _exit(125);
    const bool is_joined = out.st_dev == err.st_dev && out.st_ino == err.st_ino;
    load_state(r);
    print_call(r, argv, cwd, is_joined, &text);
    const long long time = folder_time(cwd);
    const uint32_t absent = count_absent(r, argv);
    const int status = record_call(r, argv, is_joined, &text);
    if ((!is_own(r, cwd) && folder_time(cwd) != time) || count_absent(r, argv) != absent)
        give_up(r, "files outside of the folder of the test");
    return status;
}

int main(int argc, char **argv)
{
    char self[4096];
    Recorder r = {0};
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (slash != NULL)
        *slash = '\0';
    r.folder = arena_strdup(&r.arena, self);
    FILE *f = fopen(arena_printf(&r.arena, "%s/program", self), "r");
    if (f != NULL && argc > 0) {
        r.program = read_line(&r.arena, f);
        r.root = read_line(&r.arena, f);
        r.blobs = read_line(&r.arena, f);
        fclose(f);
    }
    const int lock = open(arena_printf(&r.arena, "%s/lock", self), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (r.blobs == NULL || lock < 0) {
        fputs("recorder: it stands for no rlxc here\n", stderr);
        return 125;
    }
    const char *obstacle = find_obstacle();
    if (obstacle == NULL && flock(lock, LOCK_EX | LOCK_NB) != 0)
        obstacle = "calls at the same time";
    if (obstacle != NULL)
        give_up(&r, obstacle);
    if (access(arena_printf(&r.arena, "%s/unusable", self), F_OK) == 0)
        return become_program(&r, argv);
    return record(&r, argv);
}
