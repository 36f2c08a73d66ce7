// SPDX-License-Identifier: Apache-2.0
// See extents.h.
#include "compiler/job/extents.h"
#include "passes/live/live.h"

// 1 + the slot of the symbol that a node is, or 0: it is in the page, or a view of it.
static uint32_t symbol_of(const Plan *p, NodeId size)
{
    rlx_assert(size < p->locs.len);
    const Loc *at = size != 0 ? &p->locs.data[size] : NULL;
    return at != NULL && p->page != 0 && at->buf == p->page ? 1 + (uint32_t)at->offset : 0;
}

static void note(Plan *p)
{
    PlanExtent *x = ARENA_ARRAY(p->arena, PlanExtent, (size_t)p->locs.len * SHAPE_MAX_RANK);
    for (NodeId id = 1; id < p->locs.len; id++) {
        const LiveFacts *facts = p->live != NULL ? live_facts(p, id) : NULL;
        for (uint32_t i = 0; facts != NULL && i < SHAPE_MAX_RANK; i++) {
            const LiveRef *r = &facts->axis[i].dead;
            x[(size_t)id * SHAPE_MAX_RANK + i] = (PlanExtent){symbol_of(p, r->size), r->mul, r->add, r->div};
        }
    }
    p->extents = x;
}

void extents_note(Plan *p)
{
    for (uint32_t i = 0; p->buckets != NULL && i < p->buckets->n; i++)
        note(p->buckets->plan[i]);
    if (p->buckets == NULL)
        note(p);
}
