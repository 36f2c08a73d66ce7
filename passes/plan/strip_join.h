// SPDX-License-Identifier: Apache-2.0
// Joins groups whose kernels can be stages of one (passes/lower/strip.h).
#ifndef PASSES_PLAN_STRIP_JOIN_H
#define PASSES_PLAN_STRIP_JOIN_H

#include "passes/plan/group.h"

// Joins groups where the cost model expects less time.
void strip_join(const Plan *plan, const PassOptions *options, Arena *a, Groups *groups);
// Gives a kernel that was made of joined groups its stages; its body is complete.
void strip_add_stages(const Groups *groups, Arena *a, PlanKernel *k);

#endif
