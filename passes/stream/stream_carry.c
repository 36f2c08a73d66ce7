// SPDX-License-Identifier: Apache-2.0
// Rules for ops that go along the axis one frame after another: running sums, LSTMs and loops. What they
// carry from one frame to the next is a state, which stays as it is until the first real frame has come.
#include "ir/shape/forms.h"
#include "passes/graph/fold.h"
#include "passes/stream/flow.h"

// --- carried values ------------------------------------------------------------------------------

bool stream_settle(Streamer *s, Flow *f)
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
bool stream_begin_carried(Streamer *s, const Node *n, uint32_t i, const TensorType *t, NodeId *state)
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

void stream_end_carried(Streamer *s, const Node *n, uint32_t i, NodeId state, NodeId last, const Flow *f)
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
    if (!stream_settle(s, &in[0]))
        return false;
    TensorType t = {(DType)n->dtype, *graph_node(s->step, in[0].now)->shape};
    t.shape.dim[axis] = 1;
    const NodeId first = run_along(s, n, stream_filled(s, t.dtype, &t.shape, 0), true);
    if (!stream_state(s, "carried", &t, first, &state))
        return false;
    *out = in[0];
    const NodeId all = run_along(s, n, stream_join(s->step, state, in[0].now, axis), false);
    out->now = stream_cut(s->step, all, axis, 1, 1 + out->frames);
    stream_end_carried(s, n, n->n_src, state, stream_cut(s->step, all, axis, out->frames, 1 + out->frames),
                       out);
    return true;
}

// --- lstm, gru, rnn -----------------------------------------------------------------------------------

static bool is_batch_major(const Node *n)
{
    return recurrent_form(n).is_batch_major;
}

static bool is_first_value(const Node *n, uint32_t i)
{
    return i >= RECURRENT_H0 && i < RECURRENT_H0 + recurrent_form(n).n_states;
}

// First values that are the same for all of the batch are repeated.
static NodeId make_recurrent(Streamer *s, const Node *n, const NodeId *src, int64_t frames)
{
    NodeBuild b = node_copy_begin(s->step, s->whole, s->id);
    const uint32_t axis = is_batch_major(n) ? 0 : 1;
    for (uint32_t i = 0; i < n->n_src; i++) {
        const bool is_first = is_first_value(n, i) && src[i] != 0;
        node_src(&b, is_first ? stream_repeat(s->step, src[i], axis, frames) : src[i]);
    }
    return node_end(&b);
}

// The axis is the batch: every frame has a sequence of its own.
static bool recurrent_apart(Streamer *s, const Node *n, Flow *in, Flow *out)
{
    for (uint32_t i = RECURRENT_H0; is_first_value(n, i) && i < n->n_src; i++)
        if (in[i].kind == FLOW_FRAMES || !stream_use_fixed(s, &in[i], 3, is_batch_major(n) ? 0 : 1))
            return in[i].kind == FLOW_FRAMES && stream_refuse(s, "what it begins with has the axis");
    if (!stream_apply(s, n, in, is_batch_major(n) ? 0 : 2, make_recurrent, out))
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
FlowKind stream_kind_of_last(const Streamer *s, NodeId whole, const Flow *f)
{
    return stream_has_all(s, whole, f) ? FLOW_LATEST : FLOW_NEVER;
}

// Results first to end - 1 of an op that goes along the axis have it; the others are of the kind `other`.
void stream_set_results(Streamer *s, const Node *n, const Flow *frames, uint32_t first, uint32_t end,
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

// Were its sums over inputs made before?
static bool has_sums(const Node *n)
{
    const uint32_t sums = recurrent_form(n).sums;
    return sums < n->n_src && n->src[sums] != 0;
}

static bool check_recurrent(Streamer *s, const Node *n, const Flow *in)
{
    const RecurrentForm form = recurrent_form(n);
    double steps = 0;
    if (has_sums(n) && (in[form.sums].kind != in[0].kind || in[form.sums].axis != in[0].axis))
        return stream_refuse(s, "its inputs and the sums over them have not the same axis");
    if (in[0].axis == 2)
        return stream_refuse(s, "it sums along the axis");
    if (dtype_info[n->dtype].bits < 32) // which are f32 within a run
        return stream_refuse(s, "its carried values would be rounded once in a step");
    if (!str_equal(form.direction, "forward"))
        return stream_refuse(s, "it reads the axis from the end (direction reverse or bidirectional)");
    if (n->n_src > form.steps && n->src[form.steps] != 0 &&
        (!node_is_scalar_const(s->whole, n->src[form.steps], &steps) ||
         steps < (double)stream_total(s, n->src[0], &in[0])))
        return stream_refuse(s, "its number of steps is not the size of the axis");
    return true;
}

static bool stream_recurrent(Streamer *s, const Node *n, Flow *out)
{
    const RecurrentForm form = recurrent_form(n);
    Flow *in = stream_operands(s, n);
    if (in[0].axis == (is_batch_major(n) ? 0u : 1u))
        return recurrent_apart(s, n, in, out);
    NodeId src[RECURRENT_MOST] = {0}, state[2] = {0};
    const TensorType t = {(DType)n->dtype, n->results[1].shape};
    if (!check_recurrent(s, n, in) || !stream_align(s, in, n->n_src) || !stream_settle(s, &in[0]) ||
        (has_sums(n) && !stream_settle(s, &in[form.sums])))
        return false;
    for (uint32_t i = 0; i < n->n_src; i++)
        src[i] = i == form.steps ? 0 : in[i].now;
    for (uint32_t i = 0; i < form.n_states; i++) {
        if (!stream_begin_carried(s, n, RECURRENT_H0 + i, &t, &state[i]))
            return false;
        src[RECURRENT_H0 + i] = state[i];
    }
    NodeBuild b = node_copy_begin(s->step, s->whole, s->id);
    for (uint32_t i = 0; i < (has_sums(n) ? form.sums + 1 : form.steps); i++)
        node_src(&b, src[i]);
    Flow frames = in[0];
    frames.now = node_end(&b);
    if (frames.now == 0)
        return false;
    for (uint32_t i = 0; i < form.n_states; i++)
        stream_end_carried(s, n, RECURRENT_H0 + i, state[i], graph_result(s->step, frames.now, 1 + i),
                           &frames);
    frames.axis = is_batch_major(n) ? 1 : 0;
    stream_set_results(s, n, &frames, 0, 1, stream_kind_of_last(s, n->src[0], &in[0]));
    return true;
}

bool stream_lstm(Streamer *s, const Node *n, Flow *out)
{
    return stream_recurrent(s, n, out);
}

bool stream_gru(Streamer *s, const Node *n, Flow *out)
{
    return stream_recurrent(s, n, out);
}

bool stream_rnn(Streamer *s, const Node *n, Flow *out)
{
    return stream_recurrent(s, n, out);
}
