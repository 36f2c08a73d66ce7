// SPDX-License-Identifier: Apache-2.0
// States that are windows over what comes, as those of streaming networks are: their new value is a part of a
// concat that begins with the old one. The state can then be a part of the concat's memory: a run moves the
// old elements to the begin, and nothing is copied there and back. Separate from fusion, which asks for it.
#ifndef PASSES_PLAN_SHIFT_H
#define PASSES_PLAN_SHIFT_H

#include "passes/plan/group.h"
#include "passes/pass.h"

// whole: the concat; at: where the new value lies, if the concat begins at `begin`.
typedef struct Shift {
    NodeId whole;
    Loc begin, at;
} Shift;

// state: where the state lies by itself.
bool shift_find(const Pass *p, const Uses *u, const GraphState *s, const Loc *state, Shift *out);

#endif
