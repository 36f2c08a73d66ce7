// SPDX-License-Identifier: Apache-2.0
// What the files of qmatmul's schedule share: lower_qmatmul.c multiplies floats, qmatmul_dot.c rows that are
// rounded to bytes.
#ifndef PASSES_LOWER_PRODUCT_QMATMUL_H
#define PASSES_LOWER_PRODUCT_QMATMUL_H

#include "passes/lower/lower.h"

enum { QMATMUL_MAX_ROWS = 4 };

typedef struct Product {
    NodeId x, w, scale, zero; // zero 0: half of the range
    int64_t inner, columns, blocks, blob;
    int64_t bits, per_byte, block;
    uint8_t lanes;
    uint32_t words, scales, zeros;     // packed parameters
    int64_t rows;                      // that are computed together
    bool is_rounded;                   // rows of x are rounded to 8 bits in each block
    uint32_t x_words, x_steps, x_sums; // of the rounded rows: bytes by four, size of a step, sum of the bytes
} Product;

// Emits the loops that round all rows of x, into scratch memory.
void qmatmul_round_rows(Lower *l, Product *p);
// Computes p->rows rows at a vector of columns from rounded rows.
void qmatmul_dot_point(Lower *l, const Domain *d, Point at, void *product);
// Point `at`, r rows further.
Point qmatmul_row(Lower *l, const Domain *d, const Point *at, int64_t r);

#endif
