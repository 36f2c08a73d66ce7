// SPDX-License-Identifier: Apache-2.0
// Neighbours in a group that make rows in parts, in turns: what one of them makes of a row only the next one
// reads, and for the same part of its own row. See rows.h.
#include "passes/plan/ram/rows.h"

// --- ways that do --------------------------------------------------------------------------------

static const RowUse *use_of(const RowStage *s, BufId buf)
{
    for (uint32_t i = 0; i < s->uses.len; i++)
        if (s->uses.data[i].buf == buf)
            return &s->uses.data[i];
    return NULL;
}

// Does each part of the reader's rows read that part of the maker's rows only?
static bool fit(const Rows *r, RowStage *maker, RowStage *reader, int64_t parts)
{
    if (maker->rows != reader->rows || use_of(reader, maker->out) == NULL)
        return false;
    const RowStage *from = rows_finer(r->plan, maker, parts, r->scratch);
    const RowStage *to = from != NULL ? rows_finer(r->plan, reader, parts, r->scratch) : NULL;
    const RowUse *u = to != NULL ? use_of(to, maker->out) : NULL;
    for (int64_t q = 0; u != NULL && q < to->rows; q++)
        if (u->begin[q] != u->end[q] && (u->begin[q] < q * from->pitch || u->end[q] > (q + 1) * from->pitch))
            return false;
    return u != NULL;
}

// Ways of two neighbours.
typedef struct Pair {
    const RowWays *ways[2];
    RowStage *fixed; // the first one's, which is chosen already; NULL: any
    uint64_t scratch;
} Pair;

static bool may_be(const Pair *p, uint32_t which, RowStage *s)
{
    return s->out != 0 && s->scratch <= p->scratch && (which != 0 || p->fixed == NULL || p->fixed == s);
}

// The fastest ways that make so many parts.
static bool find_pair(const Rows *r, const Pair *p, int64_t parts, RowStage **stage)
{
    for (uint32_t i = 0; i < p->ways[0]->n; i++)
        for (uint32_t j = 0; j < p->ways[1]->n; j++) {
            RowStage *const maker = &p->ways[0]->way[i], *const reader = &p->ways[1]->way[j];
            if (!may_be(p, 0, maker) || !may_be(p, 1, reader) || !fit(r, maker, reader, parts))
                continue;
            stage[0] = maker;
            stage[1] = reader;
            return true;
        }
    return false;
}

void rows_choose_parts(const Rows *r, RowGroup *g, const RowWays *const *ways, RowStage **stage,
                       uint64_t scratch)
{
    for (uint32_t i = 0; i + 1 < g->n; i++) {
        const int64_t before = i != 0 ? g->cut[i - 1] : 0;
        const Pair p = {{ways[i], ways[i + 1]}, before != 0 ? stage[i] : NULL, scratch};
        for (int64_t parts = before != 0 ? before : g->parts; parts > 1 && g->cut[i] == 0;
             parts = before != 0 ? 1 : parts / 2)
            g->cut[i] = find_pair(r, &p, parts, &stage[i]) ? parts : 0;
    }
}

// --- stages that do ------------------------------------------------------------------------------

// Is the value of the stage read by the next one only, at the tick of the same row?
static bool is_at_once(const RowGroup *g, uint32_t maker)
{
    uint32_t n = 0;
    bool is_next = false;
    for (uint32_t i = 0; i < g->links.len; i++) {
        const RowLink *l = &g->links.data[i];
        n += l->maker == maker;
        if (l->maker == maker && l->reader == maker + 1)
            is_next = l->step == 1 && l->below == 0 && l->above == 1;
    }
    return n == 1 && is_next && g->every[maker] == g->every[maker + 1] &&
           g->delay[maker] == g->delay[maker + 1];
}

static bool has_window(const RowGroup *g, uint32_t stage)
{
    for (uint32_t i = 0; i < g->n; i++)
        if (g->held[i].is_lent && (i == stage || g->held[i].lender == stage))
            return false;
    return g->held[stage].is_inner;
}

void rows_set_parts(RowGroup *g)
{
    for (uint32_t i = 0; i < g->n; i++) {
        const bool may_be = g->cut[i] > 1 && i + 1 < g->n && has_window(g, i) && is_at_once(g, i);
        g->held[i].parts = may_be ? g->cut[i] : 1;
        rlx_assert(g->stage[i]->pitch % g->held[i].parts == 0 || !may_be);
    }
}
