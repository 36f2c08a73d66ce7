// SPDX-License-Identifier: Apache-2.0
// Placement where some items may overlap while both are alive: the result of a step may lie over what the
// step reads, at some distances (PlaceLead). Items are placed one by one, each as low as those before it
// allow; a local search looks for a better order of them.
#include "passes/plan/place/place.h"
#include <stdlib.h>

// Pairs of items that a call may compare, about a nanosecond each, and how many orders in a row, for each
// item, may be no better than those before.
enum { WORK = 1 << 25, ESTIMATE = 1 << 19, PATIENCE = 1024 };

// Offsets that an item cannot have: [begin, end).
typedef struct Hole {
    int64_t begin, end;
} Hole;

typedef struct Order {
    PlaceItem *items;
    uint32_t n;
    const PlaceLead *leads;
    const uint32_t *lead; // by pair of items, the first one times n: 1 + the number of its lead, or 0
    Hole *holes;          // scratch
    int64_t *offset;
    uint32_t *order;
} Order;

static bool meet_in_time(const PlaceItem *a, const PlaceItem *b)
{
    return a->first <= b->last && b->first <= a->last && a->size != 0 && b->size != 0;
}

static uint32_t add_hole(Hole *holes, int64_t begin, int64_t end)
{
    *holes = (Hole){begin, end};
    return begin < end;
}

// Where `item` cannot begin because of `other`, which has its place: up to two holes.
static uint32_t add_holes(const Order *o, uint32_t item, uint32_t other, Hole *holes)
{
    const int64_t at = o->offset[other];
    const uint32_t as_out = o->lead[(size_t)other * o->n + item];
    const uint32_t as_in = o->lead[(size_t)item * o->n + other];
    int64_t begin = at - (int64_t)o->items[item].size + 1, end = at + (int64_t)o->items[other].size;
    if (as_out == 0 && as_in == 0)
        return add_hole(holes, begin, end);
    const PlaceLead *l = &o->leads[(as_out != 0 ? as_out : as_in) - 1];
    begin = as_out != 0 ? at + l->until + 1 : at - l->from + 1;
    end = as_out != 0 ? at + l->from : at - l->until;
    if (!l->is_in_place || at < begin || at >= end)
        return add_hole(holes, begin, end);
    const uint32_t n = add_hole(holes, begin, at);
    return n + add_hole(holes + n, at + 1, end);
}

static int compare_holes(const void *pa, const void *pb)
{
    const Hole *a = pa, *b = pb;
    return a->begin != b->begin ? (a->begin > b->begin) - (a->begin < b->begin)
                                : (a->end > b->end) - (a->end < b->end);
}

static int64_t align_up(int64_t v, uint64_t align)
{
    const int64_t by = align > 1 ? (int64_t)align : 1;
    return (v + by - 1) / by * by;
}

static int64_t lowest_place(const Order *o, uint32_t item, uint32_t n_placed)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_placed; i++)
        if (meet_in_time(&o->items[item], &o->items[o->order[i]]))
            n += add_holes(o, item, o->order[i], o->holes + n);
    qsort(o->holes, n, sizeof *o->holes, compare_holes);
    int64_t at = 0;
    for (uint32_t i = 0; i < n; i++)
        if (at >= o->holes[i].begin && at < o->holes[i].end)
            at = align_up(o->holes[i].end, o->items[item].align);
    return at;
}

// Places all items in the order: the bytes that they take.
static uint64_t place_in_order(Order *o)
{
    uint64_t arena = 0;
    for (uint32_t i = 0; i < o->n; i++) {
        const uint32_t item = o->order[i];
        o->offset[item] = lowest_place(o, item, i);
        const uint64_t end = (uint64_t)o->offset[item] + o->items[item].size;
        arena = end > arena ? end : arena;
    }
    return arena;
}

// --- bounds --------------------------------------------------------------------------------------

static uint64_t largest(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

// The fewest bytes that both take.
static uint64_t pair_bytes(const PlaceItem *in, const PlaceItem *out, const PlaceLead *l)
{
    const uint64_t both = largest(in->size, out->size);
    if (l->until >= 0 || l->from <= 0 || l->is_in_place)
        return both;
    const uint64_t below = largest(in->size + (uint64_t)-l->until, out->size);
    const uint64_t above = largest(in->size, out->size + (uint64_t)l->from);
    return below < above ? below : above;
}

// What pairs of a step save at most. All items but a result lie apart, so it saves no more than its own
// bytes.
static uint64_t saved_bytes(const Order *o, uint32_t out)
{
    uint64_t saved = 0;
    for (uint32_t in = 0; in < o->n; in++) {
        const uint32_t lead = o->lead[(size_t)in * o->n + out];
        if (lead != 0)
            saved += o->items[in].size + o->items[out].size -
                     pair_bytes(&o->items[in], &o->items[out], &o->leads[lead - 1]);
    }
    return saved < o->items[out].size ? saved : o->items[out].size;
}

// What the items that are alive at a step take at least.
static uint64_t step_bytes(const Order *o, uint32_t step)
{
    uint64_t all = 0, saved = 0;
    for (uint32_t i = 0; i < o->n; i++) {
        all += o->items[i].first <= step && step <= o->items[i].last ? o->items[i].size : 0;
        saved += o->items[i].first == step ? saved_bytes(o, i) : 0;
    }
    return all - saved;
}

static uint64_t lower_bound(const Order *o)
{
    uint64_t bound = 0;
    for (uint32_t i = 0; i < o->n; i++)
        bound = largest(bound, o->items[i].size != 0 ? step_bytes(o, o->items[i].first) : 0);
    return bound;
}

// --- search --------------------------------------------------------------------------------------

typedef struct Best {
    uint64_t arena;
    int64_t *offset;
    uint32_t *order;
} Best;

static void keep_better(Order *o, Best *best)
{
    const uint64_t arena = place_in_order(o);
    for (uint32_t i = 0; i < o->n; i++) {
        if (arena <= best->arena)
            best->order[i] = o->order[i];
        else
            o->order[i] = best->order[i];
        if (arena < best->arena)
            best->offset[i] = o->offset[i];
    }
    best->arena = arena < best->arena ? arena : best->arena;
}

typedef uint64_t (*Key)(const PlaceItem *item);

static uint64_t by_size(const PlaceItem *i)
{
    return UINT64_MAX - i->size;
}
static uint64_t by_first(const PlaceItem *i)
{
    return i->first;
}
static uint64_t by_last(const PlaceItem *i)
{
    return UINT64_MAX - i->last;
}
static uint64_t by_area(const PlaceItem *i)
{
    return UINT64_MAX - i->size * (i->last - i->first + 1);
}

// Stable, by rising keys; few items.
static void sort_by(Order *o, Key key)
{
    for (uint32_t i = 0; i < o->n; i++) {
        uint32_t at = i;
        for (; at > 0 && key(&o->items[o->order[at - 1]]) > key(&o->items[i]); at--)
            o->order[at] = o->order[at - 1];
        o->order[at] = i;
    }
}

static uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

// Moves one item to another place in the order.
static void shuffle(Order *o, uint64_t *state)
{
    const uint32_t from = next_random(state) % o->n, to = next_random(state) % o->n, item = o->order[from];
    for (uint32_t i = from; i < to; i++)
        o->order[i] = o->order[i + 1];
    for (uint32_t i = from; i > to; i--)
        o->order[i] = o->order[i - 1];
    o->order[to] = item;
}

static void search(Order *o, Best *best, uint64_t bound, uint64_t most)
{
    static const Key keys[] = {by_size, by_area, by_first, by_last};
    for (uint32_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        sort_by(o, keys[i]);
        keep_better(o, best);
    }
    uint64_t state = 1;
    const uint64_t each = (uint64_t)o->n * o->n;
    uint64_t in_vain = 0;
    for (uint64_t work = 0; work < most && best->arena > bound && in_vain < (uint64_t)PATIENCE * o->n;
         work += each) {
        const uint64_t before = best->arena;
        shuffle(o, &state);
        keep_better(o, best);
        in_vain = best->arena < before ? 0 : in_vain + 1;
    }
}

void place_solve_leads(Arena *scratch, PlaceItem *items, uint32_t n, const PlaceLeads *leads,
                       PlaceResult *out)
{
    rlx_assert(n > 0 && leads->n > 0);
    Order o = {.items = items, .n = n, .leads = leads->lead};
    uint32_t *lead = ARENA_ARRAY(scratch, uint32_t, (size_t)n * n);
    for (uint32_t i = 0; i < leads->n; i++)
        lead[(size_t)leads->lead[i].in * n + leads->lead[i].out] = i + 1;
    o.lead = lead;
    o.holes = ARENA_ARRAY(scratch, Hole, 2 * (size_t)n + 1);
    o.offset = ARENA_ARRAY(scratch, int64_t, n);
    o.order = ARENA_ARRAY(scratch, uint32_t, n);
    Best best = {UINT64_MAX, ARENA_ARRAY(scratch, int64_t, n), ARENA_ARRAY(scratch, uint32_t, n)};
    const uint64_t bound = lower_bound(&o);
    search(&o, &best, largest(bound, leads->enough), leads->enough == 0 ? WORK : ESTIMATE);
    *out = (PlaceResult){.arena = best.arena, .lower_bound = bound, .optimal = best.arena == bound};
    for (uint32_t i = 0; i < n; i++)
        items[i].offset = (uint64_t)best.offset[i];
}
