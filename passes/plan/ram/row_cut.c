// SPDX-License-Identifier: Apache-2.0
// Which kernels are groups that run row by row, and how much scratch memory each gets: the cut of their list
// with the fewest instructions whose largest group keeps to a limit, by dynamic programming over estimates.
// See rows.h.
#include "passes/plan/ram/rows.h"
#include "passes/plan/ram/rows_input.h"

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

// What was found out about a group: its choices, by falling scratch memory.
typedef struct Choice {
    uint64_t peak;
    double insns;
    uint32_t way; // of one kernel; of several, at most so much scratch memory each:
    uint64_t scratch;
    bool merges;   // the same: RowGroup.merges
    int64_t parts; // RowGroup.parts
} Choice;

typedef struct RowChoices {
    VEC(Choice) found;
    bool is_all;
} RowChoices;

enum { KINDS = 6 }; // of choices: without and with kernels that are merged, and rows in one part, two or four

// Where one way adds up rows as they come, no group waits for all of them.
static void join_by_sums(RowWays *w)
{
    bool has_sum = false;
    for (uint32_t i = 0; i < w->n; i++)
        has_sum = has_sum || (w->way[i].is_sum && w->way[i].out != 0);
    for (uint32_t i = 0; i < w->n && has_sum; i++)
        w->way[i].out = w->way[i].is_sum ? w->way[i].out : 0;
}

// By instructions. The lowering offers what it takes for fast first, and what follows must be faster by more
// than an estimate of a single kernel is usually off. first: the kernel, or it with the one before it.
static RowWays ways_of(const Rows *r, uint32_t kernel, const PlanKernel *first)
{
    const double off = 1.1;
    const Plan *p = r->plan;
    Arena *scratch = r->scratch;
    const bool may_join = r->is_serial || (kernel >= r->given && kernel - r->given < ROWS_MAX_STAGES);
    RowWays w = {0};
    for (const PlanKernel *k = first; k != NULL; k = k->other)
        w.n++;
    w.way = ARENA_ARRAY(scratch, RowStage, w.n);
    w.n = 0;
    for (const PlanKernel *k = first; k != NULL; k = k->other) {
        const PlanKernel *way = k == first ? arena_copy(scratch, k, sizeof *k) : k;
        const RowStage s = may_join ? rows_stage(p, kernel, way, scratch) : (RowStage){.kernel = way};
        uint32_t at = w.n++;
        for (; at > 0 && w.way[at - 1].insns > s.insns * off; at--)
            w.way[at] = w.way[at - 1];
        w.way[at] = s;
    }
    join_by_sums(&w);
    return w;
}

Rows rows_facts(Pass *pass, LeadMemo *known)
{
    Plan *p = pass->plan;
    Arena *a = pass->scratch;
    Rows r = {.plan = p, .scratch = a, .known = known, .keeps_fastest = pass->options->strips == 3};
    r.is_serial = pass_is_serial(pass);
    rows_input_span(p, &r.given, &r.given_end);
    r.ways = ARENA_ARRAY(a, RowWays, p->kernels.len);
    r.merged = ARENA_ARRAY(a, RowWays, p->kernels.len);
    r.first = ARENA_ARRAY(a, uint32_t, p->buffers.len);
    r.last = ARENA_ARRAY(a, uint32_t, p->buffers.len);
    r.lasts = ARENA_ARRAY(a, bool, p->buffers.len);
    r.is_scratch = ARENA_ARRAY(a, bool, p->buffers.len);
    r.choices = ARENA_ARRAY(a, RowChoices, p->kernels.len * (ROWS_MAX_STAGES + 1u) * KINDS);
    for (BufId b = 0; b < p->buffers.len; b++)
        r.first[b] = UINT32_MAX;
    for (uint32_t i = 0; i < p->kernels.len; i++) {
        r.ways[i] = ways_of(&r, i, &p->kernels.data[i]);
        r.merged[i] = ways_of(&r, i, p->kernels.data[i].merged);
        for (uint32_t j = 0; j < p->kernels.data[i].args.len; j++) {
            const PlanArg *arg = &p->kernels.data[i].args.data[j];
            touch(&r, arg->buf, i);
            r.is_scratch[arg->buf] |= rows_is_scratch(p, &p->kernels.data[i], arg);
        }
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
        for (uint32_t u = 0; u < g->stage[i]->uses.len; u++) {
            const RowUse *use = &g->stage[i]->uses.data[u];
            const int64_t at = use->unread[rows_made(g, i, tick)];
            lowest = use->buf == buf && at < lowest ? at : lowest;
        }
    return lowest;
}

static bool is_made_by(const RowGroup *g, BufId buf)
{
    for (uint32_t i = 0; i < g->n; i++)
        if (g->stage[i]->out == buf)
            return true;
    return false;
}

// Bytes that the result of the group saves when it lies over a value that dies in it.
static int64_t saved_by(const RowGroup *g, BufId in, int64_t in_bytes, uint32_t maker)
{
    const RowStage *out = g->stage[maker];
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
static int64_t saved_over(const Rows *r, const RowStage *s, BufId in)
{
    const int64_t a = (int64_t)r->plan->buffers.data[in].bytes,
                  b = (int64_t)r->plan->buffers.data[s->result].bytes;
    const LeadWays w = rows_lead(r, s, in);
    const int64_t there = both_bytes(w.lead[0], a, b), back = both_bytes(w.lead[1], a, b);
    return a + b - (back < there ? back : there);
}

static uint64_t saved_alone(const Rows *r, uint32_t kernel, const RowStage *s)
{
    int64_t most = 0;
    for (uint32_t i = 0; i < s->kernel->args.len && s->result != 0 && r->is_serial; i++) {
        const PlanArg *a = &s->kernel->args.data[i];
        const bool is_arena = r->plan->buffers.data[a->buf].region == REGION_ARENA;
        if (is_arena && a->is_read && !a->is_written && !r->lasts[a->buf] && r->last[a->buf] <= kernel)
            most = largest(most, saved_over(r, s, a->buf));
    }
    return (uint64_t)most;
}

// The most that one result saves over one value.
static uint64_t saved_bytes(const Rows *r, const RowGroup *g)
{
    int64_t most = 0;
    const uint32_t end = g->first + g->span - 1;
    for (uint32_t maker = 0; maker < g->n; maker++)
        for (uint32_t i = 0; i < g->n && !g->held[maker].is_inner && r->is_serial; i++)
            for (uint32_t u = 0; u < g->stage[i]->uses.len; u++) {
                const BufId in = g->stage[i]->uses.data[u].buf;
                const int64_t bytes = (int64_t)r->plan->buffers.data[in].bytes;
                if (!r->lasts[in] && r->last[in] <= end && !is_made_by(g, in))
                    most = largest(most, saved_by(g, in, bytes, maker));
            }
    return (uint64_t)most;
}

// What the values take that the arena holds while kernels [first, end] run, without those that only the group
// touches.
static uint64_t value_bytes(const Rows *r, uint32_t first, uint32_t end, const RowGroup *g)
{
    const Plan *p = r->plan;
    uint64_t sum = 0;
    for (BufId b = 1; b < p->buffers.len; b++) {
        bool is_inside = p->buffers.data[b].region != REGION_ARENA || r->is_scratch[b];
        for (uint32_t i = 0; g != NULL && i < g->n; i++)
            is_inside = is_inside || (g->stage[i]->out == b && g->held[i].is_inner);
        for (uint32_t i = 0; g != NULL && i < g->n_gone; i++)
            is_inside = is_inside || g->gone[i] == b;
        if (!is_inside && r->first[b] <= end && r->last[b] >= first)
            sum += (p->buffers.data[b].bytes + 3) / 4 * 4;
    }
    return sum;
}

static uint64_t peak_of(const Rows *r, const RowGroup *g)
{
    return value_bytes(r, g->first, g->first + g->span - 1, g) + g->window_bytes + g->scratch_bytes -
           saved_bytes(r, g);
}

static uint64_t peak_alone(const Rows *r, uint32_t kernel, RowStage *s)
{
    if (s->alone == 0)
        s->alone = value_bytes(r, kernel, kernel, NULL) + s->scratch + s->kept - saved_alone(r, kernel, s);
    return s->alone;
}

// --- cutting -------------------------------------------------------------------------------------

// The best way to run the kernels before one.
typedef struct Cut {
    Choice last;   // its last group,
    uint32_t from; // which begins there
    uint64_t peak; // of all groups
    double insns;
} Cut;

// Is the first of two better, of which what is beyond the limit counts most?
static bool is_better(const uint64_t peak[2], const double insns[2], uint64_t limit)
{
    const uint64_t over[2] = {peak[0] > limit ? peak[0] : 0, peak[1] > limit ? peak[1] : 0};
    return over[0] != over[1] ? over[0] < over[1] : insns[0] < insns[1];
}

static bool is_better_choice(const Choice *a, const Choice *b, uint64_t limit)
{
    return is_better((uint64_t[]){a->peak, b->peak}, (double[]){a->insns, b->insns}, limit);
}

// A kernel that reads what one of the group makes in larger pieces than its own rows makes such pieces, too.
static const RowStage *as_coarse(const Rows *r, const RowGroup *g, uint32_t reader, RowStage *s)
{
    int64_t fewest = s->rows;
    for (uint32_t i = 0; i < reader; i++)
        for (uint32_t u = 0; u < s->uses.len; u++)
            if (s->uses.data[u].buf == g->stage[i]->out && g->stage[i]->rows < fewest)
                fewest = g->stage[i]->rows;
    return fewest < s->rows && s->rows % fewest == 0 ? rows_coarser(s, s->rows / fewest, r->scratch) : s;
}

// Can the kernel be merged with the one before it, whose value nobody else reads?
static bool can_merge(const Rows *r, uint32_t kernel)
{
    const BufId gone = kernel != 0 ? r->ways[kernel - 1].way[0].result : 0;
    return r->merged[kernel].n != 0 && gone != 0 && !r->lasts[gone] && r->first[gone] == kernel - 1 &&
           r->last[gone] == kernel;
}

static bool has_merged(const Rows *r, uint32_t first, uint32_t span)
{
    for (uint32_t i = first + 1; i < first + span; i++)
        if (can_merge(r, i))
            return true;
    return false;
}

// The fastest ways with so much scratch memory at most each; *most: what one of them takes. False: there are
// none.
static bool choose_stages(const Rows *r, RowGroup *g, uint64_t scratch, uint64_t *most)
{
    const bool is_group = g->span > 1;
    const RowWays *ways[ROWS_MAX_STAGES];
    RowStage *stage[ROWS_MAX_STAGES];
    *most = 0;
    for (uint32_t kernel = g->first; kernel < g->first + g->span; kernel++) {
        const RowWays *w = &r->ways[kernel];
        if (g->merges && kernel + 1 < g->first + g->span && can_merge(r, kernel + 1)) {
            g->gone[g->n_gone++] = w->way[0].result;
            w = &r->merged[++kernel];
        }
        uint32_t j = 0;
        while (j < w->n && (w->way[j].scratch > scratch || (is_group && w->way[j].out == 0)))
            j++;
        if (j == w->n)
            return false;
        ways[g->n] = w;
        stage[g->n++] = &w->way[j];
    }
    rows_choose_parts(r, g, ways, stage, scratch);
    for (uint32_t i = 0; i < g->n; i++) {
        g->stage[i] = is_group ? as_coarse(r, g, i, stage[i]) : stage[i];
        g->cut[i] = g->stage[i] == stage[i] ? g->cut[i] : 0;
        *most = stage[i]->scratch > *most ? stage[i]->scratch : *most;
    }
    return true;
}

// What moving rows takes: a load and a store a word, in a loop.
static double insns_of(const RowGroup *g)
{
    const double a_byte = 1, a_tick = 30, a_part = 40;
    double sum = a_byte * (double)g->moved_bytes + a_tick * (double)g->ticks;
    for (uint32_t i = 0; i < g->n; i++) {
        const bool has_parts = g->held[i].parts > 1;
        sum += g->stage[i]->insns +
               (has_parts ? a_part * (double)(g->stage[i]->rows * g->held[i].parts) : 0);
    }
    return sum;
}

static bool has_parts(const RowGroup *g)
{
    for (uint32_t i = 0; i < g->n; i++)
        if (g->held[i].parts > 1)
            return true;
    return false;
}

// Choice `at` of a group; NULL: there are no more. No choice depends on a limit, and many limits are tried.
static const Choice *choice_of(const Rows *r, uint32_t first, uint32_t span, uint32_t kind, uint32_t at)
{
    RowChoices *c = &r->choices[((uint64_t)first * (ROWS_MAX_STAGES + 1) + span) * KINDS + kind];
    RowGroup g = {.first = first, .span = span, .merges = kind % 2 != 0, .parts = 1 << kind / 2};
    uint64_t most = 0;
    if (at < c->found.len)
        return &c->found.data[at];
    const uint64_t before = at != 0 ? c->found.data[at - 1].scratch : UINT64_MAX;
    c->is_all = c->is_all || before == 0 || !choose_stages(r, &g, at != 0 ? before - 1 : before, &most) ||
                !rows_group(r, &g) || (g.parts > 1 && !has_parts(&g));
    if (c->is_all)
        return NULL;
    vec_push(r->scratch, &c->found,
             ((Choice){.peak = peak_of(r, &g),
                       .insns = insns_of(&g),
                       .scratch = most,
                       .merges = g.merges,
                       .parts = g.parts}));
    return &c->found.data[at];
}

// The fastest choice that keeps to the limit, or the one with the lowest peak. Values are only computed
// again, and rows made in parts, where the fastest ways take more than that. False: it is no group.
static bool choose_group(const Rows *r, uint32_t first, uint32_t span, uint64_t limit, Choice *best)
{
    const Choice *fastest = choice_of(r, first, span, 0, 0);
    if (fastest == NULL)
        return false;
    *best = *fastest;
    const bool is_enough = best->peak <= limit || r->keeps_fastest;
    const uint32_t step = has_merged(r, first, span) ? 1 : 2;
    for (uint32_t kind = 0; kind < KINDS && !is_enough; kind += step) {
        bool fits = false;
        for (uint32_t i = 0; !fits; i++) {
            const Choice *at = choice_of(r, first, span, kind, i);
            if (at == NULL)
                break;
            fits = at->peak <= limit;
            if (is_better_choice(at, best, limit))
                *best = *at;
        }
    }
    return true;
}

static Choice choose_alone(const Rows *r, uint32_t kernel, uint64_t limit)
{
    const RowWays *w = &r->ways[kernel];
    Choice best = {0};
    for (uint32_t i = 0; i < w->n && (i == 0 || best.peak > limit); i++) {
        const Choice at = {.peak = peak_alone(r, kernel, &w->way[i]), .insns = w->way[i].insns, .way = i};
        if (i == 0 || is_better_choice(&at, &best, limit))
            best = at;
    }
    return best;
}

static void try_cut(Cut *cuts, uint32_t first, uint32_t n, const Choice *c, uint64_t limit)
{
    const Cut *before = &cuts[first];
    Cut *best = &cuts[first + n];
    const Cut at = {.last = *c,
                    .from = first,
                    .peak = c->peak > before->peak ? c->peak : before->peak,
                    .insns = before->insns + c->insns};
    if (best->from == UINT32_MAX ||
        is_better((uint64_t[]){at.peak, best->peak}, (double[]){at.insns, best->insns}, limit))
        *best = at;
}

static void find_cuts(const Rows *r, Cut *cuts, uint64_t limit)
{
    const uint32_t n = r->plan->kernels.len;
    for (uint32_t i = 1; i <= n; i++)
        cuts[i].from = UINT32_MAX;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t least = i == r->given ? r->given_end - i : 1; // kernels of a group
        const uint32_t most = i < r->given && r->given < n ? r->given - i : n - i;
        Choice c = {0};
        if (cuts[i].from == UINT32_MAX && i != 0)
            continue;
        if (i != r->given) {
            c = choose_alone(r, i, limit);
            try_cut(cuts, i, 1, &c, limit);
        }
        for (uint32_t m = i == r->given ? 1 : 2;
             m <= ROWS_MAX_STAGES && m <= most && choose_group(r, i, m, limit, &c); m++)
            if (m >= least)
                try_cut(cuts, i, m, &c, limit);
    }
}

static void use_way(PlanKernel *k, const RowStage *way)
{
    k->kernel = way->kernel->kernel;
    k->args = way->kernel->args;
    k->schedule = way->kernel->schedule;
    k->trade = way->kernel->trade;
}

static void make_group(const Rows *r, uint32_t first, uint32_t span, const Choice *c)
{
    RowGroup g = {.first = first,
                  .span = span,
                  .merges = c->merges,
                  .parts = c->parts,
                  .is_given = first == r->given};
    uint64_t most = 0;
    const bool is_group = choose_stages(r, &g, c->scratch, &most) && rows_group(r, &g);
    rlx_assert(is_group && most == c->scratch);
    rows_join(r->plan, &g, r->scratch);
}

// By the number of kernels before.
static Cut *best_cuts(const Rows *r, uint64_t limit)
{
    const uint32_t n = r->plan->kernels.len;
    Cut *cuts = ARENA_ARRAY(r->scratch, Cut, n + 1u);
    find_cuts(r, cuts, limit);
    if (cuts[n].peak > limit && cuts[n].from != UINT32_MAX) // the fastest of those with the lowest peak
        find_cuts(r, cuts, cuts[n].peak);
    return cuts;
}

double rows_insns(const Rows *r, uint64_t limit)
{
    return best_cuts(r, limit)[r->plan->kernels.len].insns;
}

uint64_t rows_peak(const Rows *r, uint64_t limit)
{
    return best_cuts(r, limit)[r->plan->kernels.len].peak;
}

double rows_least_insns(const Rows *r)
{
    double sum = 0;
    for (uint32_t i = 0; i < r->plan->kernels.len; i++) {
        double least = r->ways[i].way[0].insns;
        for (uint32_t j = 1; j < r->ways[i].n; j++)
            least = r->ways[i].way[j].insns < least ? r->ways[i].way[j].insns : least;
        sum += least;
    }
    return sum;
}

bool rows_cut(const Rows *r, uint64_t limit)
{
    const uint32_t n = r->plan->kernels.len;
    const Cut *cuts = best_cuts(r, limit);
    if (cuts[n].from == UINT32_MAX && n != 0)
        return false;
    for (uint32_t end = n; end > 0; end = cuts[end].from) {
        const uint32_t first = cuts[end].from;
        if (end - first > 1 || first == r->given)
            make_group(r, first, end - first, &cuts[end].last);
        else
            use_way(&r->plan->kernels.data[first], &r->ways[first].way[cuts[end].last.way]);
    }
    return true;
}
