// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: a run in place, and what it checks before and after. Pasted behind rlx.h into every generated
// header.
#ifndef RLX_RUN_H
#define RLX_RUN_H

#include "rlx_times.h"

#ifdef __cplusplus
extern "C" {
#endif

// The first parameter that has no value yet, or NULL.
static inline const char *rlx_missing_param(const rlx_ctx *ctx)
{
    const unsigned char *flags;
    uint64_t eight;
    uint32_t i = 0;
    if (ctx == NULL || ctx->model == NULL || ctx->model->n_params == 0)
        return NULL;
    flags = ctx->state + ctx->model->flags_offset;
    for (; i + 8u <= ctx->model->n_params; i += 8u) { // is a byte of the eight 0?
        memcpy(&eight, flags + i, sizeof eight);
        if (((eight - UINT64_C(0x0101010101010101)) & ~eight & UINT64_C(0x8080808080808080)) != 0)
            break;
    }
    for (; i < ctx->model->n_params; i++)
        if (flags[i] == 0)
            return ctx->model->params[i].name;
    return NULL;
}

static inline const rlx_check *rlx_find_failed(const rlx_ctx *ctx)
{
    uint32_t i;
    for (i = 0; ctx != NULL && ctx->model != NULL && i < ctx->model->n_checks; i++) {
        const rlx_check *c = &ctx->model->checks[i];
        if ((c->in_state ? ctx->state : ctx->arena)[c->offset] == 0)
            return c;
    }
    return NULL;
}

// Right after a run that gave RLX_ERR_VALUE or RLX_ERR_RANGE: the message of the first condition that does
// not hold.
static inline const char *rlx_failed_check(const rlx_ctx *ctx)
{
    const rlx_check *c = rlx_find_failed(ctx);
    return c != NULL ? c->message : NULL;
}

// What a run ends with where a condition does not hold; else RLX_OK. (The generated code asks this once it
// has computed them, before it writes any state.)
static inline rlx_status rlx_test_checks(const rlx_ctx *ctx)
{
    const rlx_check *c = rlx_find_failed(ctx);
    return c != NULL ? c->status : RLX_OK;
}

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

// Is an input given (data) by a program that has to, and by no other? RLX_ERR_NULL: it is missing;
// RLX_ERR_HANDLE: a handle gives it.
static inline rlx_status rlx_check_given(const rlx_ctx *ctx, uint32_t input, const void *data)
{
    const int is_linked = rlx_giver(ctx, input) != NULL;
    if (is_linked == (data == NULL))
        return RLX_OK;
    return rlx_fail(ctx, is_linked ? RLX_ERR_HANDLE : RLX_ERR_NULL, RLX_ABOUT_INPUT,
                    ctx->model->inputs[input].name, 0, is_linked ? 2 : 0);
}

// The first input that no handle gives, or n_inputs.
static inline uint32_t rlx_first_input(const rlx_ctx *ctx)
{
    uint32_t i = 0;
    while (i < ctx->model->n_inputs && rlx_giver(ctx, i) != NULL)
        i++;
    return i;
}

// Is all there that a run needs before inputs are written? Else RLX_ERR_PARAM.
static inline rlx_status rlx_check_params(const rlx_ctx *ctx)
{
    const char *const name = rlx_missing_param(ctx);
    return name == NULL ? RLX_OK : rlx_fail(ctx, RLX_ERR_PARAM, RLX_ABOUT_PARAM, name, 0, 0);
}

// The same before all inputs are copied: RLX_ERR_HANDLE, if a handle gives one.
static inline rlx_status rlx_check_copied(const rlx_ctx *ctx)
{
    uint32_t i;
    rlx_status status = rlx_check_params(ctx);
    for (i = 0; ctx->handles != NULL && i < ctx->model->n_inputs && status == RLX_OK; i++)
        status = rlx_check_given(ctx, i, ctx);
    return status;
}

// And in their slots the inputs, as far as that can be known? Else RLX_ERR_INPUT.
static inline rlx_status rlx_check_ready(const rlx_ctx *ctx)
{
    uint32_t first;
    if (ctx == NULL || ctx->model == NULL)
        return RLX_ERR_NULL;
    first = rlx_first_input(ctx);
    if ((ctx->inputs & (uint32_t)RLX_INPUTS_CONSUMED) != 0 && first < ctx->model->n_inputs)
        return rlx_fail(ctx, RLX_ERR_INPUT, RLX_ABOUT_INPUT, ctx->model->inputs[first].name, 0, 1);
    return rlx_check_params(ctx);
}

// A run has begun, on inputs that a call has copied (is_seen) or that the program has written.
static inline void rlx_consume(rlx_ctx *ctx, int is_seen)
{
    if ((ctx->inputs & (uint32_t)RLX_INPUTS_STRICT) != 0 ||
        (is_seen && (ctx->inputs & (uint32_t)RLX_INPUTS_HELD) == 0))
        ctx->inputs |= (uint32_t)RLX_INPUTS_CONSUMED;
}

// A run has ended.
static inline rlx_status rlx_end_run(rlx_ctx *ctx, rlx_status status)
{
    ctx->has_run = status == RLX_OK;
    return rlx_fail_run(ctx, status);
}

// The run itself, with what handles of the program give and take (rlx_links.h).
static inline rlx_status rlx_dispatch(rlx_ctx *ctx)
{
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
}

// A run on inputs that were just copied to their slots, by calls that have checked all else.
static inline rlx_status rlx_run_given(rlx_ctx *ctx)
{
    rlx_consume(ctx, 1);
    return rlx_dispatch(ctx);
}

// Runs on what is in the input slots. Where it fails, it has changed no state. RLX_ERR_INPUT: the call before
// that copied inputs ran on them, and nothing has been written since. What is written by way of pointers
// cannot be seen: a program that has called rlx_input once is trusted, unless it has called
// rlx_expect_inputs.
static inline rlx_status rlx_run(rlx_ctx *ctx)
{
    const rlx_status status = rlx_check_ready(ctx);
    if (status != RLX_OK)
        return status;
    rlx_consume(ctx, 0);
    return rlx_dispatch(ctx);
}

// is_strict 1: from now on rlx_input has to be called before each run in place, of any one input at least, or
// the run is RLX_ERR_INPUT; 0: back to what rlx_run says. In either case inputs count as written now.
static inline rlx_status rlx_expect_inputs(rlx_ctx *ctx, int is_strict)
{
    if (ctx == NULL || ctx->model == NULL)
        return RLX_ERR_NULL;
    ctx->inputs = is_strict ? (uint32_t)RLX_INPUTS_STRICT : 0u;
    return RLX_OK;
}

#ifdef __cplusplus
}
#endif

#endif
