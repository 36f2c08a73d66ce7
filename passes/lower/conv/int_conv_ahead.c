// SPDX-License-Identifier: Apache-2.0
// int_conv_dsp without scratch memory: the windows of a row of pixels lie in the next row of the result,
// which is not made yet. Where the result lies over the input, the first rows catch up with the input and are
// left to other loops, as are the last ones.
#include "ir/kernel/dsp.h"
#include "passes/lower/conv/int_conv_dsp.h"

enum { WORD = 4, WINDOW_BYTES = 2 * WORD }; // of a step: the words of two pixels

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

bool int_ahead_choose(IntAhead *a, const IntConv *c, const Domain *d, const int32_t *values, bool is_inside)
{
    Dsp *s = &a->s;
    if (!int_dsp_begin(s, c, d, values, is_inside) || s->is_row || c->n > 1 || c->group > 1 ||
        c->w_out % 2 != 0)
        return false;
    int_dsp_settle(s);
    const int64_t row = row_bytes(s), window = s->steps * WINDOW_BYTES, freed = c->sh * c->stride_h - row;
    if (row == 0 || !makes_bytes(s) || freed <= 0)
        return false;
    // Row q and the window behind it end before the input that later rows read.
    a->first = ceil_div(row + window + c->pad_h * c->stride_h, freed);
    a->end = c->h - ceil_div(window, row);
    s->ahead = row / WORD;
    return a->first < a->end && lower_take(c->l);
}

void int_ahead_emit(IntAhead *a)
{
    Dsp *s = &a->s;
    Lower *l = s->c.l;
    s->window = lower_param_view(l, lower_param(l, l->root, PARAM_WRITE), DTYPE_i32);
    l->pk->args.data[s->window].is_read = true;
    int_dsp_params(s);
    int_dsp_emit(s, a->first * s->c.w_out, (a->end - a->first) * s->c.w_out);
}
