// SPDX-License-Identifier: Apache-2.0
// Quantised operators, taken apart: integers become differences to their zero points, products are integer
// ones, and results are scaled, rounded and clamped back into the integer type.
#include "compiler/import/onnx_import.h"

#include <math.h>

static bool is_integer(DType t)
{
    return dtype_info[t].cls == DCLASS_INT || dtype_info[t].cls == DCLASS_UINT;
}

// A parameter of one axis, [n], in a shape that broadcasts to a tensor of that rank; others as they are.
static NodeId along_axis(OnnxNode *n, NodeId v, uint32_t rank, uint32_t axis)
{
    const Shape s = *onnx_shape(n, v);
    if (n->failed || !v || s.rank != 1)
        return v;
    if (s.dim[0] == 1)
        return onnx_reshape(n, v, &(Shape){0});
    Shape to = {.rank = rank - axis, .dim = {s.dim[0], 1, 1, 1, 1, 1, 1, 1}};
    return onnx_reshape(n, v, &to);
}

// x - zero, as i32.
static NodeId centred(OnnxNode *n, NodeId x, NodeId zero)
{
    const NodeId wide = onnx_cast(n, x, DTYPE_i32);
    return zero ? onnx_op2(n, OP_sub, wide, onnx_cast(n, zero, DTYPE_i32)) : wide;
}

// round(x) + zero in the range of an integer type, which f32 holds exactly up to 16 bits.
static NodeId saturate(OnnxNode *n, NodeId x, NodeId zero, DType type)
{
    const DType work = onnx_dtype(n, x);
    const bool is_signed = dtype_info[type].cls == DCLASS_INT;
    const double count = exp2((double)dtype_info[type].bytes * 8);
    if (!n->failed && (!is_integer(type) || dtype_info[type].bytes > 2))
        onnx_fail(n, E0206, "quantised results of type %s are not supported", dtype_info[type].name);
    NodeId y = onnx_op1(n, OP_round, x);
    if (zero)
        y = onnx_op2(n, OP_add, y, onnx_cast(n, zero, work));
    const NodeId lo = onnx_scalar(n, work, is_signed ? -count / 2 : 0);
    const NodeId hi = onnx_scalar(n, work, is_signed ? count / 2 - 1 : count - 1);
    return onnx_cast(n, onnx_op3(n, OP_clamp, y, lo, hi), type);
}

static uint32_t read_axis(OnnxNode *n, NodeId x, NodeId scale)
{
    uint32_t axis = 0;
    const int64_t given = onnx_int(n, "axis", 1);
    if (onnx_int(n, "block_size", 0) != 0)
        onnx_fail(n, E0206, "quantisation in blocks is not supported");
    if (onnx_shape(n, scale)->rank == 1 && onnx_shape(n, scale)->dim[0] != 1)
        onnx_axis(n, given, onnx_shape(n, x)->rank, &axis);
    return axis;
}

// --- to and from floats ---

void onnx_import_dequantize(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), scale = onnx_src(n, 1), zero = onnx_opt(n, 2);
    const uint32_t axis = read_axis(n, x, scale), rank = onnx_shape(n, x)->rank;
    const DType type = onnx_type_attr(n, "output_dtype", onnx_dtype(n, scale));
    const NodeId steps = onnx_cast(n, centred(n, x, along_axis(n, zero, rank, axis)), onnx_dtype(n, scale));
    onnx_out(n, 0, onnx_cast(n, onnx_op2(n, OP_mul, steps, along_axis(n, scale, rank, axis)), type));
}

void onnx_import_quantize(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), scale = onnx_src(n, 1), zero = onnx_opt(n, 2);
    const uint32_t axis = read_axis(n, x, scale), rank = onnx_shape(n, x)->rank;
    const bool is_named = onnx_int(n, "output_dtype", 0) != 0;
    const DType dflt = zero ? onnx_dtype(n, zero) : DTYPE_u8;
    const DType type = is_named ? onnx_type_attr(n, "output_dtype", dflt) : dflt;
    onnx_ignore_attr(n, "saturate"); // concerns 8-bit floats
    onnx_ignore_attr(n, "precision");
    const NodeId wide = onnx_cast(n, x, onnx_dtype(n, scale));
    const NodeId steps = onnx_op2(n, OP_div, wide, along_axis(n, scale, rank, axis));
    onnx_out(n, 0, saturate(n, steps, along_axis(n, zero, rank, axis), type));
}

// The range of x and 0 becomes that of u8.
void onnx_import_dynamic_quantize(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    const Shape scalar = {0};
    const NodeId none = onnx_scalar(n, DTYPE_f32, 0);
    const NodeId least = onnx_reshape(n, onnx_reduce(n, OP_reduce_min, x, NULL, 0), &scalar);
    const NodeId most = onnx_reshape(n, onnx_reduce(n, OP_reduce_max, x, NULL, 0), &scalar);
    const NodeId lo = onnx_op2(n, OP_min, least, none), hi = onnx_op2(n, OP_max, most, none);
    const NodeId scale = onnx_op2(n, OP_div, onnx_op2(n, OP_sub, hi, lo), onnx_scalar(n, DTYPE_f32, 255));
    const NodeId zero = saturate(n, onnx_op1(n, OP_neg, onnx_op2(n, OP_div, lo, scale)), 0, DTYPE_u8);
    onnx_out(n, 0, saturate(n, onnx_op2(n, OP_div, x, scale), zero, DTYPE_u8));
    onnx_out(n, 1, scale);
    onnx_out(n, 2, zero);
}

// --- products ---

// Zero points of a are per row, those of b per column.
static NodeId integer_matmul(OnnxNode *n, NodeId a, NodeId a_zero, NodeId b, NodeId b_zero)
{
    const uint32_t rank = onnx_shape(n, a)->rank;
    const NodeId rows = a_zero && rank >= 2 ? along_axis(n, a_zero, rank, rank - 2) : a_zero;
    return onnx_matmul(n, centred(n, a, rows), centred(n, b, b_zero), false, false);
}

void onnx_import_matmul_integer(OnnxNode *n)
{
    const NodeId a = onnx_src(n, 0), b = onnx_src(n, 1), a_zero = onnx_opt(n, 2), b_zero = onnx_opt(n, 3);
    onnx_out(n, 0, integer_matmul(n, a, a_zero, b, b_zero));
}

// Our convolution is for floats: the narrowest in which no sum of products of two bytes is rounded.
static DType exact_type(OnnxNode *n, NodeId w)
{
    const Shape *s = onnx_shape(n, w);
    int64_t taps = 1;
    for (uint32_t i = 1; i < s->rank; i++)
        if (!dim_is_const(s->dim[i]) || __builtin_mul_overflow(taps, s->dim[i], &taps))
            return DTYPE_f64;
    return taps <= (1 << 24) / (256 * 256) ? DTYPE_f32 : DTYPE_f64;
}

static NodeId integer_conv(OnnxNode *n, NodeId x, NodeId x_zero, NodeId w, NodeId w_zero)
{
    const DType type = exact_type(n, w);
    const NodeId zero = along_axis(n, w_zero, onnx_shape(n, w)->rank, 0);
    const NodeId steps = onnx_cast(n, centred(n, x, along_axis(n, x_zero, 1, 0)), type);
    return onnx_cast(n, onnx_conv(n, steps, onnx_cast(n, centred(n, w, zero), type), 0), DTYPE_i32);
}

void onnx_import_conv_integer(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), w = onnx_src(n, 1), x_zero = onnx_opt(n, 2), w_zero = onnx_opt(n, 3);
    onnx_out(n, 0, integer_conv(n, x, x_zero, w, w_zero));
}

// sum * (scale_a * scale_b / scale_y), rounded into the type of the zero point of y.
static NodeId requantize(OnnxNode *n, NodeId sum, NodeId factor, NodeId scale, NodeId zero)
{
    const NodeId wide = onnx_cast(n, sum, onnx_dtype(n, factor));
    const NodeId steps = onnx_op2(n, OP_div, onnx_op2(n, OP_mul, wide, factor), scale);
    return saturate(n, steps, zero, onnx_dtype(n, zero));
}

void onnx_import_qlinear_matmul(OnnxNode *n)
{
    NodeId src[8];
    for (uint32_t i = 0; i < 8; i++)
        src[i] = onnx_src(n, i);
    const NodeId sum = integer_matmul(n, src[0], src[2], src[3], src[5]);
    const uint32_t rank = onnx_shape(n, src[0])->rank;
    const NodeId rows = rank >= 2 ? along_axis(n, src[1], rank, rank - 2) : src[1];
    onnx_out(n, 0, requantize(n, sum, onnx_op2(n, OP_mul, rows, src[4]), src[6], src[7]));
}

// The bias has the scale of the product.
void onnx_import_qlinear_conv(OnnxNode *n)
{
    NodeId src[8];
    for (uint32_t i = 0; i < 8; i++)
        src[i] = onnx_src(n, i);
    const NodeId bias = onnx_opt(n, 8);
    const uint32_t rank = onnx_shape(n, src[0])->rank;
    NodeId sum = integer_conv(n, src[0], src[2], src[3], src[5]);
    if (bias)
        sum = onnx_op2(n, OP_add, sum, along_axis(n, bias, rank, 1));
    const NodeId factor = onnx_op2(n, OP_mul, along_axis(n, src[1], 1, 0), along_axis(n, src[4], rank, 1));
    onnx_out(n, 0, requantize(n, sum, factor, along_axis(n, src[6], 1, 0), along_axis(n, src[7], 1, 0)));
}
