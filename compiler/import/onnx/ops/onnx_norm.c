// SPDX-License-Identifier: Apache-2.0
// Softmax and normalisations. Those without an op of ours are composed from layer_norm, pools and reductions.
#include "compiler/import/onnx/onnx_import.h"

static NodeId build_axis(OnnxNode *n, OpId op, NodeId x, int64_t axis)
{
    return onnx_op_int(n, op, x, attr_find(op, "axis"), axis);
}

// --- along one axis ---

// Before opset 13 all axes from `axis` on were one.
static NodeId flat_axis(OnnxNode *n, NodeId x, int64_t *axis)
{
    uint32_t at = 0;
    const uint32_t rank = onnx_shape(n, x)->rank;
    *axis = onnx_int(n, "axis", n->opset >= 13 ? -1 : 1);
    if (n->opset >= 13 || n->failed)
        return x;
    if (*axis == rank && rank > 0) { // then every element is on its own
        *axis = 1;
        return build_axis(n, OP_flatten, x, rank);
    }
    if (!onnx_axis(n, *axis, rank, &at))
        return 0;
    *axis = at == rank - 1 ? at : 1;
    return at == rank - 1 ? x : build_axis(n, OP_flatten, x, at);
}

// ONNX defines softmax of 16-bit floats by steps that each round to the type. Short rows follow it to the
// bit; for longer ones our softmax, which rounds once, is closer to the truth than the definition.
enum { MAX_STEPPED = 32 };

bool onnx_steps_softmax(const OnnxNode *n, NodeId x, int64_t axis)
{
    const DType type = onnx_dtype(n, x);
    const Shape *s = onnx_shape(n, x);
    const int64_t at = axis < 0 ? axis + s->rank : axis;
    if (n->failed || (type != DTYPE_f16 && type != DTYPE_bf16) || at < 0 || at >= s->rank)
        return false;
    return dim_is_const(s->dim[at]) && s->dim[at] >= 1 && s->dim[at] <= MAX_STEPPED;
}

// A value of f32, rounded to `type` and back.
static NodeId rounded(OnnxNode *n, NodeId x, DType type)
{
    return onnx_cast(n, onnx_cast(n, x, type), DTYPE_f32);
}

// The sum along an axis; of bf16 it is rounded after every step.
static NodeId stepped_sum(OnnxNode *n, NodeId x, int64_t axis, DType type)
{
    rlx_assert(axis >= 0);
    if (type == DTYPE_f16)
        return rounded(n, onnx_reduce(n, OP_reduce_sum, x, &axis, 1), type);
    NodeId sum = onnx_slice(n, x, axis, 0, 1, 1);
    const int64_t count = n->failed ? 0 : onnx_shape(n, x)->dim[axis];
    for (int64_t i = 1; i < count; i++)
        sum = rounded(n, onnx_op2(n, OP_add, sum, onnx_slice(n, x, axis, i, i + 1, 1)), type);
    return sum;
}

NodeId onnx_softmax_steps(OnnxNode *n, NodeId x, int64_t axis)
{
    const DType type = onnx_dtype(n, x);
    axis = axis < 0 ? axis + onnx_shape(n, x)->rank : axis;
    const NodeId wide = onnx_cast(n, x, DTYPE_f32), top = onnx_reduce(n, OP_reduce_max, wide, &axis, 1);
    const NodeId e = rounded(n, onnx_op1(n, OP_exp, rounded(n, onnx_op2(n, OP_sub, wide, top), type)), type);
    return onnx_cast(n, onnx_op2(n, OP_div, e, stepped_sum(n, e, axis, type)), type);
}

void onnx_import_softmax(OnnxNode *n)
{
    const OpId op = n->row_op;
    const NodeId x = onnx_src(n, 0);
    int64_t axis = 0;
    const NodeId flat = flat_axis(n, x, &axis);
    const Shape shape = *onnx_shape(n, x);
    const bool by_steps = op == OP_softmax && onnx_steps_softmax(n, flat, axis);
    const NodeId y = by_steps ? onnx_softmax_steps(n, flat, axis) : build_axis(n, op, flat, axis);
    onnx_out(n, 0, onnx_reshape(n, y, &shape));
}

// 1 at the first largest element of the axis.
void onnx_import_hardmax(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    int64_t given = 0;
    uint32_t axis = 0;
    const NodeId flat = flat_axis(n, x, &given);
    const Shape shape = *onnx_shape(n, flat);
    if (!onnx_axis(n, given, shape.rank, &axis))
        return;
    NodeBuild b = ONNX_BEGIN(n, OP_argmax, flat);
    node_int(&b, A_argmax_axis, axis);
    node_int(&b, A_argmax_keepdims, 1);
    const NodeId best = onnx_end(n, &b);
    Shape along = {.rank = shape.rank - axis};
    for (uint32_t i = 0; i < along.rank; i++)
        along.dim[i] = i ? 1 : shape.dim[axis];
    const NodeId index = onnx_reshape(n, onnx_iota(n, shape.dim[axis]), &along);
    const NodeId hot = onnx_cast(n, onnx_op2(n, OP_eq, index, best), onnx_dtype(n, x));
    const Shape full = *onnx_shape(n, x);
    onnx_out(n, 0, onnx_reshape(n, hot, &full));
}

void onnx_import_lp_norm(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    const int64_t axis = onnx_int(n, "axis", -1), p = onnx_int(n, "p", 2);
    if (!n->failed && p != 1 && p != 2)
        onnx_fail(n, E0203, "attribute 'p' is %lld, expected 1 or 2", (long long)p);
    const NodeId norm = onnx_reduce(n, p == 1 ? OP_reduce_l1 : OP_reduce_l2, x, &axis, 1);
    // A vector of zeros stays one.
    const NodeId is_zero = onnx_op2(n, OP_eq, norm, onnx_scalar_like(n, x, 0));
    onnx_out(n, 0, onnx_op2(n, OP_div, x, onnx_op3(n, OP_where, is_zero, onnx_scalar_like(n, x, 1), norm)));
}

// --- per channel ---

// A value a channel, [C], so that it broadcasts to [N, C, ...] of that rank.
static NodeId per_channel(OnnxNode *n, NodeId v, NodeId like, uint32_t rank)
{
    int64_t added[SHAPE_MAX_RANK];
    uint32_t count = 0;
    while (count + 2 < rank) {
        added[count] = count + 1;
        count++;
    }
    return onnx_unsqueeze(n, onnx_cast(n, v, onnx_dtype(n, like)), added, count);
}

static NodeId scale_and_shift(OnnxNode *n, NodeId x, NodeId scale, NodeId shift, uint32_t rank)
{
    const NodeId scaled = onnx_op2(n, OP_mul, x, per_channel(n, scale, x, rank));
    return onnx_op2(n, OP_add, scaled, per_channel(n, shift, x, rank));
}

// Mean 0 and variance 1 over the axes from `axis` on.
static NodeId normalise(OnnxNode *n, NodeId x, int64_t axis, double epsilon)
{
    NodeBuild b = ONNX_BEGIN(n, OP_layer_norm, x);
    node_int(&b, A_layer_norm_axis, axis);
    node_float(&b, A_layer_norm_epsilon, epsilon);
    return onnx_end(n, &b);
}

void onnx_import_instance_norm(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), scale = onnx_src(n, 1), shift = onnx_src(n, 2);
    const NodeId y = normalise(n, x, 2, onnx_float(n, "epsilon", (double)1e-5f));
    onnx_out(n, 0, scale_and_shift(n, y, scale, shift, onnx_shape(n, x)->rank));
}

// Scale and shift are per group in opset 18 and per channel since 21.
void onnx_import_group_norm(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), scale = onnx_src(n, 1), shift = onnx_src(n, 2);
    const double epsilon = onnx_float(n, "epsilon", (double)1e-5f);
    const Shape shape = *onnx_shape(n, x);
    const Dim grouped[3] = {0, onnx_int(n, "num_groups", 0), -1};
    onnx_ignore_attr(n, "stash_type");
    if (!n->failed && grouped[1] < 1)
        onnx_fail(n, E0203, "attribute 'num_groups' is %lld, expected at least 1", (long long)grouped[1]);
    NodeId y = normalise(n, onnx_reshape_to(n, x, grouped, 3), 2, epsilon);
    if (n->opset < 21)
        y = scale_and_shift(n, y, scale, shift, 3);
    y = onnx_reshape(n, y, &shape);
    onnx_out(n, 0, n->opset < 21 ? y : scale_and_shift(n, y, scale, shift, shape.rank));
}

// ImageScaler of the first opsets: x times a number, plus one number for each channel.
void onnx_import_image_scaler(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    const double scale = onnx_float(n, "scale", 1);
    const Onnx__AttributeProto *bias = onnx_attr(n, "bias");
    const Shape *s = onnx_shape(n, x);
    if (!n->failed && (s->rank != 4 || !bias || (Dim)bias->n_floats != s->dim[1]))
        onnx_fail(n, E0204, "needs an input [N, C, H, W], and the attribute 'bias' with C numbers");
    if (n->failed)
        return;
    const Shape list = shape_of(1, &s->dim[1]);
    const uint64_t bytes = bias->n_floats * sizeof *bias->floats;
    const void *data = arena_copy(n->model->arena, bias->floats, bytes);
    const NodeId shift = per_channel(n, onnx_const(n, DTYPE_f32, &list, data, bytes), x, 4);
    onnx_out(n, 0, onnx_op2(n, OP_add, onnx_op_number(n, OP_mul, x, scale), shift));
}

// x / (bias + alpha * mean of x^2 over a window of channels)^beta, by a pool over [N, 1, C, ...].
void onnx_import_lrn(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    const int64_t size = onnx_int(n, "size", 0);
    const double alpha = onnx_float(n, "alpha", (double)1e-4f), beta = onnx_float(n, "beta", 0.75);
    const double bias = onnx_float(n, "bias", 1.0);
    const Shape shape = *onnx_shape(n, x);
    if (!n->failed && (size < 1 || shape.rank < 2))
        onnx_fail(n, E0203, "needs a positive 'size' and an input [N, C, ...]");
    const NodeId square = onnx_op1(n, OP_square, x);
    const NodeId planes = onnx_reshape_to(n, square, (const Dim[]){shape.dim[0], 1, shape.dim[1], -1}, 4);
    if (n->failed)
        return;
    NodeBuild b = ONNX_BEGIN(n, OP_avg_pool, planes);
    node_ints(&b, A_avg_pool_kernel, (const int64_t[]){size, 1}, 2);
    node_ints(&b, A_avg_pool_pads, (const int64_t[]){(size - 1) / 2, 0, size - 1 - (size - 1) / 2, 0}, 4);
    node_int(&b, A_avg_pool_count_include_pad, 1);
    const NodeId mean = onnx_reshape(n, onnx_end(n, &b), &shape);
    const NodeId base = onnx_op2(n, OP_add, onnx_op2(n, OP_mul, mean, onnx_scalar_like(n, x, alpha)),
                                 onnx_scalar_like(n, x, bias));
    onnx_out(n, 0, onnx_op2(n, OP_div, x, onnx_op2(n, OP_pow, base, onnx_scalar_like(n, x, beta))));
}

// --- over several axes ---

// (x - mean) / (standard deviation + 1e-9)
void onnx_import_mean_variance_norm(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    OnnxInts axes;
    if (!onnx_ints(n, "axes", &axes))
        axes = (OnnxInts){.n = 3, .v = {0, 2, 3}};
    const NodeId mean = onnx_reduce(n, OP_reduce_mean, x, axes.v, axes.n);
    const NodeId centred = onnx_op2(n, OP_sub, x, mean);
    const NodeId variance = onnx_reduce(n, OP_reduce_mean, onnx_op1(n, OP_square, centred), axes.v, axes.n);
    const NodeId deviation =
        onnx_op2(n, OP_add, onnx_op1(n, OP_sqrt, variance), onnx_scalar_like(n, x, 1e-9));
    onnx_out(n, 0, onnx_op2(n, OP_div, centred, deviation));
}
