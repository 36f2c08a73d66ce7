// SPDX-License-Identifier: Apache-2.0
// How one kernel is shared by several threads: its loops of independent iterations are cut into as many
// shares as there are threads, with barriers inside the kernel where one part of it needs what another has
// written.
#ifndef PASSES_PLAN_THREADS_SPLIT_H
#define PASSES_PLAN_THREADS_SPLIT_H

#include "passes/pass.h"

// Who has written a buffer, so that the same thread may read it: one thread; shares that lie one behind the
// other; shares of so many bytes that repeat; all threads, in a way that nobody follows.
typedef enum OwnerKind { OWNED_BY_ONE, OWNED_IN_CHUNKS, OWNED_IN_STRIPES, OWNED_MIXED } OwnerKind;

typedef struct SplitOwner {
    OwnerKind kind;
    uint64_t width; // STRIPES: bytes of all shares side by side
} SplitOwner;

typedef VEC(SplitOwner) SplitOwners; // by BufId, of the kernels so far

// Estimated cycles of a kernel: by one thread; by all, or by one with what it has to fetch from the others.
typedef struct SplitCycles {
    double alone, now;
} SplitCycles;

// Cycles of a barrier and what it makes of the caches: as much again.
static inline double split_barrier_cycles(const CpuMachine *cpu)
{
    return 2 * cpu->barrier_cycles;
}

// Rewrites pk->kernel so that caps->threads threads share it, when that is worth while and possible; else so
// that one thread runs it (pk->is_shared says which).
SplitCycles split_kernel(const Plan *p, PlanKernel *pk, SplitOwners *owners);
// Makes pk->kernel from the one that it was before, for one thread.
void split_undo(const Plan *p, PlanKernel *pk, const Kernel *before);
// Fills pk->phases of a kernel that is shared.
void split_phases(const Plan *p, PlanKernel *pk);

#endif
