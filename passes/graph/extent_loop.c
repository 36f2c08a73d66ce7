// SPDX-License-Identifier: Apache-2.0
// Loops over an axis whose size the model computes or that is set between runs: the body has no such size but
// in captured values, of each of which iteration i reads entry i along that axis. The loop is planned for the
// largest size and ends at the one of the run. Rows of scan outputs beyond are not live.
#include "passes/graph/extent.h"

#include "ir/shape/forms.h"

static bool has_axes(const Graph *g, const Shape *s)
{
    for (uint32_t i = 0; i < s->rank; i++)
        if (graph_dim_is_computed(g, s->dim[i]))
            return true;
    return false;
}

// Is the only such axis of x the one that the gather takes entry i of, of as many as there may be iterations?
static bool takes_entry(const Graph *g, const Graph *body, const Node *gather, NodeId x, const Dim *trips)
{
    const Shape *s = graph_node(body, x)->shape;
    int64_t least = 0, most = 0;
    const int64_t axis = gather_axis(gather);
    if (axis < 0 || gather->src[0] != x || gather->src[1] != body->inputs.data[0] || trips == NULL)
        return false;
    for (uint32_t i = 0; i < s->rank; i++)
        if (i != (uint32_t)axis && graph_dim_is_computed(g, s->dim[i]))
            return false;
    dim_range(g->dims, dim_sub(g->dims, s->dim[axis], *trips), &least, &most);
    return least >= 0;
}

// Does a node of the body use the sizes in no other way?
static bool is_entry_only(const Graph *g, const Graph *body, NodeId id, const Dim *trips)
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
    const LoopForm loop = loop_form(n);
    const Graph *body = loop.body;
    if (body == NULL || body->extents.len != 0)
        return false;
    for (uint32_t i = 0; i < loop.n_carried; i++) // these would change their size with the run
        if (has_axes(g, graph_node(g, n->src[2 + i])->shape))
            return false;
    for (NodeId b = 1; b < body->nodes.len; b++)
        if (!is_entry_only(g, body, b, loop.max_trips))
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
    const Dim *trips = loop_form(&n).max_trips;
    if (!extent_loop_is_over_entries(g, id))
        return extent_refuse(g, id, "a carried value has such a size");
    if (trips == NULL || !graph_dim_is_computed(g, *trips))
        return id;
    const Shape one = *graph_node(g, n.src[0])->shape;
    const NodeId most = graph_reshape(g, extent_size(g, *trips), &one);
    return extent_with(g, id, 0, graph_op2(g, OP_min, n.src[0], most));
}
