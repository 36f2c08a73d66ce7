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

// To compare ways to compute: the same numbers for all kernels (estimates.def). That error alone:
double estimate_error(const char *cpu);
Estimate estimate_kernel(const char *cpu, const Kernel *k);
// To tell people: other numbers for each kind of kernels (times.def), and the kind's name there.
Estimate estimate_time(const char *cpu, const Kernel *k);
const char *estimate_kind(const Kernel *k);

#endif
