// SPDX-License-Identifier: Apache-2.0
// int_conv of one input channel a group for microcontrollers with vectors of bytes (ir/kernel/mve.h):
// depthwise convolutions of windows of up to three rows and four columns. Of 16 channels, the rows that some
// output rows need are interleaved, so that all rows of a column are one word; a window is then one vector of
// four words.
#include "ir/graph/tensor.h"
#include "passes/lower/conv/conv.h"
#include "passes/lower/conv/int_conv_mve.h"

enum { STRIP_BYTES = 512, MAX_BYTES = 8192, COLUMN_BYTES = MVE_CHANNELS * 4, MIN_PIXELS = 3 };

typedef struct Deep {
    IntConv c;
    const Domain *d;
    const int32_t *values; // of the weights, less their zero points
    MveScales scales;
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

static bool is_signed(const Deep *s)
{
    return lower_node(s->c.l, s->c.x)->dtype == DTYPE_i8;
}

// --- weights -------------------------------------------------------------------------------------

// A byte of the words of four columns.
static int32_t weight(const Deep *s, int64_t channel, int64_t i)
{
    const IntConv *c = &s->c;
    const int64_t column = i / 4, row = i % 4;
    return column < c->kw && row < c->kh ? s->values[(channel * c->kh + row) * c->kw + column] : 0;
}

static int64_t begin_of(const Deep *s, const int64_t *bias, int64_t channel)
{
    int64_t begin = bias[channel];
    for (int64_t i = 0; i < MVE_INPUTS; i++)
        begin -= s->zero * weight(s, channel, i);
    return begin;
}

typedef struct Packing {
    Deep s;
    const int64_t *bias;
} Packing;

static void pack_block(const Packing *p, int64_t first, unsigned char **out)
{
    for (int64_t j = 0; j < MVE_BLOCK; j++)
        mve_put(out, begin_of(&p->s, p->bias, first + j));
    for (int64_t j = 0; j < MVE_BLOCK * MVE_INPUTS; j++)
        *(*out)++ = (unsigned char)weight(&p->s, first + j / MVE_INPUTS, j % MVE_INPUTS);
    mve_pack_tail(&p->s.scales, 0, first, out);
}

// [16 channels][block]
static void pack(const void *ctx, void *bytes)
{
    const Packing *p = ctx;
    const IntConv *c = &p->s.c;
    for (int64_t o = 0; o < c->group; o += MVE_CHANNELS) {
        unsigned char *out = (unsigned char *)bytes + o / MVE_CHANNELS * p->s.set_words * 4;
        for (int64_t i = 0; i < MVE_COLUMNS; i++)
            mve_put(&out, i * c->dw * COLUMN_BYTES);
        mve_put(&out, c->sw * COLUMN_BYTES);
        mve_put(&out, (p->s.columns - c->w_out * c->sw) * COLUMN_BYTES);
        for (int64_t i = o; i < o + MVE_CHANNELS && i < c->group; i += MVE_BLOCK)
            pack_block(p, i, &out);
    }
}

static int64_t words_of_set(const Deep *s, int64_t first)
{
    int64_t words = MVE_DEEP_HEAD;
    for (int64_t i = first; i < first + MVE_CHANNELS && i < channels(s); i += MVE_BLOCK)
        words += MVE_BLOCK + MVE_INPUTS + mve_tail_words(&s->scales, i);
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
    k_device(k, is_signed(s) ? KDEV_mve_columns_i8 : KDEV_mve_columns_u8, k_address(k, s->t, v->to),
             k_address(k, s->x, v->x), v->n, v->count, k_index(k, c->stride_w), v->lo, v->rows,
             k_index(k, c->dh * c->stride_h), k_index(k, s->zero));
}

// A row of outputs: `row` of the strip that begins at output row y. x: index of its first channel.
static void emit_row(const Deep *s, KRef y, KRef row, KRef x, KRef n)
{
    const IntConv *c = &s->c;
    Kernel *k = c->l->k;
    const KRef top = k_expr(k, "($ + $) * # + #", y, row, c->sh, -c->pad_h);
    const KRef lo = k_expr(k, "(max(0, 0 - $) + #) / #", top, c->dh - 1, c->dh);
    const KRef hi = k_expr(k, "min(#, (max(0, # - $) + #) / #)", c->kh, c->in_h, top, c->dh - 1, c->dh);
    const KRef rows = k_expr(k, "max(0, $ - $)", hi, lo);
    const KRef from = k_expr(k, "$ + ($ + $ * #) * # + #", x, top, lo, c->dh, c->stride_h,
                             (s->first - c->pad_w) * c->stride_w);
    const KRef is_there = k_expr(k, "0 < $", rows);
    emit_columns(s, &(Columns){.to = k_expr(k, "($ * # + #) * #", row, s->columns, s->first, MVE_CHANNELS),
                               .x = k_select(k, is_there, from, k_index(k, 0)),
                               .n = n,
                               .count = k_index(k, s->last - s->first),
                               .lo = lo,
                               .rows = rows});
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
    const Access *out = domain_access(s->d, c->l->root, s->d->has_out_space ? SPACE_OUT : SPACE_IN);
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
        k_index(k, mve_high(&s->scales))};
    k_device_list(k, KDEV_mve_deep, s->scales.shift, operands);
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
    const Lower *l = c->l;
    const bool knows =
        (c->bias == 0 || node_is_const(l->g, c->bias)) && (c->x_zero == 0 || node_is_const(l->g, c->x_zero));
    for (uint32_t i = 0; i < s->d->rank; i++)
        if (lower_knows(l, &s->d->live[i]))
            return false;
    for (int64_t i = 0; i < c->group * c->kh * c->kw && l->caps->has_mve; i++)
        if (s->values[i] < INT8_MIN || s->values[i] > INT8_MAX)
            return false;
    return l->caps->has_mve && l->caps->threads <= 1 && knows && c->ic == 1 && c->oc == 1 &&
           c->group % MVE_BLOCK == 0 && c->stride_c == 1 && c->kh <= MVE_ROWS && c->kw <= MVE_COLUMNS &&
           c->w_out >= MIN_PIXELS;
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
    int64_t *bias = ARENA_ARRAY(l->pass->perm, int64_t, channels(s));
    const Tensor given = tensor_if_const(l->g, c->bias);
    for (int64_t i = 0; i < channels(s); i++)
        bias[i] = c->bias != 0 ? tensor_get_i64(&given, i) : 0;
    for (int64_t i = 0; i < channels(s); i += MVE_CHANNELS)
        s->set_words = words_of_set(s, i) > s->set_words ? words_of_set(s, i) : s->set_words;
    s->x = lower_param(l, c->x, PARAM_READ);
    Packing *packing = ARENA_NEW(l->pass->perm, Packing);
    *packing = (Packing){*s, bias};
    s->weights = lower_param_filled(l, node_name(l->g, c->w), DTYPE_i32, pack, packing,
                                    (uint64_t)(ceil_div(channels(s), MVE_CHANNELS) * s->set_words) * 4);
    s->t = lower_param_scratch(l, "columns", DTYPE_i32, words_of_strip(s));
}

bool int_conv_mve_deep(const IntConv *c, const Domain *d, const int32_t *values)
{
    Lower *l = c->l;
    Deep s = {.c = *c, .d = d, .values = values};
    if (!fits(&s) || !measure(&s) || !mve_scales_find(c, d, channels(&s), &s.scales) || !lower_take(l))
        return false;
    const Tensor zero = tensor_if_const(l->g, c->x_zero);
    s.zero = (c->x_zero != 0 ? tensor_get_i64(&zero, 0) : 0) - (is_signed(&s) ? 0 : 128);
    add_params(&s);
    emit(&s);
    return true;
}
