// SPDX-License-Identifier: Apache-2.0
// See cpu_kernels.h. $CXX is the compiler (c++). METAL_SHIM, the folder of metal_stdlib, is given when this
// file is compiled; METAL_CACHE too where libraries are to be kept.
#include "compiler/metal/cpu_kernels.h"
#include "compiler/metal/cpu_objc.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_WORDS = 48 };

#ifndef METAL_CACHE
#define METAL_CACHE NULL
#endif

// --- reading -------------------------------------------------------------------------------------

typedef struct Piece {
    const char *at;
    size_t len;
} Piece;

static Piece trim(Piece p)
{
    while (p.len > 0 && isspace((unsigned char)p.at[0]))
        p.at++, p.len--;
    while (p.len > 0 && isspace((unsigned char)p.at[p.len - 1]))
        p.len--;
    return p;
}

static bool has_word(Piece p, const char *word)
{
    const size_t n = strlen(word);
    for (size_t i = 0; i + n <= p.len; i++)
        if (strncmp(p.at + i, word, n) == 0)
            return true;
    return false;
}

// The next parameter of a list that ends with a brace; the comma is left out.
static Piece next_param(const char **at)
{
    Piece p = {*at, 0};
    int depth = 0;
    for (; **at != '\0' && (depth > 0 || (**at != ',' && **at != ')')); (*at)++)
        depth += (**at == '(' || **at == '[') - (**at == ')' || **at == ']');
    p.len = (size_t)(*at - p.at);
    if (**at == ',')
        (*at)++;
    return trim(p);
}

// "device const float *x [[buffer(3)]]": the type, without the name.
static Piece type_of(Piece param)
{
    Piece p = param;
    for (size_t i = 0; i + 1 < p.len; i++)
        if (p.at[i] == '[' && p.at[i + 1] == '[')
            p.len = i;
    p = trim(p);
    while (p.len > 0 && (isalnum((unsigned char)p.at[p.len - 1]) || p.at[p.len - 1] == '_'))
        p.len--;
    return trim(p);
}

static Piece attribute_of(Piece param)
{
    for (size_t i = 0; i + 1 < param.len; i++)
        if (param.at[i] == '[' && param.at[i + 1] == '[')
            return (Piece){param.at + i + 2, param.len - i - 4};
    return (Piece){param.at, 0};
}

// What a thread knows of itself, by attribute. NULL: it is none of these.
static const char *find_id(Piece attribute)
{
    static const char *const known[][2] = {{"thread_position_in_grid", "uint3{id[0], id[1], id[2]}"},
                                           {"threadgroup_position_in_grid", "uint3{id[3], id[4], id[5]}"},
                                           {"thread_index_in_threadgroup", "id[6]"},
                                           {"threads_per_simdgroup", "id[7]"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i][0]) == attribute.len && strncmp(known[i][0], attribute.at, attribute.len) == 0)
            return known[i][1];
    return NULL;
}

// Prints what the parameter is given. A kernel gets the buffers' addresses p and its thread's ids.
static void read_param(MetalKernel *k, Piece param, FILE *out)
{
    const Piece type = type_of(param), attribute = attribute_of(param);
    const bool is_pointer = type.len > 0 && type.at[type.len - 1] == '*',
               is_reference = type.len > 0 && type.at[type.len - 1] == '&';
    if (strncmp(attribute.at, "buffer(", 7) == 0 && (is_pointer || is_reference)) {
        const unsigned long i = strtoul(attribute.at + 7, NULL, 10);
        if (i >= KERNEL_MAX_BUFFERS || k->param[i].is_given)
            objc_fail("%s: [[buffer(%lu)]]", k->name, i);
        const bool is_constant = has_word(type, "constant");
        k->param[i] = (MetalParam){true, !is_constant && !has_word(type, "const "), is_constant, 0};
        fprintf(out, "%s(%.*s*)p[%lu]", is_reference ? "*" : "", (int)type.len - 1, type.at, i);
    } else if (find_id(attribute) != NULL) {
        fputs(find_id(attribute), out);
    } else {
        objc_fail("%s: the parameter %.*s is of no kind that is known here", k->name, (int)param.len,
                  param.at);
    }
}

// Behind the text: a function for every kernel that the device can call, and the sizes of its elements.
static void read_kernel(MetalKernel *k, const char *params, FILE *out)
{
    const char *at = params;
    const char *separator = "";
    fprintf(out, "extern \"C\" void launch_%s(void *const *p, const uint *id)\n{\n    (void)p, (void)id, %s(",
            k->name, k->name);
    while (*at != ')' && *at != '\0') {
        fprintf(out, "%s", separator);
        read_param(k, next_param(&at), out);
        separator = ", ";
    }
    fprintf(out, ");\n}\nextern \"C\" const unsigned sizes_%s[] = {", k->name);
    for (at = params; *at != ')' && *at != '\0';) {
        const Piece param = next_param(&at), type = type_of(param), attribute = attribute_of(param);
        if (strncmp(attribute.at, "buffer(", 7) == 0)
            fprintf(out, "%lu, sizeof(%.*s), ", strtoul(attribute.at + 7, NULL, 10), (int)type.len - 1,
                    type.at);
    }
    fprintf(out, "%d};\n", KERNEL_MAX_BUFFERS);
    const char *end = strstr(params, "\n}\n");
    const Piece all = {params, end != NULL ? (size_t)(end - params) : strlen(params)};
    k->has_barrier = has_word(all, "_barrier(") || has_word(all, "simd_shuffle");
}

static const char *const kernel_word = "kernel void ";

static size_t count_kernels(const char *text)
{
    size_t n = 0;
    for (const char *at = strstr(text, kernel_word); at != NULL; at = strstr(at + 1, kernel_word))
        n++;
    return n;
}

static void read_text(MetalText *t, const char *text, FILE *out)
{
    fputs(text, out);
    fputs("\n", out);
    t->n = count_kernels(text);
    t->kernels = calloc(t->n + 1, sizeof *t->kernels);
    const char *at = text;
    for (size_t i = 0; i < t->n; i++) {
        at = strstr(at, kernel_word) + strlen(kernel_word);
        const size_t len = strcspn(at, "(");
        t->kernels[i].name = strndup(at, len);
        read_kernel(&t->kernels[i], at + len + 1, out);
    }
}

// --- compiling -----------------------------------------------------------------------------------

bool (*metal_run_program)(const char *const *words);

static bool run_program(const char *const *words)
{
    if (metal_run_program != NULL)
        return metal_run_program(words);
    const pid_t child = fork();
    if (child == 0) {
        execvp(words[0], (char *const *)(uintptr_t)words);
        fprintf(stderr, "Metal on the CPU: cannot start the C++ compiler %s: %s\n", words[0],
                strerror(errno));
        _exit(127);
    }
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// The words of the compiler's command, then the given ones.
static bool run_compiler(const char *const *more)
{
    const char *cxx = getenv("CXX"), *words[MAX_WORDS + 1] = {0};
    char *command = strdup(cxx != NULL && cxx[0] != '\0' ? cxx : "c++"), *rest = NULL;
    size_t n = 0;
    for (char *w = strtok_r(command, " ", &rest); w != NULL && n < MAX_WORDS / 2;
         w = strtok_r(NULL, " ", &rest))
        words[n++] = w;
    for (; *more != NULL && n < MAX_WORDS; more++)
        words[n++] = *more;
    const bool ok = run_program(words);
    free(command);
    return ok;
}

// The kernels call the barriers of this library, which the program may have loaded for itself only: they are
// linked with it. NULL: it is part of the program.
static const char *own_path(void)
{
    static const char here;
    Dl_info info;
    void *program = dlopen(NULL, RTLD_NOW);
    if (program != NULL && dlsym(program, "device_barrier") != NULL)
        return NULL;
    return dladdr(&here, &info) != 0 ? info.dli_fname : NULL;
}

// Where accesses are looked at, the compiler calls for each of them what device.c has.
static bool compile(const char *source, const char *object, const char *library)
{
    const bool is_checked = objc_option("check", 0) != 0;
    const char *const make[] = {"-x", "c++", "-std=c++14", is_checked ? "-O1" : "-O2", "-w", "-fPIC",
                                "-ffp-contract=off", "-fno-strict-aliasing", "-I" METAL_SHIM, "-c", "-o",
                                object, source, is_checked ? "-fsanitize=thread" : NULL, NULL};
    // The references to it are weak (metal_stdlib): some linkers would leave it out for that.
    const char *const link[] = {"-shared", "-o", library, object, "-Wl,--no-as-needed", own_path(), NULL};
    return run_compiler(make) && run_compiler(link);
}

static char *join(const char *a, const char *b)
{
    const size_t n = strlen(a) + strlen(b) + 1;
    char *s = malloc(n);
    if (s == NULL)
        objc_fail("no memory");
    snprintf(s, n, "%s%s", a, b);
    return s;
}

static uint64_t hash(const char *text, uint64_t h)
{
    for (; *text != '\0'; text++)
        h = (h ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return h;
}

// A name made from everything that decides about a library's bytes.
static char *cache_name(const char *cache, const char *text)
{
    const char *cxx = getenv("CXX"), *own = own_path();
    char key[64];
    const uint64_t what =
        hash(cxx != NULL ? cxx : "", hash(own != NULL ? own : "", UINT64_C(0xcbf29ce484222325)));
    snprintf(key, sizeof key, "/metal-%016llx%016llx.so", (unsigned long long)hash(text, what),
             (unsigned long long)hash(text, what ^ strlen(text) ^ objc_option("check", 0)));
    return join(cache, key);
}

// In the cache of rlxc it is locked, as work_folder.c does: what a killed program leaves goes.
static char *make_folder(const char *parent, int *lock)
{
    char *dir = join(parent, "/rlxc-work-XXXXXX");
    if (mkdtemp(dir) == NULL)
        objc_fail("cannot make a folder in %s: %s", parent, strerror(errno));
    char *name = join(dir, "/.lock");
    *lock = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (*lock < 0 || flock(*lock, LOCK_EX) != 0)
        objc_fail("cannot lock %s: %s", dir, strerror(errno));
    free(name);
    return dir;
}

static void remove_folder(char *dir, int lock)
{
    char *name = join(dir, "/.lock");
    unlink(name);
    rmdir(dir);
    close(lock);
    free(name);
}

static void find_kernel(MetalText *t, MetalKernel *k)
{
    char *launch = join("launch_", k->name), *sizes = join("sizes_", k->name);
    void *fn = dlsym(t->library, launch);
    const unsigned *size = dlsym(t->library, sizes);
    if (fn == NULL || size == NULL)
        objc_fail("%s is not in its library", k->name);
    memcpy(&k->fn, &fn, sizeof fn);
    for (; *size != KERNEL_MAX_BUFFERS; size += 2)
        k->param[size[0]].bytes = size[1];
    free(launch);
    free(sizes);
}

// The hash of a file's bytes. 0: it cannot be read.
static uint64_t hash_file(const char *path)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    FILE *f = fopen(path, "rb");
    for (int c; f != NULL && (c = getc(f)) != EOF;)
        h = (h ^ (unsigned char)c) * UINT64_C(0x100000001b3);
    if (f != NULL)
        fclose(f);
    return f != NULL ? h : 0;
}

// The hash stands beside it: one that was cut off would end the program.
static bool is_whole(const char *cached)
{
    char *name = join(cached, ".sum");
    FILE *f = fopen(name, "r");
    unsigned long long sum = 0;
    const bool is_there = f != NULL && fscanf(f, "%16llx", &sum) == 1;
    if (f != NULL)
        fclose(f);
    free(name);
    return is_there && sum == hash_file(cached);
}

static bool keep(const char *library, const char *cached)
{
    char *name = join(cached, ".sum"), *made = join(library, ".sum");
    FILE *f = fopen(made, "w");
    const bool is_written = f != NULL && fprintf(f, "%016llx", (unsigned long long)hash_file(library)) > 0;
    const bool is_kept = f != NULL && fclose(f) == 0 && is_written && chmod(library, 0600) == 0 &&
                         rename(library, cached) == 0 && rename(made, name) == 0;
    unlink(made);
    free(name);
    free(made);
    return is_kept;
}

// The library is in place, or made in a folder of its own and then put there.
static void *load(const char *source, const char *dir, const char *cached)
{
    char *object = join(dir, "/kernels.o"), *library = join(dir, "/kernels.so");
    void *found = cached != NULL && is_whole(cached) ? dlopen(cached, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (found == NULL && compile(source, object, library)) {
        found = dlopen(library, RTLD_NOW | RTLD_LOCAL);
        if (found == NULL)
            fprintf(stderr, "Metal on the CPU: %s\n", dlerror());
        else if (cached != NULL && !keep(library, cached))
            fprintf(stderr, "Metal on the CPU: cannot keep %s: %s\n", cached, strerror(errno));
    }
    unlink(object);
    unlink(library);
    free(object);
    free(library);
    return found;
}

MetalText *metal_text_load(const char *text)
{
    const char *cache = METAL_CACHE, *temporary = getenv("TMPDIR");
    MetalText *t = calloc(1, sizeof *t);
    char *cached = cache != NULL ? cache_name(cache, text) : NULL;
    int lock = -1;
    char *dir = make_folder(cache != NULL ? cache : temporary != NULL ? temporary : "/tmp", &lock);
    char *source = join(dir, "/kernels.cpp");
    FILE *out = fopen(source, "w");
    if (t == NULL || out == NULL)
        objc_fail("cannot write %s", source);
    read_text(t, text, out);
    fclose(out);
    t->library = load(source, dir, cached);
    if (getenv("KEEP") == NULL) {
        unlink(source);
        remove_folder(dir, lock);
    } else {
        close(lock);
    }
    free(source);
    free(dir);
    free(cached);
    if (t->library == NULL) {
        metal_text_close(t);
        return NULL;
    }
    for (size_t i = 0; i < t->n; i++)
        find_kernel(t, &t->kernels[i]);
    return t;
}

void metal_text_close(MetalText *t)
{
    for (size_t i = 0; i < t->n; i++)
        free((void *)(uintptr_t)t->kernels[i].name);
    if (t->library != NULL)
        dlclose(t->library);
    free(t->kernels);
    free(t);
}
