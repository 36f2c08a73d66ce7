// SPDX-License-Identifier: Apache-2.0
// Shapes that split the axes of others, for values that two reshapes see in different shapes.
#ifndef PASSES_GRAPH_SPLIT_SHAPE_H
#define PASSES_GRAPH_SPLIT_SHAPE_H

#include "ir/graph/graph.h"

// The coarsest sizes that split both shapes, of one number of elements: {1, 32, 32768} and {1, 64, 128, 128}
// give {1, 32, 2, 128, 128}. end_a, end_b: how many of them the first i + 1 axes of a and b are. False: none,
// or too many.
bool split_shapes(const Shape *a, const Shape *b, Shape *out, uint32_t *end_a, uint32_t *end_b);
// A weight that spreads over `whole`, as one that spreads over its axes split into those of `fine`.
NodeId split_weight(Graph *g, NodeId id, const Shape *whole, const Shape *fine, const uint32_t *end);

#endif
