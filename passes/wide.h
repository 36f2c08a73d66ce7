// SPDX-License-Identifier: Apache-2.0
// Values in registers: for schedules of GPUs in which a thread takes several neighbouring elements at once.
// What its points read is fetched by accesses of up to 16 bytes and held in arrays, from which pull_value
// takes it (Point.slot); what the root's points get is collected in an array, and put to memory likewise.
#ifndef PASSES_WIDE_H
#define PASSES_WIDE_H

#include "passes/lower.h"

enum { WIDE_MAX_VALUES = 24, WIDE_MAX_ELEMENTS = 16 };

typedef struct Wide {
    const Domain *d;
    NodeId root; // 0: the destination of a copy
    uint32_t axis;                             // along which the elements are neighbours
    uint8_t n;                                 // elements at once; divides the extent
    bool is_root_wide;                         // its elements are collected
    uint8_t root_piece;                        // of them one access stores so many
    DType root_type;
    uint32_t n_values;                         // what varies along the axis
    RegisterValue value[WIDE_MAX_VALUES];      // array 0: not declared
    uint8_t piece[WIDE_MAX_VALUES];            // elements of one access
} Wide;

// False: something is not next to itself along the axis, or there is too much.
bool wide_new(const Lower *l, const Domain *d, uint32_t axis, Wide *w);
// Declares registers for `turns` times n elements of each value. They are what pull_value takes until
// wide_end.
void wide_declare(Lower *l, Wide *w, int64_t turns);
void wide_end(Lower *l);
// Fetches the n elements from the point on, into the registers from `slot` on.
void wide_fetch(Lower *l, const Wide *w, Point at, KRef slot);
// Calls fn for each of the n elements from the point on, whose registers begin at `slot`. stores: fn stores
// the root.
void wide_each(Lower *l, const Wide *w, Point at, KRef slot, bool stores, PointFn fn, void *ctx);

// A whole map kernel of a GPU, where its points can be taken several at once: fn stores the root's element at
// a point. False: nothing was emitted.
bool wide_map(Lower *l, const Domain *d, PointFn fn, void *ctx);

#endif
