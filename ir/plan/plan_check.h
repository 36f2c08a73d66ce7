// SPDX-License-Identifier: Apache-2.0
// What the files of plan_verify share.
#ifndef IR_PLAN_PLAN_CHECK_H
#define IR_PLAN_PLAN_CHECK_H

#include "ir/plan/plan.h"

// NULL, or what is wrong with a kernel of which several arguments share bytes of the arena though they are of
// different buffers: its accesses are replayed in their order.
const char *plan_replay_kernel(const Plan *p, const PlanKernel *k);

// NULL, or what is wrong with the banks of a plan and with what lies in them.
const char *plan_check_banks(const Plan *p);

#endif
