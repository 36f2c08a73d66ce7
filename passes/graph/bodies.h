// SPDX-License-Identifier: Apache-2.0
// The bodies of loops in the passes that rewrite graphs.
#ifndef PASSES_GRAPH_BODIES_H
#define PASSES_GRAPH_BODIES_H

#include "passes/pass.h"

// Runs a pass on the bodies of all loops. The pass does the same for the loops inside of these. True if
// anything changed.
bool bodies_run(Pass *p, PassFn fn);
// Puts what is known outside into the bodies: captured constants, carried values that never change, and that
// the condition holds in every iteration; drops operands that no body uses.
bool bodies_tidy(Pass *p);

#endif
