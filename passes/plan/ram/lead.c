// SPDX-License-Identifier: Apache-2.0
// Leads of kernels. See lead.h.
#include "passes/plan/ram/lead.h"
#include "passes/plan/ram/trace.h"

// --- the order of accesses -----------------------------------------------------------------------

// Accesses of one kind that follow each other.
typedef struct Event {
    bool is_write;
    int64_t begin, end;
    int64_t written_until, written_from; // by all writes so far: the highest end, the lowest begin
} Event;

typedef struct Events {
    Arena *arena;
    VEC(Event) list;
} Events;

static void add_event(void *ctx, const TraceAccess *a)
{
    Events *e = ctx;
    Event *last = e->list.len > 0 ? &e->list.data[e->list.len - 1] : NULL;
    if (last == NULL || last->is_write != a->is_write) {
        vec_push(e->arena, &e->list, ((Event){.is_write = a->is_write, .begin = a->begin, .end = a->end}));
        return;
    }
    last->begin = a->begin < last->begin ? a->begin : last->begin;
    last->end = a->end > last->end ? a->end : last->end;
}

static bool find_events(const LeadQuestion *q, Arena *scratch, Events *e)
{
    static const uint32_t depths[] = {TRACE_ALL_LOOPS, 2, 1};
    const TraceWatch watch = {.reads = q->reads, .writes = q->writes, .fn = add_event, .ctx = e};
    for (uint32_t i = 0; i < sizeof depths / sizeof *depths; i++) {
        *e = (Events){.arena = scratch};
        if (trace_kernel(q->kernel, scratch, &watch, depths[i]))
            return true;
    }
    return false;
}

static void find_written(Events *e)
{
    int64_t until = INT64_MIN, from = INT64_MAX;
    for (uint32_t i = 0; i < e->list.len; i++) {
        Event *at = &e->list.data[i];
        until = at->is_write && at->end > until ? at->end : until;
        from = at->is_write && at->begin < from ? at->begin : from;
        at->written_until = until;
        at->written_from = from;
    }
}

// --- leads ---------------------------------------------------------------------------------------

// Compilers may exchange accesses of different types, unless one of them is of bytes.
static bool are_types_alike(const LeadQuestion *q)
{
    const Kernel *k = q->kernel->kernel;
    for (uint32_t i = 0; i < k->params.len; i++)
        for (uint32_t j = 0; j < k->params.len; j++) {
            const DType in = k->params.data[i].dtype, out = k->params.data[j].dtype;
            if (q->reads[i] && q->writes[j] && in != out && !k_is_byte(in) && !k_is_byte(out))
                return false;
        }
    return true;
}

// Bytes of the result that are written, while it begins where the input does.
typedef struct InPlace {
    bool *is_written;
    int64_t bytes;
    bool is_lost; // one of them was read as the input's
} InPlace;

static void note_in_place(void *ctx, const TraceAccess *a)
{
    InPlace *p = ctx;
    for (int64_t i = a->begin; i < a->end && i < p->bytes; i++)
        if (a->is_write)
            p->is_written[i] = true;
        else
            p->is_lost = p->is_lost || p->is_written[i];
}

// Channels that are written one after the other come back to the begin: then nothing but the same place is
// left.
static bool is_in_place(const LeadQuestion *q, Arena *scratch)
{
    InPlace p = {.bytes = (int64_t)(q->in_bytes < q->out_bytes ? q->in_bytes : q->out_bytes)};
    p.is_written = ARENA_ARRAY(scratch, bool, p.bytes);
    const TraceWatch watch = {.reads = q->reads,
                              .writes = q->writes,
                              .fn = note_in_place,
                              .ctx = &p,
                              .stop = &p.is_lost,
                              .is_exact = true};
    return trace_kernel(q->kernel, scratch, &watch, TRACE_ALL_LOOPS) && !p.is_lost;
}

static Lead find_lead(const LeadQuestion *q, Arena *scratch)
{
    const int64_t in = (int64_t)q->in_bytes, out = (int64_t)q->out_bytes;
    Lead lead = {-out, in, false};
    Events e;
    if (!are_types_alike(q) || !find_events(q, scratch, &e))
        return lead;
    find_written(&e);
    lead = (Lead){in, -out, false};
    int64_t least = INT64_MAX, most = INT64_MIN; // of what is read later
    for (uint32_t i = e.list.len; i-- > 0;) {
        const Event *at = &e.list.data[i];
        if (!at->is_write) {
            least = at->begin < least ? at->begin : least;
            most = at->end > most ? at->end : most;
        } else if (most > INT64_MIN) {
            const int64_t until = least - at->written_until, from = most - at->written_from;
            lead.until = until < lead.until ? until : lead.until;
            lead.from = from > lead.from ? from : lead.from;
        }
    }
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

// Iterations of parallel loops are in no order.
static bool is_reversible(const Kernel *k, const KInst *n, int64_t *sum)
{
    int64_t lo = 0, hi = 0;
    if (n->kind != KI_for || n->flags != KFOR_PARALLEL || !k_is_const(k, n->a, &lo) ||
        !k_is_const(k, n->b, &hi) || hi <= lo)
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
        const bool is_parallel = n->kind == KI_for && n->flags == KFOR_PARALLEL;
        copy_reversed(&v, r, inside == 0);
        inside += kkind_opens(n->kind) && (inside > 0 || !is_parallel);
        inside -= kkind_closes(n->kind) && inside > 0;
    }
    return v.any ? v.to : NULL;
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
        n->flags = n->kind == KI_for && n->flags == KFOR_PARALLEL ? (uint8_t)KFOR_SERIAL : n->flags;
    }
    return to;
}
