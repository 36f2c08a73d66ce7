// SPDX-License-Identifier: Apache-2.0
// Elementwise operators: the generic import function of the ONNX_EW rows, and those that have attributes, a
// variable number of operands, or no single op of ours.
#include "compiler/import/onnx/onnx_import.h"

#include <math.h>

// Before opset 7, `broadcast` said that operand 1 is aligned at `axis` of operand 0 (or at the end).
static NodeId align_legacy(OnnxNode *n, NodeId a, NodeId b)
{
    const bool has_axis = onnx_has_attr(n, "axis");
    const int64_t at = onnx_int(n, "axis", 0);
    uint32_t axis = 0;
    if (onnx_int(n, "broadcast", 0) == 0 || !has_axis)
        return b;
    const uint32_t rank_a = onnx_shape(n, a)->rank, rank_b = onnx_shape(n, b)->rank;
    if (rank_b == 0 || !onnx_axis(n, at, rank_a, &axis))
        return b;
    int64_t added[SHAPE_MAX_RANK];
    uint32_t count = 0;
    for (; axis + rank_b + count < rank_a; count++)
        added[count] = rank_b + count;
    return onnx_unsqueeze(n, b, added, count);
}

void onnx_import_elementwise(OnnxNode *n)
{
    const uint32_t arity = op_info[n->row_op].min_src;
    rlx_assert(arity >= 1 && arity <= 3);
    NodeId src[3] = {0};
    for (uint32_t i = 0; i < arity; i++)
        src[i] = onnx_src(n, i);
    if (arity == 2 && n->opset < 7)
        src[1] = align_legacy(n, src[0], src[1]);
    NodeBuild b = onnx_begin(n, n->row_op, src, arity);
    onnx_out(n, 0, onnx_end(n, &b));
}

// --- activations with attributes ---

void onnx_import_with_alpha(OnnxNode *n)
{
    rlx_assert(op_info[n->row_op].min_src == 2);
    const NodeId x = onnx_src(n, 0);
    const double alpha = onnx_float(n, "alpha", n->row_op == OP_leaky_relu ? (double)0.01f : 1.0);
    onnx_out(n, 0, onnx_op2(n, n->row_op, x, onnx_scalar_like(n, x, alpha)));
}

void onnx_import_hard_sigmoid(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    const double alpha = onnx_float(n, "alpha", (double)0.2f), beta = onnx_float(n, "beta", 0.5);
    onnx_out(n, 0,
             onnx_op3(n, OP_hard_sigmoid, x, onnx_scalar_like(n, x, alpha), onnx_scalar_like(n, x, beta)));
}

// Our selu has ONNX's defaults built in.
void onnx_import_selu(OnnxNode *n)
{
    const double dflt_alpha = (double)1.67326319217681884765625f,
                 dflt_gamma = (double)1.05070102214813232421875f;
    const NodeId x = onnx_src(n, 0);
    const double alpha = onnx_float(n, "alpha", dflt_alpha), gamma = onnx_float(n, "gamma", dflt_gamma);
    const bool is_plain = fabs(alpha - dflt_alpha) < 1e-6 && fabs(gamma - dflt_gamma) < 1e-6;
    if (is_plain)
        onnx_out(n, 0, onnx_op1(n, OP_selu, x));
    else
        onnx_out(n, 0,
                 onnx_op2(n, OP_mul, onnx_op2(n, OP_elu, x, onnx_scalar_like(n, x, alpha)),
                          onnx_scalar_like(n, x, gamma)));
}

void onnx_import_gelu(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    const bool is_tanh = ONNX_WORD(n, "approximate", "none", "tanh") == 1;
    onnx_out(n, 0, onnx_op1(n, is_tanh ? OP_gelu_tanh : OP_gelu_erf, x));
}

static NodeId swish(OnnxNode *n, NodeId x, double alpha)
{
    if (alpha >= 1 && alpha <= 1)
        return onnx_op1(n, OP_silu, x);
    return onnx_op2(n, OP_mul, x,
                    onnx_op1(n, OP_sigmoid, onnx_op2(n, OP_mul, x, onnx_scalar_like(n, x, alpha))));
}

void onnx_import_swish(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    onnx_out(n, 0, swish(n, x, onnx_float(n, "alpha", 1.0)));
}

void onnx_import_swiglu(OnnxNode *n)
{
    const NodeId a = onnx_src(n, 0), b = onnx_src(n, 1);
    onnx_out(n, 0, onnx_op2(n, OP_mul, swish(n, a, onnx_float(n, "alpha", 1.0)), b));
}

void onnx_import_shrink(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    const double lambd = onnx_float(n, "lambd", 0.5), bias = onnx_float(n, "bias", 0);
    const NodeId up = onnx_op2(n, OP_add, x, onnx_scalar_like(n, x, bias)),
                 down = onnx_op2(n, OP_sub, x, onnx_scalar_like(n, x, bias));
    const NodeId below = onnx_op2(n, OP_lt, x, onnx_scalar_like(n, x, -lambd));
    const NodeId above = onnx_op2(n, OP_gt, x, onnx_scalar_like(n, x, lambd));
    onnx_out(n, 0,
             onnx_op3(n, OP_where, below, up, onnx_op3(n, OP_where, above, down, onnx_scalar_like(n, x, 0))));
}

// Before opset 7 the slope of a channel was just [C].
void onnx_import_prelu(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    NodeId slope = onnx_src(n, 1);
    if (n->opset < 7 && onnx_shape(n, slope)->rank == 1 && onnx_shape(n, slope)->dim[0] != 1) {
        int64_t added[SHAPE_MAX_RANK];
        uint32_t count = 0;
        while (count + 2 < onnx_shape(n, x)->rank) {
            added[count] = count + 1;
            count++;
        }
        slope = onnx_unsqueeze(n, slope, added, count);
    }
    onnx_out(n, 0, onnx_op2(n, OP_leaky_relu, x, slope));
}

// --- limits and comparisons ---

// Limits are attributes before opset 11 and operands since.
static NodeId clip_limit(OnnxNode *n, NodeId x, uint32_t operand, const char *attr)
{
    if (n->opset >= 11)
        return onnx_opt(n, operand);
    return onnx_has_attr(n, attr) ? onnx_scalar_like(n, x, onnx_float(n, attr, 0)) : 0;
}

void onnx_import_clip(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    const NodeId lo = clip_limit(n, x, 1, "min"), hi = clip_limit(n, x, 2, "max");
    if (lo && hi)
        onnx_out(n, 0, onnx_op3(n, OP_clamp, x, lo, hi));
    else if (lo || hi)
        onnx_out(n, 0, onnx_op2(n, lo ? OP_max : OP_min, x, lo ? lo : hi));
    else
        onnx_out(n, 0, x);
}

void onnx_import_is_inf(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    const bool negative = onnx_flag(n, "detect_negative", 1),
               positive = onnx_flag(n, "detect_positive", 1);
    if (negative && positive)
        onnx_out(n, 0, onnx_op1(n, OP_is_inf, x));
    else if (negative || positive)
        onnx_out(
            n, 0,
            onnx_op2(n, OP_eq, x, onnx_scalar_like(n, x, negative ? -(double)INFINITY : (double)INFINITY)));
    else
        onnx_out(n, 0, onnx_op2(n, OP_lt, x, x)); // never true
}

// --- several operands ---

static NodeId fold_operands(OnnxNode *n, OpId op)
{
    NodeId r = onnx_src(n, 0);
    for (uint32_t i = 1; i < n->n_in; i++)
        r = onnx_op2(n, op, r, onnx_src(n, i));
    return r;
}

void onnx_import_of_all(OnnxNode *n)
{
    rlx_assert(op_info[n->row_op].min_src == 2);
    onnx_out(n, 0, fold_operands(n, n->row_op));
}

void onnx_import_mean(OnnxNode *n)
{
    const NodeId sum = fold_operands(n, OP_add);
    onnx_out(n, 0, n->n_in == 1 ? sum : onnx_op2(n, OP_div, sum, onnx_scalar_like(n, sum, n->n_in)));
}

// --- numbers of different types ---

static bool is_float(OnnxNode *n, NodeId x)
{
    return dtype_info[onnx_dtype(n, x)].cls == DCLASS_FLOAT;
}

// The result has the type of the base; a fractional exponent of a whole base is computed in the type of the
// exponent.
void onnx_import_pow(OnnxNode *n)
{
    const NodeId a = onnx_src(n, 0);
    NodeId b = onnx_src(n, 1);
    if (n->opset < 7)
        b = align_legacy(n, a, b);
    const DType type = onnx_dtype(n, a);
    const DType work = !is_float(n, a) && is_float(n, b) ? onnx_dtype(n, b) : type;
    const NodeId power = onnx_op2(n, OP_pow, onnx_cast(n, a, work), onnx_cast(n, b, work));
    onnx_out(n, 0, onnx_cast(n, power, type));
}

void onnx_import_mod(OnnxNode *n)
{
    const NodeId a = onnx_src(n, 0), b = onnx_src(n, 1);
    onnx_out(n, 0, onnx_op2(n, onnx_flag(n, "fmod", 0) ? OP_rem : OP_mod, a, b));
}

// Amounts outside of the type's width shift everything out; what comes in from the left of a signed number is
// its sign, so that this is a shift by all bits but one.
static NodeId arithmetic_shift(OnnxNode *n, NodeId a, NodeId b)
{
    const double last = 8.0 * dtype_info[onnx_dtype(n, b)].bytes - 1;
    const NodeId is_inside = onnx_op2(n, OP_logical_and, onnx_op2(n, OP_ge, b, onnx_scalar_like(n, b, 0)),
                                      onnx_op2(n, OP_le, b, onnx_scalar_like(n, b, last)));
    return onnx_op2(n, OP_shift_right, a, onnx_op3(n, OP_where, is_inside, b, onnx_scalar_like(n, b, last)));
}

void onnx_import_bit_shift(OnnxNode *n)
{
    const NodeId a = onnx_src(n, 0), b = onnx_src(n, 1);
    onnx_need_attr(n, "direction");
    if (ONNX_WORD(n, "direction", "LEFT", "RIGHT") == 0)
        onnx_out(n, 0, onnx_op2(n, OP_shift_left, a, b));
    else if (dtype_info[onnx_dtype(n, a)].cls == DCLASS_INT)
        onnx_out(n, 0, arithmetic_shift(n, a, b));
    else
        onnx_out(n, 0, onnx_op2(n, OP_shift_right, a, b));
}
