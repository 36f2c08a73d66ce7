// SPDX-License-Identifier: Apache-2.0
// Depthwise convolutions with long kernels, far steps or taps that lie far apart: their taps become axes
// before rows, over which there are loops, so that what is left for the tiles of lower_depthwise.c is a
// kernel of few taps. Along the last axis that needs an image without a border there (passes/graph/frames.c).
#include "passes/lower/conv/conv.h"
#include "passes/lower/tile/tile_part.h"

// Are there so many taps along the axis, or so far apart, that they have a loop?
static bool is_long(const TileAxis *x)
{
    return x->kernel > DEPTHWISE_MAX_TAPS || x->dilation > DEPTHWISE_MAX_DILATION ||
           x->stride > DEPTHWISE_MAX_STRIDE;
}

// Where a store finds the row of an output if rows are an axis before rows.
typedef struct DwMoved {
    TileStore store;
    void *ctx;
    uint32_t row; // index of that axis
} DwMoved;

static void store_moved(Lower *l, const TileOut *out, KRef value, void *ctx)
{
    const DwMoved *m = ctx;
    TileOut at = *out;
    at.row = out->outer[m->row];
    m->store(l, &at, value, m->ctx);
}

static void add_outer(Conv *c, TileSource *src, const TileAxis *x, int64_t stride, int64_t of_weights)
{
    const uint32_t n = c->s.n_outer++;
    rlx_assert(n < TILE_MAX_OUTER);
    c->s.outer[n] = *x;
    c->stride_outer[n] = stride;
    src->stride_outer[n] = of_weights;
}

static void move_rows(Conv *c, TileSource *src)
{
    const TileAxis row = tile_row_axis(&c->s);
    add_outer(c, src, &row, c->stride_h, src->stride_kh);
    c->s.h = c->s.in_h = c->s.kh = c->s.sh = c->s.dh = 1;
    c->s.pad_h = c->stride_h = src->stride_kh = 0;
}

static void move_columns(Conv *c, TileSource *src)
{
    const TileAxis column = tile_column_axis(&c->s);
    const TileAxis taps = {.out = 1,
                           .in = (column.kernel - 1) * column.dilation + 1,
                           .kernel = column.kernel,
                           .stride = 1,
                           .dilation = column.dilation};
    rlx_assert(!tile_axis_has_border(&column));
    add_outer(c, src, &taps, c->stride_w, src->stride_kw);
    c->s.kw = c->s.dw = 1;
    src->stride_kw = 0;
}

// Which taps have loops. Rows move with the columns, so that the order of sums stays.
typedef struct DwLong {
    bool rows, columns;
} DwLong;

static DwLong long_axes(const TileShape *s)
{
    const TileAxis row = tile_row_axis(s), column = tile_column_axis(s);
    const bool columns = is_long(&column) && column.kernel > 1;
    return (DwLong){.rows = is_long(&row) || (columns && s->kh > 1), .columns = columns};
}

bool depthwise_fits(const Lower *l, const Conv *c)
{
    const TileShape *s = &c->s;
    const bool is_each = s->oc == 1 || s->oc == 2 || s->oc == DEPTHWISE_MAX_EACH;
    const TileAxis column = tile_column_axis(s);
    const DwLong has_loop = long_axes(s);
    if (l->caps->is_gpu || s->ic != 1 || !is_each || c->group < 4 ||
        lower_node(l, l->anchor)->dtype != DTYPE_f32 || (s->oc > 1 && lower_fit_lanes(l, c->group) == 1))
        return false;
    if ((has_loop.rows && (l->strip.window != NULL || lower_goes_by_rows(l))) ||
        (has_loop.columns && tile_axis_has_border(&column)) ||
        s->n_outer + has_loop.rows + has_loop.columns > TILE_MAX_OUTER)
        return false;
    if (c->bias != 0 && lower_loc(l, c->bias)->stride[0] != 1)
        return false;
    return conv_can_pack(l, c->w) && c->stride_c == 1 && tile_is_worthwhile(s);
}

void depthwise_emit(Lower *l, const Conv *conv, const TileSource *source, TileStore store, void *ctx)
{
    rlx_assert(conv->group >= 1 && store != NULL);
    Conv c = *conv;
    TileSource src = *source;
    DwMoved moved = {.store = store, .ctx = ctx, .row = c.s.n_outer};
    const DwLong has_loop = long_axes(&c.s);
    if (has_loop.rows)
        move_rows(&c, &src);
    if (has_loop.columns)
        move_columns(&c, &src);
    if (has_loop.rows)
        depthwise_emit_tiles(l, &c, &src, store_moved, &moved);
    else
        depthwise_emit_tiles(l, &c, &src, store, ctx);
}
