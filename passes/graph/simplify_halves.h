// SPDX-License-Identifier: Apache-2.0
// Convolutions of 16-bit operands by bytes, where integers are cheap. Importers write them as two sums of
// bytes, of which the upper one counts 256 times, in i64. Where the weights show that i32 holds the sum, it
// is computed in i32; and as a single one of 16-bit operands, unless vectors of bytes are faster.
#ifndef PASSES_GRAPH_SIMPLIFY_HALVES_H
#define PASSES_GRAPH_SIMPLIFY_HALVES_H

#include "ir/graph/graph.h"
#include "ir/kernel/kernel.h"

// For the node that adds both sums, or a bias to them: a better one of the same value, or id itself.
NodeId simplify_halves(Graph *g, NodeId id, const TargetCaps *caps);

// What follows an i32 sum of products in i64: sum * factor + half >> shift, with a factor and a shift for
// each channel, as importers write it. One shift for all channels that is 32 or more leaves the upper word of
// a product, which is one or two instructions, and a clamp behind it is done in i32. For the shift, or the
// cast behind the clamp: a better node of the same value, or id itself.
NodeId simplify_shifts(Graph *g, NodeId id);

#endif
