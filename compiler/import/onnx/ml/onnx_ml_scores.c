// SPDX-License-Identifier: Apache-2.0
// From scores to what the operators of ai.onnx.ml return: transformed scores, and labels.
#include "compiler/import/onnx/ml/onnx_ml.h"
#include "compiler/import/onnx/onnx_text.h"

MlPost onnx_ml_post(OnnxNode *n)
{
    return (MlPost)ONNX_WORD(n, "post_transform", "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT");
}

// A softmax of the scores that are not 0; the others stay 0.
static NodeId softmax_zero(OnnxNode *n, NodeId x)
{
    const int64_t axis = 1;
    const NodeId is_zero = onnx_op_number(n, OP_le, onnx_op1(n, OP_abs, x), 1e-7);
    const NodeId shifted = onnx_op2(n, OP_sub, x, onnx_reduce(n, OP_reduce_max, x, &axis, 1));
    const NodeId e = onnx_op3(n, OP_where, is_zero, onnx_scalar_like(n, x, 0), onnx_op1(n, OP_exp, shifted));
    return onnx_op2(n, OP_div, e, onnx_reduce(n, OP_reduce_sum, e, &axis, 1));
}

// sqrt(2) times the inverse of erf at 2 x - 1, by Winitzki's formula, which is what other implementations
// use.
static NodeId probit(OnnxNode *n, NodeId x)
{
    static const double a = 0.147, pi = 3.14159265358979;
    const NodeId at = onnx_op_number(n, OP_add, onnx_op_number(n, OP_mul, x, 2), -1);
    const NodeId rest = onnx_op2(n, OP_mul, onnx_op_number(n, OP_add, onnx_op1(n, OP_neg, at), 1),
                                 onnx_op_number(n, OP_add, at, 1));
    const NodeId log = onnx_op1(n, OP_log, rest);
    const NodeId v = onnx_op_number(n, OP_add, onnx_op_number(n, OP_mul, log, 0.5), 2 / (pi * a));
    const NodeId inner =
        onnx_op2(n, OP_sub, onnx_op1(n, OP_square, v), onnx_op_number(n, OP_mul, log, 1 / a));
    const NodeId size = onnx_op1(n, OP_sqrt, onnx_op2(n, OP_sub, onnx_op1(n, OP_sqrt, inner), v));
    const NodeId sign = onnx_op3(n, OP_where, onnx_op_number(n, OP_lt, at, 0),
                                 onnx_scalar_like(n, x, -1.41421356), onnx_scalar_like(n, x, 1.41421356));
    return onnx_op2(n, OP_mul, size, sign);
}

NodeId onnx_ml_transform(OnnxNode *n, MlPost post, NodeId scores)
{
    rlx_assert(post <= ML_PROBIT);
    switch (post) {
    case ML_SOFTMAX:
        return onnx_softmax(n, scores, 1);
    case ML_LOGISTIC:
        return onnx_op1(n, OP_sigmoid, scores);
    case ML_SOFTMAX_ZERO:
        return softmax_zero(n, scores);
    case ML_PROBIT:
        return probit(n, scores);
    case ML_NONE:
        break;
    }
    return scores;
}

NodeId onnx_ml_two_scores(OnnxNode *n, MlPost post, NodeId score, bool is_probability)
{
    NodeId other = onnx_op1(n, OP_neg, score);
    if (post == ML_LOGISTIC) {
        other = onnx_op1(n, OP_sigmoid, other);
        score = onnx_op1(n, OP_sigmoid, score);
    } else if (is_probability) {
        other = onnx_op_number(n, OP_add, other, 1);
    }
    return onnx_concat(n, (const NodeId[]){other, score}, 2, 1);
}

NodeId onnx_ml_best(OnnxNode *n, NodeId scores)
{
    return onnx_op_int(n, OP_argmax, scores, A_argmax_axis, 1);
}

bool onnx_ml_read_labels(OnnxNode *n, const char *ints, MlLabels *l)
{
    *l = (MlLabels){onnx_attr(n, ints), onnx_attr(n, "classlabels_strings"), 0};
    if (l->strings && l->strings->n_strings == 0)
        l->strings = NULL;
    if (l->strings)
        l->count = (int64_t)l->strings->n_strings;
    else if (l->ints)
        l->count = (int64_t)l->ints->n_ints;
    if (!n->failed && l->count == 0)
        onnx_fail(n, E0203, "needs labels: the attribute '%s' or 'classlabels_strings'", ints);
    return !n->failed;
}

void onnx_ml_out_labels(OnnxNode *n, const MlLabels *l, NodeId index, int64_t classes)
{
    if (!n->failed && l->count < classes)
        onnx_fail(n, E0203, "there are %lld labels for %lld classes", (long long)l->count,
                  (long long)classes);
    if (n->failed || !onnx_spend(n, l->count))
        return;
    if (l->strings) {
        const NodeId list = onnx_text_const(n, l->strings->strings, (size_t)l->count);
        onnx_out_text(n, 0, onnx_gather(n, list, index, 0));
        return;
    }
    rlx_assert(l->ints != NULL && l->ints->n_ints == (size_t)l->count);
    const Shape s = shape_of(1, &l->count);
    const uint64_t bytes = (uint64_t)l->count * sizeof(int64_t);
    const void *data = arena_copy(n->model->arena, l->ints->ints, (size_t)bytes);
    onnx_out(n, 0, onnx_gather(n, onnx_const(n, DTYPE_i64, &s, data, bytes), index, 0));
}

NodeId onnx_ml_matrix(OnnxNode *n, uint32_t operand)
{
    NodeId x = onnx_src(n, operand);
    if (onnx_dtype(n, x) != DTYPE_f64)
        x = onnx_cast(n, x, DTYPE_f32);
    if (onnx_shape(n, x)->rank == 1)
        x = onnx_unsqueeze(n, x, &(const int64_t){0}, 1);
    if (!n->failed && onnx_shape(n, x)->rank != 2)
        onnx_fail(n, E0204, "input %u must have 2 axes, found %u", operand, onnx_shape(n, x)->rank);
    return x;
}
