// SPDX-License-Identifier: Apache-2.0
// Is what a plan says about the order of its kernels right? By all pairs of kernels and the byte ranges of
// their arguments; shares nothing with what found edges and groups.
#ifndef TESTS_GPU_CHECK_ORDER_H
#define TESTS_GPU_CHECK_ORDER_H

#include "ir/plan/plan.h"

// Kernels of a level or a group have no hazard between them, each kernel has one with some kernel of the
// level before, and paths of edges order all of them, no edge without need; the same in the bodies of loops.
// NULL or what is wrong.
const char *check_order(const Plan *p);

#endif
