// SPDX-License-Identifier: Apache-2.0
// What `rlxc inspect --json` prints; its pages carry the same text, so that their numbers are the same.
#ifndef COMPILER_REPORT_INSPECT_JSON_H
#define COMPILER_REPORT_INSPECT_JSON_H

#include "compiler/report/facts.h"
#include "compiler/job/job.h"
#include "compiler/native/machine_code.h"

// code: NULL: it was not asked for.
const char *inspect_json(const Job *j, const Totals *t, const MachineCode *code);

#endif
