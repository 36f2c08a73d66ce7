// SPDX-License-Identifier: Apache-2.0
// What the schedules of scatter share (lower_scatter.c, scatter_group.c).
#ifndef PASSES_LOWER_OPS_SCATTER_H
#define PASSES_LOWER_OPS_SCATTER_H

#include "passes/lower/operand.h"

typedef struct Scatter {
    NodeId data, indices, updates;
    OpId join; // of what is there with an update; OP_none: the update replaces it
    const Shape *shape;
    bool is_in_place;
    KRef row;    // of data, while its elements are visited
    KRef update; // index of the update
} Scatter;

// Does the device find largest whole numbers, many at once, in memory to which data was copied before
// (PlanKernel.operands)?
bool scatter_finds_maxima(const TargetCaps *caps, const Graph *g, NodeId id);
// The row that an update goes to, with `inside` = it is one of data's.
KRef scatter_row(Lower *l, const Scatter *s, KRef update, KRef *inside);
// The type in which elements are joined.
int scatter_type(const Lower *l);
// What is there, joined with an update, both of that type: rounded as if it were stored.
KRef scatter_join(Lower *l, const Scatter *s, KRef value, KRef update);
// What is there before all updates: at idx of data, and at `place` of the result.
KRef scatter_old(Lower *l, const Scatter *s, const KRef *idx, KRef place);
// On GPUs, where updates are many: a group of threads has some rows (scatter_group.c). False: it does not
// fit, and nothing was emitted.
bool scatter_by_groups(Lower *l, const Scatter *s, int64_t count);

#endif
