// SPDX-License-Identifier: Apache-2.0
// Runs a plan through the interpreter of kernels: its kernels in order, its loops as the host goes around
// them.
#ifndef TESTS_E2E_INTERP_RUN_H
#define TESTS_E2E_INTERP_RUN_H

#include "ir/interp/kernel_eval.h"
#include "ops_check.h"

// Where a buffer begins.
typedef struct InterpPlace {
    EvalMemory *memory;
    uint64_t at;
} InterpPlace;

typedef struct InterpRun {
    const Plan *plan;
    bool has_wgmma, has_coop; // of the GPU
    uint32_t parts;           // threads that share kernels
    InterpPlace *place;       // by BufId
    Memory memory;            // the same for ops_check.h; not to be freed
    const Kernel *watched;    // NULL, or the kernel whose launches note what they reach
    bool *reached;
    uint64_t steps, launches;
} InterpRun;

// Every buffer in memory of its own, but for the arena of a microcontroller (share_arena). Nothing in it
// counts as written but constants, states, and parameters.
InterpRun interp_make(Arena *a, const Plan *p);
// A run with the inputs that are set by now, which the host wrote; the first one prepares parameters. NULL,
// or what is wrong.
const char *interp_run(Arena *a, InterpRun *r, bool is_first);

#endif
