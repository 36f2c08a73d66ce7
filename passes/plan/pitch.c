// SPDX-License-Identifier: Apache-2.0
// Gaps between the pixels of channels-last values; see pitch.h. A 1x1 convolution over pixels 4096 bytes
// apart measured 79 % of the peak without a gap, 99 % with one. That is of CPUs: on GPUs a gap only makes a
// copy where the value leaves the model.
#include "passes/plan/pitch.h"

#include "ir/shape/forms.h"

// Pixels at a multiple of this distance share a few sets of the first-level cache.
static int64_t alias_bytes(const Plan *p)
{
    return p->caps->cpu.way_bytes / 2;
}

// Largest step between the pixels that windows of readers take. 0: a reader wants dense memory.
static int64_t reader_step(const Plan *p, const Uses *u, NodeId id)
{
    int64_t step = 1;
    for (uint32_t i = u->first[id]; i < u->first[id + 1]; i++) {
        const Node *n = u->user[i] == 0 ? NULL : graph_node(p->graph, u->user[i]);
        if (n != NULL && op_is_view_of_rows((OpId)n->op))
            return 0;
        const WindowForm conv = n != NULL ? conv_form(n) : (WindowForm){0};
        if (conv.group == 0 || n->src[0] != id)
            continue;
        const Shape *w = graph_node(p->graph, n->src[1])->shape;
        const int64_t stride = conv.stride[n->shape->rank - 3];
        if (w->dim[w->rank - 1] > 1 && stride > step && stride <= alias_bytes(p))
            step = stride;
    }
    return step;
}

int64_t pitch_gap(const Plan *p, const Uses *u, NodeId id)
{
    rlx_assert(id != 0 && id < p->orders.len);
    const Node *n = graph_node(p->graph, id);
    const int64_t bytes = dtype_info[n->dtype].bytes;
    if (p->caps->is_gpu || p->orders.data[id] != ORDER_CHANNELS_LAST || n->shape->rank < 3 ||
        n->shape->dim[1] == 0)
        return 0;
    const int64_t channels = n->shape->dim[1], pixels = shape_numel(n->shape) / channels;
    if (pixels <= 1 || channels * bytes < alias_bytes(p) / 2 ||
        channels * bytes * reader_step(p, u, id) % alias_bytes(p) != 0)
        return 0;
    return reader_step(p, u, id) == 0 ? 0 : CACHE_LINE / bytes;
}
