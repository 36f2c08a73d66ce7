// SPDX-License-Identifier: Apache-2.0
// Products of quantised values to their results, for convolutions and fully connected layers. Sums of bytes
// are i32, times f32(scale_x * scale_w) / scale_y, rounded to the nearest integer (halves to even), as
// XNNPACK does. Those of 16-bit operands have integer factors, of 16 bits or, where the bias is i32, of 31.
// Products with weights of 4 bits, and all those of i32 where the user asks for it, round in two steps.
#include "compiler/import/tflite/tfl_import.h"

NodeId tfl_zero_point(TflNode *n, const TflTensor *t)
{
    for (uint32_t i = 0; t->scale.n > 1 && i < t->zero.n; i++)
        if (flat_list_int(t->zero, i, FLAT_I64) != 0)
            return tfl_fail(n, E0206, "tensor '%s' has several scales and a zero point", t->name);
    const TflQuant q = t->scale.n > 1 ? (TflQuant){.scale = 1} : tfl_quant(n, t);
    return q.zero == 0 ? 0 : tfl_number(n, t->dtype, (double)q.zero);
}

NodeId tfl_centred(TflNode *n, NodeId x, const TflTensor *t, DType type)
{
    const NodeId zero = tfl_zero_point(n, t), wide = tfl_cast(n, x, type);
    return zero ? tfl_op2(n, OP_sub, wide, tfl_cast(n, zero, type)) : wide;
}

NodeId tfl_float_weight(TflNode *n, NodeId weight, const TflTensor *t, NodeId x)
{
    return tfl_cast(n, tfl_is_quantised(t) ? tfl_dequantise(n, weight, t) : weight, tfl_type(n, x));
}

static bool check_scales(TflNode *n, const TflProduct *p)
{
    const bool fits = p->w->scale.n == 1 || (p->w->scale.n != 0 && p->w->scale.n == p->channels);
    return !n->failed && (fits || tfl_fail(n, E0113, "tensor '%s' has %u scales for %lld channels",
                                           p->w->name, p->w->scale.n, (long long)p->channels));
}

// How many factors there are: one for each channel and copy, or one for all.
static uint32_t n_factors(const TflProduct *p)
{
    return p->w->scale.n == 1 || p->copies == 0 ? p->w->scale.n : p->w->scale.n * (uint32_t)p->copies;
}

// A factor for each channel, or one for all, in a shape that broadcasts to [channels, ones].
static NodeId factors(TflNode *n, const TflProduct *p)
{
    const TflQuant x = tfl_quant(n, p->x), y = tfl_quant(n, tfl_of_out(n, 0));
    const Shape s = {.rank = p->w->scale.n == 1 ? 0 : 1 + p->ones, .dim = {n_factors(p), 1, 1, 1}};
    if (!check_scales(n, p))
        return 0;
    Tensor v = tensor_new(n->model->arena, DTYPE_f32, s.rank, s.dim);
    for (uint32_t i = 0; i < n_factors(p); i++)
        ((float *)v.data)[i] = (float)x.scale * (float)tfl_scale_at(p->w, i % p->w->scale.n) / (float)y.scale;
    return tfl_const(n, DTYPE_f32, &s, v.data);
}

// Multipliers and shifts for each channel, [channels, ones]: of 16 bits, and of 31 for sums that are i32.
static NodeId scale_wide(TflNode *n, NodeId sum, const TflProduct *p)
{
    const TflQuant x = tfl_quant(n, p->x), y = tfl_quant(n, tfl_of_out(n, 0));
    const Shape s = {.rank = 1 + p->ones, .dim = {n_factors(p), 1, 1, 1}};
    Tensor v[3]; // multiplier, half, shift
    if (!check_scales(n, p))
        return 0;
    for (uint32_t k = 0; k < 3; k++)
        v[k] = tensor_new(n->model->arena, DTYPE_i64, s.rank, s.dim);
    for (uint32_t i = 0; i < n_factors(p); i++) {
        const TflFactor f = tfl_factor(x.scale * tfl_scale_at(p->w, i % p->w->scale.n) / y.scale);
        const int64_t narrow = f.multiplier < 0x7fff0000 ? (f.multiplier + (1 << 15)) >> 16 : 0x7fff;
        const int64_t q = p->is_narrow ? f.multiplier : narrow;
        const int shift = (p->is_narrow ? 31 : 15) - f.shift;
        if (shift < 1 || shift > 62)
            return tfl_fail(n, E0206, "a scale of tensor '%s' is too large or too small", p->w->name);
        ((int64_t *)v[0].data)[i] = q;
        ((int64_t *)v[1].data)[i] = INT64_C(1) << (shift - 1);
        ((int64_t *)v[2].data)[i] = shift;
    }
    NodeId id = tfl_op2(n, OP_mul, sum, tfl_const(n, DTYPE_i64, &s, v[0].data));
    id = tfl_op2(n, OP_add, id, tfl_const(n, DTYPE_i64, &s, v[1].data));
    return tfl_op2(n, OP_shift_right, id, tfl_const(n, DTYPE_i64, &s, v[2].data));
}

// The two roundings of gemmlowp.
static NodeId scale_twice(TflNode *n, NodeId sum, const TflProduct *p)
{
    const TflQuant x = tfl_quant(n, p->x), y = tfl_quant(n, tfl_of_out(n, 0));
    const Shape s = {.rank = p->w->scale.n == 1 ? 0 : 1 + p->ones, .dim = {n_factors(p), 1, 1, 1}};
    if (!check_scales(n, p))
        return 0;
    TflFactor *f = ARENA_ARRAY(n->model->arena, TflFactor, n_factors(p));
    for (uint32_t i = 0; i < n_factors(p); i++)
        f[i] = tfl_factor(x.scale * tfl_scale_at(p->w, i % p->w->scale.n) / y.scale);
    return tfl_scaled_by(n, sum, f, &s);
}

bool tfl_is_narrow(TflNode *n, const TflTensor *x, uint32_t bias, int64_t type)
{
    enum { TYPE_I32 = 2 };
    return x->dtype == DTYPE_i16 &&
           (tfl_has(n, bias) ? tfl_in(n, bias)->dtype == DTYPE_i32 : type == TYPE_I32);
}

NodeId tfl_rescale(TflNode *n, NodeId sum, const TflProduct *p)
{
    const TflTensor *out = tfl_of_out(n, 0);
    const bool rounds_twice = n->model->source->options.rounds_twice;
    if (tfl_type(n, sum) == DTYPE_i64 && !(p->is_narrow && rounds_twice))
        return tfl_finish(n, scale_wide(n, sum, p), out, p->activation);
    if (p->w->type == TFL_I4 || rounds_twice)
        return tfl_finish(n, scale_twice(n, sum, p), out, p->activation);
    const NodeId steps = tfl_op2(n, OP_mul, tfl_cast(n, sum, DTYPE_f32), factors(n, p));
    return tfl_from_steps(n, steps, out, p->activation);
}
