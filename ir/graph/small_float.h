// SPDX-License-Identifier: Apache-2.0
// The floating-point formats of at most 16 bits, as bits and as numbers.
#ifndef IR_GRAPH_SMALL_FLOAT_H
#define IR_GRAPH_SMALL_FLOAT_H

#include "ir/graph/graph.h"

// Exact.
double small_float_widen(DType t, uint32_t code);
// One rounding, to nearest even (f8e8m0: ties up). What is too large becomes infinity, NaN where the format
// has none, and the largest number where it has neither (f4e2m1, where NaN gives -0); f8e8m0 has no sign, so
// that negative numbers are NaN in it, and no zero: that is its least number.
uint32_t small_float_narrow(DType t, double v);
// The largest finite number.
double small_float_max(DType t);

#endif
