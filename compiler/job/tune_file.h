// SPDX-License-Identifier: Apache-2.0
// The text file between `rlxc tune` and `--tune`: one line for each question that the compiler asked about
// how to compute something, with the answer that was the fastest. Lines are sorted, so that equal
// measurements give equal files.
#ifndef COMPILER_JOB_TUNE_FILE_H
#define COMPILER_JOB_TUNE_FILE_H

#include "base/str.h"
#include "ir/plan/plan.h"

typedef struct TuneFile {
    const char *place;       // for which it was measured: "cpu native", "gpu sm_90a"
    VEC(PlanChoice) choices; // question and answer only
} TuneFile;

// False: reported, with the line.
bool tune_file_read(Arena *a, Diag *d, const char *path, TuneFile *out);
// Complete or not at all. Sorts the choices. False: reported.
bool tune_file_write(Diag *d, const char *path, TuneFile *file);

#endif
