// SPDX-License-Identifier: Apache-2.0
// By how many bytes the result of a kernel may lie over what it reads, when one thread runs the kernel: no
// byte may be written before it was read for the last time.
#ifndef PASSES_PLAN_RAM_LEAD_H
#define PASSES_PLAN_RAM_LEAD_H

#include "ir/plan/plan.h"

// The result may begin at the input's begin + d if d <= until or d >= from, or d is 0 and is_in_place.
typedef struct Lead {
    int64_t until, from;
    bool is_in_place;
} Lead;

static inline bool lead_allows(Lead l, int64_t d)
{
    return d <= l.until || d >= l.from || (d == 0 && l.is_in_place);
}

// reads, writes: by argument, those of the input and of the result. in_bytes, out_bytes: their sizes. What is
// not known ends in a lead that keeps them apart.
typedef struct LeadQuestion {
    const PlanKernel *kernel;
    const bool *reads, *writes;
    uint64_t in_bytes, out_bytes;
} LeadQuestion;
Lead lead_of(const LeadQuestion *q);

// The kernel with its outermost loops in any order from the end to the begin; NULL: it has none.
Kernel *lead_reversed(const Kernel *k, Arena *scratch);

// Leads forwards, and backwards where `reversed` is the kernel that runs so (NULL: there is none).
typedef struct LeadWays {
    Lead lead[2];
    Kernel *reversed;
} LeadWays;

// Answers that were found before: memory is planned several times, mostly with the same kernels.
typedef struct LeadKnown LeadKnown;
typedef VEC(LeadKnown) LeadMemo;
// Asks once for each kernel and question; the answers are in `arena`.
LeadWays lead_ways(LeadMemo *known, const LeadQuestion *q, Arena *arena);

// A copy of the kernel for results that lie over what it reads: its parameters may alias, and its loops run
// in order.
Kernel *lead_serial(const Kernel *k);

#endif
