// SPDX-License-Identifier: Apache-2.0
// Greedy placement: take the items in some order, put each into a gap between those already placed that
// overlap it in time, else on top. Tries a portfolio of orders and of ways to choose the gap. Separate
// because the local search reuses the inner step with orders of its own.
#include "passes/plan/place/place_part.h"
#include <stdlib.h>
#include <string.h>

// Steps of the first answer. Far above what it needs on anything sane.
#define ONLINE_SCANS ((uint64_t)1 << 28)

typedef struct Block {
    uint64_t begin, end;
} Block;

typedef enum Fit {
    FIT_first, // the lowest gap
    FIT_best,  // the tightest gap
    FIT_sides  // the bottom if it is free, else hanging from the bound, else the tightest: what a chain needs
} Fit;

// Walks blocks in the order of their begin and keeps the gap chosen so far.
typedef struct GapSearch {
    const PartItem *item;
    Fit fit;
    uint64_t ceiling;     // FIT_sides: the bound
    uint64_t cursor;      // end of everything below
    uint64_t best, waste; // offset and leftover of the tightest gap; best == UINT64_MAX: none
} GapSearch;

// Shows the next block. True: the search is over, gs->best is the place.
static bool gap_step(GapSearch *gs, uint64_t begin, uint64_t end)
{
    if (begin > gs->cursor) {
        uint64_t at = place_align_up(gs->cursor, gs->item->align), top = place_sat_add(at, gs->item->size);
        if (top <= begin && begin - top < gs->waste) {
            gs->best = at;
            gs->waste = begin - top;
            if (gs->fit == FIT_first || at == 0 || (gs->fit == FIT_best && gs->waste == 0))
                return true;
        }
    }
    if (end > gs->cursor)
        gs->cursor = end;
    return false;
}

static GapSearch gap_begin(const PlacePart *part, const PartItem *item, Fit fit)
{
    return (GapSearch){
        .item = item, .fit = fit, .ceiling = part->bound, .best = UINT64_MAX, .waste = UINT64_MAX};
}

static uint64_t gap_result(const GapSearch *gs)
{
    if (gs->best == 0 || (gs->best != UINT64_MAX && gs->fit != FIT_sides))
        return gs->best;
    uint64_t top = place_align_up(gs->cursor, gs->item->align);
    if (gs->fit == FIT_sides && top > 0 && gs->ceiling >= gs->item->size) {
        uint64_t hung = (gs->ceiling - gs->item->size) / gs->item->align * gs->item->align;
        top = hung > top ? hung : top;
    }
    return gs->best != UINT64_MAX && place_sat_add(top, gs->item->size) > gs->ceiling ? gs->best : top;
}

static int compare_blocks(const void *pa, const void *pb)
{
    const Block *a = pa, *b = pb;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return (a->end > b->end) - (a->end < b->end);
}

static void sort_blocks(Block *b, uint32_t n)
{
    if (n > 48) {
        qsort(b, n, sizeof *b, compare_blocks);
        return;
    }
    for (uint32_t i = 1; i < n; i++) {
        Block x = b[i];
        uint32_t k = i;
        for (; k > 0 && b[k - 1].begin > x.begin; k--)
            b[k] = b[k - 1];
        b[k] = x;
    }
}

// --- Parts with neighbour lists ------------------------------------------------------------------

struct GreedyRun {
    const PlacePart *part;
    Block *blocks; // room for the neighbours of one item
};

GreedyRun *place_greedy_new(Arena *a, const PlacePart *part)
{
    rlx_assert(part->n >= 1);
    GreedyRun *run = ARENA_NEW(a, GreedyRun);
    run->part = part;
    run->blocks = ARENA_ARRAY(a, Block, part->n);
    return run;
}

static uint64_t fit_among_neighbours(GreedyRun *run, uint32_t i, Fit fit, const uint64_t *offset)
{
    const PlacePart *part = run->part;
    const PartItem *item = &part->items[i];
    if (item->fixed != PLACE_FREE)
        return item->fixed;
    uint32_t n = 0;
    for (uint32_t k = part->adj_start[i]; k < part->adj_start[i + 1]; k++) {
        uint32_t j = part->adj[k];
        if (offset[j] != UINT64_MAX)
            run->blocks[n++] = (Block){offset[j], place_sat_add(offset[j], part->items[j].size)};
    }
    sort_blocks(run->blocks, n);
    GapSearch gs = gap_begin(part, item, fit);
    for (uint32_t k = 0; k < n; k++) {
        if (gap_step(&gs, run->blocks[k].begin, run->blocks[k].end))
            break;
    }
    return gap_result(&gs);
}

static uint64_t run_sparse(GreedyRun *run, const uint32_t *order, Fit fit, uint64_t limit, uint64_t *offset)
{
    const PlacePart *part = run->part;
    uint64_t arena = 0;
    for (uint32_t i = 0; i < part->n; i++)
        offset[i] = part->items[i].fixed; // PLACE_FREE == "not placed"
    for (uint32_t k = 0; k < part->n && arena <= limit; k++) {
        uint32_t i = order[k];
        offset[i] = fit_among_neighbours(run, i, fit, offset);
        uint64_t top = place_sat_add(offset[i], part->items[i].size);
        arena = top > arena ? top : arena;
    }
    return arena <= limit ? arena : UINT64_MAX;
}

uint64_t place_greedy_order(GreedyRun *run, const uint32_t *order, uint64_t limit, uint64_t *offset)
{
    rlx_assert(run->part->adj != NULL);
    rlx_assert(order != NULL && offset != NULL);
    return run_sparse(run, order, FIT_first, limit, offset);
}

// --- Parts too dense for neighbour lists: scan everything placed, in the order of offsets --------

typedef struct Placed {
    uint64_t begin, end;
    uint32_t first, last; // sections
} Placed;

typedef struct DenseRun {
    const PlacePart *part;
    Placed *placed; // by begin
    uint32_t n_placed;
} DenseRun;

static void dense_add(DenseRun *run, uint32_t i, uint64_t offset)
{
    const PartItem *item = &run->part->items[i];
    Placed p = {offset, place_sat_add(offset, item->size), item->first, item->last};
    uint32_t lo = 0, hi = run->n_placed;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (run->placed[mid].begin < p.begin)
            lo = mid + 1;
        else
            hi = mid;
    }
    memmove(run->placed + lo + 1, run->placed + lo, (run->n_placed - lo) * sizeof p);
    run->placed[lo] = p;
    run->n_placed++;
}

static uint64_t fit_among_all(const DenseRun *run, uint32_t i, Fit fit)
{
    const PartItem *item = &run->part->items[i];
    GapSearch gs = gap_begin(run->part, item, fit);
    for (uint32_t k = 0; k < run->n_placed; k++) {
        const Placed *p = &run->placed[k];
        if (p->first <= item->last && p->last >= item->first && gap_step(&gs, p->begin, p->end))
            break;
    }
    return gap_result(&gs);
}

static uint64_t run_dense(Arena *a, const PlacePart *part, const uint32_t *order, Fit fit, uint64_t *offset)
{
    DenseRun run = {.part = part, .placed = ARENA_ARRAY(a, Placed, part->n)};
    uint64_t arena = 0;
    for (uint32_t i = 0; i < part->n; i++) {
        offset[i] = part->items[i].fixed;
        if (offset[i] != PLACE_FREE)
            dense_add(&run, i, offset[i]);
    }
    for (uint32_t k = 0; k < part->n && arena < part->arena; k++) {
        uint32_t i = order[k];
        if (offset[i] == PLACE_FREE) {
            offset[i] = fit_among_all(&run, i, fit);
            dense_add(&run, i, offset[i]);
        }
        uint64_t top = place_sat_add(offset[i], part->items[i].size);
        arena = top > arena ? top : arena;
    }
    return arena;
}

// --- The portfolio -------------------------------------------------------------------------------

bool place_improve(PlacePart *part, const uint64_t *offset, uint64_t arena)
{
    rlx_assert(offset != NULL);
    rlx_assert(arena >= part->bound || arena == UINT64_MAX);
    if (arena >= part->arena)
        return false;
    part->arena = arena;
    memcpy(part->offset, offset, part->n * sizeof *offset);
    return true;
}

typedef struct Attempt {
    uint8_t rule; // row of place_orders
    uint8_t fit;
} Attempt;

// The order of trying: what ends ordinary nets at their bound comes first.
static const Attempt attempts[] = {
    {PLACE_ORDER_EARLY, FIT_sides},
    {0, FIT_first},
    {0, FIT_sides},
    {1, FIT_first},
    {2, FIT_first},
    {3, FIT_first},
    {0, FIT_best},
    {4, FIT_first},
    {1, FIT_best},
    {5, FIT_first},
    {6, FIT_first},
    {8, FIT_first},
    {4, FIT_best},
    {PLACE_ORDER_EARLY, FIT_first},
};

void place_greedy(Arena *a, PlacePart *part, uint64_t goal, uint64_t *work)
{
    rlx_assert(part->n >= 1 && part->n_sections >= 1);
    uint64_t *offset = ARENA_ARRAY(a, uint64_t, part->n);
    GreedyRun *sparse = part->adj != NULL ? place_greedy_new(a, part) : NULL;
    // A sort, and a walk over the neighbours or over half of the items.
    uint64_t price =
        (uint64_t)part->n * 128 + (sparse != NULL ? part->pairs * 16 : (uint64_t)part->n * part->n / 4);
    const uint32_t *early = place_sort(a, part, &place_orders[PLACE_ORDER_EARLY]);
    place_improve(part, offset, place_online(a, part, early, ONLINE_SCANS, offset));
    for (uint32_t r = 0; r < sizeof attempts / sizeof attempts[0] && part->arena > goal; r++) {
        if (*work < price)
            return;
        *work -= price;
        const uint32_t *order = place_sort(a, part, &place_orders[attempts[r].rule]);
        Fit fit = (Fit)attempts[r].fit;
        uint64_t arena = sparse != NULL ? run_sparse(sparse, order, fit, part->arena, offset)
                                        : run_dense(a, part, order, fit, offset);
        place_improve(part, offset, arena);
    }
}
