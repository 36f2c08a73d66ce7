// SPDX-License-Identifier: Apache-2.0
// Wide operands for nodes that are made after the pass `widen`.
#ifndef PASSES_GRAPH_WIDEN_H
#define PASSES_GRAPH_WIDEN_H

#include "passes/pass.h"

// The value of a node without a `result`, computed on operands as wide as its schedules want; the node itself
// where they are. 0: a diagnostic was reported.
NodeId widen_node(Graph *g, const TargetCaps *caps, NodeId id);

#endif
