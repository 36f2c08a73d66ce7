// SPDX-License-Identifier: Apache-2.0
// Values that are others times a number.
#ifndef PASSES_GRAPH_SIMPLIFY_SCALE_H
#define PASSES_GRAPH_SIMPLIFY_SCALE_H

#include "ir/graph/graph.h"

// What a mul by a number from 2^-16 to 1 multiplies, which has its type and shape; 0: it is no such
// node.
NodeId scaled_value(const Graph *g, NodeId id, double *factor);

#endif
