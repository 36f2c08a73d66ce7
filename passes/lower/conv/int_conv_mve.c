// SPDX-License-Identifier: Apache-2.0
// int_conv for microcontrollers with vectors of bytes (ir/kernel/mve.h). The windows of some pixels are
// copied next to each other, with the zero point where they leave the input; then device functions sum up
// blocks of four channels for two pixels at a time, and bring them back to bytes where `requantise` found
// numbers for it. Other sums are stored one by one.
#include "ir/graph/tensor.h"
#include "ir/kernel/mve.h"
#include "passes/lower/conv/conv.h"
#include "passes/lower/conv/int_conv_byte_scale.h"
#include "passes/lower/conv/int_conv_byte_windows.h"
#include "passes/lower/operand.h"

enum {
    WINDOW_BYTES = 256, // of pixels that are computed in one call
    MAX_PIXELS = 8,
    CHUNK = 4, // blocks whose sums are in memory at a time
};

typedef struct Mve {
    ByteWindows v;
    const int32_t *values;        // of the weights, less their zero points
    const int64_t *begin;         // what sums begin with, by output channel
    ByteScales scales;            // where `bytes` is not 0
    int64_t bytes;                // channels of a group that leave as bytes
    int64_t group_words, sums_at; // of weights: all, and where those for sums begin
    uint32_t weights, sums;       // params
} Mve;

static int64_t words_of_sums(const Mve *s)
{
    return MVE_BLOCK + mve_padded(byte_windows_length(&s->v));
}

// --- weights -------------------------------------------------------------------------------------

static void pack_sums(const Mve *s, int64_t group, int64_t first, unsigned char **out)
{
    const int64_t moved = first < s->bytes ? s->scales.moved : 0;
    for (int64_t j = 0; j < MVE_BLOCK; j++)
        byte_put_word(out, first + j < s->v.c.oc ? s->begin[group * s->v.c.oc + first + j] + moved : 0);
    for (int64_t step = 0; step < mve_padded(byte_windows_length(&s->v)); step += MVE_INPUTS)
        for (int64_t j = 0; j < MVE_BLOCK * MVE_INPUTS; j++) {
            const int64_t at[] = {group, first + j / MVE_INPUTS, step + j % MVE_INPUTS};
            *(*out)++ = (unsigned char)byte_windows_weight(&s->v, s->values, at);
        }
}

// [group][block]
static void pack(const void *ctx, void *bytes)
{
    const Mve *s = ctx;
    unsigned char *out = bytes;
    for (int64_t g = 0; g < s->v.c.group; g++)
        for (int64_t o = 0; o < s->v.c.oc; o += MVE_BLOCK) {
            pack_sums(s, g, o, &out);
            if (o < s->bytes)
                byte_pack_tail(&s->scales, g, o, &out);
        }
}

// --- blocks of channels --------------------------------------------------------------------------

static void emit_bytes(const Mve *s, const BytePixels *b)
{
    const IntConv *c = &s->v.c;
    Kernel *k = c->l->k;
    const IntPixel p = int_pixel_of(c, s->v.d, b->first, b->group);
    const int64_t pitch = int_conv_result(c, s->v.d)->stride[s->v.d->rank - 1];
    const bool is_one = byte_windows_pixels(&s->v) == 1;
    const KRef high = k_index(k, byte_scales_high(&s->scales));
    const KRef operands[KDEV_MAX_OPERANDS + 1] = {
        int_result_at(c, s->v.d, &p, b->group, 0),
        byte_windows_at(&s->v, b->x),
        k_address(k, s->weights, k_expr(k, "$ * #", b->group, s->group_words)),
        k_index(k, byte_windows_length(&s->v)),
        k_index(k, s->bytes / MVE_BLOCK),
        is_one ? high : b->pixels,
        is_one ? 0 : k_index(k, pitch),
        is_one ? 0 : high,
        is_one ? 0 : k_index(k, s->v.to)};
    k_device_list(k, is_one ? KDEV_mve_bytes1 : KDEV_mve_bytes2, s->scales.shift, operands);
    int_ends_emit(c, &s->scales.ends, &(IntBytes){operands[0], k_index(k, s->bytes), b->pixels, pitch});
}

// A block of channels of `pixels` pixels, whose sums are the one of number `at`.
static void store_block(const Mve *s, const BytePixels *b, int64_t pixels, KRef block, KRef at)
{
    const IntConv *c = &s->v.c;
    Kernel *k = c->l->k;
    for (int64_t i = 0; i < pixels; i++) {
        const IntPixel p = int_pixel_of(c, s->v.d, k_expr(k, "$ + #", b->first, i), b->group);
        const KRef channels = k_expr(k, "min(#, # - $ * #)", MVE_BLOCK, c->oc - s->bytes, block, MVE_BLOCK);
        const KRef j = k_for(k, k_index(k, 0), channels, 1, KFOR_SERIAL, "j");
        Point to = p.at;
        to.idx[1] = k_expr(k, "$ * # + ($ * # + #) + $", b->group, c->oc, block, MVE_BLOCK, s->bytes, j);
        const KRef sum = k_expr(k, "($ * # + #) * # + $", at, pixels, i, MVE_BLOCK, j);
        pull_store_root(c->l, s->v.d, to, k_load(k, s->sums, sum, 1, 1));
        k_end(k);
    }
}

static void emit_chunks(const Mve *s, const BytePixels *b, int64_t pixels)
{
    Kernel *k = s->v.c.l->k;
    const int64_t n = ceil_div(s->v.c.oc - s->bytes, MVE_BLOCK), chunks = ceil_div(n, CHUNK);
    uint32_t opened = 0;
    const KRef chunk = lower_open_count(k, chunks, KFOR_SERIAL, "chunk", &opened);
    const KRef begin = k_expr(k, "$ * #", chunk, CHUNK);
    const KRef count = chunks == 1 ? k_index(k, n) : k_expr(k, "min(#, # - $)", CHUNK, n, begin);
    const KRef w =
        k_expr(k, "$ * # + ($ * # + #)", b->group, s->group_words, begin, words_of_sums(s), s->sums_at);
    k_device(k, pixels == 2 ? KDEV_mve_sums2 : KDEV_mve_sums1, k_address(k, s->sums, k_index(k, 0)),
             byte_windows_at(&s->v, b->x), k_address(k, s->weights, w),
             k_index(k, byte_windows_length(&s->v)), count, pixels == 2 ? k_index(k, s->v.to) : 0);
    const KRef at = n == 1 ? k_index(k, 0) : k_for(k, k_index(k, 0), count, 1, KFOR_SERIAL, "b");
    store_block(s, b, pixels, k_add(k, begin, at), at);
    lower_close(s->v.c.l, opened + (n > 1));
}

static void emit_sums(const Mve *s, const BytePixels *b)
{
    Kernel *k = s->v.c.l->k;
    if (s->v.pixels == 1) {
        emit_chunks(s, b, 1);
        return;
    }
    const bool may_be_one = (s->v.is_by_rows ? s->v.c.w_out : byte_windows_pixels(&s->v)) % 2 != 0;
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
    uint32_t opened = 0;
    const BytePixels b = byte_windows_open(&s->v, &opened);
    if (s->bytes > 0)
        emit_bytes(s, &b);
    if (s->bytes < s->v.c.oc)
        emit_sums(s, &b);
    lower_close(s->v.c.l, opened);
}

// --- which convolutions --------------------------------------------------------------------------

static bool fits(const Mve *s)
{
    const IntConv *c = &s->v.c;
    return c->l->caps->byte_vectors == BYTE_VECTORS_MVE && byte_windows_fit(&s->v) &&
           byte_windows_length(&s->v) >= MVE_BLOCK && c->oc >= 2 && (c->group == 1 || c->oc >= MVE_BLOCK) &&
           int_conv_has_byte_weights(c, s->values);
}

static int64_t pixels_of(const Mve *s)
{
    const int64_t fit = WINDOW_BYTES / s->v.to / 2 * 2;
    if (byte_windows_pixels(&s->v) == 1)
        return 1;
    return s->bytes < s->v.c.oc || fit < 2 ? 2 : fit < MAX_PIXELS ? fit : MAX_PIXELS;
}

static int64_t sums_of(const Mve *s)
{
    const int64_t n = ceil_div(s->v.c.oc - s->bytes, MVE_BLOCK);
    return (n < CHUNK ? n : CHUNK) * MVE_BLOCK * (s->v.pixels > 1 ? 2 : 1);
}

static void add_params(Mve *s)
{
    Lower *l = s->v.c.l;
    for (int64_t o = 0; o < s->v.c.oc; o += MVE_BLOCK) {
        s->group_words += words_of_sums(s);
        if (o < s->bytes) {
            s->group_words += byte_tail_words(&s->scales, o);
            s->sums_at = s->group_words;
        }
    }
    byte_windows_add_params(&s->v);
    s->begin = int_conv_begins(&s->v.c, s->values, s->v.zero);
    Mve *packing = ARENA_NEW(l->pass->perm, Mve);
    *packing = *s;
    s->weights = lower_param_filled(l, node_name(l->g, s->v.c.w), DTYPE_i32, pack, packing,
                                    (uint64_t)(s->v.c.group * s->group_words) * 4);
    if (sums_of(s) > 0)
        s->sums = lower_param_scratch(l, "sums", DTYPE_i32, (uint64_t)sums_of(s));
}

// Pixels of a row at a time, at most: fewer take less scratch memory. 0: any pixels.
static bool lower_in_way(const Mve *of, const Domain *d, int64_t pixels)
{
    Mve s = *of;
    const IntConv *c = &s.v.c;
    s.v.zero = int_conv_zero_value(c) - (int_conv_is_signed(c) ? 0 : 128);
    s.scales = (ByteScales){.groups = c->group, .channels = c->oc, .block = MVE_BLOCK};
    if (byte_scales_find(c, d, &s.scales))
        s.bytes = c->oc / MVE_BLOCK * MVE_BLOCK;
    s.v.pixels = pixels_of(&s);
    s.v.is_by_rows = pixels != 0;
    if (s.v.is_by_rows && (c->n * c->h == 1 || c->w_out < 2))
        return false;
    if (s.v.is_by_rows && pixels < s.v.pixels)
        s.v.pixels = pixels;
    if (!lower_take(c->l))
        return false;
    add_params(&s);
    emit(&s);
    return true;
}

bool int_conv_mve(const IntConv *c, const Domain *d, const int32_t *values, bool is_inside)
{
    static const int64_t ways[] = {0, MAX_PIXELS, 2};
    const Mve s = {.v = byte_windows_of(c, d, is_inside, MVE_INPUTS), .values = values};
    for (uint32_t i = 0; i < sizeof ways / sizeof *ways && fits(&s); i++)
        if (lower_in_way(&s, d, ways[i]))
            return true;
    return false;
}
