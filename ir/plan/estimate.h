// SPDX-License-Identifier: Apache-2.0
// Instructions of a kernel on a microcontroller, estimated from its IR: for machines on which nothing can be
// compiled and run for it (emulate.h counts exactly). Separate from that, because it needs no other program.
#ifndef IR_PLAN_ESTIMATE_H
#define IR_PLAN_ESTIMATE_H

#include "ir/kernel/kernel_work.h"

typedef struct Estimate {
    double insns;
    double error; // of whole networks, in percent, as tools/fit-mcu measured it; below 0: there is no row for
                  // the CPU
} Estimate;

// By the numbers of the kernel's kind (times.def), else by those for all kinds (estimates.def). People are told
// what ways to compute are compared by.
Estimate estimate_kernel(const char *cpu, const Kernel *k);
// Are there numbers for the CPU?
bool estimate_is_known(const char *cpu);
// The kind's name in times.def.
const char *estimate_kind(const Kernel *k);

#endif
