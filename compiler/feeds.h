// SPDX-License-Identifier: Apache-2.0
// Inputs of `rlxc run` and `rlxc verify`: from .npy files, or random.
#ifndef COMPILER_FEEDS_H
#define COMPILER_FEEDS_H

#include "compiler/job.h"
#include "ir/tensor.h"

// One tensor per input of the plan, in order, from --input and --random. random_seed NULL: every input must
// be given. sizes: of the symbols that are set between runs (open_sizes.h).
bool feeds_read(Job *j, const char *random_seed, const int64_t *sizes, Tensor **out);

#endif
