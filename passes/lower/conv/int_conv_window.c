// SPDX-License-Identifier: Apache-2.0
// Pixels of int_conv and their windows, for schedules that copy windows to scratch memory and leave the
// products to device functions (int_conv_dsp.c, int_conv_mve.c).
#include "ir/kernel/device.h"
#include "passes/lower/conv/int_conv.h"

IntPixel int_pixel_of(const IntConv *c, const Domain *d, KRef number, KRef group)
{
    Kernel *k = c->l->k;
    const uint32_t last = d->rank - 1;
    IntPixel p = {.at = {.lanes = 1, .count = 1, .vec_axis = 1}};
    const int64_t size = c->h * c->w_out;
    const KRef image = c->n == 1 ? k_index(k, 0) : k_expr(k, "$ / #", number, size);
    const KRef in_image = c->n == 1 ? number : k_expr(k, "$ % #", number, size);
    const KRef y = c->h == 1 ? k_index(k, 0) : k_expr(k, "$ / #", in_image, c->w_out);
    p.at.idx[0] = image;
    if (d->rank > 3)
        p.at.idx[2] = y;
    p.at.idx[last] = c->h == 1 ? in_image : k_expr(k, "$ % #", in_image, c->w_out);
    p.row = k_expr(k, "$ * # + #", y, c->sh, -c->pad_h);
    p.column = k_expr(k, "$ * # + #", p.at.idx[last], c->sw, -c->pad_w);
    p.x = k_expr(k, "$ * # + $ * # + $ * #", image, c->stride_n, p.row, c->stride_h, p.column, c->stride_w);
    p.x = k_expr(k, "$ + $ * #", p.x, group, c->ic * c->stride_c);
    return p;
}

KRef int_pixel_is_whole(const IntConv *c, const IntPixel *p)
{
    return k_expr(c->l->k, "0 <= $ & $ < # & 0 <= $ & $ < #", p->row, p->row, c->in_h - (c->kh - 1) * c->dh,
                  p->column, p->column, c->in_w - (c->kw - 1) * c->dw);
}

KRef int_result_at(const IntConv *c, const Domain *d, const IntPixel *p, KRef group, int64_t channel)
{
    Lower *l = c->l;
    Point at = p->at;
    at.idx[1] = k_expr(l->k, "$ * # + #", group, c->oc, channel);
    Pull pull = pull_at(l, d, at);
    pull.space = d->has_out_space ? SPACE_OUT : SPACE_IN;
    return k_address(l->k, lower_param(l, l->root, PARAM_WRITE), pull_index(&pull, l->root));
}
