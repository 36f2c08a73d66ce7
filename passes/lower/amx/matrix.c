// SPDX-License-Identifier: Apache-2.0
// The schedule of matrix registers: packing of the weights, the tiles, and the loops around them. See
// matrix.h; the slab is in matrix_slab.c.
#include "passes/lower/amx/matrix_slab.h"

#include <math.h>
#include <string.h>

// Registers: four tiles of sums (two of pixels by two of channels), then two of pixels, then two of weights.
enum { SUMS = 0, PIXELS = 4, WEIGHTS = 6 };
// Products of two parts that are added up: all but that of the rests.
enum { PRODUCTS = 3 };
// A tile of weights is 32 channels by 16 results; a step has those of its channels, the last part first.
enum { BLOCK = MATRIX_BLOCK, LANES = MATRIX_LANES, TILE_ELEMENTS = BLOCK * LANES };

// --- is it worthwhile ----------------------------------------------------------------------------

// Bytes of the packed weights.
static int64_t weight_bytes(const TileShape *s)
{
    return ceil_div(s->oc, LANES) * slab_steps(s) * matrix_parts(s) * TILE_ELEMENTS *
           (int64_t)sizeof(uint16_t);
}

// Cycles of a core that weights need which do not stay in the second-level cache. share: of what memory
// gives.
static double fetch_cycles(const Lower *l, double bytes, double share)
{
    const CpuMachine *cpu = &l->caps->cpu;
    return bytes > cpu->l2_bytes / 2 ? bytes / (share * cpu->shared_rate) : 0;
}

// Cycles for everything, as measured on convolutions of resnet50: a multiply-add of registers waits as long
// for the second-level cache as it takes; splitting a vector takes 3 a part, storing one 4; weights from
// beyond that cache come somewhat slower than to vectors.
static double matrix_cycles(const Lower *l, const TileShape *s)
{
    const TileAxis slice = slab_slice_axis(s);
    const double pixels =
        (double)(s->n * slice.out * s->h * (s->w + (s->kw > 1 ? (s->kw - 1) * s->dw : 0)));
    const double steps = (double)slab_steps(s);
    const double tiles = ceil(pixels / LANES) * (double)ceil_div(s->oc, LANES);
    const double split = (double)(s->n * slice.out * slice.kernel * s->in_h * s->in_w) *
                         (double)(2 * ceil_div(s->ic, BLOCK));
    const double fetch = fetch_cycles(l, (double)weight_bytes(s), 0.66);
    const double work = tiles * steps * (s->is_bf16 ? 1 : PRODUCTS) * 2 * l->caps->cpu.matrix_cycles;
    return fmax(work, fetch) + split * 3 * matrix_parts(s) + pixels * (double)ceil_div(s->oc, LANES) * 4;
}

static double vector_cycles(const Lower *l, const TileShape *s)
{
    const TileAxis slice = slab_slice_axis(s);
    const double weights = (double)(s->oc * s->ic * slice.kernel * s->kh * s->kw);
    const double macs = (double)(s->n * slice.out * s->h * s->w) * weights;
    const double work = macs / (0.9 * l->caps->f32_lanes * l->caps->cpu.fma_per_cycle);
    return fmax(work, fetch_cycles(l, weights * sizeof(float), 0.8));
}

bool matrix_is_worthwhile(const Lower *l, const TileShape *s, double more)
{
    rlx_assert(s->kh >= 1 && s->kw >= 1 && s->sh >= 1 && s->sw >= 1);
    if (!l->caps->has_matrix || l->caps->f32_lanes != LANES || s->oc < LANES / 2)
        return false;
    if (!s->is_bf16 && !matrix_takes_f32(l->pass->options))
        return false;
    if (s->n_outer > 1 || s->n * s->h * s->w < LANES || s->kh > 16 || s->kw > 16)
        return false;
    return matrix_cycles(l, s) + more < vector_cycles(l, s);
}

// --- weights -------------------------------------------------------------------------------------

static uint16_t to_bf16(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    if (isnan(v))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float of_bf16(uint16_t h)
{
    const uint32_t bits = (uint32_t)h << 16;
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

// Part 0 is the rounded number, part 1 what is left of it, rounded ...
static uint16_t part_of(float w, uint8_t part)
{
    for (; part > 0; part--)
        w = isfinite(w) ? w - of_bf16(to_bf16(w)) : 0;
    return to_bf16(w);
}

typedef struct PanelPacking {
    TileShape s;
    TileSource src;
} PanelPacking;

// Element e of what is multiplied at a tap: a channel, or a column and a channel. The index for result 0.
static int64_t weight_at(const PanelPacking *p, int64_t tap, int64_t e)
{
    const TileSource *s = &p->src;
    const int64_t row = slab_is_folded(&p->s) ? tap : tap / p->s.kw;
    const int64_t at = row / p->s.kh * s->stride_outer[0] + row % p->s.kh * s->stride_kh;
    if (slab_is_folded(&p->s))
        return at + e / p->s.ic * s->stride_kw + e % p->s.ic * s->stride_ic;
    return at + tap % p->s.kw * s->stride_kw + e * s->stride_ic;
}

// A part of a weight.
static uint16_t weight_part(const PanelPacking *p, int64_t index, uint8_t part)
{
    uint16_t h;
    float w;
    if (p->s.is_bf16) {
        memcpy(&h, (const unsigned char *)p->src.data + index * 2, sizeof h);
        return h;
    }
    memcpy(&w, (const unsigned char *)p->src.data + index * 4, sizeof w);
    return part_of(w, part);
}

// One tile: weights of the elements first .. first + 31 for 16 results from `result` on, in pairs of
// elements.
static void pack_tile(const PanelPacking *p, int64_t tap, int64_t first, int64_t result, uint8_t part,
                      uint16_t *out)
{
    const int64_t n = slab_is_folded(&p->s) ? p->s.kw * p->s.ic : p->s.ic;
    for (int64_t c = 0; c < BLOCK; c++)
        for (int64_t o = 0; o < LANES; o++) {
            const bool is_real = first + c < n && result + o < p->s.oc;
            out[c / 2 * BLOCK + 2 * o + c % 2] =
                is_real ? weight_part(p, weight_at(p, tap, first + c) + (result + o) * p->src.stride_oc, part)
                        : 0;
        }
}

static uint16_t *pack_step(const PanelPacking *p, int64_t tap, int64_t first, int64_t result, int64_t tiles,
                           uint16_t *out)
{
    for (uint8_t part = matrix_parts(&p->s); part-- > 0;)
        for (int64_t v = 0; v < tiles; v++, out += TILE_ELEMENTS)
            pack_tile(p, tap, first, result + v * LANES, part, out);
    return out;
}

// Order: blocks of 32 results (a last one may have 16), kernel slices, rows, columns, blocks of 32 channels.
static void pack(const void *ctx, void *bytes)
{
    const PanelPacking *p = ctx;
    uint16_t *out = bytes;
    const int64_t rows = slab_slice_axis(&p->s).kernel * p->s.kh;
    const int64_t taps = slab_is_folded(&p->s) ? rows : rows * p->s.kw;
    const int64_t blocks = slab_steps(&p->s) / taps;
    for (int64_t o = 0; o < p->s.oc; o += BLOCK)
        for (int64_t t = 0; t < taps; t++)
            for (int64_t c = 0; c < blocks; c++)
                out = pack_step(p, t, c * BLOCK, o, p->s.oc - o > LANES ? 2 : 1, out);
}

static uint32_t pack_weights(const Tile *t, const TileSource *weights, const char *name)
{
    PanelPacking *p = ARENA_NEW(t->l->pass->perm, PanelPacking);
    *p = (PanelPacking){t->s, *weights};
    return lower_param_filled(t->l, name, DTYPE_bf16, pack, p, (uint64_t)weight_bytes(&t->s));
}

// --- one tile ------------------------------------------------------------------------------------

// Weights, packed by pack or as panels (matrix_emit_panels), from element `base` of a parameter on.
typedef struct Weights {
    uint32_t param;
    bool are_panels;
    KRef base;
} Weights;

// 16 or 32 pixels of a slab by 16 or 32 results.
typedef struct Place {
    const Tile *t;
    const Slab *slab;
    Weights weights;
    KRef slice;                  // of the output, where there is an axis before rows
    KRef image, first_row, rows; // of the slab: the output row of its first one, and how many are wanted
    KRef pixel;                  // first one, counted from the start of the slab
    int64_t tiles;               // that follow each other for one block of results
    uint8_t pixel_tiles, result_tiles;
    KRef result, weight; // first result; index of its first weight
    int64_t results;     // that exist
    KRef sums;           // array
} Place;

// Elements of the weights of one step.
static int64_t step_elements(const Place *p)
{
    return matrix_parts(&p->t->s) * p->result_tiles * TILE_ELEMENTS;
}

static void load_pixels(const Place *p, KRef at, uint8_t tile, uint8_t part)
{
    Kernel *k = p->t->l->k;
    const int64_t off = tile * LANES * p->slab->step + part * p->slab->part_step;
    k_matrix_load(k, (uint8_t)(PIXELS + tile), p->slab->param, k_expr(k, "$ + #", at, off),
                  k_index(k, p->slab->step));
}

static void load_weights(const Place *p, KRef at, uint8_t tile, uint8_t part)
{
    Kernel *k = p->t->l->k;
    const int64_t number = tile + (matrix_parts(&p->t->s) - 1 - part) * p->result_tiles;
    const bool are_panels = p->weights.are_panels;
    k_matrix_load(k, (uint8_t)(WEIGHTS + tile), p->weights.param,
                  k_expr(k, "$ + #", at, number * (are_panels ? BLOCK : TILE_ELEMENTS)),
                  k_index(k, are_panels ? p->result_tiles * BLOCK : BLOCK));
}

static void multiply_registers(const Place *p, uint8_t pixel_tile, uint8_t result_tile)
{
    k_matrix_mac(p->t->l->k, DTYPE_f32, (uint8_t)(SUMS + 2 * pixel_tile + result_tile),
                 (uint8_t)(PIXELS + pixel_tile), (uint8_t)(WEIGHTS + result_tile));
}

// Products of all tiles of pixels with all tiles of weights; before that the given parts are loaded, each
// right before its first use.
enum { KEPT = 255 };
typedef struct Phase {
    uint8_t pixels, weights; // part, or KEPT: what is there already
} Phase;

static void emit_phase(const Place *p, Phase phase, KRef x, KRef w)
{
    for (uint8_t i = 0; i < p->pixel_tiles; i++) {
        if (phase.pixels != KEPT)
            load_pixels(p, x, i, phase.pixels);
        for (uint8_t j = 0; j < p->result_tiles; j++) {
            if (i == 0 && phase.weights != KEPT)
                load_weights(p, w, j, phase.weights);
            multiply_registers(p, i, j);
        }
    }
}

// 32 elements at one kernel position: all products of parts but those that are as small as what the parts
// miss.
static void emit_step(const Place *p, KRef x, KRef w)
{
    static const Phase phases[PRODUCTS] = {{0, 1}, {KEPT, 0}, {1, KEPT}}, whole = {0, 0};
    if (p->t->s.is_bf16)
        emit_phase(p, whole, x, w);
    else
        for (int i = 0; i < PRODUCTS; i++)
            emit_phase(p, phases[i], x, w);
}

static KRef open_images(const Tile *t, uint8_t flags, uint32_t *opened)
{
    Kernel *k = t->l->k;
    if (t->images == 0)
        return lower_open_count(k, t->s.n, flags, "n", opened);
    ++*opened;
    return k_for(k, k_index(k, 0), t->images, 1, flags, "n");
}

// Every tile fetches its share of the weights of the next block of results, where they come from far.
static void fetch_weights(const Place *p, KRef here)
{
    Kernel *k = p->t->l->k;
    const int64_t step = step_elements(p), lines = step / BLOCK;
    const int64_t share = ceil_div(lines, p->tiles);
    if (weight_bytes(&p->t->s) <= (int64_t)p->t->l->caps->cpu.l2_bytes / 2)
        return;
    const KRef mine = k_expr(k, "$ / # * #", p->pixel, 2 * LANES, share * BLOCK);
    const KRef next = k_expr(k, "$ + $ + #", here, mine, slab_steps(&p->t->s) * step);
    const KRef i = share == 1 ? k_index(k, 0)
                              : k_for(k, k_index(k, 0), k_index(k, share * BLOCK), BLOCK, KFOR_SERIAL, "i");
    k_prefetch(k, p->weights.param, k_add(k, next, i));
    if (share > 1)
        k_end(k);
}

// The taps along slices that are inside of the input.
static KRef open_slice_taps(const Place *p, uint32_t *opened)
{
    Kernel *k = p->t->l->k;
    if (p->t->s.n_outer == 0)
        return k_index(k, 0);
    const SlabTaps taps = slab_taps(p->slab);
    ++*opened;
    return k_for(k, taps.first, taps.end, 1, KFOR_SERIAL, "kd");
}

static void emit_sums(const Place *p)
{
    Kernel *k = p->t->l->k;
    const Slab *b = p->slab;
    const int64_t step = step_elements(p);
    uint32_t opened = 0;
    for (uint8_t i = 0; i < p->pixel_tiles; i++)
        for (uint8_t j = 0; j < p->result_tiles; j++)
            k_matrix_zero(k, (uint8_t)(SUMS + 2 * i + j));
    const KRef kd = open_slice_taps(p, &opened);
    const KRef kh = lower_open_count(k, p->t->s.kh, KFOR_SERIAL, "kh", &opened);
    const KRef kw = lower_open_count(k, b->taps_w, KFOR_SERIAL, "kw", &opened);
    const KRef x = k_expr(k, "$ * # + $", p->pixel, b->step, slab_tap(b, p->image, kd, kh, kw));
    const KRef row = k_expr(k, "$ * # + $", kd, p->t->s.kh, kh);
    const KRef w = k_expr(k, "($ * # + $) * # + $", row, b->taps_w, kw, b->blocks * step, p->weight);
    const KRef c = lower_open_count(k, b->blocks, KFOR_SERIAL, "c", &opened);
    const KRef here = k_expr(k, "$ * # + $", c, step, w);
    fetch_weights(p, here);
    emit_step(p, k_expr(k, "$ * # + $", c, b->block_step, x), here);
    k_ends(k, opened);
    for (uint8_t i = 0; i < p->pixel_tiles; i++)
        for (uint8_t j = 0; j < p->result_tiles; j++)
            k_matrix_store(k, (uint8_t)(SUMS + 2 * i + j), p->sums, k_index(k, i * LANES * BLOCK + j * LANES),
                           k_index(k, BLOCK));
}

// Stores the results of pixel i of the tile, which is in the given row of the slab.
static void store_pixel(const Place *p, KRef i, KRef row, KRef column)
{
    const Tile *t = p->t;
    Kernel *k = t->l->k;
    const KRef out_row = k_add(k, p->first_row, row);
    for (uint8_t j = 0; j < p->result_tiles; j++) {
        const int64_t left = p->results - j * LANES;
        TileOut out = {.image = p->image,
                       .outer = &p->slice,
                       .row = p->slab->is_linear ? k_index(k, 0) : out_row,
                       .column = p->slab->is_linear ? out_row : column,
                       .channel = k_expr(k, "$ + #", p->result, j * LANES),
                       .lanes = LANES,
                       .count = (uint8_t)(left < LANES ? left : LANES)};
        KRef sum = k_aload(k, p->sums, k_expr(k, "$ * # + #", i, BLOCK, j * LANES), LANES);
        if (t->has_bias)
            sum = k_add(k, sum, k_load(k, t->bias, k_add(k, t->bias_base, out.channel), LANES, out.count));
        t->store(t->l, &out, sum, t->ctx);
    }
}

// The pixels of the tile that are columns of the image in wanted rows.
static void emit_stores(const Place *p)
{
    Kernel *k = p->t->l->k;
    const KRef i = k_loop(k, p->pixel_tiles * LANES, KFOR_SERIAL, "i");
    const KRef at = k_add(k, p->pixel, i), width = k_index(k, p->slab->columns);
    const KRef row = k_div(k, at, width);
    const KRef column = k_expr(k, "$ - $ * $", at, row, width);
    KRef is_wanted = k_lt(k, row, p->rows);
    if (p->slab->columns != p->slab->shape.w)
        is_wanted = k_expr(k, "$ & $ < #", is_wanted, column, p->slab->shape.w);
    k_if(k, is_wanted);
    store_pixel(p, i, row, column);
    k_ends(k, 2);
}

// --- the loops around it -------------------------------------------------------------------------

// All pixels of the slab for one block of results.
static void emit_pixels(Place *p)
{
    Kernel *k = p->t->l->k;
    const int64_t most = p->slab->rows * p->slab->columns - (p->slab->columns - p->slab->shape.w);
    p->pixel_tiles = most > LANES ? 2 : 1;
    p->tiles = ceil_div(most, 2 * LANES);
    int64_t rows = 0;
    KRef end = k_index(k, most);
    if (!k_is_const(k, p->rows, &rows) || rows != p->slab->rows)
        end = k_expr(k, "$ * # + #", p->rows, p->slab->columns, p->slab->shape.w - p->slab->columns);
    p->pixel = most <= 2 * LANES ? k_index(k, 0) : k_for(k, k_index(k, 0), end, 2 * LANES, KFOR_SERIAL, "p");
    emit_sums(p);
    emit_stores(p);
    if (most > 2 * LANES)
        k_end(k);
}

// All blocks of results: full ones in a loop, then a rest.
static void emit_results(Place *p, uint8_t flags, void (*inside)(Place *))
{
    Kernel *k = p->t->l->k;
    const int64_t full = p->t->s.oc / BLOCK, rest = p->t->s.oc % BLOCK;
    const int64_t panel =
        slab_steps(&p->t->s) * matrix_parts(&p->t->s) * TILE_ELEMENTS; // of one tile of results
    if (full > 0) {
        uint32_t opened = 0;
        const KRef block = lower_open_count(k, full, flags, "ob", &opened);
        p->result_tiles = 2;
        p->results = BLOCK;
        p->result = k_expr(k, "$ * #", block, BLOCK);
        p->weight = k_expr(k, "$ * # + $", block, 2 * panel, p->weights.base);
        inside(p);
        k_ends(k, opened);
    }
    if (rest > 0) {
        p->result_tiles = rest > LANES ? 2 : 1;
        p->results = rest;
        p->result = k_index(k, full * BLOCK);
        p->weight = k_expr(k, "$ + #", p->weights.base, full * 2 * panel);
        inside(p);
    }
}

static void open_slices(Place *p, Slab *slab, uint8_t flags, uint32_t *opened)
{
    p->slice = lower_open_count(p->t->l->k, slab_slice_axis(&p->t->s).out, flags, "z", opened);
    slab_set_slice(slab, p->slice);
}

// Blocks of rows outside, each with a slab of its own: for weights that stay in the cache.
static void emit_rows_outside(const Tile *t, const Slab *slab, Weights weights)
{
    Kernel *k = t->l->k;
    uint32_t opened = 0;
    Slab here = *slab;
    Place p = {.t = t, .slab = &here, .weights = weights};
    const int64_t blocks = ceil_div(slab->shape.h, slab->rows);
    p.image = open_images(t, KFOR_PARALLEL, &opened);
    open_slices(&p, &here, KFOR_PARALLEL, &opened);
    const KRef block = lower_open_count(k, blocks, KFOR_PARALLEL, "rb", &opened);
    p.first_row = k_expr(k, "$ * #", block, slab->rows);
    p.rows = k_index(k, slab->rows);
    if (slab->shape.h % slab->rows != 0)
        p.rows = k_expr(k, "min($, # - $)", p.rows, slab->shape.h, p.first_row);
    k_matrix_begin(k, LANES, LANES);
    p.sums = k_array(k, DTYPE_f32, 2 * LANES * BLOCK);
    slab_fill(&here, p.image, p.first_row);
    emit_results(&p, KFOR_SERIAL, emit_pixels);
    k_matrix_end(k);
    k_ends(k, opened);
}

static void emit_images(Place *p)
{
    Kernel *k = p->t->l->k;
    uint32_t opened = 0;
    k_matrix_begin(k, LANES, LANES);
    p->sums = k_array(k, DTYPE_f32, 2 * LANES * BLOCK);
    p->image = open_images(p->t, KFOR_SERIAL, &opened);
    Slab here = *p->slab;
    open_slices(p, &here, KFOR_SERIAL, &opened);
    Place inside = *p;
    inside.slab = &here;
    emit_pixels(&inside);
    k_ends(k, opened);
    k_matrix_end(k);
}

// Blocks of results outside, on one slab of everything: for weights that come from far.
static void emit_results_outside(const Tile *t, const Slab *slab, Weights weights)
{
    Kernel *k = t->l->k;
    Place p = {.t = t, .slab = slab, .weights = weights, .first_row = k_index(k, 0)};
    p.rows = k_index(k, slab->rows);
    slab_fill_shared(slab);
    emit_results(&p, KFOR_PARALLEL, emit_images);
}

void matrix_emit(const Tile *t, const TileSource *weights, const char *name)
{
    rlx_assert(t->l->caps->has_matrix);
    rlx_assert(t->store != NULL);
    const Slab slab = slab_new(t->l, &t->s, &t->in, weight_bytes(&t->s));
    const Weights packed = {.param = pack_weights(t, weights, name), .base = k_index(t->l->k, 0)};
    if (slab.is_shared)
        emit_results_outside(t, &slab, packed);
    else
        emit_rows_outside(t, &slab, packed);
}

void matrix_emit_inside(const Tile *t, const TileSource *weights, const char *name)
{
    rlx_assert(t->l->caps->has_matrix && t->store != NULL);
    const Slab slab = slab_new(t->l, &t->s, &t->in, 0);
    const Weights packed = {.param = pack_weights(t, weights, name), .base = k_index(t->l->k, 0)};
    emit_rows_outside(t, &slab, packed);
}

void matrix_emit_panels(const Tile *t, uint32_t panels, KRef base)
{
    rlx_assert(t->l->caps->has_matrix && t->s.is_bf16 && t->s.n_outer == 0);
    const Slab slab = slab_new(t->l, &t->s, &t->in, 0);
    emit_rows_outside(t, &slab, (Weights){panels, true, base});
}
