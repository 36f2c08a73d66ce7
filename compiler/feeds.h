// SPDX-License-Identifier: Apache-2.0
// Inputs of `rlxc run` and `rlxc verify`: from .npy files, or random.
#ifndef COMPILER_FEEDS_H
#define COMPILER_FEEDS_H

#include "compiler/job.h"
#include "ir/tensor.h"

// One tensor per input of the plan, in order, from --input and --random. random_seed NULL: every input must
// be given.
bool feeds_read(Job *j, const char *random_seed, Tensor **out);

#endif
