// SPDX-License-Identifier: Apache-2.0
// What the schedules of int_conv for microcontrollers ask of it before they choose, and what all of them
// derive from its constants.
#include "ir/graph/tensor.h"
#include "passes/lower/conv/int_conv.h"
#include "passes/lower/operand.h"

// --- operands ------------------------------------------------------------------------------------

bool int_conv_is_signed(const IntConv *c)
{
    return lower_node(c->l, c->x)->dtype == DTYPE_i8;
}

bool int_conv_is_wide(const IntConv *c)
{
    return lower_node(c->l, c->x)->dtype == DTYPE_i16;
}

bool int_conv_knows_bias(const IntConv *c)
{
    return c->bias == 0 || node_is_const(c->l->g, c->bias);
}

bool int_conv_knows_zero(const IntConv *c)
{
    return c->x_zero == 0 || node_is_const(c->l->g, c->x_zero);
}

int64_t int_conv_zero_value(const IntConv *c)
{
    const Tensor zero = tensor_if_const(c->l->g, c->x_zero);
    return c->x_zero != 0 && int_conv_knows_zero(c) ? tensor_get_i64(&zero, 0) : 0;
}

KRef int_conv_zero(const IntConv *c)
{
    return int_conv_knows_zero(c) ? k_integer(c->l->k, DTYPE_i32, int_conv_zero_value(c))
                                  : operand_scalar(c->l, c->x_zero, k_index(c->l->k, 0), DTYPE_i32);
}

int64_t int_conv_part(const IntConv *c, int64_t parts)
{
    enum { LEAST = 6 };
    rlx_assert(parts > 1 && parts <= INT_MOST_PARTS);
    const int64_t columns = c->w_out / parts;
    const bool is_fit = c->n == 1 && c->h > 1 && columns * parts == c->w_out && columns % 2 == 0;
    return is_fit && columns >= LEAST ? columns : 0;
}

IntColumns int_conv_columns(const IntConv *c, KRef column, int64_t columns)
{
    Kernel *k = c->l->k;
    const int64_t reach = int_conv_reach(columns, c->sw, c->kw, c->dw);
    const KRef at = k_expr(k, "$ * # - #", column, c->sw, c->pad_w), first = k_expr(k, "max($, 0)", at);
    const KRef before = k_sub(k, first, at);
    const KRef n = k_expr(k, "min(#, min(# - $, # - $))", reach, reach, before, c->in_w, first);
    return (IntColumns){first, n, before};
}

bool int_conv_has_words(const IntConv *c)
{
    const int64_t offset = lower_loc(c->l, c->x)->offset;
    return c->stride_c == 1 && c->group * c->ic % 4 == 0 && offset % 4 == 0 && c->stride_n % 4 == 0 &&
           c->stride_h % 4 == 0 && c->stride_w % 4 == 0;
}

bool int_conv_has_byte_weights(const IntConv *c, const int32_t *values)
{
    return tensor_byte_type(values, c->group * c->oc * c->ic * c->kh * c->kw) == DTYPE_i8;
}

int64_t *int_conv_begins(const IntConv *c, const int32_t *values, int64_t zero)
{
    const int64_t n = c->group * c->oc, each = c->ic * c->kh * c->kw;
    const Tensor bias = tensor_if_const(c->l->g, c->bias);
    int64_t *begin = ARENA_ARRAY(c->l->pass->perm, int64_t, n);
    for (int64_t o = 0; o < n; o++) {
        int64_t sum = 0;
        for (int64_t i = 0; i < each; i++)
            sum += values[o * each + i];
        begin[o] = (c->bias != 0 ? tensor_get_i64(&bias, o) : 0) - zero * sum;
    }
    return begin;
}

uint32_t int_conv_begin_param(const IntConv *c, const int32_t *values, int64_t zero, int64_t added)
{
    Lower *l = c->l;
    const int64_t n = c->group * c->oc, *const from = int_conv_begins(c, values, zero);
    int32_t *begin = ARENA_ARRAY(l->pass->perm, int32_t, (size_t)n);
    for (int64_t o = 0; o < n; o++)
        begin[o] = (int32_t)(uint32_t)(uint64_t)(from[o] + added); // what does not fit wraps, as sums do
    return lower_param_data(l, "begin", DTYPE_i32, begin, (uint64_t)n * 4);
}

// --- shape ---------------------------------------------------------------------------------------

bool int_conv_is_joined(const IntConv *c)
{
    return c->kw == 1 || (c->dw == 1 && c->stride_w == c->ic);
}

bool int_conv_has_live_axes(const IntConv *c, const Domain *d)
{
    for (uint32_t i = 0; i < d->rank; i++)
        if (lower_knows(c->l, &d->live[i]))
            return true;
    return false;
}

const Access *int_conv_result(const IntConv *c, const Domain *d)
{
    return domain_access(d, c->l->root, d->has_out_space ? SPACE_OUT : SPACE_IN);
}

static void swap(int64_t *a, int64_t *b)
{
    const int64_t was = *a;
    *a = *b;
    *b = was;
}

void int_conv_turn(IntConv *c)
{
    swap(&c->h, &c->w_out);
    swap(&c->in_h, &c->in_w);
    swap(&c->kh, &c->kw);
    swap(&c->sh, &c->sw);
    swap(&c->dh, &c->dw);
    swap(&c->pad_h, &c->pad_w);
    swap(&c->stride_h, &c->stride_w);
}

int64_t int_conv_step(int64_t n, int64_t most)
{
    for (int64_t step = most; step > 1; step--)
        if (n % step == 0)
            return step;
    return 1;
}
