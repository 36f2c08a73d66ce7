// SPDX-License-Identifier: Apache-2.0
// Schedules for matrix registers know images, not volumes. A convolution over a volume is one over
// images: each slice of the result is one, and the slices of the input under its window are groups of
// channels. They are copied, a few bytes for each tap, where floats would take four bytes and several sums.
// Where windows have one row and one column, rows and columns are one axis of the image instead, and nothing
// is copied.
#include "passes/graph/bytes_volume.h"
#include "ir/shape/forms.h"
#include "passes/graph/fold.h"

enum { VOLUME_RANK = 5, DEPTH = 2, SPATIAL = 3 };

static bool has_flat_windows(const WindowForm *f, const Shape *w)
{
    bool is_flat = true;
    for (uint32_t i = 1; i < SPATIAL; i++)
        is_flat = is_flat && w->dim[i + 2] == 1 && f->stride[i] == 1 && f->pad[i] == 0 &&
                  f->pad[SPATIAL + i] == 0;
    return is_flat;
}

// The last two axes as one.
static NodeId flattened(Graph *g, NodeId id)
{
    const Shape s = *graph_node(g, id)->shape;
    const Shape flat = {.rank = VOLUME_RANK - 1, .dim = {s.dim[0], s.dim[1], s.dim[2], s.dim[3] * s.dim[4]}};
    return graph_reshape(g, id, &flat);
}

bool bytes_volume_fits(const Graph *g, NodeId id)
{
    const Node *n = graph_node(g, id);
    const Shape *x = graph_node(g, n->src[0])->shape, *w = graph_node(g, n->src[1])->shape;
    const NodeId zero = n->n_src > 3 ? n->src[3] : 0;
    if (x->rank != VOLUME_RANK || !shape_is_const(x) || !shape_is_const(w) || !node_is_const(g, n->src[1]) ||
        shape_numel(n->shape) == 0 || shape_numel(w) <= w->dim[0] * w->dim[1])
        return false; // of windows with one element, floats take one sum
    const WindowForm form = window_form(n);
    return has_flat_windows(&form, w) || ((form.group == 1 || w->dim[DEPTH] == 1) &&
                                          (zero == 0 || shape_numel(graph_node(g, zero)->shape) == 1));
}

static NodeId padded(Graph *g, NodeId x, NodeId zero, int64_t begin, int64_t end)
{
    int64_t pads[2 * VOLUME_RANK] = {[DEPTH] = begin, [VOLUME_RANK + DEPTH] = end};
    if (begin == 0 && end == 0)
        return x;
    NodeBuild b = node_begin(g, OP_pad, node_span(g, x), g->labels.data[x]);
    node_src(&b, x);
    if (zero != 0)
        node_src(&b, graph_reshape(g, zero, &(Shape){0}));
    node_ints(&b, A_pad_pads, pads, 2 * VOLUME_RANK);
    return node_end(&b);
}

static NodeId slices(Graph *g, NodeId x, int64_t from, int64_t n, int64_t step)
{
    return graph_slice(g, x, DEPTH, from, from + (n - 1) * step + 1, step);
}

// Depth before channels, or back.
static NodeId turned(Graph *g, NodeId id)
{
    return graph_transpose(g, id, (const int64_t[VOLUME_RANK]){0, 2, 1, 3, 4});
}

// A transposed value with its second axis joined to the first one, or to the third one.
static NodeId joined(Graph *g, NodeId id, bool to_first)
{
    const Shape s = *graph_node(g, id)->shape;
    Shape out = {.rank = VOLUME_RANK - 1, .dim = {s.dim[0], s.dim[1], s.dim[2], s.dim[3], 0}};
    out.dim[0] = to_first ? s.dim[0] * s.dim[1] : s.dim[0];
    out.dim[1] = to_first ? s.dim[2] : s.dim[1] * s.dim[2];
    out.dim[2] = s.dim[3];
    out.dim[3] = s.dim[4];
    return graph_reshape(g, id, &out);
}

static NodeId input_images(Graph *g, NodeId id, const WindowForm *f)
{
    const Node n = *graph_node(g, id);
    const int64_t taps = graph_node(g, n.src[1])->shape->dim[DEPTH], count = n.shape->dim[DEPTH];
    const NodeId x = padded(g, n.src[0], n.n_src > 3 ? n.src[3] : 0, f->pad[0], f->pad[SPATIAL]);
    if (taps == 1)
        return joined(g, turned(g, slices(g, x, 0, count, f->stride[0])), true);
    NodeBuild b = node_begin(g, OP_concat, node_span(g, id), g->labels.data[id]);
    for (int64_t t = 0; t < taps; t++)
        node_src(&b, slices(g, x, t * f->dilation[0], count, f->stride[0]));
    node_int(&b, A_concat_axis, 1);
    return joined(g, turned(g, node_end(&b)), true);
}

VolumeImages bytes_volume_images(Graph *g, NodeId id)
{
    rlx_assert(bytes_volume_fits(g, id));
    const Node n = *graph_node(g, id);
    const WindowForm form = window_form(&n);
    if (has_flat_windows(&form, graph_node(g, n.src[1])->shape)) {
        const NodeId flat = fold_node(g, flattened(g, n.src[1]));
        return (VolumeImages){flattened(g, n.src[0]), flat, {0, 2}};
    }
    const NodeId w = fold_node(g, joined(g, fold_node(g, turned(g, n.src[1])), false));
    return (VolumeImages){input_images(g, id, &form), w, {1, 2}};
}

NodeId bytes_volume_of(Graph *g, NodeId id, NodeId images)
{
    const Node n = *graph_node(g, id);
    const Shape s = *n.shape;
    const Shape apart = {.rank = VOLUME_RANK, .dim = {s.dim[0], s.dim[2], s.dim[1], s.dim[3], s.dim[4]}};
    const WindowForm form = window_form(&n);
    rlx_assert(s.rank == VOLUME_RANK);
    if (has_flat_windows(&form, graph_node(g, n.src[1])->shape))
        return graph_reshape(g, images, &s);
    return turned(g, graph_reshape(g, images, &apart));
}
