// SPDX-License-Identifier: Apache-2.0
// Rows of types that have no vectors here, where the first elements of the rows are neighbours, then the
// second ones, and so on: blocks of rows are taken together, element after element, with what each row has so
// far in an array. So memory is read in long runs, and C compilers make vectors of the loop over the block.
#include "passes/lower/rows.h"

enum { BLOCK_ROWS = 64, LEAST_ROWS = 8 };

bool rows_find_columns(const Lower *l, const Rows *r, uint32_t *axis)
{
    const Access *x = &r->d.access.data[0];
    bool fits = r->mode == ROWS_SCALAR && !l->caps->is_gpu && !l->caps->prefers_ints &&
                l->caps->f32_lanes > 1 && l->strip.window == NULL && r->d.rank > r->n_kept &&
                !k_is_half(lower_node(l, l->anchor)->dtype);
    for (uint32_t i = 0; i < r->d.rank; i++)
        fits = fits && r->d.live[i].size == 0;
    for (*axis = r->n_kept; fits && (*axis)-- > 0;) {
        bool are_near = x->stride[*axis] == 1 && r->d.extent[*axis] >= LEAST_ROWS;
        for (uint32_t i = 0; i < r->d.access.len && are_near; i++)
            are_near = r->d.access.data[i].stride[*axis] <= 1;
        if (are_near)
            return true;
    }
    return false;
}

void rows_each_columns(Lower *l, const Rows *r, uint32_t axis, ColumnsFn fn, void *ctx)
{
    Kernel *k = l->k;
    const int64_t n = r->d.extent[axis], rest = n % BLOCK_ROWS, whole = n - rest;
    Point at = {.lanes = 1, .count = 1};
    uint32_t opened = 0;
    rlx_assert(axis < r->n_kept && fn != NULL);
    for (uint32_t i = 0; i < r->n_kept; i++)
        if (i != axis)
            opened += lower_open_axis(l, &r->d, i, KFOR_PARALLEL, &at);
    if (whole > 0) {
        at.idx[axis] = k_for(k, k_index(k, 0), k_index(k, whole), BLOCK_ROWS, KFOR_PARALLEL, "c");
        fn(l, r, at, BLOCK_ROWS, ctx);
        k_end(k);
    }
    at.idx[axis] = k_index(k, whole);
    if (rest > 0)
        fn(l, r, at, rest, ctx);
    lower_close(l, opened);
}

KRef rows_open_columns(Lower *l, uint32_t axis, int64_t width, Point *at)
{
    const KRef j = k_loop(l->k, width, KFOR_SERIAL, "j");
    at->idx[axis] = k_add(l->k, at->idx[axis], j);
    return j;
}

typedef struct ColumnFold {
    const RowReduction *x;
    uint32_t axis;
} ColumnFold;

static void fold_columns(Lower *l, const Rows *r, Point at, int64_t width, void *ctx)
{
    const ColumnFold *c = ctx;
    const RowFold *fold = c->x->fold;
    Kernel *k = l->k;
    const int type = rows_fold_type(l, fold);
    const KRef sums = k_array(k, type, width);
    k_astore(k, sums, k_loop(k, width, KFOR_SERIAL, "j"), rows_neutral(k, type, fold));
    k_end(k);
    Point inner = at;
    uint32_t opened = 1;
    for (uint32_t i = r->n_kept; i < r->d.rank; i++)
        opened += lower_open_axis(l, &r->d, i, KFOR_SERIAL, &inner);
    KRef j = rows_open_columns(l, c->axis, width, &inner);
    const KRef value = k_cast(k, c->x->value(l, &r->d, inner, c->x->ctx), type);
    k_astore(k, sums, j, k_form(k, fold->form, (KRef[3]){k_aload(k, sums, j, 1), value}, type));
    lower_close(l, opened);
    j = rows_open_columns(l, c->axis, width, &at);
    c->x->finish(l, r, at, k_aload(k, sums, j, 1), c->x->ctx);
    k_end(k);
}

// The order of sums of floats must not depend on whether sizes are known.
bool rows_reduce_columns(Lower *l, const Rows *r, const RowReduction *x)
{
    ColumnFold c = {.x = x};
    const bool is_exact = x->fold->keeps_nan || dtype_info[rows_fold_type(l, x->fold)].cls != DCLASS_FLOAT;
    if (!is_exact || !rows_find_columns(l, r, &c.axis))
        return false;
    rows_each_columns(l, r, c.axis, fold_columns, &c);
    return true;
}
