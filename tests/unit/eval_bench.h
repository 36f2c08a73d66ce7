// SPDX-License-Identifier: Apache-2.0
// Kernels as listings, run by the interpreter on memory of a test; and the same with a line left out or
// changed.
#ifndef TESTS_UNIT_EVAL_BENCH_H
#define TESTS_UNIT_EVAL_BENCH_H

#include "base/str.h"
#include "ir/interp/kernel_eval.h"
#include "ir/kernel/kernel_parse.h"
#include "ir/graph/small_float.h"
#include "unit.h"

enum { BENCH_PARAMS = 4 };

typedef struct Bench {
    Arena arena;
    EvalMemory memory[BENCH_PARAMS];
    EvalArg args[BENCH_PARAMS];
    bool is_result[BENCH_PARAMS];
    bool has_wgmma, has_coop;
} Bench;

static Bench bench;

static inline int reset(void **state)
{
    (void)state;
    arena_free(&bench.arena);
    bench = (Bench){0};
    return 0;
}

// Some numbers that sums of a few products hold exactly.
static inline double number(uint32_t i)
{
    return (double)((i * 7919u + 13u) % 17u) - 8;
}

static inline uint16_t *half_numbers(DType type, uint32_t n)
{
    uint16_t *bits = ARENA_ARRAY(&bench.arena, uint16_t, n);
    for (uint32_t i = 0; i < n; i++)
        bits[i] = (uint16_t)small_float_narrow(type, number(i));
    return bits;
}

// Memory of parameter i. data: NULL, or what it holds before.
static inline void *bench_memory(uint32_t i, uint64_t bytes, const void *data)
{
    EvalMemory *m = &bench.memory[i];
    m->bytes = bytes;
    m->data = arena_alloc(&bench.arena, bytes);
    m->written = arena_alloc(&bench.arena, bytes);
    memset(m->data, 0xff, bytes);
    if (data != NULL)
        memcpy(m->data, data, bytes);
    memset(m->written, data != NULL, bytes);
    bench.is_result[i] = data == NULL;
    bench.args[i] = (EvalArg){.memory = m, .end = bytes};
    return m->data;
}

static inline Kernel *bench_parse(const char *text)
{
    Diag d = diag_new(&bench.arena);
    Kernel *k = kernel_parse(&bench.arena, &d, diag_add_file(&d, "k", text, strlen(text)));
    if (k == NULL)
        diag_print(&d, stderr, DIAG_PLAIN);
    assert_non_null(k);
    return k;
}

// Bytes of results that were written, of what is no poison.
static inline uint64_t bench_written(void)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < BENCH_PARAMS; i++)
        for (uint64_t at = 0; bench.is_result[i] && at < bench.memory[i].bytes; at++)
            n += bench.memory[i].written[at];
    return n;
}

// NULL, or what is wrong.
static inline const char *bench_run(const char *text)
{
    const Kernel *k = bench_parse(text);
    const EvalLaunch l = {
        .kernel = k, .args = bench.args, .has_wgmma = bench.has_wgmma, .has_coop = bench.has_coop};
    const char *wrong = kernel_verify(k);
    assert_null(wrong);
    for (uint32_t i = 0; i < BENCH_PARAMS; i++)
        if (bench.is_result[i])
            memset(bench.memory[i].written, 0, bench.memory[i].bytes);
    return kernel_eval(&bench.arena, &l);
}

// The text with the line where the first `what` ends replaced by `line`, or left out ("").
static inline const char *bench_changed(const char *text, const char *what, const char *line)
{
    const char *at = strstr(text, what);
    assert_non_null(at);
    at += strlen(what) - 1;
    while (at > text && at[-1] != '\n')
        at--;
    const char *end = strchr(at, '\n') + 1;
    return arena_printf(&bench.arena, "%.*s%s%s%s", (int)(at - text), text, line, *line != '\0' ? "\n" : "",
                        end);
}

static inline void bench_accepted(const char *text)
{
    const char *wrong = bench_run(text);
    if (wrong != NULL)
        fail_msg("%s", wrong);
}

// Without a line, or with another one, the kernel must be refused, for a reason in which `why` is, or give
// nothing in some place where it gave something.
static inline void bench_refused(const char *text, const char *what, const char *line, const char *why)
{
    bench_accepted(text);
    const uint64_t n = bench_written();
    const char *wrong = bench_run(bench_changed(text, what, line));
    if (wrong == NULL && bench_written() < n)
        wrong = "a result of what nobody wrote";
    if (wrong == NULL || strstr(wrong, why) == NULL)
        fail_msg("%s -> '%s': %s", what, line, wrong != NULL ? wrong : "nothing is wrong");
}

#endif
