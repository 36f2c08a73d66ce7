// SPDX-License-Identifier: Apache-2.0
// Channels: gives convolutions on matrix units of GPUs operands whose channels fill whole chunks of 16 bytes,
// by zeros at the end, where the model has others (images of 3 colours). Where few channels and the stride
// allow it, the taps of a row of the kernel fill the chunks instead (gpu_conv.c joins them): channels to FEW,
// taps to two or eight, and the frame of the image along that axis is written as well, since the copy
// engine knows of none inside of joined taps. The weights are constants, so that theirs cost nothing at run
// time; the input's are written by one kernel, in the order in which the convolution reads it (pass_layout).
#include "ir/shape/forms.h"
#include "passes/pass.h"

enum {
    CHUNK = 8,
    FEW = 4,
    MIN_OUTPUTS = 16,
    MIN_TAPS = 4,
    MOST_OF_SLICE = 32 // steps of k that a product of windows multiplies at once, faster than a copy is made
};

static bool is_ragged(const Graph *g, const Node *n)
{
    const WindowForm conv = conv_form(n);
    if (conv.group != 1 || conv.shuffle != 1 || !k_is_half(n->dtype) || !node_is_const(g, n->src[1]))
        return false;
    const Shape *w = graph_node(g, n->src[1])->shape;
    int64_t taps = 1;
    for (uint32_t i = 2; i < w->rank; i++)
        taps *= w->dim[i];
    return w->rank <= 4 && w->dim[1] % CHUNK != 0 && w->dim[0] >= MIN_OUTPUTS && taps >= MIN_TAPS &&
           w->dim[1] * taps > MOST_OF_SLICE &&
           graph_node(g, n->src[0])->dtype == n->dtype && graph_node(g, n->src[1])->dtype == n->dtype;
}

// What is added: channels, and along the last axis at both ends.
typedef struct Added {
    int64_t channels, begin, end;
} Added;

static NodeId pad_by(Graph *g, NodeId id, const Added *by, Span span)
{
    const Node *n = graph_node(g, id);
    int64_t pads[2 * SHAPE_MAX_RANK] = {0};
    const uint32_t rank = n->shape->rank;
    pads[rank + 1] = by->channels;
    pads[rank - 1] = by->begin;
    pads[2 * rank - 1] = by->end;
    NodeBuild b = node_begin(g, OP_pad, span, g->labels.data[id]);
    node_src(&b, id);
    node_ints(&b, A_pad_pads, pads, 2 * rank);
    return node_end(&b);
}

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

// Can the taps of a row be joined, with steps of whole chunks from one output to the next?
static bool joins_taps(const Graph *g, const Node *n)
{
    const Shape *w = graph_node(g, n->src[1])->shape, *x = graph_node(g, n->src[0])->shape;
    const WindowForm conv = conv_form(n);
    const uint32_t axis = w->rank - 3;
    return w->dim[1] <= FEW && w->dim[w->rank - 1] > 1 && w->dim[w->rank - 1] <= CHUNK &&
           conv.stride[axis] * FEW % CHUNK == 0 && conv.dilation[axis] == 1 &&
           dim_is_const(x->dim[x->rank - 1]);
}

// The convolution of these operands, without pads at the ends of the last axis.
static NodeId without_frame(Graph *g, NodeId id, const NodeId *src)
{
    const Node n = *graph_node(g, id);
    const uint32_t spatial = n.shape->rank - 2;
    int64_t pads[2 * SHAPE_MAX_RANK] = {0};
    for (uint32_t i = 0; i < 2 * spatial; i++)
        pads[i] = i % spatial + 1 == spatial ? 0 : conv_form(&n).pad[i];
    return conv_rebuild(g, id, src, pads);
}

static NodeId step_channels(Graph *g, NodeId id, void *ctx)
{
    (void)ctx;
    const Node n = *graph_node(g, id);
    if (!is_ragged(g, &n))
        return id;
    const Shape *w = graph_node(g, n.src[1])->shape, *x = graph_node(g, n.src[0])->shape;
    const uint32_t last = w->rank - 1;
    const bool joined = joins_taps(g, &n);
    Added of_x = {.channels = round_up(w->dim[1], joined ? FEW : CHUNK) - w->dim[1]}, of_w = of_x;
    if (joined) {
        const int64_t taps = round_up(w->dim[last], w->dim[last] > 2 ? CHUNK : 2);
        const int64_t width = (n.shape->dim[last] - 1) * conv_form(&n).stride[last - 2] + taps;
        of_w.end = taps - w->dim[last];
        of_x.begin = conv_form(&n).pad[last - 2];
        of_x.end = width - x->dim[last] - of_x.begin;
    }
    NodeId src[3] = {pad_by(g, n.src[0], &of_x, node_span(g, id)),
                     pad_by(g, n.src[1], &of_w, node_span(g, id)), n.n_src > 2 ? n.src[2] : 0};
    return joined ? without_frame(g, id, src) : graph_clone_node(g, g, id, src);
}

bool pass_channels(Pass *p)
{
    rlx_assert(p->plan == NULL && !p->failed);
    const uint32_t errors = p->diag->n_errors;
    if (!p->options->caps->has_mma)
        return false;
    const bool changed = graph_rewrite(p->graph, step_channels, NULL);
    p->failed = p->diag->n_errors != errors;
    return changed;
}
