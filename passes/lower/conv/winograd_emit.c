// SPDX-License-Identifier: Apache-2.0
// The text of a Winograd kernel; see winograd.h for its phases. One block that holds all tiles: threads share
// V and split the tiles, then the output channels. Several blocks: threads split the blocks. Both transforms
// keep a vector of channels of a whole tile in registers (an array that unrolled loops dissolve).
#include "passes/lower/conv/winograd.h"

enum { EPILOGUE_LOOP_COST = 8 };

typedef struct Emit {
    const Winograd *w;
    Lower *l;
    Kernel *k;
    uint32_t x, u, v, s, bias;
    uint32_t weights; // parameter of U: u, or scratch memory for a chunk of it
    KRef v_base, s_base, weights_base;
    KRef group;
    KRef first_tile; // of the block
    KRef end_tile;   // one behind the last real tile of the block
    KRef image;      // of all tiles, where only a run knows how many images there are
} Emit;

typedef struct WinogradTile {
    KRef image, row, column; // of the tile's first output
} WinogradTile;

static KRef at(Kernel *k, KRef base, int64_t offset)
{
    return k_expr(k, "$ + #", base, offset);
}

static WinogradTile tile_at(const Emit *e, KRef tile)
{
    Kernel *k = e->k;
    const Winograd *w = e->w;
    const KRef in_image = k_expr(k, "$ % #", tile, w->rows * w->columns);
    const KRef m = k_index(k, w->form.m);
    return (WinogradTile){.image = w->c->s.n == 1 ? e->image : k_expr(k, "$ / #", tile, w->rows * w->columns),
                          .row = k_expr(k, "$ / # * $", w->c->s.n == 1 ? tile : in_image, w->columns, m),
                          .column = k_expr(k, "$ % # * $", w->c->s.n == 1 ? tile : in_image, w->columns, m)};
}

// --- input transform ------------------------------------------------------------------------------

// Where a tile reads: rows [row_lo, row_hi) and columns of its n x n inputs are inside the image.
typedef struct Patch {
    KRef row_lo, row_hi, col_lo, col_hi;
    KRef index; // of element (0, 0), channel 0; may lie outside
} Patch;

static KRef clamp(Kernel *k, KRef v, int64_t high)
{
    return k_expr(k, "min(max($, 0), #)", v, high);
}

static Patch patch_at(const Emit *e, const WinogradTile *t)
{
    Kernel *k = e->k;
    const Conv *c = e->w->c;
    const int64_t n = e->w->form.n;
    const KRef top = at(k, t->row, -c->s.pad_h), left = at(k, t->column, -c->s.pad_w);
    KRef index = k_expr(k, "$ * # + $ * #", top, c->stride_h, t->image, c->stride_n);
    index = k_expr(k, "$ * # + $", left, c->stride_w, index);
    const KRef zero = k_index(k, 0);
    return (Patch){
        .row_lo = clamp(k, k_sub(k, zero, top), n),
        .row_hi = clamp(k, k_expr(k, "# - $", c->s.in_h, top), n),
        .col_lo = clamp(k, k_sub(k, zero, left), n),
        .col_hi = clamp(k, k_expr(k, "# - $", c->s.in_w, left), n),
        .index = k_expr(k, "$ * # + $", e->group, c->s.ic * c->stride_c, index),
    };
}

// Which tiles there are: inside the image, and reaching over its border.
static void tile_kinds(const Winograd *w, bool *some_inside, bool *some_border)
{
    const TileShape *s = &w->c->s;
    const int64_t m = w->form.m, n = w->form.n;
    const int64_t first_row = (s->pad_h + m - 1) / m, first_column = (s->pad_w + m - 1) / m;
    *some_inside = first_row * m - s->pad_h + n <= s->in_h && first_row < w->rows &&
                   first_column * m - s->pad_w + n <= s->in_w && first_column < w->columns;
    *some_border = s->pad_h != 0 || s->pad_w != 0 || (w->rows - 1) * m + n > s->in_h ||
                   (w->columns - 1) * m + n > s->in_w;
}

// First channel of vector `c`: the last one overlaps the one before it when channels are no multiple of
// lanes.
static KRef vector_channel(const Emit *e, KRef c)
{
    const Winograd *w = e->w;
    const int64_t ic = w->c->s.ic;
    return ic % w->in_lanes == 0 ? c : k_expr(e->k, "min($, #)", c, ic - w->in_lanes);
}

// patch: local array with the n x n inputs, or 0: read at index. v: index in V of the tile's channels.
static void transform_input(const Emit *e, KRef patch, KRef index, KRef v)
{
    Kernel *k = e->k;
    const Winograd *w = e->w;
    const int64_t n = w->form.n, lanes = w->in_lanes;
    const KRef z = k_array(k, DTYPE_f32, n * n * lanes);
    KRef d[WINOGRAD_MAX_N], y[WINOGRAD_MAX_N];
    const KRef j = k_loop(k, n, KFOR_UNROLL, "j");
    for (int64_t i = 0; i < n; i++) {
        const KRef from = k_expr(k, "$ * # + $", j, w->c->stride_w, at(k, index, i * w->c->stride_h));
        d[i] = patch != 0 ? k_aload(k, patch, k_expr(k, "$ * # + #", j, lanes, i * n * lanes), w->in_lanes)
                          : k_load(k, e->x, from, w->in_lanes, w->in_lanes);
    }
    winograd_emit_input(k, &w->form, d, y);
    for (int64_t i = 0; i < n; i++)
        k_astore(k, z, k_expr(k, "$ * # + #", j, lanes, i * n * lanes), y[i]);
    k_end(k);
    const KRef i = k_loop(k, n, KFOR_UNROLL, "i");
    for (int64_t c = 0; c < n; c++)
        d[c] = k_aload(k, z, k_expr(k, "$ * # + #", i, n * lanes, c * lanes), w->in_lanes);
    winograd_emit_input(k, &w->form, d, y);
    const KRef row = k_expr(k, "$ * # + $", i, n * w->block * w->pitch, v);
    for (int64_t c = 0; c < n; c++)
        k_store(k, e->v, at(k, row, c * w->block * w->pitch), y[c], w->in_lanes);
    k_end(k);
}

static KRef open_vectors(const Emit *e)
{
    return k_for(e->k, k_index(e->k, 0), k_index(e->k, e->w->c->s.ic), e->w->in_lanes, KFOR_SERIAL, "c");
}

static void input_inside(const Emit *e, const Patch *p, KRef v)
{
    const KRef c = vector_channel(e, open_vectors(e));
    transform_input(e, 0, k_add(e->k, p->index, c), k_add(e->k, v, c));
    k_end(e->k);
}

// What lies outside of the image is 0, in the same places for all channels of the tile.
static void input_border(const Emit *e, const Patch *p, KRef v)
{
    Kernel *k = e->k;
    const Winograd *w = e->w;
    const int64_t n = w->form.n, lanes = w->in_lanes;
    const KRef patch = k_array(k, DTYPE_f32, n * n * lanes);
    const KRef o = k_for(k, k_index(k, 0), k_index(k, n * n * lanes), lanes, KFOR_SERIAL, "o");
    k_astore(k, patch, o, k_splat(k, k_number(k, DTYPE_f32, 0), w->in_lanes));
    k_end(k);
    const KRef c = vector_channel(e, open_vectors(e));
    const KRef i = k_for(k, p->row_lo, p->row_hi, 1, KFOR_SERIAL, "i");
    const KRef j = k_for(k, p->col_lo, p->col_hi, 1, KFOR_SERIAL, "j");
    const KRef from = k_expr(k, "$ * # + ($ * # + $)", i, w->c->stride_h, j, w->c->stride_w, p->index);
    const KRef to = k_expr(k, "$ * # + $ * #", i, n * lanes, j, lanes);
    k_astore(k, patch, to, k_load(k, e->x, k_add(k, from, c), w->in_lanes, w->in_lanes));
    k_ends(k, 2);
    transform_input(e, patch, k_index(k, 0), k_add(k, v, c));
    k_end(k);
}

static void emit_input_tile(const Emit *e, KRef tile, KRef v)
{
    Kernel *k = e->k;
    bool some_inside = false, some_border = false;
    const WinogradTile t = tile_at(e, tile);
    const Patch p = patch_at(e, &t);
    tile_kinds(e->w, &some_inside, &some_border);
    if (some_inside && some_border) {
        const KRef whole = k_index(k, e->w->form.n), zero = k_index(k, 0);
        const KRef rows = k_expr(k, "$ == $ & $ == $", p.row_lo, zero, p.row_hi, whole);
        const KRef columns = k_expr(k, "$ == $ & $ == $", p.col_lo, zero, p.col_hi, whole);
        k_if(k, k_and(k, rows, columns));
    }
    if (some_inside)
        input_inside(e, &p, v);
    if (some_inside && some_border)
        k_else(k);
    if (some_border)
        input_border(e, &p, v);
    if (some_inside && some_border)
        k_end(k);
}

// All tiles of a block. Places behind the last real tile repeat it: nothing there is used, but all is finite.
static void emit_input(const Emit *e, uint8_t flags)
{
    Kernel *k = e->k;
    const Winograd *w = e->w;
    const KRef t = k_loop(k, w->block, flags, "t");
    const KRef tile = k_expr(k, "min($ + $, #)", e->first_tile, t, w->tiles - 1);
    emit_input_tile(e, w->blocks * w->block == w->tiles ? k_add(k, e->first_tile, t) : tile,
                    k_expr(k, "$ * # + $", t, w->pitch, e->v_base));
    k_end(k);
}

// --- products -------------------------------------------------------------------------------------

// A block of output channels.
typedef struct OcBlock {
    uint8_t nv;
    int64_t channels, width; // real ones, and in the packed weights
    KRef channel;            // first one, of all groups
    KRef u;                  // index of its first weight
} OcBlock;

typedef struct Accs {
    KRef var[32];
} Accs;

// A group of tiles against one panel of weights.
typedef struct Product {
    const OcBlock *b;
    int64_t rows; // tiles
    KRef v, u, s; // indices of the first elements
    KRef ahead;   // of weights to prefetch: `step` floats for every input channel
    int64_t step;
} Product;

// Channels [first, last) of at most `most`.
typedef struct Chunk {
    KRef first, last;
    int64_t most;
    bool is_one_of_many;
} Chunk;

static void multiply_taps(const Emit *e, const Product *p, const Accs *a, KRef c)
{
    Kernel *k = e->k;
    const Winograd *w = e->w;
    KRef wv[4];
    for (int64_t line = 0; line < p->step; line += 16)
        k_prefetch(k, e->u, k_expr(k, "$ * # + $", c, p->step, at(k, p->ahead, line)));
    for (uint32_t i = 0; i < p->b->nv; i++)
        wv[i] = k_load(k, e->weights, k_expr(k, "$ * # + $", c, p->b->width, at(k, p->u, i * w->lanes)),
                       w->lanes, w->lanes);
    for (int64_t t = 0; t < p->rows; t++) {
        const KRef x = k_load(k, e->v, k_add(k, at(k, p->v, t * w->pitch), c), 1, 1);
        for (uint32_t i = 0; i < p->b->nv; i++) {
            const KRef acc = a->var[t * p->b->nv + i];
            k_set(k, acc, k_fma(k, x, wv[i], k_get(k, acc)));
        }
    }
}

static void store_sums(const Emit *e, const Product *p, const Accs *a, bool adds)
{
    Kernel *k = e->k;
    const uint8_t lanes = e->w->lanes;
    for (int64_t t = 0; t < p->rows; t++)
        for (uint32_t i = 0; i < p->b->nv; i++) {
            const KRef to = at(k, p->s, t * p->b->width + i * lanes),
                       sum = k_get(k, a->var[t * p->b->nv + i]);
            k_store(k, e->s, to, adds ? k_add(k, k_load(k, e->s, to, lanes, lanes), sum) : sum, lanes);
        }
}

// Adds to S, or sets it: V x U over the channels of one chunk.
static void emit_product(const Emit *e, const Product *p, const Chunk *ch)
{
    Kernel *k = e->k;
    Accs a;
    for (int64_t t = 0; t < p->rows; t++)
        for (uint32_t i = 0; i < p->b->nv; i++)
            a.var[t * p->b->nv + i] = k_var(k, k_splat(k, k_number(k, DTYPE_f32, 0), e->w->lanes),
                                            arena_printf(k->arena, "a%d_%u", (int)t, i));
    const KRef c = k_for(k, ch->first, ch->last, 1, KFOR_SERIAL, "c");
    multiply_taps(e, p, &a, c);
    k_end(k);
    if (ch->is_one_of_many) {
        k_if(k, k_expr(k, "$ != 0", ch->first));
        store_sums(e, p, &a, true);
        k_else(k);
    }
    store_sums(e, p, &a, false);
    if (ch->is_one_of_many)
        k_end(k);
}

// Floats of weights to fetch ahead in a step of a product, of which there are `steps` for every channel of a
// chunk.
static int64_t fetched(const Emit *e, const OcBlock *b, int64_t steps)
{
    const int64_t step = winograd_taps(e->w) * b->width / steps;
    const bool is_streamed = winograd_weights(e->w) * 4 > e->l->caps->cpu.l2_bytes / 2;
    return !is_streamed ? 0 : step > 3 * b->width ? 3 * b->width : step;
}

// All tiles of the block, in equal groups, give or take one, for place xi of a chunk. u: index of the weight
// of channel 0; next: of the first weight of the next chunk.
static void emit_groups(const Emit *e, const OcBlock *b, KRef xi, KRef u, KRef next, const Chunk *ch)
{
    Kernel *k = e->k;
    const Winograd *w = e->w;
    const int64_t n2 = (int64_t)w->form.n * w->form.n;
    const int64_t most = b->nv > 2 ? (w->max_acc + 3 - b->nv) / b->nv : w->max_acc / b->nv;
    const int64_t groups = (w->block + most - 1) / most, rows = w->block / groups;
    const int64_t longer = w->block % groups;
    const int64_t step = fetched(e, b, n2 * groups);
    const int64_t count[2] = {longer, groups - longer}, height[2] = {rows + 1, rows};
    for (int64_t kind = 0, first = 0; kind < 2; first += count[kind] * height[kind], kind++) {
        if (count[kind] == 0)
            continue;
        const KRef g = count[kind] == 1 ? k_index(k, 0) : k_loop(k, count[kind], KFOR_SERIAL, "g");
        const KRef t = k_expr(k, "$ * # + #", g, height[kind], first);
        KRef pass = at(k, g, kind == 0 ? 0 : longer);
        pass = w->transforms_weights ? k_expr(k, "$ * # + $", xi, groups, pass) : pass;
        const Product p = {
            .b = b,
            .rows = height[kind],
            .v = k_expr(k, "$ * # + ($ * # + $)", t, w->pitch, xi, w->block * w->pitch, e->v_base),
            .u = u,
            .s = k_expr(k, "$ * # + ($ * # + $)", t, b->width, xi, winograd_s_stride(w), e->s_base),
            .ahead = k_expr(k, "$ * # + ($ * # + $)", pass, ch->most * step, ch->first, -step, next),
            .step = step};
        emit_product(e, &p, ch);
        if (count[kind] > 1)
            k_end(k);
    }
}

// A loop over chunks of channels, or one for all.
static Chunk open_chunks(const Emit *e)
{
    Kernel *k = e->k;
    const int64_t ic = e->w->c->s.ic, chunk = e->w->chunk;
    Chunk ch = {.is_one_of_many = ic > chunk, .most = chunk};
    ch.first = ch.is_one_of_many ? k_for(k, k_index(k, 0), k_index(k, ic), chunk, KFOR_SERIAL, "from")
                                 : k_index(k, 0);
    ch.last = at(k, ch.first, chunk);
    if (ic % chunk != 0)
        ch.last = k_expr(k, "min($, #)", ch.last, ic);
    return ch;
}

// Place by place: the weights of a chunk stay in the first-level cache for all groups of tiles.
static void emit_packed_products(const Emit *e, const OcBlock *b)
{
    Kernel *k = e->k;
    const Winograd *w = e->w;
    const int64_t ic = w->c->s.ic, n2 = (int64_t)w->form.n * w->form.n;
    const KRef xi = k_loop(k, n2, KFOR_SERIAL, "xi");
    const KRef u = k_expr(k, "$ * # + $", xi, ic * b->width, b->u);
    const Chunk ch = open_chunks(e);
    emit_groups(e, b, xi, u, k_expr(k, "$ * # + $", ch.first, b->width, at(k, u, ch.most * b->width)), &ch);
    if (ch.is_one_of_many)
        k_end(k);
    k_end(k);
}

// U of one input channel and one vector of output channels. from: index of its weights, to: of its first
// place.
static void transform_weights(const Emit *e, const OcBlock *b, KRef from, KRef to)
{
    Kernel *k = e->k;
    const Winograd *w = e->w;
    const int64_t n = w->form.n, r = w->form.r, panel = winograd_panel(w);
    KRef t[WINOGRAD_MAX_R][WINOGRAD_MAX_N], d[WINOGRAD_MAX_R], y[WINOGRAD_MAX_N];
    for (int64_t j = 0; j < r; j++) {
        for (int64_t i = 0; i < r; i++)
            d[i] = k_load(k, e->u, at(k, from, (i * r + j) * b->width), w->lanes, w->lanes);
        winograd_emit_weights(k, &w->form, d, t[j]);
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < r; j++)
            d[j] = t[j][i];
        winograd_emit_weights(k, &w->form, d, y);
        for (int64_t j = 0; j < n; j++)
            k_store(k, e->weights, at(k, to, (i * n + j) * panel), y[j], w->lanes);
    }
}

// Chunk by chunk: its weights are transformed, then all places multiply with them.
static void emit_raw_products(const Emit *e, const OcBlock *b)
{
    Kernel *k = e->k;
    const Winograd *w = e->w;
    const int64_t n2 = (int64_t)w->form.n * w->form.n, r2 = (int64_t)w->form.r * w->form.r;
    const Chunk ch = open_chunks(e);
    const KRef base = k_expr(k, "$ * # + $", ch.first, -b->width, e->weights_base); // of channel 0
    const KRef c = k_for(k, ch.first, ch.last, 1, KFOR_SERIAL, "c");
    const KRef o = b->nv == 1 ? k_index(k, 0)
                              : k_for(k, k_index(k, 0), k_index(k, b->width), w->lanes, KFOR_SERIAL, "o");
    transform_weights(e, b, k_expr(k, "$ * # + ($ + $)", c, r2 * b->width, b->u, o),
                      k_expr(k, "$ * # + ($ + $)", c, b->width, base, o));
    if (b->nv > 1)
        k_end(k);
    k_end(k);
    const KRef xi = k_loop(k, n2, KFOR_SERIAL, "xi");
    const KRef next = k_expr(k, "$ * # + $", ch.first, r2 * b->width, at(k, b->u, ch.most * r2 * b->width));
    emit_groups(e, b, xi, k_expr(k, "$ * # + $", xi, winograd_panel(w), base), next, &ch);
    k_end(k);
    if (ch.is_one_of_many)
        k_end(k);
}

// --- output transform -----------------------------------------------------------------------------

static void store_pixel(const Emit *e, const WinogradTile *t, KRef i, KRef j, KRef channel, uint8_t count,
                        KRef value)
{
    Kernel *k = e->k;
    Point p = conv_point(e->w->d, t->image, channel, k_add(k, t->row, i), k_add(k, t->column, j));
    p.lanes = e->w->lanes;
    p.count = count;
    pull_store_root(e->l, e->w->d, p, value);
}

// Costly epilogues appear once: the results go through a small array.
static void store_looped(const Emit *e, const WinogradTile *t, KRef results, KRef channel, uint8_t count)
{
    Kernel *k = e->k;
    const TileShape *s = &e->w->c->s;
    const int64_t m = e->w->form.m, lanes = e->w->lanes;
    const KRef rows = clamp(k, k_expr(k, "# - $", s->h, t->row), m);
    const KRef columns = clamp(k, k_expr(k, "# - $", s->w, t->column), m);
    const KRef i = k_for(k, k_index(k, 0), rows, 1, KFOR_SERIAL, "i");
    const KRef j = k_for(k, k_index(k, 0), columns, 1, KFOR_SERIAL, "j");
    const KRef from = k_expr(k, "$ * # + $ * #", i, m * lanes, j, lanes);
    store_pixel(e, t, i, j, channel, count, k_aload(k, results, from, e->w->lanes));
    k_ends(k, 2);
}

// Row i of a tile, as far as it is inside the image.
static void store_row(const Emit *e, const WinogradTile *t, KRef i, const KRef *y, KRef channel,
                      uint8_t count)
{
    Kernel *k = e->k;
    const Winograd *w = e->w;
    const TileShape *s = &w->c->s;
    const int64_t m = w->form.m;
    const bool is_ragged_h = s->h % m != 0, is_ragged_w = s->w % m != 0;
    if (is_ragged_h)
        k_if(k, k_expr(k, "$ + $ < #", t->row, i, s->h));
    for (int64_t j = 0; j < m; j++) {
        const bool is_tested = is_ragged_w && j >= s->w % m;
        if (is_tested)
            k_if(k, k_expr(k, "$ < #", at(k, t->column, j), s->w));
        store_pixel(e, t, i, k_index(k, j), channel, count, y[j]);
        if (is_tested)
            k_end(k);
    }
    if (is_ragged_h)
        k_end(k);
}

// One vector of output channels of a tile. s: index of its sums.
static void transform_output(const Emit *e, const WinogradTile *t, KRef s, KRef channel, uint8_t count)
{
    Kernel *k = e->k;
    const Winograd *w = e->w;
    const int64_t n = w->form.n, m = w->form.m, lanes = w->lanes, stride = winograd_s_stride(w);
    const bool is_looped = lower_epilogue_cost(e->l) >= EPILOGUE_LOOP_COST;
    const KRef z = k_array(k, DTYPE_f32, m * n * lanes);
    const KRef results = is_looped ? k_array(k, DTYPE_f32, m * m * lanes) : 0;
    const KRef bias = w->c->bias != 0 ? k_load(k, e->bias, channel, w->lanes, count) : 0;
    KRef d[WINOGRAD_MAX_N], y[WINOGRAD_MAX_N];
    const KRef j = k_loop(k, n, KFOR_UNROLL, "j");
    for (int64_t i = 0; i < n; i++)
        d[i] =
            k_load(k, e->s, k_expr(k, "$ * # + $", j, stride, at(k, s, i * n * stride)), w->lanes, w->lanes);
    winograd_emit_output(k, &w->form, d, y);
    for (int64_t i = 0; i < m; i++)
        k_astore(k, z, k_expr(k, "$ * # + #", j, lanes, i * n * lanes), y[i]);
    k_end(k);
    const KRef i = k_loop(k, m, KFOR_UNROLL, "i");
    for (int64_t c = 0; c < n; c++)
        d[c] = k_aload(k, z, k_expr(k, "$ * # + #", i, n * lanes, c * lanes), w->lanes);
    winograd_emit_output(k, &w->form, d, y);
    for (int64_t c = 0; c < m; c++) {
        y[c] = bias != 0 ? k_add(k, y[c], bias) : y[c];
        if (is_looped)
            k_astore(k, results, k_expr(k, "$ * # + #", i, m * lanes, c * lanes), y[c]);
    }
    if (!is_looped)
        store_row(e, t, i, y, channel, count);
    k_end(k);
    if (is_looped)
        store_looped(e, t, results, channel, count);
}

static void emit_output(const Emit *e, const OcBlock *b)
{
    Kernel *k = e->k;
    const Winograd *w = e->w;
    const int64_t whole = b->channels / w->lanes, rest = b->channels % w->lanes;
    const KRef tile = k_for(k, e->first_tile, e->end_tile, 1, KFOR_SERIAL, "t");
    const WinogradTile t = tile_at(e, tile);
    const KRef place = k_sub(k, tile, e->first_tile);
    const KRef s = k_expr(k, "$ * # + $", place, b->width, e->s_base);
    if (whole > 0) {
        const KRef c =
            whole == 1 ? k_index(k, 0)
                       : k_for(k, k_index(k, 0), k_index(k, whole * w->lanes), w->lanes, KFOR_SERIAL, "o");
        transform_output(e, &t, k_add(k, s, c), k_add(k, b->channel, c), w->lanes);
        if (whole > 1)
            k_end(k);
    }
    if (rest > 0)
        transform_output(e, &t, at(k, s, whole * w->lanes), at(k, b->channel, whole * w->lanes),
                         (uint8_t)rest);
    k_end(k);
}

// --- the loops around it --------------------------------------------------------------------------

// Products and outputs of all blocks of output channels.
static void emit_channels(const Emit *e, uint8_t flags)
{
    Kernel *k = e->k;
    const Winograd *w = e->w;
    const int64_t taps = winograd_taps(w), ic = w->c->s.ic;
    const int64_t group_size = winograd_weights(w) / w->c->group;
    int64_t first_weight = 0;
    for (uint32_t i = 0; i < w->oc.n; i++) {
        const int64_t count = w->oc.kind[i].count, width = (int64_t)w->oc.kind[i].nv * w->lanes;
        const bool is_open = count > 1 || flags == KFOR_PARALLEL; // one block: one thread does it
        const KRef o = is_open ? k_loop(k, count, flags, "ob") : k_index(k, 0);
        OcBlock b = {.nv = w->oc.kind[i].nv, .channels = w->oc.kind[i].channels, .width = width};
        b.channel = k_expr(k, "$ * # + #", o, width, w->oc.kind[i].first);
        b.channel = k_expr(k, "$ * # + $", e->group, w->c->s.oc, b.channel);
        b.u = k_expr(k, "$ * # + #", o, taps * ic * width, first_weight);
        b.u = k_expr(k, "$ * # + $", e->group, group_size, b.u);
        if (w->transforms_weights)
            emit_raw_products(e, &b);
        else
            emit_packed_products(e, &b);
        emit_output(e, &b);
        if (is_open)
            k_end(k);
        first_weight += count * taps * ic * width;
    }
}

static void emit_shared(Emit *e)
{
    Kernel *k = e->k;
    const Winograd *w = e->w;
    e->group = e->first_tile = k_index(k, 0);
    e->end_tile = k_index(k, w->tiles);
    emit_input(e, KFOR_PARALLEL);
    if (w->c->images == 0) // in a loop over images it follows from what the steps read and write
        k_barrier(k);
    emit_channels(e, KFOR_PARALLEL);
}

static void emit_blocks(Emit *e)
{
    Kernel *k = e->k;
    const Winograd *w = e->w;
    const KRef b = k_loop(k, w->blocks, KFOR_PARALLEL, "b");
    e->first_tile = k_expr(k, "$ * #", b, w->block);
    e->end_tile = k_expr(k, "min($, #)", at(k, e->first_tile, w->block), w->tiles);
    e->group = w->c->group == 1 ? k_index(k, 0) : k_loop(k, w->c->group, KFOR_SERIAL, "g");
    emit_input(e, KFOR_SERIAL);
    emit_channels(e, KFOR_SERIAL);
    if (w->c->group > 1)
        k_end(k);
    k_end(k);
}

void winograd_emit(const Winograd *w)
{
    rlx_assert(w->lanes >= 1 && w->blocks >= 1 && w->threads >= 1);
    rlx_assert(w->form.n == w->form.m + w->form.r - 1);
    Lower *l = w->l;
    Emit e = {.w = w, .l = l, .k = l->k};
    const uint64_t v_size = (uint64_t)winograd_v_size(w);
    const int64_t n2 = (int64_t)w->form.n * w->form.n;
    const bool is_shared = w->blocks == 1 && w->c->group == 1;
    e.x = lower_param(l, w->c->x, PARAM_READ);
    e.u = node_is_const(l->g, w->c->w) ? winograd_pack(w) : winograd_pack_lasting(w);
    e.bias = w->c->bias != 0 ? lower_param(l, w->c->bias, PARAM_READ) : 0;
    e.v_base = k_index(l->k, 0);
    e.v = is_shared ? lower_param_scratch(l, "winograd input", DTYPE_f32, v_size)
                    : lower_param_thread_scratch(l, "winograd input", DTYPE_f32, v_size, &e.v_base);
    e.s = lower_param_thread_scratch(l, "winograd sums", DTYPE_f32, (uint64_t)(n2 * winograd_s_stride(w)),
                                     &e.s_base);
    e.weights = e.u;
    if (w->transforms_weights)
        e.weights = lower_param_thread_scratch(l, "winograd weights", DTYPE_f32,
                                               (uint64_t)(n2 * winograd_panel(w)), &e.weights_base);
    e.image = k_index(l->k, 0);
    if (w->c->images != 0)
        e.image = k_for(l->k, e.image, w->c->images, 1, is_shared ? KFOR_SERIAL : KFOR_PARALLEL, "n");
    if (is_shared)
        emit_shared(&e);
    else
        emit_blocks(&e);
    if (w->c->images != 0)
        k_end(l->k);
}
