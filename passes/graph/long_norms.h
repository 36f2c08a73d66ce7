// SPDX-License-Identifier: Apache-2.0
// Norms of few long rows, on GPUs (see long_norms.c).
#ifndef PASSES_GRAPH_LONG_NORMS_H
#define PASSES_GRAPH_LONG_NORMS_H

#include "ir/graph/graph.h"
#include "ir/machine/machine.h"

// Is it a norm of rows, with or without their mean?
bool op_is_norm(OpId op);
// What stands for a norm whose rows are cut into parts; id: its rows stay whole.
NodeId long_norms_cut(Graph *g, NodeId id, const GpuMachine *m);

#endif
