// SPDX-License-Identifier: Apache-2.0
// Where the elements of a view lie, by where those of its operand do. Separate from fusion, which asks for it
// once a node.
#ifndef PASSES_PLAN_VIEW_LOC_H
#define PASSES_PLAN_VIEW_LOC_H

#include "passes/pass.h"

// n: slice, reshape, transpose or expand; src: of its operand. False: a reshape of memory that is scattered.
bool view_loc(const Graph *g, const Node *n, const Loc *src, Loc *out);

#endif
