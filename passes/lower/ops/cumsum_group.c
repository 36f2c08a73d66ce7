// SPDX-License-Identifier: Apache-2.0
// Running sums on GPUs: a group has a row, of which it takes as many elements at once as its threads hold.
// Each thread adds up its own, which are neighbours; what those before it have comes from shared memory, in
// two steps: of the threads of its segment, and of the segments before that.
#include "passes/lower/ops/cumsum.h"
#include "ir/machine/machine.h"

enum {
    LEAST = 64,         // elements of a row that threads share
    HELD = 4,           // elements of a thread at once
    LEAST_THREADS = 32, // of a group
    USUAL_THREADS = 256 // where there are rows for all processors
};

typedef struct Scan {
    Lower *l;
    const Rows *r;
    const Cumsum *c;
    int64_t threads, segments; // segments: of neighbouring threads
    KRef thread, held, totals, sums; // held: an array; totals, sums: of threads and segments, shared
} Scan;

static int64_t count_rows(const Rows *r)
{
    int64_t rows = 1;
    for (uint32_t i = 0; i < r->n_kept; i++)
        rows *= r->d.extent[i];
    return rows;
}

static bool fits(const Lower *l, const Rows *r)
{
    bool is_live = false;
    for (uint32_t i = 0; i < r->d.rank; i++)
        is_live = is_live || r->d.live[i].size != 0;
    return l->caps->is_gpu && l->caps->shared_bytes != 0 && r->d.rank == r->n_kept + 1 && !is_live &&
           r->count >= LEAST && count_rows(r) < (int64_t)gpu_about_threads(l->caps->gpu);
}

static int64_t threads_of(const Lower *l, const Rows *r)
{
    const int64_t most = count_rows(r) < l->caps->gpu->processors ? l->caps->group_threads : USUAL_THREADS;
    int64_t threads = LEAST_THREADS;
    while (threads < most && threads * HELD < r->count)
        threads *= 2;
    return threads;
}

static KRef join(const Scan *s, KRef before, KRef v)
{
    return k_form(s->l->k, s->c->fold->form, (KRef[3]){before, v}, cumsum_type(s->l, s->c));
}

static KRef neutral(const Scan *s)
{
    return rows_neutral(s->l->k, cumsum_type(s->l, s->c), s->c->fold);
}

// Joins the first `n` of `most` parts in shared memory; n = 0: all.
static KRef join_parts(const Scan *s, KRef parts, KRef first, KRef n, int64_t most)
{
    Kernel *k = s->l->k;
    const KRef joined = k_var(k, neutral(s), "before");
    const KRef i = k_loop(k, most, KFOR_SERIAL, "i");
    const KRef before = k_get(k, joined), all = join(s, before, k_aload(k, parts, k_add(k, first, i), 1));
    k_set(k, joined, n == 0 ? all : k_select(k, k_lt(k, i, n), all, before));
    k_end(k);
    return k_get(k, joined);
}

static KRef is_inside(const Scan *s, KRef place)
{
    return k_expr(s->l->k, "$ < #", place, s->r->count);
}

// Fetches the elements of the thread, beyond the row neutral ones; returns what they are together.
static KRef fetch(const Scan *s, Point at, KRef first)
{
    Kernel *k = s->l->k;
    const int type = cumsum_type(s->l, s->c);
    const KRef total = k_var(k, neutral(s), "total"), j = k_loop(k, HELD, KFOR_UNROLL, "j");
    const KRef place = k_add(k, first, j), last = k_expr(k, "min($, #)", place, s->r->count - 1);
    NodeId x = s->c->x;
    at.idx[s->r->d.rank - 1] = cumsum_place(s->l, s->r, s->c, last);
    const KRef v = k_cast(k, rows_operand(s->l, &s->r->d, at, &x), type);
    k_astore(k, s->held, j, k_select(k, is_inside(s, place), v, neutral(s)));
    k_set(k, total, join(s, k_get(k, total), k_aload(k, s->held, j, 1)));
    k_end(k);
    return k_get(k, total);
}

static void store(const Scan *s, Point at, KRef first, KRef before)
{
    Kernel *k = s->l->k;
    const int dtype = lower_node(s->l, s->c->x)->dtype;
    const KRef running = k_var(k, before, s->c->name), j = k_loop(k, HELD, KFOR_UNROLL, "j");
    const KRef place = k_add(k, first, j), so_far = k_get(k, running);
    const KRef with = join(s, so_far, k_aload(k, s->held, j, 1));
    at.idx[s->r->d.rank - 1] = cumsum_place(s->l, s->r, s->c, place);
    k_if(k, is_inside(s, place));
    pull_store_root(s->l, &s->r->d, at, k_cast(k, s->c->is_exclusive ? so_far : with, dtype));
    k_end(k);
    k_set(k, running, with);
    k_end(k);
}

// What the threads before this one have, behind `carry`, to which all is added.
static KRef share(const Scan *s, KRef total, KRef carry)
{
    Kernel *k = s->l->k;
    const int64_t of_segment = s->threads / s->segments;
    const KRef zero = k_index(k, 0), segment = k_expr(k, "$ / #", s->thread, of_segment);
    k_barrier(k); // what was shared before has been read
    k_astore(k, s->totals, s->thread, total);
    k_barrier(k);
    k_if(k, k_expr(k, "$ < #", s->thread, s->segments));
    const KRef first = k_expr(k, "$ * #", s->thread, of_segment);
    k_astore(k, s->sums, s->thread, join_parts(s, s->totals, first, 0, of_segment));
    k_end(k);
    k_barrier(k);
    const KRef so_far = k_get(k, carry);
    const KRef far = join_parts(s, s->sums, zero, segment, s->segments);
    const KRef near = join_parts(s, s->totals, k_expr(k, "$ * #", segment, of_segment),
                                 k_expr(k, "$ % #", s->thread, of_segment), of_segment);
    const KRef before = join(s, so_far, join(s, far, near));
    k_set(k, carry, join(s, so_far, join_parts(s, s->sums, zero, 0, s->segments)));
    return before;
}

bool cumsum_by_groups(Lower *l, const Rows *r, const Cumsum *c)
{
    if (!fits(l, r))
        return false;
    Kernel *k = l->k;
    Scan s = {.l = l, .r = r, .c = c, .threads = threads_of(l, r), .segments = 1};
    Point at = {.lanes = 1, .count = 1};
    const int type = cumsum_type(l, c);
    while (s.segments * s.segments < s.threads)
        s.segments *= 2;
    k_set_group(k, (uint32_t)s.threads);
    KRef row = k_for_group(k, count_rows(r), "row");
    for (uint32_t i = r->n_kept; i-- > 0; row = k_expr(k, "$ / #", row, r->d.extent[i]))
        at.idx[i] = i == 0 ? row : k_expr(k, "$ % #", row, r->d.extent[i]);
    s.thread = k_thread(k);
    s.held = k_array(k, type, HELD);
    s.totals = k_shared(k, type, s.threads);
    s.sums = k_shared(k, type, s.segments);
    const KRef carry = k_var(k, neutral(&s), "carry");
    const KRef part = k_for(k, k_index(k, 0), k_index(k, r->count), s.threads * HELD, KFOR_SERIAL, "part");
    const KRef first = k_expr(k, "$ + $ * #", part, s.thread, HELD);
    const KRef total = fetch(&s, at, first);
    store(&s, at, first, share(&s, total, carry));
    k_ends(k, 2);
    return true;
}
