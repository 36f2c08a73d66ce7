// SPDX-License-Identifier: Apache-2.0
// Persistent handles (--handle): inputs of a model that keep their value across runs.
#ifndef COMPILER_JOB_HANDLES_H
#define COMPILER_JOB_HANDLES_H

#include "compiler/cli/cli.h"
#include "ir/graph/graph.h"

// "INPUT": set once and read by every run, as a parameter is. "INPUT=OUTPUT": a state that takes the value of
// the output at the end of each run, in the same memory where the planner can have it so; the output is then
// read through the handle. The output may be larger, as a cache is to which a run adds rows: the state then
// has room for it, the input is its first elements, and rows that are joined to these are written behind
// them, nothing else. False: reported (unknown names, types that differ).
bool handles_apply(Cli *c, const Strings *given, Graph **graph);

#endif
