// SPDX-License-Identifier: Apache-2.0
// Elementwise nodes that make bytes of bytes through floats, with constants that are the same for all
// elements: one operand has 256 values, two have 65 536 pairs, so every result is known.
#ifndef PASSES_GRAPH_BYTE_MAP_H
#define PASSES_GRAPH_BYTE_MAP_H

#include "ir/graph/graph.h"

// A node that gives the same as `end` without floats: a table of one operand's values, or two products of
// integers, a sum and a shift. `end` itself where there is none.
NodeId byte_map(Graph *g, NodeId end);

#endif
