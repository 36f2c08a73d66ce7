// SPDX-License-Identifier: Apache-2.0
// A plan of one kernel, whose result may lie over what it reads: for the tests of leads and replays.
#ifndef TESTS_UNIT_ONE_KERNEL_H
#define TESTS_UNIT_ONE_KERNEL_H

#include "passes/plan/ram/lead.h"
#include "unit.h"

// Parameter 0 of the kernel is its input, parameter 1 its result, parameter 2 for whoever needs one.
typedef struct OneKernel {
    Plan plan;
    PlanKernel kernel;
    PlanIo input;
    PlanArg args[3];
    PlanBuffer buffers[4];
} OneKernel;

static inline void one_kernel_make(OneKernel *o, Arena *a, Kernel *k, uint64_t in, uint64_t out)
{
    k->may_alias = true;
    *o = (OneKernel){
        .plan = {.arena = a},
        .kernel = {.kernel = k},
        .input = {.name = "in", .buf = 1, .bytes = in},
        .args = {{.buf = 1, .end = in, .is_read = true}, {.buf = 2, .end = out, .is_written = true}},
        .buffers = {{0},
                    {.region = REGION_ARENA, .bytes = in, .align = 1, .name = "in"},
                    {.region = REGION_ARENA, .bytes = out, .align = 1, .name = "out"}}};
    o->kernel.args.data = o->args;
    o->kernel.args.len = 2;
    o->plan.buffers.data = o->buffers;
    o->plan.buffers.len = 3;
    o->plan.kernels.data = &o->kernel;
    o->plan.kernels.len = 1;
    o->plan.inputs.data = &o->input;
    o->plan.inputs.len = 1;
}

// NULL, or what plan_verify says when the result begins at the input's begin + d.
static inline const char *one_kernel_verify(OneKernel *o, int64_t d)
{
    const uint64_t in = o->buffers[1].bytes, out = o->buffers[2].bytes, far = (uint64_t)(d < 0 ? -d : d);
    o->buffers[1].offset = d < 0 ? far : 0;
    o->buffers[2].offset = d < 0 ? 0 : far;
    o->plan.region_bytes[REGION_ARENA] = in + out + o->buffers[3].bytes + far;
    return plan_verify(&o->plan);
}

static inline Lead one_kernel_lead(const OneKernel *o)
{
    static const bool reads[] = {true, false, false}, writes[] = {false, true, false};
    return lead_of(&(LeadQuestion){&o->kernel, reads, writes, o->buffers[1].bytes, o->buffers[2].bytes});
}

#endif
