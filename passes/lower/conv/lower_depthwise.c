// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution: a vector of channels, tiles of a few rows and columns of outputs in accumulators,
// every input vector of a tile loaded once and used for all the outputs that it touches; the weights stay in
// registers where they fit. Where a channel has several results, each of these has accumulators of its own,
// and the vectors that are stored have one lane of each in turns. Tiles at the left and right border have
// text of their own that leaves out what falls outside; rows that may be outside are tested as a whole. The
// taps are text as well: depthwise_taps.c brings kernels that have many into this form.
// Accumulation: f32 fused multiply-adds in the order kernel row, kernel column, starting from the bias.
#include "passes/lower/choice.h"
#include "passes/lower/conv/conv.h"
#include "passes/lower/packer.h"
#include <string.h>

enum { DW_MAX_ROWS = 2, DW_MAX_PIXELS = 14, DW_EPILOGUE_LOOP_COST = 8 };

// Which loops are inside which.
typedef enum DwOrder {
    DW_CHANNELS_OUTSIDE, // channels, rows, columns: an image of one vector of channels stays in L1
    DW_STRIPS,           // rows, channels, columns
    DW_CHANNELS_INSIDE,  // rows, columns, channels: reads memory in order
} DwOrder;

typedef struct Depthwise {
    Lower *l;
    const Conv *c;
    const TileSource *src;
    TileStore store;
    void *ctx;
    uint8_t lanes;
    uint32_t x, w, bias;
    DwOrder order;
    int64_t rows, pixels; // of a tile, at most
    int64_t channels;         // of the input
    int64_t each;             // results of a channel, a power of two
    KRef image, row, channel; // of the tile at hand; channel: first of the vector
    KRef outer[TILE_MAX_OUTER];
    uint8_t count;            // real channels
    int64_t tile_rows;
    int64_t last_row; // the largest value of row
    TileRun run;
    KRef column;
} Depthwise;

typedef struct DwRegisters {
    KRef acc[DW_MAX_ROWS * DW_MAX_PIXELS];
    KRef x, w; // index of the tile's first input (kernel row and column 0) and of the vector's first weight
} DwRegisters;

// Where a tap's weights begin, counted with the last axis running fastest.
static int64_t tap_offset(const Depthwise *s, int64_t tap)
{
    const TileShape *t = &s->c->s;
    int64_t offset = tap % t->kw * s->src->stride_kw + tap / t->kw % t->kh * s->src->stride_kh;
    tap /= t->kw * t->kh;
    for (uint32_t i = t->n_outer; i-- > 0; tap /= t->outer[i].kernel)
        offset += tap % t->outer[i].kernel * s->src->stride_outer[i];
    return offset;
}

// By vector of channels, tap and result of a channel.
static float *pack_depthwise(const Depthwise *s, int64_t channels, uint64_t *bytes)
{
    const int64_t taps = tile_steps(&s->c->s), blocks = (channels + s->lanes - 1) / s->lanes;
    const int64_t n = s->each;
    float *out = ARENA_ARRAY(s->l->pass->perm, float, blocks *taps *n * s->lanes);
    for (int64_t o = 0; o < channels * n; o++)
        for (int64_t t = 0; t < taps; t++) {
            const int64_t c = o / n, to = ((c / s->lanes * taps + t) * n + o % n) * s->lanes + c % s->lanes;
            const int64_t from = c * s->src->stride_group + o % n * s->src->stride_oc + tap_offset(s, t);
            memcpy(&out[to], (const float *)s->src->data + from, sizeof *out);
        }
    *bytes = (uint64_t)(blocks * taps * n * s->lanes) * sizeof *out;
    return out;
}

// Vector by vector of channels as pack_depthwise does, for weights that are not constant.
static void emit_packed(const Depthwise *s, const Packer *p, KRef first, int64_t channels)
{
    Kernel *k = p->l.k;
    const TileShape *t = &s->c->s;
    KRef from = k_expr(k, "$ * # + #", first, s->src->stride_group, s->src->first), tap = k_index(k, 0);
    for (uint32_t i = 0; i < t->n_outer; i++) {
        const KRef kd = k_loop(k, t->outer[i].kernel, KFOR_SERIAL, "kd");
        from = k_expr(k, "$ * # + $", kd, s->src->stride_outer[i], from);
        tap = k_expr(k, "$ * # + $", tap, t->outer[i].kernel, kd);
    }
    const KRef kh = k_loop(k, t->kh, KFOR_SERIAL, "kh");
    const KRef kw = k_loop(k, t->kw, KFOR_SERIAL, "kw");
    from = k_expr(k, "$ * # + ($ * # + $)", kw, s->src->stride_kw, kh, s->src->stride_kh, from);
    tap = k_expr(k, "($ * # + $) * # + $", tap, t->kh, kh, t->kw, kw);
    uint32_t opened = 2 + t->n_outer;
    const KRef result = lower_open_count(k, s->each, KFOR_SERIAL, "r", &opened);
    from = k_expr(k, "$ * # + $", result, s->src->stride_oc, from);
    tap = k_expr(k, "$ * # + $", tap, s->each, result);
    const KRef to = k_expr(k, "$ * # + $ * #", tap, s->lanes, first, tile_steps(t) * s->each);
    const KRef c = k_loop(k, channels, KFOR_SERIAL, "c");
    k_store(k, p->to, k_add(k, to, c),
            k_load(k, p->from, k_expr(k, "$ * # + $", c, s->src->stride_group, from), 1, 1), 1);
    k_end(k);
    for (int64_t c0 = channels; c0 < s->lanes; c0++)
        k_store(k, p->to, k_expr(k, "$ + #", to, c0), k_number(k, DTYPE_f32, 0), 1);
    k_ends(k, opened);
}

static uint32_t pack_stored(const Depthwise *s)
{
    const int64_t rest = s->channels % s->lanes, whole = s->channels - rest;
    const int64_t blocks = (s->channels + s->lanes - 1) / s->lanes;
    Packer p;
    const int64_t elements = blocks * tile_steps(&s->c->s) * s->each * s->lanes;
    packer_open(s->l, s->c->w, DTYPE_f32, (uint64_t)elements, &p);
    Kernel *k = p.l.k;
    if (whole > 0) {
        emit_packed(s, &p, k_for(k, k_index(k, 0), k_index(k, whole), s->lanes, KFOR_PARALLEL, "b"),
                    s->lanes);
        k_end(k);
    }
    if (rest > 0)
        emit_packed(s, &p, k_index(k, whole), rest);
    packer_close(s->l, &p);
    return p.reader;
}

static uint32_t pack_weights(const Depthwise *s)
{
    uint64_t bytes = 0;
    if (!node_is_const(s->l->g, s->c->w))
        return pack_stored(s);
    const float *packed = pack_depthwise(s, s->channels, &bytes);
    return lower_param_data(s->l, node_name(s->l->g, s->c->w), DTYPE_f32, packed, bytes);
}

// --- one tile ------------------------------------------------------------------------------------

// The tap that takes input `at` of a tile into output `out`, along one axis; -1: none does.
static int64_t tap_of(int64_t at, int64_t out, int64_t stride, int64_t dilation, int64_t taps)
{
    const int64_t from = at - out * stride;
    return from < 0 || from % dilation != 0 || from / dilation >= taps ? -1 : from / dilation;
}

// Accumulator of result `n` of a channel.
static KRef acc_of(const Depthwise *s, const DwRegisters *r, int64_t n, int64_t row, int64_t p)
{
    return r->acc[(n * s->tile_rows + row) * s->run.pixels + p];
}

static KRef load_weight(const Depthwise *s, const DwRegisters *r, int64_t tap, int64_t n)
{
    const KRef at = k_expr(s->l->k, "$ + #", r->w, (tap * s->each + n) * s->lanes);
    return k_load(s->l->k, s->w, at, s->lanes, s->lanes);
}

// What input vector (i, j) of the tile adds to the outputs.
static void emit_input(const Depthwise *s, const DwRegisters *r, int64_t i, int64_t j)
{
    Kernel *k = s->l->k;
    const TileShape *t = &s->c->s;
    KRef value = 0;
    for (int64_t row = 0; row < s->tile_rows; row++) {
        const int64_t kh = tap_of(i, row, t->sh, t->dh, t->kh);
        for (int64_t p = 0; kh >= 0 && p < s->run.pixels; p++) {
            const int64_t kw = tap_of(j, p, t->sw, t->dw, t->kw);
            if (kw < 0)
                continue;
            if (value == 0)
                value = k_load(k, s->x, k_expr(k, "$ + #", r->x, i * s->c->stride_h + j * s->c->stride_w),
                               s->lanes, s->count);
            for (int64_t n = 0; n < s->each; n++) {
                const KRef acc = acc_of(s, r, n, row, p), w = load_weight(s, r, kh * t->kw + kw, n);
                k_set(k, acc, k_fma(k, value, w, k_get(k, acc)));
            }
        }
    }
}

static bool is_row_used(const Depthwise *s, int64_t i)
{
    for (int64_t row = 0; row < s->tile_rows; row++)
        if (tap_of(i, row, s->c->s.sh, s->c->s.dh, s->c->s.kh) >= 0)
            return true;
    return false;
}

// Opens the test whether input row i of the tile is there, if it may be missing. False: it always is.
static bool open_row(const Depthwise *s, int64_t i, bool *is_never)
{
    Kernel *k = s->l->k;
    const TileShape *t = &s->c->s;
    const KRef at = k_expr(k, "$ * # + #", s->row, t->sh, i - t->pad_h);
    int64_t v = 0;
    const bool is_const = k_is_const(k, at, &v);
    const bool may_be_above = i < t->pad_h, may_be_below = s->last_row * t->sh - t->pad_h + i >= t->in_h;
    *is_never = is_const && (v < 0 || v >= t->in_h);
    if (is_const || (!may_be_above && !may_be_below))
        return false;
    const KRef above = k_expr(k, "0 <= $", at), below = k_expr(k, "$ < #", at, t->in_h);
    k_if(k, !may_be_below ? above : !may_be_above ? below : k_and(k, above, below));
    return true;
}

static void emit_input_row(const Depthwise *s, const DwRegisters *r, int64_t i)
{
    const TileShape *t = &s->c->s;
    const int64_t reach = (s->run.pixels - 1) * t->sw + (t->kw - 1) * t->dw;
    bool is_never = false;
    if (!is_row_used(s, i))
        return;
    const bool is_tested = open_row(s, i, &is_never);
    for (int64_t j = 0; j <= reach && !is_never; j++) {
        const int64_t in = s->run.column * t->sw - t->pad_w + j;
        if (!s->run.is_edge || (in >= 0 && in < t->in_w))
            emit_input(s, r, i, j);
    }
    if (is_tested)
        k_end(s->l->k);
}

// --- several results of a channel ---

// Channels of the result that vector `n` has; 0 or less: none.
static int64_t count_of(const Depthwise *s, int64_t n)
{
    const int64_t left = s->count * s->each - n * s->lanes;
    return left < s->lanes ? left : s->lanes;
}

// Vectors of one result of all channels become vectors of neighbouring results. As often as two divides
// s->each, the two halves of the list are put in turns.
static void interleave(const Depthwise *s, KRef *v)
{
    const int64_t half = s->each / 2;
    for (int64_t turn = 1; turn < s->each; turn *= 2) {
        KRef from[DEPTHWISE_MAX_EACH];
        memcpy(from, v, sizeof from);
        for (int64_t i = 0; i < half; i++) {
            v[2 * i] = k_zip(s->l->k, KZIP_LOW, from[i], from[i + half]);
            v[2 * i + 1] = k_zip(s->l->k, KZIP_HIGH, from[i], from[i + half]);
        }
    }
}

// The way back.
static void separate(const Depthwise *s, KRef *v)
{
    const int64_t half = s->each / 2;
    for (int64_t turn = 1; turn < s->each; turn *= 2) {
        KRef from[DEPTHWISE_MAX_EACH];
        memcpy(from, v, sizeof from);
        for (int64_t i = 0; i < half; i++) {
            v[i] = k_zip(s->l->k, KZIP_EVEN, from[2 * i], from[2 * i + 1]);
            v[i + half] = k_zip(s->l->k, KZIP_ODD, from[2 * i], from[2 * i + 1]);
        }
    }
}

static KRef result_channel(const Depthwise *s, int64_t n)
{
    return k_expr(s->l->k, "$ * # + #", s->channel, s->each, n * s->lanes);
}

// What the sums start from, for each result of a channel.
static void load_bias(const Depthwise *s, KRef *v)
{
    Kernel *k = s->l->k;
    const KRef zero = k_splat(k, k_number(k, DTYPE_f32, 0), s->lanes);
    for (int64_t n = 0; n < s->each; n++)
        v[n] = s->c->bias == 0 || count_of(s, n) <= 0
                   ? zero
                   : k_load(k, s->bias, result_channel(s, n), s->lanes, (uint8_t)count_of(s, n));
    if (s->c->bias != 0)
        separate(s, v);
}

static void store_output(const Depthwise *s, KRef row, KRef p, int64_t n, KRef value)
{
    Kernel *k = s->l->k;
    const TileOut out = {.image = s->image,
                         .outer = s->outer,
                         .row = k_add(k, s->row, row),
                         .column = k_add(k, s->column, p),
                         .channel = result_channel(s, n),
                         .lanes = s->lanes,
                         .count = (uint8_t)count_of(s, n)};
    s->store(s->l, &out, value, s->ctx);
}

// Costly epilogues go through a small buffer and loops, so that their text appears once.
static void emit_stores(const Depthwise *s, const DwRegisters *r)
{
    Kernel *k = s->l->k;
    const int64_t pixels = s->run.pixels, points = s->tile_rows * pixels, step = s->each * s->lanes;
    const bool is_looped = lower_epilogue_cost(s->l) >= DW_EPILOGUE_LOOP_COST;
    const KRef sums = is_looped ? k_array(k, DTYPE_f32, points * step) : 0;
    for (int64_t i = 0; i < points; i++) {
        KRef v[DEPTHWISE_MAX_EACH] = {0};
        for (int64_t n = 0; n < s->each; n++)
            v[n] = k_get(k, acc_of(s, r, n, i / pixels, i % pixels));
        interleave(s, v);
        for (int64_t n = 0; n < s->each && count_of(s, n) > 0; n++)
            if (is_looped)
                k_astore(k, sums, k_index(k, i * step + n * s->lanes), v[n]);
            else
                store_output(s, k_index(k, i / pixels), k_index(k, i % pixels), n, v[n]);
    }
    if (!is_looped)
        return;
    const KRef row = k_loop(k, s->tile_rows, KFOR_ROLL, "r");
    const KRef p = k_loop(k, pixels, KFOR_ROLL, "p");
    for (int64_t n = 0; n < s->each && count_of(s, n) > 0; n++) {
        const KRef index =
            k_expr(k, "$ * # + ($ * # + #)", row, pixels * step, p, step, n * s->lanes);
        store_output(s, row, p, n, k_aload(k, sums, index, s->lanes));
    }
    k_ends(k, 2);
}

// Opens loops over the taps of the axes before rows: what r holds moves with them.
static void open_outer_taps(const Depthwise *s, DwRegisters *r)
{
    Kernel *k = s->l->k;
    const TileShape *t = &s->c->s;
    int64_t taps = tile_steps(t);
    for (uint32_t i = 0; i < t->n_outer; i++) {
        const TileAxis *x = &t->outer[i];
        KRef lo, hi;
        taps = x->kernel > 0 ? taps / x->kernel : 0;
        const KRef start = k_expr(k, "$ * # + #", s->outer[i], x->stride, -x->pad);
        tile_clip_taps(k, x, start, &lo, &hi);
        const KRef tap = k_for(k, lo, hi, 1, KFOR_SERIAL, "kd");
        const KRef at = k_expr(k, "$ * # + $", tap, x->dilation, start);
        r->x = k_expr(k, "$ * # + $", at, s->c->stride_outer[i], r->x);
        r->w = k_expr(k, "$ * # + $", tap, taps * s->each * s->lanes, r->w);
    }
}

static void emit_tile(const Depthwise *s)
{
    Kernel *k = s->l->k;
    const TileShape *t = &s->c->s;
    DwRegisters r;
    const int64_t pixels = s->run.pixels, points = s->tile_rows * pixels;
    KRef init[DEPTHWISE_MAX_EACH] = {0};
    load_bias(s, init);
    for (int64_t i = 0; i < points * s->each; i++)
        r.acc[i] = k_var(k, init[i / points],
                         arena_printf(k->arena, "a%d_%d", (int)(i / pixels), (int)(i % pixels)));
    const KRef top = k_expr(k, "$ * # + #", s->row, t->sh, -t->pad_h);
    const KRef left = k_expr(k, "$ * # + #", s->column, t->sw, -t->pad_w);
    r.x = k_expr(k, "$ * # + $", s->image, s->c->stride_n, lower_base(s->l, s->c->x));
    r.x = k_expr(k, "$ * # + $", s->channel, s->c->stride_c, r.x);
    r.x = k_expr(k, "$ * # + ($ * # + $)", left, s->c->stride_w, top, s->c->stride_h, r.x);
    r.w = k_expr(k, "$ * #", s->channel, tile_steps(t) * s->each); // channel is a multiple of lanes
    open_outer_taps(s, &r);
    for (int64_t i = 0; i <= (s->tile_rows - 1) * t->sh + (t->kh - 1) * t->dh; i++)
        emit_input_row(s, &r, i);
    k_ends(k, t->n_outer);
    emit_stores(s, &r);
}

// --- the loops around it -------------------------------------------------------------------------

typedef void (*DwInside)(Depthwise *s);

static void each_channel(Depthwise *s, DwInside inside)
{
    Kernel *k = s->l->k;
    const int64_t whole = s->channels - s->channels % s->lanes;
    s->count = s->lanes;
    if (whole > 0) {
        s->channel = whole == s->lanes
                         ? k_index(k, 0)
                         : k_for(k, k_index(k, 0), k_index(k, whole), s->lanes, KFOR_PARALLEL, "c");
        inside(s);
        if (whole != s->lanes)
            k_end(k);
    }
    if (whole < s->channels) {
        s->channel = k_index(k, whole);
        s->count = (uint8_t)(s->channels - whole);
        inside(s);
    }
}

static void rows_from(Depthwise *s, KRef row, int64_t n, DwInside inside)
{
    s->row = row;
    s->tile_rows = n;
    s->last_row = s->c->s.h - n;
    inside(s);
}

// Tiles of whole height, then the last row where one is left.
static void each_row_of_window(Depthwise *s, DwInside inside)
{
    Kernel *k = s->l->k;
    const RowWindow *w = s->l->strip.window;
    const bool has_rest = s->rows > 1 && !w->is_even;
    const KRef end = has_rest ? k_expr(k, "$ + -1", w->hi) : w->hi;
    rows_from(s, k_for(k, w->lo, end, s->rows, KFOR_SERIAL, "oh"), s->rows, inside);
    k_end(k);
    if (!has_rest)
        return;
    const KRef n = k_expr(k, "max($ - $, 0)", w->hi, w->lo);
    k_if(k, k_expr(k, "0 < $ % #", n, DW_MAX_ROWS));
    rows_from(s, end, 1, inside);
    k_end(k);
}

static void each_row(Depthwise *s, DwInside inside)
{
    Kernel *k = s->l->k;
    if (s->l->strip.window != NULL) {
        each_row_of_window(s, inside);
        return;
    }
    const int64_t h = s->c->s.h, whole = h - h % s->rows;
    s->tile_rows = s->rows;
    s->last_row = whole - s->rows;
    const bool has_loop = whole > s->rows;
    s->row =
        has_loop ? k_for(k, k_index(k, 0), k_index(k, whole), s->rows, KFOR_PARALLEL, "oh") : k_index(k, 0);
    inside(s);
    if (has_loop)
        k_end(k);
    if (whole == h)
        return;
    s->tile_rows = h - whole;
    s->last_row = whole;
    s->row = k_index(k, whole);
    inside(s);
}

static void each_column(Depthwise *s, DwInside inside)
{
    Kernel *k = s->l->k;
    const TileRuns runs = tile_runs(s->l, &s->c->s, s->pixels);
    for (uint32_t i = 0; i < runs.len; i++) {
        s->run = runs.data[i];
        s->column = tile_open_run(k, &s->run);
        inside(s);
        tile_close_run(k, &s->run);
    }
}

static void tile_inside(Depthwise *s)
{
    emit_tile(s);
}

static void channels_inside(Depthwise *s)
{
    each_channel(s, tile_inside);
}

static void columns_inside(Depthwise *s)
{
    each_column(s, tile_inside);
}

static void columns_and_channels_inside(Depthwise *s)
{
    each_column(s, channels_inside);
}

static void channels_and_columns_inside(Depthwise *s)
{
    each_channel(s, columns_inside);
}

static void rows_inside(Depthwise *s)
{
    each_row(s, columns_inside);
}

static void emit_images(Depthwise *s)
{
    Kernel *k = s->l->k;
    const RowWindow *window = s->l->strip.window;
    const bool has_loop = s->c->s.n > 1 && window == NULL;
    const KRef images = s->c->images != 0 ? s->c->images : k_index(k, s->c->s.n);
    s->image = window != NULL ? window->image
               : has_loop     ? k_for(k, k_index(k, 0), images, 1, KFOR_PARALLEL, "n")
                              : k_index(k, 0);
    for (uint32_t i = 0; i < s->c->s.n_outer; i++)
        s->outer[i] = k_loop(k, s->c->s.outer[i].out, KFOR_PARALLEL, "od");
    if (s->order == DW_CHANNELS_OUTSIDE)
        each_channel(s, rows_inside);
    else
        each_row(s, s->order == DW_STRIPS ? channels_and_columns_inside : columns_and_channels_inside);
    k_ends(k, s->c->s.n_outer + has_loop);
}

// --- choices -------------------------------------------------------------------------------------

// Tiles: two rows share most of their inputs. Accumulators and the weights of a kernel row stay in registers;
// equal tiles are preferred, because every width is text of its own.
static void choose_tile(Depthwise *s)
{
    const TileShape *t = &s->c->s;
    const int64_t regs = s->l->caps->vector_regs, taps = t->kh * t->kw;
    const int64_t room = regs - 2 - (taps <= regs / 3 ? taps : t->kw);
    s->rows = t->h > 1 && t->kh > 1 && !lower_goes_by_rows(s->l) ? DW_MAX_ROWS : 1;
    int64_t most = room / (s->rows * s->each);
    most = most > DW_MAX_PIXELS / s->rows + 1 ? DW_MAX_PIXELS / s->rows + 1 : most < 2 ? 2 : most;
    s->pixels = most;
    for (int64_t p = most; p > most / 2; p--)
        if (t->w % p == 0) {
            s->pixels = p;
            return;
        }
}

// Cycles for the multiply-adds, raised by what was measured where an order meets its caches badly: planes
// that leave L1 when channels are outside; vectors out of lines that come from far when they are not read in
// order.
static void choose_order(Depthwise *s)
{
    static const char *const names[] = {"channels-outside", "strips", "channels-inside"};
    const TileShape whole = s->c->s, strip = tile_shape_of_window(s->l, &whole);
    const TileShape *t = &strip;
    const TargetCaps *caps = s->l->caps;
    const double plane = (double)(t->in_h * t->in_w + t->h * t->w * s->each) * s->lanes * sizeof(float);
    const double all = plane / s->lanes * (double)s->channels;
    const double fma =
        (double)(t->n * t->h * t->w * s->channels * s->each / s->lanes * t->kh * t->kw) /
        caps->cpu.fma_per_cycle;
    const Candidate list[] = {
        {names[DW_CHANNELS_OUTSIDE], fma * (plane <= caps->cpu.l1_bytes / 4 ? 1
                                            : plane <= caps->cpu.l1_bytes   ? 1.3
                                                                            : 2)},
        {names[DW_STRIPS], fma * (all <= caps->cpu.l2_bytes ? 1.1 : 1.4)},
        {names[DW_CHANNELS_INSIDE], fma * 1.2},
    };
    const char *question =
        arena_printf(s->l->pass->perm, "depthwise %dx%dx%dx%d to %dx%d%s kernel %dx%d%s", (int)t->n,
                     (int)t->in_h, (int)t->in_w, (int)s->channels, (int)t->h, (int)t->w,
                     s->each == 1 ? "" : s->each == 2 ? ", two each," : ", four each,", (int)t->kh,
                     (int)t->kw, s->l->strip.window != NULL ? " in a strip" : "");
    s->order = (DwOrder)choice_pick(s->l, question, list, 3);
}

void depthwise_emit_tiles(Lower *l, const Conv *c, const TileSource *src, TileStore store, void *ctx)
{
    rlx_assert(c->group >= 1 && store != NULL);
    Depthwise s = {.l = l,
                   .c = c,
                   .src = src,
                   .store = store,
                   .ctx = ctx,
                   .lanes = lower_fit_lanes(l, c->group),
                   .channels = c->group,
                   .each = c->s.oc,
                   .x = lower_param(l, c->x, PARAM_READ)};
    s.w = pack_weights(&s);
    s.bias = c->bias != 0 ? lower_param(l, c->bias, PARAM_READ) : 0;
    choose_tile(&s);
    choose_order(&s);
    emit_images(&s);
}
