// SPDX-License-Identifier: Apache-2.0
// Times a generated model against the machine's FMA peak, measured between its runs in the same process.
// Built by tools/bench/share.py with -DMODEL=name -DMODEL_H="name.h". Prints one line of JSON.
#define _GNU_SOURCE
#include MODEL_H
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define DESCRIPTOR  JOIN(MODEL, _model)

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX2__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif
#if defined(__AVX512F__)
#define REG(x) "+v"(x)
#elif defined(__x86_64__)
#define REG(x) "+x"(x)
#else
#define REG(x) "+w"(x)
#endif
typedef float Vec __attribute__((vector_size(LANES * 4)));

enum { N_CHAINS = 12, PEAK_STEPS = 50000, MAX_RUNS = 1000 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#define CHAINS(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)

// GFLOP/s of twelve independent chains of multiply-adds in registers: nothing that computes in f32 is faster.
static __attribute__((noinline)) double measure_peak(void)
{
    Vec factor, addend;
    for (int i = 0; i < LANES; i++) {
        factor[i] = 0.999f;
        addend[i] = 1e-3f;
    }
#define BEGIN(c) Vec acc##c = factor * (float)c;
    CHAINS(BEGIN)
    const double start = now();
    for (int step = 0; step < PEAK_STEPS; step++) {
        // The empty statement keeps the compiler from merging steps; the value stays in its register.
#define STEP(c)                                                                                              \
    acc##c = acc##c * factor + addend;                                                                       \
    __asm__ volatile("" : REG(acc##c));
        CHAINS(STEP)
    }
    const double seconds = now() - start;
    volatile float keep = 0;
#define KEEP(c) keep = keep + acc##c[0];
    CHAINS(KEEP)
    return 2.0 * LANES * N_CHAINS * PEAK_STEPS / seconds / 1e9;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void *huge_block(size_t bytes)
{
    const size_t page = (size_t)2 << 20;
    const size_t n = (bytes + 64 + page - 1) / page * page;
    void *p = aligned_alloc(page, n);
    if (p == NULL)
        exit(1);
    madvise(p, n, MADV_HUGEPAGE);
    memset(p, 0, n);
    return p;
}

int main(int argc, char **argv)
{
    static double time[MAX_RUNS], peak[MAX_RUNS];
    const int runs = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 200;
    const rlx_model *m = &DESCRIPTOR;
    rlx_ctx ctx;
    uint64_t macs = 0, seed = 88172645463325252u;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    sched_setaffinity(0, sizeof one, &one);
    void *weights = huge_block(m->weight_bytes);
    memcpy(weights, m->weights, m->weight_bytes);
    if (runs < 1 || runs > MAX_RUNS ||
        rlx_init(&ctx, m, huge_block(m->arena_bytes), m->arena_bytes, huge_block(m->state_bytes),
                 m->state_bytes, weights, m->weight_bytes) != RLX_OK)
        return 1;
    for (uint32_t i = 0; i < m->n_kernels; i++)
        macs += m->kernels[i].macs;
    for (int r = -3; r < runs; r++) {
        for (uint32_t i = 0; i < m->n_inputs; i++)
            for (size_t j = 0; j < m->inputs[i].bytes / 4; j++) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                ((float *)rlx_input(&ctx, i))[j] = (float)(int64_t)(seed >> 33) * 0x1p-30f - 1.0f;
            }
        const double start = now();
        rlx_run(&ctx);
        const double seconds = now() - start;
        if (r >= 0) {
            time[r] = seconds;
            peak[r] = measure_peak();
        }
    }
    qsort(time, (size_t)runs, sizeof time[0], compare);
    qsort(peak, (size_t)runs, sizeof peak[0], compare);
    const double median = time[runs / 2], best_peak = peak[runs - 1];
    printf("{\"name\": \"%s\", \"ms_best\": %.4f, \"ms_median\": %.4f, \"ms_p90\": %.4f, \"gflops\": %.2f, "
           "\"fma_peak_gflops\": %.2f, "
           "\"share_best\": %.4f, \"share_median\": %.4f}\n",
           m->name, time[0] * 1e3, median * 1e3, time[runs * 9 / 10] * 1e3, 2e-9 * (double)macs / median,
           best_peak, 2e-9 * (double)macs / time[0] / best_peak,
           2e-9 * (double)macs / median / peak[runs / 2]);
    return 0;
}
