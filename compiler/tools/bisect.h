// SPDX-License-Identifier: Apache-2.0
// The search for the first value that departs: `rlxc bisect`.
#ifndef COMPILER_TOOLS_BISECT_H
#define COMPILER_TOOLS_BISECT_H

#include "compiler/tools/compare.h"
#include "compiler/tools/reference.h"

// What a value should be, from a file.
typedef struct Expected {
    const char *name, *path;
    NodeId node; // of the imported graph
    Tensor value;
} Expected;

typedef struct Expecteds {
    VEC(Expected) list;
} Expecteds;

typedef enum BisectHow {
    BISECT_NOTHING,  // no value departs
    BISECT_KEPT,     // found with all values kept, so that no two nodes are one kernel
    BISECT_FUSED,    // found in the shortest beginning of the model that departs, fused as it is
    BISECT_EXPECTED, // generated code and evaluator agree, but the expected value is another one
} BisectHow;

typedef struct BisectValue {
    NodeId node;
    Difference difference;
    double got, want; // the worst element
    bool is_measured;
} BisectValue;

typedef struct Bisect {
    Cli *cli;
    double tolerance;       // -1: by type
    const Expecteds *expected;
    const Graph *graph;     // as imported, for names and operands
    VEC(NodeId) nodes;      // all that compute something, in order
    uint32_t n_compiled;
    BisectHow how;
    BisectValue first;      // what departs
    uint32_t number;        // its place in nodes, from 1; 0: it is none of them
    BisectValue *by_node;   // by NodeId; where all values are kept
} Bisect;

// False: reported (something could not be compiled or run).
bool bisect_search(Bisect *b);
double bisect_tolerance(const Bisect *b, DType t);

#endif
