// SPDX-License-Identifier: Apache-2.0
// Sizes that the model computes, in the evaluator. See eval_extent.c. Private to ir/eval*.c.
#ifndef IR_EVAL_EVAL_EXTENT_H
#define IR_EVAL_EVAL_EXTENT_H

#include "ir/eval/eval_ops.h"

// Values of all symbols, those that the graph computes unknown, as run->symbols. NULL: it computes none.
int64_t *eval_extents_begin(EvalRun *run);
// To be called before a node is evaluated: takes sizes that it computes itself at their largest.
void eval_extents_assume(const EvalRun *run, NodeId id, int64_t *value);
// After: reads the sizes that it computed, and cuts its results. False: a size is not known, or larger than
// its largest, which is reported.
bool eval_extents_end(const EvalRun *run, NodeId id, const Node *n, Tensor *results, int64_t *value);

#endif
