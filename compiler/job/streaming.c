// SPDX-License-Identifier: Apache-2.0
// See streaming.h.
#include "compiler/job/streaming.h"
#include "compiler/import/sizes.h"
#include "compiler/system/json_text.h"
#include "passes/graph/driver.h"
#include <string.h>

// Of a dimension without a size: more than any window, and a multiple of the strides that are usual.
enum { LONG = 40320 };

static bool wrong(Diag *d, const char *given, const char *expected)
{
    return diag_error(d, (Span){0}, E0003, "--stream %s: expected %s", given, expected);
}

// --- options -------------------------------------------------------------------------------------

static bool has_size(const Given *g, const char *name)
{
    for (uint32_t i = 0; i < g->sizes.len; i++)
        if (strcmp(g->sizes.data[i].name, name) == 0)
            return true;
    return false;
}

// AXIS, AXIS=N. The name of an input may have a ':' too; the last one counts.
static bool read_one(Cli *c, const char *text, Streaming *out)
{
    StreamName n = {.given = text, .name = text};
    const char *eq = strrchr(text, '=');
    int64_t frames = 0, axis = 0;
    if (eq != NULL && (!str_parse_i64(eq + 1, strlen(eq + 1), &frames) || frames < 1 || frames > LONG))
        return wrong(c->diag, text, "AXIS=N with the number of elements in a step");
    if (frames != 0 && out->frames != 0 && out->frames != frames)
        return wrong(c->diag, text, "the same number of elements in a step for all axes");
    out->frames = frames != 0 ? frames : out->frames;
    if (eq != NULL)
        n.name = arena_strndup(c->arena, text, (size_t)(eq - text));
    const char *colon = strrchr(n.name, ':');
    if (colon != NULL && str_parse_i64(colon + 1, strlen(colon + 1), &axis)) {
        if (axis < 0 || axis >= SHAPE_MAX_RANK)
            return wrong(c->diag, text,
                         arena_printf(c->arena, "INPUT:AXIS with an axis from 0 to %d", SHAPE_MAX_RANK - 1));
        n.is_input = true;
        n.axis = (uint32_t)axis;
        n.name = arena_strndup(c->arena, n.name, (size_t)(colon - n.name));
    }
    vec_push(c->arena, &out->names, n);
    return true;
}

bool streaming_read(Cli *c, Given *given, Streaming *out)
{
    const Strings *list = &c->options.streams;
    *out = (Streaming){0};
    for (uint32_t i = 0; i < list->len; i++) {
        if (!read_one(c, list->data[i], out))
            return false;
        const StreamName *n = &out->names.data[i];
        if (!n->is_input && !sizes_parse_axis(n->name, &(uint32_t){0}, &(uint32_t){0}) &&
            !has_size(given, n->name))
            vec_push(c->arena, &given->sizes, ((ImportSize){.name = n->name, .value = LONG}));
    }
    return list->len == 0 || c->options.bucket_sizes.len + (c->options.bucket_list != NULL) == 0 ||
           wrong(c->diag, list->data[0], "no --bucket and no --buckets with it");
}

// --- axes ----------------------------------------------------------------------------------------

typedef VEC(StreamAxis) StreamAxes;

static void add_axis(Arena *a, StreamAxes *axes, uint32_t input, uint32_t axis)
{
    for (uint32_t i = 0; i < axes->len; i++)
        if (axes->data[i].input == input && axes->data[i].axis == axis)
            return;
    vec_push(a, axes, ((StreamAxis){input, axis}));
}

// All axes of inputs that have this size, a symbol. One without a number gets one.
static void add_symbol(Graph *g, PipelineOptions *o, Dim d, StreamAxes *axes)
{
    const int32_t symbol = dim_as_symbol(g->dims, d);
    for (uint32_t i = 0; i < g->inputs.len; i++) {
        const Shape *s = graph_node(g, g->inputs.data[i])->shape;
        for (uint32_t k = 0; k < s->rank; k++)
            if (s->dim[k] == d)
                add_axis(g->arena, axes, i, k);
    }
    if (symbol < 0)
        return;
    Symbol *s = &g->dims->symbols.data[symbol];
    for (uint32_t i = 0; i < o->dims.len; i++) {
        ImportSize *size = &o->dims.data[i];
        if (strcmp(size->name, s->name) != 0)
            continue;
        if (size->is_range) // reported when it is bound
            return;
        if (size->value == LONG && size->value > s->max) // nobody asked for so many
            size->value = s->max;
        return;
    }
    const ImportSize size = {.name = s->name, .value = s->max < LONG ? s->max : LONG};
    vec_push(g->arena, &o->dims, size);
}

static bool unknown_input(Graph *g, const StreamName *n)
{
    const char **names = ARENA_ARRAY(g->arena, const char *, g->inputs.len + 1u);
    for (uint32_t i = 0; i < g->inputs.len; i++)
        names[i] = node_name(g, g->inputs.data[i]);
    diag_error(g->diag, (Span){0}, E0003, "--stream %s: the model has no %s '%s'", n->given,
               n->is_input ? "input" : "input with a dimension", n->name);
    if (n->is_input)
        diag_note_names(g->diag, (Span){0}, n->name, names, names, g->inputs.len);
    else
        diag_note(g->diag, (Span){0}, "an axis of an input is named INPUT:AXIS, such as %s:1",
                  g->inputs.len > 0 ? names[0] : "x");
    return false;
}

// An axis that is named by its place.
static void add_place(Graph *g, PipelineOptions *o, uint32_t input, uint32_t axis, StreamAxes *axes)
{
    const Dim d = graph_node(g, g->inputs.data[input])->shape->dim[axis];
    if (dim_is_const(d))
        add_axis(g->arena, axes, input, axis);
    else
        add_symbol(g, o, d, axes);
}

static bool find_input_axis(Graph *g, const StreamName *n, PipelineOptions *o, StreamAxes *axes)
{
    for (uint32_t i = 0; i < g->inputs.len; i++) {
        if (strcmp(node_name(g, g->inputs.data[i]), n->name) != 0)
            continue;
        if (n->axis >= graph_node(g, g->inputs.data[i])->shape->rank)
            return wrong(g->diag, n->given, "an axis that the input has");
        add_place(g, o, i, n->axis, axes);
        return true;
    }
    return unknown_input(g, n);
}

static bool find_axes(Graph *g, const StreamName *n, PipelineOptions *o, StreamAxes *axes)
{
    const uint32_t before = axes->len;
    uint32_t input = 0, axis = 0;
    const int32_t symbol = dim_find_symbol(g->dims, n->name);
    if (n->is_input)
        return find_input_axis(g, n, o, axes);
    for (uint32_t i = 0; i < g->inputs.len && symbol >= 0; i++) {
        const Shape *s = graph_node(g, g->inputs.data[i])->shape;
        for (uint32_t k = 0; k < s->rank; k++)
            if (dim_as_symbol(g->dims, s->dim[k]) == symbol)
                add_symbol(g, o, s->dim[k], axes);
    }
    if (symbol < 0 && sizes_parse_axis(n->name, &input, &axis) && input < g->inputs.len &&
        axis < graph_node(g, g->inputs.data[input])->shape->rank)
        add_place(g, o, input, axis, axes);
    return axes->len > before || unknown_input(g, n);
}

// --- the step ------------------------------------------------------------------------------------

// The passes after which a graph has core operations only.
static bool to_core(Graph *g, const PipelineOptions *o, Graph **out)
{
    Arena scratch = {0};
    const PassOptions options = {.opt_level = o->opt_level, .caps = o->caps};
    Pass p = {.perm = g->arena, .scratch = &scratch, .diag = g->diag, .options = &options, .graph = g};
    for (uint32_t i = 0; i < pass_count && !p.failed && pass_info[i].stage <= STAGE_CORE; i++) {
        pass_run(&p, &pass_info[i]);
        if (pass_info[i].stage == STAGE_CORE)
            break;
    }
    arena_free(&scratch);
    *out = p.graph;
    return !p.failed;
}

static bool check_axes(Graph *g, const StreamAxes *axes, const char *given)
{
    for (uint32_t i = 0; i < axes->len; i++) {
        const NodeId id = g->inputs.data[axes->data[i].input];
        if (graph_node(g, id)->shape->dim[axes->data[i].axis] == 1)
            return diag_error(
                g->diag, node_span(g, id), E0210,
                "--stream %s: axis %u of '%s' has one element, so the model is a step already: what it "
                "hands on from run to run stays in states with --handle IN=OUT",
                given, axes->data[i].axis, node_name(g, id));
    }
    return g->extents.len == 0 ||
           diag_error(
               g->diag, (Span){0}, E0210,
               "--stream %s: the model computes sizes, or sets some between runs: give numbers with --dim",
               given);
}

bool streaming_apply(Streaming *s, Diag *d, PipelineOptions *o, Graph **graph)
{
    StreamAxes axes = {0};
    Graph *bound = NULL;
    if (s->names.len == 0)
        return true;
    for (uint32_t i = 0; i < s->names.len; i++)
        if (!find_axes(*graph, &s->names.data[i], o, &axes))
            return false;
    if (!pipeline_bind(*graph, o, &bound) || !check_axes(bound, &axes, s->names.data[0].given) ||
        !to_core(bound, o, &s->whole))
        return false;
    const StreamRequest r = {axes.data, axes.len, s->frames};
    rlx_assert(s->whole->inputs.len == bound->inputs.len);
    return stream_graph(s->whole, &r, &s->report, graph) && d->n_errors == 0;
}

// --- reports -------------------------------------------------------------------------------------

static void add_macs(const Plan *p, PlanKernel *k, uint64_t times, void *sum)
{
    (void)p;
    *(uint64_t *)sum += k->macs * times;
}

static uint64_t count_macs(const Plan *p)
{
    uint64_t sum = 0;
    plan_walk(p, add_macs, &sum);
    return sum;
}

bool streaming_count_whole(Streaming *s, Diag *d, const PipelineOptions *o)
{
    Plan *plan = NULL;
    if (s->whole == NULL)
        return true;
    PipelineOptions quiet = *o;
    quiet.dump = quiet.stop_after = NULL;
    quiet.time_passes = false;
    if (!pipeline_run(s->whole->arena, d, s->whole, &quiet, &plan))
        return false;
    s->whole_macs = count_macs(plan);
    return true;
}

void streaming_print(const Streaming *s, const Plan *p, Str *out)
{
    const StreamReport *r = &s->report;
    if (s->whole == NULL)
        return;
    const uint64_t macs = count_macs(p);
    str_printf(out, "stream  a step of %lld elements: %llu multiply-adds, %u states of %llu bytes\n",
               (long long)r->frames, (unsigned long long)macs, r->n_states, (unsigned long long)r->bytes);
    if (s->whole_macs != 0)
        str_printf(
            out,
            "  the whole run of %lld elements: %llu multiply-adds; for each element %llu, in steps %llu\n",
            (long long)r->total, (unsigned long long)s->whole_macs,
            (unsigned long long)(s->whole_macs / (uint64_t)r->total),
            (unsigned long long)(macs / (uint64_t)r->frames));
    for (uint32_t i = 0; i < r->parts.len; i++) {
        const StreamPart *part = &r->parts.data[i];
        str_printf(out, "  output %s: %lld along axis %u", part->name, (long long)part->frames, part->axis);
        if (part->late > 0)
            str_printf(out, "; of those of the first steps, %lld mean nothing", (long long)part->late);
        str_add(out, "\n");
    }
}

void streaming_print_json(const Streaming *s, const Plan *p, Str *out)
{
    const StreamReport *r = &s->report;
    if (s->whole == NULL)
        return;
    str_printf(out, "\"stream\": {\"frames\": %lld, \"whole_frames\": %lld, \"macs\": %llu, ",
               (long long)r->frames, (long long)r->total, (unsigned long long)count_macs(p));
    if (s->whole_macs != 0)
        str_printf(out, "\"whole_macs\": %llu, ", (unsigned long long)s->whole_macs);
    str_printf(out, "\"states\": %u, \"state_bytes\": %llu, \"outputs\": [", r->n_states,
               (unsigned long long)r->bytes);
    for (uint32_t i = 0; i < r->parts.len; i++) {
        const StreamPart *part = &r->parts.data[i];
        str_printf(out, "%s{\"name\": \"%s\", \"axis\": %u, \"frames\": %lld, \"late\": %lld}",
                   i == 0 ? "" : ", ", json_text(out->arena, part->name), part->axis, (long long)part->frames,
                   (long long)part->late);
    }
    str_add(out, "]},\n  ");
}
