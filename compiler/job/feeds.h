// SPDX-License-Identifier: Apache-2.0
// Inputs and parameters of runs (`rlxc run`, `verify`, `bench` ...): from .npy files, or random.
#ifndef COMPILER_JOB_FEEDS_H
#define COMPILER_JOB_FEEDS_H

#include "compiler/job/job.h"
#include "ir/graph/tensor.h"

// Whether --input names inputs of the imported model, with files of their ranks: said before anything is said
// about sizes that are not known for want of them. False: reported.
bool feeds_check(Job *j);
// One tensor per input of the plan, in order, from --input and --random. random_seed NULL: every input must
// be given. sizes: of the symbols that are set between runs (open_sizes.h).
// Parameters, from --param and --random, too: what a context of the job is given when it is made (native.h).
bool feeds_read(Job *j, const char *random_seed, const int64_t *sizes, Tensor **out);
// The value that feeds_read found for a parameter; NULL: none, it keeps its initial one.
const Tensor *feeds_param(const Job *j, const char *name);

#endif
