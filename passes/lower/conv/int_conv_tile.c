// SPDX-License-Identifier: Apache-2.0
// The tiles of int_conv: accumulators of rows x columns pixels and nv vectors of output channels, to which
// every step adds the products of four input channels, as bytes or in halves. Rules from measurements: 28
// accumulators with two vectors; blocks of output channels outside when the weights exceed half of the L2
// cache, else inside, so that results leave whole.
#include "passes/lower/conv/conv.h"
#include "passes/lower/conv/int_conv.h"

enum { MAX_NV = 8, EPILOGUE_LOOP_COST = 2, AHEAD = 2048 }; // words

// --- the shape of tiles --------------------------------------------------------------------------

static bool is_pointwise(const IntConv *c)
{
    return c->kh * c->kw == 1 && c->sh == 1 && c->sw == 1 && c->pad_h == 0 && c->pad_w == 0 &&
           c->in_h == c->h && c->in_w == c->w_out;
}

// Does an axis continue the last one in all that the kernel touches?
static bool follow_columns(const IntConv *c, const Domain *d, uint32_t axis, int64_t stride)
{
    bool do_follow = stride == c->stride_w * c->w_out;
    for (uint32_t i = 0; i < d->access.len; i++) {
        const int64_t *strides = d->access.data[i].stride;
        do_follow = do_follow && strides[axis] == strides[d->rank - 1] * c->w_out;
    }
    return do_follow;
}

// Rows of pixels become one where they follow each other in all that the kernel touches, and then slices.
static void join_rows(IntConv *c, Domain *d)
{
    const uint32_t last = d->rank - 1;
    if (!is_pointwise(c) || d->rank < 4)
        return;
    if (c->h > 1 && follow_columns(c, d, last - 1, c->stride_h)) {
        d->extent[last] *= d->extent[last - 1];
        d->extent[last - 1] = 1;
        c->w_out = c->in_w = c->w_out * c->h;
        c->h = c->in_h = 1;
        c->has_joined_rows = true;
    }
    if (c->depth > 1 && c->h == 1 && c->kd == 1 && c->sd == 1 && c->pad_d == 0 && c->depth == c->in_d &&
        follow_columns(c, d, last - 2, c->stride_d)) {
        d->extent[last] *= d->extent[last - 2];
        d->extent[last - 2] = 1;
        c->w_out = c->in_w = c->w_out * c->depth;
        c->depth = c->in_d = 1;
        c->has_joined_rows = true;
    }
}

// Images of one pixel (products of matrices come as such) are the columns of one row.
static void join_images(IntConv *c)
{
    if (!is_pointwise(c) || c->in_d * c->depth * c->kd != 1 || c->h != 1 || c->w_out != 1 || c->n == 1)
        return;
    c->w_out = c->in_w = c->n;
    c->n = 1;
    c->stride_w = c->stride_n;
    c->has_joined_images = true;
}

// Vectors of a tile by its pixels: the fewer these are, the more vectors keep the sums independent.
static uint8_t choose_nv(int64_t pixels, int64_t vectors, int64_t many)
{
    const int64_t nv = pixels >= many ? 2 : pixels >= 4 ? 4 : MAX_NV;
    return (uint8_t)(nv < vectors ? nv : vectors);
}

void int_conv_shape(IntConv *c, Domain *d)
{
    rlx_assert(c->l->caps->vector_regs > 4 && c->oc >= 1);
    const int64_t most_acc = c->l->caps->vector_regs - 4;
    join_rows(c, d);
    join_images(c);
    c->lanes = lower_fit_lanes(c->l, c->oc);
    const int64_t vectors = (c->oc + c->lanes - 1) / c->lanes;
    const int64_t pixels = c->h * c->w_out < most_acc / 2 ? c->h * c->w_out : most_acc / 2;
    c->nv = choose_nv(pixels, vectors, c->l->caps->has_dot16 ? 4 : 8);
    const int64_t fits = c->nv <= 2 ? most_acc / c->nv : (most_acc + 3 - c->nv) / c->nv;
    const int64_t room = fits < 1 ? 1 : fits;
    const int64_t tiles = (c->w_out + room - 1) / room;
    c->columns = (c->w_out + tiles - 1) / tiles;
    c->rows = c->columns * 2 <= room && c->columns == c->w_out ? room / c->columns : 1;
    c->rows = c->rows > c->h ? c->h : c->rows;
}

// --- one tile ------------------------------------------------------------------------------------

KRef int_conv_begin(const IntTile *t, uint32_t v)
{
    rlx_assert((int64_t)v * t->c->lanes < t->c->padded);
    const IntConv *c = t->c;
    Kernel *k = c->l->k;
    const int64_t row = t->taps.number * c->group + t->group;
    const KRef at = k_expr(k, "$ + #", t->block, row * c->padded + (int64_t)v * c->lanes);
    KRef sum = k_load(k, c->begin, at, c->lanes, c->lanes);
    if (c->has_sums)
        sum = k_expr(k, "$ - $ * $", sum, k_load(k, c->sums, at, c->lanes, c->lanes), t->zero);
    if (c->bias_param == 0)
        return sum;
    const int64_t left = t->channels - (int64_t)v * c->lanes;
    const KRef from = k_expr(k, "$ + #", t->block, t->group * c->oc + (int64_t)v * c->lanes);
    const uint8_t count = (uint8_t)(left < c->lanes ? left : c->lanes);
    return k_add(k, sum, k_load(k, c->bias_param - 1, from, c->lanes, count));
}

static void begin_accs(IntTile *t)
{
    Kernel *k = t->c->l->k;
    KRef begin[MAX_NV];
    for (uint32_t v = 0; v < t->nv; v++)
        begin[v] = int_conv_begin(t, v);
    for (uint32_t p = 0; p < t->rows * t->columns; p++)
        for (uint32_t v = 0; v < t->nv; v++)
            t->acc[p * t->nv + v] = k_var(k, begin[v], arena_printf(k->arena, "a%u_%u", p, v));
}

bool int_conv_goes_by_blocks(const IntConv *c)
{
    rlx_assert(c->lanes >= 1);
    const int64_t padded = ceil_div(c->oc, c->lanes) * c->lanes;
    return c->kd * c->kh * c->kw * c->words * padded * 4 > c->l->caps->cpu.l2_bytes / 2;
}

// Weights that every run reads from beyond the L2 cache.
static bool is_streamed(const IntConv *c)
{
    return c->group_words * 4 > c->l->caps->cpu.l2_bytes / 4;
}

// Adds the products of weights and of a word of each pixel.
static void emit_products(const IntTile *t, KRef x, const KRef *weights, KOp op)
{
    const IntConv *c = t->c;
    Kernel *k = c->l->k;
    for (int64_t p = 0; p < t->rows * t->columns; p++) {
        const int64_t at = p / t->columns * c->sh * c->in.row + p % t->columns * c->sw * c->in.column;
        const KRef word = k_load(k, c->in.param, k_expr(k, "$ + #", x, at), 1, 1);
        for (uint32_t v = 0; v < t->nv; v++) {
            const KRef acc = t->acc[p * t->nv + v];
            k_set(k, acc, k_op(k, op, word, weights[v], k_get(k, acc)));
        }
    }
}

// Four channels of all pixels, as bytes or as two halves each. x: index of the first pixel's word, w: of the
// weights.
static void emit_step(const IntTile *t, KRef x, KRef w)
{
    const IntConv *c = t->c;
    Kernel *k = c->l->k;
    KRef wv[MAX_NV], half[MAX_NV];
    for (uint32_t v = 0; v < t->nv; v++)
        wv[v] = k_load(k, c->weights, k_expr(k, "$ + #", w, (int64_t)v * c->lanes), c->lanes, c->lanes);
    const uint32_t step = c->lanes * 4 < CACHE_LINE ? (uint32_t)(CACHE_LINE / (c->lanes * 4)) : 1;
    for (uint32_t v = 0; v < t->nv && is_streamed(c); v += step)
        k_prefetch(k, c->weights, k_expr(k, "$ + #", w, (int64_t)v * c->lanes + AHEAD));
    if (c->in.odd == 0) {
        emit_products(t, x, wv, KOP_dot8);
        return;
    }
    const KRef none = k_integer(k, DTYPE_i32, 0);
    for (uint32_t v = 0; v < t->nv; v++)
        half[v] = k_even8(k, none, wv[v]);
    emit_products(t, x, half, KOP_dot16);
    if (!int_conv_has_odd(c))
        return;
    for (uint32_t v = 0; v < t->nv; v++)
        half[v] = k_odd8(k, none, wv[v]);
    emit_products(t, k_expr(k, "$ + #", x, c->in.odd), half, KOP_dot16);
}

static KRef open_taps(Kernel *k, int64_t n, const char *name)
{
    return n == 1 ? k_index(k, 0) : k_loop(k, n, KFOR_SERIAL, name);
}

// The index of the first word of the tile's first pixel, apart from taps.
static KRef first_word(const IntTile *t)
{
    const IntConv *c = t->c;
    Kernel *k = c->l->k;
    if (c->copies == INT_COPY_TILE)
        return c->copy_at;
    if (c->copies == INT_COPY_ROWS)
        return k_expr(k, "$ * # + $", t->column, c->sw * c->in.column, c->copy_at);
    const int64_t slice = t->taps.first * c->dd - c->pad_d; // of the input, for slice 0 of the result
    KRef x = k_expr(k, "$ * # + #", t->image, c->in.image, t->group * c->words + slice * c->in.slice);
    x = k_expr(k, "$ * # + $", t->slice, c->sd * c->in.slice, x);
    x = k_expr(k, "$ * # + $", t->row, c->sh * c->in.row, x);
    return k_expr(k, "$ * # + $", t->column, c->sw * c->in.column, x);
}

static void emit_sums(const IntTile *t)
{
    const IntConv *c = t->c;
    Kernel *k = c->l->k;
    const int64_t step = (int64_t)t->nv * c->lanes;
    // The columns of the kernel and their channels are one run of words where nothing lies between.
    const bool is_run = c->dw == 1 && c->in.column == c->words;
    const int64_t columns = is_run ? 1 : c->kw, run = is_run ? c->kw * c->words : c->words;
    KRef x = first_word(t);
    const KRef kd = open_taps(k, t->taps.n, "kd");
    x = k_expr(k, "$ * # + $", kd, c->dd * c->in.slice, x);
    KRef w = k_expr(k, "($ + #) * # + $", kd, t->taps.first, c->kh * c->kw * c->words * step, t->weights);
    const KRef kh = open_taps(k, c->kh, "kh");
    x = k_expr(k, "$ * # + $", kh, c->dh * c->in.row, x);
    w = k_expr(k, "$ * # + $", kh, c->kw * c->words * step, w);
    const KRef kw = open_taps(k, columns, "kw");
    x = k_expr(k, "$ * # + $", kw, c->dw * c->in.column, x);
    w = k_expr(k, "$ * # + $", kw, c->words * step, w);
    const KRef i = open_taps(k, run, "c");
    emit_step(t, k_add(k, x, i), k_expr(k, "$ * # + $", i, step, w));
    k_ends(k, (uint32_t)((t->taps.n > 1) + (c->kh > 1) + (columns > 1) + (run > 1)));
}

void int_conv_store(const IntTile *t, KRef row, KRef column, uint32_t v, KRef value)
{
    rlx_assert(row != 0 && column != 0 && value != 0);
    const IntConv *c = t->c;
    Kernel *k = c->l->k;
    const int64_t left = t->channels - (int64_t)v * c->lanes;
    const KRef channel = k_expr(k, "$ + #", t->block, t->group * c->oc + (int64_t)v * c->lanes);
    row = k_add(k, t->row, row);
    column = k_add(k, t->column, column);
    Point at = c->has_joined_images ? conv_point(t->d, column, channel, row, t->image)
                                    : conv_point(t->d, t->image, channel, row, column);
    if (t->d->rank > 4)
        at.idx[2] = t->slice;
    at.lanes = c->lanes;
    at.count = (uint8_t)(left < c->lanes ? left : c->lanes);
    pull_store_root(c->l, t->d, at, value);
}

// Costly epilogues stand once for each vector, in loops over the pixels.
static void emit_stores(const IntTile *t)
{
    Kernel *k = t->c->l->k;
    const int64_t pixels = t->rows * t->columns, vectors = t->nv, lanes = t->c->lanes;
    if (pixels < 2 || lower_epilogue_cost(t->c->l) < EPILOGUE_LOOP_COST) {
        for (int64_t p = 0; p < pixels; p++)
            for (uint32_t v = 0; v < t->nv; v++)
                int_conv_store(t, k_index(k, p / t->columns), k_index(k, p % t->columns), v,
                               k_get(k, t->acc[p * vectors + v]));
        return;
    }
    const KRef sums = k_array(k, DTYPE_i32, pixels * vectors * lanes);
    for (int64_t i = 0; i < pixels * vectors; i++)
        k_astore(k, sums, k_index(k, i * lanes), k_get(k, t->acc[i]));
    const KRef row = open_taps(k, t->rows, "r");
    const KRef column = open_taps(k, t->columns, "p");
    const KRef pixel = k_expr(k, "$ * # + $", row, t->columns, column);
    for (uint32_t v = 0; v < t->nv; v++)
        int_conv_store(
            t, row, column, v,
            k_aload(k, sums, k_expr(k, "$ * # + #", pixel, vectors * lanes, v * lanes), t->c->lanes));
    k_ends(k, (uint32_t)((t->rows > 1) + (t->columns > 1)));
}

static void emit_tile(const IntTile *from)
{
    IntTile t = *from;
    rlx_assert(t.rows * t.columns * t.nv <= INT_MAX_ACC);
    begin_accs(&t);
    if (t.taps.n > 0)
        emit_sums(&t);
    emit_stores(&t);
}

// --- loops ---------------------------------------------------------------------------------------

typedef void (*TileFn)(const IntTile *t);

static KRef open_loop(Kernel *k, int64_t from, int64_t count, int64_t step, uint8_t flags, const char *name)
{
    const KRef first = k_index(k, from);
    return count == 1 ? first : k_for(k, first, k_index(k, from + count * step), step, flags, name);
}

// Of what reads a copy that its thread has made, one thread does all.
static uint8_t flags_below(const IntConv *c, IntCopy copies)
{
    return c->copies == INT_COPY_ALL || c->copies > copies ? KFOR_PARALLEL : KFOR_SERIAL;
}

// `inside` for every block of output channels of the group: whole blocks, then what is left.
static void each_block(const IntTile *from, TileFn inside)
{
    const IntConv *c = from->c;
    Kernel *k = c->l->k;
    const int64_t width = (int64_t)c->nv * c->lanes, whole = c->oc / width, rest = c->oc % width;
    const int64_t taps = c->kd * c->kh * c->kw * c->words, base = from->group * c->group_words;
    IntTile t = *from;
    if (whole > 0) {
        t.block = open_loop(k, 0, whole, width, flags_below(c, INT_COPY_TILE), "o");
        t.nv = c->nv;
        t.channels = width;
        t.weights = k_expr(k, "$ * # + #", t.block, taps, base);
        inside(&t);
        if (whole > 1)
            k_end(k);
    }
    if (rest == 0)
        return;
    t.block = k_index(k, whole * width);
    t.nv = (uint8_t)(int_conv_width(c, whole * width) / c->lanes);
    t.channels = rest;
    t.weights = k_index(k, base + whole * width * taps);
    inside(&t);
}

// `inside` for every tile of a row of tiles: those that are one column wider come first.
static void each_column(const IntTile *of, TileFn inside)
{
    const IntConv *c = of->c;
    Kernel *k = c->l->k;
    const int64_t tiles = (c->w_out + c->columns - 1) / c->columns, narrow = c->w_out / tiles;
    const int64_t wider = c->w_out % tiles;
    IntTile t = *of;
    for (uint32_t kind = 0; kind < 2; kind++) {
        const int64_t count = kind == 0 ? wider : tiles - wider;
        if (count == 0)
            continue;
        t.columns = narrow + (kind == 0);
        const int64_t from = kind == 0 ? 0 : wider * (narrow + 1);
        t.column = open_loop(k, from, count, t.columns, flags_below(c, INT_COPY_ROWS), "x");
        inside(&t);
        if (count > 1)
            k_end(k);
    }
}

// `inside` for all rows of tiles of some slices with the same taps.
static void rows_of_slices(const IntTile *from, TileFn inside)
{
    const IntConv *c = from->c;
    Kernel *k = c->l->k;
    const int64_t whole = c->h / c->rows, rest = c->h % c->rows;
    IntTile t = *from;
    t.slice = open_loop(k, t.taps.slice, t.taps.slices, 1, KFOR_PARALLEL, "z");
    if (whole > 0) {
        t.rows = c->rows;
        t.row = open_loop(k, 0, whole, c->rows, KFOR_PARALLEL, "y");
        inside(&t);
        if (whole > 1)
            k_end(k);
    }
    if (rest > 0) {
        t.rows = rest;
        t.row = k_index(k, whole * c->rows);
        inside(&t);
    }
    if (t.taps.slices > 1)
        k_end(k);
}

// `inside` for all rows of tiles of all images, those of slices with the same taps together.
static void each_row(const IntTile *from, TileFn inside)
{
    const IntConv *c = from->c;
    Kernel *k = c->l->k;
    IntTile t = *from;
    t.image = open_loop(k, 0, c->n, 1, KFOR_PARALLEL, "n");
    for (t.taps = int_conv_first_taps(c); t.taps.slices > 0; t.taps = int_conv_next_taps(c, &t.taps))
        rows_of_slices(&t, inside);
    if (c->n > 1)
        k_end(k);
}

static void columns_of_row(const IntTile *t)
{
    each_column(t, emit_tile);
}

static void pixels_of_block(const IntTile *t)
{
    each_row(t, columns_of_row);
}

static void blocks_of_tile(const IntTile *t)
{
    if (t->c->copies == INT_COPY_TILE)
        int_conv_copy_tile(t);
    each_block(t, emit_tile);
}

static void tiles_of_row(const IntTile *t)
{
    if (t->c->copies == INT_COPY_ROWS)
        int_conv_copy_rows(t->c, t->image, t->row, t->rows);
    each_column(t, blocks_of_tile);
}

void int_conv_tiles(const IntConv *c, const Domain *d, KRef zero)
{
    rlx_assert(c->lanes >= 1 && c->nv >= 1);
    for (int64_t g = 0; g < c->group; g++) {
        const IntTile t = {.c = c, .d = d, .zero = zero, .group = g};
        if (int_conv_goes_by_blocks(c))
            each_block(&t, pixels_of_block);
        else
            each_row(&t, tiles_of_row);
    }
}
