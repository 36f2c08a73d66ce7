// SPDX-License-Identifier: Apache-2.0
// The bytes of a tensor as a file holds them: what all readers of weight files do at their end.
#ifndef COMPILER_IMPORT_TENSORS_TENSOR_BYTES_H
#define COMPILER_IMPORT_TENSORS_TENSOR_BYTES_H

#include "ir/graph/tensor.h"

// Lets t (whose type, shape and numel are set) have these bytes: in place when they are aligned to 8, else
// as a copy. They must live as long as the tensor and are never written to. False: t is of bools and a byte
// is neither 0 nor 1; nothing is reported.
// What makes that false, in words.
const char *tensor_dirt(DType t);
bool tensor_set_bytes(Arena *a, Tensor *t, const void *bytes);

#endif
