// SPDX-License-Identifier: Apache-2.0
// Sorting inside a kernel. See sort.h. Merges from the bottom up, between two halves of the scratch memory:
// no recursion, and no loop whose end is not known before it begins.
#include "passes/lower/ops/sort.h"

static KRef load_position(Lower *l, const Sort *s, KRef at)
{
    return k_cast(l->k, k_load(l->k, s->scratch, at, 1, 1), KT_INDEX);
}

// [begin, middle) and [middle, end) of the half at `from` into the half at `to`.
static void emit_merge(Lower *l, const Sort *s, const SortRuns *m)
{
    Kernel *k = l->k;
    const KRef left = k_var(k, m->begin, "left"), right = k_var(k, m->middle, "right");
    const KRef t = k_for(k, m->begin, m->end, 1, KFOR_SERIAL, "t");
    const KRef has_left = k_lt(k, k_get(k, left), m->middle);
    const KRef has_right = k_lt(k, k_get(k, right), m->end);
    const KRef takes_right = k_var(k, has_right, "takes_right");
    k_if(k, k_and(k, has_left, has_right));
    const KRef a = load_position(l, s, k_add(k, m->from, k_get(k, right)));
    const KRef b = load_position(l, s, k_add(k, m->from, k_get(k, left)));
    k_set(k, takes_right, s->before(l, s->ctx, a, b));
    k_end(k);
    const KRef place = k_add(k, m->to, t);
    k_if(k, k_get(k, takes_right));
    k_store(k, s->scratch, place, k_load(k, s->scratch, k_add(k, m->from, k_get(k, right)), 1, 1), 1);
    k_set(k, right, k_expr(k, "$ + 1", k_get(k, right)));
    k_else(k);
    k_store(k, s->scratch, place, k_load(k, s->scratch, k_add(k, m->from, k_get(k, left)), 1, 1), 1);
    k_set(k, left, k_expr(k, "$ + 1", k_get(k, left)));
    k_ends(k, 2);
}

KRef sort_positions(Lower *l, const Sort *s)
{
    rlx_assert(s->before != NULL && s->n >= 1);
    Kernel *k = l->k;
    int64_t passes = 0;
    while ((INT64_C(1) << passes) < s->n)
        passes++;
    const KRef n = k_index(k, s->n), zero = k_index(k, 0);
    const KRef i = k_for(k, zero, n, 1, KFOR_SERIAL, "i");
    k_store(k, s->scratch, k_add(k, s->base, i), k_cast(k, i, DTYPE_i32), 1);
    k_end(k);
    const KRef width = k_var(k, k_index(k, 1), "width"), from = k_var(k, zero, "from");
    k_for(k, zero, k_index(k, passes), 1, KFOR_SERIAL, "pass");
    const KRef w = k_get(k, width), both = k_expr(k, "$ * 2", w);
    const KRef pairs = k_expr(k, "($ + $ - 1) / $", n, both, both);
    const KRef half = k_get(k, from);
    const KRef pair = k_for(k, zero, pairs, 1, KFOR_SERIAL, "pair");
    SortRuns m = {.from = k_add(k, s->base, half),
               .to = k_expr(k, "$ + ($ - $)", s->base, n, half),
               .begin = k_mul(k, pair, both)};
    m.middle = k_expr(k, "min($ + $, $)", m.begin, w, n);
    m.end = k_expr(k, "min($ + $, $)", m.begin, both, n);
    emit_merge(l, s, &m);
    k_end(k);
    k_set(k, width, both);
    k_set(k, from, k_sub(k, n, half));
    k_end(k);
    return k_expr(k, "$ + #", s->base, passes % 2 * s->n);
}

KRef sort_first(Lower *l, const Sort *s, int64_t count)
{
    rlx_assert(s->before != NULL && count >= 1 && count <= s->n);
    Kernel *k = l->k;
    const KRef first = k_array(k, DTYPE_i32, count), zero = k_index(k, 0), last = k_index(k, count - 1);
    const KRef i = k_for(k, zero, k_index(k, s->n), 1, KFOR_SERIAL, "i");
    // The place of i in the list: moves to the front as long as i comes before what is there.
    const KRef filled = k_expr(k, "min($, #)", i, count);
    const KRef enters = k_var(k, k_expr(k, "$ < #", filled, count), "enters");
    k_if(k, k_not(k, k_get(k, enters)));
    k_set(k, enters, s->before(l, s->ctx, i, k_cast(k, k_aload(k, first, last, 1), KT_INDEX)));
    k_end(k);
    k_if(k, k_get(k, enters));
    const KRef place = k_var(k, k_min(k, filled, last), "place");
    const KRef steps = k_get(k, place);
    k_for(k, zero, steps, 1, KFOR_SERIAL, "step");
    const KRef at = k_get(k, place);
    k_if(k, k_lt(k, zero, at));
    const KRef before = k_expr(k, "$ - 1", at);
    const KRef other = k_aload(k, first, before, 1);
    k_if(k, s->before(l, s->ctx, i, k_cast(k, other, KT_INDEX)));
    k_astore(k, first, at, other);
    k_set(k, place, before);
    k_ends(k, 3);
    k_astore(k, first, k_get(k, place), k_cast(k, i, DTYPE_i32));
    k_ends(k, 2);
    return first;
}
