// SPDX-License-Identifier: Apache-2.0
// By how many bytes the accesses of a loop move from one iteration to the next. Where all reads move by the
// same distance and all writes by the same, one iteration says what all of them do.
#ifndef PASSES_PLAN_RAM_SLOPE_H
#define PASSES_PLAN_RAM_SLOPE_H

#include "passes/plan/ram/trace.h"

// need: by instruction, whether it matters; slope: as many numbers, to work in.
typedef struct SlopeQuestion {
    const Kernel *k;
    const TraceWatch *watch;
    const uint8_t *need;
    KRef loop, end;
    int64_t *slope;
} SlopeQuestion;

// reads, writes: bytes for each step of 1. is_even: every iteration is the first one, moved; otherwise
// nothing is known.
typedef struct Slope {
    bool is_even;
    int64_t reads, writes;
} Slope;

Slope slope_of_loop(const SlopeQuestion *q);

#endif
