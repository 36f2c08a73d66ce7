// SPDX-License-Identifier: Apache-2.0
// The input of a depthwise convolution, made where it is gathered: a row of four channels at a time, by the
// 1x1 convolution before it, whose value then is never there as a whole. Rows that several rows of the result
// read are made again. For kernels that are merged with the one before them where memory is short
// (passes/plan/ram/rows.h).
#include "passes/lower/conv/int_conv_made.h"
#include "ir/graph/tensor.h"
#include "ir/kernel/device.h"
#include "ir/kernel/dsp.h"

static bool is_whole_pixels(const IntConv *c)
{
    return c->kh == 1 && c->kw == 1 && c->sh == 1 && c->sw == 1 && c->pad_h == 0 && c->pad_w == 0 &&
           c->group == 1 && c->n == 1 && c->ic % DSP_BLOCK == 0 && c->oc % DSP_BLOCK == 0 &&
           c->h == c->in_h && c->w_out == c->in_w && c->stride_w == c->ic && c->stride_c == 1 &&
           int_conv_is_signed(c);
}

bool int_made_find(IntMade *m, const IntConv *reader)
{
    const PlanKernel *maker = reader->l->maker;
    m->l = *reader->l;
    m->l.anchor = maker->anchor;
    m->l.root = maker->root;
    const Node *n = lower_node(&m->l, maker->anchor);
    if (n->op != lower_node(reader->l, reader->l->anchor)->op || n->shape->rank != 4 ||
        reader->x != maker->root || !node_is_const(m->l.g, n->src[1]))
        return false;
    const IntConv c = int_conv_of(&m->l);
    if ((c.w_zero != 0 && !node_is_const(m->l.g, c.w_zero)) || !is_whole_pixels(&c))
        return false;
    const Tensor w = tensor_of_const(m->l.g, c.w), zero = tensor_if_const(m->l.g, c.w_zero);
    m->d = domain_of(lower_node(&m->l, m->l.root)->shape);
    domain_add(&m->l, &m->d, m->l.root);
    if (!int_dsp_begin(&m->s, &c, &m->d, tensor_centred(m->l.pass->perm, &w, &zero), true) || m->s.is_row)
        return false;
    int_dsp_settle(&m->s);
    return int_dsp_space_blocks(&m->s) && requant_ends_are_plain(&m->s.ends);
}

// Where a strip begins with rows that the one before it had, they are made again.
static void count_macs(const IntMade *m, const IntConv *c, int64_t strip)
{
    PlanKernel *k = c->l->pk;
    const uint64_t row = (uint64_t)(m->s.c.w_out * m->s.c.ic * m->s.c.oc);
    int64_t rows = 0;
    for (int64_t y = 0; y < c->h; y += strip) {
        const int64_t n = c->h - y < strip ? c->h - y : strip, first = y * c->sh - c->pad_h;
        const int64_t end = first + (n - 1) * c->sh + (c->kh - 1) * c->dh + 1;
        const int64_t inside = (end < c->in_h ? end : c->in_h) - (first > 0 ? first : 0);
        rows += inside > 0 ? inside : 0;
    }
    k->macs += (uint64_t)rows * row;
    k->again = rows > c->in_h ? (uint64_t)(rows - c->in_h) * row : 0;
}

void int_made_params(IntMade *m, const IntConv *reader, int64_t strip)
{
    count_macs(m, reader, strip);
    reader->l->is_merged = true;
    int_dsp_params(&m->s);
    m->row = lower_param_scratch(&m->l, "row", DTYPE_i32, (uint64_t)m->s.c.w_out);
    m->bytes = lower_param_view(&m->l, m->row, DTYPE_i8);
}

void int_made_row(const IntMade *m, KRef row, KRef block)
{
    const Dsp *s = &m->s;
    Kernel *k = s->c.l->k;
    const KRef zero = k_index(k, 0);
    const KRef operands[KDEV_MAX_OPERANDS + 1] = {
        k_address(k, m->bytes, zero),
        k_address(k, s->x, k_expr(k, "$ * #", row, s->c.stride_h)),
        k_address(k, s->weights, k_expr(k, "$ * #", block, s->block_words)),
        k_address(k, s->window, zero),
        k_index(k, s->c.w_out),
        k_index(k, s->c.ic),
        k_index(k, DSP_BLOCK),
        k_index(k, s->high),
        s->zero};
    k_device_list(k, KDEV_dsp_points, s->shift, operands);
}
