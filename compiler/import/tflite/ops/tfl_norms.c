// SPDX-License-Identifier: Apache-2.0
// LOG_SOFTMAX and L2_NORMALIZATION along the last axis. Bytes are computed in fixed point, as the reference
// kernels do, to the bit.
#include "compiler/import/tflite/ops/tfl_fixed.h"

#include <math.h>

enum { LOG_MOST = 4095, SQUARES_MOST = 33024 }; // elements of a row whose sums are i32

// Bytes to bytes, with the scale that the reference kernels ask for, and the least zero point of its type
// plus `zero`; at most `most` elements in a row.
static bool fits(TflNode *n, NodeId x, double scale, int64_t zero, int64_t most)
{
    const TflTensor *from = tfl_in(n, 0), *to = tfl_of_out(n, 0);
    if (n->failed)
        return false;
    if (!tfl_is_byte(from->dtype) || from->dtype != to->dtype)
        return tfl_fail(n, E0206, "expected reals, or bytes of the same type");
    const TflQuant q = tfl_quant(n, to);
    const int64_t least = to->dtype == DTYPE_i8 ? -128 : 0;
    if (!n->failed && (q.zero != least + zero || fabs(q.scale - scale) > 1e-6))
        tfl_fail(n, E0206, "expected a result of the scale 1/%d and the zero point %lld", (int)(1 / scale),
                 (long long)(least + zero));
    if (!n->failed && tfl_size(n, x, tfl_rank(n, x) - 1) > most)
        tfl_fail(n, E0206, "more than %lld elements are not supported", (long long)most);
    return !n->failed;
}

// --- the logarithm ---

// By the difference to the largest element: its exponential in Q12.19, and itself in Q5.26. Those too large
// to count have no exponential; below -20, where each result is the least one, they are -20.
static void differences(TflNode *n, double scale, NodeId *exponentials, NodeId *wide)
{
    const double real = fmin(scale * (double)(1 << 26), 2147483647.0);
    const TflFactor f = tfl_factor(real);
    const double least = floor(31.0 * ldexp(1, 26 - f.shift));
    const int64_t count = 256, end = -20 * (INT64_C(1) << 26);
    Tensor e = tensor_new(n->model->arena, DTYPE_i32, 1, &count);
    Tensor w = tensor_new(n->model->arena, DTYPE_i32, 1, &count);
    for (int32_t d = 0; d < count; d++) {
        const bool counts = d <= least;
        const int32_t x = counts ? tfl_scaled_number(-d, f) : 0;
        ((int32_t *)e.data)[d] = counts ? (((tfl_exp_negative(x) >> 11) + 1) >> 1) : 0;
        ((int32_t *)w.data)[d] = (int32_t)(counts && x > end ? x : end);
    }
    const Shape s = shape_of(1, &count);
    *exponentials = tfl_const(n, DTYPE_i32, &s, e.data);
    *wide = tfl_const(n, DTYPE_i32, &s, w.data);
}

static NodeId less(TflNode *n, double a, NodeId b)
{
    return tfl_op2(n, OP_sub, tfl_number(n, DTYPE_i64, a), b);
}

// x * 2^a is from 2^-1/2 to 2^1/2 and half of that, whichever is the lower, for a sum x in Q12.19; both a and
// the number are found once for x and once for x * 2^-1/2.
static NodeId reduced(TflNode *n, NodeId x, NodeId *power)
{
    const int32_t root_half = 1518500250;
    const double quarter = ldexp(1, 23);
    const NodeId up = less(n, 30, tfl_top_bit(n, x, 32));
    const NodeId high = tfl_high_by(n, tfl_op2(n, OP_shift_left, x, up), root_half);
    const NodeId first = tfl_up_to_one(n, tfl_op_number(n, OP_mul, high, 2));
    const NodeId second_up = less(n, 30, tfl_top_bit(n, tfl_high_by(n, x, root_half), 32));
    const NodeId second = tfl_up_to_one(n, tfl_op2(n, OP_shift_left, x, second_up));
    const NodeId first_power =
        tfl_op_number(n, OP_add, tfl_op_number(n, OP_shift_left, less(n, 11, up), 25), quarter);
    const NodeId second_power =
        tfl_op_number(n, OP_sub, tfl_op_number(n, OP_shift_left, less(n, 12, second_up), 25), quarter);
    *power = tfl_op2(n, OP_max, first_power, second_power);
    return tfl_op2(n, OP_min, first, second);
}

// The logarithm in Q5.26 of a sum in Q12.19 that is 1 or more: a quotient of polynomials around 2^-1/4.
static NodeId logarithm(TflNode *n, NodeId sum)
{
    const int32_t middle = 1805811301, log_2 = 1488522236;
    NodeId power;
    const NodeId r = reduced(n, sum, &power);
    const NodeId p = tfl_op_number(n, OP_shift_right, tfl_op_number(n, OP_add, r, middle + 1.0), 1);
    const NodeId q = tfl_op_number(n, OP_mul, tfl_op_number(n, OP_sub, r, middle), 2);
    const NodeId square = tfl_high(n, q, q);
    const NodeId above = tfl_op2(n, OP_add, tfl_high(n, q, r),
                                 tfl_high_by(n, tfl_high(n, q, square), 117049297));
    const NodeId inner = tfl_op2(n, OP_add, tfl_op_number(n, OP_add, q, 1057819769),
                                 tfl_high_by(n, square, 127690142));
    const NodeId below = tfl_op2(n, OP_add, tfl_high(n, p, inner), tfl_high_by(n, q, 638450708));
    const NodeId part = tfl_high(n, tfl_halved(n, above, 6), tfl_reciprocal(n, below));
    const NodeId both = tfl_op2(n, OP_add, tfl_high_by(n, power, log_2), part);
    return tfl_op_number(n, OP_mul, both, 2);
}

static NodeId integer_log_softmax(TflNode *n, NodeId x)
{
    const TflTensor *to = tfl_of_out(n, 0);
    const int64_t last = (int64_t)tfl_rank(n, x) - 1;
    if (!fits(n, x, 1.0 / 16, 255, LOG_MOST))
        return 0;
    NodeId exponentials, wide;
    differences(n, tfl_quant(n, tfl_in(n, 0)).scale, &exponentials, &wide);
    const NodeId most = tfl_cast(n, tfl_reduce(n, OP_reduce_max, x, &last, 1, true), DTYPE_i32);
    const NodeId below = tfl_op2(n, OP_sub, most, tfl_cast(n, x, DTYPE_i32));
    const NodeId sum =
        tfl_reduce(n, OP_reduce_sum, tfl_gather(n, exponentials, below, 0), &last, 1, true);
    const NodeId log = tfl_cast(n, logarithm(n, tfl_cast(n, sum, DTYPE_i64)), DTYPE_i32);
    // Halves go away from zero, and nothing is above it.
    const NodeId real = tfl_op2(n, OP_sub, tfl_gather(n, wide, below, 0), log);
    const NodeId y =
        tfl_op_number(n, OP_shift_right, tfl_op_number(n, OP_add, real, (1 << 21) - 1), 22);
    return tfl_saturate(n, tfl_op_number(n, OP_add, y, to->dtype == DTYPE_i8 ? 127 : 255), to, 0);
}

void tfl_import_log_softmax(TflNode *n)
{
    const NodeId x = tfl_src(n, 0);
    const bool is_quantised = tfl_is_quantised(tfl_in(n, 0)) || tfl_is_quantised(tfl_of_out(n, 0));
    if (!n->failed && tfl_rank(n, x) < 1)
        tfl_fail(n, E0204, "expected at least one axis");
    tfl_out(n, 0, is_quantised ? integer_log_softmax(n, x) : tfl_softmax(n, OP_log_softmax, x));
}

// --- the length ---

// 1 / sqrt(x) as a factor and a shift to the right, for a sum of squares from 2: five steps of Newton in
// Q3.28 from 1.
static NodeId inverse_root(TflNode *n, NodeId x, NodeId *shift)
{
    const int32_t half_root_2 = 1518500250, three_halves = (1 << 28) + (1 << 27);
    const NodeId pairs = tfl_op_number(n, OP_shift_right, less(n, 30, tfl_top_bit(n, x, 32)), 1);
    const NodeId twice = tfl_op_number(n, OP_mul, pairs, 2);
    const NodeId scaled = tfl_op_number(n, OP_shift_right, tfl_op2(n, OP_shift_left, x, twice), 3);
    const NodeId half = tfl_halved(n, scaled, 1);
    NodeId y = tfl_number(n, DTYPE_i64, 1 << 28);
    for (int i = 0; i < 5; i++) {
        const NodeId cube = tfl_high(n, tfl_high(n, y, y), y);
        const NodeId third = tfl_up_to_one(n, tfl_op_number(n, OP_shift_left, cube, 6));
        const NodeId next =
            tfl_op2(n, OP_sub, tfl_high_by(n, y, three_halves), tfl_high(n, half, third));
        y = tfl_up_to_one(n, tfl_op_number(n, OP_shift_left, next, 3));
    }
    const NodeId right = less(n, 12, pairs), zero = tfl_number(n, DTYPE_i64, 0);
    *shift = tfl_op2(n, OP_max, right, zero);
    return tfl_op2(n, OP_shift_left, tfl_high_by(n, y, half_root_2),
                   tfl_op2(n, OP_max, tfl_op2(n, OP_sub, zero, right), zero));
}

// Steps of 1/128: i8 is shifted by what the length leaves of 7 bits, u8 by all 7 before the product.
static NodeId integer_l2(TflNode *n, NodeId x)
{
    const TflTensor *from = tfl_in(n, 0), *to = tfl_of_out(n, 0);
    const bool has_sign = from->dtype == DTYPE_i8;
    const int64_t last = (int64_t)tfl_rank(n, x) - 1;
    if (!fits(n, x, 1.0 / 128, 128, SQUARES_MOST))
        return 0;
    const NodeId centred = tfl_centred(n, x, from, DTYPE_i32);
    const NodeId squares = tfl_op2(n, OP_mul, centred, centred);
    const NodeId sum = tfl_cast(n, tfl_reduce(n, OP_reduce_sum, squares, &last, 1, true), DTYPE_i64);
    const NodeId zero = tfl_number(n, DTYPE_i64, 0), two = tfl_number(n, DTYPE_i64, 2);
    const NodeId is_small = tfl_op2(n, OP_lt, sum, two);
    NodeId right;
    NodeId factor = inverse_root(n, tfl_op2(n, OP_max, sum, two), &right);
    factor = tfl_op3(n, OP_where, is_small, tfl_number(n, DTYPE_i64, INT32_MAX), factor);
    right = tfl_op3(n, OP_where, is_small, zero, right);
    const NodeId left = has_sign ? tfl_op2(n, OP_max, less(n, 7, right), zero) : tfl_number(n, DTYPE_i64, 7);
    right = has_sign ? tfl_op2(n, OP_max, tfl_op_number(n, OP_sub, right, 7), zero) : right;
    const NodeId wide = tfl_op2(n, OP_shift_left, tfl_cast(n, centred, DTYPE_i64), left);
    const NodeId high = tfl_high(n, wide, factor);
    // Halves away from zero, where there is a shift at all.
    const NodeId half = tfl_op_number(n, OP_shift_right,
                                      tfl_op2(n, OP_shift_left, tfl_number(n, DTYPE_i64, 1), right), 1);
    const NodeId most = tfl_op2(n, OP_sub, zero, tfl_op2(n, OP_min, right, tfl_number(n, DTYPE_i64, 1)));
    const NodeId below = tfl_op2(n, OP_max, tfl_op_number(n, OP_shift_right, high, 63), most);
    const NodeId y = tfl_op2(n, OP_shift_right,
                             tfl_op2(n, OP_add, high, tfl_op2(n, OP_add, half, below)), right);
    return tfl_finish(n, tfl_cast(n, y, DTYPE_i32), to, 0);
}

// A length below 1e-6 counts as that.
static NodeId real_l2(TflNode *n, NodeId x, int64_t activation)
{
    const int64_t last = (int64_t)tfl_rank(n, x) - 1;
    const NodeId sum = tfl_reduce(n, OP_reduce_sum, tfl_op1(n, OP_square, x), &last, 1, true);
    const NodeId length = tfl_op_number(n, OP_max, tfl_op1(n, OP_sqrt, sum), (double)1e-6f);
    return tfl_activate(n, tfl_op2(n, OP_div, x, length), activation);
}

void tfl_import_l2_normalization(TflNode *n)
{
    const int64_t activation = tfl_option(n, 0, FLAT_I8, 0);
    const NodeId x = tfl_src(n, 0);
    const bool is_quantised = tfl_is_quantised(tfl_in(n, 0)) || tfl_is_quantised(tfl_of_out(n, 0));
    if (!n->failed && tfl_rank(n, x) < 1)
        tfl_fail(n, E0204, "expected at least one axis");
    if (!n->failed && is_quantised && activation != 0)
        tfl_fail(n, E0206, "an activation of quantised results is not supported");
    tfl_out(n, 0, is_quantised ? integer_l2(n, x) : real_l2(n, x, activation));
}
