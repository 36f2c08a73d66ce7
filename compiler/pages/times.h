// SPDX-License-Identifier: Apache-2.0
// What `rlxc bench --json` measured, as inspect reads it (--times).
#ifndef COMPILER_PAGES_TIMES_H
#define COMPILER_PAGES_TIMES_H

#include "compiler/job/job.h"

typedef struct TimesKernel {
    const char *name;
    double us;
} TimesKernel;

typedef struct Times {
    const char *path;
    const char *target, *cpu;                 // that were measured
    double us;                                // of a whole run
    VEC(TimesKernel) kernels;                 // in order
    double peak_gflops, read_gbs, memory_gbs; // of the machine; 0: not measured
} Times;

// False: reported.
bool times_read(Cli *c, const char *path, Times *out);
// That the kernels are those of the job's plan. False: reported.
bool times_check(Job *j, const Times *t);
// One object. row: numbers of the kernels, as inspect lists them.
void times_print(Job *j, const Times *t, Str *out);

#endif
