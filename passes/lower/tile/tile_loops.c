// SPDX-License-Identifier: Apache-2.0
// The loops around register tiles: channels outside or pixels outside, borders apart, and what is fetched
// ahead from far memory while a tile sums. See tile.h.
#include "passes/lower/tile/tile_part.h"

enum {
    MIN_FETCH_BYTES = 8192, // smaller panels are there soon enough
    MAX_FETCH_TILES = 40,   // that share the fetching of one panel: with more, the first one hardly counts
};

TileShape tile_shape_of_window(const Lower *l, const TileShape *s)
{
    TileShape t = *s;
    if (l->strip.window == NULL)
        return t;
    rlx_assert(l->strip.window->rows >= 1);
    t.n = 1;
    t.h = l->strip.window->rows;
    t.pad_h = 0;
    t.in_h = (t.h - 1) * t.sh + (t.kh - 1) * t.dh + 1;
    return t;
}

Tile tile_new(Lower *l, TileShape s)
{
    Tile t = {.l = l, .s = tile_shape_of_window(l, &s)};
    t.lanes = s.oc == 1 ? 1 : lower_fit_lanes(l, s.oc);
    t.max_acc = t.lanes == 1 ? 12 : (uint8_t)(l->caps->vector_regs - 4);
    t.in.base = t.w.base = t.bias_base = k_index(l->k, 0);
    rlx_assert(t.lanes >= 1 && l->caps->vector_regs > 4);
    t.plan = tile_choose(&t);
    t.s = s;
    return t;
}

static void add_fetch(TileAt *at, TileFetch f)
{
    if (f.step > 0)
        at->fetch[at->n_fetches++] = f;
}

// Channels outside: all tiles of a panel together fetch the next one, each its share.
static void fetch_next_panel(const Tile *t, TileAt *at)
{
    Kernel *k = t->l->k;
    const TileShape *s = &t->s;
    const int64_t pixels = s->n * tile_outer_points(s) * s->h * s->w;
    const int64_t panel = tile_steps(s) * at->width;
    const int64_t tiles = ceil_div(pixels, t->plan.rows * t->plan.columns);
    if (!t->w.is_packed || tiles > MAX_FETCH_TILES || panel * 4 < MIN_FETCH_BYTES)
        return;
    const int64_t share = ceil_div(panel, pixels); // of one pixel
    KRef pixel = at->image;
    for (uint32_t i = 0; i < s->n_outer; i++)
        pixel = k_expr(k, "$ * # + $", pixel, s->outer[i].out, at->outer[i]);
    pixel = k_expr(k, "$ * # + $", pixel, s->h, at->row);
    pixel = k_expr(k, "$ * # + $", pixel, s->w, at->column);
    const KRef next = k_expr(k, "$ + #", at->weights, panel);
    add_fetch(at, (TileFetch){.param = t->w.param,
                              .base = k_expr(k, "$ * # + $", pixel, share, next),
                              .step = ceil_div(share * at->rows * at->columns, tile_steps(s))});
}

// Steps after which the fetching of pixels goes on with the next one.
static int64_t steps_per_pixel(const Tile *t, const TileAt *at)
{
    int64_t period = 1;
    while (period * 2 * at->rows * at->columns <= tile_steps(&t->s))
        period *= 2;
    return period;
}

// Pixels outside: all blocks of channels of a tile together fetch the input of the next tile of the row, each
// its share of the channels of every pixel.
static void fetch_next_pixels(const Tile *t, TileAt *at)
{
    Kernel *k = t->l->k;
    const TileShape *s = &t->s;
    if (s->kh * s->kw * tile_outer_taps(s) != 1 || at->rows != 1 || t->in.stride_c != 1)
        return;
    const int64_t pitch = s->sw * t->in.stride_w, period = steps_per_pixel(t, at);
    const KRef next = k_expr(k, "$ + #", tile_input_index(t, at), at->columns * pitch);
    const KRef first = k_expr(k, "$ * # / #", at->channel, s->ic, s->oc);
    add_fetch(at, (TileFetch){.param = t->in.param,
                              .base = k_add(k, next, first),
                              .period = period,
                              .pitch = pitch,
                              .step = ceil_div(ceil_div(at->width * s->ic, s->oc), period)});
}

// What the epilogue of this tile touches: the channels of its block at every pixel, evenly spaced.
static void fetch_epilogue(const Tile *t, TileAt *at)
{
    Kernel *k = t->l->k;
    const int64_t period = steps_per_pixel(t, at);
    for (uint32_t i = 0; i < t->n_streams; i++) {
        const TileStream *e = &t->stream[i];
        if (at->rows > 1 && e->stride_h != at->columns * e->stride_w)
            continue;
        KRef index = k_expr(k, "$ + $ * #", at->channel, at->image, e->stride_n);
        for (uint32_t j = 0; j < t->s.n_outer; j++)
            index = k_expr(k, "$ + $ * #", index, at->outer[j], e->stride_outer[j]);
        index = k_expr(k, "$ + $ * #", index, at->row, e->stride_h);
        index = k_expr(k, "$ + $ * #", index, at->column, e->stride_w);
        add_fetch(at, (TileFetch){.param = e->param,
                                  .base = index,
                                  .period = period,
                                  .pitch = e->stride_w,
                                  .step = ceil_div(at->width, period)});
    }
}

// Values that are in the second-level cache anyway are not fetched.
static void add_fetches(const Tile *t, TileAt *at)
{
    const TileShape *s = &t->s;
    const int64_t near = (int64_t)t->l->caps->cpu.l2_bytes / 2 / 4, planes = s->n * tile_outer_points(s);
    at->n_fetches = 0;
    if (t->lanes == 1 || t->l->strip.window != NULL) // strips are near
        return;
    if (!t->plan.pixels_outside)
        fetch_next_panel(t, at);
    else if (planes * s->in_h * s->in_w * s->ic > near)
        fetch_next_pixels(t, at);
    if (planes * s->h * s->w * s->oc > near && tile_steps(s) >= 4 * at->rows * at->columns)
        fetch_epilogue(t, at);
}

static KRef open_count(Kernel *k, int64_t n, const char *name, uint32_t *opened)
{
    if (n == 1)
        return k_index(k, 0);
    ++*opened;
    return k_loop(k, n, KFOR_PARALLEL, name);
}

static KRef open_images(const Tile *t, uint32_t *opened)
{
    Kernel *k = t->l->k;
    if (t->images == 0)
        return open_count(k, t->s.n, "n", opened);
    ++*opened;
    return k_for(k, k_index(k, 0), t->images, 1, KFOR_PARALLEL, "n");
}

typedef void (*Inside)(const Tile *, TileAt);

static void emit_tile(const Tile *t, TileAt at)
{
    add_fetches(t, &at);
    tile_emit_one(t, &at);
}

// Loops over the blocks of channels.
static void emit_blocks(const Tile *t, TileAt at, Inside inside)
{
    Kernel *k = t->l->k;
    const TileBlocks b = tile_blocks(t);
    int64_t first_weight = 0;
    for (uint32_t i = 0; i < b.n; i++) {
        uint32_t opened = 0;
        const KRef block = open_count(k, b.block[i].count, "ob", &opened);
        const int64_t weights = tile_steps(&t->s) * b.block[i].width;
        at.nv = b.block[i].nv;
        at.width = b.block[i].width;
        at.channels = b.block[i].channels;
        at.channel = k_expr(k, "$ * # + #", block, at.channels, b.block[i].first);
        at.weights = t->w.is_packed ? k_expr(k, "$ * # + #", block, weights, first_weight) : at.channel;
        at.weights = k_add(k, t->w.base, at.weights);
        inside(t, at);
        k_ends(k, opened);
        first_weight += b.block[i].count * weights;
    }
}

static void emit_columns(const Tile *t, TileAt at, Inside inside)
{
    const TileAxis axis = tile_column_axis(&t->s);
    const TileRuns runs = tile_axis_runs(t->l->pass->scratch, &axis, t->plan.columns);
    for (uint32_t i = 0; i < runs.len; i++) {
        const TileRun *run = &runs.data[i];
        at.columns = run->pixels;
        at.column_value = run->is_edge ? run->column : -1;
        at.column = tile_open_run(t->l->k, run);
        inside(t, at);
        tile_close_run(t->l->k, run);
    }
}

// Tiles of one row clip their kernel rows themselves, so that all rows share one text.
static void emit_single_rows(const Tile *t, TileAt at, Inside inside)
{
    const TileAxis axis = tile_row_axis(&t->s);
    const RowWindow *w = t->l->strip.window;
    uint32_t opened = w != NULL ? 1 : 0;
    at.row = w != NULL ? k_for(t->l->k, w->lo, w->hi, 1, KFOR_SERIAL, "oh")
                       : open_count(t->l->k, t->s.h, "oh", &opened);
    at.rows = 1;
    at.row_value = -1;
    at.clips_rows = tile_axis_has_border(&axis);
    emit_columns(t, at, inside);
    k_ends(t->l->k, opened);
}

static void emit_row_runs(const Tile *t, TileAt at, Inside inside)
{
    const TileAxis axis = tile_row_axis(&t->s);
    const TileRuns runs = tile_axis_runs(t->l->pass->scratch, &axis, t->plan.rows);
    for (uint32_t i = 0; i < runs.len; i++) {
        const TileRun *run = &runs.data[i];
        at.rows = run->pixels;
        at.row_value = run->is_edge ? run->column : -1;
        at.row = tile_open_run(t->l->k, run);
        emit_columns(t, at, inside);
        tile_close_run(t->l->k, run);
    }
}

static void emit_images(const Tile *t, TileAt at, Inside inside)
{
    uint32_t opened = 0;
    const RowWindow *w = t->l->strip.window;
    at.image = w != NULL ? w->image : open_images(t, &opened);
    for (uint32_t i = 0; i < t->s.n_outer; i++)
        at.outer[i] = open_count(t->l->k, t->s.outer[i].out, "od", &opened);
    if (t->plan.rows == 1)
        emit_single_rows(t, at, inside);
    else
        emit_row_runs(t, at, inside);
    k_ends(t->l->k, opened);
}

static void emit_pixels(const Tile *t, TileAt at)
{
    emit_images(t, at, emit_tile);
}

static void emit_channels(const Tile *t, TileAt at)
{
    emit_blocks(t, at, emit_tile);
}

void tile_emit(const Tile *t)
{
    rlx_assert(t->store != NULL && t->plan.nv >= 1 && t->n_streams <= TILE_MAX_STREAMS);
    if (t->plan.pixels_outside)
        emit_images(t, (TileAt){0}, emit_channels);
    else
        emit_blocks(t, (TileAt){0}, emit_pixels);
}
