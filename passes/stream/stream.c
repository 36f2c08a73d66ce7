// SPDX-License-Identifier: Apache-2.0
// Builds the step: one walk over the whole graph that makes each node from the flows of its operands. A rule
// that finds the step too short for it ends the walk, which then begins again with a longer one. See
// stream.h.
#include "passes/stream/stream.h"
#include "passes/stream/flow.h"

#include <string.h>

enum { MAX_FRAMES = 1 << 20 };

// --- leaves ---

static const StreamAxis *axis_of(const StreamRequest *r, uint32_t input)
{
    for (uint32_t i = 0; i < r->n_axes; i++)
        if (r->axes[i].input == input)
            return &r->axes[i];
    return NULL;
}

static bool add_input(Streamer *s, const StreamRequest *r, uint32_t input)
{
    const NodeId id = s->whole->inputs.data[input];
    const Node *n = graph_node(s->whole, id);
    const StreamAxis *a = axis_of(r, input);
    Shape shape = *n->shape;
    Flow *f = &s->flow[id];
    if (a != NULL) {
        *f = (Flow){.kind = FLOW_FRAMES, .axis = a->axis, .frames = s->frames};
        shape.dim[a->axis] = s->frames;
    }
    f->now = graph_input(s->step, node_name(s->whole, id), (DType)n->dtype, &shape, node_span(s->whole, id));
    return f->now != 0;
}

static bool add_leaves(Streamer *s, const StreamRequest *r)
{
    const Graph *w = s->whole;
    bool ok = true;
    for (uint32_t i = 0; ok && i < w->inputs.len; i++)
        ok = add_input(s, r, i);
    for (uint32_t i = 0; ok && i < w->params.len; i++)
        ok = (s->flow[w->params.data[i]].now = graph_clone_node(s->step, w, w->params.data[i], NULL)) != 0;
    for (uint32_t i = 0; ok && i < w->states.len; i++) {
        const NodeId id = w->states.data[i].node;
        ok = (s->flow[id].now = graph_clone_node(s->step, w, id, NULL)) != 0;
        s->step->states.data[i].output = w->states.data[i].output;
    }
    return ok;
}

// --- nodes ---

static const char ends_with_padding[] =
    "an operand is the last of the axis, which depends on padding behind the end";

// A node none of whose operands has the axis: as it is.
static bool copy_node(Streamer *s, const Node *n, FlowKind kind)
{
    NodeId *src = ARENA_ARRAY(s->arena, NodeId, n->n_src + 1u);
    for (uint32_t i = 0; i < n->n_src; i++)
        src[i] = s->flow[n->src[i]].now;
    Flow *f = &s->flow[s->id];
    *f = (Flow){.kind = kind, .now = graph_clone_node(s->step, s->whole, s->id, src)};
    return f->now != 0;
}

static bool add_node(Streamer *s, NodeId id)
{
    const Node n = *graph_node(s->whole, id);
    bool has_frames = false, has_latest = false, has_never = false;
    s->id = id;
    if (s->flow[id].now != 0) // a leaf
        return true;
    if (node_result(&n) != 0 && s->flow[n.src[0]].results != NULL) {
        s->flow[id] = s->flow[n.src[0]].results[node_result(&n)];
        return true;
    }
    for (uint32_t i = 0; i < n.n_src; i++) {
        const Flow *f = &s->flow[n.src[i]];
        has_frames = has_frames || f->kind == FLOW_FRAMES;
        has_latest = has_latest || f->kind == FLOW_LATEST;
        has_never = has_never || f->kind == FLOW_NEVER;
    }
    if (has_never)
        return stream_refuse(s, ends_with_padding);
    if (!has_frames)
        return copy_node(s, &n, has_latest ? FLOW_LATEST : FLOW_FIXED);
    if (has_latest)
        return stream_refuse(s, "one of its operands is known only when the stream ends");
    return stream_rule((OpId)n.op)(s, &n, &s->flow[id]);
}

static bool add_nodes(Streamer *s)
{
    const bool *is_needed = graph_mark_needed(s->whole, ROOT_RESULTS, s->arena);
    bool ok = true;
    for (NodeId id = 1; ok && id < s->whole->nodes.len; id++)
        ok = !is_needed[id] || add_node(s, id);
    return ok;
}

// --- results ---

static bool add_outputs(Streamer *s, StreamReport *report)
{
    for (uint32_t i = 0; i < s->whole->outputs.len; i++) {
        const GraphOutput *o = &s->whole->outputs.data[i];
        Flow f = s->flow[o->node];
        s->id = o->node;
        if (f.kind == FLOW_NEVER)
            return stream_refuse(s, ends_with_padding);
        if (f.kind == FLOW_FRAMES && f.late < 0 && !stream_delay(s, &f, 0))
            return false;
        graph_output(s->step, o->name, f.now);
        if (f.kind == FLOW_FRAMES)
            vec_push(s->whole->arena, &report->parts, ((StreamPart){o->name, f.axis, f.frames, f.late}));
    }
    return true;
}

// A state of the model changes once a run of the whole. Where that is what a recurrent op hands on, it
// changes once a step.
static bool end_states(Streamer *s)
{
    const Graph *w = s->whole;
    for (uint32_t i = 0; i < w->states.len; i++) {
        const GraphState *state = &w->states.data[i];
        const Flow *next = &s->flow[state->next];
        if (next->now != s->flow[state->node].now && next->now != s->carried[i]) {
            s->id = state->node;
            return stream_refuse(s,
                                 "it changes once in a run, not once in a step. A model that keeps its own "
                                 "states is a step already: compile it without --stream");
        }
        stream_set_next(s, s->flow[state->node].now, next->now);
    }
    for (uint32_t i = 0; i < w->checks.len; i++) {
        const Flow *cond = &s->flow[w->checks.data[i].cond];
        if (cond->kind == FLOW_FIXED && !graph_check(s->step, cond->now, w->checks.data[i].message))
            return false;
    }
    return true;
}

static void count_states(const Streamer *s, StreamReport *report)
{
    for (uint32_t i = s->whole->states.len; i < s->step->states.len; i++) {
        const Node *n = graph_node(s->step, s->step->states.data[i].node);
        report->bytes += type_bytes((DType)n->dtype, n->shape);
        report->n_states++;
    }
}

static bool build(Streamer *s, const StreamRequest *r, StreamReport *report)
{
    *report = (StreamReport){.frames = s->frames, .total = s->total};
    s->step = graph_new_like(s->whole, s->whole->name);
    s->step->notes = s->whole->notes;
    s->flow = ARENA_ARRAY(s->arena, Flow, s->whole->nodes.len);
    s->carried = ARENA_ARRAY(s->arena, NodeId, s->whole->states.len + 1u);
    s->factor = 1;
    if (!add_leaves(s, r) || !add_nodes(s) || !add_outputs(s, report) || !end_states(s))
        return false;
    count_states(s, report);
    return true;
}

static bool check_request(Graph *g, const StreamRequest *r, int64_t *total)
{
    *total = 0;
    for (NodeId id = 1; id < g->nodes.len; id++)
        if (!shape_is_const(graph_node(g, id)->shape))
            return diag_error(g->diag, node_span(g, id), E0210,
                              "%s: --stream needs numbers for all sizes: give them with --dim",
                              node_name(g, id));
    for (uint32_t i = 0; i < r->n_axes; i++) {
        const NodeId id = g->inputs.data[r->axes[i].input];
        rlx_assert(r->axes[i].axis < graph_node(g, id)->shape->rank);
        const int64_t size = graph_node(g, id)->shape->dim[r->axes[i].axis];
        if (i > 0 && size != *total)
            return diag_error(g->diag, node_span(g, id), E0210,
                              "%s: the axes of --stream have the sizes %lld and %lld", node_name(g, id),
                              (long long)*total, (long long)size);
        *total = size;
    }
    return true;
}

bool stream_graph(Graph *whole, const StreamRequest *r, StreamReport *report, Graph **step)
{
    rlx_assert(r->n_axes > 0);
    Arena scratch = {0};
    Streamer s = {.whole = whole};
    bool ok = check_request(whole, r, &s.total);
    s.frames = r->frames > 0 ? r->frames : 1;
    while (ok) {
        const int64_t frames = s.frames, total = s.total;
        s = (Streamer){.whole = whole, .arena = &scratch, .frames = frames, .total = total};
        ok = build(&s, r, report);
        if (ok || s.factor <= 1)
            break;
        ok = frames <= MAX_FRAMES / s.factor || stream_refuse(&s, "its steps would be too long");
        s.frames = frames * s.factor;
    }
    if (ok && r->frames > 0 && s.frames != r->frames)
        ok =
            diag_error(whole->diag, (Span){0}, E0210,
                       "a step of %lld elements is not a multiple of what the strides need: the next that is "
                       "has %lld",
                       (long long)r->frames, (long long)s.frames);
    *step = ok ? graph_compact(s.step, NULL) : NULL;
    arena_free(&scratch);
    return ok;
}
