// SPDX-License-Identifier: Apache-2.0
// Nodes of an imported graph by what people call them: `--keep`, `rlxc cut`, `rlxc bisect`.
#ifndef COMPILER_JOB_NODE_FIND_H
#define COMPILER_JOB_NODE_FIND_H

#include "ir/graph/graph.h"

// A leaf, the last node of that name (what the others of it lead to), an output, or "%12". 0: none.
NodeId node_find(const Graph *g, const char *name);
// The name that is most like it, or NULL.
const char *node_closest(const Graph *g, const char *name);
// A name by which node_find finds this node; in the arena.
const char *node_exact_name(Arena *a, const Graph *g, NodeId id);

#endif
