// SPDX-License-Identifier: Apache-2.0
// How import functions build nodes: the shorthands of graph.h with span and label of the operator, an error
// state instead of checks, and evaluation of small constants, so that sizes are numbers when a shape needs
// them.
#include "compiler/import/tflite/tfl_import.h"
#include "ir/eval/eval.h"
#include "ir/eval/eval_work.h"

#define MAX_WORK (UINT64_C(1) << 28) // of evaluation at import, so that no file can keep us busy

static uint64_t nodes_max(const TflModel *m)
{
    return (UINT64_C(1) << 15) + 4 * (uint64_t)m->source->len;
}

bool tfl_spend(TflNode *n, uint64_t elements)
{
    TflModel *m = n->model;
    m->made += elements;
    return m->made <= (UINT64_C(1) << 22) + 32 * (uint64_t)m->source->len ||
           tfl_fail(n, E0004, "the model makes too many elements at import");
}

static bool is_foldable(TflNode *n, NodeId id)
{
    const Node *v = graph_node(n->graph, id);
    uint64_t in = 0;
    if (v->n_src == 0 || v->n_results != 1 || v->op == OP_loop || v->op == OP_result || v->op == OP_if ||
        !shape_is_const(v->shape) || shape_numel(v->shape) > TFL_MAX_FOLD)
        return false;
    for (uint32_t i = 0; i < v->n_src; i++) {
        if (v->src[i] && !node_is_const(n->graph, v->src[i]))
            return false;
        if (v->src[i])
            in += (uint64_t)shape_numel(graph_node(n->graph, v->src[i])->shape);
    }
    const uint64_t work = in + eval_work(n->graph, id, INT64_MAX) / 16;
    if (in > 16 * TFL_MAX_FOLD || work > MAX_WORK - n->model->work)
        return false;
    n->model->work += work;
    return true;
}

static NodeId fold(TflNode *n, NodeId id)
{
    Arena *a = n->model->arena;
    const Node *v = graph_node(n->graph, id);
    if (v->op == OP_const || !is_foldable(n, id))
        return id;
    Tensor *in = ARENA_ARRAY(a, Tensor, v->n_src);
    for (uint32_t i = 0; i < v->n_src; i++)
        if (v->src[i])
            in[i] = tensor_of_const(n->graph, v->src[i]);
    Tensor out = tensor_new(a, (DType)v->dtype, v->shape->rank, v->shape->dim);
    const Shape s = *v->shape;
    EvalCtx c = {.arena = a, .g = n->graph, .node = v, .id = id, .in = in, .out = &out};
    return eval_node(&c) ? tfl_const(n, out.dtype, &s, out.data) : 0;
}

NodeBuild tfl_begin(TflNode *n, OpId op)
{
    return node_begin(n->graph, op, n->span, n->label);
}

NodeId tfl_end(TflNode *n, NodeBuild *b)
{
    if (n->graph->nodes.len > nodes_max(n->model))
        tfl_fail(n, E0004, "the model makes more than %llu nodes", (unsigned long long)nodes_max(n->model));
    if (n->failed)
        return 0;
    NodeId id = node_end(b);
    if (id)
        id = fold(n, id);
    n->failed = id == 0; // node_end and eval_node have reported it
    return id;
}

static NodeId build(TflNode *n, OpId op, const NodeId *src, uint32_t count)
{
    if (n->failed)
        return 0;
    NodeBuild b = tfl_begin(n, op);
    for (uint32_t i = 0; i < count; i++)
        node_src(&b, src[i]);
    return tfl_end(n, &b);
}

NodeId tfl_op1(TflNode *n, OpId op, NodeId a)
{
    return build(n, op, &a, 1);
}

NodeId tfl_op2(TflNode *n, OpId op, NodeId a, NodeId b)
{
    return build(n, op, (const NodeId[]){a, b}, 2);
}

NodeId tfl_op3(TflNode *n, OpId op, NodeId a, NodeId b, NodeId c)
{
    return build(n, op, (const NodeId[]){a, b, c}, 3);
}

NodeId tfl_const(TflNode *n, DType t, const Shape *s, const void *data)
{
    if (n->failed)
        return 0;
    const NodeId id = graph_const(n->graph, t, s, data, type_bytes(t, s), n->span);
    n->failed = id == 0;
    return id;
}

NodeId tfl_number(TflNode *n, DType t, double v)
{
    return n->failed ? 0 : graph_scalar(n->graph, t, v, n->span);
}

NodeId tfl_op_number(TflNode *n, OpId op, NodeId a, double v)
{
    return tfl_op2(n, op, a, tfl_number(n, tfl_type(n, a), v));
}

NodeId tfl_clamp(TflNode *n, NodeId x, double lo, double hi)
{
    const DType t = tfl_type(n, x);
    return tfl_op3(n, OP_clamp, x, tfl_number(n, t, lo), tfl_number(n, t, hi));
}

NodeId tfl_counted(TflNode *n, int64_t count)
{
    if (n->failed || !tfl_spend(n, (uint64_t)count))
        return 0;
    Tensor data = tensor_new(n->model->arena, DTYPE_i64, 1, &count);
    for (int64_t i = 0; i < count; i++)
        tensor_set_i64(&data, i, i);
    const Shape s = shape_of(1, &count);
    return tfl_const(n, DTYPE_i64, &s, data.data);
}

NodeId tfl_ints(TflNode *n, DType t, const int64_t *v, uint32_t count)
{
    const int64_t size = count;
    Tensor data = tensor_new(n->model->arena, t, 1, &size);
    for (uint32_t i = 0; i < count; i++)
        tensor_set_i64(&data, i, v[i]);
    const Shape s = shape_of(1, &size);
    return tfl_const(n, t, &s, data.data);
}

NodeId tfl_cast(TflNode *n, NodeId a, DType to)
{
    if (n->failed || tfl_type(n, a) == to)
        return a;
    NodeBuild b = tfl_begin(n, OP_cast);
    node_src(&b, a);
    node_int(&b, A_cast_to, to);
    return tfl_end(n, &b);
}

// One operand, one list of numbers.
static NodeId with_list(TflNode *n, OpId op, AttrId id, NodeId a, const int64_t *v, uint32_t count)
{
    if (n->failed)
        return 0;
    NodeBuild b = tfl_begin(n, op);
    node_src(&b, a);
    node_ints(&b, id, v, count);
    return tfl_end(n, &b);
}

NodeId tfl_reshape_like(TflNode *n, NodeId a, const Shape *s)
{
    const NodeId id = n->failed ? 0 : graph_reshape(n->graph, a, s);
    n->failed = id == 0;
    return n->failed || id == a ? id : fold(n, id);
}

NodeId tfl_reshape(TflNode *n, NodeId a, const Dim *dims, uint32_t rank)
{
    if (n->failed) // then there may be more sizes than a shape has
        return 0;
    const Shape s = shape_of(rank, dims);
    for (uint32_t i = 0; i < rank; i++)
        if (dims[i] == -1)
            return with_list(n, OP_reshape, A_reshape_shape, a, dims, rank);
    return tfl_reshape_like(n, a, &s);
}

NodeId tfl_transpose(TflNode *n, NodeId a, const int64_t *perm)
{
    bool is_identity = true;
    for (uint32_t i = 0; i < tfl_rank(n, a); i++)
        is_identity = is_identity && perm[i] == i;
    return is_identity ? a : with_list(n, OP_transpose, A_transpose_perm, a, perm, tfl_rank(n, a));
}

NodeId tfl_expand(TflNode *n, NodeId a, const Dim *dims, uint32_t rank)
{
    return with_list(n, OP_expand, A_expand_shape, a, dims, rank);
}

NodeId tfl_reduce(TflNode *n, OpId op, NodeId a, const int64_t *axes, uint32_t count, bool keeps)
{
    if (n->failed || count == 0) // no axes would mean all of them
        return a;
    NodeBuild b = tfl_begin(n, op);
    node_reduce(&b, a, axes, count, keeps);
    return tfl_end(n, &b);
}

NodeId tfl_concat(TflNode *n, const NodeId *src, uint32_t count, int64_t axis)
{
    enum { MOST = 255 };
    if (n->failed || count == 1)
        return n->failed ? 0 : src[0];
    if (count > MOST) { // in halves, so that the depth stays small
        const NodeId part[] = {tfl_concat(n, src, count / 2, axis),
                               tfl_concat(n, src + count / 2, count - count / 2, axis)};
        return tfl_concat(n, part, 2, axis);
    }
    NodeBuild b = tfl_begin(n, OP_concat);
    node_concat(&b, src, count, axis);
    return tfl_end(n, &b);
}

NodeId tfl_slice(TflNode *n, NodeId a, int64_t axis, int64_t start, int64_t end, int64_t step)
{
    if (n->failed)
        return 0;
    NodeBuild b = tfl_begin(n, OP_slice);
    node_slice(&b, a, axis, start, end, step);
    return tfl_end(n, &b);
}

NodeId tfl_gather(TflNode *n, NodeId a, NodeId indices, int64_t axis)
{
    if (n->failed)
        return 0;
    NodeBuild b = tfl_begin(n, OP_gather);
    node_gather(&b, a, indices, axis);
    return tfl_end(n, &b);
}

NodeId tfl_result(TflNode *n, NodeId a, uint32_t index)
{
    const NodeId id = n->failed ? 0 : graph_result(n->graph, a, index);
    n->failed = id == 0;
    return id;
}

NodeId tfl_matmul(TflNode *n, NodeId a, NodeId b, bool transpose_a, bool transpose_b)
{
    if (n->failed)
        return 0;
    NodeBuild build = tfl_begin(n, OP_matmul);
    node_matmul(&build, a, b, transpose_a, transpose_b);
    return tfl_end(n, &build);
}

NodeId tfl_pad(TflNode *n, NodeId a, const int64_t *pads, const char *mode, NodeId value)
{
    if (n->failed)
        return 0;
    NodeBuild b = tfl_begin(n, OP_pad);
    node_src(&b, a);
    if (value)
        node_src(&b, value);
    node_ints(&b, A_pad_pads, pads, 2 * tfl_rank(n, a));
    node_str(&b, A_pad_mode, mode);
    return tfl_end(n, &b);
}

NodeId tfl_dim_value(TflNode *n, Dim d, DType t)
{
    const NodeId id = n->failed ? 0 : graph_dim_value(n->graph, d, n->span);
    n->failed = id == 0;
    if (id && !dim_is_const(d))
        tfl_dim_remember(n, id, d);
    return tfl_cast(n, id, t);
}

static NodeId move_channels(TflNode *n, NodeId x, bool to_front)
{
    int64_t perm[SHAPE_MAX_RANK];
    order_of_channels(tfl_rank(n, x), to_front, perm);
    return tfl_transpose(n, x, perm);
}

NodeId tfl_to_channels(TflNode *n, NodeId x)
{
    return move_channels(n, x, true);
}

NodeId tfl_from_channels(TflNode *n, NodeId x)
{
    return move_channels(n, x, false);
}
