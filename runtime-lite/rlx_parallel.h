// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// Runs that are shared by several threads: pasted after rlx.h where a model is compiled with --threads. A
// run is a row of segments; what a segment reads was written before it, or by the same part of it, so that
// the parts of one may run in any order, one after the other or at once. Parts are a matter of speed only:
// any number of them gives the same results, and one caller alone runs all of it. This file knows nothing of
// threads: rlx_threads.h has a pool of them, rlx_set_parallel_for takes the caller's.
#ifndef RLX_PARALLEL_H
#define RLX_PARALLEL_H

#include "rlx.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RLX_MAX_THREADS 64

struct rlx_pool;

// Who runs one part of a segment. Of a pool also: `step` counts what it has waited for (starts, ends, rounds
// of barriers).
typedef struct rlx_team {
    struct rlx_pool *pool;
    ptrdiff_t part, parts;
    void (*meet)(struct rlx_team *team); // returns when all parts have called it; not used by one part alone
    uint32_t step;
    uint32_t spins;
} rlx_team;

enum {
    RLX_WAITS = 1, // what other parts did before must have ended
    RLX_WHOLE = 2  // as one part where parts cannot meet inside: they would have to, or have nothing to share
};

// What the generated code has of a run.
typedef struct rlx_schedule {
    rlx_status (*run)(rlx_ctx *ctx, rlx_team *team, uint32_t segment); // only whole segments can fail
    const unsigned char *segments;                                     // RLX_WAITS, RLX_WHOLE
    uint32_t n_segments;
} rlx_schedule;

// All parts of the team have come here.
static inline void rlx_barrier(rlx_team *team)
{
    if (team->parts > 1)
        team->meet(team);
}

// All segments, by a thread of a team whose parts run at once, or by one alone.
static inline rlx_status rlx_team_run(rlx_ctx *ctx, rlx_team *team, const rlx_schedule *s)
{
    rlx_status status = RLX_OK;
    uint32_t i;
    for (i = 0; i < s->n_segments && status == RLX_OK; i++) {
        if ((s->segments[i] & RLX_WAITS) != 0)
            rlx_barrier(team);
        status = s->run(ctx, team, i);
    }
    return status;
}

// --- threads of the caller ---

typedef struct rlx_shared_segment {
    rlx_ctx *ctx;
    const rlx_schedule *schedule;
    uint32_t segment;
} rlx_shared_segment;

static inline void rlx_segment_task(void *arg, size_t part)
{
    const rlx_shared_segment *s = (const rlx_shared_segment *)arg;
    rlx_team team = {NULL, 0, 1, NULL, 0, 0};
    team.part = (ptrdiff_t)part;
    team.parts = (ptrdiff_t)s->ctx->parallel_parts;
    (void)s->schedule->run(s->ctx, &team, s->segment);
}

// One run of a context without a pool.
static inline rlx_status rlx_parallel_run(rlx_ctx *ctx, const rlx_schedule *s)
{
    rlx_team alone = {NULL, 0, 1, NULL, 0, 0};
    rlx_shared_segment shared;
    rlx_status status = RLX_OK;
    uint32_t i;
    if (ctx->parallel_for == NULL || ctx->parallel_parts == 1)
        return rlx_team_run(ctx, &alone, s);
    shared.ctx = ctx;
    shared.schedule = s;
    for (i = 0; i < s->n_segments && status == RLX_OK; i++) {
        shared.segment = i;
        if ((s->segments[i] & RLX_WHOLE) != 0)
            status = s->run(ctx, &alone, i);
        else
            ctx->parallel_for(ctx->parallel_user, rlx_segment_task, &shared, ctx->parallel_parts);
    }
    return status;
}

// From now on the runs of the context are shared by what the caller has: fn must call task(arg, part) once
// for each part in 0 .. parts - 1, in any order and on any threads, and return when all of them have. It is
// called some times in each run, by the thread that calls the run, with at most `parts` parts (no more than
// model->threads are of use); calls for other contexts may come at the same time. A pool (rlx_threads_start)
// is not used meanwhile. fn NULL with 0 parts: back to the pool, or the caller alone.
static inline rlx_status rlx_set_parallel_for(rlx_ctx *ctx, size_t parts,
                                              void (*fn)(void *user, void (*task)(void *arg, size_t part),
                                                         void *arg, size_t parts),
                                              void *user)
{
    if (ctx == NULL || ctx->model == NULL || (fn == NULL && parts != 0))
        return rlx_fail_null(ctx);
    if ((fn != NULL && parts == 0) || parts > RLX_MAX_THREADS)
        return rlx_fail(ctx, RLX_ERR_RANGE, RLX_ABOUT_CALL, NULL, RLX_MAX_THREADS, (int64_t)parts);
    ctx->parallel_for = fn;
    ctx->parallel_user = user;
    ctx->parallel_parts = parts < ctx->model->threads ? parts : ctx->model->threads;
    return RLX_OK;
}

#ifdef __cplusplus
}
#endif

#endif
