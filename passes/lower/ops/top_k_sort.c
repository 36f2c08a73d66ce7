// SPDX-License-Identifier: Apache-2.0
// top_k on GPUs where most of a line is wanted. A group has a line in shared memory and merges runs of it: of
// 1, 2, 4 ... elements. Each thread has some of the elements, whatever their order: where one of them goes
// follows from its place in its run and from how many of the other run come before it, which it finds by
// halves. So all elements are on their way at once, and a merge is over after two barriers. Longer lines are
// sorted in parts (passes/graph/long_rows.c), and then a thread finds the place of an element among all runs
// of its line in the same way.
#include "ir/machine/machine.h"
#include "passes/lower/ops/top_k.h"
#include "passes/lower/wide.h"

enum {
    LEAST = 128, // elements of a line
    MOST = 4096,
    WORDS = 2, // of shared memory for an element: its rank and its place
    LEAST_THREADS = 32,
    OF_THREAD = 2,    // elements of a thread at least, where the group has more than the least threads
    OF_MERGES = 128,  // merges take as long as that many comparisons of each element more than top_k_level.c
    RUNS_GROUP = 256, // threads, of the merge of all runs
};

// An element of a line of sorted runs: its value, the number of the run that has it, and a variable for those
// that come before it.
typedef struct Among {
    int64_t run; // elements of one
    KRef value, own, count;
} Among;

// Numbers of elements are u32.
typedef struct Sorting {
    Lower *l;
    TopK *t;
    int64_t size, own, levels; // the line filled up to a power of two; elements of a thread; merges
    uint32_t threads;
    KRef thread;
    KRef ranks, places;           // shared
    KRef held_rank, held_place, to; // of the thread's own, while all move
} Sorting;

static KRef number(Kernel *k, int64_t v)
{
    return k_integer(k, DTYPE_u32, v);
}

static KRef add_one_if(Kernel *k, KRef condition, KRef v)
{
    return k_add(k, v, k_select(k, condition, number(k, 1), number(k, 0)));
}

// Opens the loop over the thread's elements: the number of one of them is in *own, its place is returned.
static KRef open_own(const Sorting *s, KRef *own)
{
    Kernel *k = s->l->k;
    *own = k_loop(k, s->own, KFOR_UNROLL, "e");
    return k_expr(k, "$ * # + $", *own, s->threads, s->thread);
}

// The line, and behind its end what comes last.
static void fetch_line(const Sorting *s)
{
    Kernel *k = s->l->k;
    KRef own = 0;
    const KRef place = open_own(s, &own), last = k_expr(k, "min($, #)", place, s->t->n - 1);
    const KRef rank = sort_rank(s->l, top_k_load(s->l, s->t, last), top_k_order(s->t));
    const KRef is_inside = k_expr(k, "$ < #", place, s->t->n);
    k_astore(k, s->ranks, place, k_select(k, is_inside, rank, number(k, UINT32_MAX)));
    k_astore(k, s->places, place, k_cast(k, place, DTYPE_u32));
    k_end(k);
    k_barrier(k);
}

// Does the element of the other run come before one of this rank? Of equal ones those of the first run do.
static KRef comes_first(const Sorting *s, KRef at, KRef rank, KRef is_second)
{
    Kernel *k = s->l->k;
    const KRef other = k_aload(k, s->ranks, k_cast(k, at, KT_INDEX), 1);
    return k_expr(k, "$ | ($ & $)", k_lt(k, other, rank), k_eq(k, other, rank), is_second);
}

// How many of the 2^level elements from `begin` on come before an element of the rank.
static KRef count_before(const Sorting *s, KRef level, KRef begin, KRef rank, KRef is_second)
{
    Kernel *k = s->l->k;
    const KRef count = k_var(k, number(k, 0), "count");
    const KRef half = k_var(k, k_shl(k, number(k, 1), level), "half");
    k_for(k, k_index(k, 0), k_cast(k, level, KT_INDEX), 1, KFOR_SERIAL, "step");
    const KRef so_far = k_get(k, count), next = k_shr(k, k_get(k, half), number(k, 1));
    const KRef with = k_add(k, so_far, next), last = k_sub(k, k_add(k, begin, with), number(k, 1));
    k_set(k, count, k_select(k, comes_first(s, last, rank, is_second), with, so_far));
    k_set(k, half, next);
    k_end(k);
    const KRef found = k_get(k, count);
    return add_one_if(k, comes_first(s, k_add(k, begin, found), rank, is_second), found);
}

// Runs of 2^level elements to runs of twice as many.
static void merge_runs(const Sorting *s, KRef level)
{
    Kernel *k = s->l->k;
    KRef own = 0;
    const KRef place = open_own(s, &own), at = k_cast(k, place, DTYPE_u32), one = number(k, 1);
    const KRef rank = k_aload(k, s->ranks, place, 1), run = k_shr(k, at, level);
    const KRef is_second = k_eq(k, k_and(k, run, one), one);
    const KRef other = k_shl(k, k_xor(k, run, one), level);
    const KRef count = count_before(s, level, other, rank, is_second);
    const KRef before = k_select(k, is_second, k_shl(k, one, level), number(k, 0)); // that `at` has too many
    k_astore(k, s->held_rank, own, rank);
    k_astore(k, s->held_place, own, k_aload(k, s->places, place, 1));
    k_astore(k, s->to, own, k_sub(k, k_add(k, at, count), before));
    k_end(k);
    k_barrier(k);
    open_own(s, &own);
    const KRef to = k_cast(k, k_aload(k, s->to, own, 1), KT_INDEX);
    k_astore(k, s->ranks, to, k_aload(k, s->held_rank, own, 1));
    k_astore(k, s->places, to, k_aload(k, s->held_place, own, 1));
    k_end(k);
    k_barrier(k);
}

static void store_line(const Sorting *s)
{
    Kernel *k = s->l->k;
    KRef own = 0;
    const KRef place = open_own(s, &own);
    k_if(k, k_expr(k, "$ < #", place, s->t->k));
    top_k_store(s->l, s->t, place, k_cast(k, k_aload(k, s->places, place, 1), KT_INDEX));
    k_ends(k, 2);
}

static bool fits(const Lower *l, const TopK *t, int64_t size)
{
    return l->caps->is_gpu && t->n >= LEAST && t->n <= MOST &&
           size * WORDS * (int64_t)sizeof(uint32_t) <= (int64_t)l->caps->shared_bytes &&
           dtype_info[lower_node(l, t->x)->dtype].bytes <= 4;
}

// Behind the search for the last of the best, each of these is compared with all of them.
bool top_k_prefers_merges(const TopK *t)
{
    return t->k * t->k >= OF_MERGES * t->n;
}

bool top_k_by_merges(Lower *l, TopK *t, const Domain *lines)
{
    Kernel *k = l->k;
    Sorting s = {.l = l, .t = t, .size = LEAST, .threads = LEAST_THREADS};
    while (s.size < t->n)
        s.size *= 2;
    if (!fits(l, t, s.size))
        return false;
    while (INT64_C(1) << s.levels < s.size)
        s.levels++;
    while (s.threads * OF_THREAD < s.size && s.threads < l->caps->group_threads)
        s.threads *= 2;
    s.own = s.size / s.threads;
    top_k_open_line(l, t, lines, s.threads);
    s.thread = k_thread(k);
    s.ranks = k_shared(k, DTYPE_u32, s.size);
    s.places = k_shared(k, DTYPE_u32, s.size);
    s.held_rank = k_array(k, DTYPE_u32, s.own);
    s.held_place = k_array(k, DTYPE_u32, s.own);
    s.to = k_array(k, DTYPE_u32, s.own);
    fetch_line(&s);
    const KRef level = k_loop(k, s.levels, KFOR_SERIAL, "level");
    merge_runs(&s, k_cast(k, level, DTYPE_u32));
    k_end(k);
    store_line(&s);
    k_end(k);
    return true;
}

// --- all runs of a line --------------------------------------------------------------------------

// Adds those elements of runs before the own one, or behind it, that come before the element. Of equal ones
// these are the ones in the runs before it.
static void count_in_runs(Lower *l, const TopK *t, const Among *a, bool are_behind)
{
    Kernel *k = l->k;
    const KRef first = are_behind ? k_expr(k, "$ + 1", a->own) : k_index(k, 0);
    const KRef end = are_behind ? k_index(k, t->n / a->run) : a->own;
    const KRef run = k_for(k, first, end, 1, KFOR_SERIAL, "run");
    if (t->k < t->n)
        k_if(k, k_expr(k, "$ < #", k_get(k, a->count), t->k)); // more need not be known
    const KRef at = k_var(k, k_expr(k, "$ * #", run, a->run), "at");
    for (int64_t left = a->run; left > 0;) {
        const int64_t half = left > 1 ? left / 2 : 1;
        const KRef from = k_get(k, at), other = top_k_load(l, t, k_expr(k, "$ + #", from, half - 1));
        const KRef comes_first = are_behind ? top_k_before(l, t, other, a->value)
                                            : k_not(k, top_k_before(l, t, a->value, other));
        k_set(k, at, k_select(k, comes_first, k_expr(k, "$ + #", from, half), from));
        left -= half;
    }
    const KRef found = k_expr(k, "$ - $ * #", k_get(k, at), run, a->run);
    k_set(k, a->count, k_add(k, k_get(k, a->count), found));
    k_ends(k, t->k < t->n ? 2 : 1);
}

void top_k_by_runs(Lower *l, TopK *t, const Domain *elements, int64_t run)
{
    Kernel *k = l->k;
    Point at = {.lanes = 1, .count = 1};
    rlx_assert(run > 1 && t->n % run == 0);
    const uint32_t opened = wide_open(l, elements, t->axis, 1, RUNS_GROUP, &at);
    for (uint32_t i = 0; i < elements->rank; i++)
        t->idx[i] = at.idx[i];
    const KRef place = at.idx[t->axis];
    const Among a = {.run = run,
                     .value = k_get(k, k_var(k, top_k_load(l, t, place), "value")),
                     .own = k_expr(k, "$ / #", place, run),
                     .count = k_var(k, k_expr(k, "$ % #", place, run), "rank")};
    count_in_runs(l, t, &a, false);
    count_in_runs(l, t, &a, true);
    k_if(k, k_expr(k, "$ < #", k_get(k, a.count), t->k));
    top_k_store(l, t, k_get(k, a.count), place);
    k_end(k);
    lower_close(l, opened);
}
