// SPDX-License-Identifier: Apache-2.0
// What the schedules of max_pool and avg_pool share: lower_pool.c has those along channels, pool_rows.c the
// one along columns.
#ifndef PASSES_LOWER_OPS_POOL_H
#define PASSES_LOWER_OPS_POOL_H

#include "passes/lower/lower.h"

enum { POOL_MAX_SPATIAL = 3, POOL_MAX_UNROLL = 16 };

typedef struct Pool {
    NodeId x;
    bool is_max, counts_pads, finds_place;
    KRef best; // argmax_pool: the variable of the place, -1 before the first
    uint32_t spatial;
    int64_t in[POOL_MAX_SPATIAL], out[POOL_MAX_SPATIAL], kernel[POOL_MAX_SPATIAL], stride[POOL_MAX_SPATIAL],
        dilation[POOL_MAX_SPATIAL];
    int64_t pad_begin[POOL_MAX_SPATIAL], pad_end[POOL_MAX_SPATIAL];
    uint32_t n_vectors;     // of channels, one behind the other, that share the loops over a window
    int64_t x_stride;       // of the operand along the axis of the vectors
    bool has_whole_columns; // at this point no window leaves the input along the last axis
} Pool;

// Taps [lo, hi) of the window that begins at `start` with 0 <= start + tap * dilation < end. Constants where
// no window needs clipping.
void pool_clip(Kernel *k, const Pool *p, uint32_t axis, KRef start, int64_t end, KRef *lo, KRef *hi);
// What counts for nothing: in a maximum, or in a sum.
KRef pool_neutral(Kernel *k, const Pool *p, int type);
// The larger one, NaN if one of them is, or the sum.
KRef pool_join(Kernel *k, const Pool *p, KRef a, KRef b);
// Taps inside the input along an axis, or, with count_include_pad, inside the padded input. May be 0.
KRef pool_count(Kernel *k, const Pool *p, uint32_t axis, KRef at);

// A pool of an image in rows whose result is wanted in rows: can it read and write them as they are?
bool pool_can_keep_rows(const Graph *g, const TargetCaps *caps, const Node *n);
// False: nothing was emitted.
bool pool_rows(Lower *l, const Domain *d, const Pool *p);

#endif
