// SPDX-License-Identifier: Apache-2.0
// The memory of a microcontroller in parts that are not alike (--bank).
#ifndef COMPILER_JOB_BANKS_H
#define COMPILER_JOB_BANKS_H

#include "compiler/job/job.h"

// Reads them into j->pipeline.banks, once the target, the board and the host's options are known. False:
// reported.
bool banks_read(Job *j);
// Once the plan is there: what constants of banks cannot be. False: reported.
bool banks_check(const Job *j);
// "64000", "64K" or "8M": K is 1024. False: it is no such number, or 0.
bool banks_read_size(const char *text, size_t n, uint64_t *out);

#endif
