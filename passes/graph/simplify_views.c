// SPDX-License-Identifier: Apache-2.0
// Simplifies ops that only give a value another shape, axis order or type: those that change nothing go, and
// two in a row become one.
#include "ir/shape/shape.h"
#include "passes/graph/simplify.h"

// The value in another shape, made in the name of `like`. Shapes without elements are left alone: to reshape,
// a size of 0 means something else.
static NodeId reshaped(const Simplify *s, NodeId x, const Shape *to, NodeId like)
{
    if (shape_equal(graph_node(s->g, x)->shape, to))
        return x;
    if (shape_numel(to) == 0)
        return like;
    NodeBuild b = simplify_begin(s, OP_reshape, like);
    node_src(&b, x);
    node_ints(&b, A_reshape_shape, to->dim, to->rank);
    return node_end(&b);
}

// True for a transpose that leaves the axes of more than one element in their order: the numbers stay where
// they are.
static bool moves_nothing(const Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    int64_t last = -1;
    if (n->op != OP_transpose || !shape_is_const(n->shape))
        return false;
    for (uint32_t i = 0; i < n->shape->rank; i++) {
        const int64_t from = node_get_at(n, A_transpose_perm, i, 0);
        if (n->shape->dim[i] == 1)
            continue;
        if (from < last)
            return false;
        last = from;
    }
    return true;
}

NodeId simplify_reshape(const Simplify *s, NodeId id)
{
    const Node n = *graph_node(s->g, id);
    const Node x = *graph_node(s->g, n.src[0]);
    rlx_assert(n.dtype == x.dtype);
    if (shape_equal(n.shape, x.shape))
        return n.src[0];
    if (!shape_is_const(n.shape) || (x.op != OP_reshape && !moves_nothing(s->g, n.src[0])))
        return id;
    return shape_is_const(graph_node(s->g, x.src[0])->shape) ? reshaped(s, x.src[0], n.shape, id) : id;
}

// Axis i of the second transpose is axis perm[i] of the first one.
static NodeId merge_transposes(const Simplify *s, NodeId id)
{
    const Node n = *graph_node(s->g, id), first = *graph_node(s->g, n.src[0]);
    int64_t perm[SHAPE_MAX_RANK];
    bool is_identity = true;
    for (uint32_t i = 0; i < n.shape->rank; i++) {
        perm[i] = node_get_at(&first, A_transpose_perm, (uint32_t)node_get_at(&n, A_transpose_perm, i, 0), 0);
        is_identity &= perm[i] == i;
    }
    if (is_identity)
        return first.src[0];
    NodeBuild b = simplify_begin(s, OP_transpose, id);
    node_src(&b, first.src[0]);
    node_ints(&b, A_transpose_perm, perm, n.shape->rank);
    return node_end(&b);
}

NodeId simplify_transpose(const Simplify *s, NodeId id)
{
    const Node n = *graph_node(s->g, id);
    const Node x = *graph_node(s->g, n.src[0]);
    rlx_assert(n.shape->rank == x.shape->rank && n.dtype == x.dtype);
    bool is_identity = true;
    for (uint32_t i = 0; i < n.shape->rank; i++)
        is_identity &= node_get_at(&n, A_transpose_perm, i, 0) == i;
    if (is_identity)
        return n.src[0];
    if (x.op == OP_transpose)
        return merge_transposes(s, id);
    return moves_nothing(s->g, id) ? reshaped(s, n.src[0], n.shape, id) : id;
}

NodeId simplify_expand(const Simplify *s, NodeId id)
{
    const Node n = *graph_node(s->g, id);
    const Node x = *graph_node(s->g, n.src[0]);
    rlx_assert(n.shape->rank >= x.shape->rank && n.dtype == x.dtype);
    if (shape_equal(n.shape, x.shape))
        return n.src[0];
    if (x.op != OP_expand)
        return id;
    NodeBuild b = simplify_begin(s, OP_expand, id);
    node_src(&b, x.src[0]);
    node_ints(&b, A_expand_shape, n.shape->dim, n.shape->rank);
    return node_end(&b);
}

NodeId simplify_copy(const Simplify *s, NodeId id)
{
    rlx_assert(graph_node(s->g, id)->n_src == 1);
    return graph_node(s->g, id)->src[0];
}

// --- casts ---

// Bits of the whole numbers that a type holds without a gap, without the sign.
static const uint8_t whole_bits[DTYPE_COUNT] = {
    [DTYPE_f64] = 53,       [DTYPE_f32] = 24,     [DTYPE_f16] = 11,       [DTYPE_bf16] = 8,
    [DTYPE_i64] = 63,       [DTYPE_i32] = 31,     [DTYPE_i16] = 15,       [DTYPE_i8] = 7,
    [DTYPE_u64] = 64,       [DTYPE_u32] = 32,     [DTYPE_u16] = 16,       [DTYPE_u8] = 8,
    [DTYPE_bool] = 1,       [DTYPE_f8e4m3fn] = 4, [DTYPE_f8e4m3fnuz] = 4, [DTYPE_f8e5m2] = 3,
    [DTYPE_f8e5m2fnuz] = 3, [DTYPE_f8e8m0] = 0,   [DTYPE_f4e2m1] = 2,     [DTYPE_i4] = 3,
    [DTYPE_u4] = 4,         [DTYPE_i2] = 1,       [DTYPE_u2] = 2,
};

// Does every value of `from` stay what it is in `to`?
static bool is_exact(DType from, DType to)
{
    const DTypeClass a = dtype_info[from].cls, b = dtype_info[to].cls;
    if (from == to)
        return true;
    if (b == DCLASS_BOOL || (a == DCLASS_INT && b == DCLASS_UINT))
        return false;
    if (a != DCLASS_FLOAT)
        return whole_bits[from] <= whole_bits[to];
    return b == DCLASS_FLOAT && (to == DTYPE_f64 || (to == DTYPE_f32 && from != DTYPE_f64));
}

// Is a cast from `from` over `over` to `to` the cast from `from` to `to`? A whole number that does not fit is
// wrapped, a floating one is clamped, so a detour over floats is one only where all fits.
static bool is_detour(DType from, DType over, DType to)
{
    const bool is_whole = dtype_info[from].cls != DCLASS_FLOAT && dtype_info[to].cls != DCLASS_FLOAT;
    const bool may_wrap = is_whole && dtype_info[over].cls == DCLASS_FLOAT && to != DTYPE_bool;
    return is_exact(from, over) && (!may_wrap || is_exact(from, to));
}

NodeId simplify_cast(const Simplify *s, NodeId id)
{
    const Node n = *graph_node(s->g, id);
    const Node x = *graph_node(s->g, n.src[0]);
    if (n.dtype == x.dtype)
        return n.src[0];
    if (x.op != OP_cast ||
        !is_detour((DType)graph_node(s->g, x.src[0])->dtype, (DType)x.dtype, (DType)n.dtype))
        return id;
    NodeBuild b = simplify_begin(s, OP_cast, id);
    node_src(&b, x.src[0]);
    node_int(&b, A_cast_to, n.dtype);
    return node_end(&b);
}

NodeId simplify_bitcast(const Simplify *s, NodeId id)
{
    const Node n = *graph_node(s->g, id);
    const Node x = *graph_node(s->g, n.src[0]);
    if (n.dtype == x.dtype)
        return n.src[0];
    if (x.op != OP_bitcast)
        return id;
    NodeBuild b = simplify_begin(s, OP_bitcast, id);
    node_src(&b, x.src[0]);
    node_int(&b, A_bitcast_to, n.dtype);
    return node_end(&b);
}

// --- reductions of one element ---

NodeId simplify_reduce(const Simplify *s, NodeId id)
{
    const Node n = *graph_node(s->g, id);
    const Shape *x = graph_node(s->g, n.src[0])->shape;
    rlx_assert(n.shape->rank <= x->rank);
    const bool is_const = shape_is_const(x) && shape_is_const(n.shape);
    return is_const && shape_numel(x) == shape_numel(n.shape) ? reshaped(s, n.src[0], n.shape, id) : id;
}

// --- broadcasting ---

static bool broadcasts_to(const Simplify *s, const NodeId *src, uint32_t n, const Shape *wanted)
{
    Shape all = {.rank = 0};
    for (uint32_t i = 0; i < n; i++) {
        const Shape before = all;
        if (!shape_broadcast(s->g->dims, &before, graph_node(s->g, src[i])->shape, &all))
            return false;
    }
    return shape_equal(&all, wanted);
}

NodeId simplify_broadcast(const Simplify *s, NodeId id)
{
    const Node n = *graph_node(s->g, id);
    NodeId src[3] = {0};
    bool is_changed = false;
    rlx_assert(n.n_src <= 3);
    for (uint32_t i = 0; i < n.n_src; i++)
        src[i] = n.src[i];
    for (uint32_t i = 0; i < n.n_src; i++) {
        const Node *x = graph_node(s->g, n.src[i]);
        const NodeId spread = src[i];
        if (x->op != OP_expand)
            continue;
        src[i] = x->src[0];
        if (broadcasts_to(s, src, n.n_src, n.shape))
            is_changed = true;
        else
            src[i] = spread;
    }
    return is_changed ? graph_clone_node(s->g, s->g, id, src) : id;
}
