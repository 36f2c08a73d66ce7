// SPDX-License-Identifier: Apache-2.0
// What a build system wants beside the outputs: what they were made from (--depfile), and the flags that the
// C compiler needs for them (--cc-flags).
#ifndef COMPILER_JOB_DEPFILE_H
#define COMPILER_JOB_DEPFILE_H

#include "compiler/job/job.h"

// Can the names of what was read, and of what will be written, stand in a depfile? Asked before anything is
// written. False: reported.
bool depfile_check(const Job *j, const char *dir);
// Writes those of the two that the options ask for. `dir`: the folder of the outputs. After a compile, when
// all of its inputs were read. False: reported.
bool depfile_write(const Job *j, const char *dir);

#endif
