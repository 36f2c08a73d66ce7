// SPDX-License-Identifier: Apache-2.0
// Runs kernels without a compiler: what they compute, by the meanings in kops.def, and what they must not do.
// Groups of threads, barriers, teams and device functions are run as what they are, so that a missing barrier
// is found on a machine without a GPU. See README.md.
#ifndef IR_INTERP_KERNEL_EVAL_H
#define IR_INTERP_KERNEL_EVAL_H

#include "ir/plan/plan.h"

// Memory that arguments point into. Two arguments in the same bytes must name the same memory.
typedef struct EvalMemory {
    unsigned char *data;
    uint64_t bytes;
    unsigned char *written; // by byte: 0, nobody has written it; kept up to date
} EvalMemory;

typedef struct EvalArg {
    EvalMemory *memory;
    uint64_t at;              // byte of element 0
    uint64_t begin, end;      // bytes that the kernel may touch through it
    const PlanTensorMap *map; // of a tensor map: its memory is that of the tensor, `at` where that begins
} EvalArg;

typedef struct EvalLaunch {
    const Kernel *kernel;
    const EvalArg *args; // by parameter
    uint32_t parts;      // threads that share it (KI_parts); 0 is 1
    bool has_wgmma;      // what rlx_has_wgmma and rlx_has_coop say
    bool has_coop;
    uint64_t max_steps; // of all threads; 0: a limit that no test comes near
    uint64_t *steps;    // NULL, or grows by the steps that it took
    bool *reached;      // NULL, or by instruction: is set where a barrier or a device function was executed
} EvalLaunch;

// NULL, or what is wrong, with the line of the kernel's listing and the thread. Everything else that the
// kernel computed up to there is in the memory of its arguments.
const char *kernel_eval(Arena *a, const EvalLaunch *l);

#endif
