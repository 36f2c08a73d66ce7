// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// Symbols of runtime-lite: sizes of a model that are set between runs (--dim seq=1..64, --dynamic). Pasted
// behind rlx.h where a model has some; no allocation, no globals.
//
// A symbol keeps its value until it is set again: runs, rlx_reset and other symbols do not change it. Inputs
// are given, and outputs come, dense in the shape that the symbols say at that time (rlx_input_shape,
// rlx_output_shape). Params and states have room for the largest sizes and keep that shape: only the elements
// within the sizes of a run count in it, and only these change.
#ifndef RLX_SYMBOLS_H
#define RLX_SYMBOLS_H

#include "rlx.h"

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
        return RLX_ERR_SYMBOL;
    s = &ctx->model->symbols->list[slot];
    return value >= s->min && value <= s->max && value % s->multiple == 0 ? RLX_OK : RLX_ERR_RANGE;
}

// Not while the context runs. What is in the input slots is in the shape of before, so set first, then write.
static inline rlx_status rlx_set_symbol(rlx_ctx *ctx, uint32_t slot, int64_t value)
{
    const rlx_status status = rlx_check_symbol(ctx, slot, value);
    if (status == RLX_OK)
        memcpy(ctx->state + ctx->model->symbols->offset + slot * sizeof value, &value, sizeof value);
    return status;
}

// The first n symbols at once; a symbol whose value is RLX_KEEP stays as it is, and so do those behind the
// n-th. All values are checked before any is set.
#define RLX_KEEP ((int64_t)-1)
static inline rlx_status rlx_set_symbols(rlx_ctx *ctx, const int64_t *values, uint32_t n)
{
    uint32_t i;
    rlx_status status =
        ctx == NULL || ctx->model == NULL || (values == NULL && n != 0) ? RLX_ERR_NULL : RLX_OK;
    for (i = 0; i < n && status == RLX_OK; i++) {
        status = rlx_check_symbol(ctx, i, values[i]);
        if (status == RLX_ERR_RANGE && values[i] == RLX_KEEP)
            status = RLX_OK;
    }
    for (i = 0; i < n && status == RLX_OK; i++)
        if (values[i] != RLX_KEEP)
            status = rlx_set_symbol(ctx, i, values[i]);
    return status;
}

static inline rlx_status rlx_get_symbol(const rlx_ctx *ctx, uint32_t slot, int64_t *value)
{
    if (ctx == NULL || ctx->model == NULL || value == NULL)
        return RLX_ERR_NULL;
    if (ctx->model->symbols == NULL || slot >= ctx->model->symbols->n)
        return RLX_ERR_SYMBOL;
    memcpy(value, ctx->state + ctx->model->symbols->offset + slot * sizeof *value, sizeof *value);
    return RLX_OK;
}

#ifdef __cplusplus
}
#endif

#endif
