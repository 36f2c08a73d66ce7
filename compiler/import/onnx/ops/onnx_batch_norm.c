// SPDX-License-Identifier: Apache-2.0
// BatchNormalization: with given statistics an op of ours, with those of the batch (training) composed.
#include "compiler/import/onnx/onnx_import.h"

// A value a channel, [C], so that it broadcasts to [N, C, ...].
static NodeId per_channel(OnnxNode *n, NodeId v, NodeId like)
{
    int64_t added[SHAPE_MAX_RANK];
    uint32_t count = 0;
    for (; count + 2 < onnx_shape(n, like)->rank; count++)
        added[count] = count + 1;
    return onnx_unsqueeze(n, onnx_cast(n, v, onnx_dtype(n, like)), added, count);
}

// The operands of BatchNormalization, and where its statistics come from. The parameters have one entry a
// channel, or, with `spatial` 0 before opset 9, one for every place of [C, ...].
typedef struct BatchNorm {
    NodeId src[5]; // x, scale, bias, mean, variance
    double epsilon, momentum;
    uint32_t n_axes; // that the statistics of a batch go over
    int64_t axes[SHAPE_MAX_RANK];
    bool is_spatial, trains;
} BatchNorm;

static BatchNorm read_batch_norm(OnnxNode *n)
{
    BatchNorm b = {.epsilon = onnx_float(n, "epsilon", (double)1e-5f),
                   .momentum = onnx_float(n, "momentum", (double)0.9f),
                   .is_spatial = onnx_flag(n, "spatial", 1),
                   .trains = onnx_flag(n, "training_mode", 0)};
    onnx_ignore_attr(n, "is_test");
    for (uint32_t i = 0; i < 5; i++)
        b.src[i] = onnx_src(n, i);
    for (uint32_t i = 1; i < 5; i++) // before opset 14 the results said what was meant
        b.trains = b.trains || (n->opset < 14 && onnx_wants(n, i));
    const uint32_t rank = onnx_shape(n, b.src[0])->rank;
    for (uint32_t i = 0; i < rank; i++)
        if (i == 0 || (b.is_spatial && i > 1))
            b.axes[b.n_axes++] = i;
    if (!n->failed && rank < 2)
        onnx_fail(n, E0204, "needs an input [N, C, ...]");
    return b;
}

// A parameter in f32 or f64, with the axes of x after the first.
static NodeId batch_parameter(OnnxNode *n, const BatchNorm *b, NodeId v, NodeId x)
{
    return b->is_spatial ? per_channel(n, v, x) : onnx_cast(n, v, onnx_dtype(n, x));
}

static NodeId mixed(OnnxNode *n, NodeId old, NodeId now, double momentum)
{
    const NodeId kept = onnx_op2(n, OP_mul, old, onnx_scalar_like(n, old, momentum)),
                 added = onnx_op2(n, OP_mul, now, onnx_scalar_like(n, old, 1 - momentum));
    return onnx_op2(n, OP_add, kept, added);
}

// (x - mean) / sqrt(variance + epsilon) * scale + bias
static NodeId normalised(OnnxNode *n, const BatchNorm *b, NodeId centred, NodeId variance)
{
    const NodeId scale = batch_parameter(n, b, b->src[1], centred),
                 shift = batch_parameter(n, b, b->src[2], centred);
    const NodeId factor =
        onnx_op1(n, OP_rsqrt, onnx_op2(n, OP_add, variance, onnx_scalar_like(n, centred, b->epsilon)));
    return onnx_op2(n, OP_add, onnx_op2(n, OP_mul, onnx_op2(n, OP_mul, centred, factor), scale), shift);
}

static void import_composed_batch_norm(OnnxNode *n, const BatchNorm *b)
{
    const DType type = onnx_dtype(n, b->src[0]);
    const NodeId x = onnx_cast(n, b->src[0], type == DTYPE_f64 ? DTYPE_f64 : DTYPE_f32);
    if (!b->trains) {
        const NodeId centred = onnx_op2(n, OP_sub, x, batch_parameter(n, b, b->src[3], x));
        const NodeId y = normalised(n, b, centred, batch_parameter(n, b, b->src[4], x));
        onnx_out(n, 0, onnx_cast(n, y, type));
        return;
    }
    const NodeId mean = onnx_reduce(n, OP_reduce_mean, x, b->axes, b->n_axes);
    const NodeId centred = onnx_op2(n, OP_sub, x, mean);
    const NodeId variance =
        onnx_reduce(n, OP_reduce_mean, onnx_op1(n, OP_square, centred), b->axes, b->n_axes);
    onnx_out(n, 0, onnx_cast(n, normalised(n, b, centred, variance), type));
    const NodeId batch[2] = {mean, variance};
    for (uint32_t i = 0; i < 2; i++) {
        const DType own = onnx_dtype(n, b->src[3 + i]);
        const Shape shape = *onnx_shape(n, b->src[3 + i]);
        const NodeId now = onnx_reshape(n, batch[i], &shape),
                     old = onnx_cast(n, b->src[3 + i], onnx_dtype(n, now));
        onnx_out(n, 1 + i, onnx_cast(n, mixed(n, old, now, b->momentum), own));
        onnx_out(n, 3 + i, onnx_cast(n, now, own));
    }
}

void onnx_import_batch_norm(OnnxNode *n)
{
    BatchNorm bn = read_batch_norm(n);
    if (bn.trains || !bn.is_spatial) {
        import_composed_batch_norm(n, &bn);
        return;
    }
    for (uint32_t i = 1; i < 5; i++)
        bn.src[i] = onnx_cast(n, bn.src[i], onnx_dtype(n, bn.src[0]));
    NodeBuild b = onnx_begin(n, OP_batch_norm, bn.src, 5);
    node_float(&b, A_batch_norm_epsilon, bn.epsilon);
    onnx_out(n, 0, onnx_end(n, &b));
}
