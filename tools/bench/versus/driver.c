// SPDX-License-Identifier: Apache-2.0
// What vs_peers loads with a generated model: memory on huge pages, inputs that are kept and put back
// before every run (a run consumes them), and a loop that times runs. Built with -DMODEL=name
// -DMODEL_H="name.h", and with -DTHREADS=n where the model was compiled with --threads.
#define _GNU_SOURCE
#include MODEL_H
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define DESCRIPTOR  JOIN(MODEL, _model)

static rlx_ctx ctx;
static unsigned char *kept; // the inputs, one behind the other
static uint32_t n_intact;   // all of them, where they are put back no more, or 0
#if THREADS > 1
static rlx_pool pool;
#endif

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *huge_block(size_t bytes)
{
    const size_t page = (size_t)2 << 20;
    const size_t n = (bytes + page) / page * page;
    void *p = aligned_alloc(page, n);
    if (p == NULL)
        abort();
    madvise(p, n, MADV_HUGEPAGE);
    memset(p, 0, n);
    return p;
}

const rlx_model *vs_model(void)
{
    return &DESCRIPTOR;
}

int vs_init(void)
{
    const rlx_model *m = &DESCRIPTOR;
    size_t bytes = 0;
    void *weights = huge_block(m->weight_bytes);
    if (m->weight_bytes > 0)
        memcpy(weights, m->weights, m->weight_bytes);
    for (uint32_t i = 0; i < m->n_inputs; i++)
        bytes += m->inputs[i].bytes;
    kept = huge_block(bytes);
    const rlx_status status = rlx_init(&ctx, m, huge_block(m->arena_bytes), m->arena_bytes,
                                       huge_block(m->state_bytes), m->state_bytes, weights, m->weight_bytes);
#if THREADS > 1
    return status != RLX_OK ? (int)status : (int)rlx_threads_start(&ctx, &pool, THREADS);
#else
    return (int)status;
#endif
}

// Where the caller writes input i.
void *vs_input(uint32_t i)
{
    unsigned char *p = kept;
    for (uint32_t j = 0; j < i; j++)
        p += ctx.model->inputs[j].bytes;
    return p;
}

const void *vs_output(uint32_t i)
{
    return rlx_output(&ctx, i);
}

static void fill(void)
{
    for (uint32_t i = n_intact; i < ctx.model->n_inputs; i++)
        memcpy(rlx_input(&ctx, i), vs_input(i), ctx.model->inputs[i].bytes);
}

// Runs once; if that leaves all inputs as they are, they are not put back before later runs. Negative where
// it fails.
int vs_keep_intact(void)
{
    uint32_t n = 0;
    fill();
    if (rlx_run(&ctx) != RLX_OK)
        return -1;
    while (n < ctx.model->n_inputs &&
           memcmp(rlx_input(&ctx, n), vs_input(n), ctx.model->inputs[n].bytes) == 0)
        n++;
    n_intact = n == ctx.model->n_inputs ? n : 0;
    return 0;
}

// Seconds of a run; negative where it fails. One run alone is timed without the copy of its inputs (a
// program writes them where they belong); of a loop all counts.
double vs_run(int n)
{
    fill();
    const double start = now();
    for (int i = 0; i < n; i++) {
        if (i > 0)
            fill();
        if (rlx_run(&ctx) != RLX_OK)
            return -1;
    }
    return (now() - start) / n;
}
