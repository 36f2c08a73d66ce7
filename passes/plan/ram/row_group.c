// SPDX-License-Identifier: Apache-2.0
// When the kernels of a group make which row, and how many rows of each value are there at a time. See
// rows.h.
#include "passes/plan/ram/rows.h"

enum { MAX_STEP = 16 };

static int64_t clamp(int64_t v, int64_t lo, int64_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

// --- links ---------------------------------------------------------------------------------------

// Rows that the row q of the reader reads; false: none.
static bool rows_read(const RowStage *maker, const RowUse *u, int64_t q, int64_t *lo, int64_t *hi)
{
    *lo = u->begin[q] / maker->pitch;
    *hi = (u->end[q] + maker->pitch - 1) / maker->pitch;
    return u->begin[q] != u->end[q];
}

// The closest bounds on what is read with this step. What ends at a border of the value asks for no more.
static void bound_link(const RowStage *maker, const RowStage *reader, const RowUse *u, RowLink *l)
{
    int64_t lo = 0, hi = 0;
    l->below = l->above = -maker->rows - reader->rows * l->step;
    for (int64_t q = 0; q < reader->rows; q++) {
        if (!rows_read(maker, u, q, &lo, &hi))
            continue;
        const int64_t below = q * l->step - lo, above = hi - q * l->step;
        l->below = lo > 0 && below > l->below ? below : l->below;
        l->above = hi < maker->rows && above > l->above ? above : l->above;
    }
    for (int64_t q = 0; q < reader->rows; q++) {
        if (!rows_read(maker, u, q, &lo, &hi))
            continue;
        if (clamp(q * l->step - l->below, 0, maker->rows) > lo)
            l->below = q * l->step - lo;
        if (clamp(q * l->step + l->above, 0, maker->rows) < hi)
            l->above = hi - q * l->step;
    }
}

// The step with the closest bounds; false: nothing is read, or it is not read row by row.
static bool find_link(const RowStage *maker, const RowStage *reader, const RowUse *u, RowLink *best)
{
    for (int64_t step = 1; step <= MAX_STEP; step++) {
        RowLink at = {.maker = best->maker, .reader = best->reader, .step = step};
        bound_link(maker, reader, u, &at);
        if (step == 1 || at.below + at.above < best->below + best->above)
            *best = at;
    }
    return best->above >= 1;
}

// --- time ----------------------------------------------------------------------------------------

int64_t rows_made(const RowGroup *g, uint32_t stage, int64_t tick)
{
    return clamp((tick + 1 - g->delay[stage]) / g->every[stage], 0, g->stage[stage]->rows);
}

int64_t rows_lowest(const RowGroup *g, uint32_t stage, int64_t tick)
{
    int64_t lowest = rows_made(g, stage, tick - 1); // the next one has a place, whether it is read or not
    for (uint32_t i = 0; i < g->links.len; i++) {
        const RowLink *l = &g->links.data[i];
        if (l->maker != stage)
            continue;
        const int64_t next = rows_made(g, l->reader, tick - 1), row = next * l->step - l->below;
        lowest = row < lowest ? row : lowest;
    }
    return lowest > 0 ? lowest : 0;
}

// The stage waits for those whose values it reads; false: they make rows at different rates.
static bool set_time(const Rows *r, RowGroup *g, uint32_t reader)
{
    const RowStage *s = g->stage[reader];
    bool any = false;
    for (uint32_t i = 0; i < s->uses.len; i++)
        for (uint32_t maker = 0; maker < reader; maker++) {
            RowLink l = {.maker = maker, .reader = reader};
            if (g->stage[maker]->out != s->uses.data[i].buf)
                continue;
            if (g->stage[maker]->is_sum)
                return false; // it is not there before the group ends
            if (!find_link(g->stage[maker], s, &s->uses.data[i], &l))
                continue;
            const int64_t every = g->every[maker] * l.step;
            const int64_t delay = g->delay[maker] + g->every[maker] * (l.above - l.step);
            if (any && every != g->every[reader])
                return false;
            g->every[reader] = every;
            g->delay[reader] = !any || delay > g->delay[reader] ? delay : g->delay[reader];
            vec_push(r->scratch, &g->links, l);
            any = true;
        }
    if (reader == 0)
        g->every[0] = 1;
    return any || reader == 0;
}

// --- windows -------------------------------------------------------------------------------------

static bool is_inner(const Rows *r, const RowGroup *g, BufId b)
{
    for (uint32_t i = 0; i < g->n; i++) {
        const PlanKernel *k = g->stage[i]->kernel;
        for (uint32_t j = 0; j < k->args.len; j++)
            if (k->args.data[j].buf == b && (k->args.data[j].byte_offset != 0 || k->args.data[j].below != 0))
                return false;
    }
    return !r->lasts[b] && r->first[b] >= g->first && r->last[b] < g->first + g->span;
}

static void find_window(RowGroup *g, uint32_t stage)
{
    RowHeld *h = &g->held[stage];
    const RowStage *s = g->stage[stage];
    if (h->parts > 1) {
        h->rows = 1;
        g->window_bytes += ((uint64_t)(s->pitch / h->parts) + 3) / 4 * 4;
        return;
    }
    int64_t lowest = rows_lowest(g, stage, -1), made = rows_made(g, stage, -1);
    for (int64_t tick = 0; tick < g->ticks; tick++) {
        const int64_t before = lowest, made_before = made;
        lowest = rows_lowest(g, stage, tick);
        made = rows_made(g, stage, tick);
        const int64_t rows = made - lowest, kept = made_before - lowest;
        h->rows = rows > h->rows ? rows : h->rows;
        if (kept > 0 && lowest > before) {
            h->has_moves = true;
            g->moved_bytes += (uint64_t)(kept * s->pitch);
        }
    }
    g->window_bytes += ((uint64_t)(h->rows * s->pitch) + 3) / 4 * 4;
}

// --- in place ------------------------------------------------------------------------------------

LeadWays rows_lead(const Rows *r, const RowStage *s, BufId in)
{
    const PlanKernel *k = s->kernel;
    bool *reads = ARENA_ARRAY(r->scratch, bool, k->args.len),
         *writes = ARENA_ARRAY(r->scratch, bool, k->args.len);
    const LeadQuestion q = {k, reads, writes, r->plan->buffers.data[in].bytes,
                            r->plan->buffers.data[s->result].bytes};
    for (uint32_t i = 0; i < k->args.len; i++) {
        reads[i] = k->args.data[i].buf == in;
        writes[i] = k->args.data[i].buf == s->result;
    }
    return lead_ways(r->known, &q, r->scratch);
}

// The only link from the stage; NULL: there is none, or several.
static const RowLink *only_link(const RowGroup *g, uint32_t maker)
{
    const RowLink *only = NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->links.len; i++)
        if (g->links.data[i].maker == maker) {
            only = &g->links.data[i];
            n++;
        }
    return n == 1 ? only : NULL;
}

// Do the maker and the reader of a value see it as elements of the same type?
static bool has_one_type(const RowStage *maker, const RowStage *reader)
{
    const RowStage *const both[] = {maker, reader};
    int type = -1;
    for (uint32_t s = 0; s < 2; s++)
        for (uint32_t i = 0; i < both[s]->kernel->args.len; i++) {
            const int found = (int)both[s]->kernel->kernel->params.data[i].dtype;
            if (both[s]->kernel->args.data[i].buf != maker->out)
                continue;
            if (type >= 0 && type != found)
                return false;
            type = found;
        }
    return true;
}

// Is each row of the stage made at the tick of the same row of the only stage that reads it, which may lie
// over it?
static bool may_lend(const Rows *r, const RowGroup *g, uint32_t maker, const RowLink *l)
{
    const RowStage *from = g->stage[maker];
    if (l == NULL || l->step != 1 || l->below != 0 || l->above != 1)
        return false;
    const RowStage *to = g->stage[l->reader];
    return g->every[maker] == g->every[l->reader] && g->delay[maker] == g->delay[l->reader] &&
           from->rows == to->rows && from->pitch == to->pitch && has_one_type(from, to) &&
           lead_allows(rows_lead(r, to, from->out).lead[0], 0);
}

// Of several values only the first lies where the result will.
static void lend(const Rows *r, RowGroup *g)
{
    bool lends[ROWS_MAX_STAGES] = {false};
    for (uint32_t i = g->n; i-- > 0;) {
        RowHeld *h = &g->held[i];
        const RowLink *l = only_link(g, i);
        if (!h->is_inner || !may_lend(r, g, i, l) || lends[l->reader])
            continue;
        lends[l->reader] = h->is_lent = true;
        h->lender = g->held[l->reader].is_lent ? g->held[l->reader].lender : l->reader;
    }
}

bool rows_group(const Rows *r, RowGroup *g)
{
    rlx_assert(g->n >= 1 && g->n <= ROWS_MAX_STAGES && g->first + g->span <= r->plan->kernels.len);
    for (uint32_t i = 0; i < g->n; i++) {
        const RowStage *s = g->stage[i];
        if (s->out == 0 || !set_time(r, g, i))
            return false;
        const int64_t end = g->delay[i] + g->every[i] * s->rows;
        g->ticks = end > g->ticks ? end : g->ticks;
        g->scratch_bytes = s->scratch > g->scratch_bytes ? s->scratch : g->scratch_bytes;
        g->window_bytes += s->kept;
    }
    for (uint32_t i = 0; i < g->n; i++)
        g->held[i].is_inner = !g->stage[i]->is_sum && is_inner(r, g, g->stage[i]->out);
    lend(r, g);
    rows_set_parts(g);
    for (uint32_t i = 0; i < g->n; i++)
        if (g->held[i].is_inner && !g->held[i].is_lent)
            find_window(g, i);
    return true;
}
