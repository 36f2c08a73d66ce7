// SPDX-License-Identifier: Apache-2.0
// int_conv of one input channel a group for microcontrollers with vectors of bytes (ir/kernel/mve.h):
// depthwise convolutions of windows of up to three rows and four columns. Of 16 channels, the rows that some
// output rows need are interleaved, so that all rows of a column are one word; a window is then one vector of
// four words.
#include "ir/kernel/mve.h"
#include "passes/lower/conv/conv.h"
#include "passes/lower/conv/int_conv_byte_scale.h"
#include "passes/lower/conv/int_conv_byte_windows.h"

enum { STRIP_BYTES = 512, MAX_BYTES = 8192, COLUMN_BYTES = MVE_CHANNELS * 4, MIN_PIXELS = 3 };

typedef struct Deep {
    IntConv c;
    const Domain *d;
    const int32_t *values; // of the weights, less their zero points
    const int64_t *begin;  // what sums begin with, by channel
    ByteScales scales;
    int64_t zero;        // of the input, as a byte with a sign
    int64_t columns;     // of a row, with borders
    int64_t first, last; // those of them that exist: first .. last - 1
    int64_t strip;       // output rows at a time
    int64_t set_words;   // of the weights of 16 channels
    uint32_t x, weights, t;
} Deep;

static int64_t channels(const Deep *s)
{
    return s->c.group;
}

// --- weights -------------------------------------------------------------------------------------

// A byte of the words of four columns.
static int32_t weight(const Deep *s, int64_t channel, int64_t i)
{
    const IntConv *c = &s->c;
    const int64_t column = i / 4, row = i % 4;
    return column < c->kw && row < c->kh ? s->values[(channel * c->kh + row) * c->kw + column] : 0;
}

static void pack_block(const Deep *s, int64_t first, unsigned char **out)
{
    for (int64_t j = 0; j < MVE_BLOCK; j++)
        byte_put_word(out, s->begin[first + j]);
    for (int64_t j = 0; j < MVE_BLOCK * MVE_INPUTS; j++)
        *(*out)++ = (unsigned char)weight(s, first + j / MVE_INPUTS, j % MVE_INPUTS);
    byte_pack_tail(&s->scales, 0, first, out);
}

// [16 channels][block]
static void pack(const void *ctx, void *bytes)
{
    const Deep *s = ctx;
    const IntConv *c = &s->c;
    for (int64_t o = 0; o < c->group; o += MVE_CHANNELS) {
        unsigned char *out = (unsigned char *)bytes + o / MVE_CHANNELS * s->set_words * 4;
        for (int64_t i = 0; i < MVE_COLUMNS; i++)
            byte_put_word(&out, i * c->dw * COLUMN_BYTES);
        byte_put_word(&out, c->sw * COLUMN_BYTES);
        byte_put_word(&out, (s->columns - c->w_out * c->sw) * COLUMN_BYTES);
        for (int64_t i = o; i < o + MVE_CHANNELS && i < c->group; i += MVE_BLOCK)
            pack_block(s, i, &out);
    }
}

static int64_t words_of_set(const Deep *s, int64_t first)
{
    int64_t words = MVE_DEEP_HEAD;
    for (int64_t i = first; i < first + MVE_CHANNELS && i < channels(s); i += MVE_BLOCK)
        words += MVE_BLOCK + MVE_INPUTS + byte_tail_words(&s->scales, i);
    return words;
}

// --- loops ---------------------------------------------------------------------------------------

// `count` columns from `to` on of the rows of which `rows` exist from row lo on. x: the index of the first.
typedef struct Columns {
    KRef to, x, n, count, lo, rows;
} Columns;

static void emit_columns(const Deep *s, const Columns *v)
{
    const IntConv *c = &s->c;
    Kernel *k = c->l->k;
    k_device(k, int_conv_is_signed(c) ? KDEV_mve_columns_i8 : KDEV_mve_columns_u8, k_address(k, s->t, v->to),
             k_address(k, s->x, v->x), v->n, v->count, k_index(k, c->stride_w), v->lo, v->rows,
             k_index(k, c->dh * c->stride_h), k_index(k, s->zero));
}

// A row of outputs: `row` of the strip that begins at output row y. x: index of its first channel.
static void emit_row(const Deep *s, KRef y, KRef row, KRef x, KRef n)
{
    const IntConv *c = &s->c;
    Kernel *k = c->l->k;
    const KRef top = k_expr(k, "($ + $) * # + #", y, row, c->sh, -c->pad_h);
    const ByteTaps taps = byte_taps_inside(k, top, c->kh, c->dh, c->in_h);
    const KRef from = k_expr(k, "$ + ($ + $ * #) * # + #", x, top, taps.lo, c->dh, c->stride_h,
                             (s->first - c->pad_w) * c->stride_w);
    const KRef is_there = k_expr(k, "0 < $", taps.n);
    emit_columns(s, &(Columns){.to = k_expr(k, "($ * # + #) * #", row, s->columns, s->first, MVE_CHANNELS),
                               .x = k_select(k, is_there, from, k_index(k, 0)),
                               .n = n,
                               .count = k_index(k, s->last - s->first),
                               .lo = taps.lo,
                               .rows = taps.n});
}

// 16 channels of a strip, or what is left of them.
static void emit_set(const Deep *s, KRef image, KRef y, KRef rows, KRef set)
{
    const IntConv *c = &s->c;
    Kernel *k = c->l->k;
    const int64_t all = channels(s);
    const KRef n = all % MVE_CHANNELS == 0
                       ? k_index(k, MVE_CHANNELS)
                       : k_expr(k, "min(#, # - $ * #)", MVE_CHANNELS, all, set, MVE_CHANNELS);
    const KRef first = k_expr(k, "$ * #", set, MVE_CHANNELS);
    const KRef x = k_expr(k, "$ * # + $", image, c->stride_n, first);
    const KRef row = s->strip == 1 ? k_index(k, 0) : k_for(k, k_index(k, 0), rows, 1, KFOR_SERIAL, "i");
    emit_row(s, y, row, x, n);
    lower_close(c->l, s->strip > 1);
    const Access *out = int_conv_result(c, s->d);
    const int64_t pitch = out->stride[s->d->rank - 1];
    IntPixel p = {.at = conv_point(s->d, image, first, y, k_index(k, 0))};
    const KRef operands[KDEV_MAX_OPERANDS + 1] = {
        int_result_at(c, s->d, &p, first, 0),
        k_address(k, s->t, k_index(k, 0)),
        k_address(k, s->weights, k_expr(k, "$ * #", set, s->set_words)),
        k_expr(k, "$ / #", n, MVE_BLOCK),
        k_index(k, c->w_out),
        rows,
        k_index(k, pitch),
        k_index(k, c->w_out * pitch),
        k_index(k, byte_scales_high(&s->scales))};
    k_device_list(k, KDEV_mve_deep, s->scales.shift, operands);
    const KRef pixels = k_expr(k, "$ * #", rows, c->w_out);
    int_ends_emit(c, &s->scales.ends, &(IntBytes){operands[0], n, pixels, pitch});
}

static void emit(const Deep *s)
{
    const IntConv *c = &s->c;
    Kernel *k = c->l->k;
    uint32_t opened = 0;
    const KRef zero = k_index(k, 0);
    if (s->last - s->first < s->columns) // borders stay
        emit_columns(s, &(Columns){.to = zero,
                                   .x = zero,
                                   .n = k_index(k, MVE_CHANNELS),
                                   .count = k_index(k, s->strip * s->columns),
                                   .lo = zero,
                                   .rows = zero});
    const KRef image = lower_open_count(k, c->n, KFOR_PARALLEL, "image", &opened);
    const KRef strip = lower_open_count(k, ceil_div(c->h, s->strip), KFOR_PARALLEL, "strip", &opened);
    const KRef y = k_expr(k, "$ * #", strip, s->strip);
    const KRef rows =
        c->h % s->strip == 0 ? k_index(k, s->strip) : k_expr(k, "min(#, # - $)", s->strip, c->h, y);
    const KRef set = lower_open_count(k, ceil_div(channels(s), MVE_CHANNELS), KFOR_SERIAL, "set", &opened);
    emit_set(s, image, y, rows, set);
    lower_close(c->l, opened);
}

// --- which convolutions --------------------------------------------------------------------------

static bool fits(const Deep *s)
{
    const IntConv *c = &s->c;
    const TargetCaps *caps = c->l->caps;
    return caps->byte_vectors == BYTE_VECTORS_MVE && caps->threads <= 1 && int_conv_knows_bias(c) &&
           int_conv_knows_zero(c) && c->ic == 1 && c->oc == 1 && c->group % MVE_BLOCK == 0 &&
           c->stride_c == 1 && c->kh <= MVE_ROWS && c->kw <= MVE_COLUMNS && c->w_out >= MIN_PIXELS &&
           !int_conv_has_live_axes(c, s->d) && int_conv_has_byte_weights(c, s->values);
}

// False: the rows are too long.
static bool measure(Deep *s)
{
    const IntConv *c = &s->c;
    s->columns = (c->w_out - 1) * c->sw + (c->kw - 1) * c->dw + 1;
    s->first = c->pad_w;
    s->last = c->pad_w + c->in_w < s->columns ? c->pad_w + c->in_w : s->columns;
    const int64_t row = s->columns * COLUMN_BYTES, most = STRIP_BYTES / row;
    s->strip = most < 1 ? 1 : most < c->h ? most : c->h;
    return s->first < s->last && row <= MAX_BYTES;
}

// Of the interleaved rows, in words; a window has four columns, whatever the kernel has.
static uint64_t words_of_strip(const Deep *s)
{
    return (uint64_t)((s->strip * s->columns + (MVE_COLUMNS - 1) * s->c.dw) * MVE_CHANNELS);
}

static void add_params(Deep *s)
{
    const IntConv *c = &s->c;
    Lower *l = c->l;
    s->begin = int_conv_begins(c, s->values, s->zero);
    for (int64_t i = 0; i < channels(s); i += MVE_CHANNELS)
        s->set_words = words_of_set(s, i) > s->set_words ? words_of_set(s, i) : s->set_words;
    s->x = lower_param(l, c->x, PARAM_READ);
    Deep *packing = ARENA_NEW(l->pass->perm, Deep);
    *packing = *s;
    s->weights = lower_param_filled(l, node_name(l->g, c->w), DTYPE_i32, pack, packing,
                                    (uint64_t)(ceil_div(channels(s), MVE_CHANNELS) * s->set_words) * 4);
    s->t = lower_param_scratch(l, "columns", DTYPE_i32, words_of_strip(s));
}

bool int_conv_mve_deep(const IntConv *c, const Domain *d, const int32_t *values)
{
    Lower *l = c->l;
    Deep s = {.c = *c, .d = d, .values = values};
    s.scales = (ByteScales){.groups = 1, .channels = c->group, .block = MVE_BLOCK};
    if (!fits(&s) || !measure(&s) || !byte_scales_find(c, d, &s.scales) || !lower_take(l))
        return false;
    s.zero = int_conv_zero_value(c) - (int_conv_is_signed(c) ? 0 : 128);
    add_params(&s);
    emit(&s);
    return true;
}
