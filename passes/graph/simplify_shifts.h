// SPDX-License-Identifier: Apache-2.0
// What follows an i32 sum of products in i64, where integers are cheap: sum * factor + half >> shift, with a
// factor and a shift for each channel, as importers write it. One shift for all channels that is 32 or more
// leaves the upper word of a product, which is one or two instructions, and a clamp behind it is done in i32.
#ifndef PASSES_GRAPH_SIMPLIFY_SHIFTS_H
#define PASSES_GRAPH_SIMPLIFY_SHIFTS_H

#include "ir/graph/graph.h"

// For the shift, or the cast behind the clamp: a better node of the same value, or id itself.
NodeId simplify_shifts(Graph *g, NodeId id);

#endif
