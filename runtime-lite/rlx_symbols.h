// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// Symbols of runtime-lite: sizes of a model that are set between runs (--dim seq=1..64, --dynamic). Pasted
// after rlx.h where a model has some; no allocation, no globals.
//
// A symbol keeps its value until it is set again: runs, rlx_reset and other symbols do not change it. Inputs
// are given, and outputs come, dense in the shape that the symbols say at that time (rlx_input_shape,
// rlx_output_shape). Params and states have room for the largest sizes and keep that shape: only the elements
// within the sizes of a run count in it, and only these change.
#ifndef RLX_SYMBOLS_H
#define RLX_SYMBOLS_H

#include "rlx_calls.h"

#ifdef __cplusplus
extern "C" {
#endif

// Of sizes as functions of symbols: division that rounds down and its remainder (b > 0), the smaller and the
// larger.
static inline int64_t rlx_dim_floor(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static inline int64_t rlx_dim_mod(int64_t a, int64_t b)
{
    return a % b < 0 ? a % b + b : a % b;
}

static inline int64_t rlx_dim_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t rlx_dim_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

// Slot of a symbol by its name, or -1.
static inline int rlx_find_symbol(const rlx_model *model, const char *name)
{
    uint32_t i;
    if (model == NULL || name == NULL)
        return -1;
    for (i = 0; model->symbols != NULL && i < model->symbols->n; i++)
        if (strcmp(model->symbols->list[i].name, name) == 0)
            return (int)i;
    return -1;
}

// Would the symbol take this value?
static inline rlx_status rlx_check_symbol(const rlx_ctx *ctx, uint32_t slot, int64_t value)
{
    const rlx_symbol *s;
    if (ctx == NULL || ctx->model == NULL)
        return RLX_ERR_NULL;
    if (ctx->model->symbols == NULL || slot >= ctx->model->symbols->n)
        return rlx_fail(ctx, RLX_ERR_SYMBOL, RLX_ABOUT_SYMBOL, NULL,
                        ctx->model->symbols == NULL ? 0 : (int64_t)ctx->model->symbols->n, (int64_t)slot);
    s = &ctx->model->symbols->list[slot];
    if (value >= s->min && value <= s->max && value % s->multiple == 0)
        return RLX_OK;
    return rlx_fail(ctx, RLX_ERR_RANGE, RLX_ABOUT_SYMBOL, s->name, value < s->min ? s->min : s->max, value);
}

static inline int64_t rlx_symbol_value(const rlx_ctx *ctx, uint32_t slot)
{
    int64_t value;
    memcpy(&value, ctx->state + ctx->model->symbols->offset + slot * sizeof value, sizeof value);
    return value;
}

// The variant for the values that symbols slot, slot + 1 ... will have; RLX_KEEP: what they have now. NULL:
// there is none for all of them together. Symbols that are pinned to a bucket count as large as it is.
#define RLX_KEEP ((int64_t)-1)
static inline const rlx_model *rlx_variant(const rlx_ctx *ctx, uint32_t slot, const int64_t *values,
                                           uint32_t n)
{
    const rlx_buckets *b = ctx->model->buckets;
    size_t cell = 0;
    uint32_t i;
    for (i = 0; b != NULL && i < b->n_symbols; i++) {
        const rlx_bucket_symbol *s = &b->symbols[i];
        const uint32_t at = s->slot - slot; // wraps around below slot
        const int64_t value = at < n && values[at] != RLX_KEEP ? values[at]
                              : (ctx->pinned >> i & 1u) ? b->sizes[ctx->model->bucket * b->n_symbols + i]
                                                        : rlx_symbol_value(ctx, s->slot);
        uint32_t rung = 0;
        while (rung < s->n && s->sizes[rung] < value)
            rung++;
        if (rung == s->n)
            return NULL;
        cell = cell * s->n + rung;
    }
    if (b == NULL)
        return ctx->model;
    return b->cells[cell] == 255u ? NULL : b->models[b->cells[cell]];
}

#if RLX_HAS_QUEUE
// Before the bucket changes: a committed run brings its outputs to where inputs of another bucket may be, and
// handles take them in the sizes of the run.
static inline void rlx_leave_variant(rlx_ctx *ctx, const rlx_model *next)
{
    if ((ctx->model != next || ctx->handles != NULL) && ctx->committed != 0)
        rlx_await_run(ctx);
}
#endif

// The value is in the range of the symbol, but no bucket is for all sizes together.
static inline rlx_status rlx_fail_bucket(const rlx_ctx *ctx, uint32_t slot, int64_t value)
{
    return rlx_fail(ctx, RLX_ERR_RANGE, RLX_ABOUT_SYMBOL, ctx->model->symbols->list[slot].name,
                    rlx_symbol_value(ctx, slot), value);
}

// Checks all values before any is set.
static inline rlx_status rlx_set_from(rlx_ctx *ctx, uint32_t slot, const int64_t *values, uint32_t n)
{
    uint32_t i;
    const rlx_model *model;
    if (ctx == NULL || ctx->model == NULL || (values == NULL && n != 0))
        return rlx_fail_null(ctx);
    for (i = 0; i < n; i++) {
        const int stays =
            values[i] == RLX_KEEP && ctx->model->symbols != NULL && slot + i < ctx->model->symbols->n;
        const rlx_status status = stays ? RLX_OK : rlx_check_symbol(ctx, slot + i, values[i]);
        if (status != RLX_OK)
            return status;
    }
    model = rlx_variant(ctx, slot, values, n);
    if (model == NULL)
        return rlx_fail_bucket(ctx, slot, values[0]);
#if RLX_HAS_QUEUE
    rlx_leave_variant(ctx, model);
#endif
    for (i = 0; i < n; i++)
        if (values[i] != RLX_KEEP)
            memcpy(ctx->state + model->symbols->offset + (slot + i) * sizeof *values, &values[i],
                   sizeof *values);
    for (i = 0; model->buckets != NULL && i < model->buckets->n_symbols; i++) {
        const uint32_t at = model->buckets->symbols[i].slot - slot;
        if (at < n && values[at] != RLX_KEEP)
            ctx->pinned &= ~((uint32_t)1 << i);
    }
    ctx->model = model;
    return rlx_put_state(ctx, model->symbols == NULL ? 0 : model->symbols->offset + slot * sizeof *values,
                         n * sizeof *values);
}

// Not while the context runs. What is in the input slots is in the shape of before, so set first, then write.
// Of a model with buckets, runs take the smallest that fits from then on; RLX_ERR_RANGE also where none does.
static inline rlx_status rlx_set_symbol(rlx_ctx *ctx, uint32_t slot, int64_t value)
{
    const rlx_status status = rlx_check_symbol(ctx, slot, value);
    return status != RLX_OK ? status : rlx_set_from(ctx, slot, &value, 1);
}

// The first n symbols at once; a symbol whose value is RLX_KEEP stays as it is, and so do those after the
// n-th. All values are checked before any is set.
static inline rlx_status rlx_set_symbols(rlx_ctx *ctx, const int64_t *values, uint32_t n)
{
    return rlx_set_from(ctx, 0, values, n);
}

static inline rlx_status rlx_get_symbol(const rlx_ctx *ctx, uint32_t slot, int64_t *value)
{
    if (ctx == NULL || ctx->model == NULL || value == NULL)
        return rlx_fail_null(ctx);
    if (ctx->model->symbols == NULL || slot >= ctx->model->symbols->n)
        return rlx_fail(ctx, RLX_ERR_SYMBOL, RLX_ABOUT_SYMBOL, NULL,
                        ctx->model->symbols == NULL ? 0 : (int64_t)ctx->model->symbols->n, (int64_t)slot);
    memcpy(value, ctx->state + ctx->model->symbols->offset + slot * sizeof *value, sizeof *value);
    return RLX_OK;
}

#ifdef __cplusplus
}
#endif

#endif
