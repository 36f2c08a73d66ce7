// SPDX-License-Identifier: Apache-2.0
// Fixed point as gemmlowp has it. Nodes are i64 that hold i32: Q0.31 unless said otherwise.
#ifndef COMPILER_IMPORT_TFLITE_OPS_TFL_FIXED_H
#define COMPILER_IMPORT_TFLITE_OPS_TFL_FIXED_H

#include "compiler/import/tflite/tfl_import.h"

// exp of a negative number in Q5.26.
int32_t tfl_exp_negative(int32_t a);
// a * b / 2^31, halves up.
NodeId tfl_high(TflNode *n, NodeId a, NodeId b);
NodeId tfl_high_by(TflNode *n, NodeId a, int32_t b);
// x / 2^shift, halves away from zero; shift is not 0.
NodeId tfl_halved(TflNode *n, NodeId x, int shift);
// At most the largest i32.
NodeId tfl_up_to_one(TflNode *n, NodeId x);
// 1 / (1 + x) for x in [0, 1).
NodeId tfl_reciprocal(TflNode *n, NodeId x);
// The number of the highest bit that is set in x, which is not negative; bits (32 or 64): enough for x. 0 for
// 0.
NodeId tfl_top_bit(TflNode *n, NodeId x, int bits);
// Softmax of reals, or its logarithm, along the last axis (tfl_softmax.c).
NodeId tfl_softmax(TflNode *n, OpId op, NodeId x);

#endif
