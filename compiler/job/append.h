// SPDX-License-Identifier: Apache-2.0
// Text behind what was emitted for a model: sessions, and code that loads weights.
#ifndef COMPILER_JOB_APPEND_H
#define COMPILER_JOB_APPEND_H

#include "compiler/job/job.h"

// Adds text to the end of an emitted file, which must be there.
void job_append(Job *j, const char *name, const Str *more);

#endif
