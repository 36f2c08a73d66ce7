// SPDX-License-Identifier: Apache-2.0
// What a model calls its inputs and outputs, and which tensors of the generated code they are made of.
#ifndef COMPILER_JOB_INTERFACE_H
#define COMPILER_JOB_INTERFACE_H

#include "compiler/job/job.h"
#include "ir/graph/tensor.h"

// The input or output of the model to which the tensor belongs when it is strings, else NULL.
const GraphIo *interface_text(const Job *j, const char *tensor, bool is_output);
// The member "interface" of the --json outputs, without a comma after it.
const char *interface_json(const Job *j);
// Prints one tensor of strings: "a", "b".
void interface_print_text(const Tensor *t);

#endif
