// SPDX-License-Identifier: Apache-2.0
// Rules for ops that compute each frame from the same frames of their operands, as long as they do not work
// along the axis: elementwise ops, products, norms, reductions over other axes.
#include "ir/shape/forms.h"
#include "passes/stream/flow.h"

#include <string.h>

// The column `stream` of ops.def.
static const StreamRule rules[OP_COUNT] = {
#define EW(name, ...) [OP_##name] = stream_each,
#define OP(name, shape, min, max, results, flags, layout, joins, types, operand, result, steps, beyond,      \
           fill, live, stream)                                                                               \
    [OP_##name] = stream_##stream,
#include "ir/graph/ops.def"
};

StreamRule stream_rule(OpId op)
{
    rlx_assert(op < OP_COUNT);
    return rules[op] != NULL ? rules[op] : stream_never;
}

bool stream_never(Streamer *s, const Node *n, Flow *out)
{
    (void)n;
    (void)out;
    return stream_refuse(s, "nothing is known of how its elements follow from those before");
}

// The operand that is the only one with the axis; NULL: others have it too, which is reported.
static const Flow *only_first(Streamer *s, const Node *n, const Flow *in)
{
    for (uint32_t i = 1; i < n->n_src; i++)
        if (in[i].kind == FLOW_FRAMES) {
            stream_refuse(s, "another operand than the first has the axis");
            return NULL;
        }
    return &in[0];
}

// --- elementwise ops -----------------------------------------------------------------------------

bool stream_use_fixed(Streamer *s, Flow *f, uint32_t rank, uint32_t axis)
{
    const Shape *shape = f->now != 0 ? graph_node(s->step, f->now)->shape : NULL;
    if (shape == NULL || axis + shape->rank < rank || shape->dim[axis + shape->rank - rank] == 1)
        return true;
    f->now = stream_same(s, f->now, axis + shape->rank - rank);
    return f->now != 0 ||
           stream_refuse(s, "an operand that no step changes has a value for each element of the axis");
}

bool stream_each(Streamer *s, const Node *n, Flow *out)
{
    Flow *in = stream_operands(s, n);
    const uint32_t rank = n->shape->rank;
    uint32_t axis = UINT32_MAX;
    for (uint32_t i = 0; i < n->n_src; i++) {
        if (in[i].kind != FLOW_FRAMES)
            continue;
        const Shape *shape = graph_node(s->whole, n->src[i])->shape;
        const uint32_t at = in[i].axis + rank - shape->rank;
        if ((axis != UINT32_MAX && axis != at) || shape->dim[in[i].axis] != n->shape->dim[at])
            return stream_refuse(s, "its operands have the axis at different places, or of different sizes");
        axis = at;
    }
    for (uint32_t i = 0; i < n->n_src; i++)
        if (in[i].kind == FLOW_FIXED && !stream_use_fixed(s, &in[i], rank, axis))
            return false;
    return stream_apply(s, n, in, axis, NULL, out);
}

// --- ops along other axes ------------------------------------------------------------------------

static bool works_along(const Node *n, uint32_t axis)
{
    const AttrVal *one = node_find_attr(n, "axis"), *v = node_find_attr(n, "axes");
    if (one != NULL)
        return one->u.i == axis;
    bool any = v->len == 0;
    for (uint64_t i = 0; i < v->len; i++)
        any = any || v->u.ints[i] == axis;
    return any;
}

bool stream_along(Streamer *s, const Node *n, Flow *out)
{
    Flow *in = stream_operands(s, n);
    if (works_along(n, in[0].axis))
        return stream_refuse(s, "it needs all elements of the axis at once");
    return stream_apply(s, n, in, in[0].axis, NULL, out);
}

bool stream_norm(Streamer *s, const Node *n, Flow *out)
{
    Flow *in = stream_operands(s, n);
    if (only_first(s, n, in) == NULL)
        return false;
    if (in[0].axis >= (uint64_t)node_find_attr(n, "axis")->u.i)
        return stream_refuse(s, "it normalises along the axis");
    return stream_apply(s, n, in, in[0].axis, NULL, out);
}

bool stream_reduced(Streamer *s, const Node *n, Flow *out)
{
    Flow *in = stream_operands(s, n);
    const AttrVal *axes = node_find_attr(n, "axes"), *one = node_find_attr(n, "axis");
    uint32_t axis = in[0].axis, before = 0;
    if (works_along(n, axis))
        return stream_refuse(
            s, "it reduces the axis, so there is a result only when the stream ends. Cut the model "
               "before it (rlxc cut --to), or reduce a window (avg_pool, max_pool)");
    for (uint64_t i = 0; axes != NULL && i < axes->len; i++)
        before += axes->u.ints[i] < axis;
    if (one != NULL)
        before = one->u.i < axis;
    return stream_apply(s, n, in, node_find_attr(n, "keepdims")->u.i != 0 ? axis : axis - before, NULL, out);
}

bool stream_rows(Streamer *s, const Node *n, Flow *out)
{
    Flow *in = stream_operands(s, n);
    if (only_first(s, n, in) == NULL)
        return false;
    if (in[0].axis + 1 == graph_node(s->whole, n->src[0])->shape->rank)
        return stream_refuse(s, "it needs all elements of the axis at once");
    return stream_apply(s, n, in, in[0].axis, NULL, out);
}

// --- products ------------------------------------------------------------------------------------

// Where the axis of a factor is in the product; UINT32_MAX: it is summed.
static uint32_t product_axis(const Shape *of, uint32_t axis, bool is_left, bool turns, uint32_t rank)
{
    const uint32_t from_end = of->rank - axis; // 1: the last axis
    if (from_end > 2)
        return rank - from_end;
    const bool is_summed = (from_end == 1) == (is_left != turns);
    return is_summed ? UINT32_MAX : is_left ? rank - 2 : rank - 1;
}

bool stream_matmul(Streamer *s, const Node *n, Flow *out)
{
    Flow *in = stream_operands(s, n);
    const MatmulForm form = matmul_form(n);
    const uint32_t rank = n->shape->rank;
    uint32_t axis[2] = {UINT32_MAX, UINT32_MAX};
    for (uint32_t i = 0; i < 2; i++) {
        const Shape *of = graph_node(s->whole, n->src[i])->shape;
        if (in[i].kind == FLOW_FRAMES)
            axis[i] = product_axis(of, in[i].axis, i == 0, i == 0 ? form.turns_a : form.turns_b, rank);
        if (in[i].kind == FLOW_FRAMES && axis[i] == UINT32_MAX)
            return stream_refuse(s, "it sums along the axis");
    }
    const uint32_t at = axis[0] != UINT32_MAX ? axis[0] : axis[1];
    for (uint32_t i = 0; i < 2; i++) {
        if (in[i].kind == FLOW_FRAMES && axis[i] != at)
            return stream_refuse(s, "each element of the axis meets all others");
        if (in[i].kind == FLOW_FIXED && at + 2 < rank && !stream_use_fixed(s, &in[i], rank, at))
            return false;
    }
    return stream_apply(s, n, in, at, NULL, out);
}

// --- tables, the latest frame --------------------------------------------------------------------

bool stream_has_all(const Streamer *s, NodeId whole, const Flow *f)
{
    return stream_total(s, whole, f) * s->frames <= s->total * f->frames - f->late * s->frames;
}

static bool take_latest(Streamer *s, const Node *n, const Flow *in, Flow *out)
{
    double at = 0;
    const int64_t total = stream_total(s, n->src[0], &in[0]);
    if (!node_is_scalar_const(s->whole, n->src[1], &at) || (at != -1 && at != (double)(total - 1)) ||
        total < 2)
        return stream_refuse(s, "it takes elements by their place along the axis");
    if (!stream_has_all(s, n->src[0], &in[0]))
        return stream_refuse(s, "the last element depends on the padding behind the end");
    const Shape *shape = graph_node(s->whole, n->src[1])->shape;
    const int64_t last = in[0].frames - 1;
    const NodeId index =
        graph_reshape(s->step, graph_scalar(s->step, DTYPE_i64, (double)last, (Span){0}), shape);
    NodeBuild b = node_copy_begin(s->step, s->whole, s->id);
    node_src(&b, in[0].now);
    node_src(&b, index);
    *out = (Flow){.kind = FLOW_LATEST, .now = node_end(&b)};
    return out->now != 0;
}

bool stream_gather(Streamer *s, const Node *n, Flow *out)
{
    Flow *in = stream_operands(s, n);
    const uint32_t along = (uint32_t)gather_axis(n),
                   index_rank = graph_node(s->whole, n->src[1])->shape->rank;
    if (in[0].kind == FLOW_FRAMES && in[1].kind == FLOW_FRAMES)
        return stream_refuse(s, "both operands have the axis");
    if (in[1].kind == FLOW_FRAMES)
        return stream_apply(s, n, in, along + in[1].axis, NULL, out);
    if (in[0].axis == along)
        return take_latest(s, n, in, out);
    return stream_apply(s, n, in, in[0].axis < along ? in[0].axis : in[0].axis + index_rank - 1, NULL, out);
}

// --- resize --------------------------------------------------------------------------------------

static NodeId make_resized(Streamer *s, const Node *n, const NodeId *src, int64_t frames)
{
    const Flow *f = &s->flow[n->src[0]];
    Shape to = *n->shape;
    NodeBuild b = node_copy_begin(s->step, s->whole, s->id);
    to.dim[f->axis] = n->shape->dim[f->axis] / stream_total(s, n->src[0], f) * frames;
    node_src(&b, src[0]);
    node_ints(&b, attr_find((OpId)n->op, "sizes"), to.dim, to.rank);
    node_str(&b, attr_find((OpId)n->op, "scales"), "");
    return node_end(&b);
}

// Does every element of a longer axis stand for the one at its place divided by the factor?
static bool repeats(const Node *n)
{
    const char *coord = node_find_attr(n, "coord")->u.str, *nearest = node_find_attr(n, "nearest")->u.str;
    const bool is_half = strcmp(coord, "half_pixel") == 0 && strncmp(nearest, "round", 5) == 0;
    return strcmp(node_find_attr(n, "mode")->u.str, "nearest") == 0 &&
           (is_half || (strcmp(coord, "asymmetric") == 0 && strcmp(nearest, "floor") == 0));
}

bool stream_resize(Streamer *s, const Node *n, Flow *out)
{
    Flow *in = stream_operands(s, n);
    const int64_t from = stream_total(s, n->src[0], &in[0]), to = n->shape->dim[in[0].axis];
    bool is_alone = true; // no other axis gets longer
    for (uint32_t i = 0; i < n->shape->rank; i++)
        is_alone = is_alone &&
                   (i == in[0].axis || n->shape->dim[i] == graph_node(s->whole, n->src[0])->shape->dim[i]);
    if (to % from != 0 || !is_alone || !repeats(n))
        return stream_refuse(s, "it is not the mode nearest that repeats each element of the axis");
    if (!stream_apply(s, n, in, in[0].axis, make_resized, out))
        return false;
    out->frames *= to / from;
    out->late *= to / from;
    return true;
}
