// SPDX-License-Identifier: Apache-2.0
// The part of a certificate that compilers and emulators of this machine are asked for: what the code of a
// microcontroller takes of flash, stack and time, and who says so. Separate from the rest, which rlxc knows
// by itself.
#ifndef COMPILER_REPORT_CERTIFICATE_COSTS_H
#define COMPILER_REPORT_CERTIFICATE_COSTS_H

#include "compiler/report/inspect_board.h"

typedef struct CertificateCosts {
    bool is_board; // the CPU is one that can be emulated; else nothing here is known or said
    MachineCode code;
    BoardCounts run;
    Estimate estimate; // of a run, where nothing was counted
} CertificateCosts;

CertificateCosts certificate_costs(const Job *j);

// Members, with a comma behind each line.
void certificate_costs_json(const Job *j, const CertificateCosts *c, Str *out);
// Members of a kernel, with a comma before each: of one run of it.
void certificate_kernel_json(const Job *j, const CertificateCosts *c, const PlanKernel *k, Str *out);
void certificate_costs_text(const Job *j, const CertificateCosts *c, Str *out);
// Two columns of the table of kernels, or nothing.
void certificate_kernel_text(const Job *j, const CertificateCosts *c, const PlanKernel *k, Str *out);

#endif
