// SPDX-License-Identifier: Apache-2.0
// See scan.h.
#include "passes/lower/ops/scan.h"

Scan scan_new(Kernel *k, const RowFold *fold, int type, int64_t threads)
{
    rlx_assert(threads >= 1 && (threads & (threads - 1)) == 0);
    Scan s = {.k = k, .fold = fold, .type = type, .threads = threads, .segments = 1, .thread = k_thread(k)};
    while (s.segments * s.segments < threads)
        s.segments *= 2;
    s.totals = k_shared(k, type, threads + s.segments);
    s.sums = k_shared(k, type, s.segments);
    return s;
}

KRef scan_join(const Scan *s, KRef before, KRef v)
{
    return k_form(s->k, s->fold->form, (KRef[3]){before, v}, s->type);
}

KRef scan_neutral(const Scan *s)
{
    return rows_neutral(s->k, s->type, s->fold);
}

// Joins the first `n` of `most` parts in shared memory; n = 0: all.
static KRef join_parts(const Scan *s, KRef parts, KRef first, KRef n, int64_t most)
{
    Kernel *k = s->k;
    const KRef joined = k_var(k, scan_neutral(s), "before");
    const KRef i = k_loop(k, most, KFOR_SERIAL, "i");
    const KRef before = k_get(k, joined);
    const KRef all = scan_join(s, before, k_aload(k, parts, k_add(k, first, i), 1));
    k_set(k, joined, n == 0 ? all : k_select(k, k_lt(k, i, n), all, before));
    k_end(k);
    return k_get(k, joined);
}

// Of a segment's first thread. The entry between two segments keeps threads that read theirs side by side
// from waiting for one bank.
static KRef first_total(const Scan *s, KRef segment)
{
    return k_expr(s->k, "$ * #", segment, s->threads / s->segments + 1);
}

KRef scan_before(const Scan *s, KRef total, KRef *all)
{
    Kernel *k = s->k;
    const int64_t of_segment = s->threads / s->segments;
    const KRef zero = k_index(k, 0), segment = k_expr(k, "$ / #", s->thread, of_segment);
    k_barrier(k); // what was shared before has been read
    k_astore(k, s->totals, k_add(k, s->thread, segment), total);
    k_barrier(k);
    k_if(k, k_expr(k, "$ < #", s->thread, s->segments));
    k_astore(k, s->sums, s->thread,
             join_parts(s, s->totals, first_total(s, s->thread), 0, of_segment));
    k_end(k);
    k_barrier(k);
    const KRef far = join_parts(s, s->sums, zero, segment, s->segments);
    const KRef near = join_parts(s, s->totals, first_total(s, segment),
                                 k_expr(k, "$ % #", s->thread, of_segment), of_segment);
    *all = join_parts(s, s->sums, zero, 0, s->segments);
    return scan_join(s, far, near);
}
