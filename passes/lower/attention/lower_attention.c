// SPDX-License-Identifier: Apache-2.0
// attention: which schedule computes it, and the one that serves everything on CPUs: one query row at a time,
// its scores in scratch memory: dot products along the head, exponentials in vectors, then the weighted sum
// of the value rows in vector accumulators. A key that is not seen costs nothing and counts as nothing,
// whatever its value holds; a row that sees no key gives 0.
#include "ir/shape/forms.h"
#include "passes/lower/attention/attention.h"
#include "passes/lower/rows.h"
#include <math.h>

enum { MAX_QUERY_VECTORS = 8, MOST_AHEAD = 1 << 29 }; // behind the end of every window

static bool has_last_vectors(const Lower *l, NodeId id)
{
    return operand_has_vectors(l, id, lower_node(l, id)->shape->rank - 1);
}

static void read_attributes(const Node *n, Attention *a)
{
    const AttentionForm form = attention_form(n);
    a->left = form.left;
    a->right = form.is_causal ? 0 : form.right;
    a->scale = form.scale == 0 ? 1 / sqrt((double)a->size) : form.scale;
    a->softcap = form.softcap;
    a->splits = form.splits;
    a->is_guarded = form.is_guarded;
}

static Attention attention_of(Lower *l)
{
    const Node *n = lower_node(l, l->anchor);
    const Shape *q = lower_node(l, n->src[0])->shape, *k = lower_node(l, n->src[1])->shape;
    const uint32_t rank = q->rank;
    Attention a = {.q = n->src[0],
                   .k = n->src[1],
                   .v = n->src[2],
                   .mask = n->n_src > 3 ? n->src[3] : 0,
                   .rank = rank,
                   .heads = q->dim[rank - 3],
                   .kv_heads = k->dim[rank - 3],
                   .queries = q->dim[rank - 2],
                   .keys = k->dim[rank - 2],
                   .size = q->dim[rank - 1],
                   .value_size = lower_node(l, n->src[2])->shape->dim[rank - 1],
                   .type = operand_sum_type(lower_node(l, n->src[0])->dtype)};
    read_attributes(n, &a);
    a.live = k_index(l->k, a.keys);
    a.has_live = n->n_src > 4 && n->src[4] != 0;
    if (a.has_live)
        a.live = operand_clamped(l, n->src[4], k_index(l->k, 0), 0, a.keys);
    a.blocks = n->n_src > 6 ? n->src[6] : 0;
    a.first = k_index(l->k, a.keys - a.queries);
    if (n->n_src > 5 && n->src[5] != 0 && (a.left >= 0 || a.right >= 0))
        a.first = operand_clamped(l, n->src[5], k_index(l->k, 0), -MOST_AHEAD, MOST_AHEAD);
    a.d = domain_of_root(l);
    const bool is_cpu = !l->caps->is_gpu && n->dtype == DTYPE_f32 && a.splits == 0;
    a.dot_lanes =
        is_cpu && has_last_vectors(l, a.q) && has_last_vectors(l, a.k) ? lower_fit_lanes(l, a.size) : 1;
    a.value_lanes = is_cpu && has_last_vectors(l, a.v) ? domain_lanes(l, &a.d, rank - 1) : 1;
    l->pk->macs =
        (uint64_t)(shape_numel(q) / a.size) * (uint64_t)a.keys * (uint64_t)(a.size + a.value_size);
    return a;
}

KRef attention_kv_index(Lower *l, const AttRow *r, NodeId id, KRef key, KRef last)
{
    rlx_assert(r->a->rank >= 3);
    KRef idx[SHAPE_MAX_RANK];
    for (uint32_t i = 0; i + 3 < r->a->rank; i++)
        idx[i] = r->at.idx[i];
    idx[r->a->rank - 3] = r->kv_head;
    idx[r->a->rank - 2] = key;
    idx[r->a->rank - 1] = last;
    return operand_index(l, id, idx);
}

KRef attention_query_index(Lower *l, const AttRow *r, KRef last)
{
    rlx_assert(last != 0 && r->a->rank >= 3);
    KRef idx[SHAPE_MAX_RANK];
    for (uint32_t i = 0; i + 1 < r->a->rank; i++)
        idx[i] = r->at.idx[i];
    idx[r->a->rank - 1] = last;
    return operand_index(l, r->a->q, idx);
}

AttRow attention_row(Lower *l, const Attention *a, Point at)
{
    rlx_assert(a->rank >= 3 && a->kv_heads > 0 && a->heads % a->kv_heads == 0);
    Kernel *k = l->k;
    const KRef zero = k_index(k, 0);
    AttRow r = {.a = a, .at = at, .begin = zero, .end = a->live};
    r.kv_head = k_expr(k, "$ / #", at.idx[a->rank - 3], a->heads / a->kv_heads);
    const KRef place = k_add(k, at.idx[a->rank - 2], a->first);
    if (a->right >= 0) {
        const KRef seen = k_expr(k, "$ + #", place, a->right + 1);
        r.end = k_expr(k, "max(min($, $), $)", seen, r.end, zero);
    }
    if (a->left >= 0) {
        const KRef before = k_expr(k, "max($ + #, $)", place, -a->left, zero);
        r.begin = k_min(k, before, r.end);
    }
    return r;
}

// --- scores ---

// The vectors of the query, loaded before the loop over keys when they fit the registers.
typedef struct Query {
    KRef vector[MAX_QUERY_VECTORS];
    uint32_t n; // 0: not loaded
} Query;

static Query load_query(Lower *l, const AttRow *r)
{
    const uint8_t lanes = r->a->dot_lanes;
    Query q = {.n = 0};
    if (lanes == 1 || r->a->size > (int64_t)lanes * MAX_QUERY_VECTORS)
        return q;
    for (int64_t i = 0; i < r->a->size; i += lanes)
        q.vector[q.n++] =
            k_load(l->k, lower_param(l, r->a->q, PARAM_READ), attention_query_index(l, r, k_index(l->k, i)),
                   lanes, attention_count(i, r->a->size, lanes));
    return q;
}

// A few vectors of q and k, without a loop.
static KRef dot_unrolled(Lower *l, const AttRow *r, const Query *q, KRef key)
{
    Kernel *k = l->k;
    const uint8_t lanes = r->a->dot_lanes;
    KRef sum = 0;
    for (uint32_t i = 0; i < q->n; i++) {
        const int64_t first = (int64_t)i * lanes;
        const KRef kv = k_cast(k,
                               k_load(k, lower_param(l, r->a->k, PARAM_READ),
                                      attention_kv_index(l, r, r->a->k, key, k_index(k, first)), lanes,
                                      attention_count(first, r->a->size, lanes)),
                               r->a->type);
        sum = sum == 0 ? k_mul(k, q->vector[i], kv) : k_fma(k, q->vector[i], kv, sum);
    }
    return k_hreduce(k, KOP_add, sum);
}

static KRef dot_step(Lower *l, const AttRow *r, KRef key, KRef i, uint8_t lanes, uint8_t count, KRef acc)
{
    Kernel *k = l->k;
    const KRef qv =
        k_load(k, lower_param(l, r->a->q, PARAM_READ), attention_query_index(l, r, i), lanes, count);
    const KRef kv = k_load(k, lower_param(l, r->a->k, PARAM_READ), attention_kv_index(l, r, r->a->k, key, i),
                           lanes, count);
    const KRef q = k_cast(k, qv, r->a->type), x = k_cast(k, kv, r->a->type);
    return k_fma(k, q, x, acc);
}

static KRef dot_looped(Lower *l, const AttRow *r, KRef key)
{
    Kernel *k = l->k;
    const uint8_t lanes = r->a->dot_lanes;
    const int64_t whole = r->a->size - r->a->size % lanes;
    const KRef acc = k_var(k, k_splat(k, k_number(k, r->a->type, 0), lanes), "dot");
    if (whole > 0) {
        const KRef i = k_for(k, k_index(k, 0), k_index(k, whole), lanes, KFOR_SERIAL, "c");
        k_set(k, acc, dot_step(l, r, key, i, lanes, lanes, k_get(k, acc)));
        k_end(k);
    }
    if (whole < r->a->size)
        k_set(k, acc,
              dot_step(l, r, key, k_index(k, whole), lanes, (uint8_t)(r->a->size - whole), k_get(k, acc)));
    return k_hreduce(k, KOP_add, k_get(k, acc));
}

KRef attention_masked(Lower *l, const Attention *a, KRef score, KRef v)
{
    rlx_assert(a->mask != 0 && score != 0);
    Kernel *k = l->k;
    if (lower_node(l, a->mask)->dtype != DTYPE_bool)
        return k_add(k, score, k_cast(k, v, a->type));
    if (k_inst(k, v)->dtype != DTYPE_bool) // the most that the score may be; that in place of NaN
        return k_min(k, score, v);
    const KRef lowest = k_number(k, a->type, -(double)INFINITY);
    return k_select(k, v, score, k_splat(k, lowest, k_inst(k, score)->lanes));
}

static KRef attention_mask_index(Lower *l, const AttRow *r, KRef key)
{
    rlx_assert(r->a->mask != 0);
    const Attention *a = r->a;
    KRef idx[SHAPE_MAX_RANK];
    for (uint32_t i = 0; i + 1 < a->rank; i++)
        idx[i] = r->at.idx[i];
    idx[a->rank - 1] = key;
    return operand_broadcast_index(l, a->mask, idx, a->rank);
}

KRef attention_mask_at(Lower *l, const AttRow *r, KRef key)
{
    rlx_assert(key != 0);
    const uint32_t param = lower_param(l, r->a->mask, PARAM_READ);
    return k_load(l->k, param, attention_mask_index(l, r, key), 1, 1);
}

KRef attention_score(Lower *l, const Attention *a, KRef dot)
{
    rlx_assert(dot != 0 && a->softcap >= 0);
    Kernel *k = l->k;
    const KRef score = k_mul(k, dot, k_number(k, a->type, a->scale));
    if (!(a->softcap > 0))
        return score;
    const KRef cap = k_number(k, a->type, a->softcap);
    return k_mul(k, k_tanh(k, k_div(k, score, cap)), cap);
}

KRef attention_guarded(Lower *l, const Attention *a, KRef y, KRef sum)
{
    rlx_assert(y != 0 && sum != 0);
    Kernel *k = l->k;
    const uint8_t lanes = k_inst(k, y)->lanes;
    if (!a->is_guarded)
        return y;
    const KRef of = k_splat(k, sum, lanes), zero = k_splat(k, k_number(k, a->type, 0), lanes);
    return k_select(k, k_eq(k, of, of), y, zero);
}

static KRef masked(Lower *l, const AttRow *r, KRef key, KRef score)
{
    return r->a->mask != 0 ? attention_masked(l, r->a, score, attention_mask_at(l, r, key)) : score;
}

KRef attention_score_at(Lower *l, const AttRow *r, KRef key)
{
    rlx_assert(key != 0 && r->a->rank >= 3);
    return masked(l, r, key, attention_score(l, r->a, dot_looped(l, r, key)));
}

static KRef score_at(Lower *l, const AttRow *r, const Query *q, KRef key)
{
    if (q->n == 0)
        return attention_score_at(l, r, key);
    return masked(l, r, key, attention_score(l, r->a, dot_unrolled(l, r, q, key)));
}

KRef attention_sum_of_wrong(Kernel *k, const KRef *acc, int64_t n)
{
    KRef part[ATTENTION_MAX_ACCS];
    rlx_assert(n >= 1 && n <= ATTENTION_MAX_ACCS);
    for (int64_t i = 0; i < n; i++) {
        const KRef v = k_get(k, acc[i]);
        part[i] = k_sub(k, v, v);
    }
    for (; n > 1; n = (n + 1) / 2)
        for (int64_t i = 0; i < n / 2; i++)
            part[i] = k_add(k, part[i], part[n - 1 - i]);
    return k_hreduce(k, KOP_add, part[0]);
}

// --- one row with scratch (CPU) ---

static KRef n_seen(Lower *l, const AttRow *r)
{
    return k_sub(l->k, r->end, r->begin);
}

// Fills scratch with the scores of the visible keys and a vector of -inf behind them; returns the variable of
// the largest.
static KRef emit_scores(Lower *l, const AttRow *r, const AttWeights *w, uint8_t lanes)
{
    Kernel *k = l->k;
    const KRef lowest = k_number(k, r->a->type, -(double)INFINITY), top = k_var(k, lowest, "top");
    const Query q = load_query(l, r);
    const KRef n = n_seen(l, r), j = k_for(k, k_index(k, 0), n, 1, KFOR_SERIAL, "j");
    const KRef score = score_at(l, r, &q, attention_key(l, r, k_add(k, r->begin, j)));
    k_store(k, w->scratch, k_add(k, w->base, j), score, 1);
    const KRef operand[3] = {k_get(k, top), score, 0};
    k_set(k, top, k_form(k, row_fold_max.form, operand, r->a->type));
    k_end(k);
    k_store(k, w->scratch, k_add(k, w->base, n), k_splat(k, lowest, lanes), lanes);
    return top;
}

// Weights that are no normal number are 0: hidden keys cost what others do then, where a processor takes a
// hundred cycles for a result that underflows. The largest weight of a row is 1, so nothing is lost.
KRef attention_weight(Lower *l, const Attention *a, KRef shifted)
{
    rlx_assert(shifted != 0);
    Kernel *k = l->k;
    const uint8_t lanes = k_inst(k, shifted)->lanes;
    const double lowest = a->type == DTYPE_f64 ? -708 : -87;
    const KRef zero = k_splat(k, k_number(k, a->type, 0), lanes);
    const KRef is_none = k_lt(k, shifted, k_splat(k, k_number(k, a->type, lowest), lanes));
    return k_select(k, is_none, zero, k_exp(k, k_select(k, is_none, zero, shifted)));
}

// A row that sees nothing has the largest score -inf: against 0 instead, all its weights are 0 as well.
static KRef attention_weigh(Lower *l, const Attention *a, const AttWeights *w, KRef n, KRef top,
                            uint8_t lanes)
{
    rlx_assert(lanes >= 1 && (lanes & (lanes - 1)) == 0);
    rlx_assert(n != 0 && top != 0);
    Kernel *k = l->k;
    const KRef zero = k_number(k, a->type, 0), sum = k_var(k, k_splat(k, zero, lanes), "sum");
    const KRef is_blind = k_eq(k, top, k_number(k, a->type, -(double)INFINITY));
    const KRef largest = k_select(k, is_blind, zero, top);
    const KRef j = k_for(k, k_index(k, 0), n, lanes, KFOR_SERIAL, "j"), place = k_add(k, w->base, j);
    const KRef shifted = k_sub(k, k_load(k, w->scratch, place, lanes, lanes), largest);
    const KRef weight = attention_weight(l, a, shifted);
    k_store(k, w->scratch, place, weight, lanes);
    k_set(k, sum, k_add(k, k_get(k, sum), weight));
    k_end(k);
    const KRef total = k_hreduce(k, KOP_add, k_get(k, sum)), one = k_number(k, a->type, 1);
    return k_select(k, k_eq(k, total, zero), zero, k_div(k, one, total));
}

void attention_mix(Lower *l, const AttRow *r, const AttWeights *w, KRef first, int64_t columns)
{
    rlx_assert(columns >= 1 && r->a->value_lanes >= 1);
    Kernel *k = l->k;
    const Attention *a = r->a;
    const uint8_t lanes = a->value_lanes;
    const uint32_t param = lower_param(l, a->v, PARAM_READ), n = (uint32_t)((columns + lanes - 1) / lanes);
    rlx_assert(n >= 1 && n <= ATTENTION_MAX_VECTORS);
    const KRef zero = k_number(k, a->type, 0);
    KRef acc[ATTENTION_MAX_VECTORS];
    for (uint32_t i = 0; i < n; i++)
        acc[i] = k_var(k, k_splat(k, zero, lanes), "mix");
    const KRef j = k_for(k, k_index(k, 0), n_seen(l, r), 1, KFOR_SERIAL, "j");
    const KRef weight = k_load(k, w->scratch, k_add(k, w->base, j), 1, 1);
    k_if(k, k_ne(k, weight, zero));
    const KRef key = attention_key(l, r, k_add(k, r->begin, j));
    for (uint32_t i = 0; i < n; i++) {
        const KRef column = k_expr(k, "$ + #", first, (int64_t)i * lanes);
        const KRef v = k_load(k, param, attention_kv_index(l, r, a->v, key, column), lanes,
                              attention_count((int64_t)i * lanes, columns, lanes));
        k_set(k, acc[i], k_fma(k, weight, k_cast(k, v, a->type), k_get(k, acc[i])));
    }
    k_ends(k, 2);
    for (uint32_t i = 0; i < n; i++) {
        Point at = r->at;
        at.vec_axis = a->rank - 1;
        at.idx[a->rank - 1] = k_expr(k, "$ + #", first, (int64_t)i * lanes);
        at.lanes = lanes;
        at.count = attention_count((int64_t)i * lanes, columns, lanes);
        const KRef y = attention_guarded(l, a, k_mul(k, k_get(k, acc[i]), w->factor), w->factor);
        pull_store_root(l, &a->d, at, k_cast(k, y, lower_node(l, l->anchor)->dtype));
    }
}

static void emit_row(Lower *l, const AttRow *r, AttWeights w)
{
    Kernel *k = l->k;
    const uint8_t lanes = r->a->type == DTYPE_f32 ? l->caps->f32_lanes : 1;
    const int64_t block = (int64_t)r->a->value_lanes * ATTENTION_MAX_VECTORS, rest = r->a->value_size % block;
    const int64_t whole = r->a->value_size - rest;
    const KRef top = emit_scores(l, r, &w, lanes);
    w.factor = attention_weigh(l, r->a, &w, n_seen(l, r), k_get(k, top), lanes);
    if (whole > 0) {
        const KRef first = k_for(k, k_index(k, 0), k_index(k, whole), block, KFOR_SERIAL, "c");
        attention_mix(l, r, &w, first, block);
        k_end(k);
    }
    if (rest > 0)
        attention_mix(l, r, &w, k_index(k, whole), rest);
}

void attention_lower_rows(Lower *l, const Attention *a, KRef queries)
{
    rlx_assert(a->rank >= 3 && a->keys >= 0);
    Kernel *k = l->k;
    Point at = {.lanes = 1, .count = 1};
    AttWeights w = {0};
    w.scratch = lower_param_thread_scratch(l, "scores", (DType)a->type,
                                           (uint64_t)(a->keys + l->caps->f32_lanes), &w.base);
    uint32_t opened = lower_open(l, &a->d, a->rank - 2, &at);
    if (queries != 0) {
        at.idx[a->rank - 2] = k_for(k, k_index(k, 0), queries, 1, KFOR_PARALLEL, "q");
        opened++;
    } else {
        opened += lower_open_axis(l, &a->d, a->rank - 2, KFOR_PARALLEL, &at);
    }
    AttRow r = attention_row(l, a, at);
    attention_list(l, &r);
    emit_row(l, &r, w);
    lower_close(l, opened);
}

void lower_attention(Lower *l)
{
    const Attention a = attention_of(l);
    if (l->caps->is_gpu) {
        if (!attention_lower_few(l, &a) && !attention_lower_wgmma(l, &a) && !attention_lower_mma(l, &a) &&
            !attention_lower_tiles(l, &a))
            attention_lower_threads(l, &a);
        return;
    }
    if (!attention_lower_blocks(l, &a))
        attention_lower_rows(l, &a, 0);
}

void lower_attention_part(Lower *l)
{
    const Attention a = attention_of(l);
    if (!l->caps->is_gpu || !attention_lower_few(l, &a))
        attention_lower_threads(l, &a);
}
