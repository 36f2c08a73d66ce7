// SPDX-License-Identifier: Apache-2.0
// Loops over an axis whose size the model computes or that is set between runs: the body has no such size but
// in captured values, of each of which iteration i reads entry i along that axis. The loop is planned for the
// largest size and ends at the one of the run. Rows of scan outputs beyond are not live.
#include "passes/graph/bodies.h"
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

// --- bodies that use sizes in other ways ---

// Sub-graphs nest at most GRAPH_MAX_DEPTH deep.
static bool uses_size(const Graph *g, const Graph *body, const GraphExtent *e)
{
    bool uses = false;
    for (NodeId id = 1; !uses && id < body->nodes.len; id++) {
        const Node *n = graph_node(body, id);
        for (uint32_t r = 0; r < n->n_results; r++) {
            const Shape *s = r ? &n->results[r].shape : n->shape;
            for (uint32_t i = 0; i < s->rank; i++)
                uses = uses || graph_dim_uses(g, s->dim[i], e);
        }
        for (uint32_t i = 0; !uses && i < n->n_attr; i++)
            uses = attr_info[n->attr[i].id].type == ATTR_GRAPH && uses_size(g, n->attr[i].u.graph, e);
    }
    return uses;
}

// Are all sizes of the body numbers, or made of those outside: none that it computes for itself?
static bool has_outer_sizes_only(const Graph *g, const Graph *body)
{
    int64_t *value = ARENA_ARRAY(g->arena, int64_t, g->dims->symbols.len), size = 0;
    for (uint32_t i = 0; i < g->dims->symbols.len; i++)
        value[i] = -1;
    for (uint32_t i = 0; i < g->extents.len; i++) {
        const int32_t symbol = dim_as_symbol(g->dims, g->extents.data[i].dim);
        value[symbol] = g->dims->symbols.data[symbol].max;
    }
    bool ok = body->extents.len == 0;
    for (NodeId id = 1; ok && id < body->nodes.len; id++) {
        const Shape *s = graph_node(body, id)->shape;
        for (uint32_t i = 0; ok && i < s->rank; i++)
            ok = dim_eval(g->dims, s->dim[i], (DimValues){value, g->dims->symbols.len}, &size);
    }
    return ok;
}

// The body gets the sizes of the run as captured values, and its nodes are treated as those outside are.
NodeId extent_open_loop(Graph *g, NodeId id, RewriteStep step)
{
    enum { MOST = 255 }; // operands
    const Node n = *graph_node(g, id);
    Graph *body = graph_compact(loop_form(&n).body, NULL);
    NodeId src[MOST];
    uint32_t n_src = n.n_src;
    const uint32_t errors = g->diag->n_errors;
    if (!has_outer_sizes_only(g, body) || n.n_src + g->extents.len > MOST)
        return extent_refuse(g, id, "its body computes sizes as well");
    for (uint32_t i = 0; i < n.n_src; i++)
        src[i] = n.src[i];
    body->diag = g->diag;
    for (uint32_t i = 0; i < g->extents.len; i++) {
        GraphExtent e = g->extents.data[i];
        if (!uses_size(g, body, &e))
            continue;
        const Node *value = graph_node(g, e.value);
        const char *name = g->dims->symbols.data[dim_as_symbol(g->dims, e.dim)].name;
        src[n_src++] = e.value;
        e.value = graph_input(body, arena_printf(g->arena, "size %s", name), (DType)value->dtype,
                              value->shape, node_span(g, id));
        vec_push(body->arena, &body->extents, e);
    }
    graph_rewrite(body, step, body); // what it takes was spread outside
    body->extents.len = 0;
    return g->diag->n_errors == errors ? bodies_make_loop(g, id, body, src, n_src) : 0;
}

NodeId extent_loop(Graph *g, NodeId id)
{
    rlx_assert(graph_node(g, id)->op == OP_loop && graph_node(g, id)->n_src >= 2);
    const Node n = *graph_node(g, id);
    const Dim *trips = loop_form(&n).max_trips;
    if (trips == NULL || !graph_dim_is_computed(g, *trips))
        return id;
    const Shape one = *graph_node(g, n.src[0])->shape;
    const NodeId most = graph_reshape(g, extent_size(g, *trips), &one);
    return extent_with(g, id, 0, graph_op2(g, OP_min, n.src[0], most));
}
