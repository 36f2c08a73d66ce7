// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// A pool of threads: pasted behind rlx_parallel.h where a model is compiled with --threads, unless --pool
// caller says that the program has threads of its own. POSIX threads, GNU atomics; no allocation, no globals.
// Every thread of the pool runs all segments of a run, and takes its own part of each; where one needs what
// other threads wrote there is a barrier.
#ifndef RLX_THREADS_H
#define RLX_THREADS_H

#include "rlx_parallel.h"
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

// How often a thread that waits looks before it lets others run, and how often it does that before it sleeps.
#ifndef RLX_SPINS
#define RLX_SPINS 2000u
#endif
#ifndef RLX_YIELDS
#define RLX_YIELDS 200u
#endif

// On a line of its own, because others wait for it: the step that a thread has reached.
typedef struct rlx_step {
    uint32_t at;
    unsigned char rest[124];
} rlx_step;

// Memory of the caller, which must stay where it is from rlx_threads_start to rlx_threads_stop.
typedef struct rlx_pool {
    rlx_step step[RLX_MAX_THREADS];
    rlx_team team[RLX_MAX_THREADS];
    pthread_t thread[RLX_MAX_THREADS];
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    uint32_t n_sleeping;
    int is_ending;
    ptrdiff_t parts;
    rlx_ctx *ctx; // of the run
    const rlx_schedule *schedule;
} rlx_pool;

static inline void rlx_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
    __asm__ volatile("yield");
#endif
}

static inline int rlx_has_reached(const uint32_t *at, uint32_t step)
{
    return (int32_t)(__atomic_load_n(at, __ATOMIC_ACQUIRE) - step) >= 0;
}

// The store and the load keep their order, as do the two in rlx_sleep: one of them sees the other.
static inline void rlx_reach(rlx_pool *p, rlx_team *t)
{
    __atomic_store_n(&p->step[t->part].at, ++t->step, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&p->n_sleeping, __ATOMIC_SEQ_CST) != 0) {
        pthread_mutex_lock(&p->mutex);
        pthread_cond_broadcast(&p->cond);
        pthread_mutex_unlock(&p->mutex);
    }
}

static inline void rlx_sleep(rlx_pool *p, const uint32_t *at, uint32_t step)
{
    pthread_mutex_lock(&p->mutex);
    __atomic_add_fetch(&p->n_sleeping, 1, __ATOMIC_SEQ_CST);
    while ((int32_t)(__atomic_load_n(at, __ATOMIC_SEQ_CST) - step) < 0)
        pthread_cond_wait(&p->cond, &p->mutex);
    __atomic_sub_fetch(&p->n_sleeping, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&p->mutex);
}

// Waits until a thread has reached a step: spins, lets others run, sleeps. Where spinning did not help,
// because there are fewer cores than threads, it spins less the next time.
static inline void rlx_wait(rlx_pool *p, rlx_team *t, ptrdiff_t part, uint32_t step)
{
    const uint32_t *at = &p->step[part].at;
    const uint32_t spins = t->spins;
    uint32_t i;
    for (i = 0; i < spins; i++) {
        if (rlx_has_reached(at, step)) {
            t->spins = spins < RLX_SPINS / 2 ? spins * 2 : RLX_SPINS;
            return;
        }
        rlx_pause();
    }
    t->spins = spins > 32 ? spins / 2 : 16;
    for (i = 0; i < RLX_YIELDS; i++) {
        if (rlx_has_reached(at, step))
            return;
        sched_yield();
    }
    rlx_sleep(p, at, step);
}

// The barrier of a pool. In round r each waits for the one 2^r before it, which has by then
// heard of the 2^r - 1 before that.
static inline void rlx_meet(rlx_team *t)
{
    ptrdiff_t distance;
    for (distance = 1; distance < t->parts; distance *= 2) {
        rlx_reach(t->pool, t);
        rlx_wait(t->pool, t, (t->part + t->parts - distance) % t->parts, t->step);
    }
}

static inline void *rlx_threads_main(void *arg)
{
    rlx_team *t = (rlx_team *)arg;
    rlx_pool *p = t->pool;
    for (;;) {
        rlx_wait(p, t, 0, ++t->step);
        if (p->is_ending)
            return NULL;
        t->parts = p->parts;
        rlx_team_run(p->ctx, t, p->schedule);
        rlx_reach(p, t);
    }
}

// Ends the threads of a context. Before its memory, the pool or the library with the code goes away.
static inline void rlx_threads_stop(rlx_ctx *ctx)
{
    rlx_pool *p;
    ptrdiff_t i;
    if (ctx == NULL || ctx->pool == NULL)
        return;
    p = ctx->pool;
    p->is_ending = 1;
    rlx_reach(p, &p->team[0]);
    for (i = 1; i < p->parts; i++)
        pthread_join(p->thread[i], NULL);
    pthread_cond_destroy(&p->cond);
    pthread_mutex_destroy(&p->mutex);
    ctx->pool = NULL;
}

// From now on `parts` threads (at most model->threads) share the runs of the context, the one that calls them
// among them; fewer where the system gives no more. They wait between runs: a short time awake, then asleep.
static inline rlx_status rlx_threads_start(rlx_ctx *ctx, rlx_pool *pool, ptrdiff_t parts)
{
    ptrdiff_t i;
    if (ctx == NULL || ctx->model == NULL || pool == NULL)
        return RLX_ERR_NULL;
    rlx_threads_stop(ctx);
    memset(pool, 0, sizeof *pool);
    if (parts < 1)
        parts = 1;
    if (parts > (ptrdiff_t)ctx->model->threads) // of a model for one thread or more, at most RLX_MAX_THREADS
        parts = (ptrdiff_t)ctx->model->threads;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->cond, NULL);
    for (i = 0; i < parts; i++) {
        pool->team[i].pool = pool;
        pool->team[i].part = i;
        pool->team[i].meet = rlx_meet;
        pool->team[i].spins = RLX_SPINS;
    }
    pool->parts = 1;
    while (pool->parts < parts &&
           pthread_create(&pool->thread[pool->parts], NULL, rlx_threads_main, &pool->team[pool->parts]) == 0)
        pool->parts++;
    pool->team[0].parts = pool->parts;
    ctx->pool = pool;
    return RLX_OK;
}

// The smaller of `parts` and the number of processors.
static inline ptrdiff_t rlx_threads_useful(ptrdiff_t parts)
{
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n >= 1 && n < parts ? (ptrdiff_t)n : parts;
}

// One run of a context: by the caller's parallel_for, all threads of the pool, or the caller alone.
static inline rlx_status rlx_threads_run(rlx_ctx *ctx, const rlx_schedule *schedule)
{
    rlx_pool *p = ctx->pool;
    rlx_team *t;
    rlx_status status;
    ptrdiff_t i;
    if (p == NULL || p->parts == 1 || ctx->parallel_for != NULL)
        return rlx_parallel_run(ctx, schedule);
    t = &p->team[0];
    p->ctx = ctx;
    p->schedule = schedule;
    rlx_reach(p, t);
    status = rlx_team_run(ctx, t, schedule);
    t->step++;
    for (i = 1; i < p->parts; i++)
        rlx_wait(p, t, i, t->step);
    return status;
}

#ifdef __cplusplus
}
#endif

#endif
