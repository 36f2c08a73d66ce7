// SPDX-License-Identifier: Apache-2.0
// An input that the program gives row by row. See rows_input.h.
#include "passes/plan/ram/rows_input.h"
#include "ir/graph/intern.h"

// --- which value has the rows --------------------------------------------------------------------

// The only node that reads the value, if it is a view of all of it; 0: there is none.
static NodeId only_view(const Graph *g, const bool *is_live, NodeId id)
{
    NodeId found = 0;
    for (NodeId user = id + 1; user < g->nodes.len; user++) {
        const Node *n = graph_node(g, user);
        for (uint32_t i = 0; is_live[user] && i < n->n_src; i++) {
            if (n->src[i] != id)
                continue;
            if (found != 0 || (op_info[n->op].flags & OPFLAG_VIEW) == 0 ||
                shape_numel(n->shape) != shape_numel(graph_node(g, id)->shape))
                return 0;
            found = user;
        }
    }
    for (uint32_t i = 0; i < g->outputs.len; i++)
        found = g->outputs.data[i].node == id ? 0 : found;
    for (uint32_t i = 0; i < g->states.len; i++)
        found = g->states.data[i].next == id ? 0 : found;
    return found;
}

static bool has_rows(const Graph *g, NodeId id, uint32_t axis)
{
    const Shape *s = graph_node(g, id)->shape;
    return s->rank >= 3 && s->dim[0] == 1 && s->dim[axis] > 1 && shape_numel(s) > 0;
}

static bool refuse(const Pass *p, Span where, const char *why)
{
    const NodeId input = p->graph->inputs.data[p->options->rows_input - 1];
    return diag_error(p->diag, where, E0406, "input '%s' cannot come row by row: %s",
                      node_name(p->graph, input), why);
}

NodeId rows_input_value(const Graph *g, NodeId input, uint32_t axis, Arena *scratch)
{
    const bool *is_live = graph_mark_live(g, scratch);
    NodeId value = 0;
    for (NodeId at = input; at != 0; at = only_view(g, is_live, at))
        value = has_rows(g, at, at == input ? axis : ROWS_IMAGE_AXIS) ? at : value;
    return value;
}

bool rows_input_begin(Pass *p, NodeId *value)
{
    const Graph *g = p->graph;
    *value = 0;
    if (p->options->rows_input == 0 || p->frame != NULL)
        return true;
    rlx_assert(p->options->rows_input <= g->inputs.len);
    const NodeId input = g->inputs.data[p->options->rows_input - 1];
    *value = rows_input_value(g, input, p->options->rows_axis, p->scratch);
    p->failed = *value == 0 && !refuse(p, node_span(g, input),
                                       "expected one image, with the axes of a convolution and more than one "
                                       "row");
    return !p->failed;
}

// --- kernels -------------------------------------------------------------------------------------

static bool reads(const PlanKernel *k, BufId buf)
{
    for (uint32_t i = 0; i < k->args.len; i++)
        if (k->args.data[i].buf == buf)
            return true;
    return false;
}

void rows_input_span(const Plan *p, uint32_t *first, uint32_t *end)
{
    *first = UINT32_MAX;
    *end = 0;
    if (p->rows.input == 0)
        return;
    const BufId input = p->inputs.data[p->rows.input - 1].buf;
    for (uint32_t i = 0; i < p->kernels.len && *first == UINT32_MAX; i++)
        if (reads(&p->kernels.data[i], input))
            *first = i;
    for (uint32_t i = *first; i < p->kernels.len; i++)
        if (i == *first || reads(&p->kernels.data[i], p->locs.data[p->kernels.data[*first].root].buf))
            *end = i + 1;
}

static bool makes_rows(const RowWays *w)
{
    for (uint32_t i = 0; i < w->n; i++)
        if (w->way[i].out != 0)
            return true;
    return false;
}

// The axis of what is copied along which rows are.
static uint32_t copied_axis(const Pass *p, NodeId value)
{
    const bool is_input = value == p->plan->graph->inputs.data[p->plan->rows.input - 1];
    return is_input ? p->options->rows_axis : ROWS_IMAGE_AXIS;
}

// Are the rows of the input one behind the other in what the program gives?
static bool has_whole_rows(const Plan *p, NodeId value, uint32_t axis)
{
    const Shape *s = graph_node(p->graph, value)->shape;
    const Loc *l = &p->locs.data[value];
    return l->offset == 0 && l->stride[axis] * s->dim[axis] == shape_numel(s);
}

bool rows_input_check(Pass *p)
{
    uint32_t first = 0, end = 0;
    rows_input_span(p->plan, &first, &end);
    if (p->plan->rows.input == 0)
        return true;
    if (first == UINT32_MAX)
        return refuse(p, (Span){0}, "no output depends on it");
    const PlanKernel *k = &p->plan->kernels.data[first];
    const NodeId value = k->anchor == p->plan->rows.copy ? graph_node(p->plan->graph, k->anchor)->src[0] : 0;
    const uint32_t axis = copied_axis(p, value);
    if (value == 0 || !has_whole_rows(p->plan, value, axis))
        return refuse(p, (Span){0}, "its rows are not one behind the other in memory");
    p->plan->rows.n_rows = graph_node(p->graph, k->anchor)->shape->dim[axis];
    return true;
}

void rows_input_report(const Pass *p, const Rows *r)
{
    uint32_t first = 0, end = 0;
    const Plan *plan = p->plan;
    rows_input_span(plan, &first, &end);
    const char *why = "is computed from it at another rate than the nodes before it";
    uint32_t at = first;
    while (at < end && makes_rows(&r->ways[at]))
        at++;
    if (at < end)
        why = "needs all of it at once";
    else
        at = end - 1;
    const NodeId root = plan->kernels.data[at].root, node = plan->kernels.data[at].anchor;
    const NodeId named = node != 0 ? node : root;
    refuse(p, node_span(plan->graph, named),
           arena_printf(p->scratch, "'%s' %s", node_name(plan->graph, named), why));
}

void rows_input_end(Plan *p)
{
    uint32_t end = 0;
    int64_t turns = 0;
    if (p->rows.input == 0)
        return;
    rows_input_span(p, &p->rows.kernel, &end);
    const Kernel *k = p->kernels.data[p->rows.kernel].kernel;
    for (KRef r = 1; r < k->insts.len; r++)
        if (k_inst(k, r)->kind == KI_for && k_inst(k, r)->flags == KFOR_GIVEN)
            k_is_const(k, k_inst(k, r)->b, &turns);
    rlx_assert(turns >= p->rows.n_rows && p->rows.n_rows > 0);
    p->rows.n_turns = turns;
}
