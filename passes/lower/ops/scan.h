// SPDX-License-Identifier: Apache-2.0
// What the threads of a group before each one have, of a value that each of them has (cumsum_group.c,
// top_k_level.c): from shared memory, in two steps: of the threads of its segment, and of the segments
// before that.
#ifndef PASSES_LOWER_OPS_SCAN_H
#define PASSES_LOWER_OPS_SCAN_H

#include "passes/lower/rows.h"

typedef struct Scan {
    Kernel *k;
    const RowFold *fold;
    int type;
    int64_t threads, segments; // segments: of neighbouring threads
    KRef thread, totals, sums; // totals, sums: of threads and segments, shared
} Scan;

// Threads: a power of two.
Scan scan_new(Kernel *k, const RowFold *fold, int type, int64_t threads);
KRef scan_join(const Scan *s, KRef before, KRef v);
KRef scan_neutral(const Scan *s);
// What those before the thread have, by what each has; all: what the whole group has. Has barriers.
KRef scan_before(const Scan *s, KRef total, KRef *all);

#endif
