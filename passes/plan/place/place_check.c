// SPDX-License-Identifier: Apache-2.0
// Checks a finished placement. Shares no code with the placers, so that it can be believed: a planner may run
// it on every result, and the tests lean on it.
#include "passes/plan/place/place.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// Items are taken by rising offset. Over the steps at which items begin (columns), the highest end so far is
// kept: an item that begins below it within its lifetime lies on another. Two items that overlap in time
// share the column in which the later one begins, so columns are enough.
typedef struct Ends {
    uint64_t *set;  // per node of a binary tree over columns: end that all its columns have at least
    uint64_t *most; // per node: highest end of any of its columns
    uint32_t n_columns;
} Ends;

typedef struct Range {
    uint32_t first, last; // inclusive columns
} Range;

static uint64_t ends_query(const Ends *e, uint32_t node, Range of, Range want)
{
    if (want.last < of.first || of.last < want.first)
        return 0;
    if (want.first <= of.first && of.last <= want.last)
        return e->most[node];
    uint32_t middle = of.first + (of.last - of.first) / 2;
    uint64_t left = ends_query(e, 2 * node, (Range){of.first, middle}, want);
    uint64_t right = ends_query(e, 2 * node + 1, (Range){middle + 1, of.last}, want);
    uint64_t most = left > right ? left : right;
    return most > e->set[node] ? most : e->set[node];
}

static void ends_raise(Ends *e, uint32_t node, Range of, Range want, uint64_t end)
{
    if (want.last < of.first || of.last < want.first)
        return;
    if (e->most[node] < end)
        e->most[node] = end;
    if (want.first <= of.first && of.last <= want.last) {
        if (e->set[node] < end)
            e->set[node] = end;
        return;
    }
    uint32_t middle = of.first + (of.last - of.first) / 2;
    ends_raise(e, 2 * node, (Range){of.first, middle}, want, end);
    ends_raise(e, 2 * node + 1, (Range){middle + 1, of.last}, want, end);
}

static int compare_steps(const void *pa, const void *pb)
{
    const uint32_t *a = pa, *b = pb;
    return (*a > *b) - (*a < *b);
}

static int compare_by_offset(const void *pa, const void *pb)
{
    const PlaceItem *a = *(const PlaceItem *const *)pa, *b = *(const PlaceItem *const *)pb;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    return (a > b) - (a < b);
}

// Number of columns at or before a step.
static uint32_t columns_until(const uint32_t *columns, uint32_t n, uint32_t step)
{
    uint32_t low = 0;
    while (n > 0) {
        uint32_t half = n / 2;
        if (columns[low + half] <= step) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return low;
}

static const char *name_clash(Arena *a, const PlaceItem *items, const PlaceItem *const *sorted, uint32_t k)
{
    const PlaceItem *it = sorted[k];
    for (uint32_t j = 0; j < k; j++) {
        const PlaceItem *o = sorted[j];
        if (o->first <= it->last && it->first <= o->last && o->offset + o->size > it->offset)
            return arena_printf(a,
                                "items %u and %u overlap: steps %u-%u and %u-%u, bytes %" PRIu64 "-%" PRIu64
                                " and %" PRIu64 "-%" PRIu64,
                                (unsigned)(o - items), (unsigned)(it - items), o->first, o->last, it->first,
                                it->last, o->offset, o->offset + o->size - 1, it->offset,
                                it->offset + it->size - 1);
    }
    return arena_printf(a, "item %u overlaps another", (unsigned)(it - items));
}

static const char *check_overlaps(Arena *a, const PlaceItem *items, uint32_t n)
{
    const PlaceItem **sorted = ARENA_ARRAY(a, const PlaceItem *, n);
    uint32_t *columns = ARENA_ARRAY(a, uint32_t, n);
    uint32_t n_sorted = 0, n_columns = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (items[i].size > 0) {
            columns[n_sorted] = items[i].first;
            sorted[n_sorted++] = &items[i];
        }
    }
    if (n_sorted == 0)
        return NULL;
    qsort(sorted, n_sorted, sizeof *sorted, compare_by_offset);
    qsort(columns, n_sorted, sizeof *columns, compare_steps);
    for (uint32_t i = 0; i < n_sorted; i++) {
        if (i == 0 || columns[i] != columns[n_columns - 1])
            columns[n_columns++] = columns[i];
    }
    Ends e = {.set = ARENA_ARRAY(a, uint64_t, (size_t)n_columns * 4),
              .most = ARENA_ARRAY(a, uint64_t, (size_t)n_columns * 4),
              .n_columns = n_columns};
    for (uint32_t k = 0; k < n_sorted; k++) {
        const PlaceItem *it = sorted[k];
        Range all = {0, n_columns - 1};
        Range own = {columns_until(columns, n_columns, it->first) - 1,
                     columns_until(columns, n_columns, it->last) - 1};
        if (ends_query(&e, 1, all, own) > it->offset)
            return name_clash(a, items, sorted, k);
        ends_raise(&e, 1, all, own, it->offset + it->size);
    }
    return NULL;
}

static const char *check_item(Arena *a, const PlaceItem *it, uint32_t i)
{
    if (it->first > it->last)
        return arena_printf(a, "item %u ends (step %u) before it begins (step %u)", i, it->last, it->first);
    if (it->offset > UINT64_MAX - it->size)
        return arena_printf(a, "item %u: offset %" PRIu64 " + size %" PRIu64 " overflows", i, it->offset,
                            it->size);
    if (it->fixed >= 0 && it->offset != (uint64_t)it->fixed)
        return arena_printf(a, "item %u is at offset %" PRIu64 ", but must be at %" PRId64, i, it->offset,
                            it->fixed);
    if (it->align > 1 && it->offset % it->align != 0)
        return arena_printf(a, "item %u: offset %" PRIu64 " is not a multiple of its alignment %" PRIu64, i,
                            it->offset, it->align);
    return NULL;
}

const char *place_check(Arena *scratch, const PlaceItem *items, uint32_t n, const PlaceResult *r)
{
    rlx_assert(n == 0 || items != NULL);
    uint64_t arena = 0;
    for (uint32_t i = 0; i < n; i++) {
        const char *wrong = check_item(scratch, &items[i], i);
        if (wrong != NULL)
            return wrong;
        if (items[i].offset + items[i].size > arena)
            arena = items[i].offset + items[i].size;
    }
    if (r->arena != arena)
        return arena_printf(scratch,
                            "the arena is said to be %" PRIu64 " bytes, but the items end at %" PRIu64,
                            r->arena, arena);
    if (r->lower_bound > arena)
        return arena_printf(scratch, "the lower bound %" PRIu64 " is above the arena %" PRIu64,
                            r->lower_bound, arena);
    if (arena == r->lower_bound && !r->optimal)
        return "the arena equals the lower bound, but is not called optimal";
    return check_overlaps(scratch, items, n);
}
