// SPDX-License-Identifier: Apache-2.0
// The body of a loop as a graph that can be planned by itself: carried values are states, captured values and
// rows of them are inputs.
#ifndef PASSES_GRAPH_LOOP_BODY_H
#define PASSES_GRAPH_LOOP_BODY_H

#include "ir/graph/graph.h"

typedef enum BodyInputKind {
    BODY_COUNTER, // the number of the iteration
    BODY_CAPTURE, // an operand of the loop
    BODY_ROW,     // entry base + sign * i of one axis of an operand
} BodyInputKind;

typedef struct BodyInput {
    BodyInputKind kind;
    uint32_t operand; // of the loop
    uint32_t axis;    // ROW
    int64_t base, sign;
    uint32_t rank; // ROW: axes that the result has in place of the operand's
} BodyInput;

typedef struct LoopBody {
    Graph *graph; // states: the carried values; outputs: the condition if has_cond, then scan outputs
    VEC(BodyInput) inputs; // by input of the graph
    bool has_cond;
    int64_t max_trips; // INT64_MAX: only the trip count says
} LoopBody;

// g: bound, with a loop node `id`. a: scratch.
LoopBody loop_body(Graph *g, NodeId id, Arena *a);

#endif
