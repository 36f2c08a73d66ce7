// SPDX-License-Identifier: Apache-2.0
// Values in registers: for schedules of GPUs in which a thread takes several neighbouring elements at once.
// What its points read is fetched by accesses of up to 16 bytes and held in arrays, from which pull_value
// takes it (Point.slot); what the root's points get is collected in an array, and put to memory likewise.
#ifndef PASSES_LOWER_WIDE_H
#define PASSES_LOWER_WIDE_H

#include "passes/lower/lower.h"

enum { WIDE_MAX_VALUES = 24, WIDE_MAX_ELEMENTS = 16, WIDE_GROUP = 256 };

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
// The same, where a kernel can store its root so: w->n may be 1.
bool wide_fits(const Lower *l, const Domain *d, uint32_t axis, Wide *w);
// What varies along the axes from `row` on, an element at once, whatever its strides; the root's elements are
// not collected. axis: one before them.
bool wide_new_single(const Lower *l, const Domain *d, uint32_t axis, uint32_t row, Wide *w);
// One element at once: the end may be anywhere.
void wide_narrow(Wide *w);
// Declares registers for `turns` times n elements of each value. They are what pull_value takes until
// wide_end.
void wide_declare(Lower *l, Wide *w, int64_t turns);
void wide_end(Lower *l);
// Fetches the n elements from the point on, into the registers from `slot` on.
void wide_fetch(Lower *l, const Wide *w, Point at, KRef slot);
// Calls fn for each of the n elements from the point on, whose registers begin at `slot`. stores: fn stores
// the root.
void wide_each(Lower *l, const Wide *w, Point at, KRef slot, bool stores, PointFn fn, void *ctx);

// The parameter for what is written (0: the destination of a copy).
uint32_t wide_param_written(Lower *l, NodeId root);
// Elements of one access to a value of the domain: a power of two that all its indices are multiples of. 0:
// its elements are no neighbours along the axis.
uint32_t wide_piece(const Lower *l, const Domain *d, NodeId id, uint32_t axis);
// Opens loops over a GPU's threads, in groups of `group` (WIDE_GROUP mostly), each of which has n elements
// along an axis: at is the first one. Close with lower_close(l, returned count).
uint32_t wide_open(Lower *l, const Domain *d, uint32_t axis, uint32_t n, uint32_t group, Point *at);
// n elements from `index` on, into array[slot ...]; and back.
typedef struct WideSpan {
    uint32_t n, piece; // piece: by an access at most
    bool is_once;      // no cache needs to keep them
} WideSpan;
void wide_load(Lower *l, uint32_t param, KRef index, KRef array, int64_t slot, WideSpan s);
void wide_store(Lower *l, uint32_t param, KRef index, KRef array, int64_t slot, WideSpan s);

// A whole map kernel of a GPU, where its points can be taken several at once: fn stores the root's element at
// a point. False: nothing was emitted.
bool wide_map(Lower *l, const Domain *d, PointFn fn, void *ctx);

// The same over axes that are taken as one, for kernels without vectors along the last axis.
bool wide_flat_map(Lower *l, const Domain *d, PointFn fn, void *ctx);
// Elements of one access along axes that it has as one dense row; axes: a bit for each.
uint32_t wide_flat_piece(const Lower *l, const Domain *d, const Access *a, uint32_t axes);

// The same one by one, for what has no vectors: a thread has several elements, whose neighbours are those of
// its neighbours. False also where there are too few for that.
bool wide_single_map(Lower *l, const Domain *d, PointFn fn, void *ctx);

// A kernel of a GPU in two parts, along any axis: opens threads that have w->n elements each from `at` on,
// and fetches what the root is made of there beside the anchor. False: nothing was emitted.
bool wide_begin(Lower *l, const Domain *d, uint32_t axis, Wide *w, Point *at, uint32_t *opened);
// fn stores the root's element at each of the points. Closes what wide_begin has opened.
void wide_finish(Lower *l, const Wide *w, Point at, uint32_t opened, PointFn fn, void *ctx);
// Both, where all that a thread does is to store its elements. False: nothing was emitted.
bool wide_axis_map(Lower *l, uint32_t axis, PointFn fn, void *ctx);
// The same as wide_finish, where the anchor's elements are in an array.
void wide_finish_held(Lower *l, const Wide *w, Point at, uint32_t opened, KRef array);
// Elements of one access to an operand along one of its axes, whatever its other coordinates are; 0: its
// elements are no neighbours there.
uint32_t wide_operand_piece(const Lower *l, NodeId id, uint32_t axis);

#endif
