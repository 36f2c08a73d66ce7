// SPDX-License-Identifier: Apache-2.0
// int_conv for microcontrollers with products of pairs of halfwords (ir/kernel/dsp.h). The windows of two
// pixels are widened to halfwords less the zero point, so that borders are zeros; then device functions sum
// up blocks of four channels. Blocks of eight channels read one run of bytes where it is.
#include "passes/lower/conv/int_conv_dsp.h"
#include "ir/graph/tensor.h"
#include "ir/kernel/device.h"
#include "ir/kernel/dsp.h"

#include <string.h>

enum {
    LIMIT = 1 << 23, // sums of odd channels lie between -LIMIT and LIMIT
    CHUNK = 4,       // blocks whose sums are in memory at a time
    MAX_RUNS = INT_DSP_RUNS - 2,
    LEAST_STEPS = 2, // below, windows take longer than products
};

// --- weights -------------------------------------------------------------------------------------

// The channel in place j of a block; -1: none.
static int64_t channel_at(const Dsp *s, const BlockRun *r, int64_t block, int64_t j)
{
    const bool is_half = r->each < s->width;
    const int64_t in_run = block * r->each + (is_half ? j / 2 : j);
    return in_run >= r->channels || (is_half && j % 2 != 0) ? -1 : r->first + in_run;
}

// Of channel o of a group; -1: none.
static int64_t weight(const Dsp *s, int64_t group, int64_t o, int64_t run, int64_t element)
{
    const IntConv *c = &s->c;
    if (o < 0 || element < 0)
        return 0;
    const int64_t tap = s->is_joined ? run * c->kw + element / c->ic : run;
    if (tap >= c->kh * c->kw)
        return 0; // behind a window that was copied
    return s->values[((group * c->oc + o) * c->ic + element % c->ic) * c->kh * c->kw + tap];
}

// The bias, and in a row what the zero point adds: inputs are read as they are there.
static const int64_t *begin_of(const Dsp *s)
{
    const IntConv *c = &s->c;
    int64_t *begin = int_conv_begins(c, s->values, s->is_row ? int_conv_zero_value(c) : 0);
    for (int64_t o = 0; o < c->group * c->oc; o++)
        begin[o] -= s->moved[o];
    return begin;
}

static uint32_t joined(int64_t even, int64_t odd)
{
    return (uint32_t)(uint64_t)(even + 256 * odd);
}

// Do channels from `first` on, one block of bytes, have starts of their own?
static bool has_own_starts(const Dsp *s, int64_t first)
{
    for (int64_t g = 0; g < s->c.group; g++)
        for (int64_t j = 0; j < s->width; j++)
            if (s->scale[g * s->c.oc + first + j].start != s->high * (INT64_C(1) << 32))
                return true;
    return false;
}

// Words behind the weights of a block of bytes; exceptions are in groups of one only.
static int64_t words_of_tail(const Dsp *s, int64_t first)
{
    int64_t words = has_own_starts(s, first) ? DSP_OWN_TAIL : DSP_PLAIN_TAIL;
    for (int64_t j = 0; j < s->width; j++)
        words += s->scale[first + j].n_exceptions * DSP_EXCEPTION;
    return words;
}

static int64_t words_of_sums(const Dsp *s)
{
    return s->width * (2 + s->steps) / 2;
}

// Exceptions, factors, and what is a channel's own.
static void pack_tail(const Dsp *s, int64_t group, int64_t first, uint32_t **out)
{
    static const int64_t plain_order[DSP_BLOCK] = {0, 2, 1, 3};
    const RequantScale *channel = &s->scale[group * s->c.oc + first];
    const bool is_own = has_own_starts(s, first);
    for (int64_t j = 0; j < DSP_BLOCK; j++)
        for (uint32_t i = 0; i < channel[j].n_exceptions; i++) {
            const int64_t by = j % 2 != 0 ? 256 : 1;
            *(*out)++ = (uint32_t)(-1 - (int32_t)j);
            *(*out)++ = (uint32_t)(channel[j].exception[i] * by);
            *(*out)++ = (uint32_t)(int_scale_instead(&channel[j], i) * by);
        }
    if (is_own)
        *(*out)++ = (uint32_t)DSP_OWN;
    for (int64_t j = 0; j < DSP_BLOCK; j++) {
        const RequantScale *c = &channel[is_own ? j : plain_order[j]];
        const uint64_t start = (uint64_t)(c->start * (j % 2 != 0 ? 256 : 1));
        *(*out)++ = (uint32_t)c->factor;
        if (is_own) {
            *(*out)++ = (uint32_t)start;
            *(*out)++ = (uint32_t)(start >> 32);
        }
    }
}

static void pack_block(const Dsp *s, int64_t group, const BlockRun *r, int64_t block, uint32_t **out)
{
    for (int64_t j = 0; j < s->width; j += 2) {
        const int64_t *const begin = &s->begin[group * s->c.oc];
        const int64_t even = channel_at(s, r, block, j), odd = channel_at(s, r, block, j + 1);
        *(*out)++ = joined(even < 0 ? 0 : begin[even], odd < 0 ? 0 : begin[odd]);
        *(*out)++ = joined(even < 0 ? 0 : begin[even], 0);
    }
    for (int64_t i = 0; i < s->steps * s->width / 2; i++) {
        const int64_t step = i / (s->width / 2), j = i % (s->width / 2) * 2, run = step / dsp_words(s->n);
        const DspWord at = dsp_word(s->n, step % dsp_words(s->n));
        const int64_t even = channel_at(s, r, block, j), odd = channel_at(s, r, block, j + 1);
        const uint32_t lo = joined(weight(s, group, even, run, at.lo), weight(s, group, odd, run, at.lo));
        const uint32_t hi = joined(weight(s, group, even, run, at.hi), weight(s, group, odd, run, at.hi));
        *(*out)++ = (lo & 0xffff) | hi << 16;
    }
}

// [group][block]
static void pack(const void *ctx, void *bytes)
{
    const Dsp *s = ctx;
    uint32_t *out = bytes;
    if (s->block_words != 0)
        memset(bytes, 0, (size_t)s->group_words * sizeof *out);
    for (int64_t g = 0; g < s->c.group; g++)
        for (const BlockRun *r = s->run; r < s->run + s->n_runs; r++)
            for (int64_t b = 0; b < int_dsp_blocks(r); b++) {
                pack_block(s, g, r, b, &out);
                if (r->is_bytes)
                    pack_tail(s, g, r->first + b * r->each, &out);
                if (s->block_words != 0)
                    out = (uint32_t *)bytes + (b + 1) * s->block_words;
            }
}

bool int_dsp_space_blocks(Dsp *s)
{
    int64_t tail = 0;
    if (s->scale == NULL || s->c.group != 1 || s->n_runs != 1 || !s->run[0].is_bytes)
        return false;
    for (int64_t o = 0; o < s->c.oc; o += s->width)
        tail = words_of_tail(s, o) > tail ? words_of_tail(s, o) : tail;
    s->block_words = words_of_sums(s) + tail;
    s->group_words = int_dsp_blocks(&s->run[0]) * s->block_words;
    return true;
}

// --- windows -------------------------------------------------------------------------------------

// The pixel behind p in its row.
static IntPixel next_pixel(const Dsp *s, const IntPixel *p)
{
    const IntConv *c = &s->c;
    Kernel *k = c->l->k;
    const uint32_t last = s->d->rank - 1;
    IntPixel next = *p;
    next.at.idx[last] = k_expr(k, "$ + 1", p->at.idx[last]);
    next.column = k_expr(k, "$ + #", p->column, c->sw);
    next.x = k_expr(k, "$ + #", p->x, c->sw * c->stride_w);
    return next;
}

// Both pixels: rows of the kernel, or all runs at once.
static void widen_pair(const Dsp *s, const IntPixel *p)
{
    const IntConv *c = &s->c;
    Kernel *k = c->l->k;
    uint32_t opened = 0;
    const int64_t turns = s->is_joined ? 1 : c->kh, rows = s->runs / turns;
    const KRef turn = lower_open_count(k, turns, KFOR_SERIAL, "k0", &opened);
    const KRef to = k_expr(k, "$ + $ * #", s->base, turn, 2 * rows * dsp_words(s->n));
    const KRef skip = k_expr(k, "$ * #", turn, c->dh * c->stride_h);
    const int64_t pitch = s->is_joined ? c->dh * c->stride_h : c->dw * c->stride_w;
    k_device(k, int_conv_is_signed(&s->c) ? KDEV_dsp_pair_i8 : KDEV_dsp_pair_u8, k_address(k, s->window, to),
             k_address(k, s->x, k_add(k, p[0].x, skip)), k_address(k, s->x, k_add(k, p[1].x, skip)),
             k_index(k, rows), k_index(k, s->n), k_index(k, pitch), s->zero);
    lower_close(c->l, opened);
}

// Run by run, with what lies outside.
void int_dsp_widen_edge(const Dsp *s, const IntPixel *p, KRef i)
{
    const IntConv *c = &s->c;
    Kernel *k = c->l->k;
    uint32_t opened = 0;
    const KRef y = lower_open_count(k, c->kh, KFOR_SERIAL, "k0", &opened);
    const KRef x = s->is_joined ? k_index(k, 0) : lower_open_count(k, c->kw, KFOR_SERIAL, "k1", &opened);
    const KRef row = k_expr(k, "$ + $ * #", p->row, y, c->dh);
    const KRef column = k_expr(k, "$ + $ * #", p->column, x, c->dw);
    const int64_t columns = s->is_joined ? c->kw : 1;
    const KRef lo = k_expr(k, "max(0, 0 - $)", column),
               hi = k_expr(k, "min(#, # - $)", columns, c->in_w, column);
    const KRef is_there = k_expr(k, "0 <= $ & $ < # & $ < $", row, row, c->in_h, lo, hi);
    const KRef zero = k_index(k, 0);
    KRef from =
        k_expr(k, "$ + $ * # + ($ * # + $) * #", p->x, y, c->dh * c->stride_h, x, c->dw, lo, c->stride_w);
    from = k_select(k, is_there, from, zero);
    const KRef to =
        k_expr(k, "($ * # + $) * # + $ + $", y, s->runs / c->kh, x, 2 * dsp_words(s->n), s->base, i);
    k_device(k, int_conv_is_signed(&s->c) ? KDEV_dsp_edge_i8 : KDEV_dsp_edge_u8, k_address(k, s->window, to),
             k_address(k, s->x, from), k_select(k, is_there, k_expr(k, "$ * #", lo, c->ic), zero),
             k_select(k, is_there, k_expr(k, "$ * #", hi, c->ic), zero), k_index(k, s->n), s->zero);
    lower_close(c->l, opened);
}

static void widen(const Dsp *s, const IntPixel *p, int64_t pixels)
{
    Kernel *k = s->c.l->k;
    if (pixels == 2 && s->is_inside) {
        widen_pair(s, p);
        return;
    }
    if (pixels == 2) {
        k_if(k, k_and(k, int_pixel_is_whole(&s->c, &p[0]), int_pixel_is_whole(&s->c, &p[1])));
        widen_pair(s, p);
        k_else(k);
    }
    for (int64_t i = 0; i < pixels; i++)
        int_dsp_widen_edge(s, &p[i], k_index(k, i));
    if (pixels == 2)
        k_end(k);
}

// --- blocks of channels --------------------------------------------------------------------------

KRef int_dsp_words(const Dsp *s, const Blocks *b, KRef at)
{
    Kernel *k = s->c.l->k;
    return k_address(
        k, s->weights,
        k_expr(k, "$ * # + ($ * # + #)", b->group, s->group_words, at, words_of_sums(s), b->run->at));
}

static void call_sums(const Dsp *s, const Blocks *b, KRef at, KRef count)
{
    Kernel *k = s->c.l->k;
    const KRef from = s->is_row ? b->p->x : k_index(k, 0);
    const KDevice f = !s->is_row ? (b->pixels == 2 ? KDEV_dsp_sums2 : KDEV_dsp_sums1)
                                 : (int_conv_is_signed(&s->c) ? KDEV_dsp_row_i8 : KDEV_dsp_row_u8);
    const KRef sums = k_address(k, s->sums, k_index(k, 0));
    const KRef x = k_address(k, s->is_row ? s->x : s->window, from);
    const KRef w = int_dsp_words(s, b, at);
    k_device(k, f, sums, x, w, k_index(k, s->is_row ? s->steps / 2 : s->steps), count);
}

void int_dsp_store(const Dsp *s, const Blocks *b, KRef block, KRef at)
{
    Kernel *k = s->c.l->k;
    const int64_t gap = s->width / b->run->each;
    const int64_t channels = b->run->channels < b->run->each ? b->run->channels : b->run->each;
    for (int64_t i = 0; i < b->pixels; i++) {
        const bool may_be_last = i == 1 && int_dsp_pixels(s) % 2 != 0;
        if (may_be_last)
            k_if(k, k_expr(k, "$ + 1 < #", b->first, int_dsp_pixels(s)));
        for (int64_t j = 0; j < channels; j++) {
            Point to = b->p[i].at;
            to.idx[1] =
                k_expr(k, "$ * # + ($ * # + #)", b->group, s->c.oc, block, b->run->each, b->run->first + j);
            const KRef sum = k_expr(k, "($ * # + #) * # + #", at, b->pixels, i, s->width, j * gap);
            pull_store_root(s->c.l, s->d, to,
                            s->is_eight ? k_cast(k, k_aload(k, s->eight, sum, 1), DTYPE_i32)
                                        : k_load(k, s->sums, sum, 1, 1));
        }
        if (may_be_last)
            k_end(k);
    }
}

static void emit_sums(const Dsp *s, const Blocks *b)
{
    Kernel *k = s->c.l->k;
    const int64_t n = int_dsp_blocks(b->run), chunks = ceil_div(n, CHUNK);
    uint32_t opened = 0;
    const KRef chunk = lower_open_count(k, chunks, KFOR_SERIAL, "chunk", &opened);
    const KRef begin = k_expr(k, "$ * #", chunk, CHUNK);
    const KRef count = chunks == 1      ? k_index(k, n)
                       : n % CHUNK == 0 ? k_index(k, CHUNK)
                                        : k_expr(k, "min(#, # - $)", CHUNK, n, begin);
    call_sums(s, b, begin, count);
    const KRef at = n == 1 ? k_index(k, 0) : k_for(k, k_index(k, 0), count, 1, KFOR_SERIAL, "b");
    int_dsp_store(s, b, k_add(k, begin, at), at);
    lower_close(s->c.l, opened + (n > 1));
}

static void emit_bytes(const Dsp *s, const Blocks *b)
{
    Kernel *k = s->c.l->k;
    const KRef zero = k_index(k, 0);
    const KRef operands[KDEV_MAX_OPERANDS + 1] = {
        int_result_at(&s->c, s->d, &b->p[0], b->group, b->run->first),
        k_address(k, s->window, s->base),
        int_dsp_words(s, b, zero),
        k_index(k, s->steps),
        k_index(k, int_dsp_blocks(b->run)),
        int_result_at(&s->c, s->d, &b->p[1], b->group, b->run->first),
        k_index(k, s->high)};
    k_device_list(k, KDEV_dsp_bytes2, s->shift, operands);
    const KRef n = k_index(k, int_dsp_blocks(b->run) * DSP_BLOCK), one = k_index(k, 1);
    int_ends_emit(&s->c, &s->ends, &(IntBytes){operands[0], n, one, 0});
    if (requant_ends_are_plain(&s->ends))
        return;
    const bool may_be_last = int_dsp_pixels(s) % 2 != 0; // then both pixels are the same
    if (may_be_last)
        k_if(k, k_expr(k, "$ + 1 < #", b->first, int_dsp_pixels(s)));
    int_ends_emit(&s->c, &s->ends, &(IntBytes){operands[5], n, one, 0});
    lower_close(s->c.l, may_be_last);
}

static void emit_pixels(Dsp *s, KRef first, int64_t pixels)
{
    Kernel *k = s->c.l->k;
    uint32_t opened = 0;
    if (s->ahead != 0)
        s->base = k_expr(k, "($ + #) * #", first, pixels, s->ahead);
    const KRef group = lower_open_count(k, s->c.group, KFOR_SERIAL, "g", &opened);
    IntPixel p[2];
    const bool is_even = s->c.w_out % 2 == 0;
    p[0] = int_pixel_of(&s->c, s->d, first, group);
    if (pixels == 2)
        p[1] = is_even ? next_pixel(s, p)
                       : int_pixel_of(&s->c, s->d, k_expr(k, "min($ + 1, #)", first, int_dsp_pixels(s) - 1),
                                      group);
    if (s->is_copied)
        int_eight_copy(s, p);
    else if (!s->is_row)
        widen(s, p, pixels);
    for (const BlockRun *r = s->run; r < s->run + s->n_runs; r++) {
        const Blocks b = {p, pixels, first, group, r};
        (s->is_eight ? int_eight_emit : r->is_bytes ? emit_bytes : emit_sums)(s, &b);
    }
    lower_close(s->c.l, opened);
}

void int_dsp_emit(Dsp *s, int64_t first, int64_t n)
{
    Kernel *k = s->c.l->k;
    uint32_t opened = 0;
    if ((s->may_be_points && int_points_emit(s)) || int_pairs_emit(s, first, n))
        return;
    const int64_t pixels = int_dsp_pixels(s) == 1 || s->is_eight ? 1 : 2;
    const KRef pair = lower_open_count(k, ceil_div(n, pixels), KFOR_TURNS, "pair", &opened);
    emit_pixels(s, k_expr(k, "$ * # + #", pair, pixels, first), pixels);
    lower_close(s->c.l, opened);
}

// --- which convolutions --------------------------------------------------------------------------

// What is added to the sum of a channel can be, over all inputs.
typedef struct Inputs {
    int64_t least, most;
} Inputs;

static Inputs inputs_of(const Dsp *s)
{
    const int64_t z = int_conv_zero_value(&s->c);
    const int64_t least = int_conv_is_signed(&s->c) ? INT8_MIN : 0,
                  most = int_conv_is_signed(&s->c) ? INT8_MAX : UINT8_MAX;
    return int_conv_knows_zero(&s->c) ? (Inputs){least - z, most - z} : (Inputs){-UINT8_MAX, UINT8_MAX};
}

// Can the sums of channel o and the next one be kept in one word?
static bool fits_pair(const Dsp *s, int64_t group, int64_t o)
{
    const IntConv *c = &s->c;
    const Inputs x = inputs_of(s);
    const Tensor bias = tensor_if_const(c->l->g, c->bias);
    const int64_t each = c->ic * c->kh * c->kw;
    const int32_t *even = &s->values[(group * c->oc + o) * each], *odd = even + each;
    if (o + 1 >= c->oc)
        return true;
    const int64_t at = group * c->oc + o + 1;
    int64_t lo = (c->bias != 0 ? tensor_get_i64(&bias, at) : 0) - s->moved[at], hi = lo;
    for (int64_t i = 0; i < each; i++) {
        const int64_t both = even[i] + 256 * (int64_t)odd[i];
        if (both < INT16_MIN || both > INT16_MAX)
            return false;
        lo += odd[i] * (odd[i] >= 0 ? x.least : x.most);
        hi += odd[i] * (odd[i] >= 0 ? x.most : x.least);
    }
    return lo > -LIMIT && hi < LIMIT;
}

static bool fits_block(const Dsp *s, int64_t first)
{
    for (int64_t g = 0; g < s->c.group; g++)
        for (int64_t o = first; o < first + s->width && o < s->c.oc; o += 2)
            if (!fits_pair(s, g, o))
                return false;
    return true;
}

static bool fits(const Dsp *s)
{
    const IntConv *c = &s->c;
    const TargetCaps *caps = c->l->caps;
    const bool is_dense = c->stride_c == 1 || c->ic == 1;
    return caps->has_dsp && caps->threads <= 1 && int_conv_knows_bias(c) && is_dense &&
           s->steps >= LEAST_STEPS && c->oc >= 2 && (c->group == 1 || c->oc >= DSP_BLOCK) &&
           int_conv_has_byte_weights(c, s->values);
}

// Can a device function write what the kernel stores?
static bool stores_bytes(const Dsp *s)
{
    const Access *y = int_conv_result(&s->c, s->d);
    return s->scale != NULL && !s->is_row && int_dsp_pixels(s) > 1 && y->stride[1] == 1 && s->shift >= 1 &&
           s->shift <= DSP_MAX_SHIFT;
}

static bool is_bytes(const Dsp *s, int64_t first)
{
    const int64_t limit = INT64_C(1) << (32 + DSP_MAX_SHIFT + 9);
    if (!stores_bytes(s) || first + s->width > s->c.oc)
        return false;
    for (int64_t g = 0; g < s->c.group; g++)
        for (int64_t j = 0; j < s->width; j++) {
            const RequantScale *c = &s->scale[g * s->c.oc + first + j];
            if (!int_scale_fits(c, s->shift, limit) || (c->n_exceptions > 0 && s->c.group > 1))
                return false;
        }
    return true;
}

// Sums of channels lose `by` times their bias, which their starts get.
static void move_bias(Dsp *s, int64_t first, int64_t by)
{
    const Tensor bias = tensor_if_const(s->c.l->g, s->c.bias);
    for (int64_t g = 0; g < s->c.group; g++)
        for (int64_t j = 1; j < s->width; j += 2) {
            const int64_t o = g * s->c.oc + first + j, move = by * tensor_get_i64(&bias, o);
            RequantScale *c = &s->scale[o];
            s->moved[o] += move;
            c->start += move * c->factor;
            for (uint32_t i = 0; i < c->n_exceptions; i++)
                c->exception[i] -= move;
        }
}

// A large bias with a small factor: the block fits without the bias of its odd channels, if they become
// bytes.
static bool fits_moved(Dsp *s, int64_t first)
{
    if (s->c.bias == 0 || !stores_bytes(s) || first + s->width > s->c.oc)
        return false;
    move_bias(s, first, 1);
    if (fits_block(s, first) && is_bytes(s, first))
        return true;
    move_bias(s, first, -1);
    return false;
}

// Adds channels, to the last run if that is alike and ends with a whole block.
static void add_channels(Dsp *s, BlockRun r)
{
    BlockRun *last = s->n_runs > 0 ? &s->run[s->n_runs - 1] : NULL;
    const bool is_like = last != NULL && last->is_bytes == r.is_bytes && last->each == r.each;
    if (!is_like || r.channels % r.each != 0) {
        rlx_assert(s->n_runs < MAX_RUNS + 2);
        last = &s->run[s->n_runs++];
        *last = (BlockRun){r.first, 0, r.each, r.is_bytes, s->group_words};
    }
    last->channels += r.channels;
    s->group_words += int_dsp_blocks(&r) * words_of_sums(s);
    if (r.is_bytes)
        s->group_words += words_of_tail(s, r.first);
}

static void find_runs(Dsp *s)
{
    if (s->scale != NULL) {
        s->shift = s->scale[0].shift;
        s->high = int_scales_high(s->scale, s->c.group * s->c.oc);
    }
    s->moved = ARENA_ARRAY(s->c.l->pass->perm, int64_t, s->c.group * s->c.oc);
    for (int64_t o = 0; o < s->c.oc;) {
        const bool is_apart =
            o % s->width != 0 || s->n_runs >= MAX_RUNS || !(fits_block(s, o) || fits_moved(s, o));
        const int64_t left = s->c.oc - o, each = is_apart ? s->width / 2 : s->width;
        const BlockRun r = {.first = o,
                            .channels = left < each ? left : each,
                            .each = each,
                            .is_bytes = !is_apart && is_bytes(s, o)};
        add_channels(s, r);
        o += r.channels;
    }
}

// Sums that are in memory at a time.
static int64_t sums_of(const Dsp *s)
{
    int64_t most = 0;
    for (const BlockRun *r = s->run; r < s->run + s->n_runs; r++)
        if (!r->is_bytes && int_dsp_blocks(r) > most)
            most = int_dsp_blocks(r) < CHUNK ? int_dsp_blocks(r) : CHUNK;
    return most * s->width * (int_dsp_pixels(s) > 1 ? 2 : 1);
}

static void add_params(Dsp *s)
{
    Lower *l = s->c.l;
    s->x = lower_param(l, s->c.x, PARAM_READ);
    s->begin = begin_of(s);
    Dsp *packing = ARENA_NEW(l->pass->perm, Dsp);
    *packing = *s;
    s->weights = lower_param_filled(l, node_name(l->g, s->c.w), DTYPE_i32, pack, packing,
                                    (uint64_t)(s->c.group * s->group_words) * 4);
    if (s->is_eight)
        int_eight_params(s);
    else if (!s->is_row && s->ahead == 0)
        s->window = lower_param_scratch(l, "window", DTYPE_i32, (uint64_t)s->steps * 2);
    if (sums_of(s) > 0 && !s->is_eight)
        s->sums = lower_param_scratch(l, "sums", DTYPE_i32, (uint64_t)sums_of(s));
}

bool int_dsp_begin(Dsp *s, const IntConv *c, const Domain *d, const int32_t *values, bool is_inside)
{
    *s = (Dsp){.c = *c, .d = d, .values = values, .is_inside = is_inside, .width = DSP_BLOCK, .parts = 1};
    s->is_joined = int_conv_is_joined(c);
    s->runs = s->is_joined ? c->kh : c->kh * c->kw;
    s->n = s->is_joined ? c->kw * c->ic : c->ic;
    s->steps = s->runs * dsp_words(s->n);
    if (!fits(s))
        return false;
    s->is_row = int_dsp_pixels(s) == 1 && s->runs == 1 && is_inside && int_conv_knows_zero(c) &&
                s->n % 4 == 0 && c->group == 1 && c->oc > DSP_BLOCK;
    s->width = s->is_row ? DSP_ROW_BLOCK : DSP_BLOCK;
    return true;
}

void int_dsp_settle(Dsp *s)
{
    const Lower *l = s->c.l;
    s->scale = requantise_match(l->pass->perm, l->g, l->root, l->anchor, &s->ends);
    find_runs(s);
}

void int_dsp_params(Dsp *s)
{
    Kernel *k = s->c.l->k;
    s->zero = s->c.x_zero == 0 ? k_index(k, 0) : k_cast(k, int_conv_zero(&s->c), KT_INDEX);
    s->base = k_index(k, 0);
    add_params(s);
}

// Parts of rows for int_points_emit. False: none are taken.
static bool take_parts(Dsp *s)
{
    for (s->parts = 2; s->parts <= INT_MOST_PARTS; s->parts *= 2)
        if (int_conv_part(&s->c, s->parts) != 0 && lower_take(s->c.l)) {
            s->has_rows = true;
            return true;
        }
    s->parts = 1;
    return false;
}

bool int_conv_dsp(const IntConv *c, const Domain *d, const int32_t *values, bool is_inside)
{
    Dsp s;
    if (!int_dsp_begin(&s, c, d, values, is_inside))
        return false;
    const bool has_point = c->kh == 1 && c->kw == 1; // else the loop over pixels stays here anyway
    s.has_rows = c->w_out % 2 == 0;
    s.may_be_points = lower_take(c->l);
    if (!s.may_be_points && has_point && !s.has_rows)
        s.may_be_points = s.has_rows = lower_take(c->l);
    if (!s.may_be_points && has_point)
        s.may_be_points = take_parts(&s);
    if (!s.may_be_points && !(has_point && lower_take(c->l)) && !int_eight_choose(&s))
        return false;
    int_dsp_settle(&s);
    int_dsp_params(&s);
    int_dsp_emit(&s, 0, int_dsp_pixels(&s));
    return true;
}
