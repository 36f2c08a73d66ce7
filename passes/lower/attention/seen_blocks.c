// SPDX-License-Identifier: Apache-2.0
// The blocks of keys that a mask leaves for each query: where a mask hides most keys (pages of other
// sequences), attention reads these alone. They are found once for all layers that have the mask. On GPUs a
// group of threads has a row: threads look at blocks that lie beside each other, and where the blocks of a
// thread go follows from how many those before it have found.
#include "passes/lower/attention/attention.h"

enum {
    THREADS = 128,
    MAX_EACH = 8,   // blocks of a thread whose flags are there at a time
    WORD = 4,       // bools
    MAX_WORDS = 64, // of a block
    UNROLLED = 16
};

typedef struct Seen {
    Lower *l;
    NodeId mask;
    uint32_t rank;
    int64_t n, block, blocks; // of a row: elements, of a block, blocks
    KRef row[SHAPE_MAX_RANK]; // coordinates before the last
    KRef is_live;             // is the row one that this run has? 0: all are
    KRef none, one;           // i32
} Seen;

static Seen seen_of(Lower *l)
{
    const Node *n = lower_node(l, l->anchor);
    const Shape *s = lower_node(l, n->src[0])->shape;
    rlx_assert(s->rank >= 1);
    Seen x = {.l = l, .mask = n->src[0], .rank = s->rank, .n = s->dim[s->rank - 1]};
    x.block = node_get_int(n, A_seen_blocks_block);
    x.blocks = ceil_div(x.n, x.block);
    x.none = k_integer(l->k, DTYPE_i32, 0);
    x.one = k_integer(l->k, DTYPE_i32, 1);
    return x;
}

static KRef mask_index(const Seen *x, KRef i)
{
    KRef idx[SHAPE_MAX_RANK];
    for (uint32_t d = 0; d + 1 < x->rank; d++)
        idx[d] = x->row[d];
    idx[x->rank - 1] = i;
    return operand_index(x->l, x->mask, idx);
}

// Element `i` of the row of the result.
static void store(const Seen *x, KRef i, KRef v)
{
    KRef idx[SHAPE_MAX_RANK];
    for (uint32_t d = 0; d + 1 < x->rank; d++)
        idx[d] = x->row[d];
    idx[x->rank - 1] = i;
    const uint32_t param = lower_param(x->l, x->l->root, PARAM_WRITE);
    k_store(x->l->k, param, operand_index(x->l, x->l->root, idx), v, 1);
}

// Rows that a run does not have are never seen to have any blocks, whatever the mask holds there.
static void find_live(Seen *x)
{
    const LiveRef live = x->rank > 1 ? live_bound(x->l->plan, x->mask, x->rank - 2) : (LiveRef){0};
    if (!lower_knows(x->l, &live))
        return;
    const int64_t rows = lower_node(x->l, x->mask)->shape->dim[x->rank - 2];
    x->is_live = k_lt(x->l->k, x->row[x->rank - 2], lower_live(x->l, &live, rows));
}

// Elements that one access brings; 0: they come one by one.
static uint8_t words_of(const Seen *x)
{
    const uint8_t width = x->l->caps->shared_bytes != 0 ? attention_fetch_width(x->l, x->mask) : 1;
    const bool is_whole = width >= WORD && x->n % x->block == 0 && x->block % width == 0;
    return is_whole && x->block / WORD <= MAX_WORDS ? width / WORD : 0;
}

static KRef has_seen_words(const Seen *x, KRef first, uint8_t words)
{
    Kernel *k = x->l->k;
    const uint32_t param = lower_param_words(x->l, x->mask, DTYPE_u32);
    const KRef array = k_array(k, DTYPE_u32, x->block / WORD);
    for (int64_t i = 0; i < x->block / WORD; i += words) {
        const KRef from = mask_index(x, k_expr(k, "$ + #", first, i * WORD));
        k_fetch(k, param, k_expr(k, "$ / #", from, WORD), array, k_index(k, i), words);
    }
    KRef most = k_aload(k, array, k_index(k, 0), 1);
    for (int64_t i = 1; i < x->block / WORD; i++)
        most = k_max(k, most, k_aload(k, array, k_index(k, i), 1));
    return k_ne(k, most, k_integer(k, DTYPE_u32, 0));
}

static KRef has_seen(const Seen *x, KRef first)
{
    Kernel *k = x->l->k;
    const KRef found = k_var(k, x->none, "any"), end = k_expr(k, "min($ + #, #)", first, x->block, x->n);
    const KRef i = k_for(k, first, end, 1, KFOR_SERIAL, "i");
    const KRef v = k_load(k, lower_param(x->l, x->mask, PARAM_READ), mask_index(x, i), 1, 1);
    k_set(k, found, k_select(k, v, x->one, k_get(k, found)));
    k_end(k);
    return k_ne(k, k_get(k, found), x->none);
}

// --- one row in one thread, or loop ---

static void emit_row(const Seen *x)
{
    Kernel *k = x->l->k;
    const KRef found = k_var(k, k_index(k, 0), "found");
    const KRef zero = k_index(k, 0), all = k_index(k, x->blocks);
    const KRef end = x->is_live != 0 ? k_select(k, x->is_live, all, zero) : all;
    const KRef number = k_for(k, zero, end, 1, KFOR_SERIAL, "b");
    k_if(k, has_seen(x, k_expr(k, "$ * #", number, x->block)));
    k_set(k, found, k_expr(k, "$ + 1", k_get(k, found)));
    store(x, k_get(k, found), k_cast(k, number, DTYPE_i32));
    k_ends(k, 2);
    const KRef behind = k_expr(k, "$ + 1", k_get(k, found));
    const KRef rest = k_for(k, behind, k_index(k, x->blocks + 1), 1, KFOR_SERIAL, "r");
    store(x, rest, x->none);
    k_end(k);
    store(x, k_index(k, 0), k_cast(k, k_get(k, found), DTYPE_i32));
}

static void lower_rows_one_by_one(Seen *x)
{
    Lower *l = x->l;
    Domain d = domain_of(lower_node(l, l->root)->shape);
    Point at = {.lanes = 1, .count = 1};
    const uint32_t opened = lower_open(l, &d, x->rank - 1, &at);
    for (uint32_t i = 0; i + 1 < x->rank; i++)
        x->row[i] = at.idx[i];
    find_live(x);
    emit_row(x);
    lower_close(l, opened);
}

// --- one row in a group of threads ---

typedef struct Group {
    const Seen *x;
    int64_t each; // blocks of a thread at a time
    KRef thread, flags, counts;
    KRef found; // variable
} Group;

// Flags of the blocks from `turn` on.
static void put_flags(const Group *g, KRef turn)
{
    const Seen *x = g->x;
    Kernel *k = x->l->k;
    const uint8_t words = words_of(x);
    const KRef u = k_loop(k, g->each, words != 0 ? KFOR_UNROLL : KFOR_SERIAL, "u");
    const KRef own = k_expr(k, "$ + $ * #", g->thread, u, THREADS), number = k_add(k, turn, own);
    KRef is_there = k_expr(k, "$ < #", number, x->blocks);
    if (x->is_live != 0)
        is_there = k_and(k, is_there, x->is_live);
    const KRef first = k_expr(k, "min($, #) * #", number, x->blocks - 1, x->block);
    const KRef seen = words != 0 ? has_seen_words(x, first, words) : has_seen(x, first);
    k_astore(k, g->flags, own, k_select(k, k_and(k, is_there, seen), x->one, x->none));
    k_end(k);
}

static KRef flag_of(const Group *g, int64_t u)
{
    Kernel *k = g->x->l->k;
    return k_aload(k, g->flags, k_expr(k, "$ * # + #", g->thread, g->each, u), 1);
}

// The blocks of the turn go behind those that were found before it.
static void store_found(const Group *g, KRef turn)
{
    const Seen *x = g->x;
    Kernel *k = x->l->k;
    KRef own = flag_of(g, 0);
    for (int64_t u = 1; u < g->each; u++)
        own = k_add(k, own, flag_of(g, u));
    k_astore(k, g->counts, g->thread, own);
    k_barrier(k);
    const KRef all = k_var(k, x->none, "all"), before = k_var(k, k_get(k, g->found), "before");
    const KRef first = k_for(k, k_index(k, 0), k_index(k, THREADS), UNROLLED, KFOR_SERIAL, "t");
    for (int64_t i = 0; i < UNROLLED; i++) {
        const KRef t = k_expr(k, "$ + #", first, i), n = k_aload(k, g->counts, t, 1);
        k_set(k, all, k_add(k, k_get(k, all), n));
        k_set(k, before, k_add(k, k_get(k, before), k_select(k, k_lt(k, t, g->thread), n, x->none)));
    }
    k_end(k);
    for (int64_t u = 0; u < g->each; u++) {
        k_if(k, k_ne(k, flag_of(g, u), x->none));
        k_set(k, before, k_add(k, k_get(k, before), x->one));
        const KRef number = k_expr(k, "$ + $ * # + #", turn, g->thread, g->each, u);
        store(x, k_cast(k, k_get(k, before), KT_INDEX), k_cast(k, number, DTYPE_i32));
        k_end(k);
    }
    k_set(k, g->found, k_add(k, k_get(k, g->found), k_get(k, all)));
}

static void emit_group(const Seen *x)
{
    Kernel *k = x->l->k;
    Group g = {.x = x, .each = ceil_div(x->blocks, THREADS), .thread = k_thread(k)};
    g.each = g.each < 1 ? 1 : g.each < MAX_EACH ? g.each : MAX_EACH;
    const int64_t flagged = g.each * THREADS, turns = ceil_div(x->blocks, flagged);
    g.flags = k_shared(k, DTYPE_i32, flagged);
    g.counts = k_shared(k, DTYPE_i32, THREADS);
    g.found = k_var(k, x->none, "found");
    const KRef turn = k_expr(k, "$ * #", k_loop(k, turns, KFOR_SERIAL, "t"), flagged);
    put_flags(&g, turn);
    k_barrier(k);
    store_found(&g, turn);
    if (turns > 1)
        k_barrier(k); // before the flags of the next turn
    k_end(k);
    const KRef n = k_get(k, g.found), behind = k_expr(k, "$ + 1 + $", k_cast(k, n, KT_INDEX), g.thread);
    const KRef rest = k_for(k, behind, k_index(k, x->blocks + 1), THREADS, KFOR_SERIAL, "r");
    store(x, rest, x->none);
    k_end(k);
    k_if(k, k_expr(k, "$ == 0", g.thread));
    store(x, k_index(k, 0), n);
    k_end(k);
}

void lower_seen_blocks(Lower *l)
{
    Seen x = seen_of(l);
    if (l->caps->shared_bytes == 0 || x.blocks == 0) {
        lower_rows_one_by_one(&x);
        return;
    }
    const Shape *s = lower_node(l, x.mask)->shape;
    k_set_group(l->k, THREADS);
    for (uint32_t i = 0; i + 1 < x.rank; i++)
        x.row[i] = k_for_group(l->k, s->dim[i], "b");
    if (x.rank == 1)
        k_for_group(l->k, 1, "b");
    find_live(&x);
    emit_group(&x);
    lower_close(l, x.rank == 1 ? 1 : x.rank - 1);
}

// --- what attention asks ---

static KRef entry(Lower *l, const AttRow *r, KRef i)
{
    const Attention *a = r->a;
    rlx_assert(a->blocks != 0);
    KRef idx[SHAPE_MAX_RANK];
    for (uint32_t d = 0; d + 1 < a->rank; d++)
        idx[d] = r->at.idx[d];
    idx[a->rank - 1] = i;
    const uint32_t param = lower_param(l, a->blocks, PARAM_READ);
    const KRef v = k_load(l->k, param, operand_broadcast_index(l, a->blocks, idx, a->rank), 1, 1);
    return k_cast(l->k, v, KT_INDEX);
}

KRef attention_count_blocks(Lower *l, const AttRow *r)
{
    return entry(l, r, k_index(l->k, 0));
}

KRef attention_block(Lower *l, const AttRow *r, KRef i)
{
    return entry(l, r, k_expr(l->k, "$ + 1", i));
}

void attention_list(Lower *l, AttRow *r)
{
    if (r->a->blocks == 0)
        return;
    r->begin = k_index(l->k, 0);
    r->end = k_expr(l->k, "$ * #", attention_count_blocks(l, r), ATTENTION_BLOCK);
    r->is_listed = true;
}

KRef attention_key(Lower *l, const AttRow *r, KRef i)
{
    if (!r->is_listed)
        return i;
    const KRef block = attention_block(l, r, k_expr(l->k, "$ / #", i, ATTENTION_BLOCK));
    return k_expr(l->k, "$ * # + $ % #", block, ATTENTION_BLOCK, i, ATTENTION_BLOCK);
}
