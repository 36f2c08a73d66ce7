// SPDX-License-Identifier: Apache-2.0
// What the files of the memory plan share: which buffers have bytes of their own is decided first
// (memplan_share.c), then where these lie (memplan.c).
#ifndef PASSES_PLAN_MEMPLAN_H
#define PASSES_PLAN_MEMPLAN_H

#include "passes/pass.h"
#include "passes/plan/place/place.h"

typedef struct Planner {
    Pass *pass;
    Plan *plan;
    BufId *owner;      // by buffer: the one whose bytes it uses (itself unless in place)
    bool *is_output;   // by buffer: holds an output of the graph or a condition
    bool *is_staged;   // by buffer: part of what a GPU and its host exchange (Plan.gpu.staged)
    bool has_exchange; // a GPU and its host exchange inputs, outputs and more
    bool is_latency;   // memory is not used again where that costs a barrier
    uint32_t *item;    // by buffer: 1 + its item for the placer, 0: none
} Planner;

static inline PlanBuffer *planner_buffer(const Planner *m, BufId b)
{
    return &m->plan->buffers.data[b];
}

static inline bool planner_is_arena(const Planner *m, BufId b)
{
    return b != 0 && planner_buffer(m, b)->region == REGION_ARENA;
}

// Places all buffers of the plan as its kernels are now.
void memplan_run(Pass *p);
// The same, with kernels that run row by row in turns where the plan takes too much otherwise (--ram). False:
// it takes too much in any case, which it has reported.
bool memplan_fit(Pass *p);
// One thread of a microcontroller: memory counts more than what parallel loops promise.
bool memplan_is_serial(const Pass *p);

// In the body of a loop: carried values change in place where all readers of the old value come before; the
// kernels that would copy them go away. Before lifetimes are known.
void memplan_carry(Planner *m);
// Roots of kernels that overwrite an operand which nothing needs any more share its bytes.
void memplan_share(Planner *m);
// Places items, where results may lie over what their kernels read: one thread of a microcontroller. Turns
// kernels around that have to run backwards for that.
void memplan_overlap(Planner *m, PlaceItem *items, uint32_t n, PlaceResult *result);

#endif
