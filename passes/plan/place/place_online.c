// SPDX-License-Identifier: Apache-2.0
// Placement as an allocator at run time would do it: items come in the order of time, each takes the lowest
// free gap, and gives its bytes back when it ends. Separate because it needs no pairs of items at all: it is
// the first answer for parts so large and dense that even listing neighbours costs too much.
#include "passes/plan/place/place_part.h"
#include <string.h>

// Free byte ranges, by begin, none touching another. The last one has no end.
typedef struct FreeList {
    struct Gap {
        uint64_t begin, end;
    } * gaps;
    uint32_t n;
    uint64_t scans; // steps left; then only the last gap is used, and nothing is given back
} FreeList;

// First gap that ends above the offset.
static uint32_t find_gap(const FreeList *f, uint64_t offset)
{
    uint32_t low = 0, high = f->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (f->gaps[middle].end > offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void spend(FreeList *f, uint64_t steps)
{
    f->scans -= f->scans < steps ? f->scans : steps;
}

// Puts `with` gaps in the place of gap k.
static void replace_gap(FreeList *f, uint32_t k, const struct Gap *with, uint32_t n_with)
{
    spend(f, (f->n - k) / 8);
    memmove(f->gaps + k + n_with, f->gaps + k + 1, (f->n - k - 1) * sizeof *f->gaps);
    for (uint32_t w = 0; w < n_with; w++)
        f->gaps[k + w] = with[w];
    f->n = f->n - 1 + n_with;
}

// Takes begin..end out of gap k, which contains it.
static void take_range(FreeList *f, uint32_t k, uint64_t begin, uint64_t end)
{
    struct Gap left[2];
    uint32_t n_left = 0;
    if (f->gaps[k].begin < begin)
        left[n_left++] = (struct Gap){f->gaps[k].begin, begin};
    if (end < f->gaps[k].end || f->gaps[k].end == UINT64_MAX)
        left[n_left++] = (struct Gap){end, f->gaps[k].end};
    replace_gap(f, k, left, n_left);
}

static void give_range(FreeList *f, uint64_t begin, uint64_t end)
{
    uint32_t k = find_gap(f, begin); // the gap after the range
    bool joins_next = f->gaps[k].begin == end, joins_last = k > 0 && f->gaps[k - 1].end == begin;
    if (joins_next)
        f->gaps[k].begin = begin;
    if (joins_last) {
        f->gaps[k - 1].end = joins_next ? f->gaps[k].end : end;
        if (joins_next)
            replace_gap(f, k, NULL, 0);
    } else if (!joins_next) {
        struct Gap two[2] = {{begin, end}, f->gaps[k]};
        replace_gap(f, k, two, 2);
    }
}

static uint64_t take_lowest(FreeList *f, const PartItem *it)
{
    uint32_t k = f->scans == 0 ? f->n - 1 : 0;
    uint64_t at = place_align_up(f->gaps[k].begin, it->align);
    while (k + 1 < f->n && place_sat_add(at, it->pitch) > f->gaps[k].end)
        at = place_align_up(f->gaps[++k].begin, it->align);
    spend(f, k);
    take_range(f, k, at, place_sat_add(at, it->pitch));
    return at;
}

// Items with a fixed offset keep their bytes for all time: simple, and right.
static void take_fixed(FreeList *f, const PlacePart *part, uint64_t *offset)
{
    for (uint32_t i = 0; i < part->n; i++) {
        offset[i] = part->items[i].fixed;
        if (offset[i] == PLACE_FREE)
            continue;
        uint64_t begin = offset[i], end = place_sat_add(begin, part->items[i].pitch);
        for (uint32_t k = find_gap(f, begin); k < f->n && f->gaps[k].begin < end; k = find_gap(f, begin)) {
            uint64_t from = f->gaps[k].begin > begin ? f->gaps[k].begin : begin;
            uint64_t to = f->gaps[k].end < end ? f->gaps[k].end : end;
            take_range(f, k, from, to);
            begin = to;
        }
    }
}

// Items by last section: by_end[end_start[s]] .. end in section s.
static uint32_t *sort_ends(Arena *a, const PlacePart *part, uint32_t *end_start)
{
    uint32_t *by_end = ARENA_ARRAY(a, uint32_t, part->n);
    for (uint32_t i = 0; i < part->n; i++)
        end_start[part->items[i].last + 1]++;
    for (uint32_t s = 0; s < part->n_sections; s++)
        end_start[s + 1] += end_start[s];
    uint32_t *fill = arena_copy(a, end_start, part->n_sections * sizeof *fill);
    for (uint32_t i = 0; i < part->n; i++)
        by_end[fill[part->items[i].last]++] = i;
    return by_end;
}

uint64_t place_online(Arena *a, const PlacePart *part, const uint32_t *order, uint64_t scans,
                      uint64_t *offset)
{
    rlx_assert(part->n >= 1 && order != NULL && offset != NULL);
    FreeList f = {.gaps = ARENA_ARRAY(a, struct Gap, (size_t)part->n * 2 + 2), .n = 1, .scans = scans};
    f.gaps[0] = (struct Gap){0, UINT64_MAX};
    take_fixed(&f, part, offset);
    uint32_t *end_start = ARENA_ARRAY(a, uint32_t, (size_t)part->n_sections + 1);
    const uint32_t *by_end = sort_ends(a, part, end_start);
    uint64_t arena = 0;
    for (uint32_t s = 0, k = 0; s < part->n_sections; s++) {
        for (; k < part->n && part->items[order[k]].first == s; k++) {
            const PartItem *it = &part->items[order[k]];
            if (it->fixed == PLACE_FREE)
                offset[order[k]] = take_lowest(&f, it);
            uint64_t top = place_sat_add(offset[order[k]], it->size);
            arena = top > arena ? top : arena;
        }
        for (uint32_t e = end_start[s]; e < end_start[s + 1] && k < part->n && f.scans > 0; e++) {
            const PartItem *it = &part->items[by_end[e]];
            if (it->fixed == PLACE_FREE && offset[by_end[e]] < UINT64_MAX - it->pitch)
                give_range(&f, offset[by_end[e]], offset[by_end[e]] + it->pitch);
        }
    }
    return arena;
}
