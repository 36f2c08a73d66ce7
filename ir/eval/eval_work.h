// SPDX-License-Identifier: Apache-2.0
// What evaluating a node would take, before it is done: whoever evaluates at compile time has a budget, since
// a few bytes of file can ask for hours. One unit is about a nanosecond of the reference evaluator.
#ifndef IR_EVAL_EVAL_WORK_H
#define IR_EVAL_EVAL_WORK_H

#include "ir/graph/graph.h"

#define EVAL_WORK_ENDLESS UINT64_MAX

// An upper bound, of all results and sub-graphs; ENDLESS where sizes or trip counts are not known. trips: of
// a loop, as its operand says; a constant operand or max_trips can only lower it.
uint64_t eval_work(const Graph *g, NodeId id, int64_t trips);

// Takes the work of the node and the bytes of its first result from the graph's budget, which is set at first
// use by what the graph holds. False: too much, nothing is taken.
bool eval_spend(Graph *g, NodeId id);

#endif
