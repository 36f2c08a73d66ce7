// SPDX-License-Identifier: Apache-2.0
// Instructions of a kernel on a microcontroller, estimated from its IR: for machines on which nothing can be
// compiled and run for it (emulate.h counts exactly). Separate from that, because it needs no other program.
#ifndef COMPILER_BOARD_ESTIMATE_H
#define COMPILER_BOARD_ESTIMATE_H

#include "ir/kernel/kernel.h"

typedef enum WorkKind {
#define WORK(name, meaning) WORK_##name,
#include "compiler/board/work.def"
#undef WORK
    WORK_KINDS
} WorkKind;

extern const char *const work_names[WORK_KINDS];

// What one run of a kernel executes, by kinds. Branches on data count half.
typedef struct Work {
    double n[WORK_KINDS];
} Work;

Work work_of_kernel(const Kernel *k);

typedef struct Estimate {
    double insns;
    double error; // of whole networks, in percent, as tools/fit-mcu measured it; below 0: there is no row for
                  // the CPU
} Estimate;

Estimate estimate_kernel(const char *cpu, const Kernel *k);

#endif
