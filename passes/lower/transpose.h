// SPDX-License-Identifier: Apache-2.0
// Copies of matrices with rows and columns exchanged, in blocks that are turned in vector registers.
#ifndef PASSES_LOWER_TRANSPOSE_H
#define PASSES_LOWER_TRANSPOSE_H

#include "passes/lower/lower.h"

// Element (r, c) of `from`, at from_at + r * from_row + c, goes to to_at + c * to_row + r of `to`. Rows are
// written up to a whole vector, as zeros behind the last.
typedef struct Transpose {
    uint32_t from, to; // params; from: of f32 or 16-bit floats, to: of f32
    KRef from_at, to_at;
    int64_t rows, columns, from_row, to_row;
    KRef live; // rows that are needed, at most `rows`; 0: all of them
    uint8_t lanes; // above 1
    // What is written are pairs of bf16, along the columns (KOP_pair_bf16), the last one with a 0 where they
    // are odd: pair p of row r at to_at + p * to_row + r.
    bool in_pairs;
} Transpose;

void transpose_emit(Lower *l, const Transpose *t);

#endif
