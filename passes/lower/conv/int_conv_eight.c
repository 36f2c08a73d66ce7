// SPDX-License-Identifier: Apache-2.0
// int_conv with products of pairs of halfwords that takes little scratch memory: one pixel at a time, whose
// bytes are widened in the loop over the products. What is no single run of bytes is copied, a byte an
// element; the sums of eight channels are an array, not memory of the arena. See int_conv_dsp.h.
#include "ir/kernel/device.h"
#include "ir/kernel/dsp.h"
#include "passes/lower/conv/int_conv_dsp.h"

enum { WORD = 4 };

static DType type_of(const Dsp *s)
{
    return (DType)lower_node(s->c.l, s->c.x)->dtype;
}

bool int_eight_choose(Dsp *s)
{
    const IntConv *c = &s->c;
    if (!int_conv_knows_zero(c) || c->group > 1 || c->oc <= DSP_BLOCK)
        return false;
    s->is_copied = !s->is_row;
    if (s->is_copied) {
        s->is_row = s->is_joined = true;
        s->runs = 1;
        s->n = ceil_div(c->kh * c->kw * c->ic, WORD) * WORD;
        s->steps = dsp_words(s->n);
        s->has_words = int_conv_has_words(c);
    }
    s->width = DSP_ROW_BLOCK;
    s->is_eight = true;
    return lower_take(c->l);
}

void int_eight_params(Dsp *s)
{
    Lower *l = s->c.l;
    s->eight = k_array(l->k, DTYPE_u32, DSP_ROW_BLOCK);
    if (!s->is_copied)
        return;
    s->window = lower_param_scratch(l, "window", type_of(s), (uint64_t)s->n);
    if (!s->has_words)
        return;
    s->window_words = lower_param_view(l, s->window, DTYPE_i32);
    s->x_words = int_conv_words(&s->c);
}

// --- windows -------------------------------------------------------------------------------------

static KRef zero_of(const Dsp *s)
{
    const int64_t v = int_conv_zero_value(&s->c);
    const uint32_t byte = (uint32_t)v & 255;
    return s->has_words ? k_integer(s->c.l->k, DTYPE_i32, (int32_t)(byte * 0x01010101u))
                        : k_integer(s->c.l->k, (int)type_of(s), v);
}

// `n` words (or elements) of the window from `to` on: of the input from x on, or the zero point.
static void put(const Dsp *s, KRef to, int64_t n, const KRef *x)
{
    Kernel *k = s->c.l->k;
    const uint32_t from = s->has_words ? s->x_words : s->x,
                   window = s->has_words ? s->window_words : s->window;
    uint32_t opened = 0;
    const KRef zero = zero_of(s), i = lower_open_count(k, n, KFOR_SERIAL, "c", &opened);
    k_store(k, window, k_add(k, to, i), x != NULL ? k_load(k, from, k_add(k, *x, i), 1, 1) : zero, 1);
    lower_close(s->c.l, opened);
}

// The channels of one tap.
static void copy_tap(const Dsp *s, const IntPixel *p, KRef y, KRef x)
{
    const IntConv *c = &s->c;
    Kernel *k = c->l->k;
    const int64_t unit = s->has_words ? WORD : 1, each = c->ic / unit;
    const KRef row = k_expr(k, "$ + $ * #", p->row, y, c->dh),
               column = k_expr(k, "$ + $ * #", p->column, x, c->dw);
    const KRef to = k_expr(k, "($ * # + $) * #", y, c->kw, x, each);
    const KRef from =
        k_expr(k, "$ * # + min(max($, 0), #) * # + min(max($, 0), #) * #", p->at.idx[0], c->stride_n / unit,
               row, c->in_h - 1, c->stride_h / unit, column, c->in_w - 1, c->stride_w / unit);
    if (!s->is_inside)
        k_if(k, k_expr(k, "0 <= $ & $ < # & 0 <= $ & $ < #", row, row, c->in_h, column, column, c->in_w));
    put(s, to, each, &from);
    if (s->is_inside)
        return;
    k_else(k);
    put(s, to, each, NULL);
    k_end(k);
}

void int_eight_copy(const Dsp *s, const IntPixel *p)
{
    const IntConv *c = &s->c;
    Kernel *k = c->l->k;
    uint32_t opened = 0;
    const int64_t whole = c->kh * c->kw * c->ic;
    const KRef y = lower_open_count(k, c->kh, KFOR_SERIAL, "k0", &opened);
    const KRef x = lower_open_count(k, c->kw, KFOR_SERIAL, "k1", &opened);
    copy_tap(s, p, y, x);
    lower_close(c->l, opened);
    if (whole < s->n)
        put(s, k_index(k, whole), s->n - whole, NULL);
}

// --- blocks of channels --------------------------------------------------------------------------

void int_eight_emit(const Dsp *s, const Blocks *b)
{
    Kernel *k = s->c.l->k;
    uint32_t opened = 0;
    const KRef zero = k_index(k, 0);
    const KRef at = lower_open_count(k, int_dsp_blocks(b->run), KFOR_SERIAL, "b", &opened);
    const KRef x = s->is_copied ? k_address(k, s->window, zero) : k_address(k, s->x, b->p->x);
    k_device(k, int_conv_is_signed(&s->c) ? KDEV_dsp_eight_i8 : KDEV_dsp_eight_u8, s->eight, x,
             int_dsp_words(s, b, at), k_index(k, s->steps / 2));
    int_dsp_store(s, b, at, zero);
    lower_close(s->c.l, opened);
}
