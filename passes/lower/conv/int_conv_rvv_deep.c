// SPDX-License-Identifier: Apache-2.0
// int_conv of one input channel a group for microcontrollers with the vectors of RISC-V (ir/kernel/rvv.h):
// depthwise convolutions of any multiplier, one channel of the result a lane. Pixels whose windows are inside
// of the input are read where they are; the windows of others, and of inputs without a sign, are copied
// first, four at a time.
#include "ir/kernel/rvv.h"
#include "passes/lower/conv/conv.h"
#include "passes/lower/conv/int_conv_byte_scale.h"
#include "passes/lower/conv/int_conv_byte_windows.h"

enum { WINDOW_BYTES = 2304, SET = 64, HEADS = 2 };

typedef struct Deep {
    ByteWindows v; // of all channels of a set at once
    const IntConv *c;
    const int32_t *values; // of the weights, less their zero points
    const int64_t *begin;  // what sums begin with, by channel
    ByteScales scales;
    int64_t set_words; // of the weights of a set
    uint32_t weights;  // param
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

static void pack_heads(const Deep *s, unsigned char **out)
{
    const IntConv *c = s->c;
    const int64_t pitches[HEADS][2] = {{c->dh * c->stride_h, c->dw * c->stride_w},
                                       {c->kw * s->v.c.ic, s->v.c.ic}};
    for (uint32_t i = 0; i < HEADS; i++) {
        const int64_t words[RVV_HEAD] = {c->kh, c->kw, pitches[i][0], pitches[i][1],
                                         byte_scales_high(&s->scales), s->v.c.oc / s->v.c.ic};
        for (uint32_t j = 0; j < RVV_HEAD; j++)
            byte_put_word(out, words[j]);
    }
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
    byte_pack_tail(&s->scales, set, first, out);
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

static int64_t words_of_set(const Deep *s)
{
    int64_t words = HEADS * RVV_HEAD;
    for (int64_t i = 0; i < s->v.c.oc; i += RVV_LANES)
        words += lanes(s, i) + ceil_div(taps(s) * lanes(s, i), 4) + byte_tail_words(&s->scales, i);
    return words;
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
    const int64_t ic = s->v.c.ic, pitch = int_conv_result(c, s->v.d)->stride[s->v.d->rank - 1];
    const int64_t steps[HEADS] = {c->sw * c->stride_w, s->v.to};
    const int64_t reach[HEADS] = {(c->kh - 1) * c->dh * c->stride_h + (c->kw - 1) * c->dw * c->stride_w + ic,
                                  taps(s) * ic};
    const KRef operands[KDEV_MAX_OPERANDS + 1] = {
        int_result_at(&s->v.c, s->v.d, p, r->set, 0),
        head == 0 ? k_address(k, s->v.x, p->x) : k_address(k, s->v.window, k_index(k, 0)),
        k_address(k, s->weights, k_expr(k, "$ * #", r->set, s->set_words)),
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
    enum { FEWEST = 4, MOST = 8192 }; // channels; bytes of a window
    const IntConv *c = s->c;
    return c->l->caps->byte_vectors == BYTE_VECTORS_RVV && byte_windows_fit(&s->v) && c->ic == 1 &&
           c->oc <= RVV_MOST_SHARED && c->group > 1 && c->group * c->oc >= FEWEST && c->stride_c == 1 &&
           s->v.to <= MOST && !int_conv_has_live_axes(c, s->v.d) && int_conv_has_byte_weights(c, s->values);
}

static void add_params(Deep *s)
{
    Lower *l = s->c->l;
    s->v.x = lower_param(l, s->c->x, PARAM_READ);
    if (!s->v.is_inside || !int_conv_is_signed(s->c))
        s->v.window = lower_param_scratch(l, "window", DTYPE_i8, (uint64_t)(s->v.pixels * s->v.to));
    s->begin = int_conv_begins(s->c, s->values, s->v.zero);
    s->set_words = words_of_set(s);
    Deep *packing = ARENA_NEW(l->pass->perm, Deep);
    *packing = *s;
    packing->c = &packing->v.c;
    s->weights = lower_param_filled(l, node_name(l->g, s->c->w), DTYPE_i32, pack, packing,
                                    (uint64_t)(s->v.c.group * s->set_words) * 4);
}

// How many channels and copied windows are in memory at a time, at most. Fewer take less scratch memory.
typedef struct Way {
    int64_t channels, pixels;
} Way;

static bool lower_in_way(const IntConv *c, const Domain *d, const int32_t *values, bool is_inside, Way way)
{
    IntConv sets = *c;
    sets.ic = set_of(c->group, c->oc, way.channels);
    sets.oc = sets.ic * c->oc;
    sets.group = c->group / sets.ic;
    Deep s = {.v = byte_windows_of(&sets, d, is_inside, 1), .c = c, .values = values};
    s.scales = (ByteScales){.groups = sets.group, .channels = sets.oc, .block = RVV_LANES};
    if (!fits(&s) || !byte_scales_find(c, d, &s.scales) || !lower_take(c->l))
        return false;
    s.v.to = byte_windows_length(&s.v);
    const int64_t fit = WINDOW_BYTES / s.v.to;
    s.v.pixels = fit < 1 ? 1 : fit < way.pixels ? fit : way.pixels;
    s.v.zero = int_conv_zero_value(c) - (int_conv_is_signed(c) ? 0 : 128);
    add_params(&s);
    emit(&s);
    return true;
}

bool int_conv_rvv_deep(const IntConv *c, const Domain *d, const int32_t *values, bool is_inside)
{
    static const Way ways[] = {{SET, 4}, {SET, 1}, {RVV_LANES, 1}};
    for (uint32_t i = 0; i < sizeof ways / sizeof *ways && c->ic == 1 && c->oc > 0; i++)
        if (lower_in_way(c, d, values, is_inside, ways[i]))
            return true;
    return false;
}
