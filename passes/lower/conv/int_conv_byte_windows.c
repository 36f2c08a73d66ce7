// SPDX-License-Identifier: Apache-2.0
// See int_conv_byte_windows.h.
#include "passes/lower/conv/int_conv_byte_windows.h"

ByteTaps byte_taps_inside(Kernel *k, KRef at, int64_t taps, int64_t dilation, int64_t in)
{
    const KRef lo = k_expr(k, "(max(0, 0 - $) + #) / #", at, dilation - 1, dilation);
    const KRef hi = k_expr(k, "min(#, (max(0, # - $) + #) / #)", taps, in, at, dilation - 1, dilation);
    return (ByteTaps){lo, k_expr(k, "max(0, $ - $)", hi, lo)};
}

static KDevice window_function(const ByteWindows *s)
{
    return int_conv_is_signed(&s->c) ? KDEV_byte_window_i8 : KDEV_byte_window_u8;
}

// Windows of pixels that follow each other, `step` elements apart, of which none leaves the input.
static void copy_windows(const ByteWindows *s, KRef x, KRef pixels, int64_t step, KRef to)
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
static void copy_even(const ByteWindows *s, KRef x, KRef pixels)
{
    Kernel *k = s->c.l->k;
    const KRef zero = k_index(k, 0), one = k_index(k, 1);
    const int64_t step = s->c.sw * s->c.stride_w;
    if (step != s->n) {
        copy_windows(s, x, pixels, step, zero);
        return;
    }
    k_device(k, window_function(s), k_address(k, s->window, zero), k_address(k, s->x, x),
             k_expr(k, "$ * #", pixels, s->n), one, zero, one, zero, zero);
}

// The window of a pixel at the border: first the zero point, then what is inside.
static void copy_border(const ByteWindows *s, const IntPixel *p, KRef to)
{
    const IntConv *c = &s->c;
    Kernel *k = c->l->k;
    const ByteTaps y = byte_taps_inside(k, p->row, c->kh, c->dh, c->in_h);
    const ByteTaps x = byte_taps_inside(k, p->column, c->kw, c->dw, c->in_w);
    const KRef is_there = k_expr(k, "0 < $ & 0 < $", y.n, x.n);
    const KRef from =
        k_expr(k, "$ + $ * # + $ * #", p->x, y.lo, c->dh * c->stride_h, x.lo, c->dw * c->stride_w);
    const KRef at = k_expr(k, "$ + ($ * # + $) * #", to, y.lo, c->kw, x.lo, c->ic);
    k_device(k, KDEV_byte_fill, k_address(k, s->window, to), k_index(k, byte_windows_length(s)),
             k_index(k, s->zero));
    k_if(k, is_there);
    k_device(k, window_function(s), k_address(k, s->window, at), k_address(k, s->x, from),
             s->is_joined ? k_expr(k, "$ * #", x.n, c->ic) : k_index(k, c->ic),
             s->is_joined ? k_index(k, 1) : x.n, k_index(k, s->is_joined ? 0 : c->dw * c->stride_w), y.n,
             k_index(k, c->dh * c->stride_h), k_index(k, c->kw * c->ic));
    k_end(k);
}

void byte_windows_copy_pixel(const ByteWindows *s, const IntPixel *p, KRef to)
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

static void copy_each(const ByteWindows *s, KRef first, KRef pixels, KRef group)
{
    Kernel *k = s->c.l->k;
    const KRef i = s->pixels == 1 ? k_index(k, 0) : k_for(k, k_index(k, 0), pixels, 1, KFOR_SERIAL, "i");
    const IntPixel p = int_pixel_of(&s->c, s->d, k_add(k, first, i), group);
    byte_windows_copy_pixel(s, &p, k_expr(k, "$ * #", i, s->to));
    lower_close(s->c.l, s->pixels > 1);
}

// Pixels of one row: those go together that do not leave the input, from a to b - 1.
static void copy_row(const ByteWindows *s, KRef first, KRef group)
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

static void copy(const ByteWindows *s, KRef first, KRef pixels, KRef group)
{
    if (s->is_even)
        copy_even(s, int_pixel_of(&s->c, s->d, first, group).x, pixels);
    else if (s->pixels > 1 && s->c.w_out % s->pixels == 0)
        copy_row(s, first, group);
    else
        copy_each(s, first, pixels, group);
}

static bool is_even(const ByteWindows *s)
{
    const IntConv *c = &s->c;
    const int64_t step = c->sw * c->stride_w;
    return s->runs == 1 && s->is_inside && (c->h == 1 || c->sh * c->stride_h == c->w_out * step) &&
           (c->n == 1 || c->stride_n == c->h * c->w_out * step);
}

// Some pixels of all, or of the row that a loop goes to.
static BytePixels open_pixels(const ByteWindows *s, uint32_t *opened)
{
    Kernel *k = s->c.l->k;
    const int64_t rows = s->c.n * s->c.h, all = s->is_by_rows ? s->c.w_out : byte_windows_pixels(s);
    const KRef row = s->is_by_rows ? lower_open_count(k, rows, KFOR_PARALLEL, "row", opened) : k_index(k, 0);
    const KRef chunk = lower_open_count(k, ceil_div(all, s->pixels), KFOR_PARALLEL, "tile", opened);
    const KRef first = k_expr(k, "$ * #", chunk, s->pixels);
    return (BytePixels){.first = k_expr(k, "$ * # + $", row, all, first),
                        .pixels = all % s->pixels == 0 ? k_index(k, s->pixels)
                                                       : k_expr(k, "min(#, # - $)", s->pixels, all, first)};
}

BytePixels byte_windows_open(const ByteWindows *s, uint32_t *opened)
{
    Lower *l = s->c.l;
    Kernel *k = l->k;
    BytePixels b = open_pixels(s, opened);
    b.group = lower_open_count(k, s->c.group, KFOR_SERIAL, "g", opened);
    if (s->window != 0)
        copy(s, b.first, b.pixels, b.group);
    else
        b.x = int_pixel_of(&s->c, s->d, b.first, b.group).x;
    return b;
}

int32_t byte_windows_weight(const ByteWindows *s, const int32_t *values, const int64_t *at)
{
    const IntConv *c = &s->c;
    const int64_t o = at[1], i = at[2];
    if (o >= c->oc || i >= byte_windows_length(s))
        return 0;
    const int64_t run = i / s->n, element = i % s->n;
    const int64_t tap = s->is_joined ? run * c->kw + element / c->ic : run;
    return values[((at[0] * c->oc + o) * c->ic + element % c->ic) * c->kh * c->kw + tap];
}

int64_t byte_windows_pixels(const ByteWindows *s)
{
    return s->c.n * s->c.h * s->c.w_out;
}

int64_t byte_windows_length(const ByteWindows *s)
{
    return s->runs * s->n;
}

KRef byte_windows_at(const ByteWindows *s, KRef x)
{
    Kernel *k = s->c.l->k;
    return s->window != 0 ? k_address(k, s->window, k_index(k, 0)) : k_address(k, s->x, x);
}

static int64_t padded(const ByteWindows *s, int64_t n)
{
    return ceil_div(n, s->unit) * s->unit;
}

ByteWindows byte_windows_of(const IntConv *c, const Domain *d, bool is_inside, int64_t unit)
{
    ByteWindows s = {.c = *c, .d = d, .unit = unit, .is_inside = is_inside};
    s.is_joined = int_conv_is_joined(c);
    s.runs = s.is_joined ? c->kh : c->kh * c->kw;
    s.n = s.is_joined ? c->kw * c->ic : c->ic;
    s.is_even = is_even(&s);
    s.to = s.is_even && c->sw * c->stride_w == s.n ? s.n : padded(&s, byte_windows_length(&s));
    return s;
}

bool byte_windows_fit(const ByteWindows *s)
{
    const IntConv *c = &s->c;
    return c->l->caps->threads <= 1 && int_conv_knows_bias(c) && int_conv_knows_zero(c) &&
           (c->stride_c == 1 || c->ic == 1);
}

void byte_windows_add_params(ByteWindows *s)
{
    Lower *l = s->c.l;
    const bool is_in_place =
        byte_windows_pixels(s) == 1 && s->is_even && int_conv_is_signed(&s->c) && s->n % s->unit == 0;
    s->x = lower_param(l, s->c.x, PARAM_READ);
    if (!is_in_place)
        s->window = lower_param_scratch(
            l, "window", DTYPE_i8, (uint64_t)((s->pixels - 1) * s->to + padded(s, byte_windows_length(s))));
}
