// SPDX-License-Identifier: Apache-2.0
// Replacements with attributes: norms and softmax out of the elementwise ops and reductions that exporters
// spell them with. A pattern says how the ops hang together; these functions check the axes and move the
// numbers.
#include "passes/graph/fold.h"
#include "passes/graph/rules.h"
#include "passes/graph/split_shape.h"

// A node with span and label of the root.
static NodeBuild begin(const RuleMatch *on, OpId op)
{
    return node_begin(on->g, op, node_span(on->g, on->root), on->g->labels.data[on->root]);
}

// A reduction that keeps its axes as size 1, over the axes [first, rank).
static bool reduces_tail(const RuleMatch *on, char letter, AttrId axes, AttrId keepdims, int64_t *first)
{
    const Node *n = graph_node(on->g, rule_letter(on, letter));
    const uint32_t rank = graph_node(on->g, n->src[0])->shape->rank;
    const AttrVal *v = node_attr(n, axes);
    uint32_t mask = 0;
    for (uint64_t i = 0; i < v->len; i++)
        mask |= 1u << v->u.ints[i];
    if (v->len == 0)
        mask = (1u << rank) - 1;
    *first = 0;
    while (*first < rank && !(mask >> *first & 1))
        ++*first;
    return *first < rank && mask >> *first == (1u << (rank - *first)) - 1 && node_get_int(n, keepdims);
}

// --- norms ---

static bool means_tail(const RuleMatch *on, char letter, int64_t *first)
{
    return reduces_tail(on, letter, A_reduce_mean_axes, A_reduce_mean_keepdims, first);
}

static double scalar(const RuleMatch *on, char letter)
{
    double v = 0;
    node_is_scalar_const(on->g, rule_letter(on, letter), &v);
    return v;
}

NodeId make_layer_norm(const RuleMatch *on)
{
    int64_t axis = 0, axis_of_variance = 0;
    if (!means_tail(on, 'm', &axis) || !means_tail(on, 'v', &axis_of_variance) || axis != axis_of_variance)
        return 0;
    NodeBuild b = begin(on, OP_layer_norm);
    node_src(&b, rule_letter(on, 'x'));
    node_int(&b, A_layer_norm_axis, axis);
    node_float(&b, A_layer_norm_epsilon, scalar(on, 'e'));
    return node_end(&b);
}

NodeId make_rms_norm(const RuleMatch *on)
{
    int64_t axis = 0;
    if (!means_tail(on, 'v', &axis))
        return 0;
    NodeBuild b = begin(on, OP_rms_norm);
    node_src(&b, rule_letter(on, 'x'));
    node_int(&b, A_rms_norm_axis, axis);
    node_float(&b, A_rms_norm_epsilon, scalar(on, 'e'));
    return node_end(&b);
}

// The value as an operand of a norm over the axes from `axis` on: it must not change along the others. 0: it
// does, or it is larger than the norm's result.
static NodeId norm_weight(Graph *g, NodeId id, NodeId norm, int64_t axis)
{
    const Shape *full = graph_node(g, norm)->shape, *s = graph_node(g, id)->shape;
    const uint32_t tail = full->rank - (uint32_t)axis;
    Shape own = {.rank = s->rank < tail ? s->rank : tail};
    for (uint32_t i = 0; i < s->rank; i++) {
        const uint32_t from_end = s->rank - i;
        if (from_end > tail ? s->dim[i] != 1
                            : s->dim[i] != 1 && s->dim[i] != full->dim[full->rank - from_end])
            return 0;
        if (from_end <= own.rank)
            own.dim[own.rank - from_end] = s->dim[i];
    }
    return s->rank <= full->rank ? fold_node(g, graph_reshape(g, id, &own)) : 0;
}

// The norm with one operand more.
static NodeId with_weight(const RuleMatch *on, uint32_t operand, char letter, AttrId axis)
{
    const NodeId norm = rule_letter(on, 'y');
    const Node n = *graph_node(on->g, norm);
    NodeId src[3] = {n.src[0], n.n_src > 1 ? n.src[1] : 0, n.n_src > 2 ? n.src[2] : 0};
    src[operand] = norm_weight(on->g, rule_letter(on, letter), norm, node_get_int(&n, axis));
    if (!src[operand])
        return 0;
    NodeBuild b = begin(on, (OpId)n.op);
    for (uint32_t i = 0; i <= operand || (i < 3 && src[i]); i++)
        node_src(&b, src[i]);
    node_copy_attrs(&b, &n);
    return node_end(&b);
}

NodeId make_layer_norm_scale(const RuleMatch *on)
{
    return with_weight(on, 1, 's', A_layer_norm_axis);
}

NodeId make_layer_norm_bias(const RuleMatch *on)
{
    return with_weight(on, 2, 'b', A_layer_norm_axis);
}

NodeId make_rms_norm_scale(const RuleMatch *on)
{
    return with_weight(on, 1, 's', A_rms_norm_axis);
}

// --- group norm ---

// A norm over groups of channels is one over another shape, and what comes behind it in the shape of the
// channels would be a kernel of its own. So the norm and the step behind it are computed in a shape that
// splits both.
static NodeId in_split_shape(const RuleMatch *on, NodeId inner, char weight, OpId op)
{
    Graph *g = on->g;
    const Node n = *graph_node(g, inner), root = *graph_node(g, on->root);
    const Shape whole = *graph_node(g, rule_letter(on, 'r'))->shape;
    Shape fine;
    uint32_t end_n[SHAPE_MAX_RANK], end_r[SHAPE_MAX_RANK];
    if (!shape_is_const(&whole) || !shape_is_const(n.shape) || !shape_equal(root.shape, &whole) ||
        !split_shapes(n.shape, &whole, &fine, end_n, end_r))
        return 0;
    const NodeId w = split_weight(g, rule_letter(on, weight), &whole, &fine, end_r);
    if (w == 0)
        return 0;
    if (n.op == OP_layer_norm) {
        const int64_t axis = node_get_int(&n, A_layer_norm_axis);
        NodeBuild b = begin(on, OP_layer_norm);
        node_src(&b, graph_reshape(g, n.src[0], &fine));
        node_int(&b, A_layer_norm_axis, axis == 0 ? 0 : end_n[axis - 1]);
        node_float(&b, A_layer_norm_epsilon, node_get_float(&n, A_layer_norm_epsilon));
        inner = node_end(&b);
    }
    NodeBuild b = begin(on, op);
    node_src(&b, inner);
    node_src(&b, w);
    return graph_reshape(g, node_end(&b), &whole);
}

NodeId make_group_norm_scale(const RuleMatch *on)
{
    return in_split_shape(on, rule_letter(on, 'y'), 's', OP_mul);
}

NodeId make_group_norm_bias(const RuleMatch *on)
{
    return in_split_shape(on, rule_letter(on, 'm'), 'b', OP_add);
}

// --- softmax ---

// The one axis of a reduction that keeps it, or -1.
static int64_t only_axis(const RuleMatch *on, char letter, AttrId axes, AttrId keepdims)
{
    const Node *n = graph_node(on->g, rule_letter(on, letter));
    const AttrVal *v = node_attr(n, axes);
    const bool is_whole = v->len == 0 && graph_node(on->g, n->src[0])->shape->rank == 1;
    if (!node_get_int(n, keepdims) || (v->len != 1 && !is_whole))
        return -1;
    return is_whole ? 0 : v->u.ints[0];
}

// The axis along which the sum is taken, and the maximum if there is one; -1 when they differ.
static int64_t softmax_axis(const RuleMatch *on)
{
    const int64_t axis = only_axis(on, 's', A_reduce_sum_axes, A_reduce_sum_keepdims);
    if (!rule_letter(on, 'm') || only_axis(on, 'm', A_reduce_max_axes, A_reduce_max_keepdims) == axis)
        return axis;
    return -1;
}

NodeId make_softmax(const RuleMatch *on)
{
    const int64_t axis = softmax_axis(on);
    if (axis < 0)
        return 0;
    NodeBuild b = begin(on, OP_softmax);
    node_src(&b, rule_letter(on, 'x'));
    node_int(&b, A_softmax_axis, axis);
    return node_end(&b);
}

NodeId make_log_softmax(const RuleMatch *on)
{
    const NodeId softmax = rule_letter(on, 'y');
    const int64_t axis =
        softmax ? node_get_int(graph_node(on->g, softmax), A_softmax_axis) : softmax_axis(on);
    if (axis < 0)
        return 0;
    NodeBuild b = begin(on, OP_log_softmax);
    node_src(&b, rule_letter(on, 'x'));
    node_int(&b, A_log_softmax_axis, axis);
    return node_end(&b);
}
