// SPDX-License-Identifier: Apache-2.0
// Concrete tensors: dense, row-major, known sizes. Used by constants, the evaluator, the file readers and
// `rlxc run`.
#ifndef IR_GRAPH_TENSOR_H
#define IR_GRAPH_TENSOR_H

#include "ir/graph/graph.h"

typedef struct Tensor {
    DType dtype;
    uint32_t rank;
    int64_t dim[SHAPE_MAX_RANK];
    int64_t numel;
    void *data; // numel elements of dtype, little-endian; bool as bytes 0 or 1
} Tensor;

// Zeroed data in the arena.
Tensor tensor_new(Arena *a, DType t, uint32_t rank, const int64_t *dim);
// A view on a constant node's bytes.
Tensor tensor_of_const(const Graph *g, NodeId id);
// The same where nobody will ask who has read it (ir/graph/reads.h).
Tensor tensor_of_unread(const Graph *g, NodeId id);
// The same, or an empty tensor for what is no constant, or not there (0).
Tensor tensor_if_const(const Graph *g, NodeId id);
// Element i as a number. f16 and bf16 are widened exactly; i64 and u64 beyond 2^53 lose bits through get_f64
// (use get_i64).
double tensor_get_f64(const Tensor *t, int64_t i);
// floats truncate and saturate, NaN gives 0; u64 as its bit pattern
int64_t tensor_get_i64(const Tensor *t, int64_t i);
// Stores rounded to nearest even (floats), truncated and saturated (double to int), wrapped (int64 to int).
void tensor_set_f64(Tensor *t, int64_t i, double v);
// A number as an integer of that type (u64 as its bits): truncated, at most what there is, NaN as 0.
int64_t tensor_saturate(DType t, double v);
// An element from another tensor, as a number of its own type: exactly where both are integers, or floats.
void tensor_set_from(Tensor *t, int64_t i, const Tensor *from);
bool tensor_is_alike(const Tensor *a, const Tensor *b); // type and sizes
void tensor_set_i64(Tensor *t, int64_t i, int64_t v);
// Bytes less their zero points: none (an empty tensor), one, or one for each entry of axis 0.
int32_t *tensor_centred(Arena *a, const Tensor *t, const Tensor *zero);
// The narrowest type of i8, u8 and i16 that holds these numbers, which are differences of bytes.
DType tensor_byte_type(const int32_t *v, int64_t n);

// The bits of an element, in the low ones; set cuts them to the type and extends them as it is stored.
uint64_t tensor_get_bits(const Tensor *t, int64_t i);
void tensor_set_bits(Tensor *t, int64_t i, uint64_t bits);
// False: the bytes of element i are not what its type holds (a bool other than 0 and 1, a 4-bit integer that
// is not extended).
bool tensor_is_clean(const Tensor *t, int64_t i);

uint16_t f16_from_f64(double v); // one rounding, to nearest even
double f16_to_f64(uint16_t v);
uint16_t bf16_from_f64(double v);
double bf16_to_f64(uint16_t v);

#endif
