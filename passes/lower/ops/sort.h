// SPDX-License-Identifier: Apache-2.0
// Sorting inside a kernel: positions 0, 1 ... n - 1 in the order that a comparison gives them, stable.
#ifndef PASSES_LOWER_OPS_SORT_H
#define PASSES_LOWER_OPS_SORT_H

#include "passes/lower/operand.h"

// Does position a come strictly before position b? Both are indices; may emit statements.
typedef KRef (*SortBefore)(Lower *l, void *ctx, KRef a, KRef b);

typedef struct Sort {
    SortBefore before;
    void *ctx;
    int64_t n;        // positions
    uint32_t scratch; // parameter of i32, sort_scratch(n) elements from `base` on
    KRef base;
} Sort;

static inline int64_t sort_scratch(int64_t n)
{
    return 2 * n;
}
// Emits a merge sort. The result is the index in scratch of the first of n sorted positions.
KRef sort_positions(Lower *l, const Sort *s);
// Emits a search for the first k positions of the order, by insertion: for few. An array of k positions.
KRef sort_first(Lower *l, const Sort *s, int64_t k);

#endif
