// SPDX-License-Identifier: Apache-2.0
// int_conv_dsp without scratch memory: the window of two pixels lies right behind them in the result, which
// is not made yet. Where the result lies over the input, the first rows catch up with the input and are left
// to other loops, as are the last pixels.
#include "passes/lower/conv/int_conv_dsp.h"

enum { WORD = 4, PIXELS = 2, WINDOW_BYTES = PIXELS * WORD }; // of a step: the words of two pixels

// Are all channels bytes that a device function writes?
static bool makes_bytes(const Dsp *s)
{
    for (uint32_t i = 0; i < s->n_runs; i++)
        if (!s->run[i].is_bytes)
            return false;
    return s->n_runs > 0;
}

// Bytes from row to row of the result; 0: its rows are not words behind each other.
static int64_t row_bytes(const Dsp *s)
{
    const Lower *l = s->c.l;
    const Access *y = int_conv_result(&s->c, s->d);
    const int64_t bytes = s->c.oc * s->c.w_out;
    const bool is_dense = s->d->rank == 4 && y->stride[2] == bytes && lower_loc(l, l->root)->offset == 0;
    return is_dense && bytes % WORD == 0 ? bytes : 0;
}

// By how many bytes the end of the result, with `more` bytes behind it, passes what later pixels read, when
// pixels up to `made` of row q are made and those from `read` on are not: both begin at the same place.
static int64_t passed(const IntConv *c, int64_t q, int64_t made, int64_t read, int64_t more)
{
    return (q * c->w_out + made) * c->oc + more - (q * c->sh - c->pad_h) * c->stride_h -
           (read * c->sw - c->pad_w) * c->stride_w;
}

// The first row whose pixels and windows pass no more of the input than the plain pixels of row 0 do.
static int64_t first_row(const IntConv *c, int64_t window)
{
    const int64_t last = c->w_out - PIXELS, plain = passed(c, 0, c->w_out - 1, c->w_out - 1, 0);
    int64_t q = 1;
    while (q < c->h && (passed(c, q, PIXELS, 0, window) > plain ||
                        passed(c, q, last + PIXELS, last, window) > plain))
        q++;
    return q;
}

bool int_ahead_choose(IntAhead *a, const IntConv *c, const Domain *d, const int32_t *values, bool is_inside)
{
    Dsp *s = &a->s;
    if (!int_dsp_begin(s, c, d, values, is_inside) || s->is_row || c->n > 1 || c->group > 1 ||
        c->w_out % PIXELS != 0)
        return false;
    int_dsp_settle(s);
    const int64_t row = row_bytes(s), window = s->steps * WINDOW_BYTES, freed = c->sh * c->stride_h - row;
    if (row == 0 || !makes_bytes(s) || freed <= 0)
        return false;
    rlx_assert(c->oc % WORD == 0); // blocks of four bytes
    a->first = first_row(c, window);
    a->end = c->h * c->w_out - ceil_div(window, c->oc * PIXELS) * PIXELS;
    s->ahead = c->oc / WORD;
    return a->first * c->w_out < a->end && lower_take(c->l);
}

void int_ahead_emit(IntAhead *a)
{
    Dsp *s = &a->s;
    Lower *l = s->c.l;
    s->window = lower_param_view(l, lower_param(l, l->root, PARAM_WRITE), DTYPE_i32);
    l->pk->args.data[s->window].is_read = true;
    int_dsp_params(s);
    int_dsp_emit(s, a->first * s->c.w_out, a->end - a->first * s->c.w_out);
}
