// SPDX-License-Identifier: Apache-2.0
// How many bytes of each buffer a run reads and writes, by the loops of the kernels: what memory at a slower
// place costs. See memplan.h.
#include "ir/kernel/kernel_work.h"
#include "passes/plan/memplan.h"

static void add_kernel(const Plan *p, uint32_t at, double times, double *traffic, Arena *scratch);

// What the body of a loop moves goes to the arguments of the loop: its own memory, its constants, and what it
// reads and writes in the plan around.
static void add_loop(const PlanKernel *k, double times, double *by_arg, Arena *scratch)
{
    const PlanLoop *loop = k->loop;
    const Plan *body = loop->body;
    const double trips = loop->max_trips == INT64_MAX ? 1 : (double)loop->max_trips;
    double *traffic = ARENA_ARRAY(scratch, double, body->buffers.len);
    for (uint32_t i = 0; i < body->kernels.len; i++)
        add_kernel(body, i, times * trips, traffic, scratch);
    for (BufId b = 1; b < body->buffers.len; b++) {
        const PlanBuffer *buf = &body->buffers.data[b];
        const uint32_t arg = buf->region == REGION_OUTER     ? body->slots.data[buf->slot].arg
                             : buf->region == REGION_ARENA   ? loop->arena
                             : buf->region == REGION_WEIGHTS ? loop->weights
                                                             : PLAN_NO_ARG;
        if (arg != PLAN_NO_ARG && arg < k->args.len)
            by_arg[arg] += traffic[b];
    }
}

// Nesting of loops is bounded, so the recursion is.
static void add_kernel(const Plan *p, uint32_t at, double times, double *traffic, Arena *scratch)
{
    const PlanKernel *k = &p->kernels.data[at];
    double *by_arg = ARENA_ARRAY(scratch, double, k->args.len + 1u);
    if (k->loop != NULL) {
        add_loop(k, times, by_arg, scratch);
    } else {
        KernelBytes *bytes = ARENA_ARRAY(scratch, KernelBytes, k->kernel->params.len + 1u);
        (void)work_and_bytes(k->kernel, bytes);
        for (uint32_t i = 0; i < k->args.len && i < k->kernel->params.len; i++)
            by_arg[i] = times * (bytes[i].read + bytes[i].written);
    }
    for (uint32_t i = 0; i < k->args.len; i++)
        traffic[k->args.data[i].buf] += by_arg[i];
}

void memplan_count_traffic(const Planner *m)
{
    Plan *p = m->plan;
    Arena scratch = {0};
    double *traffic = ARENA_ARRAY(&scratch, double, p->buffers.len);
    for (uint32_t i = p->prepare.n_kernels; i < p->kernels.len; i++)
        add_kernel(p, i, 1, traffic, &scratch);
    for (BufId b = 1; b < p->buffers.len; b++)
        p->buffers.data[b].traffic = 0;
    for (BufId b = 1; b < p->buffers.len; b++)
        p->buffers.data[m->owner[b]].traffic += traffic[b];
    arena_free(&scratch);
}
