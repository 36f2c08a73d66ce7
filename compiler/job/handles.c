// SPDX-License-Identifier: Apache-2.0
// See handles.h.
#include "compiler/job/handles.h"
#include "ir/shape/forms.h"
#include <string.h>

static bool wrong(Cli *c, const char *given, const char *expected)
{
    return diag_error(c->diag, (Span){0}, E0003, "--handle %s: expected %s", given, expected);
}

static int64_t find_input(const Graph *g, const char *name)
{
    for (uint32_t i = 0; i < g->inputs.len; i++)
        if (strcmp(node_name(g, g->inputs.data[i]), name) == 0)
            return i;
    return -1;
}

static int64_t find_output(const Graph *g, const char *name)
{
    for (uint32_t i = 0; i < g->outputs.len; i++)
        if (strcmp(g->outputs.data[i].name, name) == 0)
            return i;
    return -1;
}

typedef struct Handles {
    Cli *cli;
    Graph *graph;
    OpId *becomes;      // by input
    int64_t *feeds;     // by input: the output that it takes at the end of a run
    const Shape **room; // by input: the shape of the output where that is larger, and so the one of the state
} Handles;

// Does everything fit into the output, whatever the sizes are? A cache grows by what the run adds.
static bool has_room(const Graph *g, const Shape *in, const Shape *out)
{
    bool fits = in->rank == out->rank;
    for (uint32_t i = 0; fits && i < in->rank; i++) {
        int64_t low = 0, high = 0;
        dim_range(g->dims, dim_sub(g->dims, out->dim[i], in->dim[i]), &low, &high);
        fits = low >= 0;
    }
    return fits;
}

static bool check_feed(const Handles *h, const char *given, uint32_t input, int64_t output)
{
    rlx_assert(input < h->graph->inputs.len && output < (int64_t)h->graph->outputs.len);
    Graph *g = h->graph;
    const Node *in = graph_node(g, g->inputs.data[input]);
    const Node *out = output < 0 ? NULL : graph_node(g, g->outputs.data[output].node);
    Str a = str_new(g->arena), b = str_new(g->arena);
    if (out == NULL)
        return wrong(h->cli, given, "INPUT=OUTPUT with an output of the model");
    for (uint32_t i = 0; i < g->inputs.len; i++)
        if (h->feeds[i] == output)
            return wrong(h->cli, given, "every output once");
    if (in->dtype == out->dtype && has_room(g, in->shape, out->shape)) {
        h->room[input] = out->shape;
        return true;
    }
    shape_print(g->dims, (DType)in->dtype, in->shape, &a);
    shape_print(g->dims, (DType)out->dtype, out->shape, &b);
    return diag_error(h->cli->diag, (Span){0}, E0003,
                      "--handle %s: the input is %s, but the output is %s, which must not be smaller", given,
                      str_text(&a), str_text(&b));
}

static bool read_handle(Handles *h, const char *given)
{
    Arena *a = h->graph->arena;
    const char *eq = strchr(given, '=');
    const char *name = eq == NULL ? given : arena_strndup(a, given, (size_t)(eq - given));
    const int64_t input = find_input(h->graph, name);
    if (input < 0 || h->becomes[input] != OP_input)
        return wrong(h->cli, given, "INPUT or INPUT=OUTPUT, every input of the model once at most");
    if (eq != NULL && !check_feed(h, given, (uint32_t)input, find_output(h->graph, eq + 1)))
        return false;
    h->becomes[input] = eq == NULL ? OP_param : OP_state;
    h->feeds[input] = eq == NULL ? -1 : find_output(h->graph, eq + 1);
    return true;
}

// States take the values of their outputs, which a run leaves nowhere else: they are read from the states.
static void set_feeds(const Handles *h, Graph *to, const NodeId *map)
{
    rlx_assert(to->outputs.len == h->graph->outputs.len);
    const Graph *from = h->graph;
    uint32_t n = 0;
    for (uint32_t i = 0; i < from->inputs.len; i++)
        for (uint32_t s = 0; s < to->states.len && h->feeds[i] >= 0; s++) {
            GraphState *state = &to->states.data[s];
            if (strcmp(node_name(to, state->node), node_name(from, from->inputs.data[i])) != 0)
                continue;
            rlx_assert((uint64_t)h->feeds[i] < from->outputs.len);
            state->next = map[from->outputs.data[h->feeds[i]].node];
            state->output = from->outputs.data[h->feeds[i]].name;
        }
    for (uint32_t o = 0; o < from->outputs.len; o++) {
        bool is_fed = false;
        for (uint32_t i = 0; i < from->inputs.len; i++)
            is_fed = is_fed || h->feeds[i] == o;
        if (!is_fed)
            to->outputs.data[n++] = to->outputs.data[o];
    }
    to->outputs.len = n;
}

// --- caches that grow ---

static bool is_state(const Graph *g, NodeId id)
{
    return graph_node(g, id)->op == OP_state;
}

// What is behind the first operand of a concat.
static NodeId behind(Graph *g, NodeId id)
{
    const Node n = *graph_node(g, id);
    rlx_assert(n.n_src >= 2);
    return n.n_src == 2 ? n.src[1] : graph_clone_with(g, id, n.src + 1, n.n_src - 1u);
}

// The first rows of a state, and others behind them: these are written into the state, where they begin.
static NodeId step_append(Graph *g, NodeId id, void *ctx)
{
    const Node n = *graph_node(g, id);
    const uint32_t axis = concat_axis(&n) >= 0 ? (uint32_t)concat_axis(&n) : 0;
    const Node *first = concat_axis(&n) >= 0 && n.n_src > 1 ? graph_node(g, n.src[0]) : NULL;
    (void)ctx;
    if (first == NULL || gather_axis(first) < 0 || !is_state(g, first->src[0]) ||
        !shape_equal(graph_node(g, first->src[0])->shape, n.shape) ||
        n.src[0] != graph_first(g, first->src[0], axis, first->shape->dim[axis], node_span(g, id)))
        return id;
    const NodeId state = graph_node(g, n.src[0])->src[0];
    NodeBuild start = node_begin(g, OP_concat, node_span(g, id), NULL);
    for (uint32_t i = 0; i < n.shape->rank; i++) {
        const Dim at = i == axis ? graph_node(g, n.src[0])->shape->dim[axis] : 0;
        node_src(&start,
                 graph_reshape(g, graph_dim_value(g, at, node_span(g, id)), &(Shape){.rank = 1, .dim = {1}}));
    }
    node_int(&start, A_concat_axis, 0);
    NodeBuild b = node_begin(g, OP_update_slice, node_span(g, id), g->labels.data[id]);
    node_src(&b, state);
    node_src(&b, behind(g, id));
    node_src(&b, node_end(&start));
    return node_end(&b);
}

bool handles_apply(Cli *c, const Strings *given, Graph **graph)
{
    Graph *g = *graph, *to = NULL;
    NodeId *map = NULL;
    Handles h = {c, g, ARENA_ARRAY(g->arena, OpId, g->inputs.len + 1u),
                 ARENA_ARRAY(g->arena, int64_t, g->inputs.len + 1u),
                 ARENA_ARRAY(g->arena, const Shape *, g->inputs.len + 1u)};
    for (uint32_t i = 0; i < g->inputs.len; i++) {
        h.becomes[i] = OP_input;
        h.feeds[i] = -1;
    }
    for (uint32_t i = 0; i < given->len; i++)
        if (!read_handle(&h, given->data[i]))
            return false;
    if (given->len == 0)
        return true;
    if (!graph_convert_inputs(g, h.becomes, h.room, &to, &map))
        return false;
    rlx_assert(to != NULL && map != NULL);
    set_feeds(&h, to, map);
    graph_rewrite(to, step_append, NULL);
    to->io.len = 0;
    *graph = to;
    return true;
}
