// SPDX-License-Identifier: Apache-2.0
// Losses over classes: [N, C, d ...] scores and [N, d ...] targets.
#include "compiler/import/onnx/onnx_import.h"

typedef struct Loss {
    NodeId x, target, weight; // [N, C, d ...], [N, d ...], [C] or 0
    NodeId keep;              // bool [N, d ...], 0: every target counts
} Loss;

static NodeId reduce_all(OnnxNode *n, NodeId x)
{
    return n->failed ? 0 : onnx_op1(n, OP_reduce_sum, x);
}

static NodeId zero_like(OnnxNode *n, NodeId x)
{
    return onnx_scalar(n, onnx_dtype(n, x), 0);
}

// The element of axis 1 that the target names.
static NodeId picked(OnnxNode *n, const Loss *s)
{
    const int64_t one = 1;
    const NodeId wanted = onnx_unsqueeze(n, onnx_cast(n, s->target, DTYPE_i64), &one, 1);
    return onnx_squeeze(n, onnx_gather_along(n, s->x, wanted, 1), &one, 1);
}

// What every target counts, [N, d ...]; 0: all count one.
static NodeId weights(OnnxNode *n, const Loss *s)
{
    if (!s->weight && !s->keep)
        return 0;
    const NodeId one = onnx_scalar(n, onnx_dtype(n, s->x), 1);
    const NodeId target = onnx_cast(n, s->target, DTYPE_i64);
    const NodeId safe = s->keep ? onnx_op3(n, OP_where, s->keep, target, zero_like(n, target)) : target;
    const NodeId of_class =
        s->weight ? onnx_gather(n, onnx_cast(n, s->weight, onnx_dtype(n, s->x)), safe, 0) : one;
    return s->keep ? onnx_op3(n, OP_where, s->keep, of_class, zero_like(n, s->x)) : of_class;
}

static Loss read_loss(OnnxNode *n)
{
    Loss s = {.x = onnx_src(n, 0), .target = onnx_src(n, 1), .weight = onnx_opt(n, 2)};
    const bool ignores = onnx_has_attr(n, "ignore_index");
    const int64_t ignored = onnx_int(n, "ignore_index", 0);
    const uint32_t rank = onnx_shape(n, s.x)->rank;
    if (!n->failed && rank < 2)
        onnx_fail(n, E0204, "input 0 must have at least 2 axes, found %u", rank);
    if (!n->failed && onnx_shape(n, s.target)->rank != rank - 1)
        onnx_fail(n, E0204, "input 1 must have %u axes, found %u", rank - 1, onnx_shape(n, s.target)->rank);
    if (ignores) {
        const NodeId none = onnx_ints_const(n, &ignored, 1);
        s.keep = onnx_op2(n, OP_ne, onnx_cast(n, s.target, DTYPE_i64), onnx_reshape(n, none, &(Shape){0}));
    }
    return s;
}

static void import_nll(OnnxNode *n, const Loss *s)
{
    const uint32_t reduction = ONNX_WORD(n, "reduction", "mean", "sum", "none");
    if (n->failed)
        return;
    const NodeId each = weights(n, s);
    NodeId loss = onnx_op1(n, OP_neg, picked(n, s));
    if (each) // an ignored score may be infinite, so that a factor of 0 is not enough
        loss = onnx_op2(n, OP_mul, s->keep ? onnx_op3(n, OP_where, s->keep, loss, zero_like(n, loss)) : loss,
                        each);
    if (reduction == 2) {
        onnx_out(n, 0, loss);
        return;
    }
    NodeId sum = reduce_all(n, loss);
    if (reduction == 0) {
        const NodeId ones = each ? each : onnx_scalar(n, onnx_dtype(n, loss), 1);
        const Shape all = *onnx_shape(n, loss);
        sum = onnx_op2(n, OP_div, sum, reduce_all(n, onnx_expand(n, ones, all.dim, all.rank)));
    }
    onnx_out(n, 0, sum);
}

void onnx_import_nll_loss(OnnxNode *n)
{
    const Loss s = read_loss(n);
    import_nll(n, &s);
}

void onnx_import_softmax_cross_entropy(OnnxNode *n)
{
    Loss s = read_loss(n);
    if (n->failed)
        return;
    s.x = onnx_op_int(n, OP_log_softmax, s.x, A_log_softmax_axis, 1);
    import_nll(n, &s);
    onnx_out(n, 1, s.x);
}
