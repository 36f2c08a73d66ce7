// SPDX-License-Identifier: Apache-2.0
// Rules for ops that move elements: what they do to the axis becomes arithmetic of delays, and only padding
// in front needs constants.
#include "ir/shape/forms.h"
#include "ir/shape/shape.h"
#include "passes/stream/flow.h"

static int64_t ints_at(const Node *n, const char *name, uint32_t i, int64_t dflt)
{
    const AttrVal *v = node_find_attr(n, name);
    return i < v->len ? v->u.ints[i] : dflt;
}

// --- slice ---------------------------------------------------------------------------------------

typedef struct Cut {
    bool is_there;
    int64_t first, count, step; // of the axis, in the whole run
} Cut;

static Cut cut_of(const Streamer *s, const Node *n, const Flow *f)
{
    Cut c = {0};
    for (uint32_t i = 0; i < node_find_attr(n, "axes")->len; i++) {
        const SliceAxis at = {.start = ints_at(n, "starts", i, 0),
                              .end = ints_at(n, "ends", i, 0),
                              .step = ints_at(n, "steps", i, 1)};
        if (ints_at(n, "axes", i, 0) != f->axis)
            continue;
        Dim first = 0, count = 0;
        shape_slice_range(s->whole->dims, stream_total(s, n->src[0], f), at, &first, &count);
        c = (Cut){true, first, count, at.step};
    }
    return c;
}

// The slice, with `from`, `to` and `step` of the axis.
static NodeId slice_with(Streamer *s, const Node *n, NodeId x, const int64_t *range)
{
    const uint32_t axis = s->flow[n->src[0]].axis;
    const uint32_t n_axes = (uint32_t)node_find_attr(n, "axes")->len;
    int64_t start[SHAPE_MAX_RANK], end[SHAPE_MAX_RANK], step[SHAPE_MAX_RANK];
    for (uint32_t i = 0; i < n_axes; i++) {
        const bool is_it = ints_at(n, "axes", i, 0) == axis;
        start[i] = is_it ? range[0] : ints_at(n, "starts", i, 0);
        end[i] = is_it ? range[1] : ints_at(n, "ends", i, 0);
        step[i] = is_it ? range[2] : ints_at(n, "steps", i, 1);
    }
    NodeBuild b = node_copy_begin(s->step, s->whole, s->id);
    node_src(&b, x);
    node_ints(&b, attr_find((OpId)n->op, "starts"), start, n_axes);
    node_ints(&b, attr_find((OpId)n->op, "ends"), end, n_axes);
    node_ints(&b, attr_find((OpId)n->op, "steps"), step, n_axes);
    return node_end(&b);
}

static NodeId make_whole_slice(Streamer *s, const Node *n, const NodeId *src, int64_t frames)
{
    return slice_with(s, n, src[0], (const int64_t[]){0, frames, 1});
}

static NodeId make_stepped(Streamer *s, const Node *n, const NodeId *src, int64_t frames)
{
    rlx_assert(frames > 0);
    const int64_t step = cut_of(s, n, &s->flow[n->src[0]]).step;
    return slice_with(s, n, src[0], (const int64_t[]){0, (frames - 1) * step + 1, step});
}

// Frame i becomes frame i - n: the first n are dropped.
static void stream_skip(Streamer *s, Flow *f, int64_t n)
{
    rlx_assert(n >= 0);
    f->ahead = f->late + n < 0 ? stream_cut(s->step, f->ahead, f->axis, n, -f->late) : 0;
    f->late += n;
}

bool stream_slice(Streamer *s, const Node *n, Flow *out)
{
    Flow *in = stream_operands(s, n);
    const int64_t total = stream_total(s, n->src[0], &in[0]);
    const Cut c = cut_of(s, n, &in[0]);
    if (!c.is_there)
        return stream_apply(s, n, in, in[0].axis, make_whole_slice, out);
    if (c.step < 0)
        return stream_refuse(s, "it turns the axis around");
    if (c.count == 1 && c.first == total - 1 && total > 1) {
        *out =
            (Flow){.kind = FLOW_LATEST,
                   .now = slice_with(s, n, in[0].now, (const int64_t[]){in[0].frames - 1, in[0].frames, 1})};
        return stream_has_all(s, n->src[0], &in[0]) ||
               stream_refuse(s, "the last element depends on the padding behind the end");
    }
    if (c.count * c.step * 2 < total)
        return stream_refuse(s, "it keeps a part of the axis that does not grow with the stream");
    stream_skip(s, &in[0], c.first);
    return (c.step == 1 || stream_slide(s, &in[0], 1, c.step)) &&
           stream_apply(s, n, in, in[0].axis, c.step == 1 ? make_whole_slice : make_stepped, out);
}

// --- pad -----------------------------------------------------------------------------------------

static NodeId make_padded(Streamer *s, const Node *n, const NodeId *src, int64_t frames)
{
    const uint32_t axis = s->flow[n->src[0]].axis, rank = n->shape->rank;
    const int64_t *amounts = pad_amounts(n);
    int64_t pads[2 * SHAPE_MAX_RANK];
    bool any = false;
    (void)frames;
    for (uint32_t i = 0; i < 2 * rank; i++) {
        pads[i] = i % rank == axis ? 0 : amounts[i];
        any = any || pads[i] != 0;
    }
    if (!any)
        return src[0];
    NodeBuild b = node_copy_begin(s->step, s->whole, s->id);
    for (uint32_t i = 0; i < n->n_src; i++)
        node_src(&b, src[i]);
    node_ints(&b, attr_find((OpId)n->op, "pads"), pads, 2 * rank);
    return node_end(&b);
}

bool stream_pad(Streamer *s, const Node *n, Flow *out)
{
    Flow *in = stream_operands(s, n);
    const uint32_t axis = in[0].axis;
    const int64_t before = pad_amounts(n)[axis], behind = pad_amounts(n)[n->shape->rank + axis];
    const bool is_constant = str_equal(node_find_attr(n, "mode")->u.str, "constant");
    const NodeId value = n->n_src > 1 ? in[1].now : 0;
    if (!is_constant && (before > 0 || behind > 0))
        return stream_refuse(
            s, "its padding repeats elements of the axis: only constant padding can be streamed");
    if (before > 0 && value != 0 && !node_is_const(s->step, value))
        return stream_refuse(s, "the value of its padding is no constant");
    if (!stream_apply(s, n, in, axis, make_padded, out))
        return false;
    if (before < 0)
        stream_skip(s, out, -before);
    if (before <= 0)
        return true;
    Shape shape = *graph_node(s->step, out->now)->shape;
    shape.dim[axis] = before;
    return stream_lead(s, out, stream_filled(s, (DType)n->dtype, &shape, value));
}

// --- concat --------------------------------------------------------------------------------------

// Operands that no step changes are repeated in all frames.
static NodeId make_joined(Streamer *s, const Node *n, const NodeId *src, int64_t frames)
{
    NodeBuild b = node_copy_begin(s->step, s->whole, s->id);
    uint32_t axis = 0;
    for (uint32_t i = 0; i < n->n_src; i++)
        axis = s->flow[n->src[i]].kind == FLOW_FRAMES ? s->flow[n->src[i]].axis : axis;
    for (uint32_t i = 0; i < n->n_src; i++)
        node_src(&b, s->flow[n->src[i]].kind == FLOW_FRAMES ? src[i]
                                                            : stream_repeat(s->step, src[i], axis, frames));
    return node_end(&b);
}

// What stands in front of the only operand that has the axis must be constant; what stands behind it never
// comes.
static bool join_along(Streamer *s, const Node *n, const Flow *in, Flow *out)
{
    uint32_t at = n->n_src;
    for (uint32_t i = 0; i < n->n_src; i++) {
        if (in[i].kind == FLOW_FRAMES && at != n->n_src)
            return stream_refuse(s, "it puts one stream behind another");
        at = in[i].kind == FLOW_FRAMES ? i : at;
    }
    *out = in[at];
    while (at > 0)
        if (!stream_lead(s, out, in[--at].now))
            return false;
    return true;
}

bool stream_concat(Streamer *s, const Node *n, Flow *out)
{
    Flow *in = stream_operands(s, n);
    const uint32_t along = (uint32_t)concat_axis(n), rank = n->shape->rank;
    uint32_t axis = UINT32_MAX;
    for (uint32_t i = 0; i < n->n_src; i++) {
        if (in[i].kind == FLOW_FRAMES && axis != UINT32_MAX && axis != in[i].axis)
            return stream_refuse(s, "its operands have the axis at different places");
        axis = in[i].kind == FLOW_FRAMES ? in[i].axis : axis;
    }
    if (axis == along)
        return join_along(s, n, in, out);
    for (uint32_t i = 0; i < n->n_src; i++)
        if (in[i].kind == FLOW_FIXED && !stream_use_fixed(s, &in[i], rank, axis))
            return false;
    return stream_apply(s, n, in, axis, make_joined, out);
}

// --- views ---------------------------------------------------------------------------------------

bool stream_transpose(Streamer *s, const Node *n, Flow *out)
{
    Flow *in = stream_operands(s, n);
    uint32_t axis = 0;
    while (ints_at(n, "perm", axis, 0) != in[0].axis)
        axis++;
    return stream_apply(s, n, in, axis, NULL, out);
}

static NodeId make_expanded(Streamer *s, const Node *n, const NodeId *src, int64_t frames)
{
    const Flow *f = &s->flow[n->src[0]];
    Shape to = *n->shape;
    to.dim[f->axis + to.rank - graph_node(s->whole, n->src[0])->shape->rank] = frames;
    NodeBuild b = node_copy_begin(s->step, s->whole, s->id);
    node_src(&b, src[0]);
    node_ints(&b, A_expand_shape, to.dim, to.rank);
    return node_end(&b);
}

bool stream_expand(Streamer *s, const Node *n, Flow *out)
{
    Flow *in = stream_operands(s, n);
    const uint32_t axis = in[0].axis + n->shape->rank - graph_node(s->whole, n->src[0])->shape->rank;
    if (n->shape->dim[axis] != stream_total(s, n->src[0], &in[0]))
        return stream_refuse(s, "it repeats the axis");
    return stream_apply(s, n, in, axis, make_expanded, out);
}

// Where the axis goes in a reshape, and by how much its frames are joined or parted.
typedef struct Refold {
    bool is_there;
    uint32_t axis;
    int64_t joins, parts; // frames of the result: frames / joins * parts
} Refold;

// Sizes in front of the axis stay; it is joined with axes behind it, or parted from within. Axes of size 1
// say nothing, but where the axis itself has it.
static Refold refold(const Shape *from, uint32_t axis, const Shape *to)
{
    int64_t before = 1, at = 1;
    const int64_t size = from->dim[axis];
    for (uint32_t i = 0; i < axis; i++)
        before *= from->dim[i];
    for (uint32_t i = 0; i < to->rank && at <= before && size > 0; at *= to->dim[i++]) {
        const int64_t now = to->dim[i];
        if (at != before || now == 0 || (now == 1 && size != 1))
            continue;
        return (Refold){now % size == 0 || size % now == 0, i, now < size ? size / now : 1,
                        now > size ? now / size : 1};
    }
    return (Refold){0};
}

static NodeId make_reshaped(Streamer *s, const Node *n, const NodeId *src, int64_t frames)
{
    const Flow *f = &s->flow[n->src[0]];
    const Refold r = refold(graph_node(s->whole, n->src[0])->shape, f->axis, n->shape);
    Shape to = *n->shape;
    to.dim[r.axis] = frames / r.joins * r.parts;
    return graph_reshape(s->step, src[0], &to);
}

bool stream_reshape(Streamer *s, const Node *n, Flow *out)
{
    Flow *in = stream_operands(s, n);
    const Refold r = refold(graph_node(s->whole, n->src[0])->shape, in[0].axis, n->shape);
    if (!r.is_there)
        return stream_refuse(s, "it joins the axis with others in front of it, or parts it unevenly");
    if (!stream_has_multiple(s, in[0].frames, r.joins))
        return false;
    int64_t late = in[0].late;
    while (late % r.joins != 0)
        late++;
    if (!stream_delay(s, &in[0], late) || !stream_apply(s, n, in, r.axis, make_reshaped, out))
        return false;
    out->frames = out->frames / r.joins * r.parts;
    out->late = out->late / r.joins * r.parts;
    return true;
}
