// SPDX-License-Identifier: Apache-2.0
// int_conv_dsp of one tap, where all channels become bytes: the loop over the pixels is in a device function
// too, so that nothing is spent between them. A call makes a row, since kernels can run row by row in turns
// (passes/plan/ram/rows.h), or a part of one, or all rows where that is faster, since pairs of pixels cross
// their ends.
#include "ir/kernel/device.h"
#include "ir/kernel/dsp.h"
#include "passes/lower/conv/int_conv_dsp.h"

// Do pixels follow each other, in the input and the result?
static bool has_points(const Dsp *s)
{
    const IntConv *c = &s->c;
    const Access *y = int_conv_result(c, s->d);
    const int64_t last = y->stride[s->d->rank - 1], rows = s->d->rank > 3 ? y->stride[2] : c->w_out * last;
    return s->is_inside && int_conv_is_signed(c) && c->group == 1 &&
           c->kh == 1 && c->kw == 1 && c->sh == 1 && c->sw == 1 && s->n_runs == 1 && s->run[0].is_bytes &&
           c->ic % DSP_BLOCK == 0 && c->stride_w == c->ic && c->stride_h == c->w_out * c->ic &&
           (c->n == 1 || c->stride_n == c->h * c->stride_h) && last == c->oc && rows == c->w_out * c->oc &&
           (c->n == 1 || y->stride[0] == c->h * rows);
}

bool int_points_emit(const Dsp *s)
{
    if (!has_points(s))
        return false;
    Kernel *k = s->c.l->k;
    const int64_t all = int_dsp_pixels(s), pixels = s->has_rows ? s->c.w_out / s->parts : all;
    uint32_t opened = 0;
    const KRef zero = k_index(k, 0);
    const KRef row = lower_open_count(k, all / pixels, KFOR_TURNS, "row", &opened);
    const IntPixel p = int_pixel_of(&s->c, s->d, k_expr(k, "$ * #", row, pixels), zero);
    const Blocks b = {&p, 1, zero, zero, &s->run[0]};
    const KRef operands[KDEV_MAX_OPERANDS + 1] = {int_result_at(&s->c, s->d, &p, zero, 0),
                                                  k_address(k, s->x, p.x),
                                                  int_dsp_words(s, &b, zero),
                                                  k_address(k, s->window, zero),
                                                  k_index(k, pixels),
                                                  k_index(k, s->c.ic),
                                                  k_index(k, s->c.oc),
                                                  k_index(k, s->high),
                                                  s->zero};
    k_device_list(k, KDEV_dsp_points, s->shift, operands);
    int_ends_emit(&s->c, &s->ends, &(IntBytes){operands[0], operands[6], operands[4], s->c.oc});
    lower_close(s->c.l, opened);
    return true;
}
