// SPDX-License-Identifier: Apache-2.0
// The layout of panels into which constant matrices are packed. Separate for those who write code that packs
// (compiler/load), and know nothing of lowering.
#ifndef PASSES_LOWER_PRODUCT_GEMM_PACKED_H
#define PASSES_LOWER_PRODUCT_GEMM_PACKED_H

#include "ir/plan/plan.h"

// Panels of equal width that follow each other, or equal tiles of rows.
typedef struct GemmRun {
    int64_t first; // column or row
    int64_t width; // columns (a multiple of the lanes) or rows of each
    int64_t count;
    int64_t real; // columns of the last that exist; the others are padding
} GemmRun;

typedef struct GemmRuns {
    uint32_t n;
    GemmRun run[3];
} GemmRuns;

// Panels of one or several matrices, one after the other; element (i, column) of a matrix is at i * b_k +
// column * b_col. A group of panels has `steps` of k of each panel in turn, then the next steps.
typedef struct GemmPacked {
    GemmRuns panels;
    DType type;       // of elements
    int64_t group[3]; // panels of a group, in each run; the last group of a run may have fewer
    int64_t k, steps, b_k, b_col;
    int64_t n_matrices, matrix; // elements from one to the next
    uint64_t stride;            // packed bytes from one to the next
} GemmPacked;

// What the bytes of a buffer are packed from, elements of that type, and how. False: they are no panels that
// were packed at compile time, or their elements are others than those of the constant of the model.
bool gemm_packed_in(const PlanBuffer *b, const unsigned char **data, GemmPacked *out);

#endif
