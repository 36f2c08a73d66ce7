// SPDX-License-Identifier: Apache-2.0
// Borders: where all readers of an image of bytes are convolutions whose padding has to be in memory (those
// of lower_int_conv.c), its rows lie inside of a frame of zero points, so that no reader makes a copy with
// padding. The kernel that computes the image fills the frame. Separate because the plan gives such an image
// its place, every kernel may compute it, and convolutions read it.
#ifndef PASSES_LOWER_BORDER_H
#define PASSES_LOWER_BORDER_H

#include "passes/lower/lower.h"

// The frame that suits all n readers of a value (0: something outside reads it); false: it is to have none.
bool border_for(const Plan *p, NodeId id, const NodeId *readers, uint32_t n, PlanBorder *border);
// Moves a dense place behind the first rows and columns of the frame: how many elements it takes then.
int64_t border_frame(const Plan *p, const PlanBorder *b, Loc *loc);
// The frame of a value, or NULL.
const PlanBorder *border_find(const Plan *p, NodeId id);
// Fills the frame of the root, if it has one: at the end of its kernel.
void border_fill(Lower *l);

#endif
