// SPDX-License-Identifier: Apache-2.0
// Pixels of int_conv and their windows, for schedules that copy windows to scratch memory and leave the
// products to device functions (int_conv_dsp.c, int_conv_mve.c).
#include "ir/kernel/device.h"
#include "passes/lower/conv/int_conv.h"

IntPixel int_pixel_of(const IntConv *c, const Domain *d, KRef number, KRef group)
{
    Kernel *k = c->l->k;
    const int64_t size = c->h * c->w_out;
    const KRef image = c->n == 1 ? k_index(k, 0) : k_expr(k, "$ / #", number, size);
    const KRef in_image = c->n == 1 ? number : k_expr(k, "$ % #", number, size);
    const KRef y = c->h == 1 ? k_index(k, 0) : k_expr(k, "$ / #", in_image, c->w_out);
    const KRef column = c->h == 1 ? in_image : k_expr(k, "$ % #", in_image, c->w_out);
    return int_pixel_at(c, d, (const KRef[]){image, y, column}, group);
}

IntPixel int_pixel_at(const IntConv *c, const Domain *d, const KRef place[3], KRef group)
{
    Kernel *k = c->l->k;
    const uint32_t last = d->rank - 1;
    const KRef image = place[0], y = place[1];
    IntPixel p = {.at = {.lanes = 1, .count = 1, .vec_axis = 1}};
    p.at.idx[0] = image;
    if (d->rank > 3)
        p.at.idx[2] = y;
    p.at.idx[last] = place[2];
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
    return k_address(l->k, int_result_bytes(c), pull_index(&pull, l->root));
}

uint32_t int_result_bytes(const IntConv *c)
{
    Lower *l = c->l;
    const uint32_t root = lower_param(l, l->root, PARAM_WRITE);
    for (uint32_t i = root; i < l->pk->args.len; i++)
        if (l->pk->args.data[i].buf == l->pk->args.data[root].buf && l->k->params.data[i].dtype == DTYPE_i8)
            return i;
    return lower_param_view(l, root, DTYPE_i8);
}

void int_ends_emit(const IntConv *c, const RequantEnds *ends, const IntBytes *b)
{
    Kernel *k = c->l->k;
    int64_t n = 0;
    if (requant_ends_are_plain(ends))
        return;
    const bool is_one = k_is_const(k, b->n, &n) && n == b->pitch;
    const bool has_vectors = c->l->caps->byte_vectors != BYTE_VECTORS_NONE;
    k_device(k, has_vectors ? KDEV_byte_clamp : KDEV_dsp_clamp, b->y,
             is_one ? k_expr(k, "$ * #", b->pixels, n) : b->n,
             is_one ? k_index(k, 1) : b->pixels, k_index(k, b->pitch), k_index(k, ends->least),
             k_index(k, ends->most), k_index(k, ends->is_unsigned ? INT8_MIN : 0));
}
