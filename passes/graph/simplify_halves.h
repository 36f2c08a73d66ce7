// SPDX-License-Identifier: Apache-2.0
// Convolutions of 16-bit operands by bytes, where integers are cheap. Importers write them as two sums of
// bytes, of which the upper one counts 256 times, in i64. Where the weights show that i32 holds the sum, it
// is computed in i32; with one input channel in each group it is a single one of 16-bit operands.
#ifndef PASSES_GRAPH_SIMPLIFY_HALVES_H
#define PASSES_GRAPH_SIMPLIFY_HALVES_H

#include "ir/graph/graph.h"

// For the node that adds both sums, or a bias to them: a better one of the same value, or id itself.
NodeId simplify_halves(Graph *g, NodeId id);

#endif
