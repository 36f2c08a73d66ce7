// SPDX-License-Identifier: Apache-2.0
// Constant folding of one node, for passes that make nodes out of constants.
#ifndef PASSES_GRAPH_FOLD_H
#define PASSES_GRAPH_FOLD_H

#include "ir/graph/graph.h"

// The node's value as a constant in the graph's arena when all its operands are constants and the result
// would not make the program much bigger; else the node itself.
NodeId fold_node(Graph *g, NodeId id);

#endif
