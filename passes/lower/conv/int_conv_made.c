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

// Those of n elements from `first` on that are among `size`.
static int64_t inside(int64_t first, int64_t n, int64_t size)
{
    const int64_t begin = first > 0 ? first : 0, end = first + n < size ? first + n : size;
    return end > begin ? end - begin : 0;
}

int64_t int_made_reach(const IntConv *c, int64_t parts)
{
    return int_conv_reach(c->w_out / parts, c->sw, c->kw, c->dw);
}

// Where a strip begins with rows that the one before it had, they are made again, as columns of parts are.
static void count_macs(const IntMade *m, const IntConv *c, IntMadeCut cut)
{
    PlanKernel *k = c->l->pk;
    const int64_t whole = c->in_h * c->in_w, each = c->w_out / cut.parts;
    int64_t rows = 0, columns = cut.parts == 1 ? c->in_w : 0;
    for (int64_t y = 0; y < c->h; y += cut.strip) {
        const int64_t n = c->h - y < cut.strip ? c->h - y : cut.strip;
        rows += inside(y * c->sh - c->pad_h, int_conv_reach(n, c->sh, c->kh, c->dh), c->in_h);
    }
    for (int64_t i = 0; i < cut.parts && cut.parts > 1; i++)
        columns += inside(i * each * c->sw - c->pad_w, int_made_reach(c, cut.parts), c->in_w);
    const uint64_t pixel = (uint64_t)(m->s.c.ic * m->s.c.oc);
    k->macs += (uint64_t)(rows * columns) * pixel;
    k->again = rows * columns > whole ? (uint64_t)(rows * columns - whole) * pixel : 0;
}

void int_made_params(IntMade *m, const IntConv *reader, IntMadeCut cut)
{
    rlx_assert(cut.strip > 0 && cut.parts > 0 && reader->w_out % cut.parts == 0);
    count_macs(m, reader, cut);
    reader->l->is_merged = true;
    m->reader = *reader;
    m->parts = cut.parts;
    int_dsp_params(&m->s);
    const int64_t row = cut.parts == 1 ? m->s.c.w_out : int_made_reach(reader, cut.parts);
    m->row = lower_param_scratch(&m->l, "row", DTYPE_i32, (uint64_t)row);
    m->bytes = lower_param_view(&m->l, m->row, DTYPE_i8);
}

// Columns of a row, behind those in front of them.
static void make(const IntMade *m, KRef row, KRef block, const IntColumns *at)
{
    const Dsp *s = &m->s;
    Kernel *k = s->c.l->k;
    const KRef zero = k_index(k, 0);
    const KRef operands[KDEV_MAX_OPERANDS + 1] = {
        k_address(k, m->bytes, k_expr(k, "$ * #", at->before, DSP_BLOCK)),
        k_address(k, s->x, k_expr(k, "$ * # + $ * #", row, s->c.stride_h, at->first, s->c.stride_w)),
        k_address(k, s->weights, k_expr(k, "$ * #", block, s->block_words)),
        k_address(k, s->window, zero),
        at->n,
        k_index(k, s->c.ic),
        k_index(k, DSP_BLOCK),
        k_index(k, s->high),
        s->zero};
    k_device_list(k, KDEV_dsp_points, s->shift, operands);
}

void int_made_row(const IntMade *m, KRef row, KRef block)
{
    Kernel *k = m->s.c.l->k;
    rlx_assert(m->parts == 1);
    make(m, row, block, &(IntColumns){k_index(k, 0), k_index(k, m->s.c.w_out), k_index(k, 0)});
}

// Places [begin, end) of the row.
static void fill(const IntMade *m, KRef begin, KRef end)
{
    Kernel *k = m->s.c.l->k;
    const uint32_t zero = (uint32_t)int_conv_zero_value(&m->reader) & 255;
    const KRef i = k_for(k, begin, end, 1, KFOR_SERIAL, "i");
    k_store(k, m->row, i, k_integer(k, DTYPE_i32, (int32_t)(zero * 0x01010101u)), 1);
    k_end(k);
}

void int_made_part(const IntMade *m, KRef row, KRef block, KRef part)
{
    const IntConv *c = &m->reader;
    Kernel *k = m->s.c.l->k;
    const int64_t columns = c->w_out / m->parts;
    const IntColumns at = int_conv_columns(c, k_expr(k, "$ * #", part, columns), columns);
    fill(m, k_index(k, 0), at.before);
    make(m, row, block, &at);
    fill(m, k_add(k, at.before, at.n), k_index(k, int_made_reach(c, m->parts)));
}
