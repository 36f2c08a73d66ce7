// SPDX-License-Identifier: Apache-2.0
// How import functions build nodes: the shorthands of graph.h with the span and label of the ONNX node, an
// error state instead of checks, and evaluation of what is constant, so that shape arithmetic is numbers by
// the time a shape needs it.
#include "compiler/import/onnx/onnx_import.h"
#include "ir/eval/eval.h"
#include "ir/eval/eval_work.h"

#include <string.h>

// --- evaluation of constants ---

#define FOLD_MAX_OPERAND   (UINT64_C(1) << 21) // elements of all operands together
#define FOLD_MAX_NODE_WORK (UINT64_C(1) << 24) // element steps of one node
#define FOLD_MAX_WORK      (UINT64_C(1) << 26) // and of the whole import, so that no file can keep us busy
#define FOLD_STEP          16                  // units of eval_work
// From so many elements on, a result stays a node that has so many times the elements of what it is made of.
#define FOLD_LARGE  (INT64_C(1) << 16)
#define FOLD_GROWTH 4

// Elements of constants and nodes that an import may make beyond those of the file: some, and more for larger
// files.
static uint64_t made_max(const OnnxModel *m)
{
    return (UINT64_C(1) << 21) + 16 * (uint64_t)m->source->len;
}

static uint64_t nodes_max(const OnnxModel *m)
{
    return (UINT64_C(1) << 15) + m->source->len / 4;
}

// Ops whose work is one step per element read or written; the others may combine every operand element with
// every result.
static bool is_linear(OpId op)
{
    const OpInfo *info = &op_info[op];
    return op_is_pointwise(op) || (info->flags & OPFLAG_VIEW) || op == OP_gather || op == OP_concat ||
           op == OP_pad;
}

bool onnx_spend_work(OnnxModel *m, uint64_t work)
{
    rlx_assert(m->fold_work <= FOLD_MAX_WORK);
    const uint64_t steps = work / FOLD_STEP;
    if (steps > FOLD_MAX_WORK - m->fold_work)
        return false;
    m->fold_work += steps;
    return true;
}

bool onnx_spend_fold(OnnxModel *m, const Graph *g, NodeId id, int64_t trips)
{
    rlx_assert(id != 0 && id < g->nodes.len);
    const Node *n = graph_node(g, id);
    uint64_t in = 0;
    for (uint32_t i = 0; i < n->n_src; i++) {
        if (n->src[i])
            in += (uint64_t)shape_numel(graph_node(g, n->src[i])->shape);
        if (in > FOLD_MAX_OPERAND)
            return false;
    }
    const int64_t out = shape_numel(n->shape);
    const bool is_float = dtype_info[n->dtype].cls == DCLASS_FLOAT;
    if (out > (is_float ? ONNX_MAX_FOLD : ONNX_MAX_FOLD_INTS))
        return false;
    const uint64_t most = is_linear((OpId)n->op) ? in + (uint64_t)out : (in + 1) * (uint64_t)(out + 1);
    const uint64_t steps = eval_work(g, id, trips) / FOLD_STEP, work = most > steps ? most : steps;
    if (work > FOLD_MAX_NODE_WORK || m->fold_work + work > FOLD_MAX_WORK ||
        m->made + (uint64_t)out > made_max(m))
        return false;
    m->fold_work += work;
    m->made += (uint64_t)out;
    return true;
}

// Is the node better left alone? Where its value says shapes, onnx_known finds it all the same.
static bool grows_much(const Graph *g, const Node *n)
{
    const int64_t out = shape_numel(n->shape);
    int64_t in = 0;
    for (uint32_t i = 0; i < n->n_src && out > FOLD_LARGE && in < out; i++)
        in += n->src[i] ? shape_numel(graph_node(g, n->src[i])->shape) : 0;
    return out > FOLD_LARGE && out / FOLD_GROWTH > in;
}

static bool is_foldable(OnnxModel *m, const Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    // The work of roi_pool depends on the regions.
    if (n->op == OP_roi_pool || n->n_src == 0 || n->n_results != 1 || n->op == OP_result ||
        n->op == OP_loop || !shape_is_const(n->shape))
        return false;
    for (uint32_t i = 0; i < n->n_src; i++)
        if (n->src[i] && !node_is_const(g, n->src[i]))
            return false;
    return !grows_much(g, n) && onnx_spend_fold(m, g, id, INT64_MAX);
}

NodeId onnx_fold(OnnxModel *m, Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    if (id == 0 || n->op == OP_const || !is_foldable(m, g, id))
        return id;
    rlx_assert(n->n_results == 1 && shape_is_const(n->shape));
    Tensor *in = ARENA_ARRAY(m->arena, Tensor, n->n_src);
    for (uint32_t i = 0; i < n->n_src; i++)
        if (n->src[i])
            in[i] = tensor_of_const(g, n->src[i]);
    Tensor out = tensor_new(m->arena, (DType)n->dtype, n->shape->rank, n->shape->dim);
    EvalCtx c = {.arena = m->arena, .g = g, .node = n, .id = id, .in = in, .out = &out};
    const Shape shape = *n->shape;
    const Span span = node_span(g, id);
    if (!eval_node(&c))
        return 0;
    rlx_assert(out.numel == shape_numel(&shape));
    return graph_const(g, out.dtype, &shape, out.data, (uint64_t)out.numel * dtype_info[out.dtype].bytes,
                       span);
}

bool onnx_spend(OnnxNode *n, int64_t elements)
{
    rlx_assert(elements >= 0);
    n->model->made += (uint64_t)elements;
    return n->model->made <= made_max(n->model) ||
           onnx_fail(n, E0004, "the model makes too many elements at import");
}

// --- builders ---

NodeBuild onnx_begin(OnnxNode *n, OpId op, const NodeId *src, uint32_t count)
{
    rlx_assert(op != OP_none && op < OP_COUNT && (src != NULL || count == 0));
    NodeBuild b = node_begin(n->graph, op, n->span, n->label);
    b.failed = n->failed;
    for (uint32_t i = 0; i < count; i++)
        node_src(&b, src[i]);
    return b;
}

NodeId onnx_end(OnnxNode *n, NodeBuild *b)
{
    if (n->graph->nodes.len > nodes_max(n->model))
        onnx_fail(n, E0004, "the model makes more than %llu nodes", (unsigned long long)nodes_max(n->model));
    if (n->failed)
        return 0;
    rlx_assert(b->graph == n->graph);
    NodeId id = node_end(b);
    if (id)
        id = onnx_fold(n->model, n->graph, id);
    n->failed = id == 0; // node_end and eval_node have reported it
    return id;
}

static NodeId build_op(OnnxNode *n, OpId op, const NodeId *src, uint32_t count)
{
    NodeBuild b = onnx_begin(n, op, src, count);
    return onnx_end(n, &b);
}

NodeId onnx_op1(OnnxNode *n, OpId op, NodeId a)
{
    return build_op(n, op, (const NodeId[]){a}, 1);
}

NodeId onnx_op2(OnnxNode *n, OpId op, NodeId a, NodeId b)
{
    return build_op(n, op, (const NodeId[]){a, b}, 2);
}

NodeId onnx_op3(OnnxNode *n, OpId op, NodeId a, NodeId b, NodeId c)
{
    return build_op(n, op, (const NodeId[]){a, b, c}, 3);
}

NodeId onnx_op_int(OnnxNode *n, OpId op, NodeId a, AttrId id, int64_t v)
{
    NodeBuild b = ONNX_BEGIN(n, op, a);
    node_int(&b, id, v);
    return onnx_end(n, &b);
}

NodeId onnx_op_ints(OnnxNode *n, OpId op, NodeId a, AttrId id, const int64_t *v, uint32_t count)
{
    if (n->failed) // then the list may not have been read
        return 0;
    rlx_assert(v != NULL || count == 0);
    NodeBuild b = ONNX_BEGIN(n, op, a);
    node_ints(&b, id, v, count);
    return onnx_end(n, &b);
}

NodeId onnx_const(OnnxNode *n, DType t, const Shape *s, const void *data, uint64_t bytes)
{
    if (n->failed)
        return 0;
    rlx_assert(data != NULL || bytes == 0);
    const NodeId id = graph_const(n->graph, t, s, data, bytes, n->span);
    n->failed = id == 0;
    return id;
}

NodeId onnx_scalar(OnnxNode *n, DType t, double v)
{
    Tensor value = tensor_new(n->model->arena, t, 0, NULL);
    tensor_set_f64(&value, 0, v);
    return onnx_const(n, t, &(Shape){0}, value.data, dtype_info[t].bytes);
}

NodeId onnx_scalar_like(OnnxNode *n, NodeId like, double v)
{
    return onnx_scalar(n, onnx_dtype(n, like), v);
}

NodeId onnx_op_number(OnnxNode *n, OpId op, NodeId a, double v)
{
    return onnx_op2(n, op, a, onnx_scalar_like(n, a, v));
}

NodeId onnx_join(OnnxNode *n, OpId op, NodeId a, NodeId b)
{
    return a && b ? onnx_op2(n, op, a, b) : a ? a : b;
}

NodeId onnx_softmax(OnnxNode *n, NodeId x, int64_t axis)
{
    return onnx_op_int(n, OP_softmax, x, A_softmax_axis, axis);
}

NodeId onnx_cumsum(OnnxNode *n, NodeId x, int64_t axis, bool is_exclusive)
{
    NodeBuild b = ONNX_BEGIN(n, OP_cumsum, x);
    node_int(&b, A_cumsum_axis, axis);
    if (is_exclusive)
        node_int(&b, A_cumsum_exclusive, 1);
    return onnx_end(n, &b);
}

NodeId onnx_grouped_matmul(OnnxNode *n, NodeId a, NodeId b, bool transpose_b)
{
    const Shape s = *onnx_shape(n, a), t = *onnx_shape(n, b);
    if (n->failed || s.dim[1] == t.dim[1])
        return onnx_matmul(n, a, b, false, transpose_b);
    const NodeId rows = onnx_reshape_to(n, a, (const Dim[]){s.dim[0], t.dim[1], -1, s.dim[3]}, 4);
    const NodeId product = onnx_matmul(n, rows, b, false, transpose_b);
    return onnx_reshape_to(n, product, (const Dim[]){s.dim[0], s.dim[1], s.dim[2], -1}, 4);
}

NodeId onnx_move_channels(OnnxNode *n, NodeId x, bool to_front)
{
    int64_t perm[SHAPE_MAX_RANK];
    if (n->failed)
        return x;
    order_of_channels(onnx_shape(n, x)->rank, to_front, perm);
    return onnx_transpose(n, x, perm);
}

NodeId onnx_ints_const(OnnxNode *n, const int64_t *v, uint32_t count)
{
    const Shape s = shape_of(1, &(Dim){count});
    const void *data = arena_copy(n->model->arena, v, count * sizeof *v);
    return onnx_const(n, DTYPE_i64, &s, data, count * sizeof *v);
}

NodeId onnx_cast(OnnxNode *n, NodeId a, DType to)
{
    return n->failed || onnx_dtype(n, a) == to ? a : onnx_op_int(n, OP_cast, a, A_cast_to, to);
}

NodeId onnx_bitcast(OnnxNode *n, NodeId a, DType to)
{
    return n->failed || onnx_dtype(n, a) == to ? a : onnx_op_int(n, OP_bitcast, a, A_bitcast_to, to);
}

NodeId onnx_reshape_to(OnnxNode *n, NodeId a, const Dim *dims, uint32_t rank)
{
    return onnx_op_ints(n, OP_reshape, a, A_reshape_shape, dims, rank);
}

NodeId onnx_reshape(OnnxNode *n, NodeId a, const Shape *s)
{
    return n->failed || shape_equal(onnx_shape(n, a), s) ? a : onnx_reshape_to(n, a, s->dim, s->rank);
}

NodeId onnx_transpose(OnnxNode *n, NodeId a, const int64_t *perm)
{
    if (n->failed)
        return 0;
    const uint32_t rank = onnx_shape(n, a)->rank;
    bool is_identity = true;
    for (uint32_t i = 0; i < rank; i++)
        is_identity = is_identity && perm[i] == i;
    return is_identity ? a : onnx_op_ints(n, OP_transpose, a, A_transpose_perm, perm, rank);
}

// Does a value have the shape already to which it shall be expanded?
static bool is_expanded(const Shape *s, const Dim *dims, uint32_t rank)
{
    bool is_same = rank <= s->rank;
    for (uint32_t i = 0; is_same && i < rank; i++)
        is_same = dims[i] == 1 || dims[i] == s->dim[s->rank - rank + i];
    return is_same;
}

// A value that has the shape stays itself, so that sizes which follow from it are the same ones.
NodeId onnx_expand(OnnxNode *n, NodeId a, const Dim *dims, uint32_t rank)
{
    if (n->failed || is_expanded(onnx_shape(n, a), dims, rank))
        return a;
    return onnx_op_ints(n, OP_expand, a, A_expand_shape, dims, rank);
}

static NodeId build_axes(OnnxNode *n, OpId op, AttrId id, NodeId a, const OnnxInts *axes)
{
    return onnx_op_ints(n, op, a, id, axes->v, axes->n);
}

static OnnxInts ints_of(const int64_t *v, uint32_t n)
{
    OnnxInts r = {.n = n};
    rlx_assert(n <= ONNX_MAX_LIST);
    if (n)
        memcpy(r.v, v, n * sizeof *v);
    return r;
}

NodeId onnx_unsqueeze(OnnxNode *n, NodeId a, const int64_t *axes, uint32_t count)
{
    const OnnxInts list = ints_of(axes, count);
    return count ? build_axes(n, OP_unsqueeze, A_unsqueeze_axes, a, &list) : a;
}

NodeId onnx_squeeze(OnnxNode *n, NodeId a, const int64_t *axes, uint32_t count)
{
    const OnnxInts list = ints_of(axes, count);
    return count ? build_axes(n, OP_squeeze, A_squeeze_axes, a, &list) : a;
}

NodeId onnx_reduce(OnnxNode *n, OpId op, NodeId a, const int64_t *axes, uint32_t count)
{
    if (n->failed)
        return 0;
    NodeBuild b = ONNX_BEGIN(n, op, a);
    node_ints(&b, attr_find(op, "axes"), axes, count);
    node_int(&b, attr_find(op, "keepdims"), 1);
    return onnx_end(n, &b);
}

NodeId onnx_concat(OnnxNode *n, const NodeId *src, uint32_t count, int64_t axis)
{
    NodeBuild b = onnx_begin(n, OP_concat, NULL, 0);
    node_concat(&b, src, count, axis);
    return onnx_end(n, &b);
}

NodeId onnx_slice(OnnxNode *n, NodeId a, int64_t axis, int64_t start, int64_t end, int64_t step)
{
    if (n->failed)
        return 0;
    NodeBuild b = onnx_begin(n, OP_slice, NULL, 0);
    node_slice(&b, a, axis, start, end, step);
    return onnx_end(n, &b);
}

NodeId onnx_gather(OnnxNode *n, NodeId a, NodeId indices, int64_t axis)
{
    NodeBuild b = onnx_begin(n, OP_gather, NULL, 0);
    node_gather(&b, a, indices, axis);
    return onnx_end(n, &b);
}

NodeId onnx_result(OnnxNode *n, NodeId a, uint32_t index)
{
    if (n->failed)
        return 0;
    rlx_assert(a != 0);
    const NodeId id = graph_result(n->graph, a, index);
    n->failed = id == 0;
    return id;
}

NodeId onnx_matmul(OnnxNode *n, NodeId a, NodeId b, bool transpose_a, bool transpose_b)
{
    NodeBuild build = onnx_begin(n, OP_matmul, NULL, 0);
    node_matmul(&build, a, b, transpose_a, transpose_b);
    return onnx_end(n, &build);
}

NodeId onnx_dim_value(OnnxNode *n, Dim d)
{
    const NodeId id = n->failed ? 0 : graph_dim_value(n->graph, d, n->span);
    n->failed = !id;
    return id;
}

NodeId onnx_iota(OnnxNode *n, Dim count)
{
    if (n->failed)
        return 0;
    if (dim_is_const(count) && count >= 0 && count <= ONNX_MAX_FOLD_INTS && onnx_spend(n, count)) {
        Tensor t = tensor_new(n->model->arena, DTYPE_i64, 1, &count);
        for (int64_t i = 0; i < count; i++)
            tensor_set_i64(&t, i, i);
        const Shape s = shape_of(1, &count);
        return onnx_const(n, DTYPE_i64, &s, t.data, (uint64_t)count * sizeof(int64_t));
    }
    return onnx_cumsum(n, onnx_expand(n, onnx_scalar(n, DTYPE_i64, 1), &count, 1), 0, true);
}
