// SPDX-License-Identifier: Apache-2.0
// Offset placement, from the outside: shares one budget among the parts and runs the placers on each.
// Separate from them because only here is it known how low a part has to get: no lower than the worst of the
// others.
#include "passes/plan/place/place.h"
#include "passes/plan/place/place_part.h"
#include <stdlib.h>

// Steps that all greedy orders of one call may take, about a nanosecond each; and more for every node
// allowed.
#define GREEDY_WORK          ((uint64_t)1 << 25)
#define GREEDY_WORK_PER_NODE 128

static int compare_arenas(const void *pa, const void *pb)
{
    const PlacePart *a = *(PlacePart *const *)pa, *b = *(PlacePart *const *)pb;
    if (a->arena != b->arena)
        return a->arena > b->arena ? -1 : 1;
    return (a->items > b->items) - (a->items < b->items);
}

// Improves the parts above the bound, worst first. What the worst ones end at is low enough for the rest.
static void refine_parts(PlacePart **worst, uint32_t n, uint64_t goal, uint64_t nodes)
{
    Arena work = {0};
    for (uint32_t k = 0; k < n && worst[k]->arena > goal; k++) {
        uint64_t share = nodes / (n - k), left = share;
        if (place_search_accepts(worst[k]))
            place_exact(&work, worst[k], goal, &left);
        else
            place_local(&work, worst[k], goal, &left);
        nodes -= share - left;
        goal = worst[k]->arena > goal ? worst[k]->arena : goal;
        arena_reset(&work);
    }
    arena_free(&work);
}

static void place_parts(Arena *scratch, PartList *list, uint64_t nodes)
{
    PlacePart **worst = ARENA_ARRAY(scratch, PlacePart *, list->n);
    Arena work = {0};
    uint64_t steps = GREEDY_WORK + (nodes < 1 << 24 ? nodes : 1 << 24) * GREEDY_WORK_PER_NODE;
    uint32_t n = 0;
    for (uint32_t p = 0; p < list->n; p++) {
        place_greedy(&work, &list->parts[p], list->bound, &steps);
        arena_reset(&work);
        if (list->parts[p].arena > list->bound)
            worst[n++] = &list->parts[p];
    }
    arena_free(&work);
    qsort(worst, n, sizeof *worst, compare_arenas);
    if (nodes > 0)
        refine_parts(worst, n, list->bound, nodes);
}

void place_solve(Arena *scratch, PlaceItem *items, uint32_t n, PlaceBudget budget, PlaceResult *out)
{
    rlx_assert(n == 0 || items != NULL);
    *out = (PlaceResult){0};
    for (uint32_t i = 0; i < n; i++) {
        items[i].offset = items[i].fixed < 0 ? 0 : (uint64_t)items[i].fixed;
        if (items[i].size == 0 && items[i].offset > out->lower_bound)
            out->lower_bound = items[i].offset;
    }
    PartList list = place_split(scratch, items, n);
    rlx_assert(list.n <= n);
    if (list.bound > out->lower_bound)
        out->lower_bound = list.bound;
    list.bound = out->lower_bound;
    place_parts(scratch, &list, budget.nodes);
    out->arena = out->lower_bound;
    out->optimal = true;
    for (uint32_t p = 0; p < list.n; p++) {
        const PlacePart *part = &list.parts[p];
        rlx_assert(part->arena >= part->bound);
        for (uint32_t i = 0; i < part->n; i++)
            items[part->items[i].source].offset = part->offset[i];
        if (part->arena > out->arena || (part->arena == out->arena && part->proven)) {
            out->arena = part->arena;
            out->optimal = part->proven;
        }
    }
}
