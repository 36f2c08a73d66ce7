// SPDX-License-Identifier: Apache-2.0
// What `rlxc inspect --json` prints; its pages carry the same text, so that their numbers are the same.
#ifndef COMPILER_REPORT_INSPECT_JSON_H
#define COMPILER_REPORT_INSPECT_JSON_H

#include "compiler/report/facts.h"
#include "compiler/job/job.h"
#include "compiler/report/inspect_board.h"

const char *inspect_json(const Job *j, const Totals *t, const Measures *m);

#endif
