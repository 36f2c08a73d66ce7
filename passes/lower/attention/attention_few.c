// SPDX-License-Identifier: Apache-2.0
// Attention of few queries on GPUs, as in every step of a decoder: what takes time is reading keys and
// values, so a group of threads has all queries that share them (the heads of one key head, times the
// queries), and parts of the keys go to different groups (attention_part; attention_merge joins them). A row
// of keys is read by as many threads as it has fetches, by the next such team the next row, and so on: every
// team keeps a running maximum and its sums in registers, and the group joins them in shared memory at the
// end. Keys and values are read where they are, up to a length that the device knows.
//
// Where a mask hides most keys of each query (the attribute `sparse`: pages of other sequences), a group has
// one query, and reads the blocks of keys alone that have any which the query sees (seen_blocks.c). Parts
// then have every so many-th of them.
#include "ir/shape/forms.h"
#include "passes/lower/attention/attention.h"
#include <math.h>

enum {
    MAX_QUERIES = 8,
    MAX_ROWS = 8,
    THREADS = 128,
    MAX_TEAM = 32,
    PROCESSOR_GROUPS = 8, // enough reads under way
    MAX_SPLITS = 64,
    FEW_SPLITS = 32, // that merge at once
    MANY_KEYS = 512, // of a part: more parts pay
    MAX_UNROLL = 16,
    MIN_AT_ONCE = 2, // keys of a team
    AT_ONCE = 4,
    MAX_AT_ONCE = 8,  // where that are all, or there is one row
    MAX_FLOATS = 128, // of queries and sums of a thread
    MAX_SHARED_FLOATS = 4096,
    MAX_SPARSE_QUERIES = 512,            // of a run of a language model
    SPARSE_GROUPS = 2 * PROCESSOR_GROUPS // some have little to do
};

// Rows of keys or values as a team reads them: fetch number `thread + i * lanes` of `width` elements.
typedef struct Stream {
    NodeId id;
    uint32_t param;
    uint8_t width;
    int64_t n; // fetches of a row
    int64_t vectors, floats; // of a thread: fetches, elements
} Stream;

typedef struct Few {
    Lower *l;
    const Attention *a;
    Stream k, v;
    int64_t all_rows, rows, lanes, teams; // rows: of a group; lanes: threads of a team
    int64_t stride;                       // from one row of a group to the next, among those of a key head
    int64_t at_once;                      // keys that a team reads before it uses them
    KRef thread, lane, team;
    KRef lo, hi; // keys of the group
    AttRow row[MAX_ROWS];
    bool has_ends, is_half;         // rows see different keys; 16-bit floats
    KRef q, keys, values, mix;      // arrays: queries, what was read, sums
    KRef top[MAX_ROWS], sum[MAX_ROWS]; // variables
} Few;

static int64_t power_of_two(int64_t n)
{
    int64_t p = 1;
    while (p < n)
        p *= 2;
    return p;
}

static int64_t divisor_up_to(int64_t n, int64_t most)
{
    while (n % most != 0)
        most--;
    return most;
}

static bool has_few(const Attention *a, bool is_sparse)
{
    return a->queries >= 1 && a->queries <= (is_sparse ? MAX_SPARSE_QUERIES : MAX_QUERIES) && a->keys >= 1 &&
           a->value_size >= 1 && a->type == DTYPE_f32;
}

// One mask of bools for all heads, which alone decides, and teams that a block has enough keys for.
bool attention_is_sparse(const Graph *g, const Node *n)
{
    const AttentionForm form = attention_form(n);
    if (!form.is_sparse || form.is_causal || form.left >= 0 || form.right >= 0 || n->n_src < 4 ||
        n->src[3] == 0 || (n->n_src > 4 && n->src[4] != 0))
        return false;
    const Node *k = graph_node(g, n->src[1]), *mask = graph_node(g, n->src[3]);
    const int64_t keys = k->shape->dim[k->shape->rank - 2], size = k->shape->dim[k->shape->rank - 1];
    const uint32_t rank = mask->shape->rank;
    for (uint32_t i = 0; i + 2 < rank; i++)
        if (mask->shape->dim[i] != 1)
            return false;
    const int64_t lanes = size > 0 ? power_of_two(ceil_div(size, k_fetch_width(k->dtype))) : 1;
    return mask->dtype == DTYPE_bool && rank >= 1 && mask->shape->dim[rank - 1] == keys && keys > 0 &&
           keys % ATTENTION_BLOCK == 0 && THREADS / (lanes < MAX_TEAM ? lanes : MAX_TEAM) <= ATTENTION_BLOCK;
}

int64_t attention_count_splits(const TargetCaps *caps, const Graph *g, const Node *n)
{
    const Shape *q = graph_node(g, n->src[0])->shape, *k = graph_node(g, n->src[1])->shape,
                *v = graph_node(g, n->src[2])->shape;
    const uint32_t rank = q->rank;
    const bool is_sparse = attention_is_sparse(g, n);
    const Attention a = {.queries = q->dim[rank - 2],
                         .keys = k->dim[rank - 2],
                         .value_size = v->dim[rank - 1],
                         .type = operand_sum_type(n->dtype)};
    if (caps->shared_bytes == 0 || rank == SHAPE_MAX_RANK || !has_few(&a, is_sparse))
        return 0;
    int64_t groups = k->dim[rank - 3];
    for (uint32_t i = 0; i + 3 < rank; i++)
        groups *= k->dim[i];
    const int64_t lanes =
        power_of_two(ceil_div(k->dim[rank - 1], k_fetch_width(graph_node(g, n->src[1])->dtype)));
    const int64_t teams = THREADS / (lanes < MAX_TEAM ? lanes : MAX_TEAM);
    groups *= is_sparse ? a.queries : 1;
    const int64_t by_keys = is_sparse ? a.keys / ATTENTION_BLOCK : ceil_div(a.keys, MIN_AT_ONCE * teams);
    const int64_t wanted = (is_sparse ? SPARSE_GROUPS : PROCESSOR_GROUPS) * caps->gpu->processors;
    const int64_t by_groups = wanted / (groups > 0 ? groups : 1);
    const int64_t by_merge = a.keys >= MAX_SPLITS * MANY_KEYS ? MAX_SPLITS : FEW_SPLITS;
    int64_t most = by_keys < by_groups ? by_keys : by_groups;
    most = most < by_merge ? most : by_merge;
    if (most < 2)
        return is_sparse; // parts are never cut to what a run has, which this schedule does not do
    return power_of_two(most / 2 + 1);
}

// --- reading -------------------------------------------------------------------------------------

static Stream stream_of(Lower *l, NodeId id, int64_t size)
{
    Stream s = {.id = id, .param = lower_param(l, id, PARAM_READ), .width = attention_fetch_width(l, id)};
    s.n = size / s.width;
    return s;
}

static void share_stream(Stream *s, int64_t lanes)
{
    s->vectors = ceil_div(s->n, lanes);
    s->floats = s->vectors * s->width;
}

// Place of the first element of fetch i in its row; fetches behind the end read the last one again.
static KRef fetch_place(const Few *x, const Stream *s, int64_t i)
{
    Kernel *k = x->l->k;
    KRef f = k_expr(k, "$ + #", x->lane, i * x->lanes);
    if (s->n % x->lanes != 0)
        f = k_expr(k, "min($, #)", f, s->n - 1);
    return k_expr(k, "$ * #", f, s->width);
}

static void fetch_keys(const Few *x, const Stream *s, KRef array, int64_t at, KRef key)
{
    Kernel *k = x->l->k;
    for (int64_t i = 0; i < s->vectors; i++) {
        const KRef from = attention_kv_index(x->l, &x->row[0], s->id, key, fetch_place(x, s, i));
        k_fetch(k, s->param, from, array, k_index(k, at + i * s->width), s->width);
    }
}

static void fetch_queries(Few *x)
{
    Lower *l = x->l;
    Kernel *k = l->k;
    const uint32_t param = lower_param(l, x->a->q, PARAM_READ);
    const uint8_t own = attention_fetch_width(l, x->a->q), width = own < x->k.width ? own : x->k.width;
    x->q = k_array(k, lower_node(l, x->a->q)->dtype, x->rows * x->k.floats);
    for (int64_t r = 0; r < x->rows; r++)
        for (int64_t i = 0; i < x->k.floats; i += width) {
            const KRef place = k_expr(k, "$ + #", fetch_place(x, &x->k, i / x->k.width), i % x->k.width);
            k_fetch(k, param, attention_query_index(l, &x->row[r], place), x->q,
                    k_index(k, r * x->k.floats + i), width);
        }
}

static KRef element(const Few *x, KRef array, int64_t at)
{
    Kernel *k = x->l->k;
    return k_cast(k, k_aload(k, array, k_index(k, at), 1), x->a->type);
}

// --- one step ------------------------------------------------------------------------------------

// The score of row r and the key that its team read as number u, in all threads of the team.
static KRef score_of(const Few *x, int64_t r, int64_t u, KRef key)
{
    Lower *l = x->l;
    Kernel *k = l->k;
    const Stream *s = &x->k;
    KRef dot = k_number(k, x->a->type, 0);
    for (int64_t i = 0; i < s->vectors; i++) {
        KRef sum = k_number(k, x->a->type, 0);
        for (int64_t j = i * s->width; j < (i + 1) * s->width; j++)
            sum = k_fma(k, element(x, x->q, r * s->floats + j), element(x, x->keys, u * s->floats + j), sum);
        if (s->n % x->lanes != 0 && i + 1 == s->vectors) { // read twice
            const KRef f = k_expr(k, "$ + #", x->lane, i * x->lanes);
            sum = k_select(k, k_expr(k, "$ < #", f, s->n), sum, k_number(k, x->a->type, 0));
        }
        dot = i == 0 ? sum : k_add(k, dot, sum);
    }
    KRef score = attention_score(l, x->a, k_team(k, KOP_add, dot, (uint32_t)x->lanes));
    if (x->a->mask != 0)
        score = attention_masked(l, x->a, score, attention_mask_at(l, &x->row[r], key));
    return score;
}

// Does row r see the key? Behind the last one keys are read again.
static KRef is_seen(const Few *x, int64_t r, KRef key, KRef given)
{
    Kernel *k = x->l->k;
    const KRef is_given = k_lt(k, given, x->hi);
    if (!x->has_ends)
        return is_given;
    const KRef is_behind = k_le(k, x->row[r].begin, key), is_before = k_lt(k, key, x->row[r].end);
    return k_expr(k, "$ & ($ & $)", is_given, is_behind, is_before);
}

// Adds the keys that were read to the sums of row r. key: as read; given: as counted.
static void add_to_row(const Few *x, int64_t r, const KRef *key, const KRef *given)
{
    Kernel *k = x->l->k;
    const int type = x->a->type;
    const KRef zero = k_number(k, type, 0), lowest = k_number(k, type, -(double)INFINITY);
    const KRef old = k_get(k, x->top[r]);
    const bool hides = x->a->mask != 0 || x->has_ends;
    KRef weight[MAX_AT_ONCE], top = old, sum = 0;
    for (int64_t u = 0; u < x->at_once; u++) {
        const KRef score = score_of(x, r, u, key[u]);
        weight[u] = x->a->blocks != 0 ? score : k_select(k, is_seen(x, r, key[u], given[u]), score, lowest);
        top = k_max(k, top, weight[u]);
    }
    const KRef base = k_select(k, k_eq(k, top, lowest), zero, top);
    const KRef keep = attention_exp(x->l, x->is_half, k_sub(k, old, base));
    for (int64_t u = 0; u < x->at_once; u++) {
        weight[u] = attention_exp(x->l, x->is_half, k_sub(k, weight[u], base));
        sum = u == 0 ? k_fma(k, k_get(k, x->sum[r]), keep, weight[u]) : k_add(k, sum, weight[u]);
    }
    k_set(k, x->sum[r], sum);
    k_set(k, x->top[r], top);
    for (int64_t j = 0; j < x->v.floats; j++) {
        const KRef place = k_index(k, r * x->v.floats + j);
        KRef mix = k_mul(k, k_aload(k, x->mix, place, 1), keep);
        for (int64_t u = 0; u < x->at_once; u++) { // a hidden value may be infinite
            const KRef v = element(x, x->values, u * x->v.floats + j);
            const KRef counts = hides ? k_ne(k, weight[u], zero) : is_seen(x, r, key[u], given[u]);
            mix = k_fma(k, weight[u], k_select(k, counts, v, zero), mix);
        }
        k_astore(k, x->mix, place, mix);
    }
}

static void emit_step(const Few *x, KRef first)
{
    Kernel *k = x->l->k;
    KRef key[MAX_AT_ONCE], given[MAX_AT_ONCE];
    for (int64_t u = 0; u < x->at_once; u++) {
        given[u] = k_expr(k, "$ + ($ + #)", first, x->team, u * x->teams);
        key[u] = x->a->blocks != 0 ? given[u] : k_min(k, given[u], k_expr(k, "$ + -1", x->hi));
    }
    for (int64_t u = 0; u < x->at_once; u++)
        fetch_keys(x, &x->k, x->keys, u * x->k.floats, key[u]);
    for (int64_t u = 0; u < x->at_once; u++)
        fetch_keys(x, &x->v, x->values, u * x->v.floats, key[u]);
    for (int64_t r = 0; r < x->rows; r++)
        add_to_row(x, r, key, given);
}

// --- the sums of the teams -----------------------------------------------------------------------

typedef struct Joint {
    int64_t rows;           // at a time
    KRef tops, sums, mixes; // shared: [teams][all rows], the same, [teams][rows][value size]
} Joint;

static void put_sums(const Few *x, const Joint *j, int64_t first)
{
    Kernel *k = x->l->k;
    const int64_t size = x->a->value_size;
    for (int64_t r = 0; r < j->rows; r++)
        for (int64_t i = 0; i < x->v.floats; i++) {
            const int64_t vector = i / x->v.width, rest = i % x->v.width;
            const KRef f = k_expr(k, "$ + #", x->lane, vector * x->lanes);
            const KRef place =
                k_expr(k, "$ * # + # + $ * #", x->team, j->rows * size, r * size + rest, f, x->v.width);
            const KRef v = k_aload(k, x->mix, k_index(k, (first + r) * x->v.floats + i), 1);
            const bool has_end = (vector + 1) * x->lanes > x->v.n;
            if (has_end)
                k_if(k, k_expr(k, "$ < #", f, x->v.n));
            k_astore(k, j->mixes, place, v);
            if (has_end)
                k_end(k);
        }
}

// The joint sums of row `first` + n / value size, column n % value size, to where they belong.
static void join_element(const Few *x, const Joint *j, int64_t first, KRef n, Point at)
{
    Lower *l = x->l;
    Kernel *k = l->k;
    const Attention *a = x->a;
    const KRef size = k_index(k, a->value_size), zero = k_number(k, a->type, 0),
               lowest = k_number(k, a->type, -(double)INFINITY);
    const KRef r = k_expr(k, "$ / $ + #", n, size, first);
    const KRef top = k_var(k, lowest, "top"), sum = k_var(k, zero, "sum"), mix = k_var(k, zero, "mix");
    const uint8_t how = x->teams <= MAX_UNROLL ? KFOR_UNROLL : KFOR_SERIAL;
    KRef t = k_loop(k, x->teams, how, "t");
    const KRef of_team = k_aload(k, j->tops, k_expr(k, "$ * # + $", t, x->rows, r), 1);
    k_set(k, top, k_max(k, k_get(k, top), of_team));
    k_end(k);
    const KRef highest = k_get(k, top), base = k_select(k, k_eq(k, highest, lowest), zero, highest);
    t = k_loop(k, x->teams, how, "t");
    const KRef place = k_expr(k, "$ * # + $", t, x->rows, r);
    const KRef behind = k_sub(k, k_aload(k, j->tops, place, 1), base);
    const KRef factor = attention_exp(l, x->is_half, behind);
    k_set(k, sum, k_fma(k, factor, k_aload(k, j->sums, place, 1), k_get(k, sum)));
    const KRef element = k_aload(k, j->mixes, k_expr(k, "$ * # + $", t, j->rows * a->value_size, n), 1);
    k_set(k, mix, k_fma(k, factor, element, k_get(k, mix)));
    k_end(k);
    const KRef number = k_expr(k, "$ + $ * #", at.idx[a->rank - 3], r, x->stride); // in the key head
    const KRef queries = k_index(k, a->queries);
    at.idx[a->rank - 2] = k_rem(k, number, queries);
    at.idx[a->rank - 3] =
        k_expr(k, "$ * # + $ / $", x->row[0].kv_head, a->heads / a->kv_heads, number, queries);
    const AttSums s = {k_get(k, top), k_get(k, sum), k_get(k, mix), k_rem(k, n, size)};
    attention_store_part(l, a, at, &s);
}

// at: the coordinates of the group; its head is the number of its first row among those of the key head.
static void join_teams(const Few *x, Point at)
{
    Kernel *k = x->l->k;
    const int64_t size = x->a->value_size;
    Joint j = {.rows = divisor_up_to(x->rows, x->rows)};
    while (j.rows > 1 && x->teams * j.rows * size > MAX_SHARED_FLOATS)
        j.rows = divisor_up_to(x->rows, j.rows - 1);
    j.tops = k_shared(k, x->a->type, x->teams * x->rows);
    j.sums = k_shared(k, x->a->type, x->teams * x->rows);
    j.mixes = k_shared(k, x->a->type, x->teams * j.rows * size);
    k_if(k, k_expr(k, "$ == 0", x->lane));
    for (int64_t r = 0; r < x->rows; r++) {
        const KRef place = k_expr(k, "$ * # + #", x->team, x->rows, r);
        k_astore(k, j.tops, place, k_get(k, x->top[r]));
        k_astore(k, j.sums, place, k_get(k, x->sum[r]));
    }
    k_end(k);
    for (int64_t first = 0; first < x->rows; first += j.rows) {
        if (first > 0)
            k_barrier(k);
        put_sums(x, &j, first);
        k_barrier(k);
        const KRef n =
            k_for(k, x->thread, k_index(k, j.rows * size), THREADS, KFOR_SERIAL, "n");
        join_element(x, &j, first, n, at);
        k_end(k);
    }
}

// --- a group -------------------------------------------------------------------------------------

// Loops over groups; at: with the number of the first row of the key head in the place of the head.
static void open_groups(Few *x, Point *at)
{
    Lower *l = x->l;
    Kernel *k = l->k;
    const Attention *a = x->a;
    for (uint32_t i = 0; i + 3 < a->rank; i++)
        at->idx[i] = k_for_group(k, a->d.extent[i], "b");
    const KRef kv_head = k_for_group(k, a->kv_heads, "h");
    const KRef block = k_for_group(k, x->all_rows / x->rows, "g");
    at->idx[a->rank - 1] = a->splits > 0 ? k_for_group(k, a->splits, "s") : k_index(k, 0);
    at->idx[a->rank - 3] = k_expr(k, "$ * #", block, x->rows);
    if (a->blocks != 0)
        at->idx[a->rank - 3] = k_expr(k, "$ / # * # + $ % #", block, a->queries, x->rows * a->queries, block,
                                      a->queries);
    for (int64_t r = 0; r < x->rows; r++) {
        Point p = *at;
        const KRef number = k_expr(k, "$ + #", at->idx[a->rank - 3], r * x->stride);
        const KRef n = k_index(k, a->queries);
        p.idx[a->rank - 2] = k_rem(k, number, n);
        p.idx[a->rank - 3] = k_expr(k, "$ * # + $ / $", kv_head, a->heads / a->kv_heads, number, n);
        x->row[r] = attention_row(l, a, p);
        x->row[r].kv_head = kv_head;
    }
}

// The keys of the group: its part of all that some row sees.
static void share_keys(Few *x, KRef split)
{
    Lower *l = x->l;
    Kernel *k = l->k;
    const Attention *a = x->a;
    Point p = x->row[0].at;
    p.idx[a->rank - 2] = k_index(k, 0);
    const KRef begin = attention_row(l, a, p).begin;
    p.idx[a->rank - 2] = k_index(k, a->queries - 1);
    const KRef end = attention_row(l, a, p).end;
    x->lo = begin;
    x->hi = end;
    if (a->splits == 0)
        return;
    const int64_t at_once = a->splits * x->teams * x->at_once;
    const KRef n = k_sub(k, end, begin);
    const KRef steps = k_expr(k, "($ + #) / #", n, at_once - 1, at_once);
    const KRef share = k_expr(k, "$ * #", steps, x->teams * x->at_once);
    x->lo = k_expr(k, "$ + $ * $", begin, split, share);
    x->hi = k_expr(k, "min($ + $, $)", x->lo, share, end);
}

// --- blocks that a mask leaves -------------------------------------------------------------------

// The keys of a block.
static void emit_block(const Few *x, KRef number)
{
    Kernel *k = x->l->k;
    const int64_t step = x->at_once * x->teams;
    KRef first = k_expr(k, "$ * #", number, ATTENTION_BLOCK);
    if (step < ATTENTION_BLOCK)
        first = k_add(k, first,
                      k_for(k, k_index(k, 0), k_index(k, ATTENTION_BLOCK), step, KFOR_SERIAL, "j"));
    emit_step(x, first);
    k_ends(k, step < ATTENTION_BLOCK);
}

// The blocks of a part. The number of the next one is read before the keys of a block are: nothing waits for
// it.
static void emit_blocks(const Few *x, KRef split)
{
    Kernel *k = x->l->k;
    const AttRow *r = &x->row[0];
    const int64_t parts = x->a->splits > 0 ? x->a->splits : 1, last = x->a->keys / ATTENTION_BLOCK - 1;
    const KRef n = attention_count_blocks(x->l, r);
    const KRef next = k_var(k, attention_block(x->l, r, k_expr(k, "min($, #)", split, last)), "next");
    const KRef i = k_for(k, split, n, parts, KFOR_SERIAL, "i"), number = k_get(k, next);
    k_set(k, next, attention_block(x->l, r, k_expr(k, "min($ + #, #)", i, parts, last)));
    emit_block(x, number);
    k_end(k);
}

static void emit_group(Few *x)
{
    Lower *l = x->l;
    Kernel *k = l->k;
    const KRef zero = k_number(k, x->a->type, 0);
    Point at = {.lanes = 1, .count = 1};
    open_groups(x, &at);
    x->thread = k_thread(k);
    x->lane = k_expr(k, "$ % #", x->thread, x->lanes);
    x->team = k_expr(k, "$ / #", x->thread, x->lanes);
    if (x->a->blocks == 0)
        share_keys(x, at.idx[x->a->rank - 1]);
    fetch_queries(x);
    x->keys = k_array(k, lower_node(l, x->a->k)->dtype, x->at_once * x->k.floats);
    x->values = k_array(k, lower_node(l, x->a->v)->dtype, x->at_once * x->v.floats);
    x->mix = k_array(k, x->a->type, x->rows * x->v.floats);
    for (int64_t i = 0; i < x->rows * x->v.floats; i++)
        k_astore(k, x->mix, k_index(k, i), zero);
    for (int64_t r = 0; r < x->rows; r++) {
        x->top[r] = k_var(k, k_number(k, x->a->type, -(double)INFINITY), "top");
        x->sum[r] = k_var(k, zero, "sum");
    }
    if (x->a->blocks != 0) {
        emit_blocks(x, at.idx[x->a->rank - 1]);
    } else {
        emit_step(x, k_for(k, x->lo, x->hi, x->at_once * x->teams, KFOR_SERIAL, "j"));
        k_end(k);
    }
    join_teams(x, at);
    lower_close(l, x->a->rank - 1 + (x->a->splits > 0));
}

// share: keys of a team.
static int64_t keys_at_once(const Few *x, int64_t share)
{
    if (x->a->blocks != 0) // all of a block, or a part of it
        return share < MAX_AT_ONCE ? share : MAX_AT_ONCE;
    if (share < AT_ONCE)
        return MIN_AT_ONCE;
    const bool has_room = x->rows == 1 || share <= MAX_AT_ONCE;
    return has_room && share > AT_ONCE ? MAX_AT_ONCE : AT_ONCE;
}

bool attention_lower_few(Lower *l, const Attention *a)
{
    rlx_assert(a->kv_heads >= 1 && a->heads % a->kv_heads == 0);
    if (l->caps->shared_bytes == 0 || !has_few(a, a->blocks != 0) || attention_live_axes(a) != 0)
        return false;
    Few x = {.l = l, .a = a, .all_rows = a->queries * (a->heads / a->kv_heads)};
    x.k = stream_of(l, a->k, a->size);
    x.v = stream_of(l, a->v, a->value_size);
    const int64_t fetches = power_of_two(x.k.n > x.v.n ? x.k.n : x.v.n);
    x.lanes = fetches < MAX_TEAM ? fetches : MAX_TEAM;
    x.teams = THREADS / x.lanes;
    share_stream(&x.k, x.lanes);
    share_stream(&x.v, x.lanes);
    const int64_t floats = x.k.floats + x.v.floats, most = MAX_FLOATS / floats;
    if (most < 1)
        return false;
    x.stride = a->blocks != 0 ? a->queries : 1;
    x.rows = divisor_up_to(x.all_rows / x.stride, most < MAX_ROWS ? most : MAX_ROWS);
    const int64_t share = a->keys / (a->splits > 0 ? a->splits : 1);
    x.at_once = keys_at_once(&x, ceil_div(a->blocks != 0 ? ATTENTION_BLOCK : share, x.teams));
    x.has_ends = a->queries > 1 && (a->left >= 0 || a->right >= 0);
    x.is_half = k_is_half(lower_node(l, a->q)->dtype);
    k_set_group(l->k, THREADS);
    emit_group(&x);
    return true;
}
