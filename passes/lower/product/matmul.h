// SPDX-License-Identifier: Apache-2.0
// What a matrix product is made of, for the schedules that lower it.
#ifndef PASSES_LOWER_PRODUCT_MATMUL_H
#define PASSES_LOWER_PRODUCT_MATMUL_H

#include "passes/lower/lower.h"

typedef struct Matmul {
    NodeId a, b;
    NodeId norm;                    // a is multiplied as this rms_norm of its rows, which is nowhere; or 0
    double scale;                   // of the sums: numbers by which operands were to be multiplied
    int64_t m, n, k;                // rows, columns, inner
    bool a_is_vector, b_is_vector;  // 1-D operands: the row or column is missing from the result
    uint32_t batch;                 // leading axes of the result
    uint32_t all_batch;             // the same before rows were joined with them
    int64_t a_row, a_k, b_k, b_col; // strides in elements
    KRef k_live;                    // of the inner elements: that count; 0: all
    Loc a_loc;                      // of a, or of a copy
    Domain d; // axes of the result: batch, rows, columns (always both; missing ones have one element)
} Matmul;

// The product that is the anchor, without a domain.
Matmul matmul_of(Lower *l);
// A second product of the same rows in the kernel, which the epilogue reads too; 0: there is none.
NodeId matmul_other(const Lower *l);
// Sets the strides of a from a_loc.
void matmul_set_rows(Lower *l, Matmul *x);
// Where the matrix of an operand begins for a batch entry.
KRef matmul_base(Lower *l, const Matmul *x, NodeId id, const Loc *loc, const Point *at);
Point matmul_point(const Matmul *x, const Point *batch, KRef row, KRef column);
// The same with rows of several matrices against one b as rows of one matrix.
Matmul matmul_join_rows(const Lower *l, const Matmul *product);

// Products on matrix registers of CPUs, where that is faster: of a constant b that can be packed, and of a b
// that a run makes, both of bf16. Rows are joined.
bool matmul_fits_matrix(const Lower *l, const Matmul *joined);
void matmul_on_matrix(Lower *l, const Matmul *joined);
bool matmul_fits_panels(const Lower *l, const Matmul *joined);
void matmul_on_panels(Lower *l, const Matmul *joined);
// Has it so many rows that matrix units are faster than what matvec.h says?
bool lower_prefers_units(const Lower *l, const Matmul *x);
// Lowers it as gpu_matmul.h says, if it has the form for that.
bool gpu_matmul_lower(Lower *l, const Matmul *product);
// Will it be computed like that by units, whatever the places of its operands turn out to be, with tiles
// enough for a second product of the same rows?
bool gpu_matmul_takes_second(const Plan *p, NodeId matmul);
// Lowers a product of integers in tiles of sums, where the target is a microcontroller.
bool int_tiles_lower(Lower *l, const Matmul *x);
// Lowers it as matvec.h says, if it has few rows and the form for that.
bool lower_few_rows(Lower *l, const Matmul *product);

#endif
