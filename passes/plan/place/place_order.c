// SPDX-License-Identifier: Apache-2.0
// The static orders in which items are placed. Separate because the greedy and the exact placer share them.
#include "passes/plan/place/place_part.h"
#include <stdlib.h>

// What a key ranks items by, largest first. One rounding each, so that all hosts agree.
static double key_size(const PartItem *it)
{
    return (double)it->size;
}

static double key_width(const PartItem *it)
{
    return (double)it->width;
}

static double key_area(const PartItem *it)
{
    return (double)it->size * (double)it->width;
}

static double key_height(const PartItem *it)
{
    return (double)it->height;
}

static double key_degree(const PartItem *it)
{
    return (double)it->degree;
}

static double key_span(const PartItem *it)
{
    return (double)(it->last - it->first);
}

static double key_early(const PartItem *it)
{
    return -(double)it->first;
}

static double key_late(const PartItem *it)
{
    return (double)it->last;
}

// In the order of trying. The first rows reach the bound on the chains of ordinary nets; the last serve the
// search.
const PlaceOrder place_orders[PLACE_N_ORDERS] = {
    {{key_height, key_size, key_width}}, {{key_size, key_width, key_early}},
    {{key_height, key_width, key_area}}, {{key_width, key_area, key_height}},
    {{key_area, key_size, key_early}},   {{key_height, key_area, key_width}},
    {{key_degree, key_size, key_early}}, {{key_early, key_degree, key_size}},
    {{key_late, key_area, key_size}},    {{key_height, key_width, key_degree}},
    {{key_span, key_height, key_size}},  {{key_height, key_span, key_width}},
    {{key_degree, key_area, key_size}},  {{key_late, key_width, key_size}},
};

static int compare_ranks(const void *pa, const void *pb)
{
    const RankKey *a = pa, *b = pb;
    for (int k = 0; k < 3; k++) {
        if (a->key[k] > b->key[k])
            return -1;
        if (a->key[k] < b->key[k])
            return 1;
    }
    return (a->id > b->id) - (a->id < b->id);
}

void place_rank(const PartItem *items, RankKey *ranks, uint32_t n, const PlaceOrder *rule)
{
    rlx_assert(n == 0 || (ranks != NULL && rule->key[0] != NULL));
    for (uint32_t k = 0; k < n; k++) {
        for (int q = 0; q < 3; q++)
            ranks[k].key[q] = rule->key[q](&items[ranks[k].id]);
    }
    qsort(ranks, n, sizeof *ranks, compare_ranks);
}

uint32_t *place_sort(Arena *a, const PlacePart *part, const PlaceOrder *rule)
{
    rlx_assert(part->items != NULL && part->n >= 1);
    RankKey *ranks = ARENA_ARRAY(a, RankKey, part->n);
    uint32_t *order = ARENA_ARRAY(a, uint32_t, part->n);
    for (uint32_t i = 0; i < part->n; i++)
        ranks[i].id = i;
    place_rank(part->items, ranks, part->n, rule);
    for (uint32_t i = 0; i < part->n; i++)
        order[i] = ranks[i].id;
    return order;
}
