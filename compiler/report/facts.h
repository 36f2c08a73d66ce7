// SPDX-License-Identifier: Apache-2.0
// What a plan costs: the figures of inspect, of its pages, and of bench.
#ifndef COMPILER_REPORT_FACTS_H
#define COMPILER_REPORT_FACTS_H

#include "base/str.h"
#include "ir/plan/plan.h"

typedef struct Totals {
    uint64_t macs, flops, parameters, moved_bytes;
    uint32_t ops[OP_COUNT];
    uint32_t n_ops;
} Totals;

// The totals of all kernels, each as often as the loops around it run it.
Totals facts_kernels(Plan *p);
// The totals of all kernels, with operators and parameters.
Totals facts_count(Plan *p);
// What the arena has at least, in whichever order and by whichever kernels a run goes: all inputs before it,
// all outputs behind it.
uint64_t facts_least_arena(const Plan *p);
// The rest of a line: a cost in its unit, and whether it is proved that no other choice (what there is to be
// chosen) costs less. The same as an object of JSON.
void facts_bound_text(const PlanBound *b, const char *unit, const char *choice, Str *out);
void facts_bound_json(const PlanBound *b, Str *out);
// Of the schedule that was chosen for its memory: a line, and a member of JSON; nothing where there was no
// choice.
void facts_schedule_text(const Plan *p, Str *out);
void facts_schedule_json(const Plan *p, Str *out);
// A buffer that has bytes of its own in the arena at some step: those of the memory plan.
static inline bool facts_is_placed(const PlanBuffer *b)
{
    return b->region == REGION_ARENA && b->shares == 0 && b->first <= b->last;
}

#endif
