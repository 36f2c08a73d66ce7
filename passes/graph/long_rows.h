// SPDX-License-Identifier: Apache-2.0
// Long rows that are few, on GPUs (see long_rows.c).
#ifndef PASSES_GRAPH_LONG_ROWS_H
#define PASSES_GRAPH_LONG_ROWS_H

#include "ir/graph/graph.h"
#include "ir/machine/machine.h"

// What stands for a search, a running sum or the best of such rows, or for a result of it; id: nothing does.
NodeId long_rows_cut(Graph *g, NodeId id, const GpuMachine *m);

#endif
