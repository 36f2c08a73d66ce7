// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: parameters set from values of other element types, from integers with scales, from GGML
// blocks, and in parts. Of models that are compiled with --api full. No allocation,
// no libm.
//
// Every call checks all of its arguments first; one that fails leaves the parameter, and whether it was ever
// set, as they were. What depends on parameters only is made again by the next run.
#ifndef RLX_PARAMS_H
#define RLX_PARAMS_H

#include "rlx_typed.h"
#include "rlx_states.h"
#include "rlx_values.h"

#ifdef __cplusplus
extern "C" {
#endif

// The parameter of that name, and where its value is. RLX_ERR_NULL or RLX_ERR_NAME.
static inline rlx_status rlx_find_param(const rlx_ctx *ctx, const char *name, const void *data, int *slot)
{
    if (ctx == NULL || ctx->model == NULL || name == NULL || data == NULL)
        return rlx_fail_null(ctx);
    *slot = rlx_find(ctx->model->params, ctx->model->n_params, name);
    return *slot < 0 ? rlx_fail(ctx, RLX_ERR_NAME, RLX_ABOUT_PARAM, name, 0, 0) : RLX_OK;
}

static inline size_t rlx_param_count(const rlx_tensor *t)
{
    return t->bytes / rlx_dtype_bytes(t->dtype);
}

// The parameter has its value in the state block.
static inline rlx_status rlx_mark_param(rlx_ctx *ctx, int slot)
{
    ctx->state[ctx->model->flags_offset + (size_t)slot] = 1;
    return rlx_put_state(ctx, ctx->model->params[slot].offset, ctx->model->params[slot].bytes);
}

// Sets a parameter from elements of type `dtype`: its own, or any of f32, f16, bf16 and f64 where its own is
// one of these too (rounded as rlx_typed.h says). RLX_ERR_DTYPE: another type. RLX_ERR_SIZE: `bytes` are not
// as many elements as the parameter has.
static inline rlx_status rlx_set_param_typed(rlx_ctx *ctx, const char *name, const void *data, size_t bytes,
                                             rlx_dtype dtype)
{
    const rlx_tensor *t;
    int slot = -1;
    const rlx_status status = rlx_find_param(ctx, name, data, &slot);
    if (status != RLX_OK)
        return status;
    t = &ctx->model->params[slot];
    if (t->dtype != dtype && !(rlx_is_float(t->dtype) && rlx_is_float(dtype)))
        return rlx_fail(ctx, RLX_ERR_DTYPE, RLX_ABOUT_PARAM, name, (int64_t)t->dtype, (int64_t)dtype);
    if (bytes % rlx_dtype_bytes(dtype) != 0 || bytes / rlx_dtype_bytes(dtype) != rlx_param_count(t))
        return rlx_fail_size(ctx, RLX_ABOUT_PARAM, name, rlx_param_count(t) * rlx_dtype_bytes(dtype), bytes);
    rlx_convert(ctx->state + t->offset, t->dtype, data, dtype, rlx_param_count(t));
    return rlx_mark_param(ctx, slot);
}

// Sets a parameter of floats from `count` integers of 8 bits: element i becomes values[i] * scales[0] where
// n_scales is 1, else values[i] * scales[index of i along `axis`], of which n_scales are then as many as that
// axis is long (a negative axis counts from the last one). The product is computed in f64 and rounded once,
// to the parameter's type. RLX_ERR_DTYPE: the parameter has no floats. RLX_ERR_SIZE: count or n_scales is
// wrong. RLX_ERR_RANGE: there is no such axis.
static inline rlx_status rlx_set_param_scaled(rlx_ctx *ctx, const char *name, const int8_t *values,
                                              size_t count, const float *scales, size_t n_scales, int axis)
{
    const rlx_tensor *t;
    rlx_number number = {1, 1, 0, 0};
    size_t i, inner = 1;
    int slot = -1, a;
    const rlx_status status = rlx_find_param(ctx, name, values, &slot);
    if (status != RLX_OK || scales == NULL)
        return status != RLX_OK ? status : rlx_fail_null(ctx);
    t = &ctx->model->params[slot];
    if (!rlx_is_float(t->dtype))
        return rlx_fail(ctx, RLX_ERR_DTYPE, RLX_ABOUT_PARAM, name, (int64_t)t->dtype, (int64_t)RLX_I8);
    if (count != rlx_param_count(t) || n_scales == 0)
        return rlx_fail_size(ctx, RLX_ABOUT_PARAM, name, rlx_param_count(t), n_scales == 0 ? 0 : count);
    if (n_scales != 1) {
        axis += axis < 0 ? t->rank : 0;
        if (axis < 0 || axis >= t->rank)
            return rlx_fail(ctx, RLX_ERR_RANGE, RLX_ABOUT_PARAM, name, (int64_t)t->rank - 1, (int64_t)axis);
        if (n_scales != (size_t)t->shape[axis])
            return rlx_fail_size(ctx, RLX_ABOUT_PARAM, name, (size_t)t->shape[axis], n_scales);
        for (a = axis + 1; a < t->rank; a++)
            inner *= (size_t)t->shape[a];
    }
    for (i = 0; i < count; i++) {
        number.f = (double)values[i] * (double)scales[n_scales == 1 ? 0 : i / inner % n_scales];
        rlx_put_number(ctx->state + t->offset, i, t->dtype, number);
    }
    return rlx_mark_param(ctx, slot);
}

// Overwrites `bytes` bytes of a parameter, in its own element type, from byte `offset` on. RLX_ERR_PARAM: it
// was never set. RLX_ERR_SIZE: offset or bytes is no multiple of an element. RLX_ERR_RANGE: it is not as
// long.
static inline rlx_status rlx_set_param_range(rlx_ctx *ctx, const char *name, size_t offset, const void *data,
                                             size_t bytes)
{
    const rlx_tensor *t;
    rlx_status ranged;
    int slot = -1;
    const rlx_status status = rlx_find_param(ctx, name, data, &slot);
    if (status != RLX_OK)
        return status;
    t = &ctx->model->params[slot];
    if (ctx->state[ctx->model->flags_offset + (size_t)slot] == 0)
        return rlx_fail(ctx, RLX_ERR_PARAM, RLX_ABOUT_PARAM, name, 0, 0);
    ranged = rlx_check_range(ctx, RLX_ABOUT_PARAM, t, offset, bytes);
    if (ranged != RLX_OK)
        return ranged;
    memcpy(ctx->state + t->offset + offset, data, bytes);
    ctx->state[ctx->model->flags_offset + (size_t)slot] = 1;
    return rlx_put_state(ctx, t->offset + offset, bytes); // the rest may be newer on a device
}

// Blocks of 32 elements as GGML stores them; d is an f16:
// * RLX_Q8_0, 34 bytes: d, then 32 i8 q; element i is q[i] * d;
// * RLX_Q4_0, 18 bytes: d, then 16 bytes b; element i is ((b[i] & 15) - 8) * d, element 16 + i ((b[i] >> 4) -
// 8) * d.
// Of the others, only what they are called and how many bytes a block has is known here.
typedef enum rlx_blocks {
    RLX_Q8_0,
    RLX_Q4_0,
    RLX_Q4_1,
    RLX_Q5_0,
    RLX_Q5_1,
    RLX_Q2_K,
    RLX_Q3_K,
    RLX_Q4_K,
    RLX_Q5_K,
    RLX_Q6_K,
    RLX_IQ4_NL,
    RLX_IQ4_XS,
    RLX_TQ2_0,
    RLX_MXFP4,
    RLX_BLOCK_KINDS
} rlx_blocks;

// 0: there is no such kind.
static inline size_t rlx_block_bytes(rlx_blocks kind)
{
    static const unsigned char bytes[RLX_BLOCK_KINDS] = {34,  18,  20,  22, 24,  84, 110,
                                                         144, 176, 210, 18, 136, 66, 17};
    return (unsigned)kind < (unsigned)RLX_BLOCK_KINDS ? bytes[kind] : 0u;
}

static inline int rlx_block_value(const unsigned char *q, rlx_blocks kind, unsigned i)
{
    if (kind == RLX_Q8_0)
        return (int)q[i] - (q[i] >= 128 ? 256 : 0);
    return (int)(i < 16 ? q[i] & 15u : (unsigned)q[i - 16] >> 4) - 8;
}

// Sets a parameter from such blocks. One of bytes whose last axis is a block of the kind, as the graph's
// block_matmul and block_decode read it, takes them as they are. One of floats takes decoded elements, of
// RLX_Q8_0 and RLX_Q4_0 only, in row-major order, so that its last axis is a multiple of 32; products are
// rounded once, to the parameter's type. RLX_ERR_DTYPE: the parameter cannot take this kind. RLX_ERR_SIZE:
// the number of bytes, or the last axis of a parameter of floats, does not fit.
static inline rlx_status rlx_set_param_blocks(rlx_ctx *ctx, const char *name, const void *data, size_t bytes,
                                              rlx_blocks kind)
{
    const rlx_tensor *t;
    const unsigned char *block = (const unsigned char *)data;
    rlx_number number = {1, 1, 0, 0}, scale;
    const size_t size = rlx_block_bytes(kind);
    size_t i, count;
    int slot = -1;
    const rlx_status status = rlx_find_param(ctx, name, data, &slot);
    if (status != RLX_OK)
        return status;
    t = &ctx->model->params[slot];
    if (t->dtype == RLX_U8 && t->rank > 1 && size != 0 && t->shape[t->rank - 1] == (int64_t)size) {
        if (bytes != t->bytes)
            return rlx_fail_size(ctx, RLX_ABOUT_PARAM, name, t->bytes, bytes);
        memcpy(ctx->state + t->offset, data, bytes);
        return rlx_mark_param(ctx, slot);
    }
    if (!rlx_is_float(t->dtype) || (kind != RLX_Q8_0 && kind != RLX_Q4_0))
        return rlx_fail(ctx, RLX_ERR_DTYPE, RLX_ABOUT_PARAM, name, (int64_t)t->dtype, (int64_t)RLX_U8);
    count = rlx_param_count(t);
    if (t->rank == 0 || t->shape[t->rank - 1] % 32 != 0 || bytes % size != 0 || bytes / size != count / 32u)
        return rlx_fail_size(ctx, RLX_ABOUT_PARAM, name, count / 32u * size, bytes);
    for (i = 0; i < count; i++) {
        const unsigned char *at = block + i / 32u * size;
        scale = rlx_get_number(at, 0, RLX_F16);
        number.f = (double)rlx_block_value(at + 2, kind, (unsigned)(i % 32u)) * scale.f;
        rlx_put_number(ctx->state + t->offset, i, t->dtype, number);
    }
    return rlx_mark_param(ctx, slot);
}

#ifdef __cplusplus
}
#endif

#endif
