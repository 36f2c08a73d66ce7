// SPDX-License-Identifier: Apache-2.0
// Frames: writes the padding of an image along its last axis where a convolution's kernel is long there, or
// its taps lie far apart (speech, dilated and separable kernels). The tiles of CPUs that touch a border have
// text of their own, which would then be most of the text, and most of the time; without a border, one loop
// over the taps serves all pixels. Short kernels keep their padding, which costs them nothing.
#include "ir/shape/forms.h"
#include "passes/pass.h"

static bool wants_frame(const Graph *g, const Node *n)
{
    if (conv_form(n).stride == NULL || !shape_is_const(n->shape) || shape_numel(n->shape) == 0)
        return false;
    const WindowAxis x = conv_axis(g, n, n->shape->rank - 3);
    const int64_t edges = window_low_edge(&x) + window_high_edge(&x);
    const bool is_depthwise = conv_is_depthwise(g, n);
    const int64_t most = is_depthwise ? DEPTHWISE_MAX_TAPS : CONV_MAX_TAPS;
    return edges > 0 && (n->dtype == DTYPE_f32 || k_is_half(n->dtype)) &&
           (x.kernel > most || edges > CONV_MAX_EDGES ||
            (is_depthwise && (x.dilation > DEPTHWISE_MAX_DILATION || x.stride > DEPTHWISE_MAX_STRIDE)));
}

static NodeId step_frames(Graph *g, NodeId id, void *ctx)
{
    (void)ctx;
    const Node n = *graph_node(g, id);
    if (!wants_frame(g, &n) || !shape_is_const(graph_node(g, n.src[0])->shape))
        return id;
    const uint32_t rank = n.shape->rank, spatial = rank - 2;
    int64_t added[2 * SHAPE_MAX_RANK] = {0}, pads[2 * SHAPE_MAX_RANK] = {0};
    for (uint32_t i = 0; i < 2 * spatial; i++)
        pads[i] = conv_form(&n).pad[i];
    added[rank - 1] = pads[spatial - 1];
    added[2 * rank - 1] = pads[2 * spatial - 1];
    pads[spatial - 1] = pads[2 * spatial - 1] = 0;
    NodeBuild b = node_begin(g, OP_pad, node_span(g, id), g->labels.data[id]);
    node_src(&b, n.src[0]);
    node_ints(&b, A_pad_pads, added, 2 * rank);
    const NodeId x = node_end(&b);
    return conv_rebuild(g, id, (NodeId[]){x, n.src[1], n.n_src > 2 ? n.src[2] : 0}, pads);
}

bool pass_frames(Pass *p)
{
    rlx_assert(p->plan == NULL && !p->failed);
    const uint32_t errors = p->diag->n_errors;
    if (p->options->caps->is_gpu || p->options->caps->f32_lanes == 1)
        return false;
    const bool changed = graph_rewrite(p->graph, step_frames, NULL);
    p->failed = p->diag->n_errors != errors;
    return changed;
}
