// SPDX-License-Identifier: Apache-2.0
// Which kernels are groups that run row by row: the cut of their list with the fewest bytes moved whose
// largest group keeps to a limit, by dynamic programming over estimates. See rows.h.
#include "passes/plan/ram/lead.h"
#include "passes/plan/ram/rows.h"

// --- facts ---------------------------------------------------------------------------------------

static void touch(Rows *r, BufId b, uint32_t kernel)
{
    r->first[b] = kernel < r->first[b] ? kernel : r->first[b];
    r->last[b] = kernel > r->last[b] ? kernel : r->last[b];
}

static void mark_lasting(Rows *r)
{
    const Plan *p = r->plan;
    for (uint32_t i = 0; i < p->inputs.len; i++)
        touch(r, p->inputs.data[i].buf, 0);
    for (uint32_t i = 0; i < p->outputs.len; i++)
        r->lasts[p->outputs.data[i].buf] = true;
    for (uint32_t i = 0; i < p->sizes.len; i++)
        r->lasts[p->sizes.data[i].buf] = true;
    for (uint32_t i = 0; i < p->checks.len; i++)
        r->lasts[p->checks.data[i].buf] = true;
    for (uint32_t i = 0; i < p->kept.len; i++)
        r->lasts[p->kept.data[i].buf] = true;
    for (BufId b = 1; b < p->buffers.len; b++)
        if (r->lasts[b])
            touch(r, b, p->kernels.len - 1);
}

static Rows facts_of(Pass *pass)
{
    const Plan *p = pass->plan;
    Arena *a = pass->scratch;
    Rows r = {.plan = p, .scratch = a};
    r.stage = ARENA_ARRAY(a, RowStage, p->kernels.len);
    r.first = ARENA_ARRAY(a, uint32_t, p->buffers.len);
    r.last = ARENA_ARRAY(a, uint32_t, p->buffers.len);
    r.lasts = ARENA_ARRAY(a, bool, p->buffers.len);
    for (BufId b = 0; b < p->buffers.len; b++)
        r.first[b] = UINT32_MAX;
    for (uint32_t i = 0; i < p->kernels.len; i++) {
        r.stage[i] = rows_stage(p, i, a);
        for (uint32_t j = 0; j < p->kernels.data[i].args.len; j++)
            touch(&r, p->kernels.data[i].args.data[j].buf, i);
    }
    mark_lasting(&r);
    return r;
}

// --- estimates -----------------------------------------------------------------------------------

// The lowest byte that stages of the group read of a value after a tick: of rows that they have not made.
static int64_t lowest_unread(const RowGroup *g, BufId buf, int64_t tick)
{
    int64_t lowest = INT64_MAX;
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t u = 0; u < g->stage[i].uses.len; u++) {
            const RowUse *use = &g->stage[i].uses.data[u];
            const int64_t at = use->unread[rows_made(g, i, tick)];
            lowest = use->buf == buf && at < lowest ? at : lowest;
        }
    return lowest;
}

static bool is_made_by(const RowGroup *g, BufId buf)
{
    for (uint32_t i = 0; i < g->n; i++)
        if (g->stage[i].out == buf)
            return true;
    return false;
}

// Bytes that the result of the group saves when it lies over a value that dies in it.
static int64_t saved_by(const RowGroup *g, BufId in, int64_t in_bytes, uint32_t maker)
{
    const RowStage *out = &g->stage[maker];
    const int64_t out_bytes = out->rows * out->pitch;
    int64_t lead = 0;
    for (int64_t tick = 0; tick < g->ticks; tick++) {
        const int64_t unread = lowest_unread(g, in, tick - 1);
        const int64_t end = rows_made(g, maker, tick) * out->pitch;
        if (unread != INT64_MAX && end - unread > lead)
            lead = end - unread;
    }
    const int64_t both = in_bytes + lead > out_bytes ? in_bytes + lead : out_bytes;
    return in_bytes + out_bytes - both;
}

static int64_t largest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

// Bytes that both take with a lead.
static int64_t both_bytes(Lead l, int64_t in, int64_t out)
{
    const int64_t below = largest(in + largest(-l.until, 0), out),
                  above = largest(in, out + largest(l.from, 0));
    return l.is_in_place ? largest(in, out) : below < above ? below : above;
}

// The same for a kernel alone, which may run backwards.
static int64_t saved_alone(const Rows *r, uint32_t kernel, BufId in)
{
    PlanKernel k = r->plan->kernels.data[kernel];
    const BufId out = r->stage[kernel].out;
    bool *reads = ARENA_ARRAY(r->scratch, bool, k.args.len),
         *writes = ARENA_ARRAY(r->scratch, bool, k.args.len);
    const LeadQuestion q = {&k, reads, writes, r->plan->buffers.data[in].bytes,
                            r->plan->buffers.data[out].bytes};
    for (uint32_t i = 0; i < k.args.len; i++) {
        reads[i] = k.args.data[i].buf == in;
        writes[i] = k.args.data[i].buf == out;
    }
    const int64_t a = (int64_t)q.in_bytes, b = (int64_t)q.out_bytes;
    int64_t both = both_bytes(lead_of(&q), a, b);
    k.kernel = lead_reversed(k.kernel, r->scratch);
    if (k.kernel != NULL) {
        const int64_t back = both_bytes(lead_of(&q), a, b);
        both = back < both ? back : both;
    }
    return a + b - both;
}

// The most that one result saves over one value.
static uint64_t saved_bytes(const Rows *r, const RowGroup *g)
{
    int64_t most = 0;
    const uint32_t end = g->first + g->n - 1;
    for (uint32_t maker = 0; maker < g->n; maker++)
        for (uint32_t i = 0; i < g->n && !g->held[maker].is_inner; i++)
            for (uint32_t u = 0; u < g->stage[i].uses.len; u++) {
                const BufId in = g->stage[i].uses.data[u].buf;
                if (r->lasts[in] || r->last[in] > end || is_made_by(g, in))
                    continue;
                const int64_t bytes = (int64_t)r->plan->buffers.data[in].bytes;
                most =
                    largest(most, g->n == 1 ? saved_alone(r, g->first, in) : saved_by(g, in, bytes, maker));
            }
    return (uint64_t)most;
}

// Is the buffer scratch memory of a kernel of the group, which shares it with the others?
static bool is_scratch_of(const Plan *p, const RowGroup *g, BufId b)
{
    for (uint32_t i = g->first; i < g->first + g->n; i++)
        for (uint32_t j = 0; j < p->kernels.data[i].args.len; j++) {
            const PlanArg *a = &p->kernels.data[i].args.data[j];
            if (a->buf == b && a->is_read && a->is_written)
                return true;
        }
    return false;
}

// What the arena holds while kernels [first, first + n) run.
static uint64_t peak_of(const Rows *r, const RowGroup *g, bool is_group)
{
    const Plan *p = r->plan;
    const uint32_t end = g->first + g->n - 1;
    uint64_t sum = is_group ? g->window_bytes + g->scratch_bytes : 0;
    for (BufId b = 1; b < p->buffers.len; b++) {
        bool is_inside = false;
        for (uint32_t i = 0; is_group && i < g->n; i++)
            is_inside = is_inside || (g->stage[i].out == b && g->held[i].is_inner);
        const bool is_scratch = is_group && is_scratch_of(p, g, b);
        if (p->buffers.data[b].region == REGION_ARENA && r->first[b] <= end && r->last[b] >= g->first &&
            !is_inside && !is_scratch)
            sum += (p->buffers.data[b].bytes + 3) / 4 * 4;
    }
    return is_group ? sum - saved_bytes(r, g) : sum;
}

// --- cutting -------------------------------------------------------------------------------------

// The best way to run the kernels before one.
typedef struct Cut {
    uint64_t peak, moved;
    uint32_t from; // where its last group begins
} Cut;

static bool is_better(const Cut *a, const Cut *b, uint64_t limit)
{
    const uint64_t over_a = a->peak > limit ? a->peak : 0, over_b = b->peak > limit ? b->peak : 0;
    return over_a != over_b ? over_a < over_b : a->moved < b->moved;
}

// False: nor are longer ones groups.
static bool try_group(const Rows *r, Cut *cuts, uint32_t first, uint32_t n, uint64_t limit)
{
    RowGroup g;
    const bool is_group = rows_group(r, first, n, &g);
    if (!is_group && n > 1)
        return false;
    const uint64_t own = peak_of(r, &g, is_group);
    const Cut *before = &cuts[first], at = {.peak = own > before->peak ? own : before->peak,
                                            .moved = before->moved + (n > 1 ? g.moved_bytes + 64 : 0),
                                            .from = first};
    Cut *best = &cuts[first + n];
    if (best->from == UINT32_MAX || is_better(&at, best, limit))
        *best = at;
    return is_group;
}

bool rows_cut(Pass *p, uint64_t limit)
{
    Plan *plan = p->plan;
    const uint32_t n = plan->kernels.len;
    Rows r = facts_of(p);
    Cut *cuts = ARENA_ARRAY(p->scratch, Cut, n + 1u);
    bool any = false;
    for (uint32_t i = 1; i <= n; i++)
        cuts[i].from = UINT32_MAX;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t m = 1; i + m <= n && try_group(&r, cuts, i, m, limit); m++) {
        }
    for (uint32_t end = n; end > 0; end = cuts[end].from) {
        RowGroup g;
        if (end - cuts[end].from < 2)
            continue;
        const bool is_group = rows_group(&r, cuts[end].from, end - cuts[end].from, &g);
        rlx_assert(is_group);
        rows_join(plan, &g, p->scratch);
        any = true;
    }
    return any;
}
