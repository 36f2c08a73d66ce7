// SPDX-License-Identifier: Apache-2.0
// Tables of rows that are read by index and are the columns of a product as well, as the embedding of a
// language model is: where the product has one row, both read one copy, rows one after the other. Separate
// because both the gather and the product ask for it.
#ifndef PASSES_LOWER_PRODUCT_TABLE_H
#define PASSES_LOWER_PRODUCT_TABLE_H

#include "passes/lower/product/matmul.h"

// Is a constant such a table, for a gather and a product of any number of rows?
bool table_is_shared(const Lower *l, NodeId id);
// Its elements, f32 or what 16 bits hold of them exactly.
uint32_t table_param(Lower *l, NodeId id);
// `lanes` elements from index on, `count` of which are there, as f32.
KRef table_load(Lower *l, uint32_t table, KRef index, uint8_t lanes, uint8_t count);
// Lowers the product if it is one of a row with such a table. Accumulation: f32 fused multiply-adds, in up to
// four vectors of sums in rising k, which are added up, lanes at last.
bool table_lower_product(Lower *l, const Matmul *product);

#endif
