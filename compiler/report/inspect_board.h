// SPDX-License-Identifier: Apache-2.0
// What `rlxc inspect` says of microcontrollers: instructions, cycles and stack of a run.
#ifndef COMPILER_REPORT_INSPECT_BOARD_H
#define COMPILER_REPORT_INSPECT_BOARD_H

#include "compiler/board/emulate.h"
#include "ir/plan/estimate.h"
#include "compiler/native/machine_code.h"

// What was measured by compiling, each NULL where it was not asked for.
typedef struct Measures {
    const MachineCode *code;
    const BoardCounts *run; // of microcontrollers
} Measures;

// What was counted of one run of a kernel. False: nothing was.
bool measures_kernel(const Measures *m, const PlanKernel *k, uint64_t *insns, uint64_t *cycles);

// Of a run, from the kernels' IR. error below or at 0: there is none for the CPU.
Estimate inspect_estimate(const Job *j);

// Members of a kernel, each with a comma before it.
void inspect_board_kernel_json(const Job *j, const Measures *m, const PlanKernel *k, uint64_t times,
                               Str *out);

void inspect_board_print(const Job *j, const Measures *m);
// Members, with a comma behind each.
void inspect_board_json(const Job *j, const Measures *m, Str *out);

#endif
