// SPDX-License-Identifier: Apache-2.0
// The distance between pixels of channels-last values: where rows of channels are so long that the pixels of
// one tile fall into the same few sets of the first-level cache and evict each other, a gap follows every
// row.
#ifndef PASSES_PLAN_PITCH_H
#define PASSES_PLAN_PITCH_H

#include "passes/plan/group.h"

// Elements to leave free behind the channels of every pixel of `id`, 0 mostly.
int64_t pitch_gap(const Plan *p, const Uses *u, NodeId id);

#endif
