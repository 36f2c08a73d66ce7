// SPDX-License-Identifier: Apache-2.0
// Products of 8-bit floats on GPUs with matrix units. Importers write them as products of f32 whose operands
// are cast, and multiplied by scales (DequantizeLinear). The scales go behind the product, and the product
// reads the numbers as they are: as 8-bit floats where --accuracy allows what units lose of their sums, else
// as f16, which holds them exactly.
#ifndef PASSES_GRAPH_SIMPLIFY_EIGHTHS_H
#define PASSES_GRAPH_SIMPLIFY_EIGHTHS_H

#include "ir/graph/graph.h"

// What --accuracy must allow for units of 8-bit floats, of the largest sum of magnitudes: they keep 13 bits
// behind the largest of 32 products and the sum so far. Sums of 128 products are added up in f32.
#define EIGHTHS_ERROR 1e-3

static inline bool is_eighth(int type)
{
    return type == DTYPE_f8e4m3fn || type == DTYPE_f8e5m2;
}

// What a cast reads; 0: the node is none.
NodeId eighths_cast_of(const Graph *g, NodeId id);
// The product with its scales behind it, or id itself.
NodeId eighths_scale_last(Graph *g, NodeId id, double accuracy);
// Does a product read two casts to f32 whose operands it can read itself? *casts: both.
bool eighths_are_read(const Graph *g, NodeId id, NodeId casts[2]);
// The casts of constants below the operands of a node that becomes such a product, which must not be folded;
// 0 in place of others. False: it does not become one.
bool eighths_find_constants(const Graph *g, NodeId id, NodeId casts[2]);

#endif
