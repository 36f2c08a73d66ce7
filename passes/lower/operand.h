// SPDX-License-Identifier: Apache-2.0
// Operands that a schedule reads at coordinates of its own (windows, tables, indices), not at the point of
// its domain: addresses by axis, loads of as many lanes as the point has, and indices that come out of
// tensors. See operand.c.
#ifndef PASSES_LOWER_OPERAND_H
#define PASSES_LOWER_OPERAND_H

#include "passes/lower/lower.h"

// Index of element (idx[0], idx[1] ...) of a value, on its own axes.
KRef operand_index(Lower *l, NodeId id, const KRef *idx);
// Index of the element at a point of a domain with `rank` axes, the value's shape being broadcast (aligned at
// the last axis).
KRef operand_broadcast_index(Lower *l, NodeId id, const KRef *idx, uint32_t rank);
// Loads for a point: its lanes are neighbours when stride is 1, and all the same element when it is 0.
KRef operand_load(Lower *l, NodeId id, KRef index, const Point *at, int64_t stride);
// `lanes` neighbours of a value, of which `count` are read; of bools the mask.
KRef operand_lanes(Lower *l, NodeId id, KRef index, uint8_t lanes, uint8_t count);
// As what a copy moves elements: bools are bytes, of which there are vectors.
DType operand_moved_type(const Lower *l, NodeId id);
KRef operand_load_moved(Lower *l, NodeId id, KRef index, uint8_t lanes, uint8_t count);
// Every other element from index on.
KRef operand_even_lanes(Lower *l, NodeId id, KRef index, uint8_t lanes, uint8_t count);
// The type in which sums over values of `t` are computed: f32 for the 16-bit floats.
int operand_sum_type(int t);
// One element, converted to `type`.
KRef operand_scalar(Lower *l, NodeId id, KRef index, int type);
// Element `index` of an integer operand as an index inside [low, high], clamped before it is narrowed.
KRef operand_clamped(Lower *l, NodeId id, KRef index, int64_t low, int64_t high);
// The same as a row of n, of which those below 0 count from the back.
KRef operand_row(Lower *l, NodeId id, KRef index, int64_t n);
// The axis of the root along which lower_map with MAP_VECTOR makes vectors.
uint32_t operand_map_axis(const Lower *l);
// Are a value's elements along `axis` (of its own shape) next to each other, or is there one only?
bool operand_is_dense(const Lower *l, NodeId id, uint32_t axis);
// True when a value has type f32, f16 or bf16 and its elements along `axis` (of its own shape) are next to
// each other.
bool operand_has_vectors(const Lower *l, NodeId id, uint32_t axis);
// Lanes in which elements of a value are moved along an axis of a domain. Long runs are moved one by one:
// of such a loop compilers make a call of memcpy, and C libraries know stores that do not read what they
// replace.
uint8_t operand_moved_lanes(const Lower *l, const Domain *d, uint32_t axis, NodeId id);
// Stores a value for the point; a scalar goes to all lanes.
void operand_store(Lower *l, uint32_t param, KRef index, KRef value, const Point *at);

#endif
