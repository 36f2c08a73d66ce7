// SPDX-License-Identifier: Apache-2.0
// Feeds mutated model files to the readers, in process: `fuzz_mutate FORMAT COUNT FIRST SEED...`. Mutation
// number n of a format and its seeds is always the same bytes, so a failure is repeated by COUNT 1 and FIRST
// n (and -o FILE keeps the input). With `day` as FIRST it is another third of 3 * COUNT mutations each day,
// as rotation.h says. It fails on a crash, a sanitizer report, an exit, more than 10 s for one input, or more
// memory than the format says, on a reader that fails without a message or succeeds with one, and on a graph
// that the verifier refuses or that changes when it is printed and read back. What was read is compiled as
// far as the text of the program, for C or a GPU.
#include "base/arena.h"
#include "tests/common/rotation.h"
#include "tests/fuzz/fuzz.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MAX_SEEDS = 64, SECONDS = 10, DAYS = 3, MAX_RSS_KIB = 2 << 20 };

// --- running -------------------------------------------------------------------------------------------

static struct {
    const Format *format;
    unsigned long long iteration;
    bool is_done;
    FILE *sink; // where messages go
} run;

static void say_where(void)
{
    char text[128];
    int n = snprintf(text, sizeof text, "fuzz_mutate: %s: mutation %llu failed\n", run.format->name,
                     run.iteration);
    if (write(STDERR_FILENO, text, (size_t)n) != n)
        _exit(3);
}

static void on_exit_early(void)
{
    if (!run.is_done)
        say_where();
}

static void on_signal(int number)
{
    say_where();
    signal(number, SIG_DFL);
    raise(number);
}

static void fail(const char *why)
{
    fprintf(stderr, "fuzz_mutate: %s\n", why);
    exit(1);
}

static bool try_input(Arena *a, const Bytes *in)
{
    alarm(SECONDS);
    const bool ok = fuzz_try(run.format, a, in, run.iteration, run.sink);
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0 && usage.ru_maxrss > MAX_RSS_KIB)
        fail("the process grew beyond 2 GiB");
    return ok;
}

static Bytes read_file(Arena *a, const char *path)
{
    Bytes b = {arena_alloc(a, INPUT_CAP), 0};
    FILE *f = fopen(path, "rb");
    if (f) {
        b.len = fread(b.data, 1, INPUT_CAP, f);
        fclose(f);
    }
    if (!b.len) {
        fprintf(stderr, "fuzz_mutate: cannot read %s\n", path);
        exit(2);
    }
    return b;
}

// Sanitizers have their own exit, which atexit does not see.
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void watch(void)
{
    static const int signals[] = {SIGALRM, SIGABRT, SIGBUS};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], on_signal);
    atexit(on_exit_early);
    if (__sanitizer_set_death_callback) {
        __sanitizer_set_death_callback(say_where);
    } else { // the sanitizers reserve address space without end
        struct rlimit limit = {(rlim_t)MAX_RSS_KIB << 10, (rlim_t)MAX_RSS_KIB << 10};
        signal(SIGSEGV, on_signal);
        setrlimit(RLIMIT_AS, &limit);
    }
}

static Bytes make_input(Arena *a, const Bytes *seeds, size_t n_seeds)
{
    random_start(run.iteration * UINT64_C(0x2545f4914f6cdd1d) + 1);
    const Bytes *seed = &seeds[pick(n_seeds)];
    Bytes in = {arena_alloc(a, INPUT_CAP), seed->len};
    memcpy(in.data, seed->data, seed->len);
    if (run.format->mutate)
        run.format->mutate(&in, seeds, n_seeds);
    for (size_t n = run.format->mutate ? 0 : pick(2) ? 1 : pick(5) + 1; n > 0; n--)
        bytes_mutate(&in, run.format, seeds, n_seeds);
    if (run.format->seal)
        run.format->seal(&in, run.iteration);
    return in;
}

static void write_input(const char *path, const Bytes *in)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(in->data, 1, in->len, f) != in->len || fclose(f) != 0)
        fail("cannot write the input");
}

int main(int argc, char **argv)
{
    Arena perm = {0}, scratch = {0};
    Bytes seeds[MAX_SEEDS];
    size_t n_seeds = 0;
    const char *keep = NULL;
    run.format = argc > 4 ? format_find(argv[1]) : NULL;
    if (!run.format) {
        fprintf(stderr, "usage: fuzz_mutate FORMAT COUNT FIRST [-o FILE] "
                        "SEED...\n");
        return 2;
    }
    unsigned long long count = strtoull(argv[2], NULL, 10), first = strtoull(argv[3], NULL, 10), n_read = 0;
    if (strcmp(argv[3], "day") == 0)
        first = test_rotation() % DAYS * count;
    run.is_done = true;
    for (int i = 4; i < argc; i++) {
        if (strcmp(argv[i], "-o") == 0 && i + 1 < argc)
            keep = argv[++i];
        else if (n_seeds < MAX_SEEDS)
            seeds[n_seeds++] = read_file(&perm, argv[i]);
    }
    run.sink = fopen("/dev/null", "w");
    run.is_done = false;
    watch();
    for (size_t i = 0; i < n_seeds; i++, arena_reset(&scratch))
        if (!try_input(&scratch, &seeds[i]))
            fail("a seed is refused"); // mutations of a wrong seed test little
    for (run.iteration = first; run.iteration < first + count; run.iteration++, arena_reset(&scratch)) {
        Bytes in = make_input(&scratch, seeds, n_seeds);
        if (keep)
            write_input(keep, &in);
        n_read += try_input(&scratch, &in);
    }
    run.is_done = true;
    printf("%s: %llu mutations of %zu seeds from number %llu, %llu of them read\n", run.format->name, count,
           n_seeds, first, n_read);
    fclose(run.sink);
    arena_free(&scratch);
    arena_free(&perm);
    return 0;
}
