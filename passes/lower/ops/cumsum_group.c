// SPDX-License-Identifier: Apache-2.0
// Running sums on GPUs: a group has a row, of which it takes as many elements at once as its threads hold.
// Each thread adds up its own, which are neighbours; what those before it have comes from shared memory
// (scan.h).
#include "ir/machine/machine.h"
#include "passes/lower/ops/cumsum.h"
#include "passes/lower/ops/scan.h"

enum {
    LEAST = 64,         // elements of a row that threads share,
    LEAST_MANY = 96,    // and where there are many rows
    HELD = 4,           // elements of a thread at once
    LEAST_THREADS = 32, // of a group
    MANY_ROWS = 32,     // of each processor; elements of so many do not lie apart
    USUAL_THREADS = 256 // where there are rows for all processors
};

typedef struct Running {
    Lower *l;
    const Rows *r;
    const Cumsum *c;
    Scan scan;
    KRef held; // an array
} Running;

static int64_t count_rows(const Rows *r)
{
    int64_t rows = 1;
    for (uint32_t i = 0; i < r->n_kept; i++)
        rows *= r->d.extent[i];
    return rows;
}

// Do elements of a row lie apart in memory?
static bool is_apart(const Rows *r)
{
    bool found = false;
    for (uint32_t i = 0; i < r->d.access.len; i++) {
        const int64_t step = r->d.access.data[i].stride[r->d.rank - 1];
        found = found || step < -1 || step > 1;
    }
    return found;
}

static bool fits(const Lower *l, const Rows *r)
{
    bool is_live = false;
    for (uint32_t i = 0; i < r->d.rank; i++)
        is_live = is_live || r->d.live[i].size != 0;
    if (!l->caps->is_gpu || l->caps->shared_bytes == 0 || r->d.rank != r->n_kept + 1 || is_live)
        return false;
    const int64_t rows = count_rows(r), most = (int64_t)gpu_about_threads(l->caps->gpu);
    if (rows < MANY_ROWS * l->caps->gpu->processors)
        return r->count >= LEAST;
    return r->count >= LEAST_MANY && rows < most && !is_apart(r);
}

static int64_t threads_of(const Lower *l, const Rows *r)
{
    const int64_t most = count_rows(r) < l->caps->gpu->processors ? l->caps->group_threads : USUAL_THREADS;
    int64_t threads = LEAST_THREADS;
    while (threads < most && threads * HELD < r->count)
        threads *= 2;
    return threads;
}

static KRef is_inside(const Running *s, KRef place)
{
    return k_expr(s->l->k, "$ < #", place, s->r->count);
}

// Fetches the elements of the thread, beyond the row neutral ones; returns what they are together.
static KRef fetch(const Running *s, Point at, KRef first)
{
    Kernel *k = s->l->k;
    const int type = cumsum_type(s->l, s->c);
    const KRef neutral = scan_neutral(&s->scan);
    const KRef total = k_var(k, neutral, "total"), j = k_loop(k, HELD, KFOR_UNROLL, "j");
    const KRef place = k_add(k, first, j), last = k_expr(k, "min($, #)", place, s->r->count - 1);
    NodeId x = s->c->x;
    at.idx[s->r->d.rank - 1] = cumsum_place(s->l, s->r, s->c, last);
    const KRef v = k_cast(k, rows_operand(s->l, &s->r->d, at, &x), type);
    k_astore(k, s->held, j, k_select(k, is_inside(s, place), v, neutral));
    k_set(k, total, scan_join(&s->scan, k_get(k, total), k_aload(k, s->held, j, 1)));
    k_end(k);
    return k_get(k, total);
}

static void store(const Running *s, Point at, KRef first, KRef before)
{
    Kernel *k = s->l->k;
    const int dtype = lower_node(s->l, s->c->x)->dtype;
    const KRef running = k_var(k, before, s->c->name), j = k_loop(k, HELD, KFOR_UNROLL, "j");
    const KRef place = k_add(k, first, j), so_far = k_get(k, running);
    const KRef with = scan_join(&s->scan, so_far, k_aload(k, s->held, j, 1));
    at.idx[s->r->d.rank - 1] = cumsum_place(s->l, s->r, s->c, place);
    k_if(k, is_inside(s, place));
    pull_store_root(s->l, &s->r->d, at, k_cast(k, s->c->is_exclusive ? so_far : with, dtype));
    k_end(k);
    k_set(k, running, with);
    k_end(k);
}

// Some elements of each thread; carry: what those before all of them are together.
static void take_part(const Running *s, Point at, KRef first, KRef carry)
{
    Kernel *k = s->l->k;
    KRef all = 0;
    const KRef near = scan_before(&s->scan, fetch(s, at, first), &all), so_far = k_get(k, carry);
    const KRef before = scan_join(&s->scan, so_far, near);
    k_set(k, carry, scan_join(&s->scan, so_far, all));
    store(s, at, first, before);
}

bool cumsum_by_groups(Lower *l, const Rows *r, const Cumsum *c)
{
    if (!fits(l, r))
        return false;
    Kernel *k = l->k;
    Point at = {.lanes = 1, .count = 1};
    const int64_t threads = threads_of(l, r);
    k_set_group(k, (uint32_t)threads);
    KRef row = k_for_group(k, count_rows(r), "row");
    for (uint32_t i = r->n_kept; i-- > 0; row = k_expr(k, "$ / #", row, r->d.extent[i]))
        at.idx[i] = i == 0 ? row : k_expr(k, "$ % #", row, r->d.extent[i]);
    const Running s = {.l = l, .r = r, .c = c, .scan = scan_new(k, c->fold, cumsum_type(l, c), threads),
                       .held = k_array(k, cumsum_type(l, c), HELD)};
    const KRef carry = k_var(k, scan_neutral(&s.scan), "carry");
    const KRef part = k_for(k, k_index(k, 0), k_index(k, r->count), threads * HELD, KFOR_SERIAL, "part");
    take_part(&s, at, k_expr(k, "$ + $ * #", part, s.scan.thread, HELD), carry);
    k_ends(k, 2);
    return true;
}
