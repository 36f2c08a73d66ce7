// SPDX-License-Identifier: Apache-2.0
// What a graph costs to compute, roughly: one unit is one addition of one element. Good for telling whether a
// rewrite helps, not for telling how long a kernel runs.
#ifndef PASSES_GRAPH_COST_H
#define PASSES_GRAPH_COST_H

#include "ir/graph/graph.h"

// The cost of one node. Views, leaves, and what depends on constants only cost nothing.
double cost_node(const Graph *g, NodeId id);
// The cost of everything that outputs and states need.
double cost_graph(const Graph *g);

#endif
