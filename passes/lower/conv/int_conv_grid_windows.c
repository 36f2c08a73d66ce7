// SPDX-License-Identifier: Apache-2.0
// The windows of tiles of int_conv (int_conv_grid.h): runs of the input, with the zero point where it ends.
// They are bytes as in the input, or words; three pixels share two words of each element. Where weights are
// raised, the elements of each window are added up on the way.
#include "passes/lower/conv/int_conv_grid.h"

// A loop over the runs of a window: where they begin.
typedef struct Run {
    KRef row, column;   // of the input, pixel 0
    KRef from, at;      // index in the input; element of the window
    int64_t columns, n; // columns, elements
    uint32_t opened;
} Run;

static Run open_runs(const Grid *g, const GridPatch *t)
{
    const IntConv *c = &g->c;
    Kernel *k = c->l->k;
    Run r = {.columns = g->is_joined ? c->kw : 1};
    r.n = r.columns * c->ic;
    const bool is_part = g->parts > 1;
    const KRef y = is_part ? t->part : lower_open_count(k, c->kh, KFOR_SERIAL, "k0", &r.opened);
    const KRef x = g->is_joined ? k_index(k, 0) : lower_open_count(k, c->kw, KFOR_SERIAL, "k1", &r.opened);
    r.row = k_expr(k, "$ + $ * #", t->row, y, c->dh);
    r.column = k_expr(k, "$ + $ * #", t->column, x, c->dw);
    r.from = k_expr(k, "$ + $ * # + $ * #", t->x, y, c->dh * c->stride_h, x, c->dw * c->stride_w);
    r.at = k_expr(k, "$ * # + $ * #", is_part ? k_index(k, 0) : y, c->kw * c->ic, x, c->ic);
    return r;
}

// --- elements ------------------------------------------------------------------------------------

static KRef shifted(Kernel *k, KRef v, int64_t bits)
{
    return k_shl(k, v, k_integer(k, DTYPE_i32, bits));
}

static void add_to_sum(const Grid *g, const GridPatch *t, int64_t pixel, KRef v)
{
    Kernel *k = g->c.l->k;
    if (g->is_raised)
        k_set(k, t->sum[pixel], k_add(k, k_get(k, t->sum[pixel]), v));
}

// Element `at` of a pixel's window; those of the pixels before are there.
static void put(const Grid *g, const GridPatch *t, int64_t pixel, KRef at, KRef v)
{
    Kernel *k = g->c.l->k;
    add_to_sum(g, t, pixel, v);
    if (!t->is_packed) {
        k_store(k, g->window, k_expr(k, "$ + ($ + #)", g->first_window, at, pixel * grid_part(g)),
                k_cast(k, v, (int)g->window_type), 1);
        return;
    }
    const KRef first = k_expr(k, "$ + $ * #", g->first_window, at, GRID_WORDS),
               second = k_expr(k, "$ + 1", first);
    const KRef word = pixel == 0 ? first : second;
    if (pixel == 1) {
        const KRef both = k_add(k, k_load(k, g->window, first, 1, 1), shifted(k, v, GRID_SUM_BITS));
        k_store(k, g->window, first, both, 1);
        v = shifted(k, v, GRID_LOW_BITS);
    }
    k_store(k, g->window, word, pixel == 2 ? k_add(k, k_load(k, g->window, word, 1, 1), v) : v, 1);
}

static KRef input_at(const Grid *g, KRef from, KRef i, int64_t offset)
{
    Kernel *k = g->c.l->k;
    return k_cast(k, k_load(k, g->x, k_expr(k, "$ + ($ + #)", from, i, offset), 1, 1), DTYPE_i32);
}

// Element `at` of the windows of three pixels.
static void put_packed(const Grid *g, const GridPatch *t, KRef from, KRef at, KRef i)
{
    Kernel *k = g->c.l->k;
    const int64_t pitch = g->c.sw * g->c.stride_w;
    KRef v[GRID_PACKED];
    for (int64_t p = 0; p < GRID_PACKED; p++) {
        v[p] = input_at(g, from, i, p * pitch);
        add_to_sum(g, t, p, v[p]);
    }
    const KRef word = k_expr(k, "$ + ($ + $) * #", g->first_window, at, i, GRID_WORDS);
    k_store(k, g->window, word, k_add(k, v[0], shifted(k, v[1], GRID_SUM_BITS)), 1);
    k_store(k, g->window, k_expr(k, "$ + 1", word), k_add(k, v[2], shifted(k, v[1], GRID_LOW_BITS)), 1);
}

// --- runs ----------------------------------------------------------------------------------------

// All pixels are inside.
static void copy_inside(const Grid *g, const GridPatch *t)
{
    Kernel *k = g->c.l->k;
    const int64_t pitch = g->c.sw * g->c.stride_w, turns = t->is_packed ? 1 : t->pixels;
    for (int64_t p = 0; p < turns; p++) {
        const Run r = open_runs(g, t);
        const int64_t step = int_conv_step(r.n, grid_is_rest(g, t) ? 1 : GRID_MAX_STEP);
        const KRef i = k_for(k, k_index(k, 0), k_index(k, r.n), step, KFOR_SERIAL, "i");
        for (int64_t s = 0; s < step; s++) {
            const KRef at = k_expr(k, "$ + #", i, s);
            if (t->is_packed)
                put_packed(g, t, r.from, r.at, at);
            else
                put(g, t, p, k_add(k, r.at, at), input_at(g, r.from, at, p * pitch));
        }
        lower_close(g->c.l, r.opened + 1);
    }
}

// Elements lo .. hi - 1 of a run are the zero point.
static void clear(const Grid *g, const GridPatch *t, int64_t pixel, const Run *r, KRef lo, KRef hi)
{
    Kernel *k = g->c.l->k;
    const KRef i = k_for(k, lo, hi, 1, KFOR_SERIAL, "i");
    put(g, t, pixel, k_add(k, r->at, i), k_integer(k, DTYPE_i32, g->zero));
    k_end(k);
}

static void copy_edge(const Grid *g, const GridPatch *t, int64_t pixel)
{
    const IntConv *c = &g->c;
    Kernel *k = c->l->k;
    const KRef none = k_index(k, 0);
    const Run r = open_runs(g, t);
    const KRef column = k_expr(k, "$ + #", r.column, pixel * c->sw);
    KRef lo = k_expr(k, "min(#, max(0, 0 - $))", r.columns, column);
    KRef hi = k_expr(k, "max($, min(#, # - $))", lo, r.columns, c->in_w, column);
    const KRef is_there = k_expr(k, "0 <= $ & $ < #", r.row, r.row, c->in_h);
    // lo holds for all rows: so the range of what is read does not begin in the row before (trace.h).
    hi = k_expr(k, "$ * #", k_select(k, is_there, hi, lo), c->ic);
    lo = k_expr(k, "$ * #", lo, c->ic);
    clear(g, t, pixel, &r, none, lo);
    const KRef i = k_for(k, lo, hi, 1, KFOR_SERIAL, "i");
    put(g, t, pixel, k_add(k, r.at, i), input_at(g, r.from, i, pixel * c->sw * c->stride_w));
    k_end(k);
    clear(g, t, pixel, &r, hi, k_index(k, r.n));
    lower_close(c->l, r.opened);
}

void grid_open_sums(const Grid *g, GridPatch *t)
{
    Kernel *k = g->c.l->k;
    for (int64_t p = 0; p < t->pixels && g->is_raised; p++)
        t->sum[p] = k_var(k, k_integer(k, DTYPE_i32, 0), "sum");
}

void grid_sum_windows(const Grid *g, GridPatch *t)
{
    Kernel *k = g->c.l->k;
    for (int64_t p = 0; p < t->pixels; p++) {
        const int64_t step = int_conv_step(g->depth, grid_is_rest(g, t) ? 1 : GRID_MAX_STEP);
        const KRef i = k_for(k, k_index(k, 0), k_index(k, g->depth), step, KFOR_SERIAL, "i");
        for (int64_t s = 0; s < step; s++)
            add_to_sum(g, t, p, input_at(g, t->x, k_expr(k, "$ + #", i, s), p * g->c.sw * g->c.stride_w));
        k_end(k);
    }
}

void grid_copy_windows(const Grid *g, GridPatch *t)
{
    const IntConv *c = &g->c;
    Kernel *k = c->l->k;
    if (!g->is_inside) {
        const int64_t columns = (t->pixels - 1) * c->sw + (c->kw - 1) * c->dw;
        k_if(k, k_expr(k, "0 <= $ & $ < # & 0 <= $ & $ < #", t->row, t->row, c->in_h - (c->kh - 1) * c->dh,
                       t->column, t->column, c->in_w - columns));
    }
    copy_inside(g, t);
    if (g->is_inside)
        return;
    k_else(k);
    for (int64_t p = 0; p < t->pixels; p++)
        copy_edge(g, t, p);
    k_end(k);
}
