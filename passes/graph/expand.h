// SPDX-License-Identifier: Apache-2.0
// What expand_NAME functions are: `id` is a sugar node with its operands rewritten; the value of its result
// number `result` is returned as nodes of core ops.
#ifndef PASSES_GRAPH_EXPAND_H
#define PASSES_GRAPH_EXPAND_H

#include "passes/pass.h"

#define SUGAR(name, ...) NodeId expand_##name(Graph *g, NodeId id, uint32_t result);
#include "ir/graph/ops.def"

// A node under construction with the span and label of another.
NodeBuild expand_begin(Graph *g, OpId op, NodeId like);

#endif
