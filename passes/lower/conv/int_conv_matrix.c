// SPDX-License-Identifier: Apache-2.0
// int_conv on matrix registers (KMatrix): two tiles of up to 16 pixels by two of 16 output channels, of which
// every step adds the products of up to 64 channels. Sums are exact, so the choice between these and vectors
// is one of time alone.
//
// The input is read where it is, or from the padded copy that vectors would read as well (lower_int_conv.c):
// the pixels of a tile are at one distance, either a part of one output row, or (`is_linear`, for narrow
// images) pixels of the padded input one after the other, of which some are no outputs and are not stored.
// The last tile of a row begins so early that it reads no pixel too many; what it computes twice is not
// stored. What a step multiplies are words of four channels at one kernel position, or, where they follow
// each other, of one kernel row: cut into equal blocks. The last block may overlap the one before, with
// weights of 0 there.
#include "passes/lower/choice.h"
#include "passes/lower/conv/int_conv.h"

#include <math.h>

enum { SUMS = 0, PIXELS = 4, WEIGHTS = 6, ROWS = 16, LANES = 16, BLOCK = 2 * LANES, CHUNKS = 8 };

// --- the shape -----------------------------------------------------------------------------------

static bool is_run(const IntConv *c)
{
    return c->kw > 1 && c->dw == 1 && c->in.column == c->words;
}

// Pixels of a row of tiles, and such rows of an image.
static int64_t row_pixels(const IntConv *c)
{
    return c->m.is_linear ? (c->h - 1) * c->m.pitch + c->w_out : c->w_out;
}

static int64_t image_rows(const IntConv *c)
{
    return c->m.is_linear ? 1 : c->h;
}

// All pixel tiles, and pairs of them.
static int64_t pixel_tiles(const IntConv *c)
{
    return c->n * image_rows(c) * c->m.tiles;
}

static int64_t pairs(const IntConv *c)
{
    return ceil_div(pixel_tiles(c), 2);
}

// Steps of a tile.
static int64_t steps(const IntConv *c)
{
    return c->kh * c->m.taps * c->m.blocks;
}

// Words of the weights of 16 output channels.
static int64_t panel_words(const IntConv *c)
{
    return steps(c) * c->m.words * LANES;
}

static int64_t weight_words(const IntConv *c)
{
    return c->padded / LANES * panel_words(c);
}

// Tiles are as even as possible: rows that are no outputs cost as much as others.
static IntMatrix tiling_of(const IntConv *c, bool is_linear)
{
    IntConv s = *c;
    s.m = (IntMatrix){.is_linear = is_linear, .pitch = is_linear ? c->in.row / c->in.column : c->w_out};
    const int64_t width = row_pixels(&s), run = is_run(c) ? c->kw * c->words : c->words;
    int64_t tiles = ceil_div(width, ROWS);
    tiles += tiles > 1 && tiles % 2 != 0 && c->n * image_rows(&s) == 1;
    s.m.rows = ceil_div(width, tiles);
    s.m.tiles = ceil_div(width, s.m.rows);
    s.m.taps = is_run(c) ? 1 : c->kw;
    s.m.run = run;
    s.m.blocks = ceil_div(run, LANES);
    s.m.words = ceil_div(run, s.m.blocks);
    return s.m;
}

// --- is it worthwhile ----------------------------------------------------------------------------

// A product of few rows takes this much of the time of a whole one; so much of the lines is not in the
// first-level cache.
static const double least_mac = 13.0 / 16, l2_share = 0.675;

// Cycles of a tile's step: four products, whose loads run beside them as long as they are not more than the
// second-level cache gives; then its sums go to memory and back. Epilogues are the same for all ways.
static double matrix_cycles(const IntConv *c, const IntMatrix *m)
{
    IntConv s = *c;
    s.m = *m;
    const double lines = 2 * (double)(m->rows + m->words);
    const CpuMachine *cpu = &c->l->caps->cpu;
    const double mac = fmax((double)m->rows / ROWS, least_mac) * cpu->matrix_cycles;
    const double step = fmax(4 * mac, lines * l2_share * CACHE_LINE / cpu->l2_rate);
    const double blocks = (double)ceil_div(c->oc, BLOCK);
    return (double)c->group * (double)pairs(&s) * blocks * ((double)steps(&s) * step + 100);
}

static double vector_cycles(const IntConv *c)
{
    const double vectors = (double)ceil_div(c->oc, c->lanes);
    const double dots =
        vectors * (double)c->group * (double)(c->n * c->h * c->w_out) * (double)(c->kh * c->kw * c->words);
    return dots / (0.87 * c->l->caps->cpu.fma_per_cycle);
}

static const char *question(const IntConv *c)
{
    return arena_printf(c->l->pass->perm,
                        "int_conv x%d %lldx%lldx%lldx%lld to %lldx%lldx%lld kernel %lldx%lld stride "
                        "%lldx%lld dilation %lldx%lld groups %lld pitch %lldx%lld",
                        c->lanes, (long long)c->n, (long long)c->in_h, (long long)c->in_w, (long long)c->ic,
                        (long long)c->h, (long long)c->w_out, (long long)c->oc, (long long)c->kh,
                        (long long)c->kw, (long long)c->sh, (long long)c->sw, (long long)c->dh,
                        (long long)c->dw, (long long)c->group, (long long)c->in.row, (long long)c->in.column);
}

bool int_conv_choose_matrix(IntConv *c)
{
    rlx_assert(c->group >= 1 && c->oc >= 0);
    enum { MAX_GROUPS = 4 };
    if (!c->l->caps->has_matrix || c->lanes != LANES || c->group > MAX_GROUPS)
        return false;
    IntMatrix shapes[3] = {{0}, tiling_of(c, false)};
    Candidate list[3] = {{"vectors", vector_cycles(c)}, {"matrix", matrix_cycles(c, &shapes[1])}};
    uint32_t n = 2;
    if (c->sh == 1 && c->sw == 1 && c->h > 1 && c->in.row % c->in.column == 0) {
        shapes[n] = tiling_of(c, true);
        list[n] = (Candidate){"linear", matrix_cycles(c, &shapes[n])};
        n++;
    }
    const uint32_t pick = choice_pick(c->l, question(c), list, n);
    c->m = shapes[pick];
    return pick > 0;
}

// --- weights -------------------------------------------------------------------------------------

typedef struct PairPacking {
    IntConv c;
    const int8_t *data;
} PairPacking;

static int64_t block_start(const IntConv *c, int64_t block)
{
    const int64_t last = c->m.run - c->m.words, at = block * c->m.words;
    return at < last ? at : last;
}

// The weight of word `word` of the run at kernel row kh and tap kw, byte i of it.
static int8_t weight_at(const PairPacking *p, int64_t channel, int64_t kh, int64_t kw, int64_t word,
                        int64_t i)
{
    const IntConv *c = &p->c;
    kw += word / c->words;
    const int64_t from = word % c->words * 4 + i;
    return from < c->ic ? p->data[((channel * c->ic + from) * c->kh + kh) * c->kw + kw] : 0;
}

// One tile: `words` rows of 16 output channels, of which `channels` exist.
static unsigned char *pack_tile(const PairPacking *p, int64_t channel, int64_t channels, int64_t tap,
                                int64_t block, unsigned char *out)
{
    const IntConv *c = &p->c;
    const int64_t kh = tap / c->m.taps, kw = tap % c->m.taps, start = block_start(c, block);
    for (int64_t r = 0; r < c->m.words; r++)
        for (int64_t o = 0; o < LANES; o++)
            for (int64_t i = 0; i < 4; i++) {
                const bool is_real = o < channels && start + r >= block * c->m.words;
                *out++ = (unsigned char)(is_real ? weight_at(p, channel + o, kh, kw, start + r, i) : 0);
            }
    return out;
}

// [group][32 channels (a last block may have 16)][kernel row][tap][block][tile of 16 channels][word][16][4]
static void pack(const void *ctx, void *bytes)
{
    const PairPacking *p = ctx;
    const IntConv *c = &p->c;
    unsigned char *out = bytes;
    for (int64_t g = 0; g < c->group; g++)
        for (int64_t o = 0; o < c->oc; o += BLOCK)
            for (int64_t tap = 0; tap < c->kh * c->m.taps; tap++)
                for (int64_t b = 0; b < c->m.blocks; b++)
                    for (int64_t v = o; v < c->oc && v < o + BLOCK; v += LANES)
                        out = pack_tile(p, g * c->oc + v, c->oc - v, tap, b, out);
}

void int_conv_pack_matrix(IntConv *c, const void *data)
{
    rlx_assert(c->group > 0);
    PairPacking *p = ARENA_NEW(c->l->pass->perm, PairPacking);
    *p = (PairPacking){.c = *c, .data = data};
    c->group_words = weight_words(c);
    c->weights = lower_param_filled(c->l, node_name(c->l->g, c->w), DTYPE_i32, pack, p,
                                    (uint64_t)c->group * (uint64_t)c->group_words * 4);
}

// --- one pair of pixel tiles by one block of channels --------------------------------------------

typedef struct Pair {
    IntTile t; // block, nv, channels, weights
    KRef pair; // its number
    KRef sums; // array
} Pair;

// Where a tile of pixels is.
typedef struct PixelTile {
    KRef image, row, start; // start: the pixel of its row that it begins with
    KRef first, end;        // those to store, counted from it
} PixelTile;

static KRef rest_of(Kernel *k, KRef a, KRef quotient, int64_t by)
{
    return k_expr(k, "$ - $ * #", a, quotient, by);
}

static KRef divide(Kernel *k, KRef a, int64_t by)
{
    return by == 1 ? a : k_expr(k, "$ / #", a, by);
}

// The tile of that number; behind the last one, it again with nothing to store.
static PixelTile tile_at(const IntConv *c, KRef number)
{
    Kernel *k = c->l->k;
    const int64_t all = pixel_tiles(c), rows = c->m.rows, height = image_rows(c);
    const int64_t width = row_pixels(c);
    PixelTile p = {.image = k_index(k, 0), .row = k_index(k, 0), .end = k_index(k, rows)};
    KRef tile = number;
    if (all % 2 != 0 && all > 1) {
        tile = k_expr(k, "min($, #)", number, all - 1);
        p.end = k_expr(k, "($ - $) * # + $", tile, number, rows, p.end);
    }
    const KRef row = divide(k, tile, c->m.tiles);
    if (height * c->n > 1) {
        tile = rest_of(k, tile, row, c->m.tiles);
        p.image = c->n > 1 ? divide(k, row, height) : p.image;
        p.row = c->n > 1 ? rest_of(k, row, p.image, height) : row;
    }
    const KRef start = k_expr(k, "$ * #", tile, rows);
    p.start = width % rows == 0 ? start : k_expr(k, "min($, #)", start, width - rows);
    p.first = width % rows == 0 ? k_index(k, 0) : k_sub(k, start, p.start);
    return p;
}

// The first word that the tile's first pixel reads.
static KRef tile_words(const IntConv *c, const PixelTile *p, int64_t group)
{
    Kernel *k = c->l->k;
    const KRef image = k_expr(k, "$ * # + #", p->image, c->in.image, group * c->words);
    return k_expr(k, "$ * # + ($ * # + $)", p->start, c->sw * c->in.column, p->row, c->sh * c->in.row, image);
}

// x: the first words of the tiles of pixels, w: of the weights. Each is loaded right before its first use.
static void emit_step(const Pair *p, uint32_t tiles, const KRef *x, KRef w)
{
    const IntConv *c = p->t.c;
    Kernel *k = c->l->k;
    const KRef step = k_index(k, c->sw * c->in.column);
    for (uint32_t i = 0; i < tiles; i++) {
        k_matrix_load(k, (uint8_t)(PIXELS + i), c->in.param, x[i], step);
        for (uint32_t v = 0; v < p->t.nv; v++) {
            const KRef from = k_expr(k, "$ + #", w, (int64_t)v * c->m.words * LANES);
            if (i == 0)
                k_matrix_load(k, (uint8_t)(WEIGHTS + v), c->weights, from, k_index(k, LANES));
            k_matrix_mac(k, DTYPE_i32, (uint8_t)(SUMS + 2 * i + v), (uint8_t)(PIXELS + i),
                         (uint8_t)(WEIGHTS + v));
        }
    }
}

static void emit_sums(const Pair *p, uint32_t tiles, const KRef *first)
{
    const IntConv *c = p->t.c;
    Kernel *k = c->l->k;
    const int64_t step = p->t.nv * c->m.words * LANES;
    uint32_t opened = 0;
    for (uint32_t i = 0; i < tiles; i++)
        for (uint32_t v = 0; v < p->t.nv; v++)
            k_matrix_zero(k, (uint8_t)(SUMS + 2 * i + v));
    const KRef kh = lower_open_count(k, c->kh, KFOR_SERIAL, "kh", &opened),
               kw = lower_open_count(k, c->m.taps, KFOR_SERIAL, "kw", &opened);
    const KRef b = lower_open_count(k, c->m.blocks, KFOR_SERIAL, "c", &opened);
    KRef word = k_expr(k, "$ * #", b, c->m.words);
    if (c->m.run % c->m.words != 0)
        word = k_expr(k, "min($, #)", word, c->m.run - c->m.words);
    word = k_expr(k, "$ * # + ($ * # + $)", kh, c->dh * c->in.row, kw, c->dw * c->in.column, word);
    const KRef tap = k_expr(k, "($ * # + $) * # + $", kh, c->m.taps, kw, c->m.blocks, b);
    KRef x[2];
    for (uint32_t i = 0; i < tiles; i++)
        x[i] = k_add(k, first[i], word);
    emit_step(p, tiles, x, k_expr(k, "$ * # + $", tap, step, p->t.weights));
    k_ends(k, opened);
    for (uint32_t i = 0; i < tiles; i++)
        for (uint32_t v = 0; v < p->t.nv; v++)
            k_matrix_store(k, (uint8_t)(SUMS + 2 * i + v), p->sums,
                           k_index(k, (int64_t)i * ROWS * BLOCK + (int64_t)v * LANES), k_index(k, BLOCK));
}

// Results of pixel i of tile `number` of the pair.
static void store_pixel(const Pair *p, const PixelTile *at, KRef number, KRef i, const KRef *begin)
{
    const IntConv *c = p->t.c;
    Kernel *k = c->l->k;
    IntTile t = p->t;
    const KRef pixel = k_add(k, at->start, i), none = k_index(k, 0);
    t.image = at->image;
    t.row = c->m.is_linear ? divide(k, pixel, c->m.pitch) : at->row;
    t.column = c->m.is_linear ? rest_of(k, pixel, t.row, c->m.pitch) : pixel;
    const bool has_gaps = c->m.is_linear && c->m.pitch != c->w_out;
    if (has_gaps)
        k_if(k, k_expr(k, "$ < #", t.column, c->w_out));
    const KRef from = k_expr(k, "($ * # + $) * # + $", number, ROWS, i, BLOCK, none);
    for (uint32_t v = 0; v < t.nv; v++) {
        const KRef sum = k_aload(k, p->sums, k_expr(k, "$ + #", from, (int64_t)v * LANES), LANES);
        int_conv_store(&t, none, none, v, k_add(k, sum, k_get(k, begin[v])));
    }
    if (has_gaps)
        k_end(k);
}

static void emit_pair(const Pair *p)
{
    const IntConv *c = p->t.c;
    Kernel *k = c->l->k;
    const uint32_t tiles = pixel_tiles(c) > 1 ? 2 : 1;
    const KRef number = k_expr(k, "$ * 2", p->pair);
    KRef first[2], begin[2];
    for (uint32_t i = 0; i < tiles; i++) {
        const PixelTile at = tile_at(c, k_expr(k, "$ + #", number, i));
        first[i] = tile_words(c, &at, p->t.group);
    }
    emit_sums(p, tiles, first);
    for (uint32_t v = 0; v < p->t.nv; v++)
        begin[v] = k_var(k, int_conv_begin(&p->t, v), arena_printf(k->arena, "begin%u", v));
    uint32_t opened = 0;
    const KRef i = lower_open_count(k, tiles, KFOR_SERIAL, "t", &opened);
    const PixelTile at = tile_at(c, k_add(k, number, i));
    const KRef pixel = k_for(k, at.first, at.end, 1, KFOR_SERIAL, "p");
    store_pixel(p, &at, i, pixel, begin);
    k_ends(k, opened + 1);
}

// --- loops ---------------------------------------------------------------------------------------

typedef void (*PairFn)(Pair *p);

// `inside` for every block of output channels of the group: whole ones, then what is left.
static void each_block(Pair *p, uint8_t flags, PairFn inside)
{
    const IntConv *c = p->t.c;
    Kernel *k = c->l->k;
    const int64_t whole = c->oc / BLOCK, rest = c->oc % BLOCK, base = p->t.group * c->group_words;
    if (whole > 0) {
        const KRef block = whole == 1 ? k_index(k, 0) : k_loop(k, whole, flags, "o");
        p->t.block = k_expr(k, "$ * #", block, BLOCK);
        p->t.nv = 2;
        p->t.channels = BLOCK;
        p->t.weights = k_expr(k, "$ * # + #", block, 2 * panel_words(c), base);
        inside(p);
        if (whole > 1)
            k_end(k);
    }
    if (rest == 0)
        return;
    p->t.block = k_index(k, whole * BLOCK);
    p->t.nv = rest > LANES ? 2 : 1;
    p->t.channels = rest;
    p->t.weights = k_index(k, base + whole * 2 * panel_words(c));
    inside(p);
}

static void begin(Pair *p)
{
    Kernel *k = p->t.c->l->k;
    k_matrix_begin(k, p->t.c->m.rows, p->t.c->m.words);
    p->sums = k_array(k, DTYPE_i32, 2 * ROWS * BLOCK);
}

static void one_pair(Pair *p)
{
    emit_pair(p);
}

// All pixels for one block of channels.
static void pairs_of_block(Pair *p)
{
    Kernel *k = p->t.c->l->k;
    uint32_t opened = 0;
    begin(p);
    p->pair = lower_open_count(k, pairs(p->t.c), KFOR_SERIAL, "q", &opened);
    emit_pair(p);
    k_ends(k, opened);
    k_matrix_end(k);
}

// Chunks of pairs, of which each has all channels.
static void blocks_of_pairs(Pair *p)
{
    const IntConv *c = p->t.c;
    Kernel *k = c->l->k;
    const int64_t all = pairs(c), wanted = CHUNKS * (c->l->caps->threads > 1 ? c->l->caps->threads : 1);
    const int64_t each = ceil_div(all, wanted), chunks = ceil_div(all, each);
    const KRef chunk = chunks == 1 ? k_index(k, 0) : k_loop(k, chunks, KFOR_PARALLEL, "chunk");
    const KRef from = k_expr(k, "$ * #", chunk, each);
    KRef end = k_expr(k, "$ + #", from, each);
    if (all % each != 0)
        end = k_expr(k, "min($, #)", end, all);
    begin(p);
    p->pair = each == 1 ? from : k_for(k, from, end, 1, KFOR_SERIAL, "q");
    each_block(p, KFOR_SERIAL, one_pair);
    if (each > 1)
        k_end(k);
    k_matrix_end(k);
    if (chunks > 1)
        k_end(k);
}

void int_conv_matrix(const IntConv *c, const Domain *d, KRef zero)
{
    rlx_assert(c->l->caps->has_matrix);
    rlx_assert(c->group_words >= 1);
    for (int64_t g = 0; g < c->group; g++) {
        Pair p = {.t = {.c = c, .d = d, .zero = zero, .group = g}};
        if (c->group_words * 4 > c->l->caps->cpu.l2_bytes / 2)
            each_block(&p, KFOR_PARALLEL, pairs_of_block);
        else
            blocks_of_pairs(&p);
    }
}
