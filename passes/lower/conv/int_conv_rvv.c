// SPDX-License-Identifier: Apache-2.0
// int_conv for microcontrollers with the vectors of RISC-V (ir/kernel/rvv.h): windows of some pixels are
// copied, then device functions sum up 16 output channels for four pixels at a time, one channel a lane, and
// bring them back to bytes where `requantise` found numbers for it. Other sums are stored one by one.
#include "ir/graph/tensor.h"
#include "ir/kernel/rvv.h"
#include "passes/lower/conv/conv.h"
#include "passes/lower/conv/int_conv_byte_scale.h"
#include "passes/lower/conv/int_conv_byte_windows.h"
#include "passes/lower/operand.h"

enum {
    WINDOW_BYTES = 512, // of pixels that are computed in one call
    AT_ONCE = 4,        // pixels of an inner loop
    MAX_PIXELS = 8,
    CHUNK = 64, // channels whose sums are in memory at a time
};

typedef struct Rvv {
    ByteWindows v;
    const int32_t *values; // of the weights, less their zero points
    const int64_t *begin;  // what sums begin with, by output channel
    ByteScales scales;
    bool is_bytes;          // scales holds
    int64_t group_words;    // of weights
    uint32_t weights, sums; // params
} Rvv;

static int64_t padded_length(const Rvv *s)
{
    return ceil_div(byte_windows_length(&s->v), RVV_STEP) * RVV_STEP;
}

static int64_t lanes(const Rvv *s, int64_t first)
{
    return s->v.c.oc - first < RVV_LANES ? s->v.c.oc - first : RVV_LANES;
}

static int64_t words_of_block(const Rvv *s, int64_t first)
{
    const int64_t sums = lanes(s, first) * (1 + padded_length(s) / 4);
    return sums + (s->is_bytes ? byte_tail_words(&s->scales, first) : 0);
}

// [group][block]
static void pack(const void *ctx, void *bytes)
{
    const Rvv *s = ctx;
    unsigned char *out = bytes;
    for (int64_t g = 0; g < s->v.c.group; g++)
        for (int64_t o = 0; o < s->v.c.oc; o += RVV_LANES) {
            const int64_t n = lanes(s, o);
            for (int64_t j = 0; j < n; j++)
                byte_put_word(&out,
                              s->begin[g * s->v.c.oc + o + j] + (s->is_bytes ? s->scales.moved : 0));
            for (int64_t i = 0; i < padded_length(s) * n; i++) {
                const int64_t at[] = {g, o + i % n, i / n};
                *out++ = (unsigned char)byte_windows_weight(&s->v, s->values, at);
            }
            if (s->is_bytes)
                byte_pack_tail(&s->scales, g, o, &out);
        }
}

// --- loops ---------------------------------------------------------------------------------------

static void emit_bytes(const Rvv *s, const BytePixels *b)
{
    const IntConv *c = &s->v.c;
    Kernel *k = c->l->k;
    const IntPixel p = int_pixel_of(c, s->v.d, b->first, b->group);
    const int64_t pitch = int_conv_result(c, s->v.d)->stride[s->v.d->rank - 1];
    const KRef operands[KDEV_MAX_OPERANDS + 1] = {
        int_result_at(c, s->v.d, &p, b->group, 0),
        byte_windows_at(&s->v, b->x),
        k_address(k, s->weights, k_expr(k, "$ * #", b->group, s->group_words)),
        k_index(k, byte_windows_length(&s->v)),
        k_index(k, c->oc),
        b->pixels,
        k_index(k, pitch),
        k_index(k, byte_scales_high(&s->scales)),
        k_index(k, s->v.to)};
    k_device_list(k, KDEV_rvv_bytes, s->scales.shift, operands);
    int_ends_emit(c, &s->scales.ends, &(IntBytes){operands[0], k_index(k, c->oc), b->pixels, pitch});
}

// Sums of the channels from `begin` on.
static void store(const Rvv *s, const BytePixels *b, KRef begin, KRef count)
{
    const IntConv *c = &s->v.c;
    Kernel *k = c->l->k;
    const bool is_one = byte_windows_pixels(&s->v) == 1;
    const KRef i = is_one ? k_index(k, 0) : k_for(k, k_index(k, 0), b->pixels, 1, KFOR_SERIAL, "i");
    const IntPixel p = int_pixel_of(c, s->v.d, k_add(k, b->first, i), b->group);
    const KRef j = k_for(k, k_index(k, 0), count, 1, KFOR_SERIAL, "j");
    Point to = p.at;
    to.idx[1] = k_expr(k, "$ * # + ($ + $)", b->group, c->oc, begin, j);
    pull_store_root(c->l, s->v.d, to, k_load(k, s->sums, k_expr(k, "$ * $ + $", i, count, j), 1, 1));
    lower_close(c->l, 1 + !is_one);
}

static void emit_sums(const Rvv *s, const BytePixels *b)
{
    const IntConv *c = &s->v.c;
    Kernel *k = c->l->k;
    const int64_t chunks = ceil_div(c->oc, CHUNK), block = words_of_block(s, 0);
    uint32_t opened = 0;
    const KRef chunk = lower_open_count(k, chunks, KFOR_SERIAL, "chunk", &opened);
    const KRef begin = k_expr(k, "$ * #", chunk, CHUNK);
    const KRef count = chunks == 1 ? k_index(k, c->oc) : k_expr(k, "min(#, # - $)", CHUNK, c->oc, begin);
    const KRef w = k_expr(k, "$ * # + $ * #", b->group, s->group_words, chunk, CHUNK / RVV_LANES * block);
    k_device(k, KDEV_rvv_sums, k_address(k, s->sums, k_index(k, 0)), byte_windows_at(&s->v, b->x),
             k_address(k, s->weights, w), k_index(k, byte_windows_length(&s->v)), count, b->pixels,
             k_index(k, s->v.to));
    store(s, b, begin, count);
    lower_close(c->l, opened);
}

// --- which convolutions --------------------------------------------------------------------------

static bool fits(const Rvv *s)
{
    enum { FEWEST = 4 }; // channels and inputs for which this is worth it
    const IntConv *c = &s->v.c;
    return c->l->caps->byte_vectors == BYTE_VECTORS_RVV && byte_windows_fit(&s->v) &&
           byte_windows_length(&s->v) >= FEWEST && c->oc >= (c->group == 1 ? 2 : FEWEST) &&
           int_conv_has_byte_weights(c, s->values);
}

static int64_t pixels_of(const Rvv *s)
{
    const int64_t fit = WINDOW_BYTES / s->v.to / AT_ONCE * AT_ONCE,
                  most = fit < MAX_PIXELS ? fit : MAX_PIXELS;
    const int64_t n = byte_windows_pixels(&s->v), pixels = most < AT_ONCE ? AT_ONCE : most;
    return n < pixels ? n : pixels;
}

static void add_params(Rvv *s)
{
    const IntConv *c = &s->v.c;
    Lower *l = c->l;
    byte_windows_add_params(&s->v);
    for (int64_t o = 0; o < c->oc; o += RVV_LANES)
        s->group_words += words_of_block(s, o);
    s->begin = int_conv_begins(c, s->values, s->v.zero);
    Rvv *packing = ARENA_NEW(l->pass->perm, Rvv);
    *packing = *s;
    s->weights = lower_param_filled(l, node_name(l->g, c->w), DTYPE_i32, pack, packing,
                                    (uint64_t)(c->group * s->group_words) * 4);
    if (!s->is_bytes)
        s->sums = lower_param_scratch(l, "sums", DTYPE_i32,
                                      (uint64_t)(s->v.pixels * (c->oc < CHUNK ? c->oc : CHUNK)));
}

// Pixels of a row at a time, at most: fewer take less scratch memory. 0: any pixels.
static bool lower_in_way(const Rvv *of, const Domain *d, int64_t pixels)
{
    Rvv s = *of;
    const IntConv *c = &s.v.c;
    s.v.zero = int_conv_zero_value(c) - (int_conv_is_signed(c) ? 0 : 128);
    s.scales = (ByteScales){.groups = c->group, .channels = c->oc, .block = RVV_LANES};
    s.is_bytes = byte_scales_find(c, d, &s.scales);
    s.v.pixels = pixels_of(&s);
    if (pixels != 0 && (!s.is_bytes || c->n * c->h == 1))
        return false;
    s.v.is_by_rows = pixels != 0;
    s.v.pixels = pixels != 0 && pixels < s.v.pixels ? pixels : s.v.pixels;
    s.v.pixels = pixels != 0 && c->w_out < s.v.pixels ? c->w_out : s.v.pixels;
    if (!lower_take(c->l))
        return false;
    add_params(&s);
    uint32_t opened = 0;
    const BytePixels b = byte_windows_open(&s.v, &opened);
    if (s.is_bytes)
        emit_bytes(&s, &b);
    else
        emit_sums(&s, &b);
    lower_close(c->l, opened);
    return true;
}

bool int_conv_rvv(const IntConv *c, const Domain *d, const int32_t *values, bool is_inside)
{
    static const int64_t ways[] = {0, AT_ONCE, 1};
    const Rvv s = {.v = byte_windows_of(c, d, is_inside, RVV_STEP), .values = values};
    for (uint32_t i = 0; i < sizeof ways / sizeof *ways && fits(&s); i++)
        if (lower_in_way(&s, d, ways[i]))
            return true;
    return false;
}
