// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// Buckets and active extents of runtime-lite. Pasted after rlx_symbols.h where a model has sizes that are
// set between runs; no allocation, no globals.
//
// A model compiled with --bucket has a variant of its code for every bucket. They share weights, params,
// states (which keep the layout of the largest bucket, so that what one variant has written the next one
// reads) and one arena. Setting symbols chooses the smallest bucket that fits, from a table. Nothing is ever
// padded with values: a variant ends its loops at the sizes that are set, and what lies beyond is masked.
// Other places of inputs and outputs in the arena: ask for them again (rlx_input, rlx_output) once the bucket
// may have changed.
#ifndef RLX_BUCKETS_H
#define RLX_BUCKETS_H

#include "rlx_symbols.h"

#ifdef __cplusplus
extern "C" {
#endif

// The bucket that runs take now, 0 the smallest; -1: the model has none.
static inline int rlx_bucket(const rlx_ctx *ctx)
{
    return ctx == NULL || ctx->model == NULL || ctx->model->buckets == NULL ? -1 : (int)ctx->model->bucket;
}

// Sets the symbol to `actual` in the bucket that fits `upper`, and stays there, whatever `actual` is next
// time: inputs and outputs keep their places, and only what is live is computed. Holds until the symbol is
// set again, by this or another call; setting other symbols does not end it. Inputs are given, and outputs
// come, dense in the actual shape; elements beyond have no meaning. RLX_ERR_RANGE, and nothing changes, where
// the symbol cannot have the value, actual > upper, or no bucket fits upper.
static inline rlx_status rlx_set_active_extent(rlx_ctx *ctx, uint32_t slot, int64_t actual, int64_t upper)
{
    uint32_t i;
    const rlx_model *model;
    const rlx_status status = rlx_check_symbol(ctx, slot, actual);
    if (status != RLX_OK)
        return status;
    model = actual > upper || upper > ctx->model->symbols->list[slot].max ? NULL
                                                                          : rlx_variant(ctx, slot, &upper, 1);
    if (model == NULL)
        return rlx_fail_bucket(ctx, slot, upper);
#if RLX_HAS_QUEUE
    rlx_leave_variant(ctx, model);
#endif
    memcpy(ctx->state + model->symbols->offset + slot * sizeof actual, &actual, sizeof actual);
    for (i = 0; model->buckets != NULL && i < model->buckets->n_symbols; i++)
        if (model->buckets->symbols[i].slot == slot)
            ctx->pinned |= (uint32_t)1 << i;
    ctx->model = model;
    return rlx_put_state(ctx, model->symbols->offset + slot * sizeof actual, sizeof actual);
}

#define RLX_PADDED_SYMBOLS 64u

// What must not be missing for a run, before anything changes.
static inline rlx_status rlx_check_padded(const rlx_ctx *ctx, const int64_t *sizes, uint32_t n,
                                          const void *const *inputs, void *const *outputs)
{
    uint32_t i;
    rlx_status status = RLX_OK;
    if (ctx == NULL || ctx->model == NULL || (sizes == NULL && n != 0) ||
        (inputs == NULL && ctx->model->n_inputs != 0) || (outputs == NULL && ctx->model->n_outputs != 0))
        return rlx_fail_null(ctx);
    for (i = 0; i < ctx->model->n_inputs && status == RLX_OK; i++)
        status = rlx_check_given(ctx, i, inputs[i]);
    if (status != RLX_OK)
        return status;
    if (n > RLX_PADDED_SYMBOLS)
        return rlx_fail(ctx, RLX_ERR_SYMBOL, RLX_ABOUT_SYMBOL, NULL, (int64_t)RLX_PADDED_SYMBOLS,
                        (int64_t)n - 1);
    return rlx_check_params(ctx);
}

// One run at these sizes (as rlx_set_symbols has them, at most RLX_PADDED_SYMBOLS), which stay set: inputs[i]
// is dense in the shape that they give it, outputs[i] (NULL: not wanted) gets the elements of its shape.
// Nothing has to be padded, and nothing of an earlier run shows. Where the run fails, sizes and bucket are
// what they were.
static inline rlx_status rlx_run_padded(rlx_ctx *ctx, const int64_t *sizes, uint32_t n,
                                        const void *const *inputs, void *const *outputs)
{
    int64_t before[RLX_PADDED_SYMBOLS];
    rlx_ctx old;
    uint32_t i;
    rlx_status status = rlx_check_padded(ctx, sizes, n, inputs, outputs);
    if (status != RLX_OK)
        return status;
    old = *ctx;
    for (i = 0; old.model->symbols != NULL && i < n && i < old.model->symbols->n; i++)
        before[i] = rlx_symbol_value(ctx, i);
    status = rlx_set_symbols(ctx, sizes, n);
    if (status != RLX_OK)
        return status;
    status = rlx_run_slots(ctx, inputs, NULL);
    if (status != RLX_OK) {
        if (n != 0)
            memcpy(ctx->state + old.model->symbols->offset, before, n * sizeof *before);
        ctx->pinned = old.pinned;
        ctx->model = old.model;
        if (n != 0)
            (void)rlx_put_state(ctx, old.model->symbols->offset, n * sizeof *before);
        return status;
    }
    for (i = 0; i < ctx->model->n_outputs; i++)
        if (outputs[i] != NULL)
            memcpy(outputs[i], rlx_output(ctx, i), rlx_output_bytes(ctx, i));
    return RLX_OK;
}

#ifdef __cplusplus
}
#endif

#endif
