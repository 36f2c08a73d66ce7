// SPDX-License-Identifier: Apache-2.0
// In which order a kernel reads and writes its parameters: its loops are run at compile time with nothing but
// the numbers that addresses depend on. A loop that only reads (or only writes) what is watched is not run:
// its accesses are one range, by intervals. All that is not understood is the whole of a parameter.
#ifndef PASSES_PLAN_RAM_TRACE_H
#define PASSES_PLAN_RAM_TRACE_H

#include "ir/plan/plan.h"

// An access to elements of a parameter: those are bytes [begin, end) of the argument's buffer.
typedef struct TraceAccess {
    uint32_t arg;
    bool is_write;
    int64_t begin, end;
} TraceAccess;
typedef void (*TraceFn)(void *ctx, const TraceAccess *access);

// Loops of which only the iterations [begin, end) run.
typedef struct TraceOnly {
    const bool *loops; // by instruction; NULL: all loops run as a whole
    int64_t begin, end;
} TraceOnly;

// A loop of `count` iterations, of which only the first one is reported: in each other one, reads lie `reads`
// bytes behind those of the one before, and writes `writes`.
typedef struct TraceRepeat {
    int64_t count, reads, writes;
} TraceRepeat;

typedef struct TraceWatch {
    const bool *reads, *writes; // by argument: are its accesses of that kind wanted?
    TraceFn fn;
    void *ctx;
    void (*repeat)(void *ctx, const TraceRepeat *r); // NULL: no loop is reported so
    void (*repeat_end)(void *ctx, bool is_dropped);  // is_dropped: as if it had not been reported
    TraceOnly only;
    const bool *stop; // NULL, or what ends the trace when it becomes true
    bool is_exact;    // loops that only read or only write run as well; no others are repeats
    bool is_sample;   // of loops that run one iteration at a time, the first two and the last two are enough
} TraceWatch;

enum { TRACE_ALL_LOOPS = 8 };

// Calls fn for the accesses in the order in which they happen. depth: so many loops around each other run one
// iteration at a time; what is further inside is one range, of which the writes come first. False: the kernel
// has instructions that touch memory in other ways, addresses depend on what it loads, or the work is too
// much; what was reported means nothing then.
bool trace_kernel(const PlanKernel *k, Arena *scratch, const TraceWatch *watch, uint32_t depth);

#endif
