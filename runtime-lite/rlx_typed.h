// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: inputs, outputs and parameters in other element types than the model's, converted at the
// boundary. Of models that are compiled with --api full. No allocation, no libm.
//
// Conversions, each of one rounding:
// * between f64, f32, f16 and bf16: to nearest, ties to even; beyond the largest: infinity; a NaN stays one;
// * whole numbers to floats: to nearest, ties to even;
// * floats to whole numbers: towards zero; what does not fit becomes the nearest limit, a NaN 0;
// * whole numbers to whole numbers: modulo 2 to the number of bits;
// * to bool: 1 where the value is not 0 (a NaN is not); from bool: 0 or 1.
// Types that have one byte an element only as storage (8-bit floats, 4 bits and fewer) go to themselves only.
#ifndef RLX_TYPED_H
#define RLX_TYPED_H

#include "rlx_calls.h"
#include "rlx_numbers.h"

#ifdef __cplusplus
extern "C" {
#endif

// A value of any type: a float, or a whole number in two's complement.
typedef struct rlx_number {
    int is_float, is_signed;
    double f;
    uint64_t u;
} rlx_number;

// The value of the bits that rlx_narrow makes; every one is a double.
static inline double rlx_widen(uint32_t bits, int exponent, int mantissa)
{
    const uint32_t sign = bits >> (exponent + mantissa) & 1u, e = bits >> mantissa & ((1u << exponent) - 1u);
    const uint32_t m = bits & ((1u << mantissa) - 1u);
    uint64_t u;
    double v;
    if (e == 0) { // m * 2^(1 - bias - mantissa)
        u = (uint64_t)(1023 + 2 - (1 << (exponent - 1)) - mantissa) << 52;
        memcpy(&v, &u, sizeof v);
        v *= (double)m;
        return sign != 0u ? -v : v;
    }
    u = e == (1u << exponent) - 1u ? UINT64_C(0x7ff) : (uint64_t)e + 1024u - (UINT64_C(1) << (exponent - 1));
    u = (uint64_t)sign << 63 | u << 52 | (uint64_t)m << (52 - mantissa);
    memcpy(&v, &u, sizeof v);
    return v;
}

// Is it a type that the conversions below know?
static inline int rlx_has_numbers(rlx_dtype t)
{
    return (unsigned)t <= (unsigned)RLX_BOOL;
}

#define RLX_TAKE(type)                                                                                       \
    do {                                                                                                     \
        type value;                                                                                          \
        memcpy(&value, (const unsigned char *)p + i * sizeof value, sizeof value);                           \
        n.f = (double)value;                                                                                 \
        n.u = (uint64_t)value;                                                                               \
    } while (0)

// Element i of an array.
static inline rlx_number rlx_get_number(const void *p, size_t i, rlx_dtype t)
{
    rlx_number n = {0, 1, 0, 0};
    uint16_t half;
    float single;
    switch (t) {
    case RLX_F64:
        memcpy(&n.f, (const unsigned char *)p + i * 8u, 8);
        n.is_float = 1;
        break;
    case RLX_F32:
        memcpy(&single, (const unsigned char *)p + i * 4u, 4);
        n.f = (double)single;
        n.is_float = 1;
        break;
    case RLX_F16:
    case RLX_BF16:
        memcpy(&half, (const unsigned char *)p + i * 2u, 2);
        n.f = t == RLX_F16 ? rlx_widen(half, 5, 10) : rlx_widen(half, 8, 7);
        n.is_float = 1;
        break;
    case RLX_I64:
        RLX_TAKE(int64_t);
        break;
    case RLX_I32:
        RLX_TAKE(int32_t);
        break;
    case RLX_I16:
        RLX_TAKE(int16_t);
        break;
    case RLX_I8:
        RLX_TAKE(int8_t);
        break;
    case RLX_U64:
        RLX_TAKE(uint64_t);
        n.is_signed = 0;
        break;
    case RLX_U32:
        RLX_TAKE(uint32_t);
        break;
    case RLX_U16:
        RLX_TAKE(uint16_t);
        break;
    case RLX_U8:
        RLX_TAKE(uint8_t);
        break;
    case RLX_BOOL:
        n.u = ((const unsigned char *)p)[i] != 0;
        break;
    default:
        break;
    }
    return n;
}
#undef RLX_TAKE

// Towards zero, into [-2^(bits-1), 2^(bits-1)) or [0, 2^bits); NaN: 0.
static inline uint64_t rlx_truncate(double v, int bits, int is_signed)
{
    const double high = (double)(UINT64_C(1) << (bits - 1)) * (is_signed ? 1.0 : 2.0);
    const uint64_t top = UINT64_C(1) << (bits - 1);
    if (v != v)
        return 0;
    if (v >= high)
        return is_signed ? top - 1u : top - 1u + top;
    if (!is_signed)
        return v <= 0 ? 0 : (uint64_t)v;
    return v < -high ? 0u - top : (uint64_t)(int64_t)v;
}

static inline void rlx_put_whole(void *p, size_t i, size_t bytes, int is_signed, rlx_number n)
{
    const uint64_t u = n.is_float ? rlx_truncate(n.f, (int)bytes * 8, is_signed) : n.u;
    const uint32_t u4 = (uint32_t)u;
    const uint16_t u2 = (uint16_t)u;
    const uint8_t u1 = (uint8_t)u;
    memcpy((unsigned char *)p + i * bytes,
           bytes == 8   ? (const void *)&u
           : bytes == 4 ? (const void *)&u4
           : bytes == 2 ? (const void *)&u2
                        : (const void *)&u1,
           bytes);
}

static inline void rlx_put_number(void *p, size_t i, rlx_dtype t, rlx_number n)
{
    float single = n.is_float ? (float)n.f : n.is_signed ? (float)(int64_t)n.u : (float)n.u;
    const double f = n.is_float ? n.f : n.is_signed ? (double)(int64_t)n.u : (double)n.u;
    uint16_t half;
    switch (t) {
    case RLX_F64:
        memcpy((unsigned char *)p + i * 8u, &f, 8);
        break;
    case RLX_F32:
        memcpy((unsigned char *)p + i * 4u, &single, 4);
        break;
    case RLX_F16:
    case RLX_BF16:
        half = (uint16_t)(t == RLX_F16 ? rlx_narrow(f, 5, 10) : rlx_narrow(f, 8, 7));
        memcpy((unsigned char *)p + i * 2u, &half, 2);
        break;
    case RLX_BOOL:
        ((unsigned char *)p)[i] = n.is_float ? n.f < 0 || n.f > 0 || n.f != n.f : n.u != 0;
        break;
    default:
        rlx_put_whole(p, i, rlx_dtype_bytes(t), t == RLX_I64 || t == RLX_I32 || t == RLX_I16 || t == RLX_I8,
                      n);
    }
}

// n elements; the two arrays do not overlap. RLX_ERR_DTYPE: there is no such conversion.
static inline rlx_status rlx_convert(void *to, rlx_dtype to_type, const void *from, rlx_dtype from_type,
                                     size_t n)
{
    size_t i;
    if ((to == NULL || from == NULL) && n != 0)
        return RLX_ERR_NULL;
    if (to_type == from_type) {
        memcpy(to, from, n * rlx_dtype_bytes(to_type));
        return RLX_OK;
    }
    if (!rlx_has_numbers(to_type) || !rlx_has_numbers(from_type))
        return RLX_ERR_DTYPE;
    for (i = 0; i < n; i++)
        rlx_put_number(to, i, to_type, rlx_get_number(from, i, from_type));
    return RLX_OK;
}

typedef struct rlx_typed {
    const char *name;
    const void *data;
    size_t bytes;
    rlx_dtype dtype; // of data
} rlx_typed;

typedef struct rlx_typed_out {
    const char *name;
    void *data;
    size_t bytes;
    rlx_dtype dtype; // that is wanted; that of the model's output gives its bytes as they are
} rlx_typed_out;

// Can `bytes` bytes of type `type` be what input or output t, of `own` bytes in this run, is?
static inline rlx_status rlx_check_typed(const rlx_ctx *ctx, rlx_subject about, const rlx_tensor *t,
                                         size_t own, const rlx_sized *given, rlx_dtype type)
{
    const size_t size = rlx_dtype_bytes(type);
    if (given->data == NULL)
        return rlx_fail(ctx, RLX_ERR_NULL, about, t->name, 0, 0);
    if (size == 0 || (type != t->dtype && (!rlx_has_numbers(type) || !rlx_has_numbers(t->dtype))))
        return rlx_fail(ctx, RLX_ERR_DTYPE, about, t->name, (int64_t)t->dtype, (int64_t)type);
    own /= rlx_dtype_bytes(t->dtype); // elements
    if (given->bytes % size == 0 && given->bytes / size == own)
        return RLX_OK;
    return rlx_fail_size(ctx, about, t->name, own * size, given->bytes);
}

static inline rlx_status rlx_check_typed_in(const rlx_ctx *ctx, const rlx_typed *inputs, uint32_t n)
{
    const rlx_model *m = ctx->model;
    uint32_t i;
    rlx_status status = rlx_check_names(ctx, inputs, sizeof *inputs, n);
    for (i = 0; i < n && status == RLX_OK; i++) {
        const int slot = rlx_find_at(m->inputs, m->n_inputs, inputs[i].name, i);
        rlx_sized given;
        given.data = inputs[i].data;
        given.bytes = inputs[i].bytes;
        status = rlx_check_typed(ctx, RLX_ABOUT_INPUT, &m->inputs[slot], rlx_input_bytes(ctx, (uint32_t)slot),
                                 &given, inputs[i].dtype);
#if RLX_HAS_ROWS
        if (status == RLX_OK && rlx_has_rows(ctx, (uint32_t)slot) && inputs[i].dtype != m->inputs[slot].dtype)
            status = rlx_fail(ctx, RLX_ERR_DTYPE, RLX_ABOUT_INPUT, inputs[i].name,
                              (int64_t)m->inputs[slot].dtype, (int64_t)inputs[i].dtype);
#endif
    }
    return status;
}

// Outputs have the room of their largest size.
static inline rlx_status rlx_check_typed_out(const rlx_ctx *ctx, const rlx_typed_out *outputs, uint32_t n)
{
    const rlx_model *m = ctx->model;
    uint32_t i;
    rlx_status status = RLX_OK;
    for (i = 0; i < n && status == RLX_OK; i++) {
        const int slot = rlx_find_output(m, outputs[i].name, i);
        rlx_sized given;
        if (slot < 0)
            return rlx_fail(ctx, RLX_ERR_NAME, RLX_ABOUT_OUTPUT, outputs[i].name, 0, 0);
        given.data = outputs[i].data;
        given.bytes = outputs[i].bytes;
        status = rlx_check_typed(ctx, RLX_ABOUT_OUTPUT, rlx_output_tensor(m, (uint32_t)slot),
                                 rlx_output_room(ctx, (uint32_t)slot), &given, outputs[i].dtype);
    }
    return status;
}

// What a handle holds, dense in the shape of now: strip by strip, as rlx_read_held.
static inline rlx_status rlx_convert_held(const rlx_ctx *ctx, uint32_t slot, const rlx_typed_out *out)
{
    const rlx_tensor *const t = rlx_output_tensor(ctx->model, slot);
    const size_t size = rlx_dtype_bytes(t->dtype), to_size = rlx_dtype_bytes(out->dtype);
    const size_t bytes = out->bytes / to_size * size;
    int64_t shape[RLX_MAX_RANK];
    rlx_strip s;
    size_t i, n;
    rlx_status status;
    if (bytes == 0)
        return RLX_OK;
    rlx_shape_now(ctx, 1, slot, shape);
    s = rlx_strip_of(t, shape);
    n = bytes / s.bytes;
    status = rlx_get_state(ctx, t->offset, rlx_strip_at(t, shape, &s, n - 1u) + s.bytes);
    for (i = 0; i < n && status == RLX_OK; i++)
        status = rlx_convert((unsigned char *)out->data + i * (s.bytes / size) * to_size, out->dtype,
                             ctx->state + t->offset + rlx_strip_at(t, shape, &s, i), t->dtype,
                             s.bytes / size);
    return status;
}

static inline rlx_status rlx_convert_output(const rlx_ctx *ctx, uint32_t slot, const rlx_typed_out *out)
{
    const rlx_tensor *const t = rlx_output_tensor(ctx->model, slot);
    if (slot >= ctx->model->n_outputs)
        return rlx_convert_held(ctx, slot, out);
    return rlx_convert(out->data, out->dtype, ctx->arena + t->offset, t->dtype,
                       rlx_output_bytes(ctx, slot) / rlx_dtype_bytes(t->dtype));
}

// As rlx_run_named, in any element type: every input exactly once, but those that handles give; any of the
// outputs, also those that handles hold. All names, types and sizes are checked before anything is written.
// Where the model computes the size of an output, the first elements are written (rlx_output_shape says how
// many).
static inline rlx_status rlx_run_typed(rlx_ctx *ctx, const rlx_typed *inputs, uint32_t n_inputs,
                                       const rlx_typed_out *outputs, uint32_t n_outputs)
{
    const rlx_model *m;
    rlx_status status;
    uint32_t i;
    if (ctx == NULL || ctx->model == NULL || (inputs == NULL && n_inputs != 0) ||
        (outputs == NULL && n_outputs != 0))
        return rlx_fail_null(ctx);
    m = ctx->model;
    status = rlx_check_typed_in(ctx, inputs, n_inputs);
    if (status == RLX_OK)
        status = rlx_check_typed_out(ctx, outputs, n_outputs);
    if (status == RLX_OK)
        status = rlx_check_params(ctx);
    if (status != RLX_OK)
        return status;
    for (i = 0; i < n_inputs; i++) {
        const int slot = rlx_find_at(m->inputs, m->n_inputs, inputs[i].name, i);
        const rlx_tensor *t = &m->inputs[slot];
#if RLX_HAS_ROWS
        if (rlx_has_rows(ctx, (uint32_t)slot)) {
            rlx_bring_input(ctx, (uint32_t)slot, inputs[i].data, inputs[i].bytes);
            continue;
        }
#endif
        rlx_convert(ctx->arena + t->offset, t->dtype, inputs[i].data, inputs[i].dtype,
                    inputs[i].bytes / rlx_dtype_bytes(inputs[i].dtype));
    }
    status = rlx_run_given(ctx);
    for (i = 0; i < n_outputs && status == RLX_OK; i++)
        status = rlx_convert_output(ctx, (uint32_t)rlx_find_output(m, outputs[i].name, i), &outputs[i]);
    return status;
}

#ifdef __cplusplus
}
#endif

#endif
