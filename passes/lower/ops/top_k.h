// SPDX-License-Identifier: Apache-2.0
// What the schedules of top_k share (lower_top_k.c, top_k_level.c, top_k_sort.c).
#ifndef PASSES_LOWER_OPS_TOP_K_H
#define PASSES_LOWER_OPS_TOP_K_H

#include "passes/lower/ops/sort.h"

typedef struct TopK {
    NodeId x, places; // places: the result node, 0 = nobody asks
    uint32_t axis;
    int64_t n, k;
    bool finds_largest;
    KRef idx[SHAPE_MAX_RANK]; // of the line
} TopK;

KRef top_k_load(Lower *l, const TopK *t, KRef position);
// Puts the element at `position` of the line to place `rank` of the results.
void top_k_store(Lower *l, TopK *t, KRef rank, KRef position);
static inline SortOrder top_k_order(const TopK *t)
{
    return t->finds_largest ? SORT_FALLING : SORT_RISING;
}
// Threads of a group that has a line of a GPU.
uint32_t top_k_threads(const Lower *l, const TopK *t, int64_t lines);
// Opens the loop over lines that groups of threads have: close with k_end. lines: with one element along the
// axis.
void top_k_open_line(Lower *l, TopK *t, const Domain *lines, uint32_t threads);
// A group has a line, of which it finds the rank of the last of the best (top_k_level.c). False: it does not
// fit, and nothing was emitted.
bool top_k_by_level(Lower *l, TopK *t, const Domain *lines, int64_t n_lines);
// Does the element a come before b, wherever they are?
KRef top_k_before(Lower *l, const TopK *t, KRef a, KRef b);
// A group has a line, which it sorts in shared memory (top_k_sort.c). False: it does not fit, and nothing was
// emitted.
bool top_k_by_merges(Lower *l, TopK *t, const Domain *lines);
// Are so many wanted that this is better than the search for the last of them?
bool top_k_prefers_merges(const TopK *t);
// Lines are runs of so many elements that are sorted already: a thread finds the place of an element among
// all runs of its line. elements: of all lines.
void top_k_by_runs(Lower *l, TopK *t, const Domain *elements, int64_t run);

#endif
