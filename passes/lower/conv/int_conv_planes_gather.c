// SPDX-License-Identifier: Apache-2.0
// Rows of the input of one input channel a group, gathered into planes in scratch memory. See
// int_conv_planes.c.
#include "passes/lower/conv/int_conv_planes.h"

enum { UNROLLED = 4 }; // bytes that are gathered at a time

// One column: its channels as halves of words, less the zero point.
static void load_column(const IntPlanes *p, KRef x, KRef *even, KRef *odd)
{
    Kernel *k = p->c.l->k;
    KRef v = k_load(k, p->x, x, 1, 1);
    if (p->width == 1) {
        *even = k_add(k, k_cast(k, v, DTYPE_i32), p->offset);
        return;
    }
    v = int_conv_is_signed(&p->c) ? v : k_xor(k, v, k_integer(k, DTYPE_i32, (int32_t)0x80808080u));
    *even = k_even8(k, p->offset, v);
    *odd = k_odd8(k, p->offset, v);
}

// Two neighbouring columns, of which one may be 0 (beside the input), to their words.
static void put_columns(const IntPlanes *p, KRef x0, KRef x1, KRef to)
{
    Kernel *k = p->c.l->k;
    const int64_t plane = p->rows * p->pitch / 2;
    const KRef zero = k_integer(k, DTYPE_i32, 0);
    KRef even[2] = {zero, zero}, odd[2] = {zero, zero};
    if (x0 != 0)
        load_column(p, x0, &even[0], &odd[0]);
    if (x1 != 0)
        load_column(p, x1, &even[1], &odd[1]);
    k_store(k, p->planes, to, k_pack_b(k, even[0], even[1]), 1);
    if (p->width == 1)
        return;
    k_store(k, p->planes, k_expr(k, "$ + #", to, plane), k_pack_b(k, odd[0], odd[1]), 1);
    k_store(k, p->planes, k_expr(k, "$ + #", to, 2 * plane), k_pack_t(k, even[0], even[1]), 1);
    k_store(k, p->planes, k_expr(k, "$ + #", to, 3 * plane), k_pack_t(k, odd[0], odd[1]), 1);
}

int64_t int_planes_columns(const IntPlanes *p)
{
    const IntConv *c = &p->c;
    const int64_t end = int_conv_reach(c->w_out, c->sw, c->kw, c->dw) - c->pad_w;
    return end < c->in_w ? end : c->in_w;
}

bool int_planes_is_raised(const IntPlanes *p)
{
    return !p->has_pairs && p->c.l->caps->is_narrow && int_conv_is_signed(&p->c);
}

DType int_planes_type(const IntPlanes *p)
{
    return p->has_pairs ? DTYPE_i32 : int_planes_is_raised(p) ? DTYPE_u8 : lower_node(p->c.l, p->c.x)->dtype;
}

void int_planes_clear(const IntPlanes *p, KRef from, int64_t n)
{
    Kernel *k = p->c.l->k;
    const int64_t raised = int_planes_is_raised(p) ? INT_PLANES_SIGN : 0;
    const int64_t v = (p->has_pairs ? 0 : int_conv_zero_value(&p->c)) + raised;
    const KRef none = k_integer(k, DTYPE_i32, 0); // packed: else compilers call memset, which small C
                                                  // libraries have by bytes
    const KRef value = p->has_pairs ? k_pack_b(k, none, none) : k_integer(k, (int)int_planes_type(p), v);
    const KRef i = k_loop(k, n / int_planes_unit(p), KFOR_SERIAL, "i");
    k_store(k, p->planes, k_expr(k, "$ + $", from, i), value, 1);
    k_end(k);
}

// Of a row of the planes, the words (or elements) [0, begin) and [end, pitch): where nothing but strips clear
// the planes.
static void clear_sides(const IntPlanes *p, KRef to, int64_t begin, int64_t end)
{
    Kernel *k = p->c.l->k;
    const int64_t pitch = p->pitch / int_planes_unit(p);
    for (int64_t i = 0; i < p->width && p->is_by_rows; i++) {
        const KRef row = k_expr(k, "$ + #", to, i * p->rows * pitch);
        if (begin > 0)
            int_planes_clear(p, row, begin * int_planes_unit(p));
        if (end < pitch)
            int_planes_clear(p, k_expr(k, "$ + #", row, end), (pitch - end) * int_planes_unit(p));
    }
}

// A row of the input at x to that of the planes at `to`.
static void gather_pairs(const IntPlanes *p, KRef x, KRef to)
{
    Kernel *k = p->c.l->k;
    const int64_t step = p->c.stride_w / p->width, n = int_planes_columns(p), lead = p->c.pad_w % 2;
    const int64_t pairs = (n - lead) / 2, at = (p->c.pad_w + lead) / 2;
    uint32_t opened = 0;
    if (lead != 0)
        put_columns(p, 0, x, k_expr(k, "$ + #", to, at - 1));
    if (pairs > 0) {
        const KRef i = lower_open_count(k, pairs, KFOR_SERIAL, "i", &opened);
        const KRef from = k_expr(k, "$ + $ * # + #", x, i, 2 * step, lead * step);
        put_columns(p, from, k_expr(k, "$ + #", from, step), k_expr(k, "$ + $ + #", to, i, at));
        lower_close(p->c.l, opened);
    }
    if ((n - lead) % 2 != 0)
        put_columns(p, k_expr(k, "$ + #", x, (n - 1) * step), 0, k_expr(k, "$ + #", to, at + pairs));
    clear_sides(p, to, at - lead, at + pairs + (n - lead) % 2);
}

// n bytes of a row.
static void gather_some(const IntPlanes *p, KRef x, KRef to, int64_t n)
{
    Kernel *k = p->c.l->k;
    for (int64_t i = 0; i < n; i++) {
        KRef v = k_load(k, p->x, k_expr(k, "$ + #", x, i * p->c.stride_w), 1, 1);
        if (int_planes_is_raised(p))
            v = k_xor(k, k_cast(k, v, DTYPE_i32), k_integer(k, DTYPE_i32, INT_PLANES_SIGN));
        k_store(k, p->planes, k_expr(k, "$ + #", to, i), k_cast(k, v, (int)int_planes_type(p)), 1);
    }
}

static void gather_bytes(const IntPlanes *p, KRef x, KRef to)
{
    Kernel *k = p->c.l->k;
    const int64_t n = int_planes_columns(p), whole = n / UNROLLED * UNROLLED;
    uint32_t opened = 0;
    clear_sides(p, to, p->c.pad_w, p->c.pad_w + n);
    to = k_expr(k, "$ + #", to, p->c.pad_w);
    if (whole > 0) {
        const KRef i = lower_open_count(k, n / UNROLLED, KFOR_SERIAL, "i", &opened);
        gather_some(p, k_expr(k, "$ + $ * #", x, i, UNROLLED * p->c.stride_w),
                    k_expr(k, "$ + $ * #", to, i, UNROLLED), UNROLLED);
        lower_close(p->c.l, opened);
    }
    gather_some(p, k_expr(k, "$ + #", x, whole * p->c.stride_w), k_expr(k, "$ + #", to, whole), n - whole);
}

static KRef begin_row(const IntPlanes *p, KRef image, KRef block, KRef row, KRef part)
{
    const IntConv *c = &p->c;
    Kernel *k = c->l->k;
    if (p->made == NULL)
        return k_expr(k, "$ * # + $ * # + $ * #", image, c->stride_n / p->width, block,
                      p->width == 1 ? c->stride_c : 1, row, c->stride_h / p->width);
    if (p->parts > 1)
        int_made_part(p->made, row, block, part);
    else
        int_made_row(p->made, row, block);
    return k_index(k, 0);
}

void int_planes_gather(const IntPlanes *p, KRef image, KRef block, const IntPlaneRows *rows)
{
    const IntConv *c = &p->c;
    Kernel *k = c->l->k;
    const int64_t pitch = p->pitch / int_planes_unit(p), end = c->pad_h + c->in_h;
    const bool is_whole = p->strip == c->h && !p->is_by_rows; // then rows outside stay clear
    const KRef r = is_whole ? k_for(k, k_index(k, c->pad_h), k_index(k, p->rows < end ? p->rows : end), 1,
                                    KFOR_SERIAL, "r")
                            : k_for(k, k_index(k, 0), rows->n, 1, KFOR_SERIAL, "r");
    const KRef row = k_expr(k, "$ + $", rows->first, r), to = k_expr(k, "$ * #", r, pitch);
    if (!is_whole)
        k_if(k, k_expr(k, "(0 <= $) & ($ < #)", row, row, c->in_h));
    const KRef x = begin_row(p, image, block, row, rows->part);
    (p->has_pairs ? gather_pairs : gather_bytes)(p, x, to);
    if (is_whole) {
        k_end(k);
        return;
    }
    k_else(k);
    for (int64_t i = 0; i < p->width; i++)
        int_planes_clear(p, k_expr(k, "$ + #", to, i * p->rows * pitch), p->pitch);
    k_end(k);
    k_end(k);
}
