// SPDX-License-Identifier: Apache-2.0
// Kernels that write different parts of one value, such as the operands of a concat: their byte ranges
// overlap, though no byte is written by both.
#ifndef PASSES_PLAN_PARTS_H
#define PASSES_PLAN_PARTS_H

#include "passes/pass.h"

// Do two arguments, each of which its kernel (of one value, not joined) writes only, have no element in
// common? False: they have, or it cannot be told from their strides.
bool parts_are_apart(const Plan *p, const PlanKernel *k, const PlanArg *a, const PlanKernel *other,
                     const PlanArg *b);

#endif
