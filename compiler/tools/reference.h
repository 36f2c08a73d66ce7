// SPDX-License-Identifier: Apache-2.0
// What generated code is compared with: the evaluator on the graph as imported, with symbols bound but no
// pass run, so that it is independent of everything that passes do.
#ifndef COMPILER_TOOLS_REFERENCE_H
#define COMPILER_TOOLS_REFERENCE_H

#include "compiler/job/job.h"
#include "ir/eval/eval.h"

// A copy of the graph of a job: planning changes that one. Before job_plan.
Graph *reference_graph(Job *j);
// Its outputs, in order, with inputs and sizes of one run. False: reported.
bool reference_outputs(Job *j, Graph *reference, const int64_t *sizes, const Tensor *inputs, Tensor **out);

#endif
