// SPDX-License-Identifier: Apache-2.0
// int_conv_dsp of windows whose columns follow each other, where all channels become bytes: a device function
// goes through the pairs of pixels of a row whose windows are inside of the input. Windows of other pairs are
// copied here.
#include "ir/kernel/device.h"
#include "ir/kernel/dsp.h"
#include "passes/lower/conv/int_conv_dsp.h"

typedef struct Pairs {
    Dsp *s;
    int64_t all;         // of a row
    int64_t begin, end;  // those whose columns are inside
    int64_t whole, part; // rows that are made, and pairs of one more
} Pairs;

static bool fits(const Dsp *s)
{
    const IntConv *c = &s->c;
    const Access *y = int_conv_result(c, s->d);
    return c->group == 1 && c->w_out % 2 == 0 && s->is_joined && !s->is_row && int_conv_is_signed(c) &&
           int_conv_knows_zero(c) && s->n_runs == 1 && s->run[0].is_bytes &&
           y->stride[s->d->rank - 1] == c->oc && s->runs <= DSP_MOST_ROWS && s->n <= DSP_MOST_RUN &&
           c->dh * c->stride_h <= DSP_MOST_PITCH;
}

// The pairs of a row whose columns are inside.
static void find_inside(Pairs *p)
{
    const IntConv *c = &p->s->c;
    const int64_t last = c->in_w - 1 - (c->kw - 1) * c->dw + c->pad_w; // column of the last pixel
    const int64_t pixels = last < 0 ? 0 : last / c->sw + 1;
    p->begin = ceil_div(ceil_div(c->pad_w, c->sw), 2);
    p->end = (pixels < c->w_out ? pixels : c->w_out) / 2;
}

// Pairs from one on whose windows the function copies, or one whose windows are there.
static void call(const Pairs *p, KRef image, KRef row, KRef pair, int64_t copied)
{
    Dsp *s = p->s;
    const IntConv *c = &s->c;
    Kernel *k = c->l->k;
    const KRef zero = k_index(k, 0), column = k_expr(k, "$ * 2", pair);
    const IntPixel pixel = int_pixel_at(c, s->d, (const KRef[]){image, row, column}, zero);
    const Blocks b = {&pixel, 1, zero, zero, &s->run[0]};
    const KRef operands[KDEV_MAX_OPERANDS + 1] = {
        int_result_at(c, s->d, &pixel, zero, 0),
        k_address(k, s->window, s->base),
        int_dsp_words(s, &b, zero),
        k_address(k, s->x, copied != 0 ? pixel.x : zero),
        k_index(k, copied != 0 ? copied : 1),
        k_index(k, copied != 0 ? 2 * c->sw * c->stride_w : 0),
        k_index(k, c->oc / 2),
        k_index(k, dsp_window_shape(s->runs, s->n, c->dh * c->stride_h)),
        k_index(k, dsp_start(s->high, int_conv_zero_value(c)))};
    k_device_list(k, s->ahead != 0 ? KDEV_dsp_ahead : KDEV_dsp_windows, s->shift, operands);
    const KRef pixels = k_index(k, copied != 0 ? 2 * copied : 2);
    int_ends_emit(c, &s->ends, &(IntBytes){operands[0], k_index(k, c->oc), pixels, c->oc});
}

static void emit_edge(const Pairs *pairs, KRef image, KRef row, KRef pair)
{
    Dsp *s = pairs->s;
    Kernel *k = s->c.l->k;
    const KRef i = k_for(k, k_index(k, 0), k_index(k, 2), 1, KFOR_SERIAL, "pixel");
    const KRef column = k_expr(k, "$ * 2 + $", pair, i);
    const IntPixel p = int_pixel_at(&s->c, s->d, (const KRef[]){image, row, column}, k_index(k, 0));
    int_dsp_widen_edge(s, &p, i);
    k_end(k);
    call(pairs, image, row, pair, 0);
}

// Windows of pair `pair` of row `number` lie right behind its pixels.
static void place_windows(const Pairs *p, KRef number, KRef pair)
{
    Dsp *s = p->s;
    if (s->ahead != 0)
        s->base = k_expr(s->c.l->k, "($ * # + $ + 1) * #", number, p->all, pair, 2 * s->ahead);
}

// A row has slots: a pair each, or all pairs inside. number: of the row, among all images.
static void emit_row(const Pairs *p, KRef number)
{
    Dsp *s = p->s;
    const IntConv *c = &s->c;
    Kernel *k = c->l->k;
    const KRef image = c->n == 1 ? k_index(k, 0) : k_expr(k, "$ / #", number, c->h);
    const KRef row = c->n == 1 ? number : k_expr(k, "$ % #", number, c->h);
    const KRef top = k_expr(k, "$ * # + #", row, c->sh, -c->pad_h);
    KRef is_inside = k_expr(k, "0 <= $ & $ < #", top, top, c->in_h - (c->kh - 1) * c->dh);
    KRef pairs = k_index(k, p->all);
    if (p->part != 0) {
        const KRef is_whole = k_expr(k, "$ < #", number, p->whole);
        is_inside = k_and(k, is_inside, is_whole);
        pairs = k_select(k, is_whole, pairs, k_index(k, p->part));
    }
    const int64_t joined = p->end - p->begin - 1;
    if (s->is_inside && p->part == 0) {
        place_windows(p, number, k_index(k, 0));
        call(p, image, row, k_index(k, 0), p->all);
        return;
    }
    const KRef slots = k_select(k, is_inside, k_index(k, p->all - joined), pairs);
    const KRef slot = k_for(k, k_index(k, 0), slots, 1, KFOR_SERIAL, "slot");
    k_if(k, k_expr(k, "$ & $ == #", is_inside, slot, p->begin));
    place_windows(p, number, k_index(k, p->begin));
    call(p, image, row, k_index(k, p->begin), joined + 1);
    k_else(k);
    const KRef is_behind = k_expr(k, "$ & # < $", is_inside, p->begin, slot);
    const KRef pair = k_add(k, slot, k_select(k, is_behind, k_index(k, joined), k_index(k, 0)));
    place_windows(p, number, pair);
    emit_edge(p, image, row, pair);
    k_ends(k, 2);
}

bool int_pairs_emit(Dsp *s, int64_t first, int64_t n)
{
    const IntConv *c = &s->c;
    Kernel *k = c->l->k;
    Pairs p = {.s = s, .all = c->w_out / 2};
    if (int_dsp_pixels(s) == 1 || !fits(s) || first % c->w_out != 0)
        return false;
    find_inside(&p);
    if (p.begin >= p.end)
        return false;
    p.whole = (first + n) / c->w_out;
    p.part = (first + n) % c->w_out / 2;
    uint32_t opened = 0;
    const int64_t rows = p.whole + (p.part != 0) - first / c->w_out;
    const KRef row = lower_open_count(k, rows, KFOR_TURNS, "row", &opened);
    emit_row(&p, k_expr(k, "$ + #", row, first / c->w_out));
    lower_close(c->l, opened);
    return true;
}
