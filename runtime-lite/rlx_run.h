// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: a run in place, and what it checks before and after. Pasted after rlx.h into every generated
// header.
#ifndef RLX_RUN_H
#define RLX_RUN_H

#include "rlx_checks.h"
#include "rlx_shapes.h"
#include "rlx_times.h"
#include "rlx_values.h"

#ifdef __cplusplus
extern "C" {
#endif

// What a run, or a piece of it, ends with.
static inline rlx_status rlx_fail_run(const rlx_ctx *ctx, rlx_status status)
{
    if (status == RLX_OK)
        return status;
    (void)rlx_fail(ctx, status, RLX_ABOUT_CALL, NULL, 0, 0);
    if (ctx->error != NULL && (status == RLX_ERR_VALUE || status == RLX_ERR_RANGE))
        ctx->error->message = rlx_failed_check(ctx); // later runs have others
    return status;
}

// Is all there that a run needs before inputs are written? Else RLX_ERR_PARAM.
static inline rlx_status rlx_check_params(const rlx_ctx *ctx)
{
#if RLX_HAS_PARAMS
    const char *const name = rlx_missing_param(ctx);
    if (name != NULL)
        return rlx_fail(ctx, RLX_ERR_PARAM, RLX_ABOUT_PARAM, name, 0, 0);
#else
    (void)ctx;
#endif
    return RLX_OK;
}

#if RLX_HAS_QUEUE
static inline void rlx_copy_told(rlx_told *to, const rlx_error *from)
{
    to->status = from->status;
    to->about = from->about;
    to->expected = from->expected;
    to->found = from->found;
    to->message = from->message;
    memcpy(to->name, from->name, sizeof to->name);
}

// The status of the run that was committed last (rlx_commit), if it is the first error, and what it is about.
static inline void rlx_keep_status(rlx_ctx *ctx, rlx_status status)
{
    if (ctx->pending != RLX_OK || status == RLX_OK)
        return;
    ctx->pending = status;
    ctx->failed_run = ctx->committed;
    if (ctx->error != NULL)
        rlx_copy_told(&ctx->error->kept, ctx->error);
}

// Says that again, whatever has failed since. (kept.status is another one where the program has asked to be
// told in between.)
static inline rlx_status rlx_tell_kept(const rlx_ctx *ctx, rlx_status status)
{
    rlx_error *const e = ctx->error;
    if (status == RLX_OK || e == NULL)
        return status;
    (void)rlx_tell(e, status, RLX_ABOUT_CALL, NULL, 0, 0);
    if (e->kept.status != status)
        return status;
    (void)rlx_tell(e, status, e->kept.about, e->kept.name, e->kept.expected, e->kept.found);
    e->message = e->kept.message;
    return status;
}

// Waits for the runs that were committed, but for the last `left`, which could not begin; their outputs are
// in the arena block then.
static inline void rlx_await_runs(rlx_ctx *ctx, uint64_t left)
{
    const rlx_device *d = ctx->model->device;
    const int was_under_way = ctx->is_under_way != 0;
    rlx_status status = RLX_OK;
    if (d != NULL && d->start != NULL)
        status = rlx_fail_run(ctx, d->wait(ctx, RLX_WAIT_OUTPUTS, NULL));
    if (was_under_way)
        rlx_time_ends(ctx, left, status);
    if (status == RLX_OK && was_under_way && ctx->links != NULL)
        status = ctx->links->take(ctx);
    ctx->is_under_way = 0;
    ctx->committed -= left;
    rlx_keep_status(ctx, status);
    ctx->committed += left;
    if (was_under_way)
        ctx->has_run = ctx->pending == RLX_OK;
}

static inline void rlx_await_run(rlx_ctx *ctx)
{
    rlx_await_runs(ctx, 0);
}

// What is read next is what the runs so far have left: those that were committed are waited for.
static inline void rlx_settle(const rlx_ctx *ctx)
{
    if (ctx->is_under_way != 0)
        rlx_await_run((rlx_ctx *)(uintptr_t)ctx);
}

// Before a state is written: of an output that it holds, handles of the program take what the run that was
// committed last has left.
static inline void rlx_leave_held(const rlx_ctx *ctx)
{
    if (ctx->handles != NULL && ctx->model->n_held != 0)
        rlx_settle(ctx);
}

// Does a handle give the next run what it takes from one that is still under way?
static inline int rlx_follows(const rlx_ctx *ctx, const rlx_handle *h)
{
    return ctx->is_under_way != 0 && h->input != RLX_NO_SLOT && h->output != RLX_NO_SLOT;
}

// The handle that gives runs an input (rlx_link_input), or NULL: the program does.
static inline const rlx_handle *rlx_giver(const rlx_ctx *ctx, uint32_t input)
{
    const rlx_handle *h = ctx->handles;
    uint32_t i;
    for (i = 0; i < ctx->n_handles; i++, h = h->next)
        if (h->input == input)
            return h;
    return NULL;
}

#endif

#if RLX_HAS_ROWS
static inline int rlx_has_rows(const rlx_ctx *ctx, uint32_t input)
{
    return ctx->model->rows != NULL && ctx->model->rows->input == input;
}

// Copies an input to its slot. One that comes row by row has none: the run that follows reads it where it is.
static inline void rlx_bring_input(rlx_ctx *ctx, uint32_t input, const void *data, size_t bytes)
{
    if (rlx_has_rows(ctx, input))
        ctx->whole = (const unsigned char *)data;
    else
        memcpy(ctx->arena + ctx->model->inputs[input].offset, data, bytes);
}
#endif

// Is an input given (data) by a program that has to, and by no other? RLX_ERR_NULL: it is missing;
// RLX_ERR_HANDLE: a handle gives it.
static inline rlx_status rlx_check_given(const rlx_ctx *ctx, uint32_t input, const void *data)
{
#if RLX_HAS_QUEUE
    const int is_linked = rlx_giver(ctx, input) != NULL;
    if (is_linked == (data == NULL))
        return RLX_OK;
    return rlx_fail(ctx, is_linked ? RLX_ERR_HANDLE : RLX_ERR_NULL, RLX_ABOUT_INPUT,
                    ctx->model->inputs[input].name, 0, is_linked ? 2 : 0);
#else
    (void)ctx, (void)input;
    return data == NULL ? RLX_ERR_NULL : RLX_OK;
#endif
}

// What must be there before all inputs are copied: RLX_ERR_HANDLE, if a handle gives one.
static inline rlx_status rlx_check_copied(const rlx_ctx *ctx)
{
    rlx_status status = rlx_check_params(ctx);
#if RLX_HAS_QUEUE
    uint32_t i;
    for (i = 0; ctx->handles != NULL && i < ctx->model->n_inputs && status == RLX_OK; i++)
        status = rlx_check_given(ctx, i, ctx);
#endif
    return status;
}

#if RLX_HAS_QUEUE
// Can a run begin: are the parameters there and, as far as that can be known, the inputs in their slots?
static inline rlx_status rlx_check_ready(const rlx_ctx *ctx)
{
    uint32_t first = 0;
    if (ctx == NULL || ctx->model == NULL)
        return RLX_ERR_NULL;
    while (first < ctx->model->n_inputs && rlx_giver(ctx, first) != NULL)
        first++;
    if ((ctx->inputs & RLX_INPUTS_CONSUMED) != 0 && first < ctx->model->n_inputs)
        return rlx_fail(ctx, RLX_ERR_INPUT, RLX_ABOUT_INPUT, ctx->model->inputs[first].name, 0, 1);
    return rlx_check_params(ctx);
}
#endif

// A run has begun, on inputs that a call has copied (is_seen) or that the program has written.
#if RLX_HAS_QUEUE
static inline void rlx_consume(rlx_ctx *ctx, int is_seen)
{
    if ((ctx->inputs & RLX_INPUTS_STRICT) != 0 || (is_seen && (ctx->inputs & RLX_INPUTS_HELD) == 0))
        ctx->inputs |= RLX_INPUTS_CONSUMED;
}
#endif

#if RLX_HAS_ERRORS
// A run has ended.
static inline rlx_status rlx_end_run(rlx_ctx *ctx, rlx_status status)
{
    ctx->has_run = status == RLX_OK;
    return rlx_fail_run(ctx, status);
}
#endif

// The run itself. Handles of the program give and take what they are linked to (rlx_links.h).
static inline rlx_status rlx_dispatch(rlx_ctx *ctx)
{
#if RLX_HAS_QUEUE
    rlx_status status;
    rlx_settle(ctx);
    rlx_time_begin(ctx);
    status = ctx->links != NULL ? ctx->links->give(ctx) : RLX_OK;
    if (status != RLX_OK) {
        ctx->has_run = 0;
        rlx_time_given(ctx);
        rlx_time_end(ctx, status);
        return status;
    }
    status = rlx_end_run(ctx, ctx->model->dispatch(ctx));
    rlx_time_given(ctx);
    rlx_time_end(ctx, status);
    return status == RLX_OK && ctx->links != NULL ? ctx->links->take(ctx) : status;
#else
    const rlx_status status = ctx->model->dispatch(ctx);
    ctx->has_run = status == RLX_OK;
    return status;
#endif
}

// A run on inputs that were just copied to their slots, by calls that have checked all else.
static inline rlx_status rlx_run_given(rlx_ctx *ctx)
{
#if RLX_HAS_QUEUE
    rlx_consume(ctx, 1);
#else
    if ((ctx->inputs & RLX_INPUTS_HELD) == 0)
        ctx->inputs |= RLX_INPUTS_CONSUMED;
#endif
    return rlx_dispatch(ctx);
}

// Runs on what is in the input slots. Where it fails, it has changed no state. RLX_ERR_INPUT: the call before
// that copied inputs ran on them, and nothing has been written since. What is written by way of pointers
// cannot be seen: a program that has called rlx_input once is trusted, unless it has called
// rlx_expect_inputs.
static inline rlx_status rlx_run(rlx_ctx *ctx)
{
#if RLX_HAS_QUEUE
    const rlx_status status = rlx_check_ready(ctx);
    if (status != RLX_OK)
        return status;
    rlx_consume(ctx, 0);
#else
    if (ctx == NULL || ctx->model == NULL)
        return RLX_ERR_NULL;
    if ((ctx->inputs & RLX_INPUTS_CONSUMED) != 0 && ctx->model->n_inputs != 0)
        return RLX_ERR_INPUT;
#if RLX_HAS_PARAMS
    if (rlx_missing_param(ctx) != NULL)
        return RLX_ERR_PARAM;
#endif
#endif
    return rlx_dispatch(ctx);
}

#ifdef __cplusplus
}
#endif

#endif
