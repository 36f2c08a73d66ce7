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

enum { ROW_AXIS = 2 }; // of an image

// Does the node have the axes of the input, which it depends on?
static bool keeps_axes(const Node *n, const Shape *input)
{
    return n->shape->rank == input->rank && !op_is_view_of_rows((OpId)n->op);
}

// The first of several axes that a reduction such as a mean goes over, as those of images do; 0: it is no
// such node.
static uint32_t reduced_axis(const Node *n)
{
    const AttrId id = attr_find((OpId)n->op, "axes");
    int64_t least = SHAPE_MAX_RANK;
    if (id == ATTR_COUNT || attr_find((OpId)n->op, "keepdims") == ATTR_COUNT)
        return 0;
    const AttrVal *axes = node_attr(n, id);
    for (uint64_t i = 0; axes->len > 1 && i < axes->len; i++)
        least = axes->u.ints[i] < least ? axes->u.ints[i] : least;
    return least >= 1 && least < SHAPE_MAX_RANK ? (uint32_t)least : 0;
}

uint32_t rows_input_axis(const Graph *g, NodeId input, Arena *scratch)
{
    const bool *is_live = graph_mark_live(g, scratch);
    bool *is_alike = ARENA_ARRAY(scratch, bool, g->nodes.len);
    const Shape *s = graph_node(g, input)->shape;
    is_alike[input] = true;
    for (NodeId id = input + 1; id < g->nodes.len; id++) {
        const Node *n = graph_node(g, id);
        bool reads = false;
        for (uint32_t i = 0; is_live[id] && i < n->n_src; i++)
            reads = reads || is_alike[n->src[i]];
        if (reads && n->op == OP_transpose && n->shape->rank > ROW_AXIS)
            return (uint32_t)node_attr(n, A_transpose_perm)->u.ints[ROW_AXIS];
        if (reads && op_info[n->op].layout == OPLAYOUT_IMAGE)
            break;
        if (reads && reduced_axis(n) != 0)
            return reduced_axis(n);
        is_alike[id] = reads && keeps_axes(n, s);
    }
    return ROW_AXIS;
}

static bool refuse(const Pass *p, Span where, const char *why)
{
    const NodeId input = p->graph->inputs.data[p->options->rows_input - 1];
    return diag_error(p->diag, where, E0406, "input '%s' cannot come row by row: %s",
                      node_name(p->graph, input), why);
}

bool rows_input_has_axes(const Graph *g, NodeId input, NodeId value)
{
    const Node *n = graph_node(g, value);
    return value == input || (n->op == OP_transpose && n->src[0] == input);
}

NodeId rows_input_value(const Graph *g, NodeId input, uint32_t axis, Arena *scratch)
{
    const bool *is_live = graph_mark_live(g, scratch);
    NodeId value = 0;
    for (NodeId at = input; at != 0; at = only_view(g, is_live, at))
        value = has_rows(g, at, at == input ? axis : ROW_AXIS) ? at : value;
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
    return value == p->plan->graph->inputs.data[p->plan->rows.input - 1] ? p->options->rows_axis : ROW_AXIS;
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
