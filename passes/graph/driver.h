// SPDX-License-Identifier: Apache-2.0
// Runs passes as passes.def says, on whole models and on the bodies of loops. Nothing else knows their order.
#ifndef PASSES_GRAPH_DRIVER_H
#define PASSES_GRAPH_DRIVER_H

#include "passes/pass.h"

// Is the pass on at this level of optimisation?
bool pass_is_on(const PassInfo *info, const PassOptions *o);
// Runs one pass on the graph, and on the bodies of its loops if that is due. True: something changed.
bool pass_run(Pass *p, const PassInfo *info);
// Runs all passes that are on; stops at a failure. Scratch memory is reset after each of them.
void pass_run_all(Pass *p);
// Makes the plan of a body: p has its graph, which all rewriting passes have seen, and its frame.
void pass_plan_body(Pass *p);

#endif
