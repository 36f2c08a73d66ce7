// SPDX-License-Identifier: Apache-2.0
// Results that lie over what their kernels read. See memplan.h.
#include "passes/plan/memplan.h"
#include "passes/plan/ram/lead.h"

#include <string.h>

// The search for places takes time that grows with the square of the items.
enum { MAX_ITEMS = 600 };
// plan_verify goes through all accesses of a kernel.
enum { MAX_MACS = 1 << 28 };

// The input `in` of kernel `at` dies there, where its result `out` begins to live.
typedef struct Pair {
    uint32_t at;
    BufId in, out;
    LeadWays ways; // not backwards where other inputs of the kernel die
} Pair;

typedef struct Overlap {
    Planner *m;
    VEC(Pair) pairs;
    bool is_partial; // there may be others that nobody looked for
} Overlap;

typedef VEC(PlaceLead) Leads;

// --- pairs ---------------------------------------------------------------------------------------

// Which arguments of a kernel are of this buffer; false: the kernel does something else with it as well, or
// it is scratch memory. (Windows may lie in a result for a while.)
static bool find_args(const Planner *m, const PlanKernel *k, BufId buf, bool written, bool *is_arg)
{
    bool any = false;
    for (uint32_t i = 0; i < k->args.len; i++) {
        const PlanArg *a = &k->args.data[i];
        is_arg[i] = m->owner[a->buf] == buf;
        any = any || (is_arg[i] && a->is_read != written);
        if (is_arg[i] && a->is_written != written)
            return false;
    }
    return any;
}

static bool dies_here(const Planner *m, BufId in, uint32_t at)
{
    const PlanBuffer *b = &m->plan->buffers.data[in];
    return m->item[in] != 0 && b->last == at && b->bytes != 0 && !m->is_output[in];
}

static bool begins_here(const Planner *m, BufId out, uint32_t at)
{
    const PlanBuffer *b = &m->plan->buffers.data[out];
    return m->item[out] != 0 && b->first == at && b->bytes != 0;
}

static bool has_pair(const Overlap *o, uint32_t at, BufId in, BufId out)
{
    for (uint32_t i = 0; i < o->pairs.len; i++)
        if (o->pairs.data[i].at == at && o->pairs.data[i].in == in && o->pairs.data[i].out == out)
            return true;
    return false;
}

static void add_pair(Overlap *o, uint32_t at, BufId in, BufId out)
{
    Planner *m = o->m;
    const PlanKernel *k = &m->plan->kernels.data[at];
    Arena *scratch = m->pass->scratch;
    bool *reads = ARENA_ARRAY(scratch, bool, k->args.len), *writes = ARENA_ARRAY(scratch, bool, k->args.len);
    if (in == out || has_pair(o, at, in, out) || !dies_here(m, in, at) || !begins_here(m, out, at) ||
        !find_args(m, k, in, false, reads) || !find_args(m, k, out, true, writes))
        return;
    const LeadQuestion q = {k, reads, writes, m->plan->buffers.data[in].bytes,
                            m->plan->buffers.data[out].bytes};
    const Pair pair = {.at = at, .in = in, .out = out, .ways = lead_ways(m->known, &q, scratch)};
    vec_push(scratch, &o->pairs, pair);
}

static void add_pairs_of(Overlap *o, uint32_t at)
{
    const PlanKernel *k = &o->m->plan->kernels.data[at];
    const BufId *owner = o->m->owner;
    const uint32_t first = o->pairs.len;
    const bool is_small = k->macs < MAX_MACS;
    o->is_partial = o->is_partial || (k->loop == NULL && !is_small);
    for (uint32_t i = 0; i < k->args.len && k->loop == NULL && is_small; i++)
        for (uint32_t j = 0; j < k->args.len; j++)
            if (k->args.data[i].is_read && k->args.data[j].is_written)
                add_pair(o, at, owner[k->args.data[i].buf], owner[k->args.data[j].buf]);
    for (uint32_t i = first; o->pairs.len - first > 1 && i < o->pairs.len; i++) {
        LeadWays *w = &o->pairs.data[i].ways;
        w->reversed = NULL; // all of them would have to agree
        w->lead[1] = w->lead[0];
    }
}

// Buffers begin at multiples of their alignments, so leads are multiples of the lesser one.
static int64_t align_down(int64_t v, int64_t align)
{
    return (v >= 0 ? v : v - align + 1) / align * align;
}

static bool has_items(const Planner *m, const Pair *p)
{
    return m->item[p->in] != 0 && m->item[p->out] != 0;
}

static Leads leads_of(const Planner *m, Arena *scratch)
{
    Leads leads = {0};
    for (uint32_t i = 0; i < m->overlap->pairs.len; i++) {
        const Pair *p = &m->overlap->pairs.data[i];
        const Lead *a = &p->ways.lead[0], *b = &p->ways.lead[1];
        const PlanBuffer *in = planner_buffer(m, p->in), *out = planner_buffer(m, p->out);
        const int64_t align = (int64_t)(in->align < out->align ? in->align : out->align);
        const int64_t until = a->until > b->until ? a->until : b->until;
        const int64_t from = a->from < b->from ? a->from : b->from;
        if (!has_items(m, p))
            continue;
        const PlaceLead lead = {.in = m->item[p->in] - 1,
                                .out = m->item[p->out] - 1,
                                .until = align_down(until, align),
                                .from = -align_down(-from, align),
                                .is_in_place = a->is_in_place || b->is_in_place};
        vec_push(scratch, &leads, lead);
    }
    return leads;
}

// --- the pass's part -----------------------------------------------------------------------------

void memplan_find_overlaps(Planner *m, uint32_t n)
{
    Overlap *o = ARENA_NEW(m->pass->scratch, Overlap);
    o->m = m;
    o->is_partial = pass_is_serial(m->pass) && n > MAX_ITEMS;
    m->overlap = o;
    for (uint32_t i = 0; pass_is_serial(m->pass) && n <= MAX_ITEMS && i < m->plan->kernels.len; i++)
        add_pairs_of(o, i);
}

// What any overlaps leave: no item lies over one that was there in the step before and is there in the next.
static uint64_t least_of_all(const PlaceItem *items, uint32_t n)
{
    uint64_t least = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t sum = 0;
        for (uint32_t j = 0; j < n; j++)
            sum += items[j].first <= items[i].first && items[j].last > items[i].first ? items[j].size : 0;
        least = sum > least ? sum : least;
        least = items[i].size > least ? items[i].size : least;
    }
    return least;
}

static void bound_partial(const PlaceItem *items, uint32_t n, PlaceResult *result)
{
    result->lower_bound = least_of_all(items, n);
    result->optimal = result->arena == result->lower_bound;
}

static void place_over(const PlaceLeads *leads, Arena *scratch, PlaceItem *items, uint32_t n,
                       PlaceResult *result)
{
    PlaceItem *closer = arena_copy(scratch, items, n * sizeof *items);
    PlaceResult found;
    place_solve_leads(scratch, closer, n, leads, &found);
    result->lower_bound = found.lower_bound;
    result->optimal = result->arena == found.lower_bound;
    if (found.arena >= result->arena)
        return;
    *result = found;
    memcpy(items, closer, n * sizeof *items);
}

void memplan_overlap(const Planner *m, Arena *scratch, uint64_t enough, PlaceItem *items, uint32_t n,
                     PlaceResult *result)
{
    const Leads all = leads_of(m, scratch);
    const PlaceLeads leads = {all.data, all.len, enough};
    if (leads.n != 0)
        place_over(&leads, scratch, items, n, result);
    if (m->overlap->is_partial)
        bound_partial(items, n, result);
}

void memplan_mark_overlaps(const Planner *m, BankItem *items, uint32_t n)
{
    const Overlap *o = m->overlap;
    for (uint32_t i = 0; i < n; i++)
        items[i].is_over = items[i].is_under = o->is_partial;
    for (uint32_t i = 0; i < o->pairs.len; i++) {
        const Pair *p = &o->pairs.data[i];
        if (has_items(m, p)) {
            items[m->item[p->out] - 1].is_over = true;
            items[m->item[p->in] - 1].is_under = true;
        }
    }
}

void memplan_turn(Planner *m, const PlaceItem *items)
{
    for (uint32_t i = 0; i < m->overlap->pairs.len; i++) {
        const Pair *p = &m->overlap->pairs.data[i];
        if (!has_items(m, p))
            continue;
        PlanKernel *k = &m->plan->kernels.data[p->at];
        const PlaceItem *in = &items[m->item[p->in] - 1], *out = &items[m->item[p->out] - 1];
        const int64_t d = (int64_t)out->offset - (int64_t)in->offset;
        if (in->offset >= out->offset + out->size || out->offset >= in->offset + in->size)
            continue;
        if (!lead_allows(p->ways.lead[0], d)) {
            rlx_assert(p->ways.reversed != NULL && lead_allows(p->ways.lead[1], d));
            k->kernel = p->ways.reversed;
        }
        k->kernel = lead_serial(k->kernel);
    }
}
