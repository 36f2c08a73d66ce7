// SPDX-License-Identifier: Apache-2.0
// See stream_input.h.
#include "compiler/job/stream_input.h"
#include "passes/plan/ram/rows_input.h"
#include <string.h>

static bool wrong(Cli *c, const char *given, const char *expected)
{
    return diag_error(c->diag, (Span){0}, E0003, "--stream-input %s: expected %s", given, expected);
}

static bool find_input(Cli *c, const Graph *g, const char *name, uint32_t *slot)
{
    const char **names = ARENA_ARRAY(c->arena, const char *, g->inputs.len + 1u);
    for (uint32_t i = 0; i < g->inputs.len; i++) {
        names[i] = node_name(g, g->inputs.data[i]);
        *slot = strcmp(names[i], name) == 0 ? i : *slot;
    }
    if (*slot != UINT32_MAX)
        return true;
    diag_error(c->diag, (Span){0}, E0003, "--stream-input %s: the model has no input of that name", name);
    diag_note_names(c->diag, (Span){0}, name, names, names, g->inputs.len);
    return false;
}

static bool check(Cli *c, const PipelineOptions *o, const char *name)
{
    const Strings *list = &c->options.stream_inputs;
    for (uint32_t i = 1; i < list->len; i++)
        if (strcmp(list->data[i], name) == 0)
            return wrong(c, name, "every input once");
    if (list->len > 1)
        return wrong(c, list->data[1],
                     "one input with rows: in which order those of several arrive is not known");
    if (o->caps->is_gpu)
        return wrong(c, name, "--target c with it: a GPU reads an image as a whole");
    if (o->caps->threads > 1)
        return wrong(c, name, "no --threads with it: rows are computed as they arrive, by one thread");
    return c->options.bucket_sizes.len + (c->options.bucket_list != NULL) == 0 ||
           wrong(c, name, "no --bucket and no --buckets with it");
}

// Are there other axes in front of that along which rows are?
static bool is_behind(const Graph *g, NodeId input, uint32_t axis)
{
    const Shape *s = graph_node(g, input)->shape;
    int64_t before = 1;
    for (uint32_t i = 0; i < axis; i++)
        before *= s->dim[i];
    return s->dim[0] == 1 && before > 1;
}

typedef struct Turned {
    NodeId input, value; // what takes the place of the input
} Turned;

static NodeId step_turn(Graph *g, NodeId id, void *ctx)
{
    const Turned *t = ctx;
    (void)g;
    return id == t->input ? t->value : id;
}

// Axes 0, axis, and the others in order; and back.
static void rows_in_front(uint32_t rank, uint32_t axis, int64_t *to, int64_t *back)
{
    uint32_t n = 0;
    to[n++] = 0;
    to[n++] = axis;
    for (uint32_t i = 1; i < rank; i++)
        if (i != axis)
            to[n++] = i;
    for (uint32_t i = 0; i < rank; i++)
        back[to[i]] = i;
}

// The rows of a planar image become its first axis, in the shape that the program sees.
static Graph *turn(Graph *g, uint32_t slot, uint32_t axis)
{
    const NodeId input = g->inputs.data[slot];
    const Node n = *graph_node(g, input);
    int64_t to[SHAPE_MAX_RANK], back[SHAPE_MAX_RANK];
    Shape s = {.rank = n.shape->rank};
    rows_in_front(s.rank, axis, to, back);
    for (uint32_t i = 0; i < s.rank; i++)
        s.dim[i] = n.shape->dim[to[i]];
    Turned t = {input, graph_transpose(g, graph_input_again(g, slot, &s), back)};
    graph_rewrite(g, step_turn, &t);
    NodeId *map = NULL;
    return graph_compact(g, &map);
}

bool stream_input_apply(Cli *c, PipelineOptions *o, Graph **graph)
{
    const Strings *list = &c->options.stream_inputs;
    Graph *bound = NULL;
    uint32_t slot = UINT32_MAX;
    if (list->len == 0)
        return true;
    const char *name = list->data[0];
    if (!check(c, o, name) || !find_input(c, *graph, name, &slot) || !pipeline_bind(*graph, o, &bound))
        return false;
    rlx_assert(bound->inputs.len >= (*graph)->inputs.len);
    if (bound->symbols != NULL || bound->extents.len != 0)
        return wrong(c, name, "sizes that are known when the model is compiled: give numbers with --dim");
    const NodeId input = bound->inputs.data[slot];
    const uint32_t rank = graph_node(bound, input)->shape->rank;
    const uint32_t axis = rows_input_axis(bound, input, c->arena);
    const NodeId value = axis < rank ? rows_input_value(bound, input, axis, c->arena) : 0;
    const bool is_turned =
        value != 0 && rows_input_has_axes(bound, input, value) && is_behind(bound, input, axis);
    o->rows_input = slot + 1;
    o->rows_axis = is_turned ? 1 : axis;
    o->rows_origin = axis;
    *graph = is_turned ? turn(bound, slot, axis) : bound;
    return true;
}
