// SPDX-License-Identifier: Apache-2.0
// Attention with one query row in each thread, which goes over the keys once with a running maximum and keeps
// its sums in a local array: what serves all of GPUs, and parts of attention on every target, where the first
// part has all keys. And the merge of parts.
#include "ir/kernel/device.h"
#include "passes/lower/attention/attention.h"
#include "passes/lower/rows.h"
#include <math.h>

enum { MERGE_AT_ONCE = 32 };

// Sums are kept relative to the largest score so far, and scaled down when a larger one comes. The first
// score makes 0 of exp(-inf - score), so the start values do not matter; an infinite score ends in NaN either
// way.
static void emit_step(Lower *l, const AttRow *r, KRef key, const KRef *state, KRef mix, KRef columns)
{
    Kernel *k = l->k;
    const Attention *a = r->a;
    const KRef top = state[0], sum = state[1], score = attention_score_at(l, r, key);
    k_if(k, k_ne(k, score, k_number(k, a->type, -(double)INFINITY)));
    const KRef old = k_get(k, top);
    const KRef operand[3] = {old, score, 0};
    const KRef largest = k_form(k, row_fold_max.form, operand, a->type);
    const KRef keep = k_exp(k, k_sub(k, old, largest));
    const KRef weight = k_exp(k, k_sub(k, score, largest));
    k_set(k, top, largest);
    k_set(k, sum, k_fma(k, k_get(k, sum), keep, weight));
    const KRef c = k_for(k, k_index(k, 0), columns, 1, KFOR_SERIAL, "c");
    const KRef v =
        k_cast(k, k_load(k, lower_param(l, a->v, PARAM_READ), attention_kv_index(l, r, a->v, key, c), 1, 1),
               a->type);
    const KRef kept = k_mul(k, k_aload(k, mix, c, 1), keep);
    k_astore(k, mix, c, k_fma(k, weight, v, kept));
    k_ends(k, 2);
}

uint8_t attention_fetch_width(const Lower *l, NodeId id)
{
    const Shape *s = lower_node(l, id)->shape;
    const Loc *loc = lower_loc(l, id);
    rlx_assert(s->rank >= 1 && loc->buf != 0);
    uint8_t w = k_fetch_width(lower_node(l, id)->dtype);
    const bool is_placed = l->strip.n_held == 0 && l->plan->buffers.data[loc->buf].region != REGION_OUTER;
    if (!is_placed || loc->stride[s->rank - 1] != 1)
        return 1;
    while (w > 1 && (loc->offset % w != 0 || s->dim[s->rank - 1] % w != 0))
        w /= 2;
    for (uint32_t i = 0; i + 1 < s->rank; i++)
        while (w > 1 && s->dim[i] > 1 && loc->stride[i] % w != 0)
            w /= 2;
    return w;
}

uint32_t attention_live_axes(const Attention *a)
{
    rlx_assert(a->rank <= 32);
    uint32_t axes = 0;
    for (uint32_t i = 0; i < a->rank; i++)
        if (a->d.live[i].size != 0)
            axes |= 1u << i;
    return axes;
}

KRef attention_exp(Lower *l, bool is_half, KRef x)
{
    Kernel *k = l->k;
    if (!l->caps->has_mma || !is_half)
        return k_exp(k, x);
    return k_call(k, KDEV_exp2_fast, k_mul(k, x, k_number(k, DTYPE_f32, 1.4426950408889634)), 0, 0);
}

static KRef is_lowest(Lower *l, int type, KRef top)
{
    return k_eq(l->k, top, k_number(l->k, type, -(double)INFINITY));
}

void attention_store_part(Lower *l, const Attention *a, Point at, const AttSums *s)
{
    rlx_assert(s->sum != 0 && s->mix != 0);
    Kernel *k = l->k;
    const KRef zero = k_number(k, a->type, 0);
    if (a->splits == 0) {
        const KRef mean = k_div(k, s->mix, s->sum);
        const KRef y = attention_guarded(l, a, k_select(k, k_eq(k, s->sum, zero), zero, mean), s->sum);
        at.idx[a->rank - 1] = s->column;
        pull_store_root(l, &a->d, at, k_cast(k, y, lower_node(l, l->anchor)->dtype));
        return;
    }
    at.idx[a->rank] = s->column;
    pull_store_root(l, &a->d, at, s->mix);
    const KRef extra[ATTENTION_PART_EXTRA] = {s->top, s->sum, zero, zero};
    k_if(k, k_expr(k, "$ == 0", s->column));
    for (int64_t i = 0; i < ATTENTION_PART_EXTRA; i++) {
        at.idx[a->rank] = k_index(k, a->value_size + i);
        pull_store_root(l, &a->d, at, extra[i]);
    }
    k_end(k);
}

void attention_emit_row(Lower *l, const AttRow *r, KRef columns)
{
    rlx_assert(columns != 0 && r->begin != 0 && r->end != 0);
    Kernel *k = l->k;
    const Attention *a = r->a;
    const KRef zero = k_number(k, a->type, 0), lowest = k_number(k, a->type, -(double)INFINITY);
    const KRef state[2] = {k_var(k, lowest, "top"), k_var(k, zero, "sum")};
    const KRef mix = k_array(k, a->type, a->value_size);
    KRef c = k_for(k, k_index(k, 0), columns, 1, KFOR_SERIAL, "c");
    k_astore(k, mix, c, zero);
    k_end(k);
    const KRef key = k_for(k, r->begin, r->end, 1, KFOR_SERIAL, "j");
    emit_step(l, r, key, state, mix, columns);
    k_end(k);
    Point at = r->at;
    at.idx[a->rank - 1] = k_index(k, 0); // the part, if there are any
    c = k_for(k, k_index(k, 0), columns, 1, KFOR_SERIAL, "c");
    const AttSums sums = {k_get(k, state[0]), k_get(k, state[1]), k_aload(k, mix, c, 1), c};
    attention_store_part(l, a, at, &sums);
    k_end(k);
    if (a->splits < 2)
        return;
    at.idx[a->rank - 1] = k_for(k, k_index(k, 1), k_index(k, a->splits), 1, KFOR_SERIAL, "s");
    c = k_for(k, k_index(k, 0), columns, 1, KFOR_SERIAL, "c");
    attention_store_part(l, a, at, &(AttSums){lowest, zero, zero, c});
    k_ends(k, 2);
}

void attention_lower_threads(Lower *l, const Attention *a)
{
    Point at = {.lanes = 1, .count = 1};
    const uint32_t opened = lower_open(l, &a->d, a->rank - 1, &at);
    const AttRow r = attention_row(l, a, at);
    attention_emit_row(l, &r, k_index(l->k, a->value_size));
    lower_close(l, opened);
}

// --- merge ---

typedef struct Merge {
    NodeId part;
    uint32_t rank; // of part
    int64_t splits, size;
    int type;
    bool is_guarded;
} Merge;

static KRef part_at(Lower *l, const Merge *m, Point at, KRef split, KRef column)
{
    at.idx[m->rank - 2] = split;
    at.idx[m->rank - 1] = column;
    return k_load(l->k, lower_param(l, m->part, PARAM_READ), operand_index(l, m->part, at.idx), 1, 1);
}

// Top and sum of a part: by one access where that is possible.
static void read_part(Lower *l, const Merge *m, Point at, KRef split, KRef *top, KRef *sum)
{
    Kernel *k = l->k;
    *top = part_at(l, m, at, split, k_index(k, m->size));
    *sum = part_at(l, m, at, split, k_index(k, m->size + 1));
    if (l->caps->shared_bytes == 0 || attention_fetch_width(l, m->part) < ATTENTION_PART_EXTRA)
        return;
    const KRef both = k_array(k, m->type, ATTENTION_PART_EXTRA), zero = k_index(k, 0);
    at.idx[m->rank - 2] = split;
    at.idx[m->rank - 1] = k_index(k, m->size);
    k_fetch(k, lower_param(l, m->part, PARAM_READ), operand_index(l, m->part, at.idx), both, zero,
            ATTENTION_PART_EXTRA);
    *top = k_aload(k, both, zero, 1);
    *sum = k_aload(k, both, k_index(k, 1), 1);
}

// The largest of n values, as a tree: for a chain of as many choices LLVM (clang, Metal's compiler) takes
// time that doubles with every few of them. The values are overwritten.
static KRef largest_of(Lower *l, int type, KRef *value, int64_t n)
{
    for (; n > 1; n = (n + 1) / 2) {
        for (int64_t i = 0; i + 1 < n; i += 2)
            value[i / 2] = k_form(l->k, row_fold_max.form, (const KRef[3]){value[i], value[i + 1], 0}, type);
        if (n % 2 != 0)
            value[n / 2] = value[n - 1];
    }
    return value[0];
}

// Parts from `first` on, n of them, join what has been summed up: top, sum, mix.
static void merge_some(Lower *l, const Merge *m, Point at, KRef first, const KRef *state)
{
    Kernel *k = l->k;
    const int64_t n = m->splits < MERGE_AT_ONCE ? m->splits : MERGE_AT_ONCE;
    const KRef old = k_get(k, state[0]), column = at.idx[m->rank - 2];
    KRef of_part[MERGE_AT_ONCE], of_sum[MERGE_AT_ONCE], tops[MERGE_AT_ONCE + 1] = {old};
    for (int64_t i = 0; i < n; i++) {
        read_part(l, m, at, k_expr(k, "$ + #", first, i), &of_part[i], &of_sum[i]);
        tops[i + 1] = of_part[i];
    }
    const KRef top = largest_of(l, m->type, tops, n + 1);
    const KRef base = k_select(k, is_lowest(l, m->type, top), k_number(k, m->type, 0), top);
    const bool is_half = k_is_half(lower_node(l, l->anchor)->dtype);
    const KRef keep = attention_exp(l, is_half, k_sub(k, old, base));
    KRef sum = k_mul(k, k_get(k, state[1]), keep), mix = k_mul(k, k_get(k, state[2]), keep);
    for (int64_t i = 0; i < n; i++) {
        const KRef split = k_expr(k, "$ + #", first, i);
        const KRef factor = attention_exp(l, is_half, k_sub(k, of_part[i], base));
        const KRef of_mix = part_at(l, m, at, split, column);
        sum = k_fma(k, factor, of_sum[i], sum);
        mix = k_fma(k, factor, of_mix, mix);
    }
    k_set(k, state[1], sum);
    k_set(k, state[2], mix);
    k_set(k, state[0], top);
}

static KRef merged(Lower *l, const Domain *d, Point at, void *ctx)
{
    Kernel *k = l->k;
    const Merge *m = ctx;
    (void)d;
    const KRef zero = k_number(k, m->type, 0);
    const KRef state[3] = {k_var(k, k_number(k, m->type, -(double)INFINITY), "top"), k_var(k, zero, "sum"),
                           k_var(k, zero, "mix")};
    if (m->splits <= MERGE_AT_ONCE) {
        merge_some(l, m, at, k_index(k, 0), state);
    } else {
        const int64_t n = m->splits / MERGE_AT_ONCE * MERGE_AT_ONCE;
        merge_some(l, m, at, k_for(k, k_index(k, 0), k_index(k, n), MERGE_AT_ONCE, KFOR_SERIAL, "s"), state);
        k_end(k);
        Merge rest = *m;
        rest.splits = m->splits - n;
        if (rest.splits > 0)
            merge_some(l, &rest, at, k_index(k, n), state);
    }
    const KRef mean = k_div(k, k_get(k, state[2]), k_get(k, state[1]));
    const KRef y = k_select(k, k_eq(k, k_get(k, state[1]), zero), zero, mean);
    const Attention a = {.type = m->type, .is_guarded = m->is_guarded};
    return k_cast(k, attention_guarded(l, &a, y, k_get(k, state[1])), lower_node(l, l->anchor)->dtype);
}

void lower_attention_merge(Lower *l)
{
    const Node *n = lower_node(l, l->anchor), *part = lower_node(l, n->src[0]);
    const uint32_t rank = part->shape->rank;
    rlx_assert(rank >= 2);
    Merge m = {.part = n->src[0],
               .rank = rank,
               .splits = part->shape->dim[rank - 2],
               .size = part->shape->dim[rank - 1] - ATTENTION_PART_EXTRA,
               .type = part->dtype,
               .is_guarded = node_get_int(n, A_attention_merge_guard) != 0};
    lower_map(l, merged, &m, MAP_SCALAR);
}
