// SPDX-License-Identifier: Apache-2.0
// Constants as 16-bit floats: weights that come from such numbers are packed as such, though the graph may
// have cast them to f32, so that they take half of the memory and of its bandwidth. Only where nothing is
// lost.
#ifndef PASSES_LOWER_HALVES_H
#define PASSES_LOWER_HALVES_H

#include "ir/graph/reads.h"

// The type in which to keep n constants of `type` (f32, f16 or bf16): that type, or for many of f32 one of 16
// bits that holds each of them exactly.
DType halves_type(DType type, const void *data, int64_t n);
// Are all elements of an f32 cast from that type?
bool halves_come_from(const Graph *g, NodeId id, DType type);
// The same for a constant of the graph, of which the program may load other numbers: then what counts is the
// type that it had in the model.
DType halves_type_in(const Graph *g, DType type, const void *data, int64_t n);
// Element i of data, of type `from`, as `to`, which is that type or comes from halves_type. The bytes of data
// may lie anywhere.
void halves_copy(void *out, DType to, const void *data, DType from, int64_t i);

#endif
