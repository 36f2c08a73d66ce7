// SPDX-License-Identifier: Apache-2.0
// What the files of the extent pass share. A size that the model computes, or that is set between runs, is
// planned at its largest, so that along such an axis only the first elements mean anything. Every rule keeps
// this: the live part of a result depends on the live parts of its operands only. See extent.c.
#ifndef PASSES_GRAPH_EXTENT_H
#define PASSES_GRAPH_EXTENT_H

#include "passes/pass.h"

// Are sizes computed, or set between runs: in the graph, in a branch of an `if`, in the body of a loop?
bool extent_has_sizes(const Graph *g);
// Sizes that can have one value only become numbers, in extent_single.c. False: reported.
bool extent_bind_single(Pass *p);

// A node with computed sizes in its operands or results: what takes its place. 0: reported.
typedef NodeId (*ExtentRule)(Graph *g, NodeId id);
// extent_NAME, as ops.def says; NULL for ops that are expanded before.
ExtentRule extent_rule(OpId op);
#define OP(name, shape, min, max, results, flags, layout, joins, types, operand, result, steps, beyond,      \
           fill, live, stream)                                                                               \
    NodeId extent_##beyond(Graph *g, NodeId id);
#include "ir/graph/ops.def"

static inline bool extent_is_live(const Graph *g, NodeId id, uint32_t axis)
{
    return graph_dim_is_computed(g, graph_node(g, id)->shape->dim[axis]);
}
// Bits of the axes of a value that have a computed size.
uint32_t extent_axes(const Graph *g, NodeId id);
// "NAME: OP does not work along an axis whose size the model computes (hits): why". Returns 0. At least one
// axis of the node or of its operands is such, or sizes inside of it are.
NodeId extent_refuse(Graph *g, NodeId id, const char *why);
NodeId extent_scalar(Graph *g, NodeId like, double v); // of like's type
// 0, 1 ... d - 1 as i64[d].
NodeId extent_iota(Graph *g, Dim d);
// i64[], the size in a run.
NodeId extent_size(Graph *g, Dim d);
// The elements beyond the live part along the axes in mask become v.
NodeId extent_mask(Graph *g, NodeId id, uint32_t mask, double v);
// bool, broadcasting to the shape: is the element live along all axes? Some axis must have such a size.
NodeId extent_inside(Graph *g, const Shape *s);
// The node with another operand i.
NodeId extent_with(Graph *g, NodeId id, uint32_t i, NodeId src);
// The node with operand i masked along the axes in mask, where these have computed sizes.
NodeId extent_masked(Graph *g, NodeId id, uint32_t i, uint32_t mask, double v);
// Sizes in a run as i64[rank].
NodeId extent_sizes(Graph *g, const Shape *s);
// The axes behind the last one that is cut as one: the rows that repack moves.
Shape extent_rows(Graph *g, const Shape *s);
// Joins i64 scalars to a list.
NodeId extent_list(Graph *g, const NodeId *entry, uint32_t n);

// Are there sizes inside of a sub-graph that are not known outside?
bool extent_has_sizes_inside(const Graph *g, const Graph *sub);
// A loop whose body has such sizes in values only of which it takes one entry an iteration (extent_loop.c).
bool extent_loop_is_over_entries(const Graph *g, NodeId id);
// A loop with such sizes in its body in other places. step: for the nodes of the body.
NodeId extent_open_loop(Graph *g, NodeId id, RewriteStep step);

#endif
