// SPDX-License-Identifier: Apache-2.0
// See place_banks.h. Each item costs at least what it does in the fastest room that it fits into. Of the
// items that are alive at a step, the fast rooms cannot hold all: if items could be cut into pieces, the
// pieces with the most traffic for each byte would lie in the fastest room, and no division is cheaper than
// that. Steps whose items are not the same ones add what they cost more.
#include "passes/plan/place/place_banks.h"
#include "base/diag.h"
#include <stdlib.h>

// Items that are looked at for all steps together, some nanoseconds each: of more steps, some are left out.
enum { WORK = 1 << 22 };

typedef struct Ranked {
    const BankItem *item;
    double density, base; // traffic for each byte; cycles in the fastest room that it fits into
    bool is_counted;      // at a step before this one
} Ranked;

// At the step, two sets of items lie apart: those that were there before it or lie over nothing, and those
// that stay behind it or have nothing over them.
typedef struct Point {
    uint32_t step;
    bool is_before;
    double extra;
} Point;

typedef struct Bound {
    Ranked *ranked; // by falling density
    uint32_t n, n_rooms;
    const BankRoom *rooms;
    Point *points;
    uint32_t n_points;
} Bound;

static int by_density(const void *pa, const void *pb)
{
    const Ranked *a = pa, *b = pb;
    if (a->density != b->density)
        return a->density < b->density ? 1 : -1;
    return (a->item > b->item) - (a->item < b->item);
}

static int by_extra(const void *pa, const void *pb)
{
    const Point *a = pa, *b = pb;
    if (a->extra != b->extra)
        return a->extra < b->extra ? 1 : -1;
    return a->step != b->step ? (a->step > b->step) - (a->step < b->step) : a->is_before - b->is_before;
}

static int by_step(const void *pa, const void *pb)
{
    const uint32_t *a = pa, *b = pb;
    return (*a > *b) - (*a < *b);
}

static bool is_there(const BankItem *i, const Point *at)
{
    const bool may_share = at->is_before ? i->is_over && i->first == at->step
                                         : i->is_under && i->last == at->step;
    return i->first <= at->step && at->step <= i->last && !may_share;
}

// Cycles of the pieces of an item, which take what is left of the rooms from room *room on.
static double cycles_of(const Bound *b, const Ranked *r, uint32_t *room, uint64_t *left)
{
    double cycles = 0;
    for (uint64_t bytes = r->item->bytes; bytes != 0;) {
        const bool is_last = *room + 1 == b->n_rooms;
        const uint64_t some = is_last || bytes <= *left ? bytes : *left;
        cycles += r->density * (double)some * b->rooms[*room].cycles;
        bytes -= some;
        *left -= some <= *left ? some : *left;
        if (*left == 0 && !is_last)
            *left = b->rooms[++*room].bytes;
    }
    return cycles;
}

// What the items of a point that are not counted yet cost beyond their bases.
static double extra_of(const Bound *b, const Point *at)
{
    uint32_t room = 0;
    uint64_t left = b->rooms[0].bytes;
    double extra = 0;
    for (uint32_t i = 0; i < b->n; i++)
        if (!b->ranked[i].is_counted && is_there(b->ranked[i].item, at))
            extra += cycles_of(b, &b->ranked[i], &room, &left) - b->ranked[i].base;
    return extra;
}

static void count(const Bound *b, const Point *at)
{
    for (uint32_t i = 0; i < b->n; i++)
        b->ranked[i].is_counted = b->ranked[i].is_counted || is_there(b->ranked[i].item, at);
}

static double base_of(const Bound *b, const BankItem *item)
{
    uint32_t room = 0;
    while (room + 1 < b->n_rooms && b->rooms[room].bytes < item->bytes)
        room++;
    return item->traffic * b->rooms[room].cycles;
}

// Where items begin, most are alive.
static void find_points(Bound *b, Arena *scratch, const BankItem *items)
{
    uint32_t *steps = ARENA_ARRAY(scratch, uint32_t, b->n), n = 0;
    for (uint32_t i = 0; i < b->n; i++)
        steps[i] = items[i].first;
    qsort(steps, b->n, sizeof *steps, by_step);
    for (uint32_t i = 0; i < b->n; i++)
        if (i == 0 || steps[i] != steps[n - 1])
            steps[n++] = steps[i];
    const uint64_t each = (uint64_t)n * b->n / WORK + 1;
    b->points = ARENA_ARRAY(scratch, Point, 2 * n);
    for (uint64_t i = 0; i < n; i += each) {
        b->points[b->n_points++] = (Point){.step = steps[i], .is_before = true};
        b->points[b->n_points++] = (Point){.step = steps[i]};
    }
}

double place_bank_bound(Arena *scratch, const BankItem *items, uint32_t n, const BankRoom *rooms,
                        uint32_t n_rooms)
{
    double cycles = 0;
    Bound b = {.n = n, .rooms = rooms, .n_rooms = n_rooms};
    rlx_assert(n_rooms != 0);
    if (n == 0)
        return 0;
    b.ranked = ARENA_ARRAY(scratch, Ranked, n);
    for (uint32_t i = 0; i < n; i++) {
        const double bytes = items[i].bytes != 0 ? (double)items[i].bytes : 1;
        b.ranked[i] = (Ranked){&items[i], items[i].traffic / bytes, base_of(&b, &items[i]), false};
        cycles += b.ranked[i].base;
    }
    qsort(b.ranked, n, sizeof *b.ranked, by_density);
    find_points(&b, scratch, items);
    for (uint32_t i = 0; i < b.n_points; i++)
        b.points[i].extra = extra_of(&b, &b.points[i]);
    qsort(b.points, b.n_points, sizeof *b.points, by_extra);
    for (uint32_t i = 0; i < b.n_points && b.points[i].extra > 0; i++) {
        const double extra = extra_of(&b, &b.points[i]);
        if (extra > 0) {
            cycles += extra;
            count(&b, &b.points[i]);
        }
    }
    return cycles;
}
