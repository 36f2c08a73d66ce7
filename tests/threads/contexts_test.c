// SPDX-License-Identifier: Apache-2.0
// Contexts are independent, however their runs are shared: contexts of two models, each in a thread of its
// own, with and without a pool, with a parallel_for that runs parts in some order or at once, give the bits
// of a context alone. Built by check_threads.py, also with the thread sanitizer; with -DALONE without any
// threads, for models that were compiled with --pool caller.
#define _POSIX_C_SOURCE 200112L
#include "other.h"
#include "shared.h"
#include <stdio.h>
#include <stdlib.h>
#ifndef ALONE
#include <pthread.h>
#endif

enum { CONTEXTS = 10, RUNS = 2, MAX_BYTES = 1 << 21 };

typedef void (*Task)(void *arg, size_t part);

typedef struct Job {
    const rlx_model *model;
    rlx_ctx ctx;
    int way; // how runs are shared
    int has_failed;
    unsigned *calls; // of its parallel_for
    unsigned char *results;
    size_t n_bytes;
} Job;

// --- ways to share a run ---

static void forward(void *user, Task task, void *arg, size_t parts)
{
    size_t i;
    ++*(unsigned *)user;
    for (i = 0; i < parts; i++)
        task(arg, i);
}

static void backward(void *user, Task task, void *arg, size_t parts)
{
    size_t i;
    ++*(unsigned *)user;
    for (i = parts; i-- > 0;)
        task(arg, i);
}

// The middle first.
static void mixed(void *user, Task task, void *arg, size_t parts)
{
    size_t i;
    ++*(unsigned *)user;
    for (i = 0; i < parts; i++)
        task(arg, (i + parts / 2) % parts);
}

#ifndef ALONE
typedef struct OnePart {
    Task task;
    void *arg;
    size_t part;
} OnePart;

static void *run_part(void *arg)
{
    const OnePart *p = (const OnePart *)arg;
    p->task(p->arg, p->part);
    return NULL;
}

static void at_once(void *user, Task task, void *arg, size_t parts)
{
    pthread_t thread[RLX_MAX_THREADS];
    OnePart part[RLX_MAX_THREADS];
    size_t i;
    ++*(unsigned *)user;
    for (i = 0; i < parts; i++) {
        part[i].task = task;
        part[i].arg = arg;
        part[i].part = i;
        if (pthread_create(&thread[i], NULL, run_part, &part[i]) != 0)
            exit(1);
    }
    for (i = 0; i < parts; i++)
        pthread_join(thread[i], NULL);
}
#endif

static void (*const ways[])(void *user, Task task, void *arg, size_t parts) = {forward, backward, mixed,
#ifndef ALONE
                                                                               at_once
#endif
};
enum { ALL_ALONE = 0, POOL = 1, FIRST_WAY = 2, N_WAYS = FIRST_WAY + sizeof ways / sizeof *ways };

// --- runs ---

static unsigned char *block(size_t n)
{
    void *p = NULL;
    if (posix_memalign(&p, RLX_ALIGNMENT, n + 1) != 0)
        exit(1);
    memset(p, 0xff, n);
    return (unsigned char *)p;
}

static void fill_inputs(const Job *j, uint32_t run, int64_t n)
{
    uint32_t i, k, seed = run * 7919u + 1u;
    for (i = 0; i < j->model->n_inputs; i++) {
        const rlx_tensor *t = &j->model->inputs[i];
        float *f = (float *)rlx_input(&j->ctx, i);
        for (k = 0; t->dtype == RLX_I64 && k < t->bytes / 8; k++) {
            const int64_t at = n + (int64_t)k;
            memcpy((unsigned char *)f + k * sizeof at, &at, sizeof at);
        }
        for (k = 0; t->dtype == RLX_F32 && k < t->bytes / 4; k++) {
            seed = seed * 1664525u + 1013904223u;
            f[k] = (float)(seed >> 8) / 16777216.0f - 0.5f;
        }
    }
}

static void keep(Job *j, const void *bytes, size_t n)
{
    j->has_failed |= j->n_bytes + n > MAX_BYTES;
    if (j->has_failed)
        return;
    memcpy(j->results + j->n_bytes, bytes, n);
    j->n_bytes += n;
}

static void run_once(Job *j, uint32_t run)
{
    uint32_t i;
    fill_inputs(j, run, 3);
    j->has_failed |= rlx_run(&j->ctx) != RLX_OK;
    for (i = 0; i < j->model->n_outputs; i++)
        keep(j, rlx_output(&j->ctx, i), j->model->outputs[i].bytes);
    fill_inputs(j, run, 4); // breaks the condition of "shared": the state stays
    j->has_failed |= j->model->n_checks != 0 && rlx_run(&j->ctx) != RLX_ERR_VALUE;
}

static void *run_job(void *arg)
{
    Job *j = (Job *)arg;
    const rlx_model *m = j->model;
    unsigned calls = 0;
    uint32_t run;
#ifndef ALONE
    rlx_pool *pool = (rlx_pool *)block(sizeof(rlx_pool));
#endif
    j->n_bytes = 0;
    j->results = block(MAX_BYTES);
    j->has_failed = rlx_init(&j->ctx, m, block(m->arena_bytes), m->arena_bytes, block(m->state_bytes),
                             m->state_bytes, NULL, 0) != RLX_OK;
    if (j->way >= FIRST_WAY)
        j->has_failed |= rlx_set_parallel_for(&j->ctx, 3, ways[j->way - FIRST_WAY], &calls) != RLX_OK;
#ifndef ALONE
    if (j->way == POOL)
        j->has_failed |= rlx_threads_start(&j->ctx, pool, 3) != RLX_OK;
#endif
    for (run = 0; run < RUNS && !j->has_failed; run++)
        run_once(j, run);
#ifndef ALONE
    rlx_threads_stop(&j->ctx);
    free(pool);
#endif
    free(j->ctx.arena);
    free(j->ctx.state);
    j->has_failed |= (j->way >= FIRST_WAY) != (calls >= RUNS);
    return NULL;
}

// --- checks ---

static int is_same(const Job *j, const Job *alone)
{
    if (!j->has_failed && j->n_bytes == alone->n_bytes && j->n_bytes != 0 &&
        memcmp(j->results, alone->results, j->n_bytes) == 0)
        return 1;
    fprintf(stderr, "%s shared in way %d: other results than alone\n", j->model->name, j->way);
    return 0;
}

static int is_as_alone(const rlx_model *const *models)
{
    static Job alone[2], job[2][CONTEXTS];
    int is_right = 1, m, i;
#ifndef ALONE
    pthread_t thread[2][CONTEXTS];
#endif
    for (m = 0; m < 2; m++) {
        alone[m].model = models[m];
        run_job(&alone[m]);
    }
    for (i = 0; i < CONTEXTS; i++)
        for (m = 0; m < 2; m++) {
            job[m][i].model = models[m];
            job[m][i].way = i % (int)N_WAYS;
#ifdef ALONE
            run_job(&job[m][i]);
#else
            if (pthread_create(&thread[m][i], NULL, run_job, &job[m][i]) != 0)
                return 0;
#endif
        }
    for (i = 0; i < CONTEXTS; i++)
        for (m = 0; m < 2; m++) {
#ifndef ALONE
            pthread_join(thread[m][i], NULL);
#endif
            is_right &= is_same(&job[m][i], &alone[m]);
            free(job[m][i].results);
        }
    for (m = 0; m < 2; m++)
        free(alone[m].results);
    return is_right;
}

// A call that is refused changes nothing; NULL and 0 parts take the function away.
static int is_checked(rlx_ctx *ctx)
{
    unsigned calls = 0;
    rlx_ctx before;
    if (rlx_set_parallel_for(ctx, RLX_MAX_THREADS, backward, &calls) != RLX_OK ||
        ctx->parallel_parts != SHARED_THREADS)
        return 0;
    before = *ctx;
    if (rlx_set_parallel_for(NULL, 2, forward, NULL) != RLX_ERR_NULL ||
        rlx_set_parallel_for(ctx, 2, NULL, NULL) != RLX_ERR_NULL ||
        rlx_set_parallel_for(ctx, 0, forward, NULL) != RLX_ERR_RANGE ||
        rlx_set_parallel_for(ctx, RLX_MAX_THREADS + 1, forward, NULL) != RLX_ERR_RANGE ||
        memcmp(ctx, &before, sizeof before) != 0)
        return 0;
    return rlx_set_parallel_for(ctx, 0, NULL, NULL) == RLX_OK && ctx->parallel_for == NULL && calls == 0;
}

int main(void)
{
    static RLX_ALIGNED unsigned char arena[SHARED_ARENA_BYTES], state[SHARED_STATE_BYTES];
    const rlx_model *models[2];
    rlx_ctx ctx;
    memset(&ctx, 0, sizeof ctx);
    models[0] = &shared_model;
    models[1] = &other_model;
    return shared_init(&ctx, arena, sizeof arena, state, sizeof state) != RLX_OK || !is_checked(&ctx) ||
           !is_as_alone(models);
}
