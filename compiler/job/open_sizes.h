// SPDX-License-Identifier: Apache-2.0
// Sizes that are set between runs, in the commands that run a model: their values, and the shapes that inputs
// and outputs have by them. Values are by the slots of the plan's symbols.
#ifndef COMPILER_JOB_OPEN_SIZES_H
#define COMPILER_JOB_OPEN_SIZES_H

#include "compiler/job/job.h"

// How many there are; 0: all sizes are known.
uint32_t open_sizes_count(const Job *j);
// The values that the files of --input and the options --shape lead to; symbols that these leave open have
// their first ones. False: they contradict each other, or a size is out of range (reported).
bool open_sizes_given(Job *j, int64_t *values);
// Values number `round` of those with which a model is tried: all at their least, at their largest, and mixed
// ones between. False: there are no more.
bool open_sizes_try(const Job *j, uint32_t round, int64_t *values);
// Sizes of an input or output by the values.
void open_sizes_shape(const Job *j, bool is_output, uint32_t slot, const int64_t *values, int64_t *dim);
// The options with these values as --dim: for one size.
PipelineOptions open_sizes_fixed(Job *j, const int64_t *values);
// " (seq=3, batch=1)", or "".
const char *open_sizes_text(const Job *j, const int64_t *values);

#endif
