// SPDX-License-Identifier: Apache-2.0
// Where the elements of a view lie, by where those of its operand do. Separate from fusion, which asks for it
// once a node.
#ifndef PASSES_PLAN_VIEW_LOC_H
#define PASSES_PLAN_VIEW_LOC_H

#include "passes/pass.h"

// Of values that follow each other in this order of axes.
void dense_strides(const Shape *s, AxisOrder order, int64_t *stride);
// Equal strides on all axes that have more than one element.
bool same_strides(const Shape *s, const int64_t *a, const int64_t *b);
bool is_dense_rows(const Shape *s, const Loc *loc);
// True for rows of pixels that are read as an image: channels lie last as it is, if the operand is in rows.
bool view_has_channels_last(const Node *n);
// n: slice, reshape, transpose or expand; src: of its operand. False: a reshape of memory that is scattered.
bool view_loc(const Graph *g, const Node *n, const Loc *src, Loc *out);
// Where the operand of a view has to lie for the view to lie at `want`. False: nowhere, or that is not known.
// The source of a reshape must be wanted as dense rows; of a transpose, the permuted strides.
bool view_source_loc(const Graph *g, const Node *n, const Loc *want, Loc *out);

#endif
