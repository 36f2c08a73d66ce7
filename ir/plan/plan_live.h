// SPDX-License-Identifier: Apache-2.0
// Facts about sizes that only a run knows: up to where the elements of each value mean anything. The analysis
// of passes/live finds them, loops and orders of kernels follow them.
#ifndef IR_PLAN_PLAN_LIVE_H
#define IR_PLAN_PLAN_LIVE_H

#include "ir/graph/graph.h"

// A number of elements: floor((value of node `size` * mul + add) / div), clamped to [0, size of the axis].
// size 0: not known.
typedef struct LiveRef {
    NodeId size;
    int64_t mul, add, div;
} LiveRef;

// Two independent facts about an axis. From `dead` on, elements do not exist in the model: they hold
// anything, unless `fill` says that masks have put `value` into all elements from there on, in which case
// users may rely on these.
typedef struct LiveAxis {
    LiveRef dead, fill;
    double value;
} LiveAxis;

typedef struct LiveFacts {
    LiveAxis axis[SHAPE_MAX_RANK];
} LiveFacts;

// The facts of each NodeId; NULL: nothing is known.
typedef struct LiveTable {
    const LiveFacts **of;
    uint32_t n;
} LiveTable;

#endif
