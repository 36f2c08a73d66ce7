// SPDX-License-Identifier: Apache-2.0
// Offset placement: items with a lifetime and a size get offsets in one arena, so that no two that are alive
// at the same step share a byte. Knows nothing of graphs: the memory planner and the developer option that
// reads a table of items (place_csv.c) both call it.
#ifndef PASSES_PLAN_PLACE_PLACE_H
#define PASSES_PLAN_PLACE_PLACE_H

#include "base/arena.h"
#include "base/diag.h"
#include <stdbool.h>
#include <stdint.h>

typedef struct PlaceItem {
    uint32_t first, last; // inclusive schedule steps during which it is alive; first <= last
    uint64_t size, align; // bytes; size 0 occupies nothing; align need not be a power of two, 0 reads as 1
    int64_t fixed;        // -1 = free, else the offset it must have
    uint64_t offset;      // out
} PlaceItem;

typedef struct PlaceResult {
    uint64_t arena;       // bytes: the largest offset + size
    uint64_t lower_bound; // bytes: no placement can be smaller (largest live set, or highest fixed item)
    bool optimal;         // arena == lower_bound, or every smaller arena was refuted by an exhaustive search
} PlaceResult;

// Work allowed beyond the greedy portfolio. Counts steps of the search, never time, so that equal input gives
// equal output on every host; a million nodes take about
// a second. 2 to 4 million solve the hardest known inputs; easy ones need none. 0 = greedy portfolio only.
typedef struct PlaceBudget {
    uint64_t nodes;
} PlaceBudget;

// Sets the offset of every item. All sizes, alignments and fixed offsets must add up to less than 2^62
// (beyond that, offsets saturate at 2^64-1 and place_check says so). Fixed items that clash with each other
// are left clashing: place_check names them.
void place_solve(Arena *scratch, PlaceItem *items, uint32_t n, PlaceBudget budget, PlaceResult *out);

// An item whose last step is the first one of another: while both are alive, `out` may lie at the offset of
// `in` + d for every d <= until and d >= from, whatever their sizes are.
typedef struct PlaceLead {
    uint32_t in, out; // items
    int64_t until, from;
    bool is_in_place; // d may be 0 as well
} PlaceLead;

typedef struct PlaceLeads {
    const PlaceLead *lead;
    uint32_t n;
    uint64_t enough; // 0: all the work is done; else so many bytes will do, and a small part of it is
} PlaceLeads;

// Like place_solve for items of which none is fixed, with leads. For some hundred items: time and memory
// grow with their square.
void place_solve_leads(Arena *scratch, PlaceItem *items, uint32_t n, const PlaceLeads *leads,
                       PlaceResult *out);

// Checks a placement without using anything of the solver: alignment, fixed offsets, lifetimes, no two items
// that overlap in time overlap in space, arena == largest offset + size >= lower_bound. Returns NULL when all
// is right, else a message in scratch.
const char *place_check(Arena *scratch, const PlaceItem *items, uint32_t n, const PlaceResult *r);

// Reads a comma-separated table with a header line: columns lower, upper (exclusive), size and optionally id,
// alignment, offset (place_csv.c). Times are any 64-bit integers and are renumbered to steps from 0.
// Reports all that is wrong to d and returns false.
bool place_read_csv(Arena *a, Diag *d, const char *file_name, const char *text, size_t len, PlaceItem **items,
                    uint32_t *n);

#endif
