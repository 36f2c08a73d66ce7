// SPDX-License-Identifier: Apache-2.0
// The bodies of loops in the passes that rewrite graphs.
#ifndef PASSES_GRAPH_BODIES_H
#define PASSES_GRAPH_BODIES_H

#include "passes/pass.h"

// Runs a pass on the bodies of all loops, and on those of the loops inside of these. True if anything
// changed; no loop with an old body is left then.
bool bodies_run(Pass *p, PassFn fn);
// Puts what is known outside into the bodies: captured constants, carried values that never change, and that
// the condition holds in every iteration; drops operands that no body uses.
bool bodies_tidy(Pass *p);

// The loop with another body and other operands.
NodeId bodies_make_loop(Graph *g, NodeId id, Graph *body, const NodeId *src, uint32_t n_src);

#endif
