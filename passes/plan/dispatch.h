// SPDX-License-Identifier: Apache-2.0
// The order of launches on a GPU, as the memory plan asks for it as well.
#ifndef PASSES_PLAN_DISPATCH_H
#define PASSES_PLAN_DISPATCH_H

#include "passes/pass.h"

// Edges, groups and order of the kernels of a placed plan, but not of the bodies of its loops.
void dispatch_arrange(Plan *p, const PassOptions *o);

#endif
