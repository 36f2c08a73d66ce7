// SPDX-License-Identifier: Apache-2.0
// Runs a plan for a GPU: its kernels in order through a function that launches one, and its loops, which are
// the host's work.
#ifndef TESTS_GPU_PLAN_RUN_H
#define TESTS_GPU_PLAN_RUN_H

#include "ir/plan/plan.h"

// args: where each parameter of the kernel begins, in memory that host and device share. Returns when the
// kernel has ended; false ends the run.
typedef bool (*PlanLaunch)(void *ctx, const PlanKernel *k, void **args);

// buffer: by BufId. False: a launch failed.
bool plan_run(const Plan *p, char *const *buffer, PlanLaunch launch, void *ctx);

#endif
