// SPDX-License-Identifier: Apache-2.0
// int_conv for microcontrollers without the DSP extension, and of 16-bit inputs for all of them: tiles of
// pixels of a row by channels, whose sums are in registers, so that an input serves all channels of a tile
// and a weight all pixels. With the DSP extension, 16-bit inputs are read as words of two channels. Three
// pixels are packed into two words where their sums are proved to fit (int_conv_grid.h) and that takes less
// time. Else windows are read in the input, where they are there as runs. How many pixels and channels a tile
// has follows from the registers (ir/machine/machine.h).
//
// Where loads of bytes have no signs, weights are raised, so that the least one is 0. Sums of products then
// are too large by GRID_RAISE times the sum of the window.
#include "passes/lower/conv/int_conv_grid.h"
#include "ir/graph/tensor.h"

// DIRECT: channels that have text of their own.
enum { ADDRESSES = 2, LEAST_OF_GROUP = 4, DIRECT = 4 };

// --- weights -------------------------------------------------------------------------------------

// Element i of the window of output channel o: one weight, or two of neighbouring channels.
static int64_t weight_of(const Grid *g, int64_t o, int64_t i)
{
    const IntConv *c = g->of;
    const int64_t taps = c->kh * c->kw, tap = i / g->c.ic;
    const int32_t *w = &g->values[(o * c->ic + i % g->c.ic * (g->is_paired ? 2 : 1)) * taps + tap];
    if (g->is_paired)
        return (int32_t)((uint32_t)w[0] & 0xffff) | (int32_t)((uint32_t)w[taps] << 16);
    return w[0] + (g->is_raised ? GRID_RAISE : 0);
}

// [group][block][row, column, input channel][output channel of the block]
static void pack(const void *ctx, void *bytes)
{
    const Grid *g = ctx;
    const IntConv *c = &g->c;
    Tensor out = {.dtype = g->type, .data = bytes, .numel = c->group * c->oc * g->depth};
    int64_t at = 0;
    for (int64_t first = 0; first < c->group * c->oc;) {
        const int64_t left = c->oc - first % c->oc, width = left < g->width ? left : g->width;
        for (int64_t i = 0; i < g->depth; i++)
            for (int64_t o = first; o < first + width; o++)
                tensor_set_i64(&out, at++, weight_of(g, o, i));
        first += width;
    }
}

// --- results -------------------------------------------------------------------------------------

// A channel, of number `channel`. own: its number among those with numbers of their own, or 0.
static void store_channel(const Grid *g, const GridPatch *t, KRef channel, const KRef *sum, KRef own)
{
    const IntConv *c = &g->c;
    Kernel *k = c->l->k;
    Point to = t->at;
    IntScale scale;
    to.idx[1] = channel;
    if (g->scales != NULL)
        scale = int_scales_load(c, g->scales, channel, own);
    for (int64_t p = 0; p < t->pixels; p++) {
        to.idx[g->d.rank - 1] = k_expr(k, "$ + #", t->at.idx[g->d.rank - 1], p);
        if (g->scales != NULL)
            int_scales_store(c, &g->d, g->scales, &scale, &to, k_get(k, sum[p]));
        else
            pull_store_root(c->l, &g->d, to, k_get(k, sum[p]));
    }
}

static void emit_channel(const Grid *g, const GridPatch *t, const GridBlock *b, GridChannel at)
{
    const IntConv *c = &g->c;
    Kernel *k = c->l->k;
    KRef sum[GRID_MAX_PIXELS];
    const KRef channel = grid_channel(g, t, b, at.j);
    grid_load_sums(g, t, b, at, sum);
    const KRef own = g->scales != NULL ? int_scales_own(c, g->scales, channel) : 0;
    const bool is_mixed = own != 0 && g->scales->n_own < g->scales->n;
    if (is_mixed)
        k_if(k, k_expr(k, "0 < $", own));
    store_channel(g, t, channel, sum, own);
    if (is_mixed) {
        k_else(k);
        store_channel(g, t, channel, sum, 0);
        k_end(k);
    }
}

static void emit_block(const Grid *g, const GridPatch *t, GridBlock *b)
{
    Kernel *k = g->c.l->k;
    uint32_t opened = 0;
    grid_add_up(g, t, b);
    for (int64_t j = 0; j < b->width && g->is_direct; j++)
        emit_channel(g, t, b, (GridChannel){k_index(k, j), j});
    if (g->is_direct)
        return;
    const KRef j = lower_open_count(k, b->width, KFOR_SERIAL, "j", &opened);
    emit_channel(g, t, b, (GridChannel){.j = j});
    lower_close(g->c.l, opened);
}

// --- loops ---------------------------------------------------------------------------------------

static void for_blocks(const Grid *g, const GridPatch *t,
                       void (*emit)(const Grid *g, const GridPatch *t, GridBlock *b))
{
    const IntConv *c = &g->c;
    Kernel *k = c->l->k;
    const int64_t whole = c->oc / g->width * g->width;
    uint32_t opened = 0;
    if (whole > 0) {
        const KRef n = lower_open_count(k, whole / g->width, KFOR_SERIAL, "o", &opened);
        emit(g, t, &(GridBlock){.first = k_expr(k, "$ * #", n, g->width), .width = g->width});
        lower_close(c->l, opened);
    }
    if (whole < c->oc)
        emit(g, t, &(GridBlock){.first = k_index(k, whole), .width = c->oc - whole});
}

static void emit_whole(const Grid *g, GridPatch *t)
{
    if (grid_is_copied(g))
        grid_copy_windows(g, t);
    else if (g->is_raised)
        grid_sum_windows(g, t);
    for_blocks(g, t, emit_block);
}

// Windows of one part after the other, whose sums wait in memory.
static void emit_parts(const Grid *g, GridPatch *t)
{
    Kernel *k = g->c.l->k;
    grid_clear_sums(g, t);
    t->part = k_loop(k, g->parts, KFOR_SERIAL, "part");
    grid_copy_windows(g, t);
    for_blocks(g, t, grid_add_part);
    k_end(k);
    const GridBlock all = {.first = k_index(k, 0), .width = g->c.oc};
    const KRef j = k_loop(k, g->c.oc, KFOR_SERIAL, "j");
    emit_channel(g, t, &all, (GridChannel){.j = j});
    k_end(k);
}

static void emit_tile(const Grid *g, GridPatch t, KRef column)
{
    const IntConv *c = &g->c;
    Kernel *k = c->l->k;
    const uint32_t last = g->d.rank - 1;
    const KRef y = g->d.rank > 3 ? t.at.idx[2] : k_index(k, 0);
    uint32_t opened = 0;
    t.at.idx[last] = column;
    t.row = k_expr(k, "$ * # + #", y, c->sh, -c->pad_h);
    t.column = k_expr(k, "$ * # + #", column, c->sw, -c->pad_w);
    t.group = lower_open_count(k, c->group, KFOR_SERIAL, "g", &opened);
    t.x = k_expr(k, "$ * # + $ * # + $ * # + $ * #", t.at.idx[0], c->stride_n, t.row, c->stride_h, t.column,
                 c->stride_w, t.group, c->ic * c->stride_c);
    grid_open_sums(g, &t);
    if (g->parts > 1)
        emit_parts(g, &t);
    else
        emit_whole(g, &t);
    lower_close(c->l, opened);
}

static void emit(const Grid *g)
{
    const IntConv *c = &g->c;
    Lower *l = c->l;
    Kernel *k = l->k;
    const int64_t tiles = c->w_out / g->pixels, rest = c->w_out % g->pixels;
    uint32_t opened = 0, inner = 0;
    GridPatch t = {
        .at = {.lanes = 1, .count = 1, .vec_axis = 1}, .pixels = g->pixels, .is_packed = g->is_packed};
    for (uint32_t i = 0; i < g->d.rank - 1; i++)
        if (i != 1)
            opened += lower_open_axis(l, &g->d, i, KFOR_PARALLEL, &t.at);
    const KRef tile = lower_open_count(k, tiles, KFOR_SERIAL, "t", &inner);
    emit_tile(g, t, k_expr(k, "$ * #", tile, g->pixels));
    lower_close(l, inner);
    t.pixels = rest;
    t.is_packed = false;
    if (rest > 0)
        emit_tile(g, t, k_index(k, c->w_out - rest));
    lower_close(l, opened);
}

// --- which convolutions --------------------------------------------------------------------------

// Could a tile have so many values of an element, and so many channels? A product needs a register where it
// is not added at once, unless it replaces a weight.
static bool fits_registers(const Grid *g, int64_t values, int64_t width)
{
    const TargetCaps *caps = g->c.l->caps;
    const int64_t product = caps->has_mla || values == 1 ? 0 : 1;
    return values * width + values + 1 + product + ADDRESSES <= caps->cpu.int_registers;
}

// Loads for each sum of a tile; whole blocks are a little better than fewer loads.
static double loads_of(const Grid *g, int64_t values, int64_t width)
{
    const double rest = g->c.oc % width != 0 ? 0.1 : 0;
    return (double)(values + width) / (double)(values * width) + rest;
}

// Pixels and channels with the fewest loads, and then the fewest pixels.
static void choose_tile(Grid *g)
{
    const IntConv *c = &g->c;
    const int64_t most = c->w_out < GRID_MAX_PIXELS ? c->w_out : GRID_MAX_PIXELS;
    const int64_t widest = g->is_direct ? DIRECT : GRID_MAX_WIDTH;
    double best = 0;
    for (int64_t p = g->is_packed ? GRID_WORDS : 1; p <= (g->is_packed ? GRID_WORDS : most); p++)
        for (int64_t w = 1; w <= widest && w <= c->oc; w++)
            if (fits_registers(g, p, w) && (g->pixels == 0 || loads_of(g, p, w) < best)) {
                best = loads_of(g, p, w);
                g->pixels = g->is_packed ? GRID_PACKED : p;
                g->width = w;
            }
}

typedef struct Range {
    int64_t least, most;
} Range;

// Of the sums of `chunks` parts of windows, over all inputs.
static Range range_of(const Grid *g, int64_t chunks)
{
    const IntConv *c = &g->c;
    const int64_t taps = c->kh * c->kw, n = g->depth / chunks;
    const int64_t least = int_conv_is_signed(c) ? INT8_MIN : 0, most = least + UINT8_MAX;
    Range all = {0, 0};
    for (int64_t o = 0; o < c->group * c->oc; o++)
        for (int64_t first = 0; first < g->depth; first += n) {
            Range sum = {0, 0};
            for (int64_t i = first; i < first + n; i++) {
                const int64_t v =
                    g->values[(o * c->ic + i % c->ic) * taps + i / c->ic] + (g->is_raised ? GRID_RAISE : 0);
                sum.least += v * (v > 0 ? least : most);
                sum.most += v * (v > 0 ? most : least);
            }
            all.least = sum.least < all.least ? sum.least : all.least;
            all.most = sum.most > all.most ? sum.most : all.most;
        }
    return all;
}

// Packs pixels where the instructions that this saves are more than it takes to make the words of windows and
// to take sums apart: tenths of what was counted on an M3 and RV32.
static void choose_packing(Grid *g)
{
    enum { SAVED = 7, MADE = 10, MADE_ANYWAY = 23, TAKEN_APART = 40, LEAST_CHUNK = 16 };
    const IntConv *c = &g->c;
    const int64_t made = g->is_copied ? MADE : MADE + MADE_ANYWAY;
    g->is_packed = false;
    if (int_conv_is_wide(c) || c->w_out < GRID_PACKED || !fits_registers(g, GRID_WORDS, 1))
        return;
    for (int64_t chunks = g->parts; g->depth / chunks >= LEAST_CHUNK || chunks == g->parts;
         chunks += g->parts) {
        if (g->depth % chunks != 0)
            continue;
        const Range r = range_of(g, chunks);
        if (r.most - r.least >= INT64_C(1) << GRID_SUM_BITS)
            continue;
        g->is_packed = g->depth * (SAVED * c->oc - made) > TAKEN_APART * c->oc * chunks;
        g->chunks = g->is_packed ? chunks / g->parts : 0;
        g->least = r.least;
        return;
    }
}

// Rows whose pixels follow each other everywhere become one.
static void join_rows(Grid *g)
{
    IntConv *c = &g->c;
    if (g->d.rank != 4 || c->kh != 1 || !g->is_inside ||
        c->sh * c->stride_h != c->w_out * c->sw * c->stride_w)
        return;
    for (uint32_t i = 0; i < g->d.access.len; i++)
        if (g->d.access.data[i].stride[2] != g->d.access.data[i].stride[3] * c->w_out)
            return;
    g->d.extent[3] *= g->d.extent[2];
    g->d.extent[2] = 1;
    c->w_out *= c->h;
    c->h = 1;
}

static bool fits(const Grid *g)
{
    const IntConv *c = &g->c;
    const Lower *l = c->l;
    const bool is_fit =
        int_conv_is_wide(c) ||
        (!l->caps->has_dsp && c->oc > 1 && (c->group == 1 || c->oc >= LEAST_OF_GROUP));
    return is_fit && l->strip.window == NULL && int_conv_knows_bias(c) && int_conv_knows_zero(c) &&
           !int_conv_has_live_axes(c, &g->d) && (c->stride_c == 1 || c->ic == 1);
}

// Could 16-bit inputs be read as words of two channels?
static bool has_pairs(const IntConv *c)
{
    return c->l->caps->has_dsp && int_conv_is_wide(c) && c->ic % 2 == 0 && int_conv_zero_value(c) == 0 &&
           (lower_loc(c->l, c->x)->offset | c->stride_n | c->stride_h | c->stride_w) % 2 == 0;
}

static void take_pairs(Grid *g)
{
    IntConv *c = &g->c;
    g->is_paired = true;
    c->ic /= 2;
    c->stride_n /= 2;
    c->stride_h /= 2;
    c->stride_w /= 2;
}

// Elements of the windows of a tile.
static uint64_t window_of(const Grid *g)
{
    return (uint64_t)grid_part(g) * (uint64_t)(g->is_packed ? GRID_WORDS : g->is_copied ? g->pixels : 0);
}

static void add_params(Grid *g)
{
    const IntConv *c = &g->c;
    Lower *l = c->l;
    const int64_t n = c->group * c->oc * g->depth;
    g->zero = int_conv_zero_value(c);
    g->type = g->is_paired ? DTYPE_i32 : g->is_raised ? DTYPE_u8 : tensor_byte_type(g->values, n);
    Grid *packing = ARENA_NEW(l->pass->perm, Grid);
    IntConv *of = ARENA_NEW(l->pass->perm, IntConv);
    *of = *g->of;
    *packing = *g;
    packing->of = of;
    g->x = g->is_paired ? int_conv_words(c) : lower_param(l, c->x, PARAM_READ);
    g->weights = lower_param_filled(l, node_name(l->g, c->w), g->type, pack, packing,
                                    (uint64_t)n * dtype_info[g->type].bytes);
    g->begin = int_conv_begin_param(g->of, g->values, g->zero, g->least * g->chunks * g->parts);
    if (window_of(g) > 0)
        g->window = lower_param_thread_scratch(l, "window", g->window_type, window_of(g), &g->first_window);
    if (!g->is_direct)
        g->sums = lower_param_thread_scratch(l, "sums", DTYPE_i32, grid_sums(g), &g->first_sum);
}

typedef struct GridWay {
    bool packs, joins, is_direct, has_parts;
} GridWay;

static bool take_way(Grid *g, const GridWay *way)
{
    if ((way->is_direct || way->has_parts) && !pass_is_serial(g->c.l->pass))
        return false;
    g->is_direct = way->is_direct;
    g->parts = way->has_parts ? g->c.kh : 1;
    if (way->joins)
        join_rows(g);
    if (way->packs)
        choose_packing(g);
    if ((way->packs && !g->is_packed) || (way->has_parts && g->parts == 1))
        return false;
    choose_tile(g);
    g->window_type = g->is_packed || g->is_paired ? DTYPE_i32 : lower_node(g->c.l, g->c.x)->dtype;
    return g->pixels != 0 && lower_take(g->c.l);
}

// Pixels packed, where that is possible and pays; rows joined, where that is possible, or as stages need
// them; with more text instead of memory for sums, or with parts of windows.
static bool choose_way(Grid *g)
{
    static const GridWay ways[] = {{.packs = true, .joins = true},
                                   {.packs = true},
                                   {.packs = true, .joins = true, .is_direct = true},
                                   {.packs = true, .is_direct = true},
                                   {.packs = true, .has_parts = true},
                                   {.joins = true},
                                   {0},
                                   {.joins = true, .is_direct = true},
                                   {.is_direct = true}};
    const Grid before = *g;
    for (uint32_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        *g = before;
        if (take_way(g, &ways[i]))
            return true;
    }
    return false;
}

bool int_conv_grid(const IntConv *c, const Domain *d, const int32_t *values, bool is_inside)
{
    Grid g = {.of = c, .c = *c, .d = *d, .values = values, .is_inside = is_inside};
    if (!fits(&g))
        return false;
    if (has_pairs(c))
        take_pairs(&g);
    g.depth = g.c.ic * c->kh * c->kw;
    g.is_joined = int_conv_is_joined(&g.c);
    g.is_raised = c->l->caps->is_narrow && int_conv_has_byte_weights(c, values);
    g.is_copied = !is_inside || c->kh > 1 || !g.is_joined;
    if (!choose_way(&g))
        return false;
    add_params(&g);
    IntScales scales;
    g.scales = int_scales_find(c, &scales) ? &scales : NULL;
    emit(&g);
    return true;
}
