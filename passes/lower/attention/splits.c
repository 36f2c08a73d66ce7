// SPDX-License-Identifier: Apache-2.0
// Attention of few queries over many keys on GPUs becomes parts and their merge: one group of threads for
// each key head would leave most of the device idle. And where a mask hides most keys, attention gets the
// blocks of keys that are left.
#include "ir/shape/forms.h"
#include "passes/graph/simplify.h"
#include "passes/lower/attention/attention.h"

enum {
    BLOCKS_SRC = 6,  // which operand they are
    MAX_LISTED = 256 // queries, each with blocks of its own, on a CPU
};

// Blocks that a model names are not believed: their numbers are places in memory.
static NodeId step_forget(Graph *g, NodeId id, void *ctx)
{
    const Node n = *graph_node(g, id);
    (void)ctx;
    if (!attention_form(&n).is_there || n.n_src <= BLOCKS_SRC)
        return id;
    NodeBuild b = node_begin(g, n.op, node_span(g, id), g->labels.data[id]);
    for (uint32_t i = 0; i < BLOCKS_SRC; i++)
        node_src(&b, n.src[i]);
    node_copy_attrs(&b, &n);
    return node_end(&b);
}

// The blocks of keys that a mask leaves, once for all layers that have the mask.
// n_src: operands that are there.
static void add_blocks(Graph *g, NodeBuild *attention, uint32_t n_src, NodeId mask)
{
    NodeBuild b = node_begin(g, OP_seen_blocks, node_span(g, mask), g->labels.data[mask]);
    node_src(&b, mask);
    node_int(&b, A_seen_blocks_block, ATTENTION_BLOCK);
    const NodeId blocks = node_end(&b);
    for (; n_src < BLOCKS_SRC; n_src++)
        node_src(attention, 0);
    node_src(attention, blocks);
}

static NodeId step_split(Graph *g, NodeId id, void *ctx)
{
    const Node n = *graph_node(g, id);
    const AttentionForm form = attention_form(&n);
    const int64_t splits = form.is_there && form.splits == 0 ? attention_count_splits(ctx, g, &n) : 0;
    if (splits < 1)
        return id;
    NodeBuild b = node_begin(g, OP_attention_part, node_span(g, id), g->labels.data[id]);
    for (uint32_t i = 0; i < n.n_src; i++)
        node_src(&b, n.src[i]);
    if (attention_is_sparse(g, &n))
        add_blocks(g, &b, n.n_src, n.src[3]);
    node_copy_attrs(&b, &n);
    node_int(&b, A_attention_part_splits, splits);
    const NodeId part = node_end(&b);
    NodeBuild m = node_begin(g, OP_attention_merge, node_span(g, id), g->labels.data[id]);
    node_src(&m, part);
    node_int(&m, A_attention_merge_to, n.dtype);
    node_int(&m, A_attention_merge_guard, form.is_guarded);
    return node_end(&m);
}

static NodeId step_turn(Graph *g, NodeId id, void *ctx)
{
    (void)ctx;
    return simplify_turned_merge(g, id);
}

// On CPUs attention reads the blocks of keys alone that a mask leaves. Many queries stay together, in blocks
// of rows that read all keys.
static NodeId step_blocks(Graph *g, NodeId id, void *ctx)
{
    const Node n = *graph_node(g, id);
    (void)ctx;
    const AttentionForm form = attention_form(&n);
    if (!form.is_there || form.splits != 0 || n.n_src > BLOCKS_SRC || !attention_is_sparse(g, &n))
        return id;
    const Shape *q = graph_node(g, n.src[0])->shape;
    if (q->dim[q->rank - 2] > MAX_LISTED)
        return id;
    NodeBuild b = node_begin(g, n.op, node_span(g, id), g->labels.data[id]);
    for (uint32_t i = 0; i < n.n_src; i++)
        node_src(&b, n.src[i]);
    add_blocks(g, &b, n.n_src, n.src[3]);
    node_copy_attrs(&b, &n);
    return node_end(&b);
}

bool pass_splits(Pass *p)
{
    TargetCaps caps = *p->options->caps;
    const bool forgets = graph_rewrite(p->graph, step_forget, &caps);
    const bool changes = graph_rewrite(p->graph, caps.is_gpu ? step_split : step_blocks, &caps) || forgets;
    return (caps.is_gpu && changes && graph_rewrite(p->graph, step_turn, &caps)) || changes;
}
