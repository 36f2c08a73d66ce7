// SPDX-License-Identifier: Apache-2.0
// Sorting of integers that stand for values. See sort.h. Few are merged; a merge takes one of two elements
// without a branch, because which one it is cannot be foretold. Many are distributed by the bytes of their
// values, from the lowest one on; what is equal stays in its order.
#include "passes/lower/ops/sort.h"

enum { POSITION_BITS = 32, BYTE_BITS = 8, BYTES = 4, DIGITS = 1 << BYTE_BITS, FEW = 192 };

bool sort_has_keys(const Lower *l, NodeId id, int64_t n)
{
    const DType t = (DType)lower_node(l, id)->dtype;
    return !l->caps->is_gpu && !l->caps->prefers_ints && dtype_info[t].bytes <= 4 && n < INT32_MAX;
}

// A value as u32 in its order. NaN is larger than all numbers, and zeros are equal.
static KRef rank_of(Kernel *k, KRef value)
{
    const int type = k_inst(k, value)->dtype;
    const DTypeClass cls = dtype_info[type].cls;
    const KRef half = k_integer(k, DTYPE_u32, INT64_C(0x80000000)), all = k_integer(k, DTYPE_u32, UINT32_MAX);
    if (cls == DCLASS_INT)
        return k_xor(k, k_bitcast(k, k_cast(k, value, DTYPE_i32), DTYPE_u32), half);
    if (cls != DCLASS_FLOAT)
        return k_cast(k, value, DTYPE_u32);
    const KRef v = k_cast(k, value, DTYPE_f32), zero = k_number(k, DTYPE_f32, 0);
    const KRef bits = k_bitcast(k, k_select(k, k_eq(k, v, zero), zero, v), DTYPE_u32);
    const KRef is_negative = k_le(k, half, bits);
    const KRef rank = k_xor(k, bits, k_select(k, is_negative, all, half));
    return k_select(k, k_eq(k, v, v), rank, all);
}

KRef sort_rank(Lower *l, KRef value, SortOrder order)
{
    Kernel *k = l->k;
    const KRef rank = rank_of(k, value), all = k_integer(k, DTYPE_u32, UINT32_MAX);
    return order == SORT_FALLING ? k_xor(k, rank, all) : rank;
}

KRef sort_key(Lower *l, KRef value, KRef position, SortOrder order)
{
    Kernel *k = l->k;
    const KRef first = sort_rank(l, value, order);
    const KRef high = k_shl(k, k_cast(k, first, DTYPE_u64), k_integer(k, DTYPE_u64, POSITION_BITS));
    return k_or(k, high, k_cast(k, position, DTYPE_u64));
}

KRef sort_position(Lower *l, KRef key)
{
    const KRef low = k_integer(l->k, DTYPE_u64, UINT32_MAX);
    return k_cast(l->k, k_and(l->k, key, low), KT_INDEX);
}

// Merges [begin, middle) and [middle, end) of the half at `from` into the half at `to`.
static void merge_keys(Lower *l, uint32_t scratch, const SortRuns *r)
{
    Kernel *k = l->k;
    const KRef left = k_var(k, r->begin, "left"), right = k_var(k, r->middle, "right");
    const KRef t = k_for(k, r->begin, r->end, 1, KFOR_SERIAL, "t");
    const KRef i = k_get(k, left), j = k_get(k, right);
    const KRef a = k_load(k, scratch, k_expr(k, "$ + min($, $ - 1)", r->from, i, r->middle), 1, 1);
    const KRef b = k_load(k, scratch, k_expr(k, "$ + min($, $ - 1)", r->from, j, r->end), 1, 1);
    const KRef is_left_done = k_le(k, r->middle, i), is_less = k_lt(k, b, a);
    const KRef takes_right = k_expr(k, "$ < $ & ($ | $)", j, r->end, is_left_done, is_less);
    const KRef step = k_select(k, takes_right, k_index(k, 1), k_index(k, 0));
    k_store(k, scratch, k_add(k, r->to, t), k_select(k, takes_right, b, a), 1);
    k_set(k, right, k_add(k, j, step));
    k_set(k, left, k_expr(k, "$ + (1 - $)", i, step));
    k_end(k);
}

static KRef digit_of(Kernel *k, KRef key, KRef shift)
{
    const KRef mask = k_integer(k, DTYPE_u64, DIGITS - 1);
    return k_cast(k, k_and(k, k_shr(k, key, shift), mask), KT_INDEX);
}

// Counts the keys of each digit and sets `counts` to where their places begin.
static void begin_places(Lower *l, uint32_t scratch, KRef counts, const SortRuns *r, KRef shift)
{
    Kernel *k = l->k;
    const KRef zero = k_integer(k, DTYPE_i32, 0), one = k_integer(k, DTYPE_i32, 1);
    k_astore(k, counts, k_loop(k, DIGITS, KFOR_SERIAL, "d"), zero);
    k_end(k);
    const KRef i = k_for(k, k_index(k, 0), r->end, 1, KFOR_SERIAL, "i");
    const KRef digit = digit_of(k, k_load(k, scratch, k_add(k, r->from, i), 1, 1), shift);
    k_astore(k, counts, digit, k_add(k, k_aload(k, counts, digit, 1), one));
    k_end(k);
    const KRef sum = k_var(k, zero, "sum"), d = k_loop(k, DIGITS, KFOR_SERIAL, "d");
    const KRef n = k_var(k, k_aload(k, counts, d, 1), "n"), before = k_get(k, sum);
    k_astore(k, counts, d, before);
    k_set(k, sum, k_add(k, before, k_get(k, n)));
    k_end(k);
}

static void distribute(Lower *l, uint32_t scratch, KRef count, int64_t most)
{
    Kernel *k = l->k;
    const KRef counts = k_array(k, DTYPE_i32, DIGITS);
    const KRef pass = k_loop(k, BYTES, KFOR_SERIAL, "pass"), odd = k_expr(k, "$ % 2", pass);
    const SortRuns r = {.from = k_expr(k, "$ * #", odd, most),
                        .to = k_expr(k, "(1 - $) * #", odd, most),
                        .end = count};
    const KRef shift = k_cast(k, k_expr(k, "$ * # + #", pass, BYTE_BITS, POSITION_BITS), DTYPE_u64);
    begin_places(l, scratch, counts, &r, shift);
    const KRef i = k_for(k, k_index(k, 0), count, 1, KFOR_SERIAL, "i");
    const KRef key = k_load(k, scratch, k_add(k, r.from, i), 1, 1), digit = digit_of(k, key, shift);
    const KRef place = k_var(k, k_aload(k, counts, digit, 1), "place");
    k_store(k, scratch, k_add(k, r.to, k_cast(k, k_get(k, place), KT_INDEX)), key, 1);
    k_astore(k, counts, digit, k_add(k, k_get(k, place), k_integer(k, DTYPE_i32, 1)));
    k_ends(k, 2);
}

static void merge_all(Lower *l, uint32_t scratch, KRef count, int64_t most)
{
    Kernel *k = l->k;
    int64_t passes = 0;
    while ((INT64_C(1) << passes) < most)
        passes++;
    passes += passes % 2; // so that the first half has the result
    const KRef width = k_var(k, k_index(k, 1), "width"), from = k_var(k, k_index(k, 0), "from");
    k_loop(k, passes, KFOR_SERIAL, "pass");
    const KRef w = k_get(k, width), both = k_expr(k, "$ * 2", w), half = k_get(k, from);
    const KRef pairs = k_expr(k, "($ + $ - 1) / $", count, both, both);
    const KRef pair = k_for(k, k_index(k, 0), pairs, 1, KFOR_SERIAL, "pair");
    SortRuns r = {.from = half, .to = k_expr(k, "# - $", most, half), .begin = k_mul(k, pair, both)};
    r.middle = k_expr(k, "min($ + $, $)", r.begin, w, count);
    r.end = k_expr(k, "min($ + $, $)", r.begin, both, count);
    merge_keys(l, scratch, &r);
    k_end(k);
    k_set(k, width, both);
    k_set(k, from, k_expr(k, "# - $", most, half));
    k_end(k);
}

void sort_keys(Lower *l, uint32_t scratch, KRef count, int64_t most)
{
    rlx_assert(most >= 1);
    if (most < FEW)
        merge_all(l, scratch, count, most);
    else
        distribute(l, scratch, count, most);
}
