// SPDX-License-Identifier: Apache-2.0
// How frames are kept, delayed, masked and lined up. See flow.h.
#include "passes/stream/flow.h"
#include "ir/graph/intern.h"
#include "ir/graph/tensor.h"
#include "passes/graph/fold.h"

#include <string.h>

enum { MAX_NAME = 40, MAX_COUNT = 1 << 30 };

bool stream_refuse(const Streamer *s, const char *why)
{
    return diag_error(s->whole->diag, node_span(s->whole, s->id), E0210, "%s: %s cannot be streamed: %s",
                      node_name(s->whole, s->id), op_info[graph_node(s->whole, s->id)->op].name, why);
}

static int64_t divide_up(int64_t a, int64_t b)
{
    rlx_assert(b > 0);
    return a / b + (a % b > 0);
}

bool stream_has_multiple(Streamer *s, int64_t frames, int64_t of)
{
    int64_t a = frames, b = of;
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    s->factor = of / a;
    return s->factor == 1;
}

Flow *stream_operands(const Streamer *s, const Node *n)
{
    Flow *in = ARENA_ARRAY(s->arena, Flow, n->n_src + 1u);
    for (uint32_t i = 0; i < n->n_src; i++)
        in[i] = s->flow[n->src[i]]; // [0]: FIXED, node 0
    return in;
}

int64_t stream_total(const Streamer *s, NodeId whole, const Flow *f)
{
    rlx_assert(f->axis < graph_node(s->whole, whole)->shape->rank);
    return graph_node(s->whole, whole)->shape->dim[f->axis];
}

// --- nodes ---

NodeId stream_cut(Graph *g, NodeId id, uint32_t axis, int64_t from, int64_t to)
{
    rlx_assert(0 <= from && from <= to && to <= graph_node(g, id)->shape->dim[axis]);
    if (from == 0 && to == graph_node(g, id)->shape->dim[axis])
        return id;
    NodeBuild b = node_begin(g, OP_slice, node_span(g, id), g->labels.data[id]);
    node_slice(&b, id, axis, from, to, 1);
    return fold_node(g, node_end(&b));
}

NodeId stream_join(Graph *g, NodeId a, NodeId b, uint32_t axis)
{
    NodeBuild c = node_begin(g, OP_concat, node_span(g, b), g->labels.data[b]);
    node_concat(&c, (const NodeId[]){a, b}, 2, axis);
    return fold_node(g, node_end(&c));
}

NodeId stream_repeat(Graph *g, NodeId id, uint32_t axis, int64_t frames)
{
    Shape to = *graph_node(g, id)->shape;
    rlx_assert(to.dim[axis] == 1);
    to.dim[axis] = frames;
    return graph_expand(g, id, &to);
}

NodeId stream_filled(Streamer *s, DType t, const Shape *shape, NodeId value)
{
    Tensor v = tensor_new(s->step->arena, t, shape->rank, shape->dim);
    const Tensor one = tensor_if_const(s->step, value);
    rlx_assert(value == 0 || one.numel == 1);
    const uint64_t bits = value == 0 ? 0 : tensor_get_bits(&one, 0);
    for (int64_t i = 0; bits != 0 && i < v.numel; i++)
        tensor_set_bits(&v, i, bits);
    return graph_const(s->step, t, shape, v.data, type_bytes(t, shape), node_span(s->whole, s->id));
}

// Is frame i of a constant the same as frame 0, for all i?
static bool is_same(const Graph *g, NodeId id, uint32_t axis)
{
    const Tensor t = tensor_of_const(g, id);
    int64_t inner = 1;
    for (uint32_t i = axis + 1; i < t.rank; i++)
        inner *= t.dim[i];
    const int64_t block = inner * t.dim[axis];
    for (int64_t i = 0; i < t.numel; i++)
        if (tensor_get_bits(&t, i) != tensor_get_bits(&t, i / block * block + i % inner))
            return false;
    return true;
}

NodeId stream_same(Streamer *s, NodeId id, uint32_t axis)
{
    Graph *g = s->step;
    const Node n = *graph_node(g, id);
    if (n.shape->dim[axis] == 0)
        return 0;
    if (node_is_const(g, id))
        return is_same(g, id, axis) ? stream_cut(g, id, axis, 0, 1) : 0;
    if ((op_info[n.op].flags & OPFLAG_VIEW) == 0 ||
        shape_numel(graph_node(g, n.src[0])->shape) >= shape_numel(n.shape))
        return 0; // not repeated
    const Shape *from = graph_node(g, n.src[0])->shape;
    const uint32_t more = n.shape->rank - from->rank;
    return axis < more || from->dim[axis - more] == 1 ? stream_cut(g, id, axis, 0, 1) : 0;
}

// --- states ---

bool stream_state(Streamer *s, const char *what, const TensorType *t, NodeId init, NodeId *out)
{
    Graph *g = s->step;
    Tensor v = tensor_if_const(g, init);
    Str name = str_new(g->arena);
    if (s->is_body)
        return stream_refuse(s,
                             "elements of the axis meet those before them, inside a loop along another axis");
    if (init != 0 && !node_is_const(g, init))
        return stream_refuse(s, "what it has before the first element is no constant");
    str_printf(&name, "%.*s.%s", MAX_NAME, node_name(s->whole, s->id), what);
    const size_t len = strlen(str_text(&name));
    for (uint32_t i = 2; intern_find_name(g, NAME_LEAF, str_text(&name)) != 0; i++) {
        const char *stem = arena_strndup(g->arena, str_text(&name), len);
        name = str_new(g->arena);
        str_printf(&name, "%s%u", stem, i);
    }
    *out = graph_state(g, str_text(&name), t->dtype, &t->shape, v.data,
                       v.data != NULL ? type_bytes(t->dtype, &t->shape) : 0, node_span(s->whole, s->id));
    return *out != 0;
}

void stream_set_next(Streamer *s, NodeId state, NodeId next)
{
    for (uint32_t i = 0; i < s->step->states.len; i++)
        if (s->step->states.data[i].node == state)
            s->step->states.data[i].next = next;
}

// The number of steps so far, up to a number that no delay reaches.
static NodeId steps_so_far(Streamer *s)
{
    const TensorType t = {.dtype = DTYPE_i32};
    if (s->count == 0 && stream_state(s, "steps", &t, 0, &s->count)) {
        const NodeId more =
            graph_op2(s->step, OP_add, s->count, graph_scalar(s->step, DTYPE_i32, 1, (Span){0}));
        const NodeId most = graph_scalar(s->step, DTYPE_i32, MAX_COUNT, (Span){0});
        stream_set_next(s, s->count, graph_op2(s->step, OP_min, more, most));
    }
    return s->count;
}

NodeId stream_has_begun(Streamer *s, int64_t frames, int64_t late)
{
    rlx_assert(late >= 0 && late % frames == 0);
    return graph_op2(s->step, OP_ge, steps_so_far(s),
                     graph_scalar(s->step, DTYPE_i32, (double)(late / frames), (Span){0}));
}

// --- frames ---

// What a state that keeps `history` frames begins with: the end of what is known, zeros before it.
static NodeId first_history(Streamer *s, const Flow *f, int64_t history)
{
    const int64_t known = f->late < 0 ? -f->late : 0;
    if (known >= history)
        return stream_cut(s->step, f->ahead, f->axis, known - history, known);
    Shape rest = *graph_node(s->step, f->now)->shape;
    rest.dim[f->axis] = history - known;
    const NodeId zeros = stream_filled(s, (DType)graph_node(s->step, f->now)->dtype, &rest, 0);
    return known == 0 ? zeros : stream_join(s->step, zeros, f->ahead, f->axis);
}

// Images are kept with channels last, as targets compute them: then nothing changes the order of the axes.
static NodeId in_order_of_state(Streamer *s, const Flow *f, NodeId id, bool to_front)
{
    int64_t perm[SHAPE_MAX_RANK];
    const bool is_image = f->is_image || op_info[graph_node(s->whole, s->id)->op].layout == OPLAYOUT_IMAGE;
    if (id == 0 || !is_image || f->axis < 2)
        return id;
    order_of_channels(graph_node(s->step, id)->shape->rank, to_front, perm);
    return fold_node(s->step, graph_transpose(s->step, id, perm));
}

// A state that keeps so many frames, with the new ones behind it.
static bool add_memory(Streamer *s, const Flow *f, int64_t history, NodeId *out)
{
    Graph *g = s->step;
    const NodeId init = in_order_of_state(s, f, first_history(s, f, history), false);
    const NodeId now = in_order_of_state(s, f, f->now, false);
    const uint32_t axis = f->axis - (now != f->now); // behind the channels, in images
    NodeId state = 0;
    const TensorType t = {(DType)graph_node(g, init)->dtype, *graph_node(g, init)->shape};
    if (!stream_state(s, "history", &t, init, &state))
        return false;
    const NodeId all = stream_join(g, state, now, axis);
    stream_set_next(s, state, stream_cut(g, all, axis, f->frames, f->frames + history));
    *out = in_order_of_state(s, f, all, true);
    return true;
}

bool stream_history(Streamer *s, const Flow *f, int64_t history, NodeId *out)
{
    rlx_assert(f->kind == FLOW_FRAMES && history > -f->frames);
    if (history <= 0) {
        *out = stream_cut(s->step, f->now, f->axis, -history, f->frames);
        return true;
    }
    for (uint32_t i = 0; i < s->memories.len; i++) {
        const FlowMemory *m = &s->memories.data[i];
        *out = m->joined;
        if (m->now == f->now && m->ahead == f->ahead && m->axis == f->axis && m->history == history)
            return true;
    }
    if (!add_memory(s, f, history, out))
        return false;
    const FlowMemory m = {f->now, f->ahead, *out, f->axis, history};
    vec_push(s->arena, &s->memories, m);
    return true;
}

bool stream_delay(Streamer *s, Flow *f, int64_t late)
{
    rlx_assert(late >= f->late);
    NodeId joined = 0;
    if (late == f->late)
        return true;
    if (!stream_history(s, f, late - f->late, &joined))
        return false;
    f->now = stream_cut(s->step, joined, f->axis, 0, f->frames);
    f->ahead = late < 0 ? stream_cut(s->step, f->ahead, f->axis, 0, -late) : 0;
    f->late = late;
    return true;
}

void stream_mask_rows(Streamer *s, Flow *f, NodeId fill)
{
    Graph *g = s->step;
    const Shape *shape = graph_node(g, f->now)->shape;
    const int64_t rows = shape->dim[f->axis];
    const Shape along = {.rank = shape->rank - f->axis, .dim = {rows, 1, 1, 1, 1, 1, 1, 1}};
    if (f->late <= 0)
        return;
    Tensor first = tensor_new(g->arena, DTYPE_i32, along.rank, along.dim); // step in which row i is real
    for (int64_t i = 0; i < rows; i++)
        tensor_set_i64(&first, i, i < f->late ? divide_up(f->late - i, f->frames) : 0);
    const NodeId from =
        graph_const(g, DTYPE_i32, &along, first.data, type_bytes(DTYPE_i32, &along), (Span){0});
    f->now = graph_op3(g, OP_where, graph_op2(g, OP_lt, steps_so_far(s), from), fill, f->now);
}

void stream_mask(Streamer *s, Flow *f, NodeId fill)
{
    rlx_assert(graph_node(s->step, f->now)->shape->dim[f->axis] == f->frames);
    stream_mask_rows(s, f, fill);
}

bool stream_lead(Streamer *s, Flow *f, NodeId before)
{
    Graph *g = s->step;
    const int64_t n = graph_node(g, before)->shape->dim[f->axis];
    if (n == 0)
        return true;
    if (!node_is_const(g, before))
        return stream_refuse(
            s, "what it puts before the first element is no constant. A model that keeps its own "
               "caches is a step already: compile it without --stream");
    const NodeId fill = f->late > 0 ? stream_same(s, before, f->axis) : 0;
    if (f->late > 0 && fill == 0)
        return stream_refuse(s, "what it puts before the first element is not the same everywhere");
    stream_mask(s, f, fill);
    if (f->late < 0)
        f->ahead = stream_join(g, before, f->ahead, f->axis);
    else if (n > f->late)
        f->ahead = stream_cut(g, before, f->axis, 0, n - f->late);
    f->late -= n;
    return true;
}

bool stream_align(Streamer *s, Flow *in, uint32_t n)
{
    const Flow *last = NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (in[i].kind != FLOW_FRAMES)
            continue;
        if (last != NULL && in[i].frames != last->frames)
            return stream_refuse(
                s, arena_printf(s->arena, "its operands have %lld and %lld elements along the axis in a step",
                                (long long)last->frames, (long long)in[i].frames));
        if (last == NULL || in[i].late > last->late)
            last = &in[i];
    }
    rlx_assert(last != NULL);
    const int64_t late = last->late;
    for (uint32_t i = 0; i < n; i++)
        if (in[i].kind == FLOW_FRAMES && !stream_delay(s, &in[i], late))
            return false;
    return true;
}

// The node for frames that are known before the first step: a constant.
static bool make_ahead(Streamer *s, const Node *n, const Flow *in, StreamMake make, Flow *out)
{
    NodeId *src = ARENA_ARRAY(s->arena, NodeId, n->n_src + 1u);
    for (uint32_t i = 0; i < n->n_src; i++)
        src[i] = in[i].kind == FLOW_FRAMES ? in[i].ahead : in[i].now;
    out->ahead = make != NULL ? make(s, n, src, -out->late) : graph_clone_node(s->step, s->whole, s->id, src);
    out->ahead = out->ahead != 0 ? fold_node(s->step, out->ahead) : 0;
    return out->ahead != 0 && (node_is_const(s->step, out->ahead) ||
                               stream_refuse(s, "what it has before the first element is no constant"));
}

static const Flow *all_results(Streamer *s, const Node *n, const Flow *first)
{
    if (n->n_results < 2)
        return NULL;
    Flow *results = ARENA_ARRAY(s->arena, Flow, n->n_results);
    for (uint32_t i = 0; i < n->n_results; i++) {
        results[i] = *first;
        results[i].now = graph_result(s->step, first->now, i);
    }
    return results;
}

bool stream_apply(Streamer *s, const Node *n, Flow *in, uint32_t axis, StreamMake make, Flow *out)
{
    if (!stream_align(s, in, n->n_src))
        return false;
    NodeId *src = ARENA_ARRAY(s->arena, NodeId, n->n_src + 1u);
    *out = (Flow){.kind = FLOW_FRAMES, .axis = axis};
    out->is_image = op_info[n->op].layout == OPLAYOUT_IMAGE;
    for (uint32_t i = 0; i < n->n_src; i++) {
        if (in[i].kind == FLOW_FRAMES && n->n_results > 1 && in[i].late < 0 && !stream_delay(s, &in[i], 0))
            return false;
        src[i] = in[i].now;
        if (in[i].kind == FLOW_FRAMES) {
            out->frames = in[i].frames;
            out->late = in[i].late;
            out->is_image = out->is_image || (in[i].is_image && in[i].axis == axis);
        }
    }
    out->now = make != NULL ? make(s, n, src, out->frames) : graph_clone_node(s->step, s->whole, s->id, src);
    if (out->now == 0 || (out->late < 0 && !make_ahead(s, n, in, make, out)))
        return false;
    out->results = all_results(s, n, out);
    return true;
}
