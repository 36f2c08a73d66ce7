// SPDX-License-Identifier: Apache-2.0
// How one kernel is shared by several threads: its loops of independent iterations are cut into as many
// shares as there are threads, with barriers inside the kernel where one part of it needs what another has
// written.
#ifndef PASSES_SPLIT_H
#define PASSES_SPLIT_H

#include "passes/pass.h"

// Estimated cycles of a kernel that one thread runs.
double split_cycles(const Plan *p, const PlanKernel *pk);
// Rewrites pk->kernel so that caps->threads threads share it, when that is worth while and possible; else so
// that one thread runs it (pk->is_shared says which).
void split_kernel(const Plan *p, PlanKernel *pk);

#endif
