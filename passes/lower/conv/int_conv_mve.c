// SPDX-License-Identifier: Apache-2.0
// int_conv for microcontrollers with vectors of bytes (ir/kernel/mve.h). The windows of some pixels are
// copied next to each other, with the zero point where they leave the input; then device functions sum up
// blocks of four channels for two pixels at a time, and bring them back to bytes where `requantise` found
// numbers for it. Other sums are stored one by one.
#include "passes/lower/conv/int_conv_mve.h"
#include "ir/graph/tensor.h"
#include "ir/kernel/mve.h"
#include "passes/lower/conv/conv.h"
#include "passes/lower/operand.h"

enum {
    WINDOW_BYTES = 256, // of pixels that are computed in one call
    MAX_PIXELS = 8,
    CHUNK = 4, // blocks whose sums are in memory at a time
};

typedef struct Mve {
    IntConv c;
    const Domain *d;
    const int32_t *values; // of the weights, less their zero points
    const int64_t *begin;  // what sums begin with, by output channel
    MveScales scales;      // where `bytes` is not 0
    bool is_inside;        // no tap can leave the input
    bool is_joined;        // a run has all columns of the kernel
    bool is_even;          // windows of pixels are one run each, at equal distances
    int64_t runs, n;
    int64_t to;                        // from window to window, in scratch memory
    int64_t zero;                      // of the inputs as bytes with a sign
    int64_t bytes;                     // channels of a group that leave as bytes
    int64_t pixels;                    // at a time
    int64_t group_words, sums_at;      // of weights: all, and where those for sums begin
    uint32_t x, weights, window, sums; // params; window 0: the input itself
} Mve;

static int64_t n_pixels(const Mve *s)
{
    return s->c.n * s->c.h * s->c.w_out;
}

static int64_t length(const Mve *s)
{
    return s->runs * s->n;
}

static int64_t words_of_sums(const Mve *s)
{
    return MVE_BLOCK + mve_padded(length(s));
}

// --- weights -------------------------------------------------------------------------------------

// Element i of the window of channel o of a group; 0 where there is none.
static int32_t weight(const Mve *s, int64_t group, int64_t o, int64_t i)
{
    const IntConv *c = &s->c;
    if (o >= c->oc || i >= length(s))
        return 0;
    const int64_t run = i / s->n, element = i % s->n;
    const int64_t tap = s->is_joined ? run * c->kw + element / c->ic : run;
    return s->values[((group * c->oc + o) * c->ic + element % c->ic) * c->kh * c->kw + tap];
}

static void pack_sums(const Mve *s, int64_t group, int64_t first, unsigned char **out)
{
    for (int64_t j = 0; j < MVE_BLOCK; j++)
        mve_put(out, first + j < s->c.oc ? s->begin[group * s->c.oc + first + j] : 0);
    for (int64_t step = 0; step < mve_padded(length(s)); step += MVE_INPUTS)
        for (int64_t j = 0; j < MVE_BLOCK * MVE_INPUTS; j++)
            *(*out)++ = (unsigned char)weight(s, group, first + j / MVE_INPUTS, step + j % MVE_INPUTS);
}

// [group][block]
static void pack(const void *ctx, void *bytes)
{
    const Mve *s = ctx;
    unsigned char *out = bytes;
    for (int64_t g = 0; g < s->c.group; g++)
        for (int64_t o = 0; o < s->c.oc; o += MVE_BLOCK) {
            pack_sums(s, g, o, &out);
            if (o < s->bytes)
                mve_pack_tail(&s->scales, g, o, &out);
        }
}

// --- windows -------------------------------------------------------------------------------------

static KDevice window_function(const Mve *s)
{
    return int_conv_is_signed(&s->c) ? KDEV_mve_window_i8 : KDEV_mve_window_u8;
}

// Windows of pixels that follow each other, `step` elements apart, of which none leaves the input.
static void copy_windows(const Mve *s, KRef x, KRef pixels, int64_t step, KRef to)
{
    const IntConv *c = &s->c;
    Kernel *k = c->l->k;
    uint32_t opened = 0;
    const int64_t turns = s->is_joined ? 1 : c->kh, rows = s->runs / turns;
    const KRef turn = lower_open_count(k, turns, KFOR_SERIAL, "k0", &opened);
    const int64_t pitch = s->is_joined ? c->dh * c->stride_h : c->dw * c->stride_w;
    k_device(k, window_function(s), k_address(k, s->window, k_expr(k, "$ + $ * #", to, turn, rows * s->n)),
             k_address(k, s->x, k_expr(k, "$ + $ * #", x, turn, c->dh * c->stride_h)), k_index(k, s->n),
             k_index(k, rows), k_index(k, pitch), pixels, k_index(k, step), k_index(k, s->to));
    lower_close(c->l, opened);
}

// Windows that follow each other without a gap are one run.
static void copy_even(const Mve *s, KRef x, KRef pixels)
{
    Kernel *k = s->c.l->k;
    const KRef zero = k_index(k, 0), one = k_index(k, 1);
    const int64_t step = s->c.sw * s->c.stride_w;
    if (step != s->to) {
        copy_windows(s, x, pixels, step, zero);
        return;
    }
    k_device(k, window_function(s), k_address(k, s->window, zero), k_address(k, s->x, x),
             k_expr(k, "$ * #", pixels, s->n), one, zero, one, zero, zero);
}

// The window of a pixel at the border: first the zero point, then what is inside.
static void copy_border(const Mve *s, const IntPixel *p, KRef to)
{
    const IntConv *c = &s->c;
    Kernel *k = c->l->k;
    const MveTaps y = mve_taps_inside(k, p->row, c->kh, c->dh, c->in_h);
    const MveTaps x = mve_taps_inside(k, p->column, c->kw, c->dw, c->in_w);
    const KRef is_there = k_expr(k, "0 < $ & 0 < $", y.n, x.n);
    const KRef from =
        k_expr(k, "$ + $ * # + $ * #", p->x, y.lo, c->dh * c->stride_h, x.lo, c->dw * c->stride_w);
    const KRef at = k_expr(k, "$ + ($ * # + $) * #", to, y.lo, c->kw, x.lo, c->ic);
    k_device(k, KDEV_mve_fill, k_address(k, s->window, to), k_index(k, length(s)), k_index(k, s->zero));
    k_if(k, is_there);
    k_device(k, window_function(s), k_address(k, s->window, at), k_address(k, s->x, from),
             s->is_joined ? k_expr(k, "$ * #", x.n, c->ic) : k_index(k, c->ic),
             s->is_joined ? k_index(k, 1) : x.n, k_index(k, s->is_joined ? 0 : c->dw * c->stride_w), y.n,
             k_index(k, c->dh * c->stride_h), k_index(k, c->kw * c->ic));
    k_end(k);
}

static void copy_pixel(const Mve *s, const IntPixel *p, KRef to)
{
    Kernel *k = s->c.l->k;
    if (!s->is_inside)
        k_if(k, int_pixel_is_whole(&s->c, p));
    copy_windows(s, p->x, k_index(k, 1), 0, to);
    if (s->is_inside)
        return;
    k_else(k);
    copy_border(s, p, to);
    k_end(k);
}

static void copy_each(const Mve *s, KRef first, KRef pixels, KRef group)
{
    Kernel *k = s->c.l->k;
    const KRef i = s->pixels == 1 ? k_index(k, 0) : k_for(k, k_index(k, 0), pixels, 1, KFOR_SERIAL, "i");
    const IntPixel p = int_pixel_of(&s->c, s->d, k_add(k, first, i), group);
    copy_pixel(s, &p, k_expr(k, "$ * #", i, s->to));
    lower_close(s->c.l, s->pixels > 1);
}

// Pixels of one row: those go together that do not leave the input, from a to b - 1.
static void copy_row(const Mve *s, KRef first, KRef group)
{
    const IntConv *c = &s->c;
    Kernel *k = c->l->k;
    const int64_t n = s->pixels, step = c->sw * c->stride_w, room = c->in_w - (c->kw - 1) * c->dw + c->pad_w;
    const IntPixel p = int_pixel_of(c, s->d, first, group);
    const KRef column = p.at.idx[s->d->rank - 1], zero = k_index(k, 0);
    const KRef a =
        s->is_inside ? zero : k_expr(k, "min(#, max(0, # - $))", n, ceil_div(c->pad_w, c->sw), column);
    KRef b = k_expr(k, "max($, min(#, # - $))", a, n, room > 0 ? ceil_div(room, c->sw) : 0, column);
    b = k_select(k, k_expr(k, "0 <= $ & $ < #", p.row, p.row, c->in_h - (c->kh - 1) * c->dh), b, a);
    b = s->is_inside ? k_index(k, n) : b;
    k_if(k, k_expr(k, "$ < $", a, b));
    copy_windows(s, k_expr(k, "$ + $ * #", p.x, a, step), k_sub(k, b, a), step, k_expr(k, "$ * #", a, s->to));
    k_end(k);
    if (s->is_inside)
        return;
    const KRef i = k_for(k, zero, k_expr(k, "# - ($ - $)", n, b, a), 1, KFOR_SERIAL, "i");
    const KRef j = k_select(k, k_expr(k, "$ < $", i, a), i, k_expr(k, "$ + ($ - $)", i, b, a));
    IntPixel at = p;
    at.column = k_expr(k, "$ + $ * #", p.column, j, c->sw);
    at.x = k_expr(k, "$ + $ * #", p.x, j, step);
    copy_border(s, &at, k_expr(k, "$ * #", j, s->to));
    k_end(k);
}

static void copy(const Mve *s, KRef first, KRef pixels, KRef group)
{
    if (s->is_even)
        copy_even(s, int_pixel_of(&s->c, s->d, first, group).x, pixels);
    else if (s->pixels > 1 && s->c.w_out % s->pixels == 0)
        copy_row(s, first, group);
    else
        copy_each(s, first, pixels, group);
}

// --- blocks of channels --------------------------------------------------------------------------

typedef struct Blocks {
    KRef first, pixels; // the pixels whose windows are there
    KRef group;
    KRef x; // of the window, in the input
} Blocks;

static KRef window_at(const Mve *s, const Blocks *b)
{
    Kernel *k = s->c.l->k;
    return s->window != 0 ? k_address(k, s->window, k_index(k, 0)) : k_address(k, s->x, b->x);
}

static void emit_bytes(const Mve *s, const Blocks *b)
{
    const IntConv *c = &s->c;
    Kernel *k = c->l->k;
    const IntPixel p = int_pixel_of(c, s->d, b->first, b->group);
    const Access *y = int_conv_result(c, s->d);
    const bool is_one = n_pixels(s) == 1;
    const KRef high = k_index(k, mve_high(&s->scales));
    const KRef operands[KDEV_MAX_OPERANDS + 1] = {
        int_result_at(c, s->d, &p, b->group, 0),
        window_at(s, b),
        k_address(k, s->weights, k_expr(k, "$ * #", b->group, s->group_words)),
        k_index(k, length(s)),
        k_index(k, s->bytes / MVE_BLOCK),
        is_one ? high : b->pixels,
        is_one ? 0 : k_index(k, y->stride[s->d->rank - 1]),
        is_one ? 0 : high,
        is_one ? 0 : k_index(k, s->to)};
    k_device_list(k, is_one ? KDEV_mve_bytes1 : KDEV_mve_bytes2, s->scales.shift, operands);
}

// A block of channels of `pixels` pixels, whose sums are the one of number `at`.
static void store_block(const Mve *s, const Blocks *b, int64_t pixels, KRef block, KRef at)
{
    const IntConv *c = &s->c;
    Kernel *k = c->l->k;
    for (int64_t i = 0; i < pixels; i++) {
        const IntPixel p = int_pixel_of(c, s->d, k_expr(k, "$ + #", b->first, i), b->group);
        const KRef channels = k_expr(k, "min(#, # - $ * #)", MVE_BLOCK, c->oc - s->bytes, block, MVE_BLOCK);
        const KRef j = k_for(k, k_index(k, 0), channels, 1, KFOR_SERIAL, "j");
        Point to = p.at;
        to.idx[1] = k_expr(k, "$ * # + ($ * # + #) + $", b->group, c->oc, block, MVE_BLOCK, s->bytes, j);
        const KRef sum = k_expr(k, "($ * # + #) * # + $", at, pixels, i, MVE_BLOCK, j);
        pull_store_root(c->l, s->d, to, k_load(k, s->sums, sum, 1, 1));
        k_end(k);
    }
}

static void emit_chunks(const Mve *s, const Blocks *b, int64_t pixels)
{
    Kernel *k = s->c.l->k;
    const int64_t n = ceil_div(s->c.oc - s->bytes, MVE_BLOCK), chunks = ceil_div(n, CHUNK);
    uint32_t opened = 0;
    const KRef chunk = lower_open_count(k, chunks, KFOR_SERIAL, "chunk", &opened);
    const KRef begin = k_expr(k, "$ * #", chunk, CHUNK);
    const KRef count = chunks == 1 ? k_index(k, n) : k_expr(k, "min(#, # - $)", CHUNK, n, begin);
    const KRef w =
        k_expr(k, "$ * # + ($ * # + #)", b->group, s->group_words, begin, words_of_sums(s), s->sums_at);
    k_device(k, pixels == 2 ? KDEV_mve_sums2 : KDEV_mve_sums1, k_address(k, s->sums, k_index(k, 0)),
             window_at(s, b), k_address(k, s->weights, w), k_index(k, length(s)), count,
             pixels == 2 ? k_index(k, s->to) : 0);
    const KRef at = n == 1 ? k_index(k, 0) : k_for(k, k_index(k, 0), count, 1, KFOR_SERIAL, "b");
    store_block(s, b, pixels, k_add(k, begin, at), at);
    lower_close(s->c.l, opened + (n > 1));
}

static void emit_sums(const Mve *s, const Blocks *b)
{
    Kernel *k = s->c.l->k;
    if (s->pixels == 1) {
        emit_chunks(s, b, 1);
        return;
    }
    const bool may_be_one = n_pixels(s) % 2 != 0;
    if (may_be_one)
        k_if(k, k_expr(k, "1 < $", b->pixels));
    emit_chunks(s, b, 2);
    if (may_be_one) {
        k_else(k);
        emit_chunks(s, b, 1);
        k_end(k);
    }
}

static void emit(const Mve *s)
{
    Kernel *k = s->c.l->k;
    uint32_t opened = 0;
    const int64_t all = n_pixels(s);
    const KRef chunk = lower_open_count(k, ceil_div(all, s->pixels), KFOR_PARALLEL, "tile", &opened);
    Blocks b = {.first = k_expr(k, "$ * #", chunk, s->pixels)};
    b.pixels =
        all % s->pixels == 0 ? k_index(k, s->pixels) : k_expr(k, "min(#, # - $)", s->pixels, all, b.first);
    b.group = lower_open_count(k, s->c.group, KFOR_SERIAL, "g", &opened);
    if (s->window != 0)
        copy(s, b.first, b.pixels, b.group);
    else
        b.x = int_pixel_of(&s->c, s->d, b.first, b.group).x;
    if (s->bytes > 0)
        emit_bytes(s, &b);
    if (s->bytes < s->c.oc)
        emit_sums(s, &b);
    lower_close(s->c.l, opened);
}

// --- which convolutions --------------------------------------------------------------------------

static bool fits(const Mve *s)
{
    const IntConv *c = &s->c;
    const TargetCaps *caps = c->l->caps;
    const bool is_dense = c->stride_c == 1 || c->ic == 1;
    return caps->has_mve && caps->threads <= 1 && int_conv_knows_bias(c) && int_conv_knows_zero(c) &&
           is_dense && length(s) >= MVE_BLOCK && c->oc >= 2 && (c->group == 1 || c->oc >= MVE_BLOCK) &&
           int_conv_has_byte_weights(c, s->values);
}

static bool is_even(const Mve *s)
{
    const IntConv *c = &s->c;
    const int64_t step = c->sw * c->stride_w;
    return s->runs == 1 && s->is_inside && (c->h == 1 || c->sh * c->stride_h == c->w_out * step) &&
           (c->n == 1 || c->stride_n == c->h * c->w_out * step);
}

static int64_t pixels_of(const Mve *s)
{
    const int64_t fit = WINDOW_BYTES / s->to / 2 * 2;
    if (n_pixels(s) == 1)
        return 1;
    return s->bytes < s->c.oc || fit < 2 ? 2 : fit < MAX_PIXELS ? fit : MAX_PIXELS;
}

static int64_t sums_of(const Mve *s)
{
    const int64_t n = ceil_div(s->c.oc - s->bytes, MVE_BLOCK);
    return (n < CHUNK ? n : CHUNK) * MVE_BLOCK * (s->pixels > 1 ? 2 : 1);
}

static uint64_t bytes_of_windows(const Mve *s)
{
    return (uint64_t)((s->pixels - 1) * s->to + mve_padded(length(s)));
}

static void add_params(Mve *s)
{
    Lower *l = s->c.l;
    const bool is_in_place =
        n_pixels(s) == 1 && s->is_even && int_conv_is_signed(&s->c) && s->n % MVE_INPUTS == 0;
    s->x = lower_param(l, s->c.x, PARAM_READ);
    for (int64_t o = 0; o < s->c.oc; o += MVE_BLOCK) {
        s->group_words += words_of_sums(s);
        if (o < s->bytes) {
            s->group_words += mve_tail_words(&s->scales, o);
            s->sums_at = s->group_words;
        }
    }
    s->begin = int_conv_begins(&s->c, s->values, s->zero);
    Mve *packing = ARENA_NEW(l->pass->perm, Mve);
    *packing = *s;
    s->weights = lower_param_filled(l, node_name(l->g, s->c.w), DTYPE_i32, pack, packing,
                                    (uint64_t)(s->c.group * s->group_words) * 4);
    if (!is_in_place)
        s->window = lower_param_scratch(l, "window", DTYPE_i8, bytes_of_windows(s));
    if (sums_of(s) > 0)
        s->sums = lower_param_scratch(l, "sums", DTYPE_i32, (uint64_t)sums_of(s));
}

bool int_conv_mve(const IntConv *c, const Domain *d, const int32_t *values, bool is_inside)
{
    Lower *l = c->l;
    Mve s = {.c = *c, .d = d, .values = values, .is_inside = is_inside};
    s.is_joined = int_conv_is_joined(c);
    s.runs = s.is_joined ? c->kh : c->kh * c->kw;
    s.n = s.is_joined ? c->kw * c->ic : c->ic;
    if (!fits(&s))
        return false;
    s.zero = int_conv_zero_value(c) - (int_conv_is_signed(c) ? 0 : 128);
    s.is_even = is_even(&s);
    s.to = s.is_even && c->sw * c->stride_w == s.n ? s.n : mve_padded(length(&s));
    if (mve_scales_find(c, d, c->oc, &s.scales))
        s.bytes = c->oc / MVE_BLOCK * MVE_BLOCK;
    s.pixels = pixels_of(&s);
    if (!lower_take(l))
        return false;
    add_params(&s);
    emit(&s);
    return true;
}
