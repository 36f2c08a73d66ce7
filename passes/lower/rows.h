// SPDX-License-Identifier: Apache-2.0
// Row kernels: everything that reduces along some axes of its operand and may need several passes over a row
// (reductions, softmax, norms, argmax). A row is all elements that share the kept axes. Vectors run along the
// row, or across rows.
#ifndef PASSES_LOWER_ROWS_H
#define PASSES_LOWER_ROWS_H

#include "passes/lower/lower.h"

typedef enum RowsMode { ROWS_SCALAR, ROWS_ALONG, ROWS_ACROSS, ROWS_GROUP } RowsMode;

typedef struct RowsGroup RowsGroup; // of rows_group.c

typedef struct Rows {
    Domain d; // kept axes first, then the axes of the row; all accesses
    uint32_t n_kept;
    RowsMode mode;
    uint32_t vec_axis; // ALONG: the last axis; ACROSS: a kept one
    uint8_t lanes;
    int64_t count; // elements of a row
    bool is_folded; // no pass over the row writes, and no element of it is the result's
    RowsGroup *group;
    KRef ramp; // of rows_begin_folds, where vectors are not all whole: an array of 0, 1 .. lanes - 1
} Rows;

// operand: the value that the rows are made of (usually src[0] of the anchor). in_row[axis of its shape] says
// which axes a row has. The root has the axes of the operand (same_shape), or only the kept ones (with or
// without size-1 axes for the others). The anchor's other operands (scale, bias) are read on the operand's
// side, broadcast against its axes. neutral: what an element must be to count for nothing, NaN: there is no
// such thing.
Rows rows_new(Lower *l, NodeId operand, const bool *in_row, double neutral);

// Schedules whose row ends with rows_each or is a fold call this before anything is emitted: on GPUs, the
// threads of a group share each row, and ROWS_GROUP is the mode.
void rows_use_groups(Lower *l, Rows *r);

// Calls fn for every row; with ACROSS, for `lanes` rows at once (at.lanes, at.count).
typedef void (*RowFn)(Lower *l, const Rows *r, Point at, void *ctx);
void rows_emit(Lower *l, const Rows *r, RowFn fn, void *ctx);

// Calls fn for every element of the row at `at`, or for vectors of them; `fn` may set variables.
void rows_each(Lower *l, const Rows *r, Point at, PointFn fn, void *ctx);

// An array of registers for what a pass over the row computes for the next: element Point.slot. 0: the next
// one had better compute it again.
KRef rows_keep(Lower *l, const Rows *r, int type);

typedef struct RowFold {
    const char *form; // kernel form of a (so far) and b (element): "(add a b)"
    KOp across;       // how lanes are joined: KOP_add, KOP_mul, KOP_min, KOP_max
    double init;      // neutral element; its value in lanes that hold nothing
    bool keeps_nan;   // min, max: a NaN anywhere makes the result NaN
    bool is_wide;     // integers are folded in 64 bits, and the result is of that type
} RowFold;
// To be called before rows_emit, when rows are folded.
void rows_begin_folds(Lower *l, Rows *r);
// The value that a fold begins with.
KRef rows_neutral(Kernel *k, int type, const RowFold *fold);
extern const RowFold row_fold_sum, row_fold_mean, row_fold_prod, row_fold_max, row_fold_min;
// value(l, d, at, ctx) gives element(s) at a point. Returns the fold of the row: a scalar, or a vector with
// ACROSS.
KRef rows_fold(Lower *l, const Rows *r, Point at, const RowFold *fold, MapFn value, void *ctx);
// Folds every row once and calls fn with its result: for reductions. With ACROSS, rows whose elements lie far
// apart are taken several vectors at a time, so that what is read from memory at once is long enough to be
// fetched ahead.
typedef void (*FoldFn)(Lower *l, const Rows *r, Point at, KRef folded, void *ctx);
typedef struct RowReduction {
    const RowFold *fold;
    MapFn value;
    FoldFn finish;
    void *ctx; // of both
} RowReduction;
void rows_reduce(Lower *l, Rows *r, const RowReduction *x);
// The type in which elements are folded.
int rows_fold_type(const Lower *l, const RowFold *fold);

// Rows without vectors whose elements are neighbours across them (rows_columns.c): the kept axis along which
// they are. False: there is none.
bool rows_find_columns(const Lower *l, const Rows *r, uint32_t *axis);
// Calls fn for blocks of `width` rows, the first of which is at `at`.
typedef void (*ColumnsFn)(Lower *l, const Rows *r, Point at, int64_t width, void *ctx);
void rows_each_columns(Lower *l, const Rows *r, uint32_t axis, ColumnsFn fn, void *ctx);
// Opens the loop over the rows of a block; moves the point, and returns the number of the row.
KRef rows_open_columns(Lower *l, uint32_t axis, int64_t width, Point *at);
// rows_reduce for such rows; false: they are others.
bool rows_reduce_columns(Lower *l, const Rows *r, const RowReduction *x);

// Where the passes over a row compute more than they load: asks for the same place of the next row, when `id`
// is memory that they read. To be called for each vector of a later pass, when the row itself is in the
// cache.
void rows_fetch_next(Lower *l, const Rows *r, Point at, NodeId id);
// The parts of rows_emit, rows_fold, rows_each and rows_reduce for ROWS_GROUP.
void rows_group_emit(Lower *l, const Rows *r, RowFn fn, void *ctx);
void rows_group_fold(Lower *l, const Rows *r, Point at, PointFn fn, void *ctx);
KRef rows_group_join(Lower *l, const Rows *r, KOp op, KRef v);
void rows_group_each(Lower *l, const Rows *r, Point at, PointFn fn, void *ctx);
void rows_group_begin_result(Lower *l, const Rows *r); // opens a block for one thread
// The operand at a point (with the prologue).
KRef rows_operand(Lower *l, const Domain *d, Point at, void *operand_id);

#endif
