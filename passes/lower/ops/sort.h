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

// --- keys: values of up to 32 bits and their positions as one u64, which is compared at once ---

typedef enum SortOrder { SORT_RISING, SORT_FALLING } SortOrder;
// Where it is worth it for n values of the node's type.
bool sort_has_keys(const Lower *l, NodeId id, int64_t n);
// The upper half of a key, as u32: what comes first is lower.
KRef sort_rank(Lower *l, KRef value, SortOrder order);
// Of equal values the one at the lower position comes first, whatever the order. NaN is the largest value.
KRef sort_key(Lower *l, KRef value, KRef position, SortOrder order);
KRef sort_position(Lower *l, KRef key);
// Emits a sort of the first `count` keys of a parameter of 2 * most u64, count <= most. Of equal values those
// at lower positions must come first already.
void sort_keys(Lower *l, uint32_t scratch, KRef count, int64_t most);

// Two runs that are merged, and the halves of the scratch memory that have them and get them.
typedef struct SortRuns {
    KRef from, to, begin, middle, end;
} SortRuns;

#endif
