// SPDX-License-Identifier: Apache-2.0
// Products of quantised values to their results, for convolutions and fully connected layers. Sums of bytes
// are i32, times f32(scale_x * scale_w) / scale_y, rounded to the nearest integer (halves to even), as
// XNNPACK does. Those of 16-bit operands have integer factors, of 16 bits or, where the bias is i32, of 31.
// Convolutions with weights of 4 bits, and all those of i32 where the user asks for it, round in two steps;
// so do the products of matrices that XNNPACK does not take, which round halves up (TflRounding).
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
static int64_t n_factors(const TflProduct *p, TflRounding rounding)
{
    return p->w->scale.n == 1 && rounding != ROUND_EIGHTS ? 1
                                                          : p->channels * (p->copies == 0 ? 1 : p->copies);
}

static double scale_of(const TflProduct *p, int64_t factor)
{
    return tfl_scale_at(p->w, (uint32_t)factor % p->w->scale.n);
}

// A factor for each channel, or one for all, in a shape that broadcasts to [channels, ones].
static NodeId factors(TflNode *n, const TflProduct *p)
{
    const TflQuant x = tfl_quant(n, p->x), y = tfl_quant(n, tfl_of_out(n, 0));
    const int64_t count = n_factors(p, ROUND_REAL);
    const Shape s = {.rank = p->w->scale.n == 1 ? 0 : 1 + p->ones, .dim = {count, 1, 1, 1}};
    if (!check_scales(n, p))
        return 0;
    Tensor v = tensor_new(n->model->arena, DTYPE_f32, s.rank, s.dim);
    for (int64_t i = 0; i < count; i++)
        ((float *)v.data)[i] = (float)x.scale * (float)scale_of(p, i) / (float)y.scale;
    return tfl_const(n, DTYPE_f32, &s, v.data);
}

NodeId tfl_scaled_wide(TflNode *n, NodeId sum, const TflFactor *f, const Shape *s, bool is_narrow)
{
    Tensor v[3]; // multiplier, half, shift
    for (uint32_t k = 0; k < 3; k++)
        v[k] = tensor_new(n->model->arena, DTYPE_i64, s->rank, s->dim);
    for (int64_t i = 0; i < v[0].numel; i++) {
        const int64_t reduced = f[i].multiplier < 0x7fff0000 ? (f[i].multiplier + (1 << 15)) >> 16 : 0x7fff;
        const int shift = (is_narrow ? 31 : 15) - f[i].shift;
        if (shift < 1 || shift > 62)
            return tfl_fail(n, E0206, "a scale of a product is too large or too small");
        tensor_set_i64(&v[0], i, is_narrow ? f[i].multiplier : reduced);
        tensor_set_i64(&v[1], i, INT64_C(1) << (shift - 1));
        tensor_set_i64(&v[2], i, shift);
    }
    NodeId id = tfl_op2(n, OP_mul, sum, tfl_const(n, DTYPE_i64, s, v[0].data));
    id = tfl_op2(n, OP_add, id, tfl_const(n, DTYPE_i64, s, v[1].data));
    return tfl_op2(n, OP_shift_right, id, tfl_const(n, DTYPE_i64, s, v[2].data));
}

static bool is_upward(const TflProduct *p, TflRounding rounding, int64_t factor)
{
    return rounding == ROUND_UP ||
           (rounding == ROUND_EIGHTS && factor % p->channels < p->channels / 8 * 8);
}

// The factors of a product to its result. NULL: it has failed.
static TflFactor *factors_of(TflNode *n, const TflProduct *p, TflRounding rounding)
{
    const TflQuant x = tfl_quant(n, p->x), y = tfl_quant(n, tfl_of_out(n, 0));
    const int64_t count = n_factors(p, rounding);
    if (!check_scales(n, p) || !tfl_spend(n, (uint64_t)count))
        return NULL;
    TflFactor *f = ARENA_ARRAY(n->model->arena, TflFactor, (uint64_t)count);
    for (int64_t i = 0; i < count; i++) {
        const double w = scale_of(p, i);
        const bool is_short = p->is_matrix && p->w->scale.n == 1;
        f[i] = tfl_factor((is_short ? (double)((float)x.scale * (float)w) : x.scale * w) / y.scale);
        f[i].is_upward = is_upward(p, rounding, i);
    }
    return f;
}

// Integer factors have the shape [channels, ones], and those that round twice none where there is one.
static NodeId scale_integers(TflNode *n, NodeId sum, const TflProduct *p, TflRounding rounding)
{
    const bool is_once = rounding == ROUND_ONCE || rounding == ROUND_SHORT;
    const int64_t count = n_factors(p, rounding);
    const Shape s = {.rank = !is_once && count == 1 ? 0 : 1 + p->ones, .dim = {count, 1, 1, 1}};
    const TflFactor *f = factors_of(n, p, rounding);
    if (f == NULL)
        return 0;
    return is_once ? tfl_scaled_wide(n, sum, f, &s, rounding == ROUND_ONCE) : tfl_scaled_by(n, sum, f, &s);
}

bool tfl_is_narrow(TflNode *n, const TflTensor *x, uint32_t bias, int64_t type)
{
    enum { TYPE_I32 = 2 };
    return x->dtype == DTYPE_i16 &&
           (tfl_has(n, bias) ? tfl_in(n, bias)->dtype == DTYPE_i32 : type == TYPE_I32);
}

static TflRounding rounding_of(TflNode *n, NodeId sum, const TflProduct *p)
{
    const bool is_wide = tfl_type(n, sum) == DTYPE_i64;
    if (n->model->source->options.rounds_twice)
        return is_wide && !p->is_narrow ? ROUND_SHORT : ROUND_TWICE;
    if (p->rounding != ROUND_BY_TYPE)
        return p->rounding;
    if (is_wide)
        return p->is_narrow ? ROUND_UP : ROUND_SHORT;
    return ROUND_REAL;
}

NodeId tfl_rescale(TflNode *n, NodeId sum, const TflProduct *p)
{
    const TflTensor *out = tfl_of_out(n, 0);
    const TflRounding rounding = rounding_of(n, sum, p);
    if (rounding != ROUND_REAL)
        return tfl_finish(n, scale_integers(n, sum, p, rounding), out, p->activation);
    const NodeId steps = tfl_op2(n, OP_mul, tfl_cast(n, sum, DTYPE_f32), factors(n, p));
    return tfl_from_steps(n, steps, out, p->activation);
}
