// SPDX-License-Identifier: Apache-2.0
// What `rlxc inspect --json` prints; its pages carry the same text, so that their numbers are the same.
#ifndef COMPILER_INSPECT_JSON_H
#define COMPILER_INSPECT_JSON_H

#include "compiler/facts.h"
#include "compiler/job.h"
#include "compiler/machine_code.h"

// code: NULL: it was not asked for.
const char *inspect_json(const Job *j, const Totals *t, const MachineCode *code);

#endif
