// SPDX-License-Identifier: Apache-2.0
// cumsum, cumprod and cummax: one running sum, product or maximum per row, in order; vectors across rows
// where these lie side by side, many at once, so that memory is read and written in long runs (of types
// without vectors in blocks of rows). Those of f16 and bf16 stay in f32. On GPUs a group has a row, unless
// there are threads enough with one each or rows are short (cumsum_group.c).
#include "passes/lower/ops/cumsum.h"

#include <math.h>

// Bytes of a panel in a row: shorter runs are followed by no prefetcher, and sums for which there are no
// registers wait in the first-level cache (256x1024 f32 with 8 lanes: 0.6 of the time of 256 bytes).
enum { PANEL_BYTES = 512, PANEL_VECTORS = 16 };

// The sum with the element at the point, which is stored, or the one before it.
static KRef take_element(Lower *l, const Rows *r, Point at, Cumsum *c, KRef before)
{
    Kernel *k = l->k;
    const int dtype = lower_node(l, c->x)->dtype, type = cumsum_type(l, c);
    const KRef x = k_cast(k, rows_operand(l, &r->d, at, &c->x), type);
    const KRef sum = k_form(k, c->fold->form, (KRef[3]){before, x}, type);
    pull_store_root(l, &r->d, at, k_cast(k, c->is_exclusive ? before : sum, dtype));
    return sum;
}

static KRef neutral(Lower *l, const Cumsum *c, uint8_t lanes)
{
    return k_splat(l->k, rows_neutral(l->k, cumsum_type(l, c), c->fold), lanes);
}

// The loop along the rows.
static void open_row(Lower *l, const Rows *r, Point *at, const Cumsum *c)
{
    const KRef i = k_loop(l->k, r->count, KFOR_SERIAL, "r");
    at->idx[r->d.rank - 1] = cumsum_place(l, r, c, i);
}

static void cumsum_row(Lower *l, const Rows *r, Point at, void *ctx)
{
    Cumsum *c = ctx;
    Kernel *k = l->k;
    const KRef sum = k_var(k, neutral(l, c, at.lanes), c->name);
    const bool has_loop = r->d.rank > r->n_kept;
    if (has_loop)
        open_row(l, r, &at, c);
    const KRef before = k_get(k, sum);
    k_set(k, sum, take_element(l, r, at, c, before));
    if (has_loop)
        k_end(k);
}

// Vectors of a panel, in whole ones of which the rows can be taken; 1: there are no panels.
static int64_t panel_of(const Rows *r, int type)
{
    if (r->mode != ROWS_ACROSS || r->d.rank != r->n_kept + 1 || r->d.live[r->vec_axis].size != 0 ||
        r->d.live[r->d.rank - 1].size != 0 || r->d.extent[r->vec_axis] % r->lanes != 0)
        return 1;
    const int64_t vectors = r->d.extent[r->vec_axis] / r->lanes;
    int64_t n = PANEL_BYTES / (r->lanes * dtype_info[type].bytes);
    n = n < PANEL_VECTORS ? n : PANEL_VECTORS;
    n = n < vectors ? n : vectors;
    while (n > 1 && vectors % n != 0)
        n--;
    return n;
}

// Row after row is added to the sums of a panel.
static void emit_panels(Lower *l, const Rows *r, Cumsum *c, int64_t vectors)
{
    Kernel *k = l->k;
    const int64_t width = vectors * r->lanes;
    Point at = {.vec_axis = r->vec_axis, .lanes = r->lanes, .count = r->lanes};
    uint32_t opened = 1;
    for (uint32_t i = 0; i < r->n_kept; i++)
        if (i != r->vec_axis)
            opened += lower_open_axis(l, &r->d, i, KFOR_PARALLEL, &at);
    const KRef n = k_index(k, r->d.extent[r->vec_axis]);
    const KRef first = k_for(k, k_index(k, 0), n, width, KFOR_PARALLEL, "panel");
    KRef sum[PANEL_VECTORS];
    for (int64_t v = 0; v < vectors; v++)
        sum[v] = k_var(k, neutral(l, c, r->lanes), c->name);
    open_row(l, r, &at, c);
    for (int64_t v = 0; v < vectors; v++) {
        at.idx[r->vec_axis] = k_expr(k, "$ + #", first, v * r->lanes);
        const KRef before = k_get(k, sum[v]);
        k_set(k, sum[v], take_element(l, r, at, c, before));
    }
    k_end(k);
    lower_close(l, opened);
}

typedef struct ColumnSums {
    Cumsum *c;
    uint32_t axis;
} ColumnSums;

static void sum_columns(Lower *l, const Rows *r, Point at, int64_t width, void *ctx)
{
    const ColumnSums *s = ctx;
    Kernel *k = l->k;
    const int type = cumsum_type(l, s->c);
    const KRef sums = k_array(k, type, width);
    k_astore(k, sums, k_loop(k, width, KFOR_SERIAL, "j"), neutral(l, s->c, 1));
    k_end(k);
    open_row(l, r, &at, s->c);
    const KRef j = rows_open_columns(l, s->axis, width, &at);
    k_astore(k, sums, j, take_element(l, r, at, s->c, k_aload(k, sums, j, 1)));
    k_ends(k, 2);
}

static void lower_running(Lower *l, Cumsum c, uint32_t axis)
{
    bool in_row[SHAPE_MAX_RANK] = {false};
    c.x = lower_node(l, l->anchor)->src[0];
    in_row[axis] = true;
    Rows r = rows_new(l, c.x, in_row, (double)NAN);
    if (cumsum_by_groups(l, &r, &c))
        return;
    if (r.mode == ROWS_ALONG) { // a sum depends on the one before: no vectors along the row
        r.mode = ROWS_SCALAR;
        r.lanes = 1;
    }
    const int64_t vectors = panel_of(&r, cumsum_type(l, &c));
    ColumnSums s = {.c = &c};
    if (vectors > 1)
        emit_panels(l, &r, &c, vectors);
    else if (r.d.rank == r.n_kept + 1 && rows_find_columns(l, &r, &s.axis))
        rows_each_columns(l, &r, s.axis, sum_columns, &s);
    else
        rows_emit(l, &r, cumsum_row, &c);
}

#define RUNNING(op, of, word)                                                                                \
    void lower_##op(Lower *l)                                                                                \
    {                                                                                                        \
        const Node *n = lower_node(l, l->anchor);                                                            \
        lower_running(l,                                                                                     \
                      (Cumsum){.is_exclusive = node_get_int(n, A_##op##_exclusive) != 0,                     \
                               .is_reverse = node_get_int(n, A_##op##_reverse) != 0,                         \
                               .fold = &row_fold_##of,                                                       \
                               .name = #word},                                                               \
                      (uint32_t)node_get_int(n, A_##op##_axis));                                             \
    }
RUNNING(cumsum, sum, sum)
RUNNING(cumprod, prod, product)
RUNNING(cummax, max, most)
