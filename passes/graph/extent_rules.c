// SPDX-License-Identifier: Apache-2.0
// Rules of the extent pass for ops that compute: what they would read beyond the live elements is replaced
// by what does not count.
#include "passes/graph/extent.h"

#include "ir/shape/forms.h"

#include <math.h>
#include <string.h>

// The columns `beyond` and `fill` of ops.def.
#define INF (double)INFINITY
static const struct {
    ExtentRule rule;
    double fill;
} rules[OP_COUNT] = {
#define OP(name, shape, min, max, results, flags, layout, joins, types, operand, result, steps, beyond,      \
           fill, live, stream)                                                                               \
    [OP_##name] = {extent_##beyond, fill},
#include "ir/graph/ops.def"
};

ExtentRule extent_rule(OpId op)
{
    rlx_assert(op < OP_COUNT);
    return rules[op].rule;
}

// The value that counts for nothing in an op.
static double fill_of(const Node *n)
{
    return rules[n->op].fill;
}

NodeId extent_keep(Graph *g, NodeId id)
{
    (void)g;
    return id;
}

NodeId extent_never(Graph *g, NodeId id)
{
    return extent_refuse(g, id, "");
}

// Bits of the axes that an op works along: its attribute `axes`, all where that is empty, or `axis`.
static uint32_t axes_of(const Node *n)
{
    const AttrVal *axis = node_find_attr(n, "axis"), *v = node_find_attr(n, "axes");
    if (axis != NULL)
        return 1u << axis->u.i;
    uint32_t mask = v->len == 0 ? 0xff : 0;
    for (uint64_t i = 0; i < v->len; i++)
        mask |= 1u << v->u.ints[i];
    return mask;
}

// --- reductions ---

NodeId extent_along(Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    return extent_masked(g, id, 0, axes_of(n), fill_of(n));
}

static NodeId sum_along(Graph *g, NodeId x, uint32_t mask, bool keeps_axes)
{
    int64_t axes[SHAPE_MAX_RANK];
    uint32_t n = 0;
    const uint32_t rank = graph_node(g, x)->shape->rank;
    for (uint32_t i = 0; i < rank; i++)
        if (mask >> i & 1)
            axes[n++] = i;
    NodeBuild b = node_begin(g, OP_reduce_sum, node_span(g, x), NULL);
    node_reduce(&b, extent_mask(g, x, mask, 0), axes, n, keeps_axes);
    return node_end(&b);
}

// How many live elements there are along the axes, in a type.
static NodeId count_along(Graph *g, const Shape *s, uint32_t mask, DType t)
{
    Dim count = 1;
    for (uint32_t i = 0; i < s->rank; i++)
        if (mask >> i & 1)
            count = dim_mul(g->dims, count, s->dim[i]);
    return graph_cast(g, extent_size(g, count), t);
}

// The type in which sums are divided.
static DType wide_type(DType t)
{
    if (dtype_info[t].cls != DCLASS_FLOAT)
        return DTYPE_i64;
    return t == DTYPE_f64 ? DTYPE_f64 : DTYPE_f32;
}

NodeId extent_mean(Graph *g, NodeId id)
{
    const Node n = *graph_node(g, id);
    const uint32_t mask = axes_of(&n);
    const DType t = wide_type((DType)n.dtype);
    const Shape s = *graph_node(g, n.src[0])->shape;
    if ((extent_axes(g, n.src[0]) & mask) == 0)
        return id;
    const NodeId x = graph_cast(g, n.src[0], t);
    const NodeId sum = sum_along(g, x, mask, node_find_attr(&n, "keepdims")->u.i != 0);
    return graph_cast(g, graph_op2(g, OP_div, sum, count_along(g, &s, mask, t)), (DType)n.dtype);
}

// What comes after does not count, unless the order is reversed.
NodeId extent_running(Graph *g, NodeId id)
{
    return node_find_attr(graph_node(g, id), "reverse")->u.i ? extent_along(g, id) : id;
}

// Matrices in the last two axes of operand 0 have to be whole.
NodeId extent_matrices(Graph *g, NodeId id)
{
    const NodeId x = graph_node(g, id)->src[0];
    rlx_assert(graph_node(g, x)->shape->rank >= 2);
    if (extent_axes(g, x) >> (graph_node(g, x)->shape->rank - 2))
        return extent_refuse(g, id, "matrices must have a fixed size");
    return id;
}

// --- products ---

static uint32_t summed_axis(const Graph *g, NodeId x, bool is_last)
{
    const uint32_t rank = graph_node(g, x)->shape->rank;
    return rank < 2 ? 0 : is_last ? rank - 1 : rank - 2;
}

// The number of inner elements that count becomes an operand.
NodeId extent_matmul(Graph *g, NodeId id)
{
    rlx_assert(graph_node(g, id)->n_src >= 2);
    const Node n = *graph_node(g, id);
    const MatmulForm form = matmul_form(&n);
    const uint32_t a = summed_axis(g, n.src[0], !form.turns_a);
    const uint32_t b = summed_axis(g, n.src[1], form.turns_b);
    const bool is_live = extent_is_live(g, n.src[0], a);
    if (!is_live && !extent_is_live(g, n.src[1], b))
        return id;
    NodeId live = extent_size(g, graph_node(g, n.src[is_live ? 0 : 1])->shape->dim[is_live ? a : b]);
    if (n.n_src > 2 && n.src[2])
        live = graph_op2(g, OP_min, live, n.src[2]);
    return graph_clone_with(g, id, (const NodeId[]){n.src[0], n.src[1], live}, 3);
}

// Rows beyond the live ones have no expert, so that they cost nothing.
NodeId extent_experts(Graph *g, NodeId id)
{
    rlx_assert(graph_node(g, id)->n_src >= 3);
    const Node n = *graph_node(g, id);
    if (extent_axes(g, n.src[1]) || (n.n_src > 3 && n.src[3] && extent_axes(g, n.src[3])))
        return extent_refuse(g, id, "experts must have fixed sizes");
    if (!extent_axes(g, n.src[2]))
        return id;
    return extent_masked(g, extent_with(g, id, 2, graph_cast(g, n.src[2], DTYPE_i64)), 2, ~0u, fill_of(&n));
}

// Spatial axes read zeros beyond the end, as they do in the padding.
NodeId extent_window(Graph *g, NodeId id)
{
    rlx_assert(graph_node(g, graph_node(g, id)->src[0])->shape->rank >= 3);
    const Node *n = graph_node(g, id);
    if ((extent_axes(g, n->src[0]) & 2) || extent_axes(g, n->src[1]) ||
        (n->n_src > 2 && extent_axes(g, n->src[2])))
        return extent_refuse(g, id, "channels and kernels must have fixed sizes");
    return extent_masked(g, id, 0, ~3u, 0);
}

// Masks the input with its zero point.
NodeId extent_int_conv(Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    const NodeId zero = n->n_src > 3 ? n->src[3] : 0;
    double v = 0;
    for (uint32_t i = 1; i < n->n_src; i++)
        if ((extent_axes(g, n->src[0]) & 2) || (n->src[i] != 0 && extent_axes(g, n->src[i])))
            return extent_refuse(g, id, "channels and kernels must have fixed sizes");
    if ((extent_axes(g, n->src[0]) & ~3u) && zero != 0 && !node_is_scalar_const(g, zero, &v))
        return extent_refuse(g, id, "the zero point must be a constant");
    return extent_masked(g, id, 0, ~3u, v);
}

NodeId extent_pixels(Graph *g, NodeId id)
{
    return extent_masked(g, id, 0, ~3u, fill_of(graph_node(g, id)));
}

// Means over windows that may reach beyond the live elements: those of the elements, with zeros there,
// divided by those of ones. Padding that counts lies behind the live elements, not behind the largest size;
// as long as no window hangs over it, it is part of the divisor like any other zero.
NodeId extent_avg_pool(Graph *g, NodeId id)
{
    const Node n = *graph_node(g, id);
    const bool counts_padding = node_get_int(&n, A_avg_pool_count_include_pad) != 0;
    const Shape s = *graph_node(g, n.src[0])->shape;
    rlx_assert(s.rank >= 3);
    const DType t = wide_type((DType)n.dtype);
    Shape ones = s;
    if ((extent_axes(g, n.src[0]) & ~3u) == 0)
        return id;
    if (counts_padding && node_get_int(&n, A_avg_pool_ceil_mode))
        return extent_refuse(g, id, "padding that counts and windows that hang over it");
    if (counts_padding)
        return extent_masked(g, id, 0, ~3u, 0);
    ones.dim[0] = ones.dim[1] = 1;
    NodeBuild one = node_begin(g, OP_expand, node_span(g, id), NULL);
    node_src(&one, graph_scalar(g, t, 1, node_span(g, id)));
    node_ints(&one, A_expand_shape, ones.dim, ones.rank);
    const NodeId masked = extent_mask(g, graph_cast(g, n.src[0], t), ~3u, 0);
    const NodeId sum = graph_clone_with(g, id, &masked, 1);
    const NodeId inside = extent_mask(g, node_end(&one), ~3u, 0);
    const NodeId part = graph_clone_with(g, id, &inside, 1);
    const NodeId none = graph_op2(g, OP_eq, part, extent_scalar(g, part, 0));
    const NodeId mean =
        graph_op2(g, OP_div, sum, graph_op3(g, OP_where, none, extent_scalar(g, part, 1), part));
    return graph_cast(g, mean, (DType)n.dtype);
}

NodeId extent_attention(Graph *g, NodeId id)
{
    const Node n = *graph_node(g, id);
    const Shape q = *graph_node(g, n.src[0])->shape, k = *graph_node(g, n.src[1])->shape;
    rlx_assert(q.rank >= 2 && k.rank >= 2 && n.n_src >= 3);
    const uint32_t last = k.rank - 1;
    const Dim keys = k.dim[k.rank - 2], queries = q.dim[q.rank - 2];
    const AttentionForm form = attention_form(&n);
    const bool has_places = form.is_causal || form.left >= 0 || form.right >= 0;
    if (extent_is_live(g, n.src[0], last) || extent_is_live(g, n.src[1], last) ||
        extent_is_live(g, n.src[2], last))
        return extent_refuse(g, id, "heads must have a fixed size");
    const Dim ahead = dim_sub(g->dims, keys, queries);
    NodeId mask = n.n_src > 3 ? n.src[3] : 0, live = n.n_src > 4 ? n.src[4] : 0,
           first = n.n_src > 5 ? n.src[5] : 0;
    const bool needs_first = has_places && !first && !dim_is_const(ahead);
    if (!graph_dim_is_computed(g, keys) && !needs_first)
        return id;
    if (needs_first)
        first = extent_size(g, ahead);
    if (graph_dim_is_computed(g, keys))
        live = live ? graph_op2(g, OP_min, live, extent_size(g, keys)) : extent_size(g, keys);
    return graph_clone_with(g, id, (const NodeId[]){n.src[0], n.src[1], n.src[2], mask, live, first}, 6);
}

// Regions stand for themselves; images are looked up by number.
NodeId extent_regions(Graph *g, NodeId id)
{
    if (extent_axes(g, graph_node(g, id)->src[0]))
        return extent_refuse(g, id, "only the number of regions may be such");
    return id;
}

// --- rows ---

// Every line along the last axis of operand 0 is on its own, and has to be whole.
NodeId extent_lines(Graph *g, NodeId id)
{
    const NodeId x = graph_node(g, id)->src[0];
    const uint32_t rank = graph_node(g, x)->shape->rank;
    rlx_assert(rank >= 1);
    const bool is_cut = extent_axes(g, x) >> (rank - 1) & 1;
    return is_cut ? extent_refuse(g, id, "only its other axes can have one") : id;
}

// (x - mean) / sqrt(mean of squares + epsilon) * scale + bias, over the live elements.
static NodeId normalise(Graph *g, NodeId id, uint32_t axis, double epsilon, bool has_mean)
{
    const Node n = *graph_node(g, id);
    const Shape s = *graph_node(g, n.src[0])->shape;
    const uint32_t mask = ~0u << axis;
    const DType t = wide_type((DType)n.dtype);
    if ((extent_axes(g, n.src[0]) & mask) == 0)
        return id;
    NodeId x = graph_cast(g, n.src[0], t);
    const NodeId count = count_along(g, &s, mask, t);
    if (has_mean)
        x = graph_op2(g, OP_sub, x, graph_op2(g, OP_div, sum_along(g, x, mask, true), count));
    const NodeId power = graph_op2(g, OP_div, sum_along(g, graph_op1(g, OP_square, x), mask, true), count);
    NodeId y = graph_op2(
        g, OP_div, x, graph_op1(g, OP_sqrt, graph_op2(g, OP_add, power, extent_scalar(g, power, epsilon))));
    if (n.n_src > 1 && n.src[1])
        y = graph_op2(g, OP_mul, y, graph_cast(g, n.src[1], t));
    if (n.n_src > 2 && n.src[2])
        y = graph_op2(g, OP_add, y, graph_cast(g, n.src[2], t));
    return graph_cast(g, y, (DType)n.dtype);
}

static NodeId normalise_rows(Graph *g, NodeId id, bool has_mean)
{
    const Node *n = graph_node(g, id);
    double epsilon = 0;
    memcpy(&epsilon, &node_find_attr(n, "epsilon")->u.f64_bits, sizeof epsilon);
    return normalise(g, id, (uint32_t)node_find_attr(n, "axis")->u.i, epsilon, has_mean);
}

NodeId extent_norm(Graph *g, NodeId id)
{
    return normalise_rows(g, id, true);
}

NodeId extent_rms(Graph *g, NodeId id)
{
    return normalise_rows(g, id, false);
}

// --- choosing ---

// Nothing comes before what is there: of equal elements the first is taken, and NaN is the largest.
NodeId extent_ordered(Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    const bool is_float = dtype_info[n->dtype].cls == DCLASS_FLOAT;
    const double last = node_find_attr(n, "largest")->u.i ? -(double)INFINITY
                        : is_float                        ? (double)NAN
                                                          : (double)INFINITY;
    return extent_masked(g, id, 0, axes_of(n), last);
}

NodeId extent_everywhere(Graph *g, NodeId id)
{
    return extent_masked(g, id, 0, ~0u, fill_of(graph_node(g, id)));
}

NodeId extent_unique(Graph *g, NodeId id)
{
    const Node n = *graph_node(g, id);
    NodeId x = n.src[0], live = n.n_src > 1 ? n.src[1] : 0;
    if (!live && extent_is_live(g, x, 0))
        live = extent_size(g, graph_node(g, x)->shape->dim[0]);
    x = extent_mask(g, x, 2, 0);
    return graph_clone_with(g, id, (const NodeId[]){x, live}, 2);
}

// Operand 1 is what counts: a score that is NaN takes the box out.
NodeId extent_scores(Graph *g, NodeId id)
{
    return extent_masked(g, id, 1, ~0u, fill_of(graph_node(g, id)));
}

// Time ends with the live steps; the batch needs nothing.
static NodeId extent_recurrent(Graph *g, NodeId id)
{
    const Node n = *graph_node(g, id);
    const RecurrentForm form = recurrent_form(&n);
    rlx_assert(graph_node(g, n.src[0])->shape->rank == 3);
    const uint32_t seq = form.is_batch_major ? 1 : 0, last_state = RECURRENT_H0 + form.n_states - 1;
    NodeId steps = n.n_src > form.steps ? n.src[form.steps] : 0;
    for (uint32_t i = 0; i < n.n_src; i++)
        if ((i < RECURRENT_H0 || i > last_state) && (extent_axes(g, n.src[i]) & ~(i == 0 ? 3u : 0)))
            return extent_refuse(g, id, "only the batch and time may be such");
    if (!extent_is_live(g, n.src[0], seq))
        return id;
    const NodeId live = extent_size(g, graph_node(g, n.src[0])->shape->dim[seq]);
    steps = steps ? graph_op2(g, OP_min, steps, live) : live;
    NodeId src[RECURRENT_MOST] = {0};
    for (uint32_t i = 0; i < form.steps; i++)
        src[i] = i < n.n_src ? n.src[i] : 0;
    src[form.steps] = steps;
    return graph_clone_with(g, id, src, form.steps + 1);
}

NodeId extent_lstm(Graph *g, NodeId id)
{
    return extent_recurrent(g, id);
}

NodeId extent_gru(Graph *g, NodeId id)
{
    return extent_recurrent(g, id);
}

NodeId extent_rnn(Graph *g, NodeId id)
{
    return extent_recurrent(g, id);
}
