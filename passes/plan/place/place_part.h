// SPDX-License-Identifier: Apache-2.0
// What the files of the placement library share: one part = items that are connected through time and are
// placed on their own. Not for use outside place*.c.
#ifndef PASSES_PLAN_PLACE_PLACE_PART_H
#define PASSES_PLAN_PLACE_PLACE_PART_H

#include "passes/plan/place/place.h"

#define PLACE_FREE UINT64_MAX // PartItem.fixed of an item that may go anywhere

// Lifetimes are in sections: the maximal sets of items alive together, numbered in the order of time within a
// part. Two items overlap in time if and only if they share a section.
typedef struct PartItem {
    uint32_t first, last; // inclusive sections
    uint32_t source;      // index in the caller's array
    uint32_t degree;      // number of items that overlap it in time
    uint64_t size;        // bytes, > 0
    uint64_t pitch;       // size rounded up to PlacePart.grain: no other item can start inside
    uint64_t align;       // >= 1
    uint64_t fixed;       // offset, or PLACE_FREE
    uint64_t height;      // largest sum of pitches over the sections of its lifetime
    uint64_t width;       // steps of its lifetime
} PartItem;

typedef struct PlacePart {
    PartItem *items; // by first step, then source
    uint32_t n, n_sections;
    uint64_t grain; // divides every alignment and fixed offset, so every offset that a placement can have
    uint64_t bound; // no placement of this part is smaller
    uint64_t pairs; // pairs that overlap in time
    // Neighbours in time of item i: adj[adj_start[i]] .. adj[adj_start[i + 1] - 1]; NULL when there are too
    // many.
    uint32_t *adj_start, *adj;
    // The best placement so far.
    uint64_t *offset;
    uint64_t arena;
    bool proven; // no placement is smaller than arena, shown by exhaustion
} PlacePart;

typedef struct PartList {
    PlacePart *parts;
    uint32_t n;
    uint64_t bound; // largest of the parts' bounds
} PartList;

static inline uint64_t place_sat_add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

// Rounds x up to a multiple of align >= 1; saturates.
static inline uint64_t place_align_up(uint64_t x, uint64_t align)
{
    uint64_t over = (align & (align - 1)) == 0 ? x & (align - 1) : x % align;
    return over == 0 ? x : place_sat_add(x, align - over);
}

// Cuts the items into parts with sections, bounds and neighbours. Items of size 0 are in no part.
PartList place_split(Arena *a, const PlaceItem *items, uint32_t n);

// A static order of items: by three keys, largest first, ties by index.
typedef struct PlaceOrder {
    double (*key[3])(const PartItem *it);
} PlaceOrder;
enum { PLACE_N_ORDERS = 14, PLACE_ORDER_EARLY = 7 };
extern const PlaceOrder place_orders[PLACE_N_ORDERS];

typedef struct RankKey {
    double key[3];
    uint32_t id; // index of the item; set by the caller
} RankKey;
// Sorts ranks by the rule.
void place_rank(const PartItem *items, RankKey *ranks, uint32_t n, const PlaceOrder *rule);
// All items of a part, by the rule.
uint32_t *place_sort(Arena *a, const PlacePart *part, const PlaceOrder *rule);

// Keeps a placement if it beats the part's best one; says whether it did.
bool place_improve(PlacePart *part, const uint64_t *offset, uint64_t arena);

// Greedy portfolio: improves part->offset and part->arena, stops at goal. *work is what all calls may spend,
// in steps of about a nanosecond; the first order is always run.
void place_greedy(Arena *a, PlacePart *part, uint64_t goal, uint64_t *work);

// First answer, for parts of any kind: in the order of time (rule PLACE_ORDER_EARLY), with a free list.
// Returns the arena.
uint64_t place_online(Arena *a, const PlacePart *part, const uint32_t *order, uint64_t scans,
                      uint64_t *offset);

// Greedy by one given order (indices into part->items): fills offset, returns the arena, or UINT64_MAX as
// soon as it would exceed limit. Needs part->adj.
typedef struct GreedyRun GreedyRun;
GreedyRun *place_greedy_new(Arena *a, const PlacePart *part);
uint64_t place_greedy_order(GreedyRun *run, const uint32_t *order, uint64_t limit, uint64_t *offset);

// Local search on the order, from the best greedy order; spends at most *nodes (and subtracts what it spent).
void place_local(Arena *a, PlacePart *part, uint64_t goal, uint64_t *nodes);

// One depth-first search for a placement within a capacity.
typedef enum Outcome {
    OUTCOME_found, // x->low of every item is its offset
    OUTCOME_none,  // there is no such placement
    OUTCOME_budget // not known: out of nodes
} Outcome;

// How a search is told to go about it; any setting is complete, some are luckier than others.
typedef struct SearchPlan {
    uint64_t capacity;      // bytes, at least the part's bound
    const PlaceOrder *rule; // order of items at equal offsets
    const uint64_t *bonus;  // per item: added to its score, PLACE_SCORE_ONE = from last to first; NULL = none
} SearchPlan;
#define PLACE_SCORE_ONE ((uint64_t)1 << 20)

typedef struct Search Search;
bool place_search_accepts(const PlacePart *part);
Search *place_search_new(Arena *a, const PlacePart *part);
// Searches at most *nodes nodes, and subtracts what it used.
Outcome place_search_run(Search *x, const SearchPlan *plan, uint64_t *nodes);
// After OUTCOME_found: offsets of the part's items.
const uint64_t *place_search_offsets(const Search *x);
// How often each section could not hold its items, in the last run.
const uint32_t *place_search_blame(const Search *x);

// Restarts of the search over capacities, with proofs; spends at most *nodes (and subtracts what it spent).
void place_exact(Arena *a, PlacePart *part, uint64_t goal, uint64_t *nodes);

#endif
