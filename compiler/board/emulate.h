// SPDX-License-Identifier: Apache-2.0
// What one run of a network takes on a microcontroller, before there is one: the emitted code is compiled for
// it, linked as for a board, and run by QEMU, which counts (count.c). Separate from inspect, which prints it.
#ifndef COMPILER_BOARD_EMULATE_H
#define COMPILER_BOARD_EMULATE_H

#include "compiler/job/job.h"

typedef struct BoardFunction {
    const char *name; // as PlanKernel.function; what compilers append is cut off
    uint64_t insns, cycles, calls;
} BoardFunction;

typedef struct BoardCounts {
    const char *unknown;    // why nothing was counted, or NULL
    const char *how;        // "qemu-system-arm, arm-none-eabi-gcc -O3 -mcpu=cortex-m4 -mthumb"
    const char *versions;   // "QEMU 7.2.22, compiler 12.2.1 20221205"
    uint64_t insns, cycles; // of a run, everything that it calls included
    uint64_t stack_bytes;   // that the run used
    VEC(BoardFunction) functions;
} BoardCounts;

// More options of C compilers, as programs for its board are compiled; "": none.
const char *board_cc_options(const char *cpu);
// Counts a run of an emitted job. Reports nothing. What was counted is kept in the cache of libraries.
BoardCounts board_count(const Job *j);
// The function of a kernel; NULL: the compiler made it a part of another one.
const BoardFunction *board_function(const BoardCounts *c, const char *function);

#endif
