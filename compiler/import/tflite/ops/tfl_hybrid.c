// SPDX-License-Identifier: Apache-2.0
// Products of reals with quantised weights. As in LiteRT's default path, the operand is first rounded to
// bytes by its own range in the run: each row for matrices, each image for convolutions. The sums of products
// are exact.
#include "compiler/import/tflite/tfl_import.h"

// The range of x and 0 becomes that of i8. Gives the integers less their zero point, in f32, and the size of
// a step, with the axes kept.
NodeId tfl_dynamic(TflNode *n, NodeId x, const int64_t *axes, uint32_t count, NodeId *step)
{
    const NodeId zero = tfl_number(n, DTYPE_f32, 0), one = tfl_number(n, DTYPE_f32, 1);
    const NodeId least = tfl_op2(n, OP_min, tfl_reduce(n, OP_reduce_min, x, axes, count, true), zero);
    const NodeId most = tfl_op2(n, OP_max, tfl_reduce(n, OP_reduce_max, x, axes, count, true), zero);
    const NodeId width = tfl_op2(n, OP_sub, most, least), is_flat = tfl_op2(n, OP_eq, width, zero);
    const NodeId wide = tfl_op3(n, OP_where, is_flat, one, width);
    const NodeId scale =
        tfl_op3(n, OP_where, is_flat, one, tfl_op2(n, OP_div, tfl_number(n, DTYPE_f32, 255), wide));
    const NodeId low = tfl_op2(n, OP_mul, least, scale), high = tfl_op2(n, OP_mul, most, scale);
    // The zero point from the end of the range that is nearer to it.
    const NodeId errors =
        tfl_op2(n, OP_add, tfl_op_number(n, OP_add, low, -128), tfl_op_number(n, OP_add, high, 127));
    const NodeId from_low = tfl_op2(n, OP_sub, tfl_number(n, DTYPE_f32, -128), low);
    const NodeId from_high = tfl_op2(n, OP_sub, tfl_number(n, DTYPE_f32, 127), high);
    const NodeId point = tfl_op3(n, OP_where, tfl_op2(n, OP_gt, errors, zero), from_low, from_high);
    const NodeId zero_point = tfl_op1(n, OP_round, tfl_clamp(n, point, -128, 127));
    const NodeId steps = tfl_op1(n, OP_round, tfl_op2(n, OP_mul, x, scale));
    *step = tfl_op2(n, OP_div, one, scale);
    return tfl_op2(n, OP_sub, tfl_clamp(n, tfl_op2(n, OP_add, steps, zero_point), -128, 127), zero_point);
}

// The built-in kernel, for weights of 4 bits: the largest magnitude becomes 127, halves go away from zero.
NodeId tfl_dynamic_symmetric(TflNode *n, NodeId x, const int64_t *axes, uint32_t count, NodeId *step)
{
    const NodeId zero = tfl_number(n, DTYPE_f32, 0), one = tfl_number(n, DTYPE_f32, 1);
    const NodeId most = tfl_reduce(n, OP_reduce_max, tfl_op1(n, OP_abs, x), axes, count, true);
    const NodeId is_flat = tfl_op2(n, OP_eq, most, zero), wide = tfl_op3(n, OP_where, is_flat, one, most);
    const NodeId steps = tfl_op2(n, OP_mul, x, tfl_op2(n, OP_div, tfl_number(n, DTYPE_f32, 127), wide));
    const NodeId size = tfl_op1(n, OP_floor, tfl_op_number(n, OP_add, tfl_op1(n, OP_abs, steps), 0.5));
    *step = tfl_op3(n, OP_where, is_flat, one, tfl_op_number(n, OP_div, wide, 127));
    return tfl_clamp(n, tfl_op2(n, OP_mul, tfl_op1(n, OP_sign, steps), size), -127, 127);
}

// The scales of a weight, one or one a channel, in a shape that broadcasts to [channels, ones].
NodeId tfl_weight_scale(TflNode *n, const TflTensor *w, int64_t channels, uint32_t ones)
{
    const Shape s = {.rank = w->scale.n == 1 ? 0 : 1 + ones, .dim = {channels, 1, 1, 1}};
    if (!n->failed && w->scale.n != 1 && w->scale.n != channels)
        tfl_fail(n, E0113, "tensor '%s' has %u scales for %lld channels", w->name, w->scale.n,
                 (long long)channels);
    if (n->failed)
        return 0;
    Tensor v = tensor_new(n->model->arena, DTYPE_f32, s.rank, s.dim);
    for (uint32_t i = 0; i < w->scale.n; i++)
        tensor_set_f64(&v, i, tfl_scale_at(w, i));
    return tfl_const(n, DTYPE_f32, &s, v.data);
}

// The type in which sums of so many products of a byte by a byte are exact.
DType tfl_exact_type(int64_t taps)
{
    return taps <= (1 << 24) / (255 * 128) ? DTYPE_f32 : DTYPE_f64;
}
