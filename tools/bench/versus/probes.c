// SPDX-License-Identifier: Apache-2.0
// What the machine can do at most, measured between the runs of vs_peers: multiply-adds in registers,
// and loops that read buffers, or read some and write one. Every thread works on a slice of its own, all
// start together.
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#if defined(__AVX512F__)
enum { LANES = 16 };
#define REG(x) "+v"(x)
#elif defined(__AVX2__)
enum { LANES = 8 };
#define REG(x) "+x"(x)
#elif defined(__x86_64__)
enum { LANES = 4 };
#define REG(x) "+x"(x)
#else
enum { LANES = 4 };
#define REG(x) "+w"(x)
#endif
typedef float Vec __attribute__((vector_size(LANES * 4), may_alias));

enum { N_CHAINS = 12, PEAK_STEPS = 50000, MAX_THREADS = 64, MAX_STREAMS = 8 };

typedef struct Work {
    pthread_barrier_t *start;
    const Vec *in[MAX_STREAMS]; // this thread's slices
    Vec *out;                   // NULL: only read
    int n_in, n_repeats;
    size_t n; // vectors of each slice
    double seconds;
    volatile float keep;
} Work;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#define CHAINS(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)

static void *multiply_add(void *arg)
{
    Work *w = arg;
    Vec factor, addend;
    for (int i = 0; i < LANES; i++) {
        factor[i] = 0.999f;
        addend[i] = 1e-3f;
    }
#define BEGIN(c) Vec acc##c = factor * (float)c;
    CHAINS(BEGIN)
    pthread_barrier_wait(w->start);
    const double start = now();
    for (int step = 0; step < PEAK_STEPS; step++) {
        // The empty statement keeps the compiler from merging steps; the value stays in its register.
#define STEP(c)                                                                                              \
    acc##c = acc##c * factor + addend;                                                                       \
    __asm__ volatile("" : REG(acc##c));
        CHAINS(STEP)
    }
    w->seconds = now() - start;
#define KEEP(c) w->keep = w->keep + acc##c[0];
    CHAINS(KEEP)
    return NULL;
}

static void read_slice(Work *w)
{
    Vec sum[8];
    memset(sum, 0, sizeof sum);
    for (int k = 0; k < w->n_in; k++) {
        const Vec *p = w->in[k];
        Vec a = sum[0], b = sum[1], c = sum[2], d = sum[3], e = sum[4], f = sum[5], g = sum[6], h = sum[7];
        for (size_t i = 0; i + 8 <= w->n; i += 8) {
            a += p[i], b += p[i + 1], c += p[i + 2], d += p[i + 3];
            e += p[i + 4], f += p[i + 5], g += p[i + 6], h += p[i + 7];
        }
        sum[0] = a + b + c + d + e + f + g + h;
    }
    w->keep = sum[0][0];
}

static void copy_slice(Work *w)
{
    const Vec *a = w->in[0], *b = w->in[w->n_in > 1], *c = w->in[w->n_in > 2 ? 2 : 0];
    Vec *out = w->out;
    if (w->n_in == 1)
        for (size_t i = 0; i + 4 <= w->n; i += 4)
            for (int j = 0; j < 4; j++)
                out[i + (size_t)j] = a[i + (size_t)j];
    else if (w->n_in == 2)
        for (size_t i = 0; i + 4 <= w->n; i += 4)
            for (int j = 0; j < 4; j++)
                out[i + (size_t)j] = a[i + (size_t)j] + b[i + (size_t)j];
    else
        for (size_t i = 0; i < w->n; i++)
            out[i] = a[i] + b[i] + c[i];
    __asm__ volatile("" : : "r"(out) : "memory");
}

static void *stream(void *arg)
{
    Work *w = arg;
    pthread_barrier_wait(w->start);
    const double start = now();
    for (int r = 0; r < w->n_repeats; r++) {
        if (w->out != NULL)
            copy_slice(w);
        else
            read_slice(w);
    }
    w->seconds = now() - start;
    return NULL;
}

// Runs a function on every thread at once; the time of the slowest.
static double run_all(void *(*fn)(void *), Work *work, int threads)
{
    pthread_t id[MAX_THREADS];
    pthread_barrier_t start;
    double worst = 0;
    pthread_barrier_init(&start, NULL, (unsigned)threads);
    for (int t = 0; t < threads; t++)
        work[t].start = &start;
    for (int t = 1; t < threads; t++)
        if (pthread_create(&id[t], NULL, fn, &work[t]) != 0)
            abort();
    fn(&work[0]);
    for (int t = 1; t < threads; t++)
        pthread_join(id[t], NULL);
    for (int t = 0; t < threads; t++)
        worst = work[t].seconds > worst ? work[t].seconds : worst;
    pthread_barrier_destroy(&start);
    return worst;
}

// Flops a second of all threads together: twelve independent chains of multiply-adds each.
double vs_peak(int threads)
{
    Work work[MAX_THREADS];
    memset(work, 0, sizeof work);
    return 2.0 * LANES * N_CHAINS * PEAK_STEPS * threads / run_all(multiply_add, work, threads);
}

// A buffer on huge pages, written once.
void *vs_buffer(size_t bytes)
{
    const size_t page = (size_t)2 << 20;
    const size_t n = (bytes + page) / page * page;
    void *p = aligned_alloc(page, n);
    if (p == NULL)
        return NULL;
    madvise(p, n, MADV_HUGEPAGE);
    memset(p, 0, n);
    return p;
}

// Seconds of one pass of all threads over n_in buffers that are read and one that is written (or NULL),
// `bytes` each.
double vs_stream(const void *const *in, int n_in, void *out, size_t bytes, int repeats, int threads)
{
    Work work[MAX_THREADS];
    const size_t n = bytes / sizeof(Vec) / (size_t)threads;
    memset(work, 0, sizeof work);
    for (int t = 0; t < threads; t++) {
        for (int k = 0; k < n_in && k < MAX_STREAMS; k++)
            work[t].in[k] = (const Vec *)in[k] + n * (size_t)t;
        work[t].out = out == NULL ? NULL : (Vec *)out + n * (size_t)t;
        work[t].n_in = n_in;
        work[t].n = n;
        work[t].n_repeats = repeats;
    }
    return run_all(stream, work, threads) / repeats;
}
