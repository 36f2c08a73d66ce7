// SPDX-License-Identifier: Apache-2.0
// SOFTMAX and LOCAL_RESPONSE_NORMALIZATION. Quantised softmax is that of the built-in kernels to the bit:
// the exponentials of the 256 possible differences to the largest element are computed here, in fixed point
// as there, so that a run only looks them up, adds and divides.
#include "compiler/import/tflite/ops/tfl_fixed.h"

#include <math.h>

// Exponentials of differences 0 to 255, -1: too small to count.
static NodeId exponentials(TflNode *n, double scale)
{
    const double real = fmin(scale * (double)(1 << 26), 2147483647.0);
    const TflFactor f = tfl_factor(real);
    const int32_t least = -(int32_t)fmin(floor(31.0 * ldexp(1, 26 - f.shift)), 1 << 30);
    const int64_t count = 256;
    Tensor t = tensor_new(n->model->arena, DTYPE_i32, 1, &count);
    for (int32_t d = 0; d < count; d++)
        ((int32_t *)t.data)[d] = -d >= least ? tfl_exp_negative(tfl_scaled_number(-d, f)) : -1;
    const Shape s = shape_of(1, &count);
    return tfl_const(n, DTYPE_i32, &s, t.data);
}

// An exponential in Q12.19, halves up; 0 for -1.
static NodeId in_q19(TflNode *n, NodeId e)
{
    const NodeId twice = tfl_op_number(n, OP_shift_right, e, 11);
    return tfl_op_number(n, OP_shift_right, tfl_op_number(n, OP_add, twice, 1), 1);
}

// The sum is in Q12.19, at least 2^19 and at most 2^30: how many bits it has more than 20.
static NodeId bits_over_20(TflNode *n, NodeId sum)
{
    NodeId bits = tfl_op_number(n, OP_mul, sum, 0);
    for (int i = 20; i < 31; i++)
        bits = tfl_op2(n, OP_add, bits,
                       tfl_cast(n, tfl_op2(n, OP_ge, sum, tfl_number(n, DTYPE_i32, ldexp(1, i))), DTYPE_i32));
    return bits;
}

static NodeId integer_softmax(TflNode *n, NodeId x, double beta)
{
    const TflTensor *to = tfl_of_out(n, 0);
    const TflQuant q = tfl_quant(n, tfl_in(n, 0));
    const int64_t last = tfl_rank(n, x) - 1;
    if (tfl_size(n, x, (uint32_t)last) > 1 << 11)
        return tfl_fail(n, E0206, "more than 2048 elements are not supported");
    const NodeId wide = tfl_cast(n, x, DTYPE_i32);
    const NodeId most = tfl_cast(n, tfl_reduce(n, OP_reduce_max, x, &last, 1, true), DTYPE_i32);
    const NodeId below = tfl_op2(n, OP_sub, most, wide);
    const NodeId e = tfl_gather(n, exponentials(n, q.scale * beta), below, 0);
    const NodeId small = tfl_reduce(n, OP_reduce_sum, in_q19(n, e), &last, 1, true);
    const NodeId sum = tfl_cast(n, small, DTYPE_i64), more = tfl_cast(n, bits_over_20(n, small), DTYPE_i64);
    const NodeId up = tfl_op2(n, OP_sub, tfl_number(n, DTYPE_i64, 12), more);
    const NodeId part = tfl_op_number(n, OP_sub, tfl_op2(n, OP_shift_left, sum, up), ldexp(1, 31));
    const NodeId shift = tfl_op_number(n, OP_add, more, 31 - 8);
    const NodeId half =
        tfl_op2(n, OP_shift_left, tfl_number(n, DTYPE_i64, 1), tfl_op_number(n, OP_sub, shift, 1));
    NodeId y = tfl_high(n, tfl_cast(n, e, DTYPE_i64), tfl_reciprocal(n, part));
    y = tfl_cast(n, tfl_op2(n, OP_shift_right, tfl_op2(n, OP_add, y, half), shift), DTYPE_i32);
    y = tfl_op3(n, OP_where, tfl_op2(n, OP_lt, e, tfl_number(n, DTYPE_i32, 0)), tfl_number(n, DTYPE_i32, 0),
                y);
    const double low = to->dtype == DTYPE_i8 ? -128 : 0;
    return tfl_cast(n, tfl_clamp(n, tfl_op_number(n, OP_add, y, low), low, low + 255), to->dtype);
}

NodeId tfl_softmax(TflNode *n, OpId op, NodeId x)
{
    if (n->failed)
        return 0;
    NodeBuild b = tfl_begin(n, op);
    node_src(&b, x);
    node_int(&b, attr_find(op, "axis"), -1);
    return tfl_end(n, &b);
}

void tfl_import_softmax(TflNode *n)
{
    const double beta = tfl_option_f32(n, 0, 0);
    const NodeId x = tfl_src(n, 0);
    const TflTensor *from = tfl_in(n, 0), *to = tfl_of_out(n, 0);
    if (!n->failed && tfl_rank(n, x) < 1)
        tfl_fail(n, E0204, "expected at least one axis");
    if (n->failed)
        return;
    if (!tfl_is_quantised(from)) {
        const bool is_plain = beta >= 1 && beta <= 1;
        tfl_out(n, 0, tfl_softmax(n, OP_softmax, is_plain ? x : tfl_op_number(n, OP_mul, x, beta)));
    } else if (dtype_info[from->dtype].bits == 8 && dtype_info[to->dtype].bits == 8) {
        const TflQuant q = tfl_quant(n, to);
        if (q.zero != (to->dtype == DTYPE_i8 ? -128 : 0) || fabs(q.scale - 1.0 / 256) > 1e-6)
            tfl_fail(n, E0206, "expected a result of the scale 1/256 from its least number on");
        tfl_out(n, 0, integer_softmax(n, x, beta));
    } else if (from->dtype == DTYPE_i16 && to->dtype == DTYPE_i16) {
        const TflQuant q = tfl_quant(n, to);
        if (q.zero != 0 || fabs(q.scale - 1.0 / 32768) > 1e-9)
            tfl_fail(n, E0206, "expected a result of the scale 1/32768");
        tfl_out(n, 0, tfl_softmax_wide(n, x, beta));
    } else {
        const NodeId real = tfl_op_number(n, OP_mul, tfl_dequantise(n, x, from), beta);
        tfl_out(n, 0, tfl_quantise(n, tfl_softmax(n, OP_softmax, real), to));
    }
}

void tfl_import_local_response(TflNode *n)
{
    const int64_t radius = tfl_option(n, 0, FLAT_I32, 0);
    const double bias = tfl_option_f32(n, 1, 0), alpha = tfl_option_f32(n, 2, 0),
                 beta = tfl_option_f32(n, 3, 0);
    const NodeId x = tfl_src(n, 0);
    const uint32_t rank = tfl_rank(n, x), last = rank - 1;
    const int64_t size = rank ? tfl_size(n, x, last) : 0;
    if (!n->failed && (rank != 4 || radius < 0 || radius > 4096))
        tfl_fail(n, E0203, "a radius of %lld for rank %u", (long long)radius, rank);
    if (n->failed)
        return;
    const int64_t pads[8] = {0, 0, 0, radius, 0, 0, 0, radius};
    const NodeId square = tfl_pad(n, tfl_op1(n, OP_square, x), pads, "constant", 0);
    NodeId sum = 0;
    for (int64_t i = 0; i <= 2 * radius && !n->failed; i++) {
        const NodeId part = tfl_slice(n, square, last, i, i + size, 1);
        sum = sum ? tfl_op2(n, OP_add, sum, part) : part;
    }
    const NodeId base = tfl_op_number(n, OP_add, tfl_op_number(n, OP_mul, sum, alpha), bias);
    tfl_out(n, 0, tfl_op2(n, OP_mul, x, tfl_op_number(n, OP_pow, base, -beta)));
}
