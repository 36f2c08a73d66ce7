// SPDX-License-Identifier: Apache-2.0
// What a machine can do at most, for `rlxc bench`. A text in rlxc, compiled by the compiler and with the
// options that compile the model, so that the peak is that of the instructions the model may use.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// threads: 1 to 64, which work side by side. Multiply-adds of f32 in registers, in GFLOP/s.
double rlx_probe_peak(int threads);
// Reading so many bytes again and again, each thread its part, in GB/s. 0: there is no such memory.
double rlx_probe_read(size_t bytes, int threads);

#if defined(__AVX512F__)
enum { LANES = 16 };
#define REG(x) "+v"(x)
#elif defined(__AVX__)
enum { LANES = 8 };
#define REG(x) "+x"(x)
#elif defined(__x86_64__)
enum { LANES = 4 };
#define REG(x) "+x"(x)
#elif defined(__aarch64__)
enum { LANES = 4 };
#define REG(x) "+w"(x)
#else // no vectors that are known: scalars in registers
enum { LANES = 1 };
#define REG(x) "+f"(x)
#endif

#if defined(__x86_64__) || defined(__aarch64__)
typedef float Vec __attribute__((vector_size(LANES * 4)));
typedef uint64_t Wide __attribute__((vector_size(LANES * 4)));
#define LANE0(v) (v)[0]
#else
typedef float Vec;
typedef uint64_t Wide;
#define LANE0(v) (v)
#endif

enum { PEAK_STEPS = 40000, N_CHAINS = 12, N_SUMS = 8, MAX_THREADS = 64, TRIALS = 3 };
enum { READ_AT_LEAST = 48 << 20 }; // bytes of a trial: some milliseconds

// Opens when all have come. macOS has no barriers.
typedef struct Gate {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int missing;
} Gate;

typedef struct Part {
    pthread_t thread;
    Gate *start;
    double (*work)(const struct Part *part); // gives seconds
    const Wide *block;                       // reading: its part, a multiple of N_SUMS vectors
    size_t n, passes;
    double seconds;
} Part;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#define CHAINS(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)

// Twelve independent chains of multiply-adds in registers: nothing that computes in f32 vectors is faster.
static double multiply(const Part *part)
{
    const float two = (float)part->n; // 0: what the compiler does not know
    const Vec factor = (Vec){0} + 0.999f + two, addend = (Vec){0} + 1e-3f + two;
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
    return now() - start;
}

static double read_block(const Part *part)
{
    Wide sum[N_SUMS];
    memset(sum, 0, sizeof sum);
    const double start = now();
    for (size_t pass = 0; pass < part->passes; pass++) {
        const Wide *p = part->block;
        for (size_t i = 0; i < part->n; i += N_SUMS)
            for (int k = 0; k < N_SUMS; k++)
                sum[k] ^= p[i + (size_t)k];
        __asm__ volatile("" ::"r"(p) : "memory"); // passes are not merged
    }
    const double seconds = now() - start;
    volatile uint64_t keep = 0;
    for (int k = 0; k < N_SUMS; k++)
        keep = keep ^ LANE0(sum[k]);
    return seconds;
}

static void pass(Gate *g)
{
    pthread_mutex_lock(&g->mutex);
    g->missing--;
    if (g->missing == 0)
        pthread_cond_broadcast(&g->cond);
    while (g->missing > 0)
        pthread_cond_wait(&g->cond, &g->mutex);
    pthread_mutex_unlock(&g->mutex);
}

static void *run_part(void *arg)
{
    Part *part = arg;
    pass(part->start);
    part->seconds = part->work(part);
    return NULL;
}

// Runs the parts side by side. False: no more threads can be had.
static int run_parts(Part *part, int threads)
{
    Gate start = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, threads};
    int made = 1;
    for (int i = 0; i < threads; i++)
        part[i].start = &start;
    for (; made < threads; made++)
        if (pthread_create(&part[made].thread, NULL, run_part, &part[made]) != 0)
            abort(); // the others wait for it
    run_part(&part[0]);
    for (int i = 1; i < threads; i++)
        pthread_join(part[i].thread, NULL);
    pthread_cond_destroy(&start.cond);
    pthread_mutex_destroy(&start.mutex);
    return 1;
}

// The best sum of the rates of all threads in several trials; work: what each does in a trial.
static double best_rate(Part *part, int threads, double work)
{
    double best = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        double rate = 0;
        if (!run_parts(part, threads))
            return 0;
        for (int i = 0; i < threads; i++)
            rate += work / part[i].seconds;
        best = rate > best ? rate : best;
    }
    return best;
}

double rlx_probe_peak(int threads)
{
    Part part[MAX_THREADS];
    memset(part, 0, sizeof part);
    for (int i = 0; i < threads; i++)
        part[i].work = multiply;
    return best_rate(part, threads, 2.0 * LANES * N_CHAINS * PEAK_STEPS) * 1e-9;
}

double rlx_probe_read(size_t bytes, int threads)
{
    const size_t step = N_SUMS * sizeof(Wide);
    const size_t each = (bytes / (size_t)threads + step - 1) / step * step;
    Part part[MAX_THREADS];
    unsigned char *block = aligned_alloc(4096, (each * (size_t)threads + 4095) / 4096 * 4096);
    if (block == NULL)
        return 0;
    memset(block, 1, each * (size_t)threads);
    memset(part, 0, sizeof part);
    for (int i = 0; i < threads; i++) {
        part[i].work = read_block;
        part[i].block = (const Wide *)(const void *)(block + (size_t)i * each);
        part[i].n = each / sizeof(Wide);
        part[i].passes = READ_AT_LEAST / each + 1;
    }
    const double rate = best_rate(part, threads, (double)each * (double)part[0].passes) * 1e-9;
    free(block);
    return rate;
}
