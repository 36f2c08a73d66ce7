// SPDX-License-Identifier: Apache-2.0
// How far a tensor is from what it should be: the measure of `rlxc verify` and `rlxc bisect`.
#ifndef COMPILER_TOOLS_COMPARE_H
#define COMPILER_TOOLS_COMPARE_H

#include "ir/graph/tensor.h"

typedef struct Difference {
    double largest;  // magnitude of the reference
    double error;    // largest absolute difference
    double relative; // error / largest
    int64_t at;      // where it is; -1: nowhere
    bool is_special; // NaN or infinity on one side only
} Difference;

// Both have the same number of elements.
Difference compare_tensors(const Tensor *got, const Tensor *want);
bool compare_shapes(const Tensor *got, const Tensor *want);
// The tolerance of relative errors where none is given.
double compare_tolerance(DType t);
static inline bool compare_is_ok(const Difference *d, double tolerance)
{
    return !d->is_special && d->relative <= tolerance;
}
// --tolerance; `unset` stays -1. False: reported.
bool compare_read_tolerance(Diag *d, const char *given, double *unset);

#endif
