// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: values that live across runs, parameters and states, by name. With --api core only models
// that have such values have these calls.
#ifndef RLX_VALUES_H
#define RLX_VALUES_H

#include "rlx_numbers.h"

#ifdef __cplusplus
extern "C" {
#endif

// Sets a parameter from bytes, which are of its own element type. (rlx_params.h: from those of others.)
static inline rlx_status rlx_set_param_bytes(rlx_ctx *ctx, const char *name, const void *data, size_t bytes)
{
    int slot;
    if (ctx == NULL || ctx->model == NULL || name == NULL || data == NULL)
        return rlx_fail_null(ctx);
    slot = rlx_find(ctx->model->params, ctx->model->n_params, name);
    if (slot < 0)
        return rlx_fail(ctx, RLX_ERR_NAME, RLX_ABOUT_PARAM, name, 0, 0);
    if (ctx->model->params[slot].bytes != bytes)
        return rlx_fail_size(ctx, RLX_ABOUT_PARAM, name, ctx->model->params[slot].bytes, bytes);
    memcpy(ctx->state + ctx->model->params[slot].offset, data, bytes);
    ctx->state[ctx->model->flags_offset + (size_t)slot] = 1;
    return rlx_put_state(ctx, ctx->model->params[slot].offset, bytes);
}

// n of them as floats of type t: to nearest, ties to even; beyond the largest: infinity; a NaN stays one.
static inline void rlx_put_floats(unsigned char *to, rlx_dtype t, const float *values, size_t n)
{
    size_t i;
    for (i = 0; t != RLX_F32 && i < n; i++) {
        const double wide = (double)values[i];
        const uint16_t half = (uint16_t)(t == RLX_F16 ? rlx_narrow(wide, 5, 10) : rlx_narrow(wide, 8, 7));
        if (t == RLX_F64)
            memcpy(to + i * sizeof wide, &wide, sizeof wide);
        else
            memcpy(to + i * sizeof half, &half, sizeof half);
    }
    if (t == RLX_F32 && n != 0)
        memcpy(to, values, n * sizeof *values);
}

// Sets a parameter of floats from f32: `count` elements, as many as it has (else RLX_ERR_SIZE). f16 and bf16
// get them rounded to nearest, ties to even, as infinity beyond the largest; f64 as they are. RLX_ERR_DTYPE:
// it has whole numbers, bools, or floats of 8 bits and fewer, which take bytes of their own
// (rlx_set_param_bytes).
static inline rlx_status rlx_set_param(rlx_ctx *ctx, const char *name, const float *values, size_t count)
{
    const rlx_tensor *t;
    int slot;
    if (ctx == NULL || ctx->model == NULL || name == NULL || values == NULL)
        return rlx_fail_null(ctx);
    slot = rlx_find(ctx->model->params, ctx->model->n_params, name);
    if (slot < 0)
        return rlx_fail(ctx, RLX_ERR_NAME, RLX_ABOUT_PARAM, name, 0, 0);
    t = &ctx->model->params[slot];
    if (!rlx_is_float(t->dtype))
        return rlx_fail(ctx, RLX_ERR_DTYPE, RLX_ABOUT_PARAM, name, (int64_t)t->dtype, (int64_t)RLX_F32);
    if (t->bytes / rlx_dtype_bytes(t->dtype) != count)
        return rlx_fail_size(ctx, RLX_ABOUT_PARAM, name, t->bytes / rlx_dtype_bytes(t->dtype), count);
    rlx_put_floats(ctx->state + t->offset, t->dtype, values, count);
    ctx->state[ctx->model->flags_offset + (size_t)slot] = 1;
    return rlx_put_state(ctx, t->offset, t->bytes);
}

// Finds a state for the calls below: *t gets it.
static inline rlx_status rlx_find_state(const rlx_ctx *ctx, const char *name, const void *data,
                                        const rlx_tensor **t)
{
    int slot;
    if (ctx == NULL || ctx->model == NULL)
        return RLX_ERR_NULL;
    if (data == NULL)
        return rlx_fail(ctx, RLX_ERR_NULL, RLX_ABOUT_STATE, name, 0, 0);
    slot = rlx_find(ctx->model->states, ctx->model->n_states, name);
    if (slot < 0)
        return rlx_fail(ctx, RLX_ERR_NAME, RLX_ABOUT_STATE, name, 0, 0);
    *t = &ctx->model->states[slot];
    return RLX_OK;
}

// Are bytes offset .. offset + bytes - 1 whole elements of it?
static inline rlx_status rlx_check_range(const rlx_ctx *ctx, rlx_subject about, const rlx_tensor *t,
                                         size_t offset, size_t bytes)
{
    const size_t one = rlx_dtype_bytes(t->dtype);
    if (offset % one != 0 || bytes % one != 0)
        return rlx_fail_size(ctx, about, t->name, one, offset % one != 0 ? offset : bytes);
    if (offset > t->bytes || bytes > t->bytes - offset)
        return rlx_fail(ctx, RLX_ERR_RANGE, about, t->name, (int64_t)t->bytes,
                        (int64_t)(offset > t->bytes ? offset : offset + bytes));
    return RLX_OK;
}

// Copies `bytes` bytes of a state out or in, in its own element type, from byte `offset` on. RLX_ERR_SIZE:
// offset or bytes is no multiple of an element. RLX_ERR_RANGE: it is not as long.
static inline rlx_status rlx_read_state_range(const rlx_ctx *ctx, const char *name, size_t offset, void *data,
                                              size_t bytes)
{
    const rlx_tensor *t = NULL;
    rlx_status status = rlx_find_state(ctx, name, data, &t);
    if (status == RLX_OK)
        status = rlx_check_range(ctx, RLX_ABOUT_STATE, t, offset, bytes);
    if (status == RLX_OK)
        status = rlx_get_state(ctx, t->offset + offset, bytes);
    if (status == RLX_OK && bytes != 0)
        memcpy(data, ctx->state + t->offset + offset, bytes);
    return status;
}

static inline rlx_status rlx_write_state_range(rlx_ctx *ctx, const char *name, size_t offset,
                                               const void *data, size_t bytes)
{
    const rlx_tensor *t = NULL;
    rlx_status status = rlx_find_state(ctx, name, data, &t);
    if (status == RLX_OK)
        status = rlx_check_range(ctx, RLX_ABOUT_STATE, t, offset, bytes);
    if (status != RLX_OK || bytes == 0)
        return status;
    memcpy(ctx->state + t->offset + offset, data, bytes);
    return rlx_put_state(ctx, t->offset + offset, bytes);
}

// Is there such a state, and has it so many bytes?
static inline rlx_status rlx_check_state(const rlx_ctx *ctx, const char *name, const void *data, size_t bytes)
{
    const rlx_tensor *t = NULL;
    const rlx_status status = rlx_find_state(ctx, name, data, &t);
    return status != RLX_OK || bytes == t->bytes
               ? status
               : rlx_fail_size(ctx, RLX_ABOUT_STATE, name, t->bytes, bytes);
}

// Copies a state out or in (save and restore).
static inline rlx_status rlx_read_state(const rlx_ctx *ctx, const char *name, void *data, size_t bytes)
{
    const rlx_status status = rlx_check_state(ctx, name, data, bytes);
    return status == RLX_OK ? rlx_read_state_range(ctx, name, 0, data, bytes) : status;
}

static inline rlx_status rlx_write_state(rlx_ctx *ctx, const char *name, const void *data, size_t bytes)
{
    const rlx_status status = rlx_check_state(ctx, name, data, bytes);
    return status == RLX_OK ? rlx_write_state_range(ctx, name, 0, data, bytes) : status;
}

#ifdef __cplusplus
}
#endif

#endif
