// SPDX-License-Identifier: Apache-2.0
// Attention of few queries over many keys on GPUs becomes parts and their merge: one group of threads for
// each key head would leave most of the device idle.
#include "ir/shape/forms.h"
#include "passes/lower/attention/attention.h"

static NodeId step_split(Graph *g, NodeId id, void *ctx)
{
    const Node n = *graph_node(g, id);
    const AttentionForm form = attention_form(&n);
    const int64_t splits = form.is_there && form.splits == 0 ? attention_count_splits(ctx, g, &n) : 1;
    if (splits < 2)
        return id;
    NodeBuild b = node_begin(g, OP_attention_part, node_span(g, id), g->labels.data[id]);
    for (uint32_t i = 0; i < n.n_src; i++)
        node_src(&b, n.src[i]);
    node_copy_attrs(&b, &n);
    node_int(&b, A_attention_part_splits, splits);
    const NodeId part = node_end(&b);
    NodeBuild m = node_begin(g, OP_attention_merge, node_span(g, id), g->labels.data[id]);
    node_src(&m, part);
    node_int(&m, A_attention_merge_to, n.dtype);
    node_int(&m, A_attention_merge_guard, form.is_guarded);
    return node_end(&m);
}

bool pass_splits(Pass *p)
{
    TargetCaps caps = *p->options->caps;
    return caps.is_gpu && graph_rewrite(p->graph, step_split, &caps);
}
