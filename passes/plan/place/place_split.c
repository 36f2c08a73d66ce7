// SPDX-License-Identifier: Apache-2.0
// One sweep over time: cuts the items into parts that share no step, numbers the maximal live sets (sections)
// of each part, and computes its lower bound, its overlaps and the live height over each item. Separate
// because the greedy, the local and the exact placer all start from this view and none of them looks at steps
// again.
#include "passes/plan/place/place_part.h"
#include <stdlib.h>

// Above this many overlapping pairs per item (and in all) neighbours are not listed: the lists would need
// more memory than the problem deserves, and the greedy has another way for such dense parts.
#define PAIRS_PER_ITEM 16
#define PAIRS_ALWAYS   ((uint64_t)1 << 21)

typedef struct SortKey {
    uint32_t key, id;
} SortKey;

static int compare_keys(const void *pa, const void *pb)
{
    const SortKey *a = pa, *b = pb;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

// Every offset is a multiple of an alignment or a fixed offset, hence of this. 1 if all that is 0.
static uint64_t find_grain(const PlaceItem *items, uint32_t n)
{
    uint64_t g = 0;
    for (uint32_t i = 0; i < n && g != 1; i++) {
        if (items[i].size == 0)
            continue;
        if (items[i].fixed >= 0)
            g = gcd(g, (uint64_t)items[i].fixed);
        else
            g = gcd(g, items[i].align == 0 ? 1 : items[i].align);
    }
    return g == 0 ? 1 : g;
}

// State of the sweep: items enter in the order of first, leave in the order of last.
typedef struct Sweep {
    PartItem *items;
    uint32_t n;
    const uint32_t *first; // step, per item
    const SortKey *ends;   // by last step
    uint64_t grain;
    uint64_t *section_sum; // per section of the current part: sum of pitches
} Sweep;

static int compare_slack(const void *pa, const void *pb)
{
    const PartItem *a = *(const PartItem *const *)pa, *b = *(const PartItem *const *)pb;
    uint64_t x = a->pitch - a->size, y = b->pitch - b->size;
    if (x != y)
        return x > y ? -1 : 1;
    return (a->source > b->source) - (a->source < b->source);
}

// First unpainted section from s on; halves the path as it goes.
static uint32_t find_next(uint32_t *next, uint32_t s)
{
    while (next[s] != s)
        s = next[s] = next[next[s]];
    return s;
}

// The pitches of a live set add up, but the topmost item may end short of its pitch: the bound of a section
// is its sum less the largest such slack in it. Paints sections from the largest slack down, each section
// once.
static void set_bound(Arena *a, PlacePart *part, const uint64_t *sum)
{
    const PartItem **by_slack = ARENA_ARRAY(a, const PartItem *, part->n);
    uint32_t n = 0;
    for (uint32_t i = 0; i < part->n; i++) {
        PartItem *it = &part->items[i];
        uint64_t top = it->fixed == PLACE_FREE ? it->size : place_sat_add(it->fixed, it->size);
        part->bound = top > part->bound ? top : part->bound;
        if (it->pitch > it->size)
            by_slack[n++] = it;
    }
    qsort(by_slack, n, sizeof *by_slack, compare_slack);
    uint32_t *next = ARENA_ARRAY(a, uint32_t, (size_t)part->n_sections + 1);
    uint64_t *slack = ARENA_ARRAY(a, uint64_t, part->n_sections);
    for (uint32_t s = 0; s <= part->n_sections; s++)
        next[s] = s;
    for (uint32_t k = 0; k < n; k++) {
        const PartItem *it = by_slack[k];
        for (uint32_t s = find_next(next, it->first); s <= it->last; s = find_next(next, s)) {
            slack[s] = it->pitch - it->size;
            next[s] = s + 1;
        }
    }
    for (uint32_t s = 0; s < part->n_sections; s++)
        part->bound = sum[s] - slack[s] > part->bound ? sum[s] - slack[s] : part->bound;
}

// The range maximum over sections of each item, by a sparse table level that grows with the widths asked for.
static void set_heights(Arena *a, PlacePart *part, const uint64_t *sum)
{
    uint32_t s = part->n_sections, levels = 1;
    while (((uint64_t)1 << levels) <= s)
        levels++;
    uint64_t **table = ARENA_ARRAY(a, uint64_t *, levels);
    table[0] = arena_copy(a, sum, s * sizeof *sum);
    for (uint32_t l = 1; l < levels; l++) {
        uint32_t half = (uint32_t)1 << (l - 1), len = s - 2 * half + 1;
        table[l] = ARENA_ARRAY(a, uint64_t, len);
        for (uint32_t k = 0; k < len; k++) {
            uint64_t x = table[l - 1][k], y = table[l - 1][k + half];
            table[l][k] = x > y ? x : y;
        }
    }
    for (uint32_t i = 0; i < part->n; i++) {
        PartItem *it = &part->items[i];
        uint32_t len = it->last - it->first + 1, l = 0;
        while (((uint64_t)2 << l) <= len)
            l++;
        uint64_t x = table[l][it->first], y = table[l][it->last + 1 - ((uint32_t)1 << l)];
        it->height = x > y ? x : y;
    }
}

// Overlaps of each item: those that begin no later than it ends, less those that end before it begins.
// Over sections this is a matter of two running counts.
static void set_degrees(Arena *a, PlacePart *part)
{
    uint32_t *begun = ARENA_ARRAY(a, uint32_t, part->n_sections);
    uint32_t *ended = ARENA_ARRAY(a, uint32_t, part->n_sections);
    for (uint32_t i = 0; i < part->n; i++) {
        begun[part->items[i].first]++;
        ended[part->items[i].last]++;
    }
    for (uint32_t s = 1; s < part->n_sections; s++) {
        begun[s] += begun[s - 1];
        ended[s] += ended[s - 1];
    }
    part->pairs = 0;
    for (uint32_t i = 0; i < part->n; i++) {
        PartItem *it = &part->items[i];
        it->degree = begun[it->last] - (it->first > 0 ? ended[it->first - 1] : 0) - 1;
        part->pairs += it->degree;
    }
    part->pairs /= 2;
}

// Lists neighbours. Items are sorted by first section, so those that begin during i follow it directly.
static void set_neighbours(Arena *a, PlacePart *part)
{
    uint64_t limit = (uint64_t)part->n * PAIRS_PER_ITEM;
    if (part->pairs > (limit > PAIRS_ALWAYS ? limit : PAIRS_ALWAYS) || part->pairs > UINT32_MAX / 2)
        return;
    part->adj_start = ARENA_ARRAY(a, uint32_t, (size_t)part->n + 1);
    part->adj = ARENA_ARRAY(a, uint32_t, (size_t)part->pairs * 2);
    uint32_t *fill = ARENA_ARRAY(a, uint32_t, part->n);
    for (uint32_t i = 0; i < part->n; i++) {
        fill[i] = part->adj_start[i];
        part->adj_start[i + 1] = part->adj_start[i] + part->items[i].degree;
    }
    for (uint32_t i = 0; i < part->n; i++) {
        for (uint32_t j = i + 1; j < part->n && part->items[j].first <= part->items[i].last; j++) {
            part->adj[fill[i]++] = j;
            part->adj[fill[j]++] = i;
        }
    }
}

// Sweeps the part that begins with item `begin`; returns the index after its last item. *end_pos walks
// sw->ends.
static uint32_t sweep_part(Sweep *sw, PlacePart *part, uint32_t begin, uint32_t *end_pos)
{
    uint32_t i = begin, live = 0, section = 0;
    uint64_t sum = 0;
    *part = (PlacePart){.items = sw->items + begin, .grain = sw->grain, .arena = UINT64_MAX};
    do {
        // Let in everything that begins before the next end; then the live set is maximal: a section.
        uint32_t step = sw->ends[*end_pos].key;
        for (; i < sw->n && sw->first[i] <= step; i++, live++) {
            sw->items[i].first = section;
            sum = place_sat_add(sum, sw->items[i].pitch);
        }
        sw->section_sum[section] = sum;
        // Let out everything that ends before the next beginning.
        for (; live > 0 && (i == sw->n || sw->ends[*end_pos].key < sw->first[i]); live--) {
            PartItem *it = &sw->items[sw->ends[(*end_pos)++].id];
            it->last = section;
            sum = sum == UINT64_MAX ? sum : sum - it->pitch;
        }
        section++;
    } while (live > 0);
    part->n = i - begin;
    part->n_sections = section;
    return i;
}

// Items of a size, by first step; fills the sweep's step arrays.
static void sort_items(Arena *a, Sweep *sw, const PlaceItem *items, uint32_t n)
{
    SortKey *keys = ARENA_ARRAY(a, SortKey, n);
    for (uint32_t i = 0; i < n; i++) {
        rlx_assert(items[i].first <= items[i].last);
        if (items[i].size > 0)
            keys[sw->n++] = (SortKey){items[i].first, i};
    }
    qsort(keys, sw->n, sizeof *keys, compare_keys);
    uint32_t *first = ARENA_ARRAY(a, uint32_t, sw->n);
    SortKey *ends = ARENA_ARRAY(a, SortKey, sw->n);
    sw->items = ARENA_ARRAY(a, PartItem, sw->n);
    for (uint32_t k = 0; k < sw->n; k++) {
        const PlaceItem *src = &items[keys[k].id];
        first[k] = src->first;
        ends[k] = (SortKey){src->last, k};
        sw->items[k] = (PartItem){.source = keys[k].id,
                                  .size = src->size,
                                  .pitch = place_align_up(src->size, sw->grain),
                                  .align = src->align == 0 ? 1 : src->align,
                                  .fixed = src->fixed < 0 ? PLACE_FREE : (uint64_t)src->fixed,
                                  .width = (uint64_t)src->last - src->first + 1};
    }
    qsort(ends, sw->n, sizeof *ends, compare_keys);
    sw->first = first;
    sw->ends = ends;
}

PartList place_split(Arena *a, const PlaceItem *items, uint32_t n)
{
    Sweep sw = {.grain = find_grain(items, n)};
    sort_items(a, &sw, items, n);
    sw.section_sum = ARENA_ARRAY(a, uint64_t, sw.n);
    PartList list = {.parts = ARENA_ARRAY(a, PlacePart, sw.n)};
    uint32_t end_pos = 0;
    for (uint32_t begin = 0; begin < sw.n;) {
        PlacePart *part = &list.parts[list.n++];
        begin = sweep_part(&sw, part, begin, &end_pos);
        rlx_assert(part->n >= 1 && begin <= sw.n);
        set_bound(a, part, sw.section_sum);
        set_heights(a, part, sw.section_sum);
        set_degrees(a, part);
        set_neighbours(a, part);
        part->offset = ARENA_ARRAY(a, uint64_t, part->n);
        list.bound = part->bound > list.bound ? part->bound : list.bound;
    }
    rlx_assert(list.n <= sw.n);
    return list;
}
