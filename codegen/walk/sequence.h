// SPDX-License-Identifier: Apache-2.0
// In which order the instructions of a kernel are written.
#ifndef CODEGEN_WALK_SEQUENCE_H
#define CODEGEN_WALK_SEQUENCE_H

#include "codegen/walk/values.h"

typedef VEC(KRef) Sequence;

// All statements in their order, and before each the named values that it is the first to need.
Sequence sequence_of(const Kernel *k, const Value *values, Arena *a);

#endif
