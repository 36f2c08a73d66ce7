// SPDX-License-Identifier: Apache-2.0
// top_k on GPUs, of more than a few best in long lines: a group has a line. First comes the rank of the last
// of the best ones, the level, from its highest bits on: the group counts the elements below three candidates
// at once. Then each thread has neighbours of the line, and by how many of those before it are taken (scan.h)
// knows where its own go in shared memory: all below the level, and the first of those that are equal to it.
// There each of the best counts those that come before it.
#include "ir/machine/machine.h"
#include "passes/lower/ops/scan.h"
#include "passes/lower/ops/top_k.h"

enum {
    MOST = 1024,   // best ones
    SHARE = 2,     // elements of a line: so many times the best at least,
    LEAST = 512,   // and so many where there is a line for each processor,
    LEAST_FEW = 2048, // else so many
    STEP_BITS = 2, // that are found at once
    RANK_BITS = 32,
    CANDIDATES = (1 << STEP_BITS) - 1,
    SPARE = 2048 // bytes of shared memory for what teams have
};

typedef struct Level {
    Lower *l;
    TopK *t;
    uint32_t threads;
    int64_t own; // elements of a thread
    KRef thread;
    KRef ranks, places; // of the best, shared, in the order of the line
} Level;

static KRef rank_at(const Level *s, KRef place)
{
    return sort_rank(s->l, top_k_load(s->l, s->t, place), top_k_order(s->t));
}

static KRef one_if(Kernel *k, KRef condition)
{
    return k_select(k, condition, k_integer(k, DTYPE_i32, 1), k_integer(k, DTYPE_i32, 0));
}

// How many elements of the line are below each candidate.
static void count_below(const Level *s, const KRef *candidate, KRef *count)
{
    Kernel *k = s->l->k;
    for (int i = 0; i < CANDIDATES; i++)
        count[i] = k_var(k, k_integer(k, DTYPE_i32, 0), "count");
    const KRef place = k_for(k, s->thread, k_index(k, s->t->n), s->threads, KFOR_SERIAL, "r");
    const KRef rank = rank_at(s, place);
    for (int i = 0; i < CANDIDATES; i++)
        k_set(k, count[i], k_add(k, k_get(k, count[i]), one_if(k, k_lt(k, rank, candidate[i]))));
    k_end(k);
    for (int i = 0; i < CANDIDATES; i++)
        count[i] = k_team(k, KOP_add, k_get(k, count[i]), s->threads);
}

static KRef find_level(const Level *s)
{
    Kernel *k = s->l->k;
    const KRef level = k_var(k, k_integer(k, DTYPE_u32, 0), "level");
    const KRef step = k_loop(k, RANK_BITS / STEP_BITS, KFOR_SERIAL, "step");
    const KRef shift = k_cast(k, k_expr(k, "# - $ * #", RANK_BITS - STEP_BITS, step, STEP_BITS), DTYPE_u32);
    KRef candidate[CANDIDATES], count[CANDIDATES], next = k_get(k, level);
    for (int i = 0; i < CANDIDATES; i++)
        candidate[i] = k_or(k, k_get(k, level), k_shl(k, k_integer(k, DTYPE_u32, i + 1), shift));
    count_below(s, candidate, count);
    for (int i = 0; i < CANDIDATES; i++)
        next = k_select(k, k_lt(k, count[i], k_integer(k, DTYPE_i32, s->t->k)), candidate[i], next);
    k_set(k, level, next);
    k_end(k);
    return k_get(k, level);
}

// Opens the loop over the thread's neighbours in the line.
static KRef open_own(const Level *s)
{
    Kernel *k = s->l->k;
    const KRef first = k_expr(k, "$ * #", s->thread, s->own);
    return k_for(k, first, k_expr(k, "min($ + #, #)", first, s->own, s->t->n), 1, KFOR_SERIAL, "r");
}

static void add_if(Kernel *k, KRef var, KRef condition)
{
    k_set(k, var, k_add(k, k_get(k, var), one_if(k, condition)));
}

// The best, to shared memory in the order of the line.
static void collect(const Level *s, KRef level)
{
    Kernel *k = s->l->k;
    const KRef zero = k_integer(k, DTYPE_i32, 0), most = k_integer(k, DTYPE_i32, s->t->k);
    const KRef below = k_var(k, zero, "below"), equal = k_var(k, zero, "equal");
    const KRef counted = rank_at(s, open_own(s));
    add_if(k, below, k_lt(k, counted, level));
    add_if(k, equal, k_eq(k, counted, level));
    k_end(k);
    const Scan scan = scan_new(k, &row_fold_sum, DTYPE_i32, s->threads);
    KRef all_below = 0, all_equal = 0;
    const KRef below_before = scan_before(&scan, k_get(k, below), &all_below);
    const KRef equal_before = scan_before(&scan, k_get(k, equal), &all_equal);
    const KRef wanted = k_sub(k, most, all_below); // of those that are equal
    k_set(k, below, below_before);
    k_set(k, equal, equal_before);
    const KRef place = open_own(s), rank = rank_at(s, place);
    const KRef is_below = k_lt(k, rank, level), is_equal = k_eq(k, rank, level), so_far = k_get(k, equal);
    k_if(k, k_or(k, is_below, k_and(k, is_equal, k_lt(k, so_far, wanted))));
    const KRef to = k_cast(k, k_add(k, k_get(k, below), k_min(k, so_far, wanted)), KT_INDEX);
    k_astore(k, s->ranks, to, rank);
    k_astore(k, s->places, to, k_cast(k, place, DTYPE_i32));
    k_end(k);
    add_if(k, below, is_below);
    add_if(k, equal, is_equal);
    k_end(k);
    k_barrier(k);
}

// Counts those of the best from begin to end that come before one: of equal ones those that stand before it.
static void count_before(const Level *s, KRef begin, KRef end, KRef rank, bool has_equal, KRef count)
{
    Kernel *k = s->l->k;
    const KRef other = k_aload(k, s->ranks, k_for(k, begin, end, 1, KFOR_SERIAL, "i"), 1);
    const KRef is_before = has_equal ? k_le(k, other, rank) : k_lt(k, other, rank);
    k_set(k, count, k_add(k, k_get(k, count), k_select(k, is_before, k_index(k, 1), k_index(k, 0))));
    k_end(k);
}

static void store_best(const Level *s)
{
    Kernel *k = s->l->k;
    const KRef zero = k_index(k, 0), all = k_index(k, s->t->k);
    const KRef own = k_for(k, s->thread, all, s->threads, KFOR_SERIAL, "own");
    const KRef rank = k_aload(k, s->ranks, own, 1), count = k_var(k, zero, "before");
    count_before(s, zero, own, rank, true, count);
    count_before(s, k_expr(k, "$ + 1", own), all, rank, false, count);
    top_k_store(s->l, s->t, k_get(k, count), k_cast(k, k_aload(k, s->places, own, 1), KT_INDEX));
    k_end(k);
}

static bool fits(const Lower *l, const TopK *t, int64_t lines)
{
    if (!l->caps->is_gpu)
        return false;
    const int64_t least = lines < l->caps->gpu->processors ? LEAST_FEW : LEAST;
    const int64_t bytes = 2 * t->k * (int64_t)sizeof(int32_t) +
                          2 * (int64_t)l->caps->group_threads * (int64_t)sizeof(int32_t) + SPARE;
    return bytes <= (int64_t)l->caps->shared_bytes && t->k <= MOST && t->n >= least &&
           t->n >= SHARE * t->k && t->n < INT32_MAX && dtype_info[lower_node(l, t->x)->dtype].bytes <= 4;
}

bool top_k_by_level(Lower *l, TopK *t, const Domain *lines, int64_t n_lines)
{
    if (!fits(l, t, n_lines))
        return false;
    Kernel *k = l->k;
    Level s = {.l = l, .t = t, .threads = top_k_threads(l, t, n_lines)};
    s.own = ceil_div(t->n, s.threads);
    top_k_open_line(l, t, lines, s.threads);
    s.thread = k_thread(k);
    s.ranks = k_shared(k, DTYPE_u32, t->k);
    s.places = k_shared(k, DTYPE_i32, t->k);
    collect(&s, find_level(&s));
    store_best(&s);
    k_end(k);
    return true;
}
