// SPDX-License-Identifier: Apache-2.0
// Rules for ops that go along the axis one frame after another: running sums, LSTMs and loops. What they
// carry from one frame to the next is a state, which stays as it is until the first real frame has come.
#include "ir/graph/tensor.h"
#include "ir/shape/forms.h"
#include "passes/graph/fold.h"
#include "passes/graph/loop_body.h"
#include "passes/stream/flow.h"

// --- carried values ------------------------------------------------------------------------------

// A multiple of a step late, so that either all frames of a step are real or none.
static bool settle(Streamer *s, Flow *f)
{
    const int64_t late = f->late > 0 ? (f->late + f->frames - 1) / f->frames * f->frames : 0;
    return stream_delay(s, f, late);
}

// The place of a state of the model in its list; -1: the node is none.
static int64_t state_of(const Streamer *s, NodeId id)
{
    for (uint32_t i = 0; id != 0 && i < s->whole->states.len; i++)
        if (s->whole->states.data[i].node == id)
            return i;
    return -1;
}

// What operand i, which has the type t, is at the begin of a step. A state of the model that is handed on
// from run to run is so from step to step.
static bool begin_carried(Streamer *s, const Node *n, uint32_t i, const TensorType *t, NodeId *state)
{
    const NodeId id = i < n->n_src ? n->src[i] : 0;
    const NodeId init = id != 0 ? fold_node(s->step, s->flow[id].now) : 0;
    *state = init;
    if (id != 0 && s->flow[id].kind != FLOW_FIXED)
        return stream_refuse(s, "what it begins with has the axis");
    if (state_of(s, id) >= 0)
        return true;
    if (init != 0 && !node_is_const(s->step, init))
        return stream_refuse(
            s, "it begins with what is given in each run: keep that in a state, with --handle IN=OUT");
    return stream_state(s, "carried", t, init, state);
}

static void end_carried(Streamer *s, const Node *n, uint32_t i, NodeId state, NodeId last, const Flow *f)
{
    const int64_t at = state_of(s, i < n->n_src ? n->src[i] : 0);
    NodeId next = last;
    if (f->late > 0)
        next = graph_op3(s->step, OP_where, stream_has_begun(s, f->frames, f->late), last, state);
    if (at < 0)
        stream_set_next(s, state, next);
    else
        s->carried[at] = next;
}

// --- running sums --------------------------------------------------------------------------------

// The op on other frames; of an exclusive one the first result is what counts for nothing.
static NodeId run_along(Streamer *s, const Node *n, NodeId x, bool is_exclusive)
{
    NodeBuild b = node_copy_begin(s->step, s->whole, s->id);
    node_src(&b, x);
    node_int(&b, node_find_attr(n, "exclusive")->id, is_exclusive);
    return fold_node(s->step, node_end(&b));
}

// The last result of the step before goes in front.
bool stream_running(Streamer *s, const Node *n, Flow *out)
{
    Flow *in = stream_operands(s, n);
    const uint32_t axis = in[0].axis;
    NodeId state = 0;
    if (axis != node_find_attr(n, "axis")->u.i)
        return stream_apply(s, n, in, axis, NULL, out);
    if (node_find_attr(n, "exclusive")->u.i != 0 || node_find_attr(n, "reverse")->u.i != 0)
        return stream_refuse(s, "it is exclusive, or goes from the back");
    if (n->op != OP_cummax && dtype_info[n->dtype].cls == DCLASS_FLOAT)
        return stream_refuse(s, "sums of floats would be rounded once in a step");
    if (!settle(s, &in[0]))
        return false;
    TensorType t = {(DType)n->dtype, *graph_node(s->step, in[0].now)->shape};
    t.shape.dim[axis] = 1;
    const NodeId first = run_along(s, n, stream_filled(s, t.dtype, &t.shape, 0), true);
    if (!stream_state(s, "carried", &t, first, &state))
        return false;
    *out = in[0];
    const NodeId all = run_along(s, n, stream_join(s->step, state, in[0].now, axis), false);
    out->now = stream_cut(s->step, all, axis, 1, 1 + out->frames);
    end_carried(s, n, n->n_src, state, stream_cut(s->step, all, axis, out->frames, 1 + out->frames), out);
    return true;
}

// --- lstm ----------------------------------------------------------------------------------------

enum { LSTM_H0 = 4, LSTM_C0, LSTM_STEPS = 7, LSTM_OPERANDS };

static bool is_batch_major(const Node *n)
{
    return node_get_int(n, A_lstm_batch_major) != 0;
}

// First values that are the same for all of the batch are repeated.
static NodeId make_lstm(Streamer *s, const Node *n, const NodeId *src, int64_t frames)
{
    NodeBuild b = node_copy_begin(s->step, s->whole, s->id);
    const uint32_t axis = is_batch_major(n) ? 0 : 1;
    for (uint32_t i = 0; i < n->n_src; i++) {
        const bool is_first = (i == LSTM_H0 || i == LSTM_C0) && src[i] != 0;
        Shape to = is_first ? *graph_node(s->step, src[i])->shape : (Shape){0};
        NodeBuild e = node_begin(s->step, OP_expand, node_span(s->whole, s->id), NULL);
        to.dim[axis] = frames;
        node_src(&e, src[i]);
        node_ints(&e, A_expand_shape, to.dim, to.rank);
        node_src(&b, is_first ? node_end(&e) : src[i]);
    }
    return node_end(&b);
}

// The axis is the batch: every frame has a sequence of its own.
static bool lstm_apart(Streamer *s, const Node *n, Flow *in, Flow *out)
{
    for (uint32_t i = LSTM_H0; i <= LSTM_C0 && i < n->n_src; i++)
        if (in[i].kind == FLOW_FRAMES || !stream_use_fixed(s, &in[i], 3, is_batch_major(n) ? 0 : 1))
            return in[i].kind != FLOW_FRAMES || stream_refuse(s, "what it begins with has the axis");
    if (!stream_apply(s, n, in, is_batch_major(n) ? 0 : 2, make_lstm, out))
        return false;
    Flow *results = ARENA_ARRAY(s->arena, Flow, n->n_results);
    for (uint32_t i = 0; i < n->n_results; i++) {
        results[i] = out->results[i];
        results[i].axis = i == 0 ? out->axis : is_batch_major(n) ? 0 : 1;
    }
    out->results = results;
    return true;
}

// Is what is handed on at the end of a step that of the whole run?
static FlowKind kind_of_last(const Streamer *s, NodeId whole, const Flow *f)
{
    return stream_has_all(s, whole, f) ? FLOW_LATEST : FLOW_NEVER;
}

// Results first to end - 1 of an op that goes along the axis have it; the others are of the kind `other`.
static void set_results(Streamer *s, const Node *n, const Flow *frames, uint32_t first, uint32_t end,
                        FlowKind other)
{
    Flow *results = ARENA_ARRAY(s->arena, Flow, n->n_results);
    for (uint32_t i = 0; i < n->n_results; i++) {
        results[i] = i >= first && i < end ? *frames : (Flow){.kind = other};
        results[i].now = graph_result(s->step, frames->now, i);
    }
    results[0].results = results;
    s->flow[s->id] = results[0];
}

static bool check_lstm(Streamer *s, const Node *n, const Flow *in)
{
    double steps = 0;
    if (in[0].axis == 2)
        return stream_refuse(s, "it sums along the axis");
    if (dtype_info[n->dtype].bits < 32) // which are f32 within a run
        return stream_refuse(s, "its carried values would be rounded once in a step");
    if (!str_equal(node_get_str(n, A_lstm_direction), "forward"))
        return stream_refuse(s, "it reads the axis from the end (direction reverse or bidirectional)");
    if (n->n_src > LSTM_STEPS && n->src[LSTM_STEPS] != 0 &&
        (!node_is_scalar_const(s->whole, n->src[LSTM_STEPS], &steps) ||
         steps < (double)stream_total(s, n->src[0], &in[0])))
        return stream_refuse(s, "its number of steps is not the size of the axis");
    return true;
}

bool stream_lstm(Streamer *s, const Node *n, Flow *out)
{
    Flow *in = stream_operands(s, n);
    if (in[0].axis == (is_batch_major(n) ? 0u : 1u))
        return lstm_apart(s, n, in, out);
    NodeId src[LSTM_OPERANDS] = {0}, state[2] = {0};
    const TensorType t = {(DType)n->dtype, n->results[1].shape};
    if (!check_lstm(s, n, in) || !settle(s, &in[0]))
        return false;
    for (uint32_t i = 0; i < n->n_src && i < LSTM_STEPS; i++)
        src[i] = in[i].now;
    for (uint32_t i = 0; i < 2; i++)
        if (!begin_carried(s, n, LSTM_H0 + i, &t, &state[i]))
            return false;
    src[LSTM_H0] = state[0];
    src[LSTM_C0] = state[1];
    NodeBuild b = node_copy_begin(s->step, s->whole, s->id);
    for (uint32_t i = 0; i < LSTM_STEPS; i++)
        node_src(&b, src[i]);
    Flow frames = in[0];
    frames.now = node_end(&b);
    if (frames.now == 0)
        return false;
    for (uint32_t i = 0; i < 2; i++)
        end_carried(s, n, LSTM_H0 + i, state[i], graph_result(s->step, frames.now, 1 + i), &frames);
    frames.axis = is_batch_major(n) ? 1 : 0;
    set_results(s, n, &frames, 0, 1, kind_of_last(s, n->src[0], &in[0]));
    return true;
}

// --- loops ---------------------------------------------------------------------------------------

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

bool stream_loop(Streamer *s, const Node *n, Flow *out)
{
    Flow *in = stream_operands(s, n), frames = {0};
    FlowKind last = FLOW_LATEST;
    const uint32_t n_carried = loop_form(n).n_carried;
    NodeId *src = ARENA_ARRAY(s->arena, NodeId, n->n_src + 1u);
    if (!check_rows(s, n, in) || !stream_align(s, in, n->n_src))
        return false;
    for (uint32_t i = 0; i < n->n_src; i++) {
        if (in[i].kind == FLOW_FRAMES && !settle(s, &in[i]))
            return false;
        last = in[i].kind == FLOW_FRAMES ? kind_of_last(s, n->src[i], &in[i]) : last;
        frames = in[i].kind == FLOW_FRAMES ? in[i] : frames;
        src[i] = in[i].now;
    }
    for (uint32_t i = 2; i < 2 + n_carried; i++) {
        const TensorType t = {(DType)graph_node(s->whole, n->src[i])->dtype,
                              *graph_node(s->whole, n->src[i])->shape};
        if (!begin_carried(s, n, i, &t, &src[i]))
            return false;
    }
    frames.now = make_loop(s, n, src, frames.frames);
    if (frames.now == 0)
        return false;
    for (uint32_t i = 0; i < n_carried; i++)
        end_carried(s, n, 2 + i, src[2 + i], graph_result(s->step, frames.now, i), &frames);
    frames.axis = 0;
    set_results(s, n, &frames, n_carried, n->n_results - 1u, last);
    (void)out; // set_results has written it
    return true;
}
