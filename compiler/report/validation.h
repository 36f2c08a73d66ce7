// SPDX-License-Identifier: Apache-2.0
// What `rlxc compile` proves about the code of a job before it is written (compiler/validate), and what it
// says of it.
#ifndef COMPILER_REPORT_VALIDATION_H
#define COMPILER_REPORT_VALIDATION_H

#include "compiler/job/job.h"
#include "compiler/validate/validate.h"

// The text of a job, as --validate, --no-validate and --certify say; adds the certificate to the files of the
// job. Of a rule that is broken: a warning, or an error where it was asked for. False: reported.
bool validation_run(Job *j);
// The input for a target and a CPU; the caller fills in the files.
ValidateInput validation_input(const Target *target, const char *cpu, const char *cc_flags);
// Reports findings in the style of a compiler's messages.
void validation_report(Diag *d, const ValidateReport *r, DiagLevel level);
// Some lines for people; what --json prints of it, as one object.
const char *validation_text(Arena *a, const ValidateReport *r);
const char *validation_json(Arena *a, const ValidateReport *r);
// Why libclang is not there, as an error. Returns false.
bool validation_missing(Diag *d, const char *option);

#endif
