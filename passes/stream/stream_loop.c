// SPDX-License-Identifier: Apache-2.0
// Loops: those that go along the axis, one frame in each iteration, carry states from step to step. In those
// that go along another axis every frame is computed for itself: the body is then made for the frames of a
// step.
#include "ir/shape/forms.h"
#include "passes/graph/loop_body.h"
#include "passes/stream/flow.h"

// --- along the axis ------------------------------------------------------------------------------

// Does iteration i take frame i of every operand that has the axis, and nothing else that depends on i?
static bool check_rows(Streamer *s, const Node *n, const Flow *in)
{
    const LoopBody body = loop_body(s->whole, s->id, s->arena);
    double goes_on = 0;
    if (body.has_cond || !node_is_scalar_const(s->whole, n->src[1], &goes_on) || goes_on == 0)
        return stream_refuse(s, "its number of iterations is computed");
    for (uint32_t i = 0; i < body.inputs.len; i++) {
        const BodyInput *b = &body.inputs.data[i];
        const Flow *f = b->kind == BODY_COUNTER ? NULL : &in[b->operand];
        const bool is_row = f != NULL && b->kind == BODY_ROW && f->kind == FLOW_FRAMES && b->axis == f->axis;
        if (f != NULL && f->kind != FLOW_FRAMES && b->kind == BODY_CAPTURE)
            continue;
        if (!is_row)
            return stream_refuse(s, "an iteration does not read one element of the axis");
        if (b->base != 0 || b->sign != 1)
            return stream_refuse(s, "it goes along the axis from the end");
        if (body.max_trips != stream_total(s, n->src[b->operand], f))
            return stream_refuse(s, "its number of iterations is not the size of the axis");
    }
    return true;
}

// The body, whose inputs have the sizes of the operands.
static Graph *body_for(Streamer *s, const Graph *from, const NodeId *src)
{
    Graph *to = graph_new_like(s->step, from->name);
    NodeId *map = ARENA_ARRAY(s->arena, NodeId, from->nodes.len);
    bool ok = true;
    for (uint32_t i = 0; ok && i < from->inputs.len; i++) {
        const NodeId id = from->inputs.data[i];
        const Node *x = graph_node(from, id);
        map[id] = graph_input(to, node_name(from, id), (DType)x->dtype,
                              i < 2 ? x->shape : graph_node(s->step, src[i])->shape, node_span(from, id));
        ok = map[id] != 0;
    }
    for (NodeId id = 1; ok && id < from->nodes.len; id++) {
        const Node x = *graph_node(from, id);
        NodeId *operands = ARENA_ARRAY(s->arena, NodeId, x.n_src + 1u);
        for (uint32_t i = 0; i < x.n_src; i++)
            operands[i] = map[x.src[i]];
        if (x.op != OP_input)
            map[id] = graph_clone_node(to, from, id, operands);
        ok = map[id] != 0;
    }
    for (uint32_t i = 0; ok && i < from->outputs.len; i++)
        graph_output(to, from->outputs.data[i].name, map[from->outputs.data[i].node]);
    return ok ? to : NULL;
}

static NodeId make_loop(Streamer *s, const Node *n, NodeId *src, int64_t frames)
{
    const Shape *one = graph_node(s->step, src[0])->shape;
    src[0] = graph_reshape(s->step, graph_scalar(s->step, DTYPE_i64, (double)frames, (Span){0}), one);
    Graph *body = body_for(s, loop_form(n).body, src);
    if (body == NULL)
        return 0;
    NodeBuild b = node_copy_begin(s->step, s->whole, s->id);
    for (uint32_t i = 0; i < n->n_src; i++)
        node_src(&b, src[i]);
    node_graph(&b, A_loop_body, body);
    node_ints(&b, A_loop_max_trips, &frames, 1);
    return node_end(&b);
}

static bool loop_along(Streamer *s, const Node *n, Flow *in)
{
    Flow frames = {0};
    FlowKind last = FLOW_LATEST;
    const uint32_t n_carried = loop_form(n).n_carried;
    NodeId *src = ARENA_ARRAY(s->arena, NodeId, n->n_src + 1u);
    if (!check_rows(s, n, in) || !stream_align(s, in, n->n_src))
        return false;
    for (uint32_t i = 0; i < n->n_src; i++) {
        if (in[i].kind == FLOW_FRAMES && !stream_settle(s, &in[i]))
            return false;
        last = in[i].kind == FLOW_FRAMES ? stream_kind_of_last(s, n->src[i], &in[i]) : last;
        frames = in[i].kind == FLOW_FRAMES ? in[i] : frames;
        src[i] = in[i].now;
    }
    for (uint32_t i = 2; i < 2 + n_carried; i++) {
        const TensorType t = {(DType)graph_node(s->whole, n->src[i])->dtype,
                              *graph_node(s->whole, n->src[i])->shape};
        if (!stream_begin_carried(s, n, i, &t, &src[i]))
            return false;
    }
    frames.now = make_loop(s, n, src, frames.frames);
    if (frames.now == 0)
        return false;
    for (uint32_t i = 0; i < n_carried; i++)
        stream_end_carried(s, n, 2 + i, src[2 + i], graph_result(s->step, frames.now, i), &frames);
    frames.axis = 0;
    stream_set_results(s, n, &frames, n_carried, n->n_results - 1u, last);
    return true;
}

// --- along another axis --------------------------------------------------------------------------

// First values are mostly zeros for all frames, so that only their size says that they have the axis.
static void guess_carried(Streamer *s, const Flow *frames, int64_t total, Flow *carried)
{
    const Shape shape = *graph_node(s->step, carried->now)->shape;
    for (uint32_t i = 0; i < shape.rank && carried->kind == FLOW_FIXED; i++)
        if (shape.dim[i] == total && stream_same(s, carried->now, i) != 0) {
            *carried = *frames;
            carried->axis = i;
        }
}

// Makes the body again and again until it is known which carried values have the axis. inside: flows of the
// inputs of the body.
static bool find_body(Streamer *s, const Node *n, Flow *inside, Flow *outputs, Graph **body)
{
    const LoopForm form = loop_form(n);
    bool is_changed = true;
    while (is_changed) {
        is_changed = false;
        if (!stream_body(s, form.body, inside, outputs, body))
            return false;
        for (uint32_t i = 0; i < form.n_carried; i++) {
            const Flow *next = &outputs[1 + i];
            Flow *carried = &inside[2 + i];
            if (carried->kind == next->kind && carried->axis == next->axis)
                continue;
            if (carried->kind != FLOW_FIXED || next->kind != FLOW_FRAMES)
                return stream_refuse(s, "an iteration moves the axis of a carried value");
            *carried = *next;
            is_changed = true;
        }
    }
    for (uint32_t i = 0; i < form.body->outputs.len; i++)
        if (outputs[i].kind > FLOW_FRAMES || outputs[i].late != 0 ||
            (i == 0 && outputs[i].kind != FLOW_FIXED))
            return stream_refuse(s, "an iteration moves along the axis");
    return true;
}

// First values that no step changes are the same in all frames.
static bool repeat_first(Streamer *s, const Flow *carried, Flow *in)
{
    if (carried->kind == in->kind)
        return carried->axis == in->axis ||
               stream_refuse(s, "an iteration moves the axis of a carried value");
    const NodeId one = stream_same(s, in->now, carried->axis);
    if (one == 0)
        return stream_refuse(s, "what it begins with has a value for each element of the axis");
    in->now = stream_repeat(s->step, one, carried->axis, carried->frames);
    return true;
}

static void set_apart(Streamer *s, const Node *n, const Flow *outputs, int64_t late, NodeId made)
{
    const uint32_t n_carried = loop_form(n).n_carried;
    Flow *results = ARENA_ARRAY(s->arena, Flow, n->n_results);
    for (uint32_t i = 0; i + 1 < n->n_results; i++) {
        results[i] = outputs[1 + i];
        results[i].axis += i >= n_carried; // rows of a scan output
        results[i].late = results[i].kind == FLOW_FRAMES ? late : 0;
    }
    for (uint32_t i = 0; i < n->n_results; i++)
        results[i].now = graph_result(s->step, made, i);
    results[0].results = results;
    s->flow[s->id] = results[0];
}

static bool loop_apart(Streamer *s, const Node *n, Flow *in)
{
    const LoopForm form = loop_form(n);
    Flow *inside = ARENA_ARRAY(s->arena, Flow, n->n_src), *outputs = NULL;
    Graph *body = NULL;
    Flow frames = {0};
    int64_t late = 0, total = 0;
    outputs = ARENA_ARRAY(s->arena, Flow, form.body->outputs.len);
    if (!stream_align(s, in, n->n_src))
        return false;
    for (uint32_t i = 0; i < n->n_src; i++) {
        if (in[i].kind == FLOW_FRAMES && in[i].late < 0 && !stream_delay(s, &in[i], 0))
            return false;
        inside[i] = in[i];
        inside[i].late = 0;
        if (in[i].kind != FLOW_FRAMES)
            continue;
        late = in[i].late;
        frames = inside[i];
        total = stream_total(s, n->src[i], &in[i]);
    }
    for (uint32_t i = 2; i < 2 + form.n_carried; i++)
        guess_carried(s, &frames, total, &inside[i]);
    if (!find_body(s, n, inside, outputs, &body))
        return false;
    NodeBuild b = node_copy_begin(s->step, s->whole, s->id);
    for (uint32_t i = 0; i < n->n_src; i++) {
        if (i >= 2 && i < 2 + form.n_carried && !repeat_first(s, &inside[i], &in[i]))
            return false;
        node_src(&b, in[i].now);
    }
    node_graph(&b, A_loop_body, body);
    const NodeId made = node_end(&b);
    if (made != 0)
        set_apart(s, n, outputs, late, made);
    return made != 0;
}

// Does an iteration read an element of the axis?
static bool goes_along(const Streamer *s, const Flow *in)
{
    const LoopBody body = loop_body(s->whole, s->id, s->arena);
    for (uint32_t i = 0; i < body.inputs.len; i++) {
        const BodyInput *b = &body.inputs.data[i];
        if (b->kind == BODY_ROW && in[b->operand].kind == FLOW_FRAMES && b->axis == in[b->operand].axis)
            return true;
    }
    return false;
}

bool stream_loop(Streamer *s, const Node *n, Flow *out)
{
    Flow *in = stream_operands(s, n);
    (void)out; // both write all results
    return goes_along(s, in) ? loop_along(s, n, in) : loop_apart(s, n, in);
}
