// SPDX-License-Identifier: Apache-2.0
// Probabilities of classes from the decisions of support vector machines: Platt's sigmoid for every pair of
// classes, and from these the coupling of Wu, Lin and Weng (2004, their second method). The iteration ends
// where that of libsvm and ONNX Runtime does: more steps would come nearer, but to other numbers.
#include "compiler/import/onnx/onnx_loop.h"
#include "compiler/import/onnx/ml/onnx_ml.h"

enum { MAX_SWEEPS = 100 };

static const double least = 1e-7; // of a pair's probability

// --- pairs ---

// [N, pairs]: how probable the first class of a pair is where it is one of the two.
static NodeId pair_probability(OnnxNode *n, NodeId scores, int64_t pairs)
{
    const NodeId a = onnx_ml_floats(n, "prob_a"), b = onnx_ml_floats(n, "prob_b");
    if (!a || !b || onnx_const_dim(n, a, 0) != pairs || onnx_const_dim(n, b, 0) != pairs) {
        onnx_fail(n, E0203, "attributes 'prob_a' and 'prob_b' must have %lld entries each, one for each pair",
                  (long long)pairs);
        return 0;
    }
    const NodeId at = onnx_op2(n, OP_add, onnx_op2(n, OP_mul, scores, a), b);
    const NodeId p = onnx_op2(n, OP_sub, onnx_scalar(n, DTYPE_f32, 1), onnx_op1(n, OP_sigmoid, at));
    return onnx_op3(n, OP_clamp, p, onnx_scalar(n, DTYPE_f32, least), onnx_scalar(n, DTYPE_f32, 1 - least));
}

// [N, classes, classes]: entry [i, j] says how probable i is where it is i or j; 0 where they are the same.
static NodeId pair_matrix(OnnxNode *n, NodeId p, int64_t classes)
{
    Arena *a = n->model->arena;
    const Dim square[] = {classes, classes};
    const Dim count = classes * classes;
    Tensor place = tensor_new(a, DTYPE_i64, 1, &count),
           sign = tensor_new(a, DTYPE_f32, 2, square), first = tensor_new(a, DTYPE_f32, 2, square);
    for (int64_t i = 0, pair = 0; i < classes; i++)
        for (int64_t j = i + 1; j < classes; j++, pair++) {
            tensor_set_i64(&place, i * classes + j, pair);
            tensor_set_i64(&place, j * classes + i, pair);
            tensor_set_f64(&sign, i * classes + j, 1);
            tensor_set_f64(&sign, j * classes + i, -1);
            tensor_set_f64(&first, j * classes + i, 1);
        }
    const NodeId all = onnx_gather(n, p, onnx_ml_table(n, &place), 1);
    const NodeId matrix = onnx_reshape_to(n, all, (const Dim[]){-1, classes, classes}, 3);
    const NodeId signed_p = onnx_op2(n, OP_mul, matrix, onnx_ml_table(n, &sign));
    return onnx_op2(n, OP_add, onnx_ml_table(n, &first), signed_p);
}

// What the iteration minimises p' Q p of: [N, classes, classes].
static NodeId quadratic_form(OnnxNode *n, NodeId r, int64_t classes)
{
    static const int64_t turned[] = {0, 2, 1};
    const int64_t rows = 1;
    const NodeId other = onnx_op1(n, OP_neg, onnx_op2(n, OP_mul, onnx_transpose(n, r, turned), r));
    const NodeId diagonal = onnx_reduce(n, OP_reduce_sum, onnx_op1(n, OP_square, r), &rows, 1);
    Tensor is_same = tensor_new(n->model->arena, DTYPE_bool, 2, (const Dim[]){classes, classes});
    for (int64_t i = 0; i < classes; i++)
        tensor_set_i64(&is_same, i * classes + i, 1);
    return onnx_op3(n, OP_where, onnx_ml_table(n, &is_same), diagonal, other);
}

// --- the iteration ---

// Entry t of axis 1, which stays with size 1.
static NodeId entry(OnnxNode *n, NodeId x, NodeId t)
{
    return onnx_gather(n, x, onnx_reshape(n, t, &(const Shape){.rank = 1, .dim = {1}}), 1);
}

// One class. carried: p and Qp [N, classes], p' Q p [N, 1]; captured: Q.
static void make_turn(OnnxNode *n, const OnnxBody *b, NodeId t, const NodeId *in, NodeId *out)
{
    rlx_assert(b->n_carried == 3 && b->n_captured == 1);
    const int64_t *classes = b->ctx, one = 1;
    const NodeId p = in[0], qp = in[1], pqp = in[2];
    const NodeId row = onnx_squeeze(n, entry(n, in[3], t), &one, 1);
    const NodeId corner = entry(n, row, t), slope = entry(n, qp, t);
    const NodeId step = onnx_op2(n, OP_div, onnx_op2(n, OP_sub, pqp, slope), corner);
    const NodeId whole = onnx_op_number(n, OP_add, step, 1);
    const NodeId is_here = onnx_cast(n, onnx_op2(n, OP_eq, onnx_iota(n, *classes), t), DTYPE_f32);
    const NodeId moved = onnx_op2(n, OP_add, p, onnx_op2(n, OP_mul, step, is_here));
    const NodeId gain =
        onnx_op2(n, OP_add, onnx_op2(n, OP_mul, step, corner), onnx_op_number(n, OP_mul, slope, 2));
    const NodeId form = onnx_op2(n, OP_add, pqp, onnx_op2(n, OP_mul, step, gain));
    out[0] = onnx_op2(n, OP_div, moved, whole);
    out[1] = onnx_op2(n, OP_div, onnx_op2(n, OP_add, qp, onnx_op2(n, OP_mul, step, row)), whole);
    out[2] = onnx_op2(n, OP_div, onnx_op2(n, OP_div, form, whole), whole);
}

// All classes in turn, for the rows that are not near enough. carried: p, whether a row is; captured: Q.
static void make_sweep(OnnxNode *n, const OnnxBody *b, NodeId i, const NodeId *in, NodeId *out)
{
    rlx_assert(b->n_carried == 2 && b->n_captured == 1);
    const int64_t *classes = b->ctx, one = 1, two = 2, all[] = {0, 1};
    const NodeId p = in[0], q = in[2];
    (void)i;
    const NodeId products = onnx_op2(n, OP_mul, q, onnx_unsqueeze(n, p, &one, 1));
    const NodeId qp = onnx_squeeze(n, onnx_reduce(n, OP_reduce_sum, products, &two, 1), &two, 1);
    const NodeId pqp = onnx_reduce(n, OP_reduce_sum, onnx_op2(n, OP_mul, p, qp), &one, 1);
    const NodeId off = onnx_op1(n, OP_abs, onnx_op2(n, OP_sub, qp, pqp));
    const NodeId error = onnx_reduce(n, OP_reduce_max, off, &one, 1);
    const NodeId is_near = onnx_op_number(n, OP_lt, error, 0.005 / (double)*classes);
    const NodeId is_done = onnx_op2(n, OP_logical_or, in[1], is_near);
    NodeId carried[] = {p, qp, pqp}, captured[] = {q}, next[3] = {0};
    const OnnxBody turns = {.n_carried = 3,
                            .n_captured = 1,
                            .carried = carried,
                            .captured = captured,
                            .trips = *classes,
                            .make = make_turn,
                            .ctx = classes};
    onnx_loop_of(n, &turns, next);
    out[0] = onnx_op3(n, OP_where, is_done, p, next[0]);
    out[1] = is_done;
    const NodeId left = onnx_cast(n, onnx_op1(n, OP_logical_not, is_done), DTYPE_i32);
    const NodeId any = onnx_op_number(n, OP_gt, onnx_reduce(n, OP_reduce_sum, left, all, 2), 0);
    out[2] = onnx_reshape(n, any, &(const Shape){0});
}

NodeId onnx_ml_platt(OnnxNode *n, NodeId scores, int64_t classes)
{
    rlx_assert(classes >= 2);
    const NodeId pairs = pair_probability(n, onnx_cast(n, scores, DTYPE_f32), classes * (classes - 1) / 2);
    const NodeId q = quadratic_form(n, pair_matrix(n, pairs, classes), classes);
    if (n->failed)
        return 0;
    const Dim rows = onnx_shape(n, scores)->dim[0];
    const NodeId even = onnx_scalar(n, DTYPE_f32, 1 / (double)classes);
    NodeId carried[] = {onnx_expand(n, even, (const Dim[]){rows, classes}, 2),
                        onnx_expand(n, onnx_scalar(n, DTYPE_bool, 0), (const Dim[]){rows, 1}, 2)};
    NodeId captured[] = {q}, out[2] = {0};
    const OnnxBody sweeps = {.n_carried = 2,
                             .n_captured = 1,
                             .has_condition = true,
                             .carried = carried,
                             .captured = captured,
                             .trips = MAX_SWEEPS,
                             .make = make_sweep,
                             .ctx = &classes};
    onnx_loop_of(n, &sweeps, out);
    return out[0];
}
