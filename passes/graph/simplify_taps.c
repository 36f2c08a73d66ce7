// SPDX-License-Identifier: Apache-2.0
// Takes out the first and last taps of a convolution that read outside of the image for every output: taps
// further apart than the image is wide, as where a network for large images is given a small one. The padding
// of a convolution is never read, so that nothing changes.
#include "ir/shape/forms.h"
#include "passes/graph/simplify.h"

// Does tap `i` of the axis read inside of the image for some output? (Where strides step over the image, one
// that does not may count as one that does.)
static bool is_read(const WindowAxis *x, int64_t i)
{
    const int64_t first = i * x->dilation - x->pad, last = first + (x->out - 1) * x->stride;
    return first < x->in && last >= 0;
}

typedef struct Taps {
    int64_t first, end; // those that stay
} Taps;

// pads: of the axis, which stay above 0.
static Taps taps_of(const WindowAxis *x, int64_t *begin_pad, int64_t *end_pad)
{
    Taps t = {0, x->kernel};
    for (; t.end - t.first > 1 && !is_read(x, t.first) && *begin_pad >= x->dilation; t.first++)
        *begin_pad -= x->dilation;
    for (; t.end - t.first > 1 && !is_read(x, t.end - 1) && *end_pad >= x->dilation; t.end--)
        *end_pad -= x->dilation;
    return t;
}

NodeId simplify_taps(const Simplify *s, NodeId id)
{
    Graph *g = s->g;
    const Node n = *graph_node(g, id);
    const uint32_t spatial = n.shape->rank - 2;
    int64_t pads[2 * SHAPE_MAX_RANK] = {0};
    NodeId w = n.src[1];
    rlx_assert(conv_form(&n).stride != NULL && n.shape->rank >= 3);
    if (!shape_is_const(n.shape) || !shape_is_const(graph_node(g, n.src[0])->shape) ||
        !shape_is_const(graph_node(g, w)->shape) || shape_numel(n.shape) == 0)
        return id;
    for (uint32_t i = 0; i < spatial; i++) {
        const WindowAxis x = conv_axis(g, &n, i);
        pads[i] = x.pad;
        pads[spatial + i] = conv_form(&n).pad[spatial + i];
        const Taps t = taps_of(&x, &pads[i], &pads[spatial + i]);
        if (t.end - t.first == x.kernel)
            continue;
        NodeBuild b = node_begin(g, OP_slice, node_span(g, id), g->labels.data[id]);
        node_slice(&b, w, i + 2, t.first, t.end, 1);
        w = node_end(&b);
    }
    const NodeId src[3] = {n.src[0], w, n.n_src > 2 ? n.src[2] : 0};
    return w == n.src[1] ? id : conv_rebuild(g, id, src, pads);
}
