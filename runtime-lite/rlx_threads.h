// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// A pool of threads: pasted after rlx_parallel.h where a model is compiled with --threads, unless --pool
// caller says that the program has threads of its own. POSIX threads or those of Windows (7 and later),
// atomics of GNU or Microsoft compilers; no allocation, no globals.
// Every thread of the pool runs all segments of a run, and takes its own part of each; where one needs what
// other threads wrote there is a barrier.
#ifndef RLX_THREADS_H
#define RLX_THREADS_H

#include "rlx_parallel.h"
#if !defined(_WIN32)
#include <pthread.h>
#include <sched.h>
#include <unistd.h>
#endif
#if defined(_MSC_VER)
#include <intrin.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

// What is used of the system. Windows is declared as its own headers do, whose macros (near, far, small ...)
// would meet names of models: windows.h may be included before or after this.
#if defined(_WIN32)
#if defined(__cplusplus)
#define RLX_OF_C extern "C"
#else
#define RLX_OF_C
#endif
#if defined(_MSC_VER)
#define RLX_STDCALL       __stdcall
#define RLX_WINDOWS(type) RLX_OF_C __declspec(dllimport) type RLX_STDCALL
#define RLX_LOCKS(type)   RLX_WINDOWS(type)
#else
#define RLX_STDCALL       __attribute__((stdcall))
#define RLX_WINDOWS(type) RLX_OF_C __attribute__((dllimport)) type RLX_STDCALL
#define RLX_LOCKS(type)   RLX_OF_C type RLX_STDCALL // in MinGW's headers
#endif
#if defined(_WIN64)
typedef size_t rlx_windows_size;
#else
typedef unsigned long rlx_windows_size; // as wide as size_t, and another type
#endif
#define RLX_THREAD_MAIN unsigned long RLX_STDCALL
struct _RTL_SRWLOCK;
struct _RTL_CONDITION_VARIABLE;
struct _SECURITY_ATTRIBUTES;
typedef unsigned long (RLX_STDCALL *rlx_thread_main)(void *arg);
RLX_LOCKS(void) AcquireSRWLockExclusive(struct _RTL_SRWLOCK *lock);
RLX_LOCKS(void) ReleaseSRWLockExclusive(struct _RTL_SRWLOCK *lock);
RLX_WINDOWS(void) WakeAllConditionVariable(struct _RTL_CONDITION_VARIABLE *cond);
RLX_WINDOWS(int)
SleepConditionVariableSRW(struct _RTL_CONDITION_VARIABLE *cond, struct _RTL_SRWLOCK *lock, unsigned long ms,
                          unsigned long flags);
RLX_WINDOWS(void *)
CreateThread(struct _SECURITY_ATTRIBUTES *security, rlx_windows_size stack, rlx_thread_main run, void *arg,
             unsigned long flags, unsigned long *id);
RLX_WINDOWS(unsigned long) WaitForSingleObject(void *handle, unsigned long ms);
RLX_WINDOWS(int) CloseHandle(void *handle);
RLX_WINDOWS(int) SwitchToThread(void);
RLX_WINDOWS(unsigned long) GetActiveProcessorCount(unsigned short group);

typedef void *rlx_thread;
typedef struct rlx_lock {
    void *mutex, *cond; // SRWLOCK, CONDITION_VARIABLE: a pointer each, zeros at first
} rlx_lock;

static inline int rlx_lock_make(rlx_lock *l)
{
    l->mutex = l->cond = NULL;
    return 1;
}

static inline void rlx_lock_end(rlx_lock *l)
{
    (void)l;
}

static inline void rlx_lock_take(rlx_lock *l)
{
    AcquireSRWLockExclusive((struct _RTL_SRWLOCK *)(void *)&l->mutex);
}

static inline void rlx_lock_give(rlx_lock *l)
{
    ReleaseSRWLockExclusive((struct _RTL_SRWLOCK *)(void *)&l->mutex);
}

static inline void rlx_lock_wait(rlx_lock *l)
{
    SleepConditionVariableSRW((struct _RTL_CONDITION_VARIABLE *)(void *)&l->cond,
                              (struct _RTL_SRWLOCK *)(void *)&l->mutex, 0xFFFFFFFFu, 0);
}

static inline void rlx_lock_wake(rlx_lock *l)
{
    WakeAllConditionVariable((struct _RTL_CONDITION_VARIABLE *)(void *)&l->cond);
}

static inline int rlx_thread_start(rlx_thread *t, rlx_thread_main run, void *arg)
{
    *t = CreateThread(NULL, 0, run, arg, 0, NULL);
    return *t != NULL;
}

static inline void rlx_thread_join(rlx_thread t)
{
    WaitForSingleObject(t, 0xFFFFFFFFu);
    CloseHandle(t);
}

static inline void rlx_yield(void)
{
    SwitchToThread();
}

static inline long rlx_processors(void)
{
    return (long)GetActiveProcessorCount(0xFFFFu); // of all groups
}
#else
#define RLX_THREAD_MAIN void *
typedef void *(*rlx_thread_main)(void *arg);
typedef pthread_t rlx_thread;
typedef struct rlx_lock {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
} rlx_lock;

static inline int rlx_lock_make(rlx_lock *l)
{
    if (pthread_mutex_init(&l->mutex, NULL) != 0)
        return 0;
    if (pthread_cond_init(&l->cond, NULL) == 0)
        return 1;
    pthread_mutex_destroy(&l->mutex);
    return 0;
}

static inline void rlx_lock_end(rlx_lock *l)
{
    pthread_cond_destroy(&l->cond);
    pthread_mutex_destroy(&l->mutex);
}

static inline void rlx_lock_take(rlx_lock *l)
{
    pthread_mutex_lock(&l->mutex);
}

static inline void rlx_lock_give(rlx_lock *l)
{
    pthread_mutex_unlock(&l->mutex);
}

static inline void rlx_lock_wait(rlx_lock *l)
{
    pthread_cond_wait(&l->cond, &l->mutex);
}

static inline void rlx_lock_wake(rlx_lock *l)
{
    pthread_cond_broadcast(&l->cond);
}

static inline int rlx_thread_start(rlx_thread *t, rlx_thread_main run, void *arg)
{
    return pthread_create(t, NULL, run, arg) == 0;
}

static inline void rlx_thread_join(rlx_thread t)
{
    pthread_join(t, NULL);
}

static inline void rlx_yield(void)
{
    sched_yield();
}

static inline long rlx_processors(void)
{
    return sysconf(_SC_NPROCESSORS_ONLN);
}
#endif

#if defined(__GNUC__) || defined(__clang__)
static inline uint32_t rlx_load(const uint32_t *p)
{
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}

static inline uint32_t rlx_load_acquire(const uint32_t *p)
{
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static inline void rlx_store(uint32_t *p, uint32_t v)
{
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);
}

static inline void rlx_add(uint32_t *p, uint32_t v)
{
    __atomic_add_fetch(p, v, __ATOMIC_SEQ_CST);
}
#else
static inline uint32_t rlx_load_acquire(const uint32_t *p)
{
    const uint32_t v = *(const volatile uint32_t *)p;
#if defined(_M_ARM64) || defined(_M_ARM)
    __dmb(11); // of all processors that share memory
#else
    _ReadWriteBarrier();
#endif
    return v;
}

// After stores that are exchanges, which are full barriers.
static inline uint32_t rlx_load(const uint32_t *p)
{
    return rlx_load_acquire(p);
}

static inline void rlx_store(uint32_t *p, uint32_t v)
{
    _InterlockedExchange((volatile long *)p, (long)v);
}

static inline void rlx_add(uint32_t *p, uint32_t v)
{
    _InterlockedExchangeAdd((volatile long *)p, (long)v);
}
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
    rlx_thread thread[RLX_MAX_THREADS];
    rlx_lock lock;
    uint32_t n_sleeping;
    int is_ending;
    ptrdiff_t parts;
    rlx_ctx *ctx; // of the run
    const rlx_schedule *schedule;
} rlx_pool;

static inline void rlx_pause(void)
{
#if defined(_MSC_VER) && (defined(_M_X64) || defined(_M_IX86))
    _mm_pause();
#elif defined(_MSC_VER)
    __yield();
#elif defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) || (defined(__arm__) && __ARM_ARCH >= 7)
    __asm__ volatile("yield");
#endif
}

static inline int rlx_has_reached(const uint32_t *at, uint32_t step)
{
    return (int32_t)(rlx_load_acquire(at) - step) >= 0;
}

// The store and the load keep their order, as do the two in rlx_sleep: one of them sees the other.
static inline void rlx_reach(rlx_pool *p, rlx_team *t)
{
    rlx_store(&p->step[t->part].at, ++t->step);
    if (rlx_load(&p->n_sleeping) != 0) {
        rlx_lock_take(&p->lock);
        rlx_lock_wake(&p->lock);
        rlx_lock_give(&p->lock);
    }
}

static inline void rlx_sleep(rlx_pool *p, const uint32_t *at, uint32_t step)
{
    rlx_lock_take(&p->lock);
    rlx_add(&p->n_sleeping, 1);
    while ((int32_t)(rlx_load(at) - step) < 0)
        rlx_lock_wait(&p->lock);
    rlx_add(&p->n_sleeping, (uint32_t)-1);
    rlx_lock_give(&p->lock);
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
        rlx_yield();
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

static inline RLX_THREAD_MAIN rlx_threads_main(void *arg)
{
    rlx_team *t = (rlx_team *)arg;
    rlx_pool *p = t->pool;
    for (;;) {
        rlx_wait(p, t, 0, ++t->step);
        if (p->is_ending)
            return 0;
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
        rlx_thread_join(p->thread[i]);
    rlx_lock_end(&p->lock);
    ctx->pool = NULL;
}

// From now on `parts` threads (at most model->threads) share the runs of the context, the one that calls them
// among them; fewer where the system gives no more. They wait between runs: a short time awake, then asleep.
static inline rlx_status rlx_threads_start(rlx_ctx *ctx, rlx_pool *pool, ptrdiff_t parts)
{
    ptrdiff_t i;
    if (ctx == NULL || ctx->model == NULL || pool == NULL)
        return rlx_fail_null(ctx);
    rlx_threads_stop(ctx);
    memset(pool, 0, sizeof *pool);
    if (parts < 1)
        parts = 1;
    if (parts > (ptrdiff_t)ctx->model->threads) // of a model for one thread or more, at most RLX_MAX_THREADS
        parts = (ptrdiff_t)ctx->model->threads;
    if (!rlx_lock_make(&pool->lock))
        return RLX_ERR_CPU;
    for (i = 0; i < parts; i++) {
        pool->team[i].pool = pool;
        pool->team[i].part = i;
        pool->team[i].meet = rlx_meet;
        pool->team[i].spins = RLX_SPINS;
    }
    pool->parts = 1;
    while (pool->parts < parts &&
           rlx_thread_start(&pool->thread[pool->parts], rlx_threads_main, &pool->team[pool->parts]))
        pool->parts++;
    pool->team[0].parts = pool->parts;
    ctx->pool = pool;
    return RLX_OK;
}

// The smaller of `parts` and the number of processors.
static inline ptrdiff_t rlx_threads_useful(ptrdiff_t parts)
{
    const long n = rlx_processors();
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
