// SPDX-License-Identifier: Apache-2.0
// One register tile: accumulators, the loops over kernel rows, kernel columns and channels, and the stores.
// See tile.h. Accumulators are named variables, for compilers that keep no array in registers; taps with the
// same valid pixels share one loop. Where there are too few output channels for a vector (tile_take_dots),
// the lanes of an accumulator are input channels, which are joined pairwise at the end.
#include "passes/lower/tile/tile_part.h"

enum { EPILOGUE_LOOP_COST = 8, UNROLL_CHANNELS = 4 };

typedef struct Accs {
    KRef var[TILE_MAX_ACC];
} Accs;

// Where the sum stands: index of the input element of pixel 0, of the first weight, and the steps done.
typedef struct Cursor {
    KRef x, w, step;
} Cursor;

// Pixels of the tile that take part.
typedef struct Window {
    int64_t row_lo, row_hi, column_lo, column_hi;
} Window;

uint8_t tile_vector_lanes(const Tile *t, int64_t channels, int64_t v)
{
    rlx_assert(v >= 0 && channels > v * t->lanes);
    const int64_t left = channels - v * t->lanes;
    uint8_t lanes = t->lanes;
    while (v == 0 && lanes > 4 && lanes / 2 >= left)
        lanes /= 2;
    return lanes;
}

static uint8_t real_lanes(const Tile *t, const TileAt *at, int64_t v)
{
    const int64_t left = at->channels - v * t->lanes;
    return (uint8_t)(left > t->lanes ? t->lanes : left);
}

static void begin_accs(const Tile *t, const TileAt *at, Accs *a)
{
    Kernel *k = t->l->k;
    KRef init[TILE_MAX_VECTORS];
    for (int64_t v = 0; v < at->nv; v++) {
        const uint8_t lanes = t->dot > 0 ? t->dot : tile_vector_lanes(t, at->channels, v);
        const KRef index = k_expr(k, "$ + ($ + #)", t->bias_base, at->channel, v * t->lanes);
        init[v] = t->has_bias && t->dot == 0 ? k_load(k, t->bias, index, lanes, real_lanes(t, at, v))
                              : k_splat(k, k_number(k, DTYPE_f32, 0), lanes);
    }
    for (int64_t p = 0; p < at->rows * at->columns; p++)
        for (int64_t v = 0; v < at->nv; v++)
            a->var[p * at->nv + v] = k_var(k, init[v], arena_printf(k->arena, "a%d_%d", (int)p, (int)v));
}

static int64_t weights_per_step(const Tile *t, const TileAt *at)
{
    return t->w.is_packed ? at->width : t->w.row_stride;
}

static Cursor advance(const Tile *t, const TileAt *at, Cursor c, KRef n, int64_t x_step, int64_t steps)
{
    Kernel *k = t->l->k;
    return (Cursor){.x = k_expr(k, "$ * # + $", n, x_step, c.x),
                    .w = k_expr(k, "$ * # + $", n, steps * weights_per_step(t, at), c.w),
                    .step = at->n_fetches == 0 ? c.step : k_expr(k, "$ * # + $", n, steps, c.step)};
}

static void emit_fetch(Kernel *k, const TileFetch *f, KRef step)
{
    KRef index = f->base;
    if (f->period > 0) {
        const KRef period = k_index(k, f->period);
        index = k_expr(k, "$ / $ * # + $", step, period, f->pitch, index);
        step = k_rem(k, step, period);
    }
    k_prefetch(k, f->param, k_expr(k, "$ * # + $", step, f->step, index));
}

// One step of the sum: the weight vectors against the pixels of the window.
static void emit_step(const Tile *t, const TileAt *at, const Accs *a, Cursor c, const Window *in)
{
    Kernel *k = t->l->k;
    KRef wv[TILE_MAX_VECTORS];
    for (uint32_t i = 0; i < at->n_fetches; i++)
        emit_fetch(k, &at->fetch[i], c.step);
    for (int64_t v = 0; v < at->nv; v++) {
        const uint8_t lanes = tile_vector_lanes(t, at->channels, v);
        wv[v] = k_load(k, t->w.param, k_expr(k, "$ + #", c.w, v * t->lanes), lanes,
                       t->w.is_packed ? lanes : real_lanes(t, at, v));
    }
    for (int64_t row = in->row_lo; row < in->row_hi; row++)
        for (int64_t column = in->column_lo; column < in->column_hi; column++) {
            const int64_t from = row * t->s.sh * t->in.stride_h + column * t->s.sw * t->in.stride_w;
            const KRef b = k_load(k, t->in.param, k_expr(k, "$ + #", c.x, from), 1, 1);
            for (int64_t v = 0; v < at->nv; v++) {
                const KRef acc = a->var[(row * at->columns + column) * at->nv + v];
                k_set(k, acc, k_op(k, t->s.paired > 0 ? KOP_dot_bf16 : KOP_fma, b, wv[v], k_get(k, acc)));
            }
        }
}

// The same for `count` channels of a vector: these are the lanes.
static void emit_dot(const Tile *t, const TileAt *at, const Accs *a, Cursor c, uint8_t count,
                     const Window *in)
{
    Kernel *k = t->l->k;
    const KRef w = k_load(k, t->w.param, c.w, t->dot, count);
    for (int64_t row = in->row_lo; row < in->row_hi; row++)
        for (int64_t column = in->column_lo; column < in->column_hi; column++) {
            const int64_t from = row * t->s.sh * t->in.stride_h + column * t->s.sw * t->in.stride_w;
            const KRef x = k_load(k, t->in.param, k_expr(k, "$ + #", c.x, from), t->dot, count);
            const KRef acc = a->var[row * at->columns + column];
            k_set(k, acc, k_fma(k, x, w, k_get(k, acc)));
        }
}

static Cursor at_channel(const Tile *t, const TileAt *at, Cursor c, KRef channel)
{
    Kernel *k = t->l->k;
    Cursor to = advance(t, at, c, channel, t->in.has_table ? 0 : t->in.stride_c, 1);
    if (t->in.has_table) {
        const KRef index = k_add(k, channel, t->in.first_channel);
        to.x = k_add(k, to.x, k_cast(k, k_load(k, t->in.table, index, 1, 1), KT_INDEX));
    }
    return to;
}

// The sum over n channels by vectors, of which the last may be partial.
static void emit_dots(const Tile *t, const TileAt *at, const Accs *a, Cursor c, int64_t n, const Window *in)
{
    Kernel *k = t->l->k;
    const int64_t whole = n - n % t->dot;
    rlx_assert(at->nv == 1 && at->width == 1 && t->in.stride_c == 1);
    if (whole > 0) {
        const KRef i = k_for(k, k_index(k, 0), k_index(k, whole), t->dot, KFOR_SERIAL, "c");
        emit_dot(t, at, a, at_channel(t, at, c, i), t->dot, in);
        k_end(k);
    }
    if (whole < n)
        emit_dot(t, at, a, at_channel(t, at, c, k_index(k, whole)), (uint8_t)(n - whole), in);
}

// The sum over n channels. Very few are unrolled: a loop of three costs more than its body.
static void emit_channels(const Tile *t, const TileAt *at, const Accs *a, Cursor c, int64_t n,
                          const Window *in)
{
    Kernel *k = t->l->k;
    if (t->dot > 0) {
        emit_dots(t, at, a, c, n, in);
        return;
    }
    if (n <= UNROLL_CHANNELS && t->s.kh * t->s.kw > 1) {
        for (int64_t i = 0; i < n; i++)
            emit_step(t, at, a, at_channel(t, at, c, k_index(k, i)), in);
        return;
    }
    const KRef i = k_loop(k, n, KFOR_SERIAL, "c");
    emit_step(t, at, a, at_channel(t, at, c, i), in);
    k_end(k);
}

// Opens a loop over [lo, hi), or none when that is one constant.
static KRef open_loop(Kernel *k, KRef lo, KRef hi, uint8_t how, const char *name, uint32_t *opened)
{
    int64_t first = 0, end = 0;
    if (k_is_const(k, lo, &first) && k_is_const(k, hi, &end) && end == first + 1)
        return lo;
    ++*opened;
    return k_for(k, lo, hi, 1, how, name);
}

static KRef open_taps(Kernel *k, KRef lo, KRef hi, const char *name, uint32_t *opened)
{
    return open_loop(k, lo, hi, KFOR_SERIAL, name, opened);
}

// Kernel columns of one span. Where they follow each other in memory as channels do, they are one long sum.
static void emit_columns(const Tile *t, const TileAt *at, const Accs *a, Cursor c, const TileSpan *span,
                         const Window *in)
{
    Kernel *k = t->l->k;
    const int64_t x_step = t->s.dw * t->in.stride_w;
    const bool is_run = x_step == t->s.ic * t->in.stride_c && (t->dot == 0 || t->s.ic % t->dot == 0);
    if (span->count > 1 && !t->in.has_table && is_run) {
        emit_channels(t, at, a, advance(t, at, c, k_index(k, span->first), x_step, t->s.ic),
                      span->count * t->s.ic, in);
        return;
    }
    uint32_t opened = 0;
    const KRef kw =
        open_taps(k, k_index(k, span->first), k_index(k, span->first + span->count), "kw", &opened);
    emit_channels(t, at, a, advance(t, at, c, kw, x_step, t->s.ic), t->s.ic, in);
    if (opened > 0)
        k_end(k);
}

static void emit_rows(const Tile *t, const TileAt *at, const Accs *a, Cursor c, KRef lo, KRef hi, Window in)
{
    Kernel *k = t->l->k;
    const TileAxis axis = tile_column_axis(&t->s);
    const TileSpans spans = tile_spans(t->l->pass->scratch, &axis, at->column_value, at->columns);
    uint32_t opened = 0;
    const KRef kh = open_taps(k, lo, hi, "kh", &opened);
    c = advance(t, at, c, kh, t->s.dh * t->in.stride_h, t->s.kw * t->s.ic);
    for (uint32_t i = 0; i < spans.len; i++) {
        in.column_lo = spans.data[i].lo;
        in.column_hi = spans.data[i].hi;
        emit_columns(t, at, a, c, &spans.data[i], &in);
    }
    if (opened > 0)
        k_end(k);
}

static KRef ceil_div_at_least_0(Kernel *k, KRef v, int64_t d)
{
    const KRef low = k_expr(k, "max($, 0)", v);
    return k_expr(k, "($ + #) / #", low, d - 1, d);
}

void tile_clip_taps(Kernel *k, const TileAxis *x, KRef start, KRef *lo, KRef *hi)
{
    rlx_assert(x->stride >= 1 && x->dilation >= 1 && x->kernel >= 0);
    const int64_t last = (x->out - 1) * x->stride - x->pad + (x->kernel - 1) * x->dilation;
    *lo = k_index(k, 0);
    *hi = k_index(k, x->kernel);
    if (x->pad != 0)
        *lo = ceil_div_at_least_0(k, k_expr(k, "0 - $", start), x->dilation);
    if (last >= x->in)
        *hi = k_min(k, ceil_div_at_least_0(k, k_expr(k, "# - $", x->in, start), x->dilation), *hi);
}

// Input row or column of kernel position 0.
static KRef first_tap(Kernel *k, KRef at, int64_t stride, int64_t pad)
{
    return k_expr(k, "$ * # + #", at, stride, -pad);
}

KRef tile_input_index(const Tile *t, const TileAt *at)
{
    rlx_assert(at->row != 0 && at->column != 0);
    Kernel *k = t->l->k;
    const TileShape *s = &t->s;
    KRef x = k_expr(k, "$ + $ * #", t->in.base, at->image, t->in.stride_n);
    for (uint32_t i = 0; i < s->n_outer; i++)
        x = k_expr(k, "$ + $ * #", x, first_tap(k, at->outer[i], s->outer[i].stride, s->outer[i].pad),
                   t->in.stride_outer[i]);
    x = k_expr(k, "$ + $ * #", x, first_tap(k, at->row, s->sh, s->pad_h), t->in.stride_h);
    return k_expr(k, "$ + $ * #", x, first_tap(k, at->column, s->sw, s->pad_w), t->in.stride_w);
}

// Opens loops over the taps of the axes before rows.
static Cursor open_outer_taps(const Tile *t, const TileAt *at, Cursor c, uint32_t *opened)
{
    Kernel *k = t->l->k;
    int64_t steps = tile_steps(&t->s);
    for (uint32_t i = 0; i < t->s.n_outer; i++) {
        const TileAxis *x = &t->s.outer[i];
        KRef lo, hi;
        steps = x->kernel > 0 ? steps / x->kernel : 0;
        tile_clip_taps(k, x, first_tap(k, at->outer[i], x->stride, x->pad), &lo, &hi);
        const KRef tap = open_taps(k, lo, hi, "kd", opened);
        c = advance(t, at, c, tap, x->dilation * t->in.stride_outer[i], steps);
    }
    return c;
}

static void emit_plane(const Tile *t, const TileAt *at, const Accs *a, Cursor c)
{
    Kernel *k = t->l->k;
    const TileAxis axis = tile_row_axis(&t->s);
    if (at->clips_rows) {
        KRef lo, hi;
        tile_clip_taps(k, &axis, first_tap(k, at->row, t->s.sh, t->s.pad_h), &lo, &hi);
        emit_rows(t, at, a, c, lo, hi, (Window){.row_hi = 1});
        return;
    }
    const TileSpans spans = tile_spans(t->l->pass->scratch, &axis, at->row_value, at->rows);
    for (uint32_t i = 0; i < spans.len; i++) {
        const TileSpan *span = &spans.data[i];
        emit_rows(t, at, a, c, k_index(k, span->first), k_index(k, span->first + span->count),
                  (Window){.row_lo = span->lo, .row_hi = span->hi});
    }
}

static void emit_sums(const Tile *t, const TileAt *at, const Accs *a)
{
    Kernel *k = t->l->k;
    uint32_t opened = 0;
    const Cursor c = {.x = tile_input_index(t, at), .w = at->weights, .step = k_index(k, 0)};
    emit_plane(t, at, a, open_outer_taps(t, at, c, &opened));
    while (opened-- > 0)
        k_end(k);
}

static void store_vector(const Tile *t, const TileAt *at, KRef row, KRef column, int64_t v, KRef value)
{
    Kernel *k = t->l->k;
    const TileOut out = {.image = at->image,
                         .outer = at->outer,
                         .row = k_add(k, at->row, row),
                         .column = k_add(k, at->column, column),
                         .channel = k_expr(k, "$ + #", at->channel, v * t->lanes),
                         .lanes = tile_vector_lanes(t, at->channels, v),
                         .count = real_lanes(t, at, v)};
    t->store(t->l, &out, value, t->ctx);
}

// What an accumulator comes to.
static KRef sum_of(const Tile *t, const TileAt *at, KRef var)
{
    Kernel *k = t->l->k;
    const KRef v = k_get(k, var);
    if (t->dot == 0)
        return v;
    const KRef sum = k_hreduce(k, KOP_add, v);
    return t->has_bias ? k_add(k, sum, k_load(k, t->bias, k_add(k, t->bias_base, at->channel), 1, 1)) : sum;
}

static void emit_plain_stores(const Tile *t, const TileAt *at, const Accs *a)
{
    Kernel *k = t->l->k;
    for (int64_t row = 0; row < at->rows; row++)
        for (int64_t column = 0; column < at->columns; column++)
            for (int64_t v = 0; v < at->nv; v++)
                store_vector(t, at, k_index(k, row), k_index(k, column), v,
                             sum_of(t, at, a->var[(row * at->columns + column) * at->nv + v]));
}

// Costly epilogues go through a small buffer and loops over the pixels, so that their text appears once a
// vector.
static void emit_stores(const Tile *t, const TileAt *at, const Accs *a)
{
    Kernel *k = t->l->k;
    const int64_t pixels = at->rows * at->columns, pitch = at->nv * t->lanes;
    if (pixels < 2 || lower_epilogue_cost(t->l) < EPILOGUE_LOOP_COST) {
        emit_plain_stores(t, at, a);
        return;
    }
    const KRef sums = k_array(k, DTYPE_f32, pixels * pitch);
    for (int64_t i = 0; i < pixels * at->nv; i++)
        k_astore(k, sums, k_index(k, i / at->nv * pitch + i % at->nv * t->lanes),
                 sum_of(t, at, a->var[i]));
    uint32_t opened = 0;
    const KRef row = open_loop(k, k_index(k, 0), k_index(k, at->rows), KFOR_ROLL, "r", &opened);
    const KRef column = open_loop(k, k_index(k, 0), k_index(k, at->columns), KFOR_ROLL, "p", &opened);
    const KRef pixel = k_expr(k, "$ * # + $", row, at->columns, column);
    for (int64_t v = 0; v < at->nv; v++) {
        const KRef index = k_expr(k, "$ * # + #", pixel, pitch, v * t->lanes);
        store_vector(t, at, row, column, v, k_aload(k, sums, index, tile_vector_lanes(t, at->channels, v)));
    }
    while (opened-- > 0)
        k_end(k);
}

void tile_emit_one(const Tile *t, const TileAt *at)
{
    Accs a;
    rlx_assert(at->rows * at->columns * at->nv <= TILE_MAX_ACC);
    rlx_assert(t->store != NULL && at->nv >= 1);
    begin_accs(t, at, &a);
    emit_sums(t, at, &a);
    emit_stores(t, at, &a);
}
