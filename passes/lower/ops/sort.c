// SPDX-License-Identifier: Apache-2.0
// Sorting inside a kernel. See sort.h. Merges from the bottom up, between two halves of the scratch memory:
// no recursion, and no loop whose end is not known before it begins.
#include "passes/lower/ops/sort.h"

static KRef load_position(Lower *l, const Sort *s, KRef at)
{
    return k_cast(l->k, k_load(l->k, s->scratch, at, 1, 1), KT_INDEX);
}

// One merge: [begin, middle) and [middle, end) of the half at `from` into the half at `to`.
typedef struct Merge {
    KRef from, to, begin, middle, end;
} Merge;

static void emit_merge(Lower *l, const Sort *s, const Merge *m)
{
    Kernel *k = l->k;
    const KRef left = k_var(k, m->begin, "left"), right = k_var(k, m->middle, "right");
    const KRef t = k_for(k, m->begin, m->end, 1, KFOR_SERIAL, "t");
    const KRef has_left = k_op(k, KOP_lt, k_get(k, left), m->middle, 0);
    const KRef has_right = k_op(k, KOP_lt, k_get(k, right), m->end, 0);
    const KRef takes_right = k_var(k, has_right, "takes_right");
    k_if(k, k_op(k, KOP_and, has_left, has_right, 0));
    const KRef a = load_position(l, s, k_add(k, m->from, k_get(k, right)));
    const KRef b = load_position(l, s, k_add(k, m->from, k_get(k, left)));
    k_set(k, takes_right, s->before(l, s->ctx, a, b));
    k_end(k);
    const KRef place = k_add(k, m->to, t);
    k_if(k, k_get(k, takes_right));
    k_store(k, s->scratch, place, k_load(k, s->scratch, k_add(k, m->from, k_get(k, right)), 1, 1), 1);
    k_set(k, right, k_add(k, k_get(k, right), k_index(k, 1)));
    k_else(k);
    k_store(k, s->scratch, place, k_load(k, s->scratch, k_add(k, m->from, k_get(k, left)), 1, 1), 1);
    k_set(k, left, k_add(k, k_get(k, left), k_index(k, 1)));
    k_end(k);
    k_end(k);
}

KRef sort_positions(Lower *l, const Sort *s)
{
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
    const KRef w = k_get(k, width), both = k_mul(k, w, k_index(k, 2));
    const KRef pairs = k_op(k, KOP_div, k_op(k, KOP_sub, k_add(k, n, both), k_index(k, 1), 0), both, 0);
    const KRef half = k_get(k, from);
    const KRef pair = k_for(k, zero, pairs, 1, KFOR_SERIAL, "pair");
    Merge m = {.from = k_add(k, s->base, half),
               .to = k_add(k, s->base, k_op(k, KOP_sub, n, half, 0)),
               .begin = k_mul(k, pair, both)};
    m.middle = k_op(k, KOP_min, k_add(k, m.begin, w), n, 0);
    m.end = k_op(k, KOP_min, k_add(k, m.begin, both), n, 0);
    emit_merge(l, s, &m);
    k_end(k);
    k_set(k, width, both);
    k_set(k, from, k_op(k, KOP_sub, n, half, 0));
    k_end(k);
    return k_add(k, s->base, k_index(k, passes % 2 * s->n));
}

KRef sort_first(Lower *l, const Sort *s, int64_t count)
{
    Kernel *k = l->k;
    const KRef first = k_array(k, DTYPE_i32, count), zero = k_index(k, 0), last = k_index(k, count - 1);
    const KRef i = k_for(k, zero, k_index(k, s->n), 1, KFOR_SERIAL, "i");
    // The place of i in the list: moves to the front as long as i comes before what is there.
    const KRef filled = k_op(k, KOP_min, i, k_index(k, count), 0);
    const KRef enters = k_var(k, k_op(k, KOP_lt, filled, k_index(k, count), 0), "enters");
    k_if(k, k_op(k, KOP_not, k_get(k, enters), 0, 0));
    k_set(k, enters, s->before(l, s->ctx, i, k_cast(k, k_aload(k, first, last, 1), KT_INDEX)));
    k_end(k);
    k_if(k, k_get(k, enters));
    const KRef place = k_var(k, k_op(k, KOP_min, filled, last, 0), "place");
    const KRef steps = k_get(k, place);
    k_for(k, zero, steps, 1, KFOR_SERIAL, "step");
    const KRef at = k_get(k, place);
    k_if(k, k_op(k, KOP_lt, zero, at, 0));
    const KRef before = k_op(k, KOP_sub, at, k_index(k, 1), 0);
    const KRef other = k_aload(k, first, before, 1);
    k_if(k, s->before(l, s->ctx, i, k_cast(k, other, KT_INDEX)));
    k_astore(k, first, at, other);
    k_set(k, place, before);
    k_end(k);
    k_end(k);
    k_end(k);
    k_astore(k, first, k_get(k, place), k_cast(k, i, DTYPE_i32));
    k_end(k);
    k_end(k);
    return first;
}
