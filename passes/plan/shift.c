// SPDX-License-Identifier: Apache-2.0
// See shift.h.
#include "passes/plan/shift.h"
#include "ir/shape/forms.h"
#include "passes/plan/view_loc.h"

// Is it a view of the concat, and where?
static bool find_view(const Graph *g, NodeId id, const Shift *s, Loc *out)
{
    const Node *n = graph_node(g, id);
    Loc from;
    *out = s->begin;
    return id == s->whole || ((op_info[n->op].flags & OPFLAG_VIEW) != 0 &&
                              find_view(g, n->src[0], s, &from) && view_loc(g, n, &from, out));
}

// A concat that begins with the state, which nobody else reads.
static bool find_concat(const Graph *g, const Uses *u, NodeId state, Shift *out)
{
    const uint32_t first = u->first[state], n_users = u->first[state + 1] - first;
    if (n_users != 1 || u->user[first] == 0)
        return false;
    const Node *n = graph_node(g, u->user[first]);
    out->whole = u->user[first];
    for (uint32_t i = 1; i < n->n_src; i++)
        if (n->src[i] == state)
            return false;
    return concat_axis(n) >= 0 && n->src[0] == state;
}

bool shift_find(const Pass *p, const Uses *u, const GraphState *s, const Loc *state, Shift *out)
{
    const Graph *g = p->graph;
    const Shape *shape = graph_node(g, s->node)->shape;
    // A failed check must leave states as they were; buckets share one layout of them.
    if (!pass_is_serial(p) || p->options->has_buckets || g->checks.len != 0 || shape_numel(shape) == 0 ||
        !find_concat(g, u, s->node, out))
        return false;
    out->begin = (Loc){.buf = state->buf};
    dense_strides(graph_node(g, out->whole)->shape, (AxisOrder)p->plan->orders.data[out->whole],
                  out->begin.stride);
    return find_view(g, s->next, out, &out->at) && out->at.offset > 0 &&
           same_strides(shape, state->stride, out->begin.stride) &&
           same_strides(shape, state->stride, out->at.stride);
}
