// SPDX-License-Identifier: Apache-2.0
// See attention_warp.h.
#include "passes/lower/attention/attention_warp.h"
#include <math.h>

enum { TOGETHER = 8 }; // heads whose tiles are taken in turns

static const double log2_e = 1.4426950408889634;

// Products are the scores but for their scale, which goes into the exponent.
static bool is_plain(const Attention *a)
{
    return a->mask == 0 && !(a->softcap > 0) && a->scale > 0;
}

static double exponent_scale(const Attention *a)
{
    return is_plain(a) ? a->scale * log2_e : log2_e;
}

static KRef loop(Kernel *k, int64_t n)
{
    return k_loop(k, n, KFOR_UNROLL, "i");
}

// A mask may have any finite number, so that only -inf is less; without one this is, and needs no care.
static double lowest_of(const Attention *a)
{
    return a->mask != 0 ? -(double)INFINITY : -1e30;
}

static KRef lowest(const AttWarp *x)
{
    return k_number(x->l->k, DTYPE_f32, lowest_of(x->a));
}

KRef attention_warp_pack(Kernel *k, DType type, KRef low, KRef high)
{
    rlx_assert(k_is_half(type));
    return k_call(k, type == DTYPE_f16 ? KDEV_pack_f16 : KDEV_pack_bf16, low, high, 0);
}

AttTile attention_tile(Lower *l, const Attention *a, KRef number, int64_t n)
{
    rlx_assert(n > 0 && a->rank >= 3);
    Kernel *k = l->k;
    if (a->right < 0)
        return (AttTile){k_expr(k, "$ / #", number, n), k_expr(k, "$ % #", number, n)};
    int64_t heads = 1;
    for (uint32_t i = 0; i + 2 < a->rank; i++)
        heads *= a->d.extent[i];
    const KRef first = k_expr(k, "$ / # * #", number, n * TOGETHER, TOGETHER);
    const KRef left = k_expr(k, "# - $", heads, first);
    const KRef width = k_expr(k, "min($, #)", left, TOGETHER);
    const KRef inner = k_expr(k, "$ % #", number, n * TOGETHER);
    return (AttTile){k_expr(k, "$ + $ % $", first, inner, width),
                     k_expr(k, "# - $ / $", n - 1, inner, width)};
}

void attention_warp_open(AttWarp *x)
{
    rlx_assert(x->keys % 8 == 0 && x->columns % 8 == 0);
    Kernel *k = x->l->k;
    const KRef zero = k_number(k, DTYPE_f32, 0);
    x->scores = k_array(k, DTYPE_f32, x->keys / 2);
    x->mix = k_array(k, DTYPE_f32, x->columns / 2);
    for (int64_t h = 0; h < 2; h++) {
        x->top[h] = k_var(k, zero, "top");
        x->sum[h] = k_var(k, zero, "sum");
        x->keep[h] = k_var(k, zero, "keep");
    }
}

void attention_warp_begin(AttWarp *x)
{
    Kernel *k = x->l->k;
    for (int64_t h = 0; h < 2; h++) {
        k_set(k, x->top[h], lowest(x));
        k_set(k, x->sum[h], k_number(k, DTYPE_f32, 0));
    }
}

// tanh(x) is 1 - 2 / (1 + exp(2 x)): exact enough for weights of 16 bits.
static KRef capped(Kernel *k, const Attention *a, KRef product)
{
    if (!(a->softcap > 0))
        return k_mul(k, product, k_number(k, DTYPE_f32, a->scale));
    const double twice = 2 * log2_e * a->scale / a->softcap;
    const KRef one = k_number(k, DTYPE_f32, 1), cap = k_number(k, DTYPE_f32, a->softcap);
    const KRef down = k_number(k, DTYPE_f32, -2 * a->softcap);
    const KRef power = k_mul(k, product, k_number(k, DTYPE_f32, twice));
    const KRef part = k_expr(k, "$ / ($ + $)", down, one, k_call(k, KDEV_exp2_fast, power, 0, 0));
    return k_add(k, cap, part);
}

void attention_warp_score(const AttWarp *x, KRef first, AttMask *mask, const void *ctx)
{
    Kernel *k = x->l->k;
    if (is_plain(x->a))
        return;
    const KRef four = loop(k, x->keys / 8);
    for (int64_t h = 0; h < 2; h++) {
        KRef more[2] = {0, 0};
        if (mask != NULL)
            mask(ctx, x, h, first, four, more);
        for (int64_t e = 0; e < 2; e++) {
            const KRef place = k_expr(k, "$ * 4 + #", four, 2 * h + e);
            const KRef score = capped(k, x->a, k_aload(k, x->scores, place, 1));
            const bool is_masked = more[e] != 0;
            k_astore(k, x->scores, place,
                     is_masked ? attention_masked(x->l, x->a, score, more[e]) : score);
        }
    }
    k_end(k);
}

void attention_warp_hide(const AttWarp *x, KRef first, KRef is_cut)
{
    Kernel *k = x->l->k;
    k_if(k, is_cut);
    const KRef column = k_expr(k, "$ + $ % 4 * 2", first, x->lane);
    const KRef four = loop(k, x->keys / 8);
    for (int64_t i = 0; i < 4; i++) {
        const AttRow *row = &x->row[i / 2];
        const KRef key = k_expr(k, "$ * 8 + $ + #", four, column, i % 2);
        const KRef place = k_expr(k, "$ * 4 + #", four, i);
        const KRef is_seen = k_expr(k, "$ <= $ & $ < $", row->begin, key, key, row->end);
        k_astore(k, x->scores, place, k_select(k, is_seen, k_aload(k, x->scores, place, 1), lowest(x)));
    }
    k_ends(k, 2);
}

// What is taken from the scores of a row whose largest one is `all`: from scaled ones without a mask, whose
// numbers may be out of range once they are multiplied. 0 while the row has seen nothing, so that its weights
// are exp2(lowest), 0: less its own product, rounded, the lowest number is not 0 but what rounding leaves.
static KRef shift_of(const AttWarp *x, KRef all)
{
    Kernel *k = x->l->k;
    const KRef zero = k_number(k, DTYPE_f32, 0), scale = k_number(k, DTYPE_f32, exponent_scale(x->a));
    if (x->a->mask != 0)
        return k_select(k, k_eq(k, all, lowest(x)), zero, all);
    const KRef sees = k_lt(k, k_number(k, DTYPE_f32, lowest_of(x->a) / 2), all);
    return k_select(k, sees, k_neg(k, k_mul(k, all, scale)), zero);
}

// The largest score of row h so far, in all threads of the row.
static KRef raise_top(const AttWarp *x, int64_t h)
{
    Kernel *k = x->l->k;
    const KRef scale = k_number(k, DTYPE_f32, exponent_scale(x->a)), old = k_get(k, x->top[h]);
    const KRef top = k_var(k, old, "top"), four = loop(k, x->keys / 8);
    for (int64_t e = 0; e < 2; e++) {
        const KRef score = k_aload(k, x->scores, k_expr(k, "$ * 4 + #", four, 2 * h + e), 1);
        k_set(k, top, k_call(k, KDEV_max_fast, k_get(k, top), score, 0));
    }
    k_end(k);
    const KRef all = k_team(k, KOP_max, k_get(k, top), 4), from = x->a->mask != 0 ? shift_of(x, all) : all;
    k_set(k, x->keep[h], k_call(k, KDEV_exp2_fast, k_expr(k, "($ - $) * $", old, from, scale), 0, 0));
    k_set(k, x->top[h], all);
    return all;
}

static KRef weight_of(const AttWarp *x, KRef score, KRef shift)
{
    Kernel *k = x->l->k;
    const KRef scale = k_number(k, DTYPE_f32, exponent_scale(x->a));
    const KRef power =
        x->a->mask != 0 ? k_expr(k, "($ - $) * $", score, shift, scale) : k_fma(k, score, scale, shift);
    return k_call(k, KDEV_exp2_fast, power, 0, 0);
}

static void weigh_row(const AttWarp *x, int64_t h)
{
    Kernel *k = x->l->k;
    const KRef shift = shift_of(x, raise_top(x, h));
    const KRef sum = k_var(k, k_number(k, DTYPE_f32, 0), "sum"), four = loop(k, x->keys / 8);
    KRef weight[2], at[2];
    for (int64_t e = 0; e < 2; e++) {
        at[e] = k_expr(k, "$ * 4 + #", four, 2 * h + e);
        weight[e] = weight_of(x, k_aload(k, x->scores, at[e], 1), shift);
    }
    for (int64_t e = 0; e < 2; e++)
        k_astore(k, x->scores, at[e], weight[e]);
    k_set(k, sum, k_expr(k, "$ + ($ + $)", k_get(k, sum), weight[0], weight[1]));
    k_end(k);
    k_set(k, x->sum[h], k_fma(k, k_get(k, x->sum[h]), k_get(k, x->keep[h]), k_get(k, sum)));
}

void attention_warp_weigh(const AttWarp *x)
{
    for (int64_t h = 0; h < 2; h++)
        weigh_row(x, h);
}

void attention_warp_rescale(const AttWarp *x)
{
    Kernel *k = x->l->k;
    const KRef four = loop(k, x->columns / 8);
    for (int64_t e = 0; e < 4; e++) {
        const KRef at = k_expr(k, "$ * 4 + #", four, e);
        k_astore(k, x->mix, at, k_mul(k, k_aload(k, x->mix, at, 1), k_get(k, x->keep[e / 2])));
    }
    k_end(k);
}

KRef attention_warp_factor(const AttWarp *x, int64_t h)
{
    Kernel *k = x->l->k;
    const KRef zero = k_number(k, DTYPE_f32, 0), sum = k_get(k, x->sum[h]);
    const KRef factor = k_div(k, k_number(k, DTYPE_f32, 1), sum);
    return k_select(k, k_eq(k, sum, zero), zero, factor);
}

KRef attention_warp_rest(const AttWarp *x)
{
    Kernel *k = x->l->k;
    const KRef rest = k_var(k, k_number(k, DTYPE_f32, 0), "rest"), i = loop(k, x->columns / 2);
    const KRef v = k_aload(k, x->mix, i, 1);
    k_set(k, rest, k_expr(k, "$ + ($ - $)", k_get(k, rest), v, v));
    k_end(k);
    return k_get(k, rest);
}

void attention_warp_store(const AttWarp *x, KRef end)
{
    Lower *l = x->l;
    Kernel *k = l->k;
    const Attention *a = x->a;
    const KRef factor[2] = {attention_warp_factor(x, 0), attention_warp_factor(x, 1)};
    const KRef four = loop(k, x->columns / 8);
    const KRef column = k_expr(k, "$ * 8 + $ % 4 * 2", four, x->lane);
    for (int64_t i = 0; i < 4; i++) {
        Point at = x->row[i / 2].at;
        const KRef c = k_expr(k, "$ + #", column, i % 2), place = k_expr(k, "$ * 4 + #", four, i);
        const KRef v = k_aload(k, x->mix, place, 1);
        at.idx[a->rank - 1] = c;
        k_if(k, k_expr(k, "$ < # & $ < $", c, a->value_size, at.idx[a->rank - 2], end));
        const KRef y = attention_guarded(l, a, k_mul(k, v, factor[i / 2]), factor[i / 2]);
        pull_store_root(l, &a->d, at, k_cast(k, y, lower_node(l, l->anchor)->dtype));
        k_end(k);
    }
    k_end(k);
}
