// SPDX-License-Identifier: Apache-2.0
// What `rlxc compile` prints. A value of its own, so that a compile that the cache answers prints the same:
// only the folder of the files is left open.
#ifndef COMPILER_JOB_COMPILE_REPORT_H
#define COMPILER_JOB_COMPILE_REPORT_H

#include "compiler/job/job.h"

typedef struct ReportFile {
    const char *name; // without a folder
    size_t len;
} ReportFile;

typedef struct CompileReport {
    const char *head, *tail; // before and behind the list of files
    VEC(ReportFile) files;
} CompileReport;

// The report of a job whose files are written.
CompileReport compile_report_make(const Job *j);
// cc_flags: what the C compiler needs beside -O3, for the command that is to come next.
void compile_report_print(const Cli *c, const CompileReport *r, const char *dir, const char *cc_flags);

#endif
