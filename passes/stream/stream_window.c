// SPDX-License-Identifier: Apache-2.0
// Rules for convolutions and pools along the axis: the frames that windows of later steps still need are a
// state. Padding in front of the axis is what this state begins with; padding behind it never comes.
#include "ir/shape/forms.h"
#include "passes/stream/flow.h"

#include <math.h>

// --- windows -------------------------------------------------------------------------------------

static int64_t divide_up(int64_t a, int64_t b)
{
    rlx_assert(b > 0);
    return a / b + (a % b > 0);
}

bool stream_slide(Streamer *s, Flow *f, int64_t extent, int64_t stride)
{
    rlx_assert(extent > 0 && stride > 0);
    const int64_t late = divide_up(f->late + extent, stride) - 1; // of the windows that have just ended
    NodeId joined = 0;
    if (!stream_has_multiple(s, f->frames, stride))
        return false;
    const int64_t windows = f->frames / stride, history = late * stride - f->late;
    if (!stream_history(s, f, history, &joined))
        return false;
    f->now = stream_cut(s->step, joined, f->axis, 0, (windows - 1) * stride + extent);
    f->ahead = late < 0 ? stream_cut(s->step, f->ahead, f->axis, 0, (-late - 1) * stride + extent) : 0;
    f->frames = windows;
    f->late = late;
    return true;
}

// The window of an op along the axis.
typedef struct Along {
    uint32_t spatial;
    int64_t extent, stride, before, behind;
} Along;

static Along along(const Streamer *s, const Node *n, uint32_t axis)
{
    rlx_assert(axis >= 2);
    const WindowForm form = window_form(n);
    const AttrVal *kernel = node_find_attr(n, "kernel");
    const uint32_t i = axis - 2, n_spatial = n->shape->rank - 2;
    const int64_t taps =
        kernel != NULL ? kernel->u.ints[i] : graph_node(s->whole, n->src[1])->shape->dim[axis];
    return (Along){i, form.dilation[i] * (taps - 1) + 1, form.stride[i], form.pad[i],
                   form.pad[n_spatial + i]};
}

// The op with other pads along the axis: `before`, `behind`, and `extra` of the output.
static NodeId with_pads(Streamer *s, const Node *n, const NodeId *src, const int64_t *pads)
{
    enum { MAX_SPATIAL = 3 };
    const uint32_t axis = s->flow[n->src[0]].axis, n_spatial = n->shape->rank - 2;
    const AttrVal *old = node_find_attr(n, "pads"), *extra = node_find_attr(n, "output_padding");
    int64_t all[2 * MAX_SPATIAL], more[MAX_SPATIAL];
    rlx_assert(n_spatial <= MAX_SPATIAL);
    for (uint32_t i = 0; i < 2 * n_spatial; i++)
        all[i] = i % n_spatial == axis - 2 ? pads[i / n_spatial] : old->u.ints[i];
    NodeBuild b = node_copy_begin(s->step, s->whole, s->id);
    for (uint32_t i = 0; i < n->n_src; i++)
        node_src(&b, src[i]);
    node_ints(&b, old->id, all, 2 * n_spatial);
    for (uint32_t i = 0; extra != NULL && i < n_spatial; i++)
        more[i] = i == axis - 2 ? pads[2] : extra->u.ints[i];
    if (extra != NULL)
        node_ints(&b, extra->id, more, n_spatial);
    return node_end(&b);
}

static NodeId make_valid(Streamer *s, const Node *n, const NodeId *src, int64_t frames)
{
    (void)frames;
    return with_pads(s, n, src, (const int64_t[]){0, 0, 0});
}

// What padding holds, as a constant: 0, the zero point, or what is less than all. False: reported.
static bool padding(Streamer *s, const Node *n, NodeId *value)
{
    enum { X_ZERO = 3 };
    const AttrVal *counts = node_find_attr(n, "count_include_pad");
    const bool is_pool = node_find_attr(n, "kernel") != NULL;
    *value = 0;
    if (is_pool && counts == NULL)
        *value = graph_scalar(s->step, (DType)n->dtype, -(double)INFINITY, (Span){0});
    else if (is_pool && counts->u.i == 0)
        return stream_refuse(s, "means at the begin have fewer elements (count_include_pad is false)");
    else if (!is_pool && n->n_src > X_ZERO)
        *value = s->flow[n->src[X_ZERO]].now;
    return *value == 0 || node_is_const(s->step, *value) ||
           stream_refuse(s, "the value of its padding is no constant");
}

static bool lead_padding(Streamer *s, const Node *n, Flow *f, int64_t before)
{
    NodeId value = 0;
    Shape shape = *graph_node(s->step, f->now)->shape;
    shape.dim[f->axis] = before;
    return before == 0 ||
           (padding(s, n, &value) &&
            stream_lead(s, f, stream_filled(s, (DType)graph_node(s->step, f->now)->dtype, &shape, value)));
}

// Every image is treated for itself, and pools treat every channel for itself.
static bool is_apart(const Node *n, uint32_t axis)
{
    return axis == 0 || (axis == 1 && node_find_attr(n, "kernel") != NULL);
}

bool stream_window(Streamer *s, const Node *n, Flow *out)
{
    Flow *in = stream_operands(s, n);
    const uint32_t axis = in[0].axis;
    for (uint32_t i = 1; i < n->n_src; i++)
        if (in[i].kind == FLOW_FRAMES)
            return stream_refuse(s, "its weights have the axis");
    if (is_apart(n, axis))
        return stream_apply(s, n, in, axis, NULL, out);
    if (axis == 1)
        return stream_refuse(s, "it sums along the axis");
    const Along w = along(s, n, axis);
    if (n->shape->dim[axis] == 1 && stream_total(s, n->src[0], &in[0]) > 1 && w.before == 0 &&
        w.extent == stream_total(s, n->src[0], &in[0]))
        return stream_refuse(
            s, "its window is the whole axis, so there is a result only when the stream ends. Cut "
               "the model before it (rlxc cut --to)");
    return lead_padding(s, n, &in[0], w.before) && stream_slide(s, &in[0], w.extent, w.stride) &&
           stream_apply(s, n, in, axis, make_valid, out);
}

// --- transposed convolutions ---------------------------------------------------------------------

// Frame i of x is spread over the frames i * stride .. + extent - 1 of the result, whose first `before` are
// cut off. Those that later frames of x cannot change are complete.
static NodeId make_spread(Streamer *s, const Node *n, const NodeId *src, int64_t frames)
{
    const Along w = along(s, n, s->flow[n->src[0]].axis);
    const int64_t history = (w.extent - 1) / w.stride, rest = w.extent - w.stride;
    (void)frames;
    return with_pads(s, n, src,
                     (const int64_t[]){history * w.stride, rest > 0 ? rest : 0, rest < 0 ? -rest : 0});
}

bool stream_spread(Streamer *s, const Node *n, Flow *out)
{
    Flow *in = stream_operands(s, n);
    const uint32_t axis = in[0].axis;
    if (in[1].kind == FLOW_FRAMES || (n->n_src > 2 && in[2].kind == FLOW_FRAMES))
        return stream_refuse(s, "its weights have the axis");
    if (axis == 0)
        return stream_apply(s, n, in, axis, NULL, out);
    if (axis == 1)
        return stream_refuse(s, "it sums along the axis");
    const Along w = along(s, n, axis);
    if (in[0].late < 0 && !stream_delay(s, &in[0], 0))
        return false;
    const int64_t late = in[0].late, frames = in[0].frames;
    NodeId fill = stream_filled(s, (DType)n->dtype, &(Shape){0}, 0), joined = 0;
    stream_mask(s, &in[0], fill);
    if (!stream_history(s, &in[0], (w.extent - 1) / w.stride, &joined))
        return false;
    in[0].now = joined;
    if (!stream_apply(s, n, in, axis, make_spread, out))
        return false;
    out->frames = frames * w.stride;
    out->late = late * w.stride + w.before;
    return true;
}
