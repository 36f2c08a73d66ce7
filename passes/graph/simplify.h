// SPDX-License-Identifier: Apache-2.0
// What the structural simplifications share. Each is a function that looks at one node, whose operands are
// already simplified, and returns what computes the same value in a better way, or the node itself.
// simplify.c calls them by op, and takes a replacement only when it does not raise the cost of the graph.
#ifndef PASSES_GRAPH_SIMPLIFY_H
#define PASSES_GRAPH_SIMPLIFY_H

#include "passes/pass.h"

typedef struct Simplify {
    Graph *g;
    Arena *scratch;
    const TargetCaps *caps;
    const uint32_t
        *uses; // by NodeId, of the nodes up to the one at hand: how many operands, outputs, states read it
} Simplify;

typedef NodeId (*SimplifyFn)(const Simplify *s, NodeId id);

// simplify_views.c: what moves no numbers, or moves them back
NodeId simplify_reshape(const Simplify *s, NodeId id);
NodeId simplify_transpose(const Simplify *s, NodeId id);
NodeId simplify_expand(const Simplify *s, NodeId id);
NodeId simplify_cast(const Simplify *s, NodeId id);
NodeId simplify_bitcast(const Simplify *s, NodeId id);
NodeId simplify_copy(const Simplify *s, NodeId id);
NodeId simplify_reduce(const Simplify *s, NodeId id);
// An elementwise op spreads its operands itself.
NodeId simplify_broadcast(const Simplify *s, NodeId id);

// simplify_parts.c: parts of values
NodeId simplify_slice(const Simplify *s, NodeId id);
NodeId simplify_concat(const Simplify *s, NodeId id);
NodeId simplify_gather(const Simplify *s, NodeId id);
NodeId simplify_pad(const Simplify *s, NodeId id);
// Blocks of rows that a gather has chosen.
NodeId simplify_block_decode(const Simplify *s, NodeId id);

// simplify_window.c: pads into the window after them, wide windows
NodeId simplify_window_pad(const Simplify *s, NodeId id);
// A convolution of one tap for each channel as a scale of these channels.
NodeId simplify_scale_conv(const Simplify *s, NodeId id);
// Taps of a convolution that never read inside of the image.
NodeId simplify_taps(const Simplify *s, NodeId id);
// A maximum over a wide window as maxima of smaller ones.
NodeId simplify_max_pool(const Simplify *s, NodeId id);

// simplify_shuffle.c: shuffles of channels into the convolution after them
NodeId simplify_shuffle(const Simplify *s, NodeId id);
// An elementwise op with constants comes before the shuffle of its other operand.
NodeId simplify_shuffled(const Simplify *s, NodeId id);

// simplify_rows.c: what follows products of rows of bytes comes before the reshape behind them
NodeId simplify_rows(const Simplify *s, NodeId id);

// simplify_weights.c: constants behind a convolution or matmul into its weights
NodeId simplify_weights(const Simplify *s, NodeId id);

// simplify_scale.c: a number that multiplies the larger operand of a product multiplies the smaller
NodeId simplify_scaled_product(const Simplify *s, NodeId id);

// simplify_transposes.c: transposes into matmul, and through elementwise ops until they meet another
NodeId simplify_matmul(const Simplify *s, NodeId id);
NodeId simplify_transposes(const Simplify *s, NodeId id);
// What turns the merged parts of an attention without moving the last axis turns the parts instead: the merge
// reads them where they are, and no copy is made behind it. The node that takes its place, or id.
NodeId simplify_turned_merge(Graph *g, NodeId id);

// simplify_cache.c: keys and values of attention that have been widened
NodeId simplify_cached_attention(const Simplify *s, NodeId id);

// simplify_attention.c: attention that is spelled out, from its second product
NodeId simplify_spelled_attention(const Simplify *s, NodeId id);

// A node under construction with span and label of another.
static inline NodeBuild simplify_begin(const Simplify *s, OpId op, NodeId like)
{
    return node_begin(s->g, op, node_span(s->g, like), s->g->labels.data[like]);
}

#endif
