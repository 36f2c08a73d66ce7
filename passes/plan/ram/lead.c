// SPDX-License-Identifier: Apache-2.0
// Leads of kernels. See lead.h.
#include "passes/plan/ram/lead.h"
#include "passes/plan/ram/trace.h"
#include <string.h>

// --- the order of accesses -----------------------------------------------------------------------

// Farther than any two bytes are apart.
#define FAR (INT64_MAX / 4)

static int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t greater(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

// What is read and written in a stretch of the run; and of all reads that come after a write, how far the
// read begins behind the write's end at least, and ends behind its begin at most.
typedef struct Order {
    int64_t read_from, read_until, written_from, written_until; // from > until: there is nothing
    int64_t until, from;
} Order;

static const Order nothing = {FAR, -FAR, FAR, -FAR, FAR, -FAR};

// Reads of `b`, moved by `reads`, come after writes of `a`, moved by `writes`.
static void follow(Order *to, const Order *a, const Order *b, int64_t reads, int64_t writes)
{
    if (a->written_from > a->written_until || b->read_from > b->read_until)
        return;
    to->until = lesser(to->until, b->read_from + reads - a->written_until - writes);
    to->from = greater(to->from, b->read_until + reads - a->written_from - writes);
}

static Order joined(const Order *a, const Order *b)
{
    Order both = {lesser(a->read_from, b->read_from),
                  greater(a->read_until, b->read_until),
                  lesser(a->written_from, b->written_from),
                  greater(a->written_until, b->written_until),
                  lesser(a->until, b->until),
                  greater(a->from, b->from)};
    follow(&both, a, b, 0, 0);
    return both;
}

// The first iteration of a loop stands for all. Distances are linear in the numbers of two iterations, so the
// least and the greatest ones are at the corners.
static Order repeated(const Order *once, const TraceRepeat *r)
{
    const int64_t last = r->count - 1, reads = r->reads * last, writes = r->writes * last;
    Order all = *once;
    all.read_from += lesser(reads, 0);
    all.read_until += greater(reads, 0);
    all.written_from += lesser(writes, 0);
    all.written_until += greater(writes, 0);
    all.until += lesser(reads - writes, 0);
    all.from += greater(reads - writes, 0);
    follow(&all, once, once, r->reads, 0);
    follow(&all, once, once, reads, 0);
    follow(&all, once, once, reads, writes - r->writes);
    return all;
}

// Repeats that are open, each with what its first iteration did so far; [0] is outside of all.
typedef struct Orders {
    Order order[TRACE_ALL_LOOPS + 1];
    TraceRepeat repeat[TRACE_ALL_LOOPS + 1];
    uint32_t depth;
} Orders;

static void add_order(Orders *o, const Order *next)
{
    o->order[o->depth] = joined(&o->order[o->depth], next);
}

static void add_access(void *ctx, const TraceAccess *a)
{
    Order one = nothing;
    *(a->is_write ? &one.written_from : &one.read_from) = a->begin;
    *(a->is_write ? &one.written_until : &one.read_until) = a->end;
    add_order(ctx, &one);
}

static void begin_repeat(void *ctx, const TraceRepeat *r)
{
    Orders *o = ctx;
    rlx_assert(o->depth < TRACE_ALL_LOOPS);
    o->depth++;
    o->repeat[o->depth] = *r;
    o->order[o->depth] = nothing;
}

static void end_repeat(void *ctx, bool is_dropped)
{
    Orders *o = ctx;
    const Order all = repeated(&o->order[o->depth], &o->repeat[o->depth]);
    o->depth--;
    if (!is_dropped)
        add_order(o, &all);
}

static bool find_order(const LeadQuestion *q, Arena *scratch, Order *order)
{
    static const uint32_t depths[] = {TRACE_ALL_LOOPS, 2, 1};
    Orders o;
    const TraceWatch watch = {.reads = q->reads,
                              .writes = q->writes,
                              .fn = add_access,
                              .ctx = &o,
                              .repeat = begin_repeat,
                              .repeat_end = end_repeat};
    bool is_known = false;
    for (uint32_t i = 0; i < sizeof depths / sizeof *depths && !is_known; i++) {
        o = (Orders){.order[0] = nothing};
        is_known = trace_kernel(q->kernel, scratch, &watch, depths[i]);
    }
    *order = o.order[0];
    return is_known;
}

// --- leads ---------------------------------------------------------------------------------------

// Compilers may exchange accesses of different types, unless one of them is of bytes.
static bool are_types_alike(const LeadQuestion *q)
{
    const Kernel *k = q->kernel->kernel;
    for (uint32_t i = 0; i < k->params.len; i++)
        for (uint32_t j = 0; j < k->params.len; j++) {
            const DType in = k->params.data[i].dtype, out = k->params.data[j].dtype;
            if (q->reads[i] && q->writes[j] && in != out && !k_is_byte((int)in) && !k_is_byte((int)out))
                return false;
        }
    return true;
}

// Bytes of the result that are written, while it begins where the input does.
typedef struct InPlace {
    uint64_t *is_written; // bits
    int64_t bytes;
    TraceRepeat repeat[TRACE_ALL_LOOPS]; // those that are open
    uint32_t depth;
    bool is_lost; // one of them was read as the input's
} InPlace;

static void note_bytes(InPlace *p, int64_t begin, int64_t end, bool is_write)
{
    enum { BITS = 64 };
    for (int64_t i = begin, next = 0; i < end && i < p->bytes; i = next) {
        next = lesser(lesser(end, p->bytes), i / BITS * BITS + BITS);
        const uint64_t all = UINT64_MAX >> (BITS - (next - i)) << i % BITS;
        p->is_lost = p->is_lost || (!is_write && (p->is_written[i / BITS] & all) != 0);
        p->is_written[i / BITS] |= is_write ? all : 0;
    }
}

// The same access in all iterations of the repeats from `at` on.
static void note_repeated(InPlace *p, const TraceAccess *a, uint32_t at)
{
    if (at == p->depth) {
        note_bytes(p, a->begin, a->end, a->is_write);
        return;
    }
    const TraceRepeat *r = &p->repeat[at];
    const int64_t step = a->is_write ? r->writes : r->reads, far = step * (r->count - 1);
    TraceAccess one = *a;
    if (step <= a->end - a->begin && -step <= a->end - a->begin) { // there is nothing between them
        one.begin += lesser(far, 0);
        one.end += greater(far, 0);
        note_repeated(p, &one, at + 1);
        return;
    }
    for (int64_t i = 0; i < r->count && !p->is_lost; i++, one.begin += step, one.end += step)
        note_repeated(p, &one, at + 1);
}

static void note_in_place(void *ctx, const TraceAccess *a)
{
    note_repeated(ctx, a, 0);
}

static void begin_in_place(void *ctx, const TraceRepeat *r)
{
    InPlace *p = ctx;
    rlx_assert(p->depth < TRACE_ALL_LOOPS);
    p->repeat[p->depth++] = *r;
}

// No access of an exact trace can be dropped: none is a range of many.
static void end_in_place(void *ctx, bool is_dropped)
{
    InPlace *p = ctx;
    p->depth--;
    p->is_lost = p->is_lost || is_dropped;
}

// Channels that are written one after the other come back to the begin: then nothing but the same place is
// left. Where it is lost, some iterations usually show it.
static bool is_in_place(const LeadQuestion *q, Arena *scratch)
{
    const int64_t bytes = lesser((int64_t)q->in_bytes, (int64_t)q->out_bytes);
    InPlace p;
    TraceWatch watch = {.reads = q->reads,
                        .writes = q->writes,
                        .fn = note_in_place,
                        .ctx = &p,
                        .repeat = begin_in_place,
                        .repeat_end = end_in_place,
                        .stop = &p.is_lost,
                        .is_exact = true};
    bool is_kept = true;
    for (uint32_t whole = 0; whole < 2 && is_kept; whole++) {
        p = (InPlace){.bytes = bytes, .is_written = ARENA_ARRAY(scratch, uint64_t, bytes / 64 + 1)};
        watch.is_sample = whole == 0;
        is_kept = trace_kernel(q->kernel, scratch, &watch, TRACE_ALL_LOOPS) && !p.is_lost;
    }
    return is_kept;
}

static Lead find_lead(const LeadQuestion *q, Arena *scratch)
{
    const int64_t in = (int64_t)q->in_bytes, out = (int64_t)q->out_bytes;
    Order order = nothing;
    if (!are_types_alike(q) || !find_order(q, scratch, &order))
        return (Lead){-out, in, false};
    Lead lead = {lesser(order.until, in), greater(order.from, -out), false};
    rlx_assert(lead.until >= -out && lead.from <= in);
    lead.is_in_place = lead.until < 0 && lead.from > 0 && is_in_place(q, scratch);
    return lead;
}

// The accesses of a kernel can take more memory than all the rest of a compile.
Lead lead_of(const LeadQuestion *q)
{
    Arena scratch = {0};
    const Lead lead = find_lead(q, &scratch);
    arena_free(&scratch);
    return lead;
}

// --- backwards -----------------------------------------------------------------------------------

typedef struct Reversal {
    const Kernel *from;
    Kernel *to;
    KRef *map;
    bool any;
} Reversal;

// Iterations are in no order.
static bool is_in_any_order(const KInst *n)
{
    return n->kind == KI_for && (n->flags == KFOR_PARALLEL || n->flags == KFOR_TURNS);
}

static bool is_reversible(const Kernel *k, const KInst *n, int64_t *sum)
{
    int64_t lo = 0, hi = 0;
    if (!is_in_any_order(n) || !k_is_const(k, n->a, &lo) || !k_is_const(k, n->b, &hi) || hi <= lo)
        return false;
    *sum = lo + lo + (hi - 1 - lo) / n->imm * n->imm; // of the first value and the last
    return true;
}

static void copy_reversed(Reversal *v, KRef r, bool is_outer)
{
    KInst n = *k_inst(v->from, r);
    int64_t sum = 0;
    n.a = v->map[n.a];
    n.b = v->map[n.b];
    n.c = v->map[n.c];
    v->map[r] = k_append(v->to, &n);
    if (!is_outer || !is_reversible(v->from, k_inst(v->from, r), &sum))
        return;
    v->any = true;
    v->map[r] = k_expr(v->to, "# - $", sum, v->map[r]);
}

Kernel *lead_reversed(const Kernel *k, Arena *scratch)
{
    Reversal v = {.from = k, .to = kernel_new(k->arena, k->name)};
    v.map = ARENA_ARRAY(scratch, KRef, k->insts.len);
    v.to->comment = k->comment;
    v.to->notes = k->notes;
    v.to->may_alias = k->may_alias;
    v.to->custom = k->custom;
    for (uint32_t i = 0; i < k->params.len; i++)
        vec_push(k->arena, &v.to->params, k->params.data[i]);
    uint32_t inside = 0; // blocks that are open within, or are, something else than a parallel loop
    for (KRef r = 1; r < k->insts.len; r++) {
        const KInst *n = k_inst(k, r);
        copy_reversed(&v, r, inside == 0);
        inside += kkind_opens(n->kind) && (inside > 0 || !is_in_any_order(n));
        inside -= kkind_closes(n->kind) && inside > 0;
    }
    return v.any ? v.to : NULL;
}

struct LeadKnown {
    const Kernel *kernel; // its arguments stay the same
    const bool *reads, *writes;
    uint64_t in_bytes, out_bytes;
    LeadWays ways;
};

static bool is_answer(const LeadKnown *a, const LeadQuestion *q)
{
    const size_t n = q->kernel->args.len * sizeof(bool);
    return a->kernel == q->kernel->kernel && a->in_bytes == q->in_bytes && a->out_bytes == q->out_bytes &&
           memcmp(a->reads, q->reads, n) == 0 && memcmp(a->writes, q->writes, n) == 0;
}

LeadWays lead_ways(LeadMemo *known, const LeadQuestion *q, Arena *arena)
{
    const size_t n = q->kernel->args.len * sizeof(bool);
    PlanKernel back = *q->kernel;
    LeadQuestion backwards = *q;
    for (uint32_t i = 0; i < known->len; i++)
        if (is_answer(&known->data[i], q))
            return known->data[i].ways;
    LeadWays w = {.lead[0] = lead_of(q), .reversed = lead_reversed(q->kernel->kernel, arena)};
    back.kernel = w.reversed;
    backwards.kernel = &back;
    w.lead[1] = w.reversed != NULL ? lead_of(&backwards) : w.lead[0];
    const LeadKnown answer = {.kernel = q->kernel->kernel,
                              .reads = arena_copy(arena, q->reads, n),
                              .writes = arena_copy(arena, q->writes, n),
                              .in_bytes = q->in_bytes,
                              .out_bytes = q->out_bytes,
                              .ways = w};
    vec_push(arena, known, answer);
    return w;
}

Kernel *lead_serial(const Kernel *k)
{
    Kernel *to = ARENA_NEW(k->arena, Kernel);
    *to = *k;
    to->may_alias = true;
    to->insts.data = arena_copy(k->arena, k->insts.data, k->insts.len * sizeof *k->insts.data);
    to->insts.cap = k->insts.len;
    for (KRef r = 1; r < to->insts.len; r++) {
        KInst *n = &to->insts.data[r];
        n->flags = is_in_any_order(n) ? (uint8_t)KFOR_SERIAL : n->flags;
    }
    return to;
}
