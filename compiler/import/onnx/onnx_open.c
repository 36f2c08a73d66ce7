// SPDX-License-Identifier: Apache-2.0
// Slice and Tile by numbers that the model computes: the sizes of their results are sizes of their own, and
// the elements are gathered.
#include "compiler/import/onnx/onnx_import.h"

static NodeId whole(OnnxNode *n, int64_t v)
{
    return onnx_scalar(n, DTYPE_i64, (double)v);
}

// `most` counts where it is below `least`: the last place of an axis without elements is -1.
static NodeId clamp(OnnxNode *n, NodeId v, NodeId least, NodeId most)
{
    return onnx_op2(n, OP_min, onnx_op2(n, OP_max, v, least), most);
}

// A position as Slice counts: from the back where it is negative, and inside of [least, most].
static NodeId position(OnnxNode *n, NodeId v, NodeId size, int64_t least, NodeId most)
{
    const NodeId from_front = onnx_op2(n, OP_add, v, size);
    const NodeId at = onnx_op3(n, OP_where, onnx_op2(n, OP_lt, v, whole(n, 0)), from_front, v);
    return clamp(n, at, whole(n, least), most);
}

// How many steps there are from start to end, at least 0.
static NodeId count_steps(OnnxNode *n, NodeId start, NodeId end, int64_t step)
{
    rlx_assert(step != 0);
    const bool is_back = step < 0;
    const int64_t by = is_back ? -step : step;
    const NodeId span = onnx_op2(n, OP_sub, is_back ? start : end, is_back ? end : start);
    const NodeId least = onnx_op2(n, OP_max, span, whole(n, 0));
    return onnx_op2(n, OP_div, onnx_op2(n, OP_add, least, whole(n, by - 1)), whole(n, by));
}

NodeId onnx_number_of(const Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    while (n->op == OP_cast || n->op == OP_reshape || n->op == OP_squeeze || n->op == OP_unsqueeze ||
           n->op == OP_slice) {
        const Shape *s = graph_node(g, n->src[0])->shape;
        if (!shape_is_const(s) || shape_numel(s) != 1)
            break;
        id = n->src[0];
        n = graph_node(g, id);
    }
    return id;
}

bool onnx_is_one_more(const Graph *g, NodeId id, NodeId *less)
{
    const Node *n = graph_node(g, id);
    double step = 0;
    for (uint32_t i = 0; n->op == OP_add && i < 2; i++)
        if (node_is_scalar_const(g, onnx_number_of(g, n->src[i]), &step) && step == 1) {
            *less = onnx_number_of(g, n->src[1 - i]);
            return true;
        }
    return false;
}

bool onnx_takes_one(OnnxNode *n, NodeId start, NodeId end)
{
    if (n->failed)
        return false;
    const Graph *g = n->graph;
    const NodeId from = onnx_number_of(g, start), to = onnx_number_of(g, end);
    const Node *least = graph_node(g, to);
    NodeId less = 0;
    if (least->op != OP_min)
        return onnx_is_one_more(g, to, &less) && less == from;
    for (uint32_t i = 0; i < 2; i++)
        if (onnx_is_one_more(g, onnx_number_of(g, least->src[i]), &less) && less == from)
            return true;
    return false;
}

void onnx_require_one(OnnxNode *n, NodeId count)
{
    onnx_require(n, onnx_op2(n, OP_eq, count, onnx_scalar_like(n, count, 1)),
                 arena_printf(n->model->arena, GRAPH_RANGE "node '%s': %s: it must take one element",
                              n->label, n->op));
}

static NodeId slice_axis(OnnxNode *n, NodeId x, uint32_t axis, const NodeId *ends, int64_t step)
{
    rlx_assert(axis < onnx_shape(n, x)->rank);
    const Dim d = onnx_shape(n, x)->dim[axis];
    const NodeId size = onnx_dim_value(n, d);
    const bool is_back = step < 0;
    const NodeId most = is_back ? onnx_op2(n, OP_sub, size, whole(n, 1)) : size;
    const NodeId start = position(n, ends[0], size, 0, most);
    const NodeId end = position(n, ends[1], size, is_back ? -1 : 0, most);
    const NodeId steps_taken = count_steps(n, start, end, step);
    if (step == 1 && onnx_takes_one(n, ends[0], ends[1])) {
        onnx_require_one(n, steps_taken);
        return n->failed ? 0 : onnx_gather(n, x, onnx_reshape_to(n, start, (const Dim[]){1}, 1), axis);
    }
    const Dim count = onnx_extent(n, 0, axis, steps_taken, d);
    const NodeId steps = onnx_op2(n, OP_mul, onnx_iota(n, count), whole(n, step));
    return n->failed ? 0 : onnx_gather(n, x, onnx_op2(n, OP_add, steps, start), axis);
}

// A list of `count` numbers. False: it is none, nothing was reported.
static bool is_list(OnnxNode *n, uint32_t i, Dim *count)
{
    OnnxDims known;
    if (onnx_peek_dims(n, i, &known)) {
        *count = known.n;
        return known.rank == 1;
    }
    if (n->in[i].kind != ONNX_NODE || n->in[i].is_text)
        return false;
    const Shape *s = onnx_shape(n, n->in[i].node);
    *count = s->dim[0];
    return s->rank == 1 && dim_is_const(*count);
}

static bool is_known(OnnxNode *n, uint32_t i)
{
    OnnxDims dims;
    Tensor value;
    return !onnx_has(n, i) || onnx_peek_dims(n, i, &dims) ||
           (!onnx_has_bound(n) && onnx_assume(n, i, &value));
}

bool onnx_slice_open(OnnxNode *n, NodeId x, NodeId *out)
{
    OnnxInts axes = {0}, steps = {0};
    Dim count = 0, n_ends = 0;
    if (n->failed || n->opset < 10 || !onnx_has(n, 1) || !onnx_has(n, 2) ||
        (is_known(n, 1) && is_known(n, 2)))
        return false;
    if (!is_list(n, 1, &count) || !is_list(n, 2, &n_ends) || count != n_ends || count > SHAPE_MAX_RANK)
        return false;
    if ((onnx_has(n, 3) && !onnx_src_ints(n, 3, &axes)) || (onnx_has(n, 4) && !onnx_src_ints(n, 4, &steps)))
        return true;
    const NodeId list[] = {onnx_src(n, 1), onnx_src(n, 2)};
    for (uint32_t i = 0; i < count && !n->failed; i++) {
        uint32_t axis = 0;
        const int64_t step = i < steps.n ? steps.v[i] : 1;
        if (!onnx_axis(n, i < axes.n ? axes.v[i] : i, onnx_shape(n, x)->rank, &axis))
            break;
        if (step == 0 || step > INT32_MAX || step < -INT32_MAX)
            onnx_fail(n, E0203, "a step of %lld is not supported", (long long)step);
        const NodeId ends[] = {onnx_list_entry(n, list[0], i), onnx_list_entry(n, list[1], i)};
        x = n->failed ? 0 : slice_axis(n, x, axis, ends, step);
    }
    *out = x;
    return true;
}

bool onnx_tile_open(OnnxNode *n, NodeId x, NodeId *out)
{
    const Shape s = *onnx_shape(n, x);
    OnnxDims times;
    if (n->failed || n->opset < 6 || !onnx_has(n, 1) || is_known(n, 1))
        return false;
    if (!onnx_src_sizes(n, 1, &times) || times.n != s.rank)
        return n->failed;
    for (uint32_t i = 0; i < s.rank && !n->failed; i++) {
        if (times.dim[i] == 1)
            continue;
        const Dim all = dim_mul(n->graph->dims, s.dim[i], times.dim[i]);
        const NodeId size = onnx_op2(n, OP_max, onnx_dim_value(n, s.dim[i]), whole(n, 1));
        x = onnx_gather(n, x, onnx_op2(n, OP_mod, onnx_iota(n, all), size), i);
    }
    *out = x;
    return true;
}
