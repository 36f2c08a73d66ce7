// SPDX-License-Identifier: Apache-2.0
// Checks the invariants of a graph independently of the builder: after each pass in debug builds and in every
// test.
#ifndef IR_SHAPE_VERIFY_H
#define IR_SHAPE_VERIFY_H

#include "ir/graph/graph.h"

// What holds from which stage on (stages are cumulative).
typedef enum Stage {
    STAGE_IMPORTED, // operands before users, types re-inferred equal, outputs and states complete
    STAGE_CORE,     // no SUGAR op, no sub-graph
    STAGE_BOUND,    // all dims constant
} Stage;

// NULL when all holds, else a message in the graph's arena that names the node and the broken rule.
const char *graph_verify(const Graph *g, Stage stage);

#endif
