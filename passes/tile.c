// SPDX-License-Identifier: Apache-2.0
// The register-tiled core: choice of tiles, packing, and the loops. See tile.h. Rules from measurements: at
// most registers - 4 accumulators, equal tiles rather than a short last one, no blocking of the channel sum,
// output-channel blocks outside when the weights exceed the L2 cache, pixels outside when they fit.
#include "passes/tile.h"
#include <string.h>

enum { TILE_MAX_TAPS = 32, TILE_MAX_EDGES = 64 }; // of a row: every edge tile is text of its own
enum { TILE_MAX_ACC = 32, EPILOGUE_LOOP_COST = 8, UNROLL_STEPS = 36 };

Tile tile_new(Lower *l, TileShape s)
{
    Tile t = {.l = l, .s = s};
    t.lanes = s.oc == 1 ? 1 : lower_fit_lanes(l, s.oc);
    t.max_acc = t.lanes == 1 ? 12 : (uint8_t)(l->caps->vector_regs - 4);
    t.in.base = t.w.base = t.bias_base = k_index(l->k, 0);
    return t;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

// Vectors per block: few pixels want many vectors (enough independent sums), many pixels want two.
static uint8_t choose_nv(const Tile *t)
{
    const int64_t vectors = ceil_div(t->s.oc, t->lanes);
    const int64_t columns = t->s.w;
    int64_t nv = columns >= t->max_acc / 2 ? 2 : t->max_acc / (columns > 0 ? columns : 1);
    if (t->lanes == 1)
        nv = columns >= 3 ? 4 : 8;
    if (columns >= t->max_acc / 3 && vectors % 3 == 0 && vectors % 2 != 0 && t->lanes > 1)
        nv = 3;
    nv = nv > 8 ? 8 : nv;
    while (nv > 4 && nv * columns > t->max_acc)
        nv--;
    nv = nv == 0 ? 1 : nv;
    return (uint8_t)(nv > vectors ? vectors : nv);
}

TileBlocks tile_blocks(const Tile *t)
{
    TileBlocks b = {0};
    int64_t channel = 0;
    uint8_t nv = choose_nv(t);
    while (channel < t->s.oc) {
        const int64_t left = ceil_div(t->s.oc - channel, t->lanes);
        nv = (uint8_t)(nv > left ? left : nv);
        const int64_t width = (int64_t)nv * t->lanes;
        int64_t count = (t->s.oc - channel) / width;
        const bool is_padded = count == 0;
        count = is_padded ? 1 : count;
        rlx_assert(b.n < 4);
        b.block[b.n].first = channel;
        b.block[b.n].count = count;
        b.block[b.n].nv = nv;
        b.block[b.n++].channels = is_padded ? t->s.oc - channel : width;
        channel += count * width;
    }
    return b;
}

int64_t tile_pixels(const Tile *t, uint8_t nv)
{
    int64_t most = t->max_acc / nv;
    if (t->lanes > 1 && nv > 2) // every vector of weights needs a register of its own as well
        most = (t->max_acc + 3 - nv) / nv;
    return most < 1 ? 1 : most;
}

static uint64_t packed_steps(const Tile *t)
{
    return (uint64_t)(t->s.kh * t->s.kw * t->s.ic);
}

static int64_t block_weights(const Tile *t, uint8_t nv)
{
    return (int64_t)packed_steps(t) * nv * t->lanes;
}

// What is needed to pack later.
typedef struct Packing {
    TileShape s;
    TileBlocks blocks;
    TileSource src;
    uint8_t lanes;
} Packing;

static float *pack_block(const Packing *p, int64_t first, int64_t width, float *out)
{
    const TileSource *src = &p->src;
    for (int64_t kh = 0; kh < p->s.kh; kh++)
        for (int64_t kw = 0; kw < p->s.kw; kw++)
            for (int64_t c = 0; c < p->s.ic; c++, out += width) {
                const float *at = src->data + kh * src->stride_kh + kw * src->stride_kw + c * src->stride_ic;
                for (int64_t o = 0; o < width && first + o < p->s.oc; o++)
                    memcpy(out + o, at + (first + o) * src->stride_oc, sizeof *out);
            }
    return out;
}

static void pack(const void *ctx, void *bytes)
{
    const Packing *p = ctx;
    float *out = bytes;
    for (uint32_t i = 0; i < p->blocks.n; i++) {
        const int64_t width = (int64_t)p->blocks.block[i].nv * p->lanes;
        for (int64_t j = 0; j < p->blocks.block[i].count; j++)
            out = pack_block(p, p->blocks.block[i].first + j * width, width, out);
    }
}

TileWeights tile_pack(const Tile *t, const TileSource *src, const char *name)
{
    Packing *p = ARENA_NEW(t->l->pass->perm, Packing);
    *p = (Packing){.s = t->s, .blocks = tile_blocks(t), .src = *src, .lanes = t->lanes};
    uint64_t total = 0;
    for (uint32_t i = 0; i < p->blocks.n; i++)
        total += (uint64_t)(p->blocks.block[i].count * block_weights(t, p->blocks.block[i].nv));
    return (TileWeights){.param = lower_param_filled(t->l, name, DTYPE_f32, pack, p, total * sizeof(float)),
                         .is_packed = true,
                         .base = k_index(t->l->k, 0)};
}

// --- one tile ------------------------------------------------------------------------------------

// A block of output channels and a run of pixels in one row.
typedef struct TileAt {
    KRef image, row, column; // column: of the first pixel
    int64_t column_value;    // its value when constant, else -1 (interior tiles of a loop)
    int64_t pixels;
    uint8_t nv;
    KRef channel;     // first channel
    int64_t channels; // real ones
    KRef weights;     // index of the block's first weight
} TileAt;

typedef struct Accs {
    KRef var[TILE_MAX_ACC];
} Accs;

static uint8_t real_lanes(const Tile *t, const TileAt *at, uint32_t v)
{
    const int64_t left = at->channels - (int64_t)v * t->lanes;
    return (uint8_t)(left > t->lanes ? t->lanes : left);
}

static void begin_accs(const Tile *t, const TileAt *at, Accs *a)
{
    Kernel *k = t->l->k;
    KRef init[8];
    for (uint32_t v = 0; v < at->nv; v++) {
        const KRef index = k_add(k, t->bias_base, k_add(k, at->channel, k_index(k, (int64_t)v * t->lanes)));
        init[v] = t->has_bias ? k_load(k, t->bias, index, t->lanes, real_lanes(t, at, v))
                              : k_splat(k, k_number(k, DTYPE_f32, 0), t->lanes);
    }
    for (uint32_t p = 0; p < at->pixels; p++)
        for (uint32_t v = 0; v < at->nv; v++)
            a->var[p * at->nv + v] = k_var(k, init[v], arena_printf(k->arena, "a%u_%u", p, v));
}

// One step of the channel sum: nv weight vectors against the pixels first .. last - 1.
static void emit_step(const Tile *t, const TileAt *at, const Accs *a, KRef x, KRef w, int64_t first,
                      int64_t last)
{
    Kernel *k = t->l->k;
    KRef wv[8];
    for (uint32_t v = 0; v < at->nv; v++)
        wv[v] = k_load(k, t->w.param, k_add(k, w, k_index(k, (int64_t)v * t->lanes)), t->lanes,
                       t->w.is_packed ? t->lanes : real_lanes(t, at, v));
    for (int64_t p = first; p < last; p++) {
        const KRef b = k_load(k, t->in.param, k_add(k, x, k_index(k, p * t->s.sw * t->in.stride_w)), 1, 1);
        for (uint32_t v = 0; v < at->nv; v++) {
            const KRef acc = a->var[(size_t)p * at->nv + v];
            k_set(k, acc, k_op(k, KOP_fma, b, wv[v], k_get(k, acc)));
        }
    }
}

static int64_t weights_per_step(const Tile *t, const TileAt *at)
{
    return t->w.is_packed ? (int64_t)at->nv * t->lanes : t->w.row_stride;
}

// The sum over channels at one kernel position; unrolled when asked.
static void emit_channels(const Tile *t, const TileAt *at, const Accs *a, KRef x, KRef w, int64_t first,
                          int64_t last, bool unroll)
{
    Kernel *k = t->l->k;
    const int64_t step = weights_per_step(t, at);
    if (unroll) {
        for (int64_t c = 0; c < t->s.ic; c++)
            emit_step(t, at, a, k_add(k, x, k_index(k, c * t->in.stride_c)),
                      k_add(k, w, k_index(k, c * step)), first, last);
        return;
    }
    const KRef c = k_for(k, k_index(k, 0), k_index(k, t->s.ic), 1, KFOR_SERIAL, "c");
    emit_step(t, at, a, k_mul_add(k, c, t->in.stride_c, x), k_mul_add(k, c, step, w), first, last);
    k_end(k);
}

// Pixels of the tile for which kernel column kw falls inside the input; all of them for interior tiles.
static void valid_pixels(const Tile *t, const TileAt *at, int64_t kw, int64_t *first, int64_t *last)
{
    *first = 0;
    *last = at->pixels;
    if (at->column_value < 0)
        return;
    const int64_t start = at->column_value * t->s.sw - t->s.pad_w + kw * t->s.dw;
    while (*first < *last && start + *first * t->s.sw < 0)
        ++*first;
    while (*last > *first && start + (*last - 1) * t->s.sw >= t->s.in_w)
        --*last;
}

// All kernel columns of one kernel row. x: index of the input row's element at the tile's first pixel (kernel
// column 0).
static void emit_kernel_row(const Tile *t, const TileAt *at, const Accs *a, KRef x, KRef w)
{
    Kernel *k = t->l->k;
    const int64_t row = t->s.ic * weights_per_step(t, at);
    const bool unroll = t->s.kw * t->s.ic <= UNROLL_STEPS && t->s.ic <= 4 && t->s.kh * t->s.kw > 1;
    if (at->column_value >= 0 || unroll) {
        for (int64_t kw = 0; kw < t->s.kw; kw++) {
            int64_t first, last;
            valid_pixels(t, at, kw, &first, &last);
            if (first < last)
                emit_channels(t, at, a, k_add(k, x, k_index(k, kw * t->s.dw * t->in.stride_w)),
                              k_add(k, w, k_index(k, kw * row)), first, last, unroll);
        }
        return;
    }
    const KRef kw =
        t->s.kw == 1 ? k_index(k, 0) : k_for(k, k_index(k, 0), k_index(k, t->s.kw), 1, KFOR_SERIAL, "kw");
    emit_channels(t, at, a, k_mul_add(k, kw, t->s.dw * t->in.stride_w, x), k_mul_add(k, kw, row, w), 0,
                  at->pixels, false);
    if (t->s.kw != 1)
        k_end(k);
}

static KRef ceil_div_at_least_0(Kernel *k, KRef v, int64_t d)
{
    const KRef low = k_op(k, KOP_max, v, k_index(k, 0), 0);
    return k_op(k, KOP_div, k_add(k, low, k_index(k, d - 1)), k_index(k, d), 0);
}

void tile_kernel_rows(Kernel *k, const TileShape *s, KRef top, KRef *lo, KRef *hi)
{
    const bool fits_high = (s->h - 1) * s->sh - s->pad_h + (s->kh - 1) * s->dh < s->in_h;
    *lo = k_index(k, 0);
    *hi = k_index(k, s->kh);
    if (s->pad_h != 0)
        *lo = ceil_div_at_least_0(k, k_op(k, KOP_sub, k_index(k, 0), top, 0), s->dh);
    if (!fits_high)
        *hi = k_op(k, KOP_min, ceil_div_at_least_0(k, k_op(k, KOP_sub, k_index(k, s->in_h), top, 0), s->dh),
                   *hi, 0);
}

static void emit_sums(const Tile *t, const TileAt *at, const Accs *a)
{
    Kernel *k = t->l->k;
    const TileShape *s = &t->s;
    KRef x = k_add(k, t->in.base, k_mul(k, at->image, k_index(k, t->in.stride_n)));
    x = k_add(k, x,
              k_mul(k, k_add(k, k_mul(k, at->row, k_index(k, s->sh)), k_index(k, -s->pad_h)),
                    k_index(k, t->in.stride_h)));
    x = k_add(k, x,
              k_mul(k, k_add(k, k_mul(k, at->column, k_index(k, s->sw)), k_index(k, -s->pad_w)),
                    k_index(k, t->in.stride_w)));
    const int64_t row_weights = s->kw * s->ic * weights_per_step(t, at);
    if (s->kh == 1 && s->pad_h == 0 && (s->h - 1) * s->sh < s->in_h) {
        emit_kernel_row(t, at, a, x, at->weights);
        return;
    }
    KRef lo, hi;
    tile_kernel_rows(k, s, k_add(k, k_mul(k, at->row, k_index(k, s->sh)), k_index(k, -s->pad_h)), &lo, &hi);
    const KRef kh = k_for(k, lo, hi, 1, KFOR_SERIAL, "kh");
    emit_kernel_row(t, at, a, k_mul_add(k, kh, s->dh * t->in.stride_h, x),
                    k_mul_add(k, kh, row_weights, at->weights));
    k_end(k);
}

static void store_vector(const Tile *t, const TileAt *at, KRef pixel, uint32_t v, KRef value)
{
    Kernel *k = t->l->k;
    const TileOut out = {.image = at->image,
                         .row = at->row,
                         .column = k_add(k, at->column, pixel),
                         .channel = k_add(k, at->channel, k_index(k, (int64_t)v * t->lanes)),
                         .lanes = t->lanes,
                         .count = real_lanes(t, at, v)};
    t->store(t->l, &out, value, t->ctx);
}

// Costly epilogues go through a small buffer and a loop over the pixels, so that their text appears once a
// vector.
static void emit_stores(const Tile *t, const TileAt *at, const Accs *a)
{
    Kernel *k = t->l->k;
    if (at->pixels < 2 || lower_epilogue_cost(t->l) < EPILOGUE_LOOP_COST) {
        for (uint32_t p = 0; p < at->pixels; p++)
            for (uint32_t v = 0; v < at->nv; v++)
                store_vector(t, at, k_index(k, p), v, k_get(k, a->var[p * at->nv + v]));
        return;
    }
    const KRef sums = k_array(k, DTYPE_f32, at->pixels * at->nv * t->lanes);
    for (uint32_t i = 0; i < at->pixels * at->nv; i++)
        k_astore(k, sums, k_index(k, (int64_t)i * t->lanes), k_get(k, a->var[i]));
    const KRef p = k_for(k, k_index(k, 0), k_index(k, at->pixels), 1, KFOR_SERIAL, "p");
    for (uint32_t v = 0; v < at->nv; v++) {
        const KRef index =
            k_add(k, k_mul(k, p, k_index(k, (int64_t)at->nv * t->lanes)), k_index(k, (int64_t)v * t->lanes));
        store_vector(t, at, p, v, k_aload(k, sums, index, t->lanes));
    }
    k_end(k);
}

static void emit_tile(const Tile *t, const TileAt *at)
{
    Accs a;
    rlx_assert(at->pixels * at->nv <= TILE_MAX_ACC);
    begin_accs(t, at, &a);
    emit_sums(t, at, &a);
    emit_stores(t, at, &a);
}

// Largest column whose last tap is inside the input.
static int64_t last_inside(const TileShape *s)
{
    const int64_t reach = s->in_w - 1 - (s->kw - 1) * s->dw + s->pad_w;
    return reach < 0 ? -1 : reach / s->sw;
}

// Columns that some tap reads outside the input, at either end of a row.
static int64_t edge_columns(const TileShape *s)
{
    const int64_t left = ceil_div(s->pad_w, s->sw), right = s->w - 1 - last_inside(s);
    return (left > 0 ? left : 0) + (right > 0 ? right : 0);
}

bool tile_is_worthwhile(const TileShape *s)
{
    return s->kw <= TILE_MAX_TAPS && edge_columns(s) <= TILE_MAX_EDGES;
}

TileRuns tile_runs(Lower *l, const TileShape *s, int64_t most)
{
    TileRuns runs = {0};
    const int64_t n = ceil_div(s->w, most), base = s->w / n, last = last_inside(s);
    const int64_t longer = s->w % n; // the first `longer` tiles have one pixel more
    int64_t column = 0;
    for (int64_t i = 0; i < n;) {
        TileRun run = {.column = column, .pixels = base + (i < longer ? 1 : 0), .count = 1};
        const int64_t alike = (i < longer ? longer : n) - i, inside = (last + 1 - column) / run.pixels;
        run.is_edge = column * s->sw < s->pad_w || inside < 1;
        if (!run.is_edge)
            run.count = inside < alike ? inside : alike;
        vec_push(l->pass->scratch, &runs, run);
        column += run.count * run.pixels;
        i += run.count;
    }
    return runs;
}

KRef tile_open_run(Kernel *k, const TileRun *run)
{
    const KRef first = k_index(k, run->column);
    const KRef end = k_index(k, run->column + run->count * run->pixels);
    return run->count == 1 ? first : k_for(k, first, end, run->pixels, KFOR_PARALLEL, "ow");
}

void tile_close_run(Kernel *k, const TileRun *run)
{
    if (run->count > 1)
        k_end(k);
}

// --- the loops around it --------------------------------------------------------------------------

// All tiles of one row for one block of channels.
static void emit_row(const Tile *t, TileAt at)
{
    const TileRuns runs = tile_runs(t->l, &t->s, tile_pixels(t, at.nv));
    for (uint32_t i = 0; i < runs.len; i++) {
        const TileRun *run = &runs.data[i];
        at.pixels = run->pixels;
        at.column_value = run->is_edge ? run->column : -1;
        at.column = tile_open_run(t->l->k, run);
        emit_tile(t, &at);
        tile_close_run(t->l->k, run);
    }
}

static KRef open_count(Kernel *k, int64_t n, const char *name, uint32_t *opened)
{
    if (n == 1)
        return k_index(k, 0);
    ++*opened;
    return k_for(k, k_index(k, 0), k_index(k, n), 1, KFOR_PARALLEL, name);
}

static void close_all(Kernel *k, uint32_t n)
{
    while (n-- > 0)
        k_end(k);
}

// Loops over the channel blocks of one kind; `inside` emits what is below.
static void emit_block_kind(const Tile *t, const TileBlocks *b, uint32_t kind, int64_t first_weight,
                            TileAt at, void (*inside)(const Tile *, TileAt))
{
    Kernel *k = t->l->k;
    uint32_t opened = 0;
    const KRef i = open_count(k, b->block[kind].count, "ob", &opened);
    const int64_t width = (int64_t)b->block[kind].nv * t->lanes;
    at.nv = b->block[kind].nv;
    at.channels = b->block[kind].channels;
    at.channel = k_mul_add(k, i, width, k_index(k, b->block[kind].first));
    at.weights =
        t->w.is_packed ? k_mul_add(k, i, block_weights(t, at.nv), k_index(k, first_weight)) : at.channel;
    at.weights = k_add(k, t->w.base, at.weights);
    inside(t, at);
    close_all(k, opened);
}

static void emit_blocks(const Tile *t, TileAt at, void (*inside)(const Tile *, TileAt))
{
    const TileBlocks b = tile_blocks(t);
    int64_t first_weight = 0;
    for (uint32_t kind = 0; kind < b.n; kind++) {
        emit_block_kind(t, &b, kind, first_weight, at, inside);
        first_weight += b.block[kind].count * block_weights(t, b.block[kind].nv);
    }
}

static void emit_pixels(const Tile *t, TileAt at)
{
    Kernel *k = t->l->k;
    uint32_t opened = 0;
    at.image = open_count(k, t->s.n, "n", &opened);
    at.row = open_count(k, t->s.h, "oh", &opened);
    emit_row(t, at);
    close_all(k, opened);
}

void tile_emit(const Tile *t)
{
    Kernel *k = t->l->k;
    const uint64_t bytes = packed_steps(t) * (uint64_t)t->s.oc * sizeof(float);
    if (bytes > t->l->caps->l2_bytes || t->s.h == 1) {
        emit_blocks(t, (TileAt){0}, emit_pixels);
        return;
    }
    TileAt at = {0};
    uint32_t opened = 0;
    at.image = open_count(k, t->s.n, "n", &opened);
    at.row = open_count(k, t->s.h, "oh", &opened);
    emit_blocks(t, at, emit_row);
    close_all(k, opened);
}
