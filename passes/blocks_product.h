// SPDX-License-Identifier: Apache-2.0
// What the schedules of block_matmul share.
#ifndef PASSES_BLOCKS_PRODUCT_H
#define PASSES_BLOCKS_PRODUCT_H

#include "passes/blocks.h"

typedef struct BlockProduct {
    NodeId x, w;
    const BlockFormat *f;
    int64_t rows, inner, columns;
    Domain d;        // of the root: the last axis has the columns, those before it the rows
    uint32_t x_rows; // param: rows of x as f32, `inner` apart
    KRef x_base;
    PackedBlocks packed;
} BlockProduct;

// Stores a vector of columns of row `row`.
void block_product_store(Lower *l, const BlockProduct *p, KRef row, KRef column, uint8_t count, KRef value);
// Vectors of columns with weights that can be packed. False: it does not apply.
bool block_product_vectors(Lower *l, BlockProduct *p);

#endif
