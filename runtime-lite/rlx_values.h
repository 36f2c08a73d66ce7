// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: the values of parameters. Of models that have some.
#ifndef RLX_VALUES_H
#define RLX_VALUES_H

#include "rlx_numbers.h"

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

#ifdef __cplusplus
}
#endif

#endif
