// SPDX-License-Identifier: Apache-2.0
// Local search on the order of the greedy placer: swaps an item at the top of the arena with one placed
// before it, places all again, and keeps the order unless it is worse than some moves ago (late acceptance).
// Separate because it serves the parts that are too large for the exact search, and proves nothing.
#include "passes/plan/place/place_part.h"
#include <stdlib.h>
#include <string.h>

enum { HISTORY = 24 };

typedef struct Local {
    const PlacePart *part;
    uint32_t *order, *position; // position[order[k]] == k
    uint64_t *offset, *trial;   // of the current order, of the one tried
    uint32_t *tops;             // scratch
    uint64_t rng;
} Local;

static uint32_t next_below(Local *x, uint32_t n)
{
    x->rng = x->rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((x->rng >> 32) * n >> 32);
}

typedef struct ByOffset {
    uint64_t offset;
    uint32_t id;
} ByOffset;

static int compare_offsets(const void *pa, const void *pb)
{
    const ByOffset *a = pa, *b = pb;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

// The order of offsets of a placement gives that placement again, or a lower one.
static void order_by_offset(Arena *a, Local *x)
{
    uint32_t n = x->part->n;
    ByOffset *keys = ARENA_ARRAY(a, ByOffset, n);
    for (uint32_t i = 0; i < n; i++)
        keys[i] = (ByOffset){x->part->offset[i], i};
    qsort(keys, n, sizeof *keys, compare_offsets);
    for (uint32_t k = 0; k < n; k++) {
        x->order[k] = keys[k].id;
        x->position[keys[k].id] = k;
    }
}

// An item that ends at the top; there is one.
static uint32_t pick_top(Local *x, uint64_t arena)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < x->part->n; i++) {
        if (x->offset[i] + x->part->items[i].size == arena)
            x->tops[n++] = i;
    }
    rlx_assert(n > 0);
    return x->tops[next_below(x, n)];
}

static uint32_t pick_neighbour(Local *x, uint32_t i)
{
    uint32_t degree = x->part->items[i].degree;
    return degree == 0 ? i : x->part->adj[x->part->adj_start[i] + next_below(x, degree)];
}

static void swap_items(Local *x, uint32_t i, uint32_t j)
{
    uint32_t pi = x->position[i], pj = x->position[j];
    x->order[pi] = j;
    x->order[pj] = i;
    x->position[i] = pj;
    x->position[j] = pi;
}

// A partner for item i: a neighbour, or a neighbour of one, if possible placed before it.
static uint32_t pick_partner(Local *x, uint32_t i)
{
    uint32_t j = i;
    for (int tries = 0; tries < 8; tries++) {
        j = pick_neighbour(x, i);
        if (next_below(x, 2) == 0)
            j = pick_neighbour(x, j);
        if (x->position[j] < x->position[i])
            break;
    }
    return j;
}

static Local local_new(Arena *a, const PlacePart *part)
{
    return (Local){.part = part,
                   .order = ARENA_ARRAY(a, uint32_t, part->n),
                   .position = ARENA_ARRAY(a, uint32_t, part->n),
                   .offset = ARENA_ARRAY(a, uint64_t, part->n),
                   .trial = ARENA_ARRAY(a, uint64_t, part->n),
                   .tops = ARENA_ARRAY(a, uint32_t, part->n)};
}

void place_local(Arena *a, PlacePart *part, uint64_t goal, uint64_t *nodes)
{
    rlx_assert(part->n >= 1 && part->bound <= part->arena);
    // A node of the exact search takes about as long as fifty neighbours here.
    uint64_t price = 1 + (part->n + part->pairs) / 25;
    if (part->adj == NULL || part->arena == UINT64_MAX)
        return;
    Local x = local_new(a, part);
    GreedyRun *run = place_greedy_new(a, part);
    order_by_offset(a, &x);
    uint64_t current = place_greedy_order(run, x.order, UINT64_MAX, x.offset);
    place_improve(part, x.offset, current);
    uint64_t history[HISTORY];
    for (int k = 0; k < HISTORY; k++)
        history[k] = current;
    for (uint32_t step = 0; *nodes >= price && part->arena > goal; step++) {
        *nodes -= price;
        uint64_t *late = &history[step % HISTORY];
        uint32_t i = pick_top(&x, current), j = pick_partner(&x, i);
        swap_items(&x, i, j);
        uint64_t limit = *late > current ? *late : current;
        uint64_t arena = place_greedy_order(run, x.order, limit, x.trial);
        if (arena == UINT64_MAX) {
            swap_items(&x, i, j);
        } else {
            uint64_t *old = x.offset;
            x.offset = x.trial;
            x.trial = old;
            current = arena;
            place_improve(part, x.offset, arena);
        }
        *late = current;
    }
}
