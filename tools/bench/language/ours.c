// SPDX-License-Identifier: Apache-2.0
// A compiled language model (m.c, --weights load) as a library for turns.py: a file is loaded, runs are timed
// by the caller; and a loop that reads memory, with as many threads.
#define _GNU_SOURCE
#include "m.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HUGE_PAGE = 1 << 21, MOST_THREADS = 64 };

static rlx_ctx ctx;
static uint32_t symbol_t, symbol_p;
static unsigned char *weights;
#if M_THREADS > 1
static rlx_pool pool;
#endif

static void *block(size_t n)
{
    const size_t room = (n + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE + HUGE_PAGE;
    void *p = NULL;
    if (posix_memalign(&p, HUGE_PAGE, room) != 0)
        exit(2);
    madvise(p, room, MADV_HUGEPAGE);
    return p;
}

static void *cleared(size_t n)
{
    return memset(block(n), 0, n);
}

// 0: the weights of the file are there, and a context for runs.
int bench_open(const char *path)
{
    const rlx_model *m = &m_model;
    const int file = open(path, O_RDONLY);
    struct stat s;
    if (file < 0 || fstat(file, &s) != 0)
        return 1;
    void *all = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (all == MAP_FAILED)
        return 2;
    weights = block(M_WEIGHT_BYTES);
    const int status = m_load(weights, M_WEIGHT_BYTES, all, (size_t)s.st_size);
    munmap(all, (size_t)s.st_size);
    if (status < 0)
        return status;
    symbol_t = (uint32_t)rlx_find_symbol(m, "T");
    symbol_p = (uint32_t)rlx_find_symbol(m, "P");
    return rlx_init(&ctx, m, cleared(m->arena_bytes), m->arena_bytes, cleared(m->state_bytes), m->state_bytes,
                    weights, M_WEIGHT_BYTES);
}

// From here on runs have so many threads, or fewer: returns how many.
int bench_threads(int n)
{
#if M_THREADS > 1
    static int now = 1;
    if (now > 1)
        rlx_threads_stop(&ctx);
    now = 1;
    if (n > 1 && rlx_threads_start(&ctx, &pool, n < M_THREADS ? n : M_THREADS) == RLX_OK)
        now = n < M_THREADS ? n : M_THREADS;
    return now;
#else
    (void)n;
    return 1;
#endif
}

// The logits behind n tokens that come after `past` ones.
const float *bench_run(const int32_t *tokens, int64_t past, int64_t n)
{
    if (rlx_set_symbol(&ctx, symbol_t, n) != RLX_OK || rlx_set_symbol(&ctx, symbol_p, past) != RLX_OK)
        return NULL;
    int64_t *in = (int64_t *)rlx_input(&ctx, 0); // of the variant for these sizes
    for (int64_t i = 0; i < n; i++)
        in[i] = tokens[i];
    return rlx_run(&ctx) == RLX_OK ? (const float *)rlx_output(&ctx, 0) : NULL;
}

double bench_weight_bytes(void)
{
    return (double)M_WEIGHT_BYTES;
}

// --- reading -------------------------------------------------------------------------------------

typedef long long Words __attribute__((vector_size(64)));
typedef struct Part {
    const unsigned char *from;
    size_t n;
    long long sum;
} Part;

static void *read_part(void *arg)
{
    Part *p = arg;
    Words sum[4] = {{0}};
    for (size_t i = 0; i + sizeof sum <= p->n; i += sizeof sum)
        for (size_t j = 0; j < 4; j++)
            sum[j] += ((const Words *)(const void *)(p->from + i))[j];
    sum[0] += sum[1] + sum[2] + sum[3];
    p->sum = sum[0][0] ^ sum[0][5];
    return NULL;
}

// Reads the weights once, in n parts.
long long bench_read(int n)
{
    pthread_t thread[MOST_THREADS];
    Part part[MOST_THREADS] = {{0}};
    if (n < 1 || n > MOST_THREADS)
        return 0;
    const size_t size = (size_t)M_WEIGHT_BYTES / (size_t)n / HUGE_PAGE * HUGE_PAGE;
    for (int i = 0; i < n; i++) {
        part[i] = (Part){.from = weights + (size_t)i * size, .n = size};
        if (i > 0 && pthread_create(&thread[i], NULL, read_part, &part[i]) != 0)
            exit(2);
    }
    read_part(&part[0]);
    for (int i = 1; i < n; i++) {
        pthread_join(thread[i], NULL);
        part[0].sum ^= part[i].sum;
    }
    return part[0].sum;
}

double bench_read_bytes(int n)
{
    return (double)((size_t)M_WEIGHT_BYTES / (size_t)n / HUGE_PAGE * HUGE_PAGE * (size_t)n);
}
