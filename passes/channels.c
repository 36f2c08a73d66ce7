// SPDX-License-Identifier: Apache-2.0
// Channels: gives convolutions on matrix units of GPUs operands whose channels fill whole chunks of 16 bytes,
// by zeros at the end, where the model has others (images of 3 colours). The weights are constants, so that
// theirs cost nothing at run time; the input's are written by one kernel, in the order in which the
// convolution reads it (pass_layout).
#include "passes/bodies.h"

enum { CHUNK = 8, MIN_OUTPUTS = 16, MIN_TAPS = 4 };

static bool is_ragged(const Graph *g, const Node *n)
{
    if (n->op != OP_conv || !k_is_half(n->dtype) || node_get_int(n, A_conv_group) != 1 ||
        node_get_int(n, A_conv_shuffle) != 1 || !node_is_const(g, n->src[1]))
        return false;
    const Shape *w = graph_node(g, n->src[1])->shape;
    int64_t taps = 1;
    for (uint32_t i = 2; i < w->rank; i++)
        taps *= w->dim[i];
    return w->rank <= 4 && w->dim[1] % CHUNK != 0 && w->dim[0] >= MIN_OUTPUTS && taps >= MIN_TAPS &&
           graph_node(g, n->src[0])->dtype == n->dtype && graph_node(g, n->src[1])->dtype == n->dtype;
}

static NodeId pad_channels(Graph *g, NodeId id, int64_t by, Span span)
{
    const Node *n = graph_node(g, id);
    int64_t pads[2 * SHAPE_MAX_RANK] = {0};
    const uint32_t rank = n->shape->rank;
    pads[rank + 1] = by;
    NodeBuild b = node_begin(g, OP_pad, span, g->labels.data[id]);
    node_src(&b, id);
    node_ints(&b, A_pad_pads, pads, 2 * rank);
    return node_end(&b);
}

static NodeId step_channels(Graph *g, NodeId id, void *ctx)
{
    (void)ctx;
    const Node n = *graph_node(g, id);
    if (!is_ragged(g, &n))
        return id;
    const int64_t channels = graph_node(g, n.src[1])->shape->dim[1];
    const int64_t by = (channels + CHUNK - 1) / CHUNK * CHUNK - channels;
    NodeId src[3] = {0};
    for (uint32_t i = 0; i < n.n_src; i++)
        src[i] = i < 2 ? pad_channels(g, n.src[i], by, node_span(g, id)) : n.src[i];
    return graph_clone_node(g, g, id, src);
}

bool pass_channels(Pass *p)
{
    const uint32_t errors = p->diag->n_errors;
    if (!p->options->caps->has_mma)
        return false;
    const bool changed = graph_rewrite(p->graph, step_channels, NULL);
    p->failed = p->diag->n_errors != errors;
    return bodies_run(p, pass_channels) || changed;
}
