// SPDX-License-Identifier: Apache-2.0
// What the lowering knows about sizes that only a run knows (Graph.lives): up to where the elements of each
// value mean anything, so that loops can end there. All of it is for speed: where nothing is known, the whole
// of the largest size is computed, and what is beyond the live elements has no influence either way.
#ifndef PASSES_LIVE_LIVE_H
#define PASSES_LIVE_LIVE_H

#include "ir/plan/plan.h"

enum { LIVE_MAX_SIZES = 8 }; // that one kernel reads

// Facts about all values of the graph; NULL when it has no live sizes.
const LiveTable *live_analyse(const Graph *g, Arena *a);
// Adds where values end because nobody reads them from there on (live_need.c): the last step of the analysis.
void live_follow_needs(const Graph *g, const LiveFacts **of, Arena *a);
// The facts about a node, or NULL.
const LiveFacts *live_facts(const Plan *p, NodeId id);
// Up to where the node must be computed along the axis: size 0 where all of it must be.
LiveRef live_bound(const Plan *p, NodeId id, uint32_t axis);
// From where on all elements along the axis are `value`: size 0 where that is not known.
LiveRef live_fill(const Plan *p, NodeId id, uint32_t axis, double value);
// Is the node where(mask, x, v) with a mask that is true up to `end` along the axis, whatever the others are?
bool live_is_masked(const Plan *p, NodeId id, const LiveRef *end, uint32_t axis);
// The size times a constant; unknown when that overflows.
LiveRef live_times(LiveRef r, int64_t factor);
bool live_equal(const LiveRef *a, const LiveRef *b);
// The sizes that loops of the kernel may end at: nodes, each once; returns how many.
uint32_t live_sizes(const Plan *p, const PlanKernel *k, NodeId *size);
// Can the kernel read the size: is it stored by another one (or a leaf)?
bool live_is_apart(const Plan *p, const PlanKernel *k, NodeId size);
// The node whose kernel stores the size: itself, or what it is a view or a result of.
NodeId live_source(const Graph *g, NodeId size);

#endif
