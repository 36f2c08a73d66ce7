// SPDX-License-Identifier: Apache-2.0
// What the schedules of argmax and argmin share (lower_arg.c, arg_group.c).
#ifndef PASSES_LOWER_OPS_ARG_H
#define PASSES_LOWER_OPS_ARG_H

#include "passes/lower/operand.h"

typedef struct Search {
    NodeId x;
    uint32_t axis;
    bool keeps_axis;
    bool finds_largest;
    KRef ramp; // of searches along the axis: an array of 0, 1 .. lanes - 1
} Search;

// better(v, best), or v is the first NaN.
KRef search_is_better(Kernel *k, const Search *s, KRef v, KRef best);
// Is v found rather than the best so far? The places may have any order: of equal values, or of NaN, the
// first one is found.
typedef struct SearchBest {
    KRef value, place;
} SearchBest;
KRef search_wins(Kernel *k, const Search *s, SearchBest v, SearchBest best);
// From the place that idx says on, every `step` elements.
void search_part(Lower *l, const Search *s, KRef *idx, int64_t step, KRef *best, KRef *place);
// The axis of the root whose neighbours are those of x, or its rank.
uint32_t search_across_axis(const Lower *l, const Search *s);
// The threads of a group of a GPU have a result, or some whose elements are neighbours. False: nothing was
// emitted.
bool search_in_groups(Lower *l, const Search *s);

#endif
