// SPDX-License-Identifier: Apache-2.0
// What stands in for Metal on the CPU (compiler/metal) must find fault with each of these programs, and
// with the first one must not. Each runs in a process of its own. Prints TAP; skipped (77) without a C++
// compiler.
#include "runtime-lite/rlx_metal.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 256, SKIPPED = 77 };

static rlx_metal_objc objc;
static void *pool, *device, *queue, *buffer, *kernel, *commands, *encoder;
static int *memory;

static const char text[] =
    "#include <metal_stdlib>\n"
    "using namespace metal;\n"
    "kernel void twice(device const int *x [[buffer(0)]], device int *y [[buffer(1)]],\n"
    "                  constant int &n [[buffer(2)]], uint3 id [[thread_position_in_grid]])\n"
    "{\n"
    "    if (int(id.x) < n)\n"
    "        y[id.x] = x[id.x] * 2;\n"
    "}\n";

// --- the steps of a right program -------------------------------------------------------------------

static void *string(const char *bytes)
{
    return rlx_metal_ask_for(&objc, objc.get_class("NSString"), RLX_METAL_STRING, bytes);
}

static void *ask(void *object, const char *selector)
{
    return ((void *(*)(void *, void *))objc.send)(object, objc.get_selector(selector));
}

static void *make_options(void)
{
    void *const options = rlx_metal_ask(&objc, objc.get_class("MTLCompileOptions"), RLX_METAL_NEW);
    rlx_metal_set_flag(&objc, options, RLX_METAL_FAST_MATH, 0);
    return options;
}

static void *make_library(void *options)
{
    return ((void *(*)(void *, void *, void *, void *, void **))objc.send)(
        device, objc.selector[RLX_METAL_LIBRARY_OF_TEXT], string(text), options, NULL);
}

static void begin(void)
{
    extern void *MTLCreateSystemDefaultDevice(void);
    pool = objc.push();
    device = MTLCreateSystemDefaultDevice();
    queue = rlx_metal_ask(&objc, device, RLX_METAL_QUEUE);
    buffer = ((void *(*)(void *, void *, unsigned long, unsigned long))objc.send)(
        device, objc.selector[RLX_METAL_BUFFER], 3 * N * sizeof(int), 0);
    memory = rlx_metal_ask(&objc, buffer, RLX_METAL_CONTENTS);
    for (int i = 0; i < 3 * N; i++)
        memory[i] = i;
    void *const options = make_options(), *const library = make_library(options);
    void *const function = rlx_metal_ask_for(&objc, library, RLX_METAL_FUNCTION, string("twice"));
    kernel = ((void *(*)(void *, void *, void *, void **))objc.send)(
        device, objc.selector[RLX_METAL_PIPELINE], function, NULL);
    rlx_metal_release(&objc, options);
    rlx_metal_release(&objc, library);
    rlx_metal_release(&objc, function);
}

static void record(void)
{
    commands = rlx_metal_ask(&objc, queue, RLX_METAL_COMMANDS);
    encoder = rlx_metal_ask_number(&objc, commands, RLX_METAL_ENCODER, 1);
    rlx_metal_set_object(&objc, encoder, RLX_METAL_USE, kernel);
}

static void bind(size_t offset, uint32_t index)
{
    ((void (*)(void *, void *, void *, unsigned long, unsigned long))objc.send)(
        encoder, objc.selector[RLX_METAL_SET_BUFFER], buffer, offset, index);
}

static void give(const void *data, size_t bytes, uint32_t index)
{
    ((void (*)(void *, void *, const void *, unsigned long, unsigned long))objc.send)(
        encoder, objc.selector[RLX_METAL_SET_BYTES], data, bytes, index);
}

static void launch(unsigned long threads)
{
    const rlx_metal_size groups = {N / 64, 1, 1}, group = {threads, 1, 1};
    ((void (*)(void *, void *, rlx_metal_size, rlx_metal_size))objc.send)(
        encoder, objc.selector[RLX_METAL_DISPATCH], groups, group);
}

// Third x of the buffer from third `from` to third `to`.
static void twice(int from, int to)
{
    const int n = N;
    bind((size_t)from * N * sizeof(int), 0);
    bind((size_t)to * N * sizeof(int), 1);
    give(&n, sizeof n, 2);
    launch(64);
}

static void barrier(void)
{
    rlx_metal_set_number(&objc, encoder, RLX_METAL_BARRIER, 1);
}

static void run(void)
{
    rlx_metal_do(&objc, encoder, RLX_METAL_END);
    rlx_metal_do(&objc, commands, RLX_METAL_COMMIT);
    rlx_metal_do(&objc, commands, RLX_METAL_WAIT);
}

static void end(void)
{
    rlx_metal_release(&objc, kernel);
    rlx_metal_release(&objc, buffer);
    rlx_metal_release(&objc, queue);
    rlx_metal_release(&objc, device);
    objc.pop(pool);
}

// --- programs ------------------------------------------------------------------------------------------

static void right(void)
{
    record();
    twice(0, 1);
    barrier();
    twice(1, 2);
    run();
    if (memory[2 * N + 5] != 20)
        fprintf(stderr, "the result is wrong: %d\n", memory[2 * N + 5]);
    end();
}

static void beside(void)
{
    record();
    twice(0, 1);
    twice(0, 2);
    run();
    end();
}

static void no_barrier(void)
{
    record();
    twice(0, 1);
    twice(1, 2);
    run();
}

static void same_output(void)
{
    record();
    twice(0, 2);
    twice(1, 2);
    run();
}

static void no_wait(void)
{
    record();
    twice(0, 1);
    rlx_metal_do(&objc, encoder, RLX_METAL_END);
    rlx_metal_do(&objc, commands, RLX_METAL_COMMIT);
    if (memory[N + 5] != 10)
        fprintf(stderr, "the result is not there yet\n");
    _exit(1);
}

static void after_end(void)
{
    record();
    rlx_metal_do(&objc, encoder, RLX_METAL_END);
    twice(0, 1);
}

static void not_ended(void)
{
    record();
    rlx_metal_do(&objc, commands, RLX_METAL_COMMIT);
}

static void committed_twice(void)
{
    record();
    run();
    rlx_metal_do(&objc, commands, RLX_METAL_COMMIT);
}

static void waits_first(void)
{
    record();
    rlx_metal_do(&objc, encoder, RLX_METAL_END);
    rlx_metal_do(&objc, commands, RLX_METAL_WAIT);
}

static void beyond(void)
{
    record();
    bind(3 * N * sizeof(int), 0);
}

static void misaligned(void)
{
    const int n = N;
    record();
    bind(0, 0);
    bind(N * sizeof(int) + 2, 1);
    give(&n, sizeof n, 2);
    launch(64);
}

static void not_set(void)
{
    record();
    bind(0, 0);
    bind(N * sizeof(int), 1);
    launch(64);
}

static void bytes_for_device(void)
{
    record();
    give(text, 16, 0);
    bind(N * sizeof(int), 1);
    give(text, 16, 2);
    launch(64);
}

static void no_pipeline(void)
{
    commands = rlx_metal_ask(&objc, queue, RLX_METAL_COMMANDS);
    encoder = rlx_metal_ask_number(&objc, commands, RLX_METAL_ENCODER, 1);
    twice(0, 1);
}

static void large_group(void)
{
    const int n = N;
    record();
    bind(0, 0);
    bind(N * sizeof(int), 1);
    give(&n, sizeof n, 2);
    launch(2048);
}

static void serial_barrier(void)
{
    commands = rlx_metal_ask(&objc, queue, RLX_METAL_COMMANDS);
    encoder = rlx_metal_ask_number(&objc, commands, RLX_METAL_ENCODER, 0);
    barrier();
}

static void released(void)
{
    record();
    twice(0, 1);
    rlx_metal_release(&objc, buffer);
    run();
}

static void released_twice(void)
{
    rlx_metal_release(&objc, buffer);
    rlx_metal_release(&objc, buffer);
}

static void leaks(void)
{
    (void)rlx_metal_ask(&objc, kernel, RLX_METAL_RETAIN);
    end();
}

static void nil(void)
{
    rlx_metal_do(&objc, NULL, RLX_METAL_COMMIT);
}

static void unknown(void)
{
    (void)ask(queue, "makeCoffee");
}

static void wrong_class(void)
{
    (void)ask(buffer, "commit");
}

static void no_pool(void)
{
    end();
    (void)string("nobody's");
}

static void wrong_pool(void)
{
    void *const inner = objc.push();
    (void)inner;
    objc.pop(pool);
}

static void fast(void)
{
    (void)make_library(rlx_metal_ask(&objc, objc.get_class("MTLCompileOptions"), RLX_METAL_NEW));
}

// --- the test --------------------------------------------------------------------------------------------

static const struct {
    const char *name;
    void (*run)(void);
    const char *said; // NULL: nothing, and it ends well
} programs[] = {{"a right program", right, NULL},
                {"launches side by side", beside, NULL},
                {"no barrier", no_barrier, "race"},
                {"two launches write the same", same_output, "race"},
                {"nobody waits", no_wait, "not there yet"},
                {"a launch after endEncoding", after_end, "after endEncoding"},
                {"committed while encoding", not_ended, "before its encoder has ended"},
                {"committed twice", committed_twice, "twice"},
                {"waited for before commit", waits_first, "before commit"},
                {"an offset at the end", beyond, "offset"},
                {"an offset that is not aligned", misaligned, "begins at"},
                {"an argument is not set", not_set, "is not set"},
                {"bytes where a buffer belongs", bytes_for_device, "setBytes"},
                {"no pipeline", no_pipeline, "without a pipeline"},
                {"a group that is too large", large_group, "groups of"},
                {"a barrier in a serial encoder", serial_barrier, "serial"},
                {"a buffer is released before it is used", released, "released"},
                {"released twice", released_twice, "released"},
                {"a leak", leaks, "not released"},
                {"a message to nil", nil, "nil"},
                {"an unknown message", unknown, "does not understand"},
                {"a message of another class", wrong_class, "does not understand"},
                {"no pool", no_pool, "without a pool"},
                {"pools out of order", wrong_pool, "innermost"},
                {"fast mathematics", fast, "fast mathematics"}};
enum { N_PROGRAMS = sizeof programs / sizeof *programs };

// What the program has said; its status in *status.
static const char *run_apart(void (*program)(void), int *status)
{
    static char said[4096];
    int ends[2];
    size_t n = 0;
    if (pipe(ends) != 0)
        exit(2);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        program();
        exit(0);
    }
    close(ends[1]);
    for (ssize_t got; n + 1 < sizeof said && (got = read(ends[0], said + n, sizeof said - n - 1)) > 0;)
        n += (size_t)got;
    said[n] = '\0';
    close(ends[0]);
    waitpid(child, status, 0);
    return said;
}

int main(void)
{
    int failed = 0;
    setenv("RLX_METAL_CPU", "check,leaks", 1);
    if (system("${CXX:-c++} --version >/dev/null 2>&1") != 0) {
        printf("1..0 # SKIP there is no C++ compiler (tools/setup installs one)\n");
        return SKIPPED;
    }
    if (rlx_metal_load(&objc) != RLX_OK)
        return 2;
    begin();
    printf("1..%d\n", N_PROGRAMS);
    for (int i = 0; i < N_PROGRAMS; i++) {
        int status = 0;
        fflush(stdout);
        const char *said = run_apart(programs[i].run, &status);
        const int ok = programs[i].said == NULL ? status == 0 && said[0] == '\0'
                                                : status != 0 && strstr(said, programs[i].said) != NULL;
        failed |= !ok;
        printf("%s %d - %s\n", ok ? "ok" : "not ok", i + 1, programs[i].name);
        if (!ok)
            printf("# status %d, said: %s\n", status, said);
    }
    end();
    return failed;
}
