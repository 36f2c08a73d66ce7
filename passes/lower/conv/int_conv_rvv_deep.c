// SPDX-License-Identifier: Apache-2.0
// int_conv of one input channel a group for microcontrollers with the vectors of RISC-V (ir/kernel/rvv.h):
// depthwise convolutions of any multiplier, one channel of the result a lane. Pixels whose windows are inside
// of the input are read where they are; the windows of others, and of inputs without a sign, are copied
// first, four at a time. Or the rows that a row of the result reads are copied, with borders, of 16 channels
// at a time: then narrow images have no pixels of their own kind, and the result can take the input's place.
// In copied rows, pixels of few channels that follow each other are one pixel of as many channels as there
// are lanes.

#include "ir/kernel/rvv.h"
#include "passes/lower/conv/conv.h"
#include "passes/lower/conv/int_conv_byte_scale.h"
#include "passes/lower/conv/int_conv_byte_windows.h"

#include <string.h>

enum { WINDOW_BYTES = 2304, SET = 64, HEADS = 2 };

typedef struct Deep {
    ByteWindows v; // of all channels of a set at once
    const IntConv *c;
    const int32_t *values; // of the weights, less their zero points
    const int64_t *begin;  // what sums begin with, by channel
    ByteScales scales;
    int64_t *set_at;       // by set: words of the weights of those before it
    uint32_t weights;      // param
    // Of copied rows: how many there are, how many columns each has, and how many of them are the input's. No
    // columns: windows are copied.
    int64_t rows, columns, there;
    int64_t joined; // pixels whose channels are computed as one pixel's
} Deep;

// --- weights -------------------------------------------------------------------------------------

static int64_t taps(const Deep *s)
{
    return s->c->kh * s->c->kw;
}

static int64_t lanes(const Deep *s, int64_t first)
{
    const int64_t left = s->v.c.oc - first;
    return left < RVV_LANES ? left : RVV_LANES;
}

// Of what is copied: how far taps are apart, and windows.
static int64_t row_pitch(const Deep *s)
{
    return s->v.c.ic * (s->columns != 0 ? s->c->dh * s->columns : s->c->kw);
}

static int64_t column_pitch(const Deep *s)
{
    return s->v.c.ic * (s->columns != 0 ? s->c->dw : 1);
}

static int64_t window_step(const Deep *s)
{
    return s->columns != 0 ? s->joined * s->c->sw * s->v.c.ic : s->v.to;
}

static void pack_heads(const Deep *s, unsigned char **out)
{
    const IntConv *c = s->c;
    const int64_t pitches[HEADS][2] = {{c->dh * c->stride_h, c->dw * c->stride_w},
                                       {row_pitch(s), column_pitch(s)}};
    for (uint32_t i = 0; i < HEADS; i++) {
        const int64_t words[RVV_HEAD] = {c->kh, c->kw, pitches[i][0], pitches[i][1],
                                         byte_scales_high(&s->scales), s->v.c.oc / (s->joined * s->v.c.ic)};
        for (uint32_t j = 0; j < RVV_HEAD; j++)
            byte_put_word(out, words[j]);
    }
}

static ByteScales scales_of(const Deep *s, int64_t set)
{
    ByteScales one = s->scales;
    one.of += set * one.channels;
    one.groups = 1;
    return one;
}

// The block of a set that begins at channel `first` of it.
static void pack_block(const Deep *s, int64_t set, int64_t first, unsigned char **out)
{
    const int64_t n = lanes(s, first), at = set * s->v.c.oc + first, weights = taps(s) * n;
    for (int64_t j = 0; j < n; j++)
        byte_put_word(out, s->begin[at + j] + s->scales.moved);
    for (int64_t i = 0; i < weights; i++)
        *(*out)++ = (unsigned char)s->values[(at + i % n) * taps(s) + i / n];
    for (int64_t i = weights; i % 4 != 0; i++)
        *(*out)++ = 0;
    const ByteScales scales = scales_of(s, set);
    byte_pack_tail(&scales, 0, first, out);
}

static void pack(const void *ctx, void *bytes)
{
    const Deep *s = ctx;
    unsigned char *out = bytes;
    for (int64_t set = 0; set < s->v.c.group; set++) {
        pack_heads(s, &out);
        for (int64_t i = 0; i < s->v.c.oc; i += RVV_LANES)
            pack_block(s, set, i, &out);
    }
}

static int64_t words_of_set(const Deep *s, int64_t set)
{
    const ByteScales scales = scales_of(s, set);
    int64_t words = HEADS * RVV_HEAD;
    for (int64_t i = 0; i < s->v.c.oc; i += RVV_LANES)
        words += lanes(s, i) + ceil_div(taps(s) * lanes(s, i), 4) + byte_tail_words(&scales, i);
    return words;
}

// Sets have as many words as their scales need.
static KRef weights_of(const Deep *s, KRef set)
{
    Kernel *k = s->c->l->k;
    const int64_t n = s->v.c.group, each = s->set_at[n] / n;
    bool is_even = true;
    for (int64_t i = 0; i <= n; i++)
        is_even = is_even && s->set_at[i] == i * each;
    if (is_even)
        return k_expr(k, "$ * #", set, each);
    KRef at = k_index(k, s->set_at[n - 1]);
    for (int64_t i = n - 1; i-- > 0;)
        at = k_select(k, k_expr(k, "$ < #", set, i + 1), k_index(k, s->set_at[i]), at);
    return at;
}

// --- loops ---------------------------------------------------------------------------------------

typedef struct Row {
    KRef image, y, set;
} Row;

static IntPixel pixel_at(const Deep *s, const Row *r, KRef column)
{
    const IntConv *c = s->c;
    Kernel *k = c->l->k;
    const KRef first = k_expr(k, "$ * #", r->set, s->v.c.ic);
    IntPixel p = {.at = conv_point(s->v.d, r->image, first, r->y, column)};
    p.row = k_expr(k, "$ * # + #", r->y, c->sh, -c->pad_h);
    p.column = k_expr(k, "$ * # + #", column, c->sw, -c->pad_w);
    p.x = k_expr(k, "$ * # + $ * # + ($ * # + $)", r->image, c->stride_n, p.row, c->stride_h, p.column,
                 c->stride_w, first);
    return p;
}

// x: the window of the first of the pixels, head: which of the two.
static void emit_call(const Deep *s, const Row *r, const IntPixel *p, KRef pixels, int64_t head)
{
    const IntConv *c = s->c;
    Kernel *k = c->l->k;
    const int64_t ic = s->v.c.ic, pitch = s->joined * int_conv_result(c, s->v.d)->stride[s->v.d->rank - 1];
    const int64_t steps[HEADS] = {c->sw * c->stride_w, window_step(s)};
    const int64_t reach[HEADS] = {(c->kh - 1) * c->dh * c->stride_h + (c->kw - 1) * c->dw * c->stride_w + ic,
                                  (c->kh - 1) * row_pitch(s) + (c->kw - 1) * column_pitch(s) +
                                      s->joined * ic};
    const KRef operands[KDEV_MAX_OPERANDS + 1] = {
        int_result_at(&s->v.c, s->v.d, p, r->set, 0),
        head == 0 ? k_address(k, s->v.x, p->x) : k_address(k, s->v.window, k_index(k, 0)),
        k_address(k, s->weights, weights_of(s, r->set)),
        k_index(k, s->v.c.oc),
        pixels,
        k_index(k, pitch),
        k_index(k, steps[head]),
        k_index(k, reach[head]),
        k_index(k, head)};
    k_device_list(k, KDEV_rvv_deep, s->scales.shift, operands);
    int_ends_emit(c, &s->scales.ends, &(IntBytes){operands[0], operands[3], pixels, pitch});
}

// Pixels of a row from `begin` to end - 1 by copies of their windows.
static void emit_copied(const Deep *s, const Row *r, KRef begin, KRef end)
{
    Kernel *k = s->c->l->k;
    const KRef at = k_for(k, begin, end, s->v.pixels, KFOR_SERIAL, "j");
    const KRef pixels = k_expr(k, "min(#, $ - $)", s->v.pixels, end, at);
    const KRef i = k_for(k, k_index(k, 0), pixels, 1, KFOR_SERIAL, "i");
    const IntPixel p = pixel_at(s, r, k_add(k, at, i));
    byte_windows_copy_pixel(&s->v, &p, k_expr(k, "$ * #", i, s->v.to));
    k_end(k);
    const IntPixel first = pixel_at(s, r, at);
    emit_call(s, r, &first, pixels, 1);
    k_end(k);
}

// The columns a .. b - 1 of a row are inside of the input, if its rows are.
static void emit_parts(const Deep *s, const Row *r, int64_t a, int64_t b)
{
    const IntConv *c = s->c;
    Kernel *k = c->l->k;
    const KRef zero = k_index(k, 0);
    const IntPixel p = pixel_at(s, r, k_index(k, a));
    const KRef is_whole = k_expr(k, "0 <= $ & $ < #", p.row, p.row, c->in_h - (c->kh - 1) * c->dh);
    k_if(k, is_whole);
    emit_call(s, r, &p, k_index(k, b - a), 0);
    k_end(k);
    const KRef side = k_for(k, zero, k_index(k, 2), 1, KFOR_SERIAL, "side");
    const KRef is_left = k_expr(k, "$ < 1", side);
    const KRef begin = k_select(k, is_whole, k_index(k, b), zero),
               end = k_select(k, is_whole, k_index(k, a), zero);
    emit_copied(s, r, k_select(k, is_left, zero, begin), k_select(k, is_left, end, k_index(k, c->w_out)));
    k_end(k);
}

static void emit_row(const Deep *s, const Row *r)
{
    const IntConv *c = s->c;
    Kernel *k = c->l->k;
    const int64_t room = c->in_w - (c->kw - 1) * c->dw + c->pad_w,
                  inside = room > 0 ? ceil_div(room, c->sw) : 0;
    const int64_t a = ceil_div(c->pad_w, c->sw), b = inside < c->w_out ? inside : c->w_out;
    if (!int_conv_is_signed(c) || a >= b) {
        emit_copied(s, r, k_index(k, 0), k_index(k, c->w_out));
    } else if (s->v.is_inside) {
        const IntPixel p = pixel_at(s, r, k_index(k, 0));
        emit_call(s, r, &p, k_index(k, c->w_out), 0);
    } else {
        emit_parts(s, r, a, b);
    }
}

static void emit(const Deep *s)
{
    const IntConv *c = s->c;
    Kernel *k = c->l->k;
    uint32_t opened = 0;
    Row r;
    r.image = lower_open_count(k, c->n, KFOR_PARALLEL, "image", &opened);
    r.y = lower_open_count(k, c->h, KFOR_PARALLEL, "row", &opened);
    r.set = lower_open_count(k, s->v.c.group, KFOR_SERIAL, "set", &opened);
    emit_row(s, &r);
    lower_close(c->l, opened);
}

// --- rows that are copied ------------------------------------------------------------------------

static KRef place_of(const Deep *s, KRef row, int64_t column)
{
    Kernel *k = s->c->l->k;
    const int64_t ic = s->v.c.ic;
    return k_address(k, s->v.window, k_expr(k, "$ * # + #", row, s->columns * ic, column * ic));
}

// Row `y` of the input, which may not exist, as row `to` of those that are there.
static void emit_input_row(const Deep *s, const Row *r, KRef to, KRef y)
{
    const IntConv *c = s->c;
    Kernel *k = c->l->k;
    const int64_t ic = s->v.c.ic;
    const bool is_run = c->stride_w == ic;
    const KRef zero = k_index(k, 0), one = k_index(k, 1), n = k_index(k, s->there);
    const KRef x = k_expr(k, "$ * # + $ * # + $ * #", r->image, c->stride_n, y, c->stride_h, r->set, ic);
    k_if(k, k_expr(k, "0 <= $ & $ < #", y, y, c->in_h));
    k_device(k, int_conv_is_signed(c) ? KDEV_byte_window_i8 : KDEV_byte_window_u8, place_of(s, to, c->pad_w),
             k_address(k, s->v.x, x), k_index(k, is_run ? s->there * ic : ic), is_run ? one : n,
             k_index(k, c->stride_w), one, zero, zero);
    k_else(k);
    k_device(k, KDEV_byte_fill, place_of(s, to, c->pad_w), k_index(k, s->there * ic), k_index(k, s->v.zero));
    k_end(k);
}

// Each row of the result needs some rows more than the one before. What all need stays, at the begin.
static void emit_rows(const Deep *s, Row *r)
{
    const IntConv *c = s->c;
    Kernel *k = c->l->k;
    const int64_t more = c->sh < s->rows ? c->sh : s->rows, kept = s->rows - more;
    const int64_t row = s->columns * s->v.c.ic;
    const KRef zero = k_index(k, 0), one = k_index(k, 1);
    uint32_t opened = 0;
    k_device(k, KDEV_byte_fill, place_of(s, zero, 0), k_index(k, s->rows * row), k_index(k, s->v.zero));
    if (kept != 0) {
        const KRef i = lower_open_count(k, kept, KFOR_SERIAL, "i", &opened);
        emit_input_row(s, r, i, k_expr(k, "$ + #", i, -c->pad_h));
        lower_close(c->l, opened);
    }
    opened = 0;
    r->y = lower_open_count(k, c->h, KFOR_SERIAL, "row", &opened);
    uint32_t inner = 0;
    const KRef i = lower_open_count(k, more, KFOR_SERIAL, "i", &inner);
    emit_input_row(s, r, k_expr(k, "$ + #", i, kept),
                   k_expr(k, "$ * # + $ + #", r->y, c->sh, i, kept - c->pad_h));
    lower_close(c->l, inner);
    const IntPixel p = pixel_at(s, r, zero);
    emit_call(s, r, &p, k_index(k, c->w_out / s->joined), 1);
    if (kept != 0)
        k_device(k, KDEV_byte_window_i8, place_of(s, zero, 0), place_of(s, k_index(k, more), 0),
                 k_index(k, kept * row), one, zero, one, zero, zero);
    lower_close(c->l, opened);
}

static void emit_copied_rows(const Deep *s)
{
    const IntConv *c = s->c;
    uint32_t opened = 0;
    Row r = {.image = lower_open_count(c->l->k, c->n, KFOR_PARALLEL, "image", &opened)};
    r.set = lower_open_count(c->l->k, s->v.c.group, KFOR_SERIAL, "set", &opened);
    emit_rows(s, &r);
    lower_close(c->l, opened);
}

// --- which convolutions --------------------------------------------------------------------------

// Inputs whose channels are computed together: all of them, or a divisor of many. shared: channels of each,
// most: channels.
static int64_t set_of(int64_t inputs, int64_t shared, int64_t most)
{
    for (int64_t n = most / shared; n > 0 && inputs * shared > most; n--)
        if (inputs % n == 0 && n * shared % RVV_LANES == 0)
            return n;
    return inputs;
}

static bool fits(const Deep *s)
{
    enum { FEWEST = 4, MOST = 8192 }; // lanes; bytes of a window
    const IntConv *c = s->c;
    return c->l->caps->byte_vectors == BYTE_VECTORS_RVV && byte_windows_fit(&s->v) && c->ic == 1 &&
           c->oc <= RVV_MOST_SHARED && (c->group > 1 || s->joined > 1) &&
           s->joined * c->group * c->oc >= FEWEST && (c->stride_c == 1 || c->group == 1) &&
           s->v.to <= MOST && !int_conv_has_live_axes(c, s->v.d) && int_conv_has_byte_weights(c, s->values);
}

// Channels of the pixels that are joined, pixel after pixel.
static void repeat_channels(Deep *s)
{
    const int64_t n = s->c->group, all = s->joined * n;
    Arena *a = s->c->l->pass->perm;
    RequantScale *of = ARENA_ARRAY(a, RequantScale, (size_t)all);
    int32_t *values = ARENA_ARRAY(a, int32_t, all * taps(s));
    int64_t *begin = ARENA_ARRAY(a, int64_t, all);
    for (int64_t i = 0; i < all; i++) {
        of[i] = s->scales.of[i % n];
        begin[i] = s->begin[i % n];
        memcpy(values + i * taps(s), s->values + i % n * taps(s), (size_t)taps(s) * sizeof *values);
    }
    s->scales.of = of;
    s->scales.channels = s->v.c.oc = all;
    s->begin = begin;
    s->values = values;
}

static void add_params(Deep *s)
{
    Lower *l = s->c->l;
    s->v.x = lower_param(l, s->c->x, PARAM_READ);
    if (s->columns != 0)
        s->v.window = lower_param_scratch(l, "rows", DTYPE_i8, (uint64_t)(s->rows * s->columns * s->v.c.ic));
    else if (!s->v.is_inside || !int_conv_is_signed(s->c))
        s->v.window = lower_param_scratch(l, "window", DTYPE_i8, (uint64_t)(s->v.pixels * s->v.to));
    s->begin = int_conv_begins(s->c, s->values, s->v.zero);
    if (s->joined > 1)
        repeat_channels(s);
    s->set_at = ARENA_ARRAY(l->pass->perm, int64_t, (size_t)s->v.c.group + 1);
    for (int64_t i = 0; i < s->v.c.group; i++)
        s->set_at[i + 1] = s->set_at[i] + words_of_set(s, i);
    Deep *packing = ARENA_NEW(l->pass->perm, Deep);
    *packing = *s;
    packing->c = &packing->v.c;
    s->weights = lower_param_filled(l, node_name(l->g, s->c->w), DTYPE_i32, pack, packing,
                                    (uint64_t)s->set_at[s->v.c.group] * 4);
}

// How many channels and copied windows are in memory at a time, at most. Fewer take less scratch memory. No
// windows: rows are copied.
typedef struct Way {
    int64_t channels, pixels;
} Way;

// False: windows do not reach into the input, or they are too large.
static bool measure_rows(Deep *s)
{
    enum { MOST = 16384 };
    const IntConv *c = s->c;
    s->rows = (c->kh - 1) * c->dh + 1;
    s->columns = int_conv_reach(c->w_out, c->sw, c->kw, c->dw);
    const int64_t room = s->columns - c->pad_w;
    s->there = room < c->in_w ? room : c->in_w;
    return s->there > 0 && s->rows * s->columns * s->v.c.ic <= MOST;
}

// How many pixels of a row can be one. Their channels follow each other in rows and in the result then.
static int64_t pixels_to_join(const Deep *s)
{
    const IntConv *c = s->c;
    const Access *y = int_conv_result(c, s->v.d);
    const bool follow = y->stride[s->v.d->rank - 1] == c->group && (y->stride[1] == 1 || c->group == 1);
    return s->columns != 0 && c->oc == 1 && c->sw == 1 && follow && c->group < RVV_LANES
               ? int_conv_step(c->w_out, RVV_LANES / c->group)
               : 1;
}

static bool lower_in_way(const IntConv *c, const Domain *d, const int32_t *values, bool is_inside, Way way)
{
    IntConv sets = *c;
    sets.ic = set_of(c->group, c->oc, way.channels);
    sets.oc = sets.ic * c->oc;
    sets.group = c->group / sets.ic;
    Deep s = {.v = byte_windows_of(&sets, d, is_inside, 1), .c = c, .values = values, .joined = 1};
    s.scales = (ByteScales){.groups = sets.group, .channels = sets.oc, .block = RVV_LANES};
    if (way.pixels == 0 && !measure_rows(&s))
        return false;
    s.joined = pixels_to_join(&s);
    if (!fits(&s) || !byte_scales_find(c, d, &s.scales) || !lower_take(c->l))
        return false;
    s.v.to = byte_windows_length(&s.v);
    const int64_t fit = WINDOW_BYTES / s.v.to;
    s.v.pixels = fit < 1 ? 1 : fit < way.pixels ? fit : way.pixels;
    s.v.zero = int_conv_zero_value(c) - (int_conv_is_signed(c) ? 0 : 128);
    add_params(&s);
    if (s.columns != 0)
        emit_copied_rows(&s);
    else
        emit(&s);
    return true;
}

bool int_conv_rvv_deep(const IntConv *c, const Domain *d, const int32_t *values, bool is_inside)
{
    static const Way ways[] = {{RVV_LANES, 0}, {SET, 4}, {SET, 1}, {RVV_LANES, 1}};
    for (uint32_t i = 0; i < sizeof ways / sizeof *ways && c->ic == 1 && c->oc > 0; i++)
        if (lower_in_way(c, d, values, is_inside, ways[i]))
            return true;
    return false;
}
