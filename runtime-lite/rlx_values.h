// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: values that live across runs, parameters and states, by name. Pasted behind rlx.h into every
// generated header.
#ifndef RLX_VALUES_H
#define RLX_VALUES_H

#include "rlx.h"

#ifdef __cplusplus
extern "C" {
#endif

// Sets a parameter from bytes, which are of its own element type. (rlx_params.h: from those of others.)
static inline rlx_status rlx_set_param_bytes(rlx_ctx *ctx, const char *name, const void *data, size_t bytes)
{
    int slot;
    if (ctx == NULL || ctx->model == NULL || name == NULL || data == NULL)
        return RLX_ERR_NULL;
    slot = rlx_find(ctx->model->params, ctx->model->n_params, name);
    if (slot < 0)
        return RLX_ERR_NAME;
    if (ctx->model->params[slot].bytes != bytes)
        return RLX_ERR_SIZE;
    memcpy(ctx->state + ctx->model->params[slot].offset, data, bytes);
    ctx->state[ctx->model->flags_offset + (size_t)slot] = 1;
    return rlx_put_state(ctx, ctx->model->params[slot].offset, bytes);
}

// Sets a parameter of f32 elements.
static inline rlx_status rlx_set_param(rlx_ctx *ctx, const char *name, const float *values, size_t count)
{
    int slot;
    if (ctx == NULL || ctx->model == NULL || name == NULL || values == NULL)
        return RLX_ERR_NULL;
    slot = rlx_find(ctx->model->params, ctx->model->n_params, name);
    if (slot >= 0 && ctx->model->params[slot].dtype != RLX_F32)
        return RLX_ERR_DTYPE;
    if (slot >= 0 && ctx->model->params[slot].bytes / sizeof(float) != count)
        return RLX_ERR_SIZE;
    return rlx_set_param_bytes(ctx, name, values, count * sizeof(float));
}

// Finds a state of that name and size for the two calls below.
static inline rlx_status rlx_find_state(const rlx_ctx *ctx, const char *name, const void *data, size_t bytes,
                                        int *slot)
{
    if (ctx == NULL || ctx->model == NULL || data == NULL)
        return RLX_ERR_NULL;
    *slot = rlx_find(ctx->model->states, ctx->model->n_states, name);
    if (*slot < 0)
        return RLX_ERR_NAME;
    return ctx->model->states[*slot].bytes == bytes ? RLX_OK : RLX_ERR_SIZE;
}

// Copies a state out or in (save and restore).
static inline rlx_status rlx_read_state(const rlx_ctx *ctx, const char *name, void *data, size_t bytes)
{
    int slot = -1;
    rlx_status status = rlx_find_state(ctx, name, data, bytes, &slot);
    if (status == RLX_OK)
        status = rlx_get_state(ctx, ctx->model->states[slot].offset, bytes);
    if (status == RLX_OK)
        memcpy(data, ctx->state + ctx->model->states[slot].offset, bytes);
    return status;
}

static inline rlx_status rlx_write_state(rlx_ctx *ctx, const char *name, const void *data, size_t bytes)
{
    int slot = -1;
    rlx_status status = rlx_find_state(ctx, name, data, bytes, &slot);
    if (status != RLX_OK)
        return status;
    memcpy(ctx->state + ctx->model->states[slot].offset, data, bytes);
    return rlx_put_state(ctx, ctx->model->states[slot].offset, bytes);
}

#ifdef __cplusplus
}
#endif

#endif
