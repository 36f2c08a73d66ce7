// SPDX-License-Identifier: Apache-2.0
// Pairs of bf16 that are one operand of an instruction (KOP_dot_bf16): copies of values in which two elements
// along an axis are the bits of an f32, and when that pays.
#ifndef PASSES_LOWER_PAIRS_H
#define PASSES_LOWER_PAIRS_H

#include "passes/lower/lower.h"

// Are sums of pairs faster than those of f32? Some cores do them at half the rate of multiply-adds of f32
// (Sapphire Rapids: 92 and 185 GFLOP/s), others at the same, which is twice as many products.
bool pairs_are_fast(const TargetCaps *caps);
// Sets the strides of a copy whose elements along `axis` are next to each other, with the other axes in their
// order: as f32, or in_pairs, where the strides count pairs. Returns the number of elements, or pairs.
int64_t pairs_place(const Lower *l, NodeId id, uint32_t axis, bool in_pairs, Loc *loc);
// Emits that copy, into scratch memory, and a barrier: the parameter, of f32. Pairs of an odd axis end with a
// 0.
uint32_t pairs_copy(Lower *l, NodeId id, uint32_t axis, bool in_pairs);

#endif
