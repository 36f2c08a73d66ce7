// SPDX-License-Identifier: Apache-2.0
// What divisions into banks cost at least: against all divisions of small random items, and where the answer
// is known.
#include "passes/plan/place/place_banks.h"
#include "unit.h"
#include <math.h>

enum { MAX_ITEMS = 7, MAX_ROOMS = 3, STEPS = 6 };

static Arena arena;
static uint64_t rng_state = 1;

static uint32_t random_below(uint32_t n)
{
    rng_state = rng_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((rng_state >> 32) * n >> 32);
}

typedef struct Case {
    BankItem items[MAX_ITEMS];
    BankRoom rooms[MAX_ROOMS];
    uint32_t n, n_rooms;
} Case;

// --- brute force ---------------------------------------------------------------------------------

// Bytes that the items of a room take at a step, if each of those that may lie over others takes none of its
// own as far as others end there.
static uint64_t taken(const Case *c, const uint32_t *in, uint32_t room, uint32_t step)
{
    uint64_t stays = 0, ends = 0, begins = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        const BankItem *x = &c->items[i];
        if (in[i] != room || x->first > step || x->last < step)
            continue;
        if (x->is_over && x->first == step)
            begins += x->bytes;
        else if (x->is_under && x->last == step)
            ends += x->bytes;
        else
            stays += x->bytes;
    }
    return stays + (ends > begins ? ends : begins);
}

static bool fits(const Case *c, const uint32_t *in)
{
    for (uint32_t room = 0; room < c->n_rooms; room++)
        for (uint32_t step = 0; step < STEPS; step++)
            if (taken(c, in, room, step) > c->rooms[room].bytes)
                return false;
    return true;
}

static double cost(const Case *c, const uint32_t *in)
{
    double cycles = 0;
    for (uint32_t i = 0; i < c->n; i++)
        cycles += c->items[i].traffic * c->rooms[in[i]].cycles;
    return cycles;
}

// The cheapest division of all; infinity: there is none.
static double cheapest(const Case *c)
{
    uint32_t in[MAX_ITEMS] = {0}, at = 0;
    double best = INFINITY;
    while (at < c->n) {
        if (fits(c, in) && cost(c, in) < best)
            best = cost(c, in);
        for (at = 0; at < c->n && ++in[at] == c->n_rooms; at++)
            in[at] = 0;
    }
    return best;
}

static Case random_case(void)
{
    Case c = {.n = 1 + random_below(MAX_ITEMS), .n_rooms = 1 + random_below(MAX_ROOMS)};
    const bool may_overlap = random_below(2) != 0;
    for (uint32_t i = 0; i < c.n; i++) {
        const uint32_t first = random_below(STEPS), last = first + random_below(STEPS - first);
        c.items[i] = (BankItem){random_below(50), 1 + random_below(9), first, last, false, false};
        c.items[i].is_over = may_overlap && random_below(2) != 0;
        c.items[i].is_under = may_overlap && random_below(2) != 0;
    }
    for (uint32_t i = 0; i < c.n_rooms; i++)
        c.rooms[i] = (BankRoom){i * i + random_below(2), 2 + random_below(30)};
    return c;
}

static double bound(const Case *c)
{
    return place_bank_bound(&arena, c->items, c->n, c->rooms, c->n_rooms);
}

// No division is below the bound, which is that of the cheapest one often enough to be worth saying.
static void test_all_divisions(void **state)
{
    enum { CASES = 3000 };
    uint32_t n_possible = 0, n_equal = 0, n_above = 0;
    (void)state;
    for (uint32_t i = 0; i < CASES; i++) {
        const Case c = random_case();
        const double best = cheapest(&c), least = bound(&c), fastest = c.rooms[0].cycles;
        double all = 0;
        for (uint32_t k = 0; k < c.n; k++)
            all += c.items[k].traffic * fastest;
        if (isinf(best))
            continue;
        if (least > best * (1 + 1e-12) || least < all * (1 - 1e-12))
            fail_msg("case %u: bound %g, cheapest %g, all in the fastest %g", i, least, best, all);
        n_possible++;
        n_above += best > all;
        n_equal += least >= best * (1 - 1e-12);
        arena_reset(&arena);
    }
    assert_true(n_possible > CASES / 2 && n_above > CASES / 10);
    assert_true(n_equal > n_possible / 2);
}

static BankItem item(double traffic, uint64_t bytes, uint32_t first, uint32_t last)
{
    return (BankItem){traffic, bytes, first, last, false, false};
}

// Two items of which one fits, twice, at steps that have nothing in common: both steps count.
static void test_steps_add_up(void **state)
{
    (void)state;
    const Case c = {{item(10, 4, 0, 1), item(7, 4, 1, 2), item(20, 4, 3, 4), item(3, 4, 4, 5)},
                    {{1, 4}, {8, 100}},
                    4,
                    2};
    assert_true(cheapest(&c) == 40 + 7 * 7 + 3 * 7);
    assert_true(bound(&c) == cheapest(&c));
}

// An item that is larger than the fast room is not in it, though others leave all of that free.
static void test_too_large(void **state)
{
    (void)state;
    const Case c = {{item(10, 9, 0, 1)}, {{1, 8}, {3, 100}}, 1, 2};
    assert_true(bound(&c) == 30);
}

// What lies over the item that dies takes no room besides.
static void test_over(void **state)
{
    (void)state;
    Case c = {{item(10, 8, 0, 1), item(10, 8, 1, 2)}, {{1, 8}, {3, 100}}, 2, 2};
    assert_true(bound(&c) == 40);
    c.items[0].is_under = c.items[1].is_over = true;
    assert_true(bound(&c) == 20 && cheapest(&c) == 20);
}

// Constants are there always, and many.
static void test_many(void **state)
{
    enum { MANY = 100000 };
    (void)state;
    BankItem *items = ARENA_ARRAY(&arena, BankItem, MANY);
    for (uint32_t i = 0; i < MANY; i++)
        items[i] = item(i % 2 == 0 ? 4 : 8, 4, 0, 0);
    const BankRoom rooms[] = {{1, 4 * MANY / 4}, {2, 4 * MANY / 4}, {8, 4 * MANY}};
    assert_true(place_bank_bound(&arena, items, MANY, rooms, 3) == MANY / 4 * (8 + 16 + 2 * 32.0));
    for (uint32_t i = 0; i < MANY; i++)
        items[i].first = items[i].last = i; // more steps than are looked at
    assert_true(place_bank_bound(&arena, items, MANY, rooms, 3) == MANY / 2 * 12.0);
    assert_true(place_bank_bound(&arena, items, 0, rooms, 3) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_divisions), cmocka_unit_test(test_steps_add_up),
        cmocka_unit_test(test_too_large),     cmocka_unit_test(test_over),
        cmocka_unit_test(test_many),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_free(&arena);
    return failed;
}
