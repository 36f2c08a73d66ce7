// SPDX-License-Identifier: Apache-2.0
// Loops over an axis whose size the model computes or that is set between runs: the body has no such size but
// in captured values, of each of which iteration i reads entry i along that axis. The loop is planned for the
// largest size and ends at the one of the run. Rows of scan outputs beyond are not live.
#include "passes/graph/extent.h"

static bool has_axes(const Graph *g, const Shape *s)
{
    for (uint32_t i = 0; i < s->rank; i++)
        if (graph_dim_is_computed(g, s->dim[i]))
            return true;
    return false;
}

// Is the only such axis of x the one that the gather takes entry i of, of as many as there may be iterations?
static bool takes_entry(const Graph *g, const Graph *body, const Node *gather, NodeId x, const AttrVal *trips)
{
    const Shape *s = graph_node(body, x)->shape;
    int64_t least = 0, most = 0;
    if (gather->op != OP_gather || gather->src[0] != x || gather->src[1] != body->inputs.data[0] ||
        trips->len == 0)
        return false;
    const int64_t axis = node_get_int(gather, A_gather_axis); // not negative: shape rules have seen to it
    for (uint32_t i = 0; i < s->rank; i++)
        if (i != (uint32_t)axis && graph_dim_is_computed(g, s->dim[i]))
            return false;
    dim_range(g->dims, dim_sub(g->dims, s->dim[axis], trips->u.ints[0]), &least, &most);
    return least >= 0;
}

// Does a node of the body use the sizes in no other way?
static bool is_entry_only(const Graph *g, const Graph *body, NodeId id, const AttrVal *trips)
{
    const Node *n = graph_node(body, id);
    for (uint32_t i = 0; i < n->n_attr; i++)
        if (attr_info[n->attr[i].id].type == ATTR_GRAPH && extent_has_sizes_inside(g, n->attr[i].u.graph))
            return false;
    if (n->op == OP_input)
        return true;
    for (uint32_t i = 0; i < n->n_src; i++)
        if (n->src[i] != 0 && has_axes(g, graph_node(body, n->src[i])->shape) &&
            !takes_entry(g, body, n, n->src[i], trips))
            return false;
    return !has_axes(g, n->shape);
}

bool extent_loop_is_over_entries(const Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    if (n->op != OP_loop)
        return false;
    const Graph *body = node_attr(n, A_loop_body)->u.graph;
    const AttrVal *trips = node_attr(n, A_loop_max_trips);
    const int64_t carried = node_get_int(n, A_loop_carried);
    if (body->extents.len != 0)
        return false;
    for (int64_t i = 0; i < carried; i++) // these would change their size with the run
        if (has_axes(g, graph_node(g, n->src[2 + i])->shape))
            return false;
    for (NodeId b = 1; b < body->nodes.len; b++)
        if (!is_entry_only(g, body, b, trips))
            return false;
    for (uint32_t i = 0; i < body->outputs.len; i++)
        if (has_axes(g, graph_node(body, body->outputs.data[i].node)->shape))
            return false;
    return true;
}

NodeId extent_loop(Graph *g, NodeId id)
{
    rlx_assert(graph_node(g, id)->op == OP_loop && graph_node(g, id)->n_src >= 2);
    const Node n = *graph_node(g, id);
    const AttrVal *trips = node_attr(&n, A_loop_max_trips);
    if (!extent_loop_is_over_entries(g, id))
        return extent_refuse(g, id, "a carried value has such a size");
    if (trips->len == 0 || !graph_dim_is_computed(g, trips->u.ints[0]))
        return id;
    const Shape one = *graph_node(g, n.src[0])->shape;
    const NodeId most = graph_reshape(g, extent_size(g, trips->u.ints[0]), &one);
    return extent_with(g, id, 0, graph_op2(g, OP_min, n.src[0], most));
}
