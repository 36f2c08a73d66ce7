// SPDX-License-Identifier: Apache-2.0
// Scatters that replace rows, with many updates, on GPUs (see last_updates.c).
#ifndef PASSES_GRAPH_LAST_UPDATES_H
#define PASSES_GRAPH_LAST_UPDATES_H

#include "ir/graph/graph.h"

// What stands for a scatter that replaces rows; id: it stays what it is.
NodeId last_updates_find(Graph *g, NodeId id);

#endif
