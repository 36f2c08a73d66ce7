// SPDX-License-Identifier: Apache-2.0
// Loops that a device goes around by itself (TargetCaps.has_loops): a launch is recorded once, with its
// arguments, so an address that changes with the iteration is not an argument but where one is read.
#ifndef PASSES_PLAN_DEVICE_LOOPS_H
#define PASSES_PLAN_DEVICE_LOOPS_H

#include "passes/pass.h"

// Fills PlanLoop.moves, PlanArg.move and KParam.is_moved of all loops of a placed plan.
void device_loops_mark(Plan *p);

#endif
