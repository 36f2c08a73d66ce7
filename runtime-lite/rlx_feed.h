// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: an input that the program gives row by row (--stream-input). Of models with such an input.
#ifndef RLX_FEED_H
#define RLX_FEED_H

#include "rlx_run.h"

#ifdef __cplusplus
extern "C" {
#endif

// Rows of its input that the context can still take before the next run.
static inline uint32_t rlx_rows_left(const rlx_ctx *ctx)
{
    const rlx_rows *r = ctx != NULL && ctx->model != NULL ? ctx->model->rows : NULL;
    return r == NULL || ctx->n_fed > r->n ? 0 : r->n - ctx->n_fed;
}

// Does the program give another input than the one that comes row by row?
static inline int rlx_has_others(const rlx_ctx *ctx)
{
#if RLX_HAS_QUEUE
    uint32_t i;
    for (i = 0; i < ctx->model->n_inputs; i++)
        if (i != ctx->model->rows->input && rlx_giver(ctx, i) == NULL)
            return 1;
    return 0;
#else
    return ctx->model->n_inputs != 1;
#endif
}

// Takes the next n rows, any number, and computes as far as they allow; `rows` may be used again then. Once
// all are given, rlx_run does the rest. All other inputs are written before the first row, with which handles
// of the program give theirs, and outputs of the run before are gone with it. RLX_ERR_SIZE: there are more
// rows than the input has left, of which none was taken; RLX_ERR_INPUT: the context is in the middle of a
// call; RLX_ERR_HANDLE: a handle gives this input.
static inline rlx_status rlx_feed_rows(rlx_ctx *ctx, const void *rows, size_t n)
{
    const rlx_rows *r = ctx != NULL && ctx->model != NULL ? ctx->model->rows : NULL;
    if (r == NULL || (rows == NULL && n != 0))
        return rlx_fail_null(ctx);
    if (ctx->n_fed == RLX_FEEDING)
        return rlx_fail(ctx, RLX_ERR_INPUT, RLX_ABOUT_INPUT, ctx->model->inputs[r->input].name, 0, 2);
    if (n > rlx_rows_left(ctx))
        return rlx_fail_size(ctx, RLX_ABOUT_INPUT, ctx->model->inputs[r->input].name,
                             rlx_rows_left(ctx) * r->bytes, n * r->bytes);
#if RLX_HAS_PARAMS
    if (rlx_check_params(ctx) != RLX_OK)
        return RLX_ERR_PARAM;
#endif
    if (n == 0)
        return RLX_OK;
#if RLX_HAS_QUEUE
    if (rlx_check_given(ctx, r->input, rows) != RLX_OK)
        return RLX_ERR_HANDLE;
    if (ctx->n_fed == 0 && ctx->links != NULL) {
        const rlx_status status = ctx->links->give(ctx);
        if (status != RLX_OK)
            return status;
    }
#endif
    if (!rlx_has_others(ctx))
        ctx->inputs &= ~RLX_INPUTS_CONSUMED;
    return r->take(ctx, (const unsigned char *)rows, (uint32_t)n);
}

// Forgets the rows that were given since the last run: the next one is the first.
static inline rlx_status rlx_restart_rows(rlx_ctx *ctx)
{
    if (ctx == NULL || ctx->model == NULL || ctx->model->rows == NULL)
        return rlx_fail_null(ctx);
    if (ctx->n_fed == RLX_FEEDING)
        return rlx_fail(ctx, RLX_ERR_INPUT, RLX_ABOUT_INPUT,
                        ctx->model->inputs[ctx->model->rows->input].name, 0, 2);
    ctx->n_fed = 0;
    return RLX_OK;
}

#ifdef __cplusplus
}
#endif

#endif
