// SPDX-License-Identifier: Apache-2.0
// See handles.h.
#include "compiler/handles.h"
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
    OpId *becomes;  // by input
    int64_t *feeds; // by input: the output that it takes at the end of a run
} Handles;

static bool check_feed(const Handles *h, const char *given, uint32_t input, int64_t output)
{
    Graph *g = h->graph;
    const Node *in = graph_node(g, g->inputs.data[input]);
    const Node *out = output < 0 ? NULL : graph_node(g, g->outputs.data[output].node);
    Str a = str_new(g->arena), b = str_new(g->arena);
    if (out == NULL)
        return wrong(h->cli, given, "INPUT=OUTPUT with an output of the model");
    for (uint32_t i = 0; i < g->inputs.len; i++)
        if (h->feeds[i] == output)
            return wrong(h->cli, given, "every output once");
    if (in->dtype == out->dtype && shape_equal(in->shape, out->shape))
        return true;
    shape_print(g->dims, (DType)in->dtype, in->shape, &a);
    shape_print(g->dims, (DType)out->dtype, out->shape, &b);
    return diag_error(h->cli->diag, (Span){0}, E0003, "--handle %s: the input is %s, but the output is %s",
                      given, str_text(&a), str_text(&b));
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

// States take the values of their outputs, which are no outputs of a run any more.
static void set_feeds(const Handles *h, Graph *to, const NodeId *map)
{
    const Graph *from = h->graph;
    uint32_t n = 0;
    for (uint32_t i = 0; i < from->inputs.len; i++)
        for (uint32_t s = 0; s < to->states.len && h->feeds[i] >= 0; s++)
            if (to->states.data[s].node == map[from->inputs.data[i]])
                to->states.data[s].next = map[from->outputs.data[h->feeds[i]].node];
    for (uint32_t o = 0; o < from->outputs.len; o++) {
        bool is_fed = false;
        for (uint32_t i = 0; i < from->inputs.len; i++)
            is_fed = is_fed || h->feeds[i] == o;
        if (!is_fed)
            to->outputs.data[n++] = to->outputs.data[o];
    }
    to->outputs.len = n;
}

bool handles_apply(Cli *c, const Strings *given, Graph **graph)
{
    Graph *g = *graph, *to = NULL;
    NodeId *map = NULL;
    Handles h = {c, g, ARENA_ARRAY(g->arena, OpId, g->inputs.len + 1u),
                 ARENA_ARRAY(g->arena, int64_t, g->inputs.len + 1u)};
    for (uint32_t i = 0; i < g->inputs.len; i++) {
        h.becomes[i] = OP_input;
        h.feeds[i] = -1;
    }
    for (uint32_t i = 0; i < given->len; i++)
        if (!read_handle(&h, given->data[i]))
            return false;
    if (given->len == 0)
        return true;
    if (!graph_convert_inputs(g, h.becomes, &to, &map))
        return false;
    set_feeds(&h, to, map);
    to->io.len = 0;
    *graph = to;
    return true;
}
