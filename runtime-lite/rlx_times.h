// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: when each run began and ended, also of runs that are committed or pipelined. Pasted after
// rlx.h into every generated header.
#ifndef RLX_TIMES_H
#define RLX_TIMES_H

#include "rlx.h"

#ifdef __cplusplus
extern "C" {
#endif

// From now on every run of the context, by whatever call, notes its times in `times`, which must stay where
// it is, as must its list: run 0 is the next one. `clock` and `user` are the caller's, what it counts is what
// the ticks are; list has room for n runs, of those beyond only the number is kept. NULL: no more. The end of
// a run is when it was seen: of runs in a queue by one of the next two commits, by rlx_is_done or rlx_sync,
// which wait for no more than they do without. Runs that are under way when it is called are not noted. Of a
// clone, or a context that was made again, it is not set. RLX_ERR_NULL: no clock, or no list for n runs.
static inline rlx_status rlx_set_run_times(rlx_ctx *ctx, rlx_run_times *times)
{
    if (ctx == NULL || ctx->model == NULL ||
        (times != NULL && (times->clock == NULL || (times->list == NULL && times->n != 0))))
        return rlx_fail_null(ctx);
    if (times != NULL)
        times->begun = times->ended = 0;
    ctx->times = times;
    return RLX_OK;
}

// The run that began as number `run`, if there is room for it.
static inline rlx_run_time *rlx_time_of(const rlx_ctx *ctx, uint64_t run)
{
    return ctx->times != NULL && run < ctx->times->n ? &ctx->times->list[run] : NULL;
}

// What the device's clock has counted of all kernels so far (rlx_set_device_times).
static inline double rlx_time_of_kernels(const rlx_ctx *ctx)
{
    double sum = 0;
    uint32_t i;
    for (i = 0; ctx->device_ns != NULL && i < ctx->model->n_kernels; i++)
        sum += ctx->device_ns[i];
    return sum;
}

// A run begins; the host has given the device all of it; it has ended, with that status. Runs end in the
// order in which they began.
static inline void rlx_time_begin(const rlx_ctx *ctx)
{
    rlx_run_time *const t = ctx->times != NULL ? rlx_time_of(ctx, ctx->times->begun++) : NULL;
    if (t == NULL)
        return;
    memset(t, 0, sizeof *t);
    t->kernel_ns = -rlx_time_of_kernels(ctx);
    t->begin = ctx->times->clock(ctx->times->user);
}

static inline void rlx_time_given(const rlx_ctx *ctx)
{
    rlx_run_time *const t = ctx->times != NULL ? rlx_time_of(ctx, ctx->times->begun - 1u) : NULL;
    if (t == NULL)
        return;
    t->given = ctx->times->clock(ctx->times->user);
    t->kernel_ns += rlx_time_of_kernels(ctx);
}

static inline void rlx_time_end(const rlx_ctx *ctx, rlx_status status)
{
    rlx_run_time *t;
    if (ctx->times == NULL || ctx->times->ended == ctx->times->begun)
        return;
    t = rlx_time_of(ctx, ctx->times->ended++);
    if (t == NULL)
        return;
    t->end = ctx->times->clock(ctx->times->user);
    t->status = status;
}

// Of the runs that have begun all but the last `left` have ended, with that status.
static inline void rlx_time_ends(const rlx_ctx *ctx, uint64_t left, rlx_status status)
{
    const uint64_t n = ctx->times == NULL ? 0 : ctx->times->begun - ctx->times->ended;
    uint64_t i;
    for (i = left; i < n; i++)
        rlx_time_end(ctx, status);
}

#ifdef __cplusplus
}
#endif

#endif
