// SPDX-License-Identifier: Apache-2.0
// The reference evaluator: slow and obvious. Sums accumulate in double, every node's result is rounded once
// to its type. It defines what every target must compute.
#ifndef IR_EVAL_EVAL_H
#define IR_EVAL_EVAL_H

#include "ir/graph/tensor.h"

typedef struct EvalCtx {
    Arena *arena; // for the results
    const Graph *g;
    const Node *node;
    NodeId id;
    Tensor *in;  // n_src entries; data NULL for an absent operand; of `result`: the result that it names
    Tensor *out; // n_results entries, allocated and zeroed by the caller
    DimValues symbols;
    uint32_t depth; // of sub-graphs around the node
    uint64_t bytes; // of all tensors of the run so far
    uint64_t steps; // nodes evaluated in the run so far
    Arena *scratch; // for the node's own use: set and emptied by eval_node
} EvalCtx;

// Evaluates one node whose operands are given. False: reported (for example a size over the limit).
bool eval_node(EvalCtx *c);

typedef struct EvalRun {
    const Graph *g;
    Arena *arena;
    DimValues symbols;
    Tensor *value;  // result 0 of every node by NodeId, after eval_graph; data NULL where not computed
    uint32_t depth; // of sub-graphs around this one
    uint64_t bytes; // of all tensors so far; limited
    uint64_t steps; // nodes so far; loops limit it
} EvalRun;

// Evaluates the graph. Leaves: values[id] must be set by the caller for inputs, params and states (index by
// NodeId in run->value); params and states without a value take their init, states without init are zeros.
// Only what outputs, states and checks need is computed. False: reported, also where a check fails.
EvalRun eval_begin(const Graph *g, Arena *a, DimValues symbols);
bool eval_graph(EvalRun *run);

// A scalar op on numbers of one type, as the tables say: used by tests and the kernel folder.
double eval_ew_f64(OpId op, double a, double b, double c);
int64_t eval_ew_i64(OpId op, int64_t a, int64_t b, int64_t c);
uint64_t eval_ew_u64(OpId op, uint64_t a, uint64_t b, uint64_t c);

#endif
