// SPDX-License-Identifier: Apache-2.0
// int_conv with one weight for all taps of all channels, on microcontrollers: means over windows. The inputs
// are only added up; the weight comes last. With the DSP extension two sums are the halves of a word, which
// hold up to 255 bytes, so that four channels take three instructions. A mean over a whole image can also be
// made row by row, with the sums of all channels in scratch memory (passes/plan/ram/rows.h).
#include "passes/lower/conv/int_conv.h"

enum { MAX_HALF_TAPS = 255, HALF = 32767 };

typedef struct Pool {
    IntConv c;
    const Domain *d;
    int64_t width; // channels at once
    int64_t weight;
    uint32_t x;
    uint32_t begin; // 1 + the param that sums begin with, or 0
    uint32_t sums;  // by rows: scratch memory
} Pool;

static int64_t vars_of(const Pool *p)
{
    return p->width == 1 ? 1 : 2;
}

static bool fits(const IntConv *c, const Domain *d, const int32_t *values)
{
    const Lower *l = c->l;
    const int64_t n = c->group * c->kh * c->kw;
    bool is_equal = c->ic == 1 && c->oc == 1 && c->kh * c->kw > 1;
    for (int64_t i = 1; i < n && is_equal; i++)
        is_equal = values[i] == values[0];
    return is_equal && !lower_knows(l, &d->live[1]) && int_conv_knows_bias(c) && int_conv_knows_zero(c);
}

// Adds the windows of a block of channels to vars: of channels 0 and 2, of 1 and 3; or one. x: index of tap
// 0.
static void add_windows(const Pool *p, KRef x, const KRef *var)
{
    const IntConv *c = &p->c;
    Kernel *k = c->l->k;
    uint32_t opened = 0;
    const KRef r = lower_open_count(k, c->kh, KFOR_SERIAL, "k0", &opened);
    const KRef s = lower_open_count(k, c->kw, KFOR_SERIAL, "k1", &opened);
    const KRef at = k_expr(k, "$ + $ * # + $ * #", x, r, c->dh * c->stride_h / p->width, s,
                           c->dw * c->stride_w / p->width);
    const KRef v = k_load(k, p->x, at, 1, 1);
    if (p->width == 1) {
        k_set(k, var[0], k_add(k, k_get(k, var[0]), k_cast(k, v, DTYPE_i32)));
    } else {
        k_set(k, var[0], k_even8(k, k_get(k, var[0]), v));
        k_set(k, var[1], k_odd8(k, k_get(k, var[1]), v));
    }
    lower_close(c->l, opened);
}

// Channel j of a block: begin + weight * its sum.
static KRef weighted(const Pool *p, int64_t j, const KRef *var, KRef begin)
{
    Kernel *k = p->c.l->k;
    const KRef weight = k_integer(k, DTYPE_i32, p->weight), sum = k_get(k, var[j % 2]);
    return p->width == 1 ? k_fma(k, sum, weight, begin)
           : j < 2       ? k_mad_bb(k, sum, weight, begin)
                         : k_mad_bt(k, weight, sum, begin);
}

static const char *const names[] = {"a0", "a1"};

// A block of channels of a pixel: what has been added up in vars.
static void store_block(const Pool *p, const Point *pixel, KRef block, const KRef *var)
{
    Kernel *k = p->c.l->k;
    for (int64_t j = 0; j < p->width; j++) {
        Point to = *pixel;
        to.idx[1] = k_expr(k, "$ * # + #", block, p->width, j);
        const KRef begin =
            p->begin != 0 ? k_load(k, p->begin - 1, to.idx[1], 1, 1) : k_integer(k, DTYPE_i32, 0);
        pull_store_root(p->c.l, p->d, to, weighted(p, j, var, begin));
    }
}

static void emit_block(const Pool *p, const Point *pixel, KRef block)
{
    const IntConv *c = &p->c;
    Kernel *k = c->l->k;
    const uint32_t last = p->d->rank - 1;
    const KRef y = p->d->rank > 3 ? pixel->idx[2] : k_index(k, 0);
    KRef var[2] = {0};
    for (int64_t i = 0; i < vars_of(p); i++)
        var[i] = k_var(k, k_integer(k, DTYPE_i32, 0), names[i]);
    const KRef row =
        k_expr(k, "$ * # + $ * #", pixel->idx[0], c->stride_n / p->width, y, c->sh * c->stride_h / p->width);
    add_windows(p,
                k_expr(k, "$ + $ * # + $ * #", row, pixel->idx[last], c->sw * c->stride_w / p->width, block,
                       p->width == 1 ? c->stride_c : 1),
                var);
    store_block(p, pixel, block, var);
}

// --- by rows -------------------------------------------------------------------------------------

static KRef sum_at(const Pool *p, KRef block, int64_t i)
{
    return k_expr(p->c.l->k, "$ * # + #", block, vars_of(p), i);
}

// The only window has the whole image, of which a row is added at a time; the last one completes the result.
static void emit_rows(Pool *p)
{
    const IntConv *c = &p->c;
    Kernel *k = c->l->k;
    const int64_t blocks = c->group / p->width, vars = vars_of(p), rows = c->kh;
    const KRef zero = k_index(k, 0);
    const Point pixel = {.idx = {zero, zero, zero, zero}, .lanes = 1, .count = 1, .vec_axis = 1};
    uint32_t opened = 0;
    KRef var[2] = {0};
    p->sums = lower_param_scratch(c->l, "sums", DTYPE_i32, (uint64_t)(blocks * vars));
    const KRef row = lower_open_count(k, rows, KFOR_TURNS, "row", &opened);
    const KRef o = lower_open_count(k, blocks, KFOR_SERIAL, "o", &opened);
    k_if(k, k_expr(k, "$ < 1", row));
    for (int64_t i = 0; i < vars; i++)
        k_store(k, p->sums, sum_at(p, o, i), k_integer(k, DTYPE_i32, 0), 1);
    k_end(k);
    for (int64_t i = 0; i < vars; i++)
        var[i] = k_var(k, k_load(k, p->sums, sum_at(p, o, i), 1, 1), names[i]);
    p->c.kh = 1;
    add_windows(p,
                k_expr(k, "$ * # + $ * #", row, c->dh * c->stride_h / p->width, o,
                       p->width == 1 ? c->stride_c : 1),
                var);
    for (int64_t i = 0; i < vars; i++)
        k_store(k, p->sums, sum_at(p, o, i), k_get(k, var[i]), 1);
    k_if(k, k_expr(k, "$ == #", row, rows - 1));
    store_block(p, &pixel, o, var);
    k_end(k);
    lower_close(c->l, opened);
}

static bool has_rows(const Pool *p)
{
    const IntConv *c = &p->c;
    const bool is_whole = c->h == 1 && c->w_out == 1 && c->kh > 1;
    return p->d->rank == 4 && c->n == 1 && is_whole && c->l->caps->threads <= 1;
}

bool int_conv_pool(const IntConv *c, const Domain *d, const int32_t *values, bool is_inside)
{
    if (!is_inside || !fits(c, d, values))
        return false;
    Lower *l = c->l;
    const bool has_halves = l->caps->has_dsp && int_conv_has_words(c) && c->kh * c->kw <= MAX_HALF_TAPS &&
                            values[0] >= -HALF && values[0] <= HALF && int_conv_is_signed(c);
    Pool p = {.c = *c, .d = d, .width = has_halves ? 4 : 1, .weight = values[0]};
    p.x = has_halves ? int_conv_words(c) : lower_param(l, c->x, PARAM_READ);
    if (c->bias != 0 || c->x_zero != 0)
        p.begin = 1 + int_conv_begin_param(c, values, int_conv_zero_value(c), 0);
    if (has_rows(&p) && !lower_take(l) && lower_take(l)) {
        emit_rows(&p);
        return true;
    }
    if (c->dh * c->stride_h == c->kw * c->dw * c->stride_w) { // rows follow each other
        p.c.kw *= c->kh;
        p.c.kh = 1;
    }
    Point at = {.lanes = 1, .count = 1, .vec_axis = 1};
    uint32_t opened = 0;
    for (uint32_t i = 0; i < d->rank; i++)
        if (i != 1)
            opened += lower_open_axis(l, d, i, KFOR_PARALLEL, &at);
    const KRef o = lower_open_count(l->k, c->group / p.width, KFOR_SERIAL, "o", &opened);
    emit_block(&p, &at, o);
    lower_close(l, opened);
    return true;
}
