// SPDX-License-Identifier: Apache-2.0
// For --weights inplace: the file of the user in which generated code reads weights.
#ifndef COMPILER_JOB_INPLACE_H
#define COMPILER_JOB_INPLACE_H

#include "compiler/job/job.h"

// Chooses the file with most weights among the model's files that have a header. Plans that are made
// from here on read them there. False: reported.
bool inplace_choose(Job *j);
// False: reported, where the plan has what needs one block of weights.
bool inplace_check(Job *j);
// What is in the file and what is not, as lines or as a member of an object; nothing without such a file.
void inplace_report(const Job *j, Str *out);
void inplace_report_json(const Job *j, Str *out);

#endif
