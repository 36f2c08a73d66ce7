// SPDX-License-Identifier: Apache-2.0
// Offset placement: against brute force on tiny inputs, against packings whose optimum is known by
// construction, and the independent check against placements that were spoilt on purpose.
#include "passes/plan/place/place.h"
#include "unit.h"

static uint64_t rng_state;

static uint32_t random_below(uint32_t n)
{
    rng_state = rng_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((rng_state >> 32) * n >> 32);
}

static PlaceItem item(uint32_t first, uint32_t last, uint64_t size)
{
    return (PlaceItem){.first = first, .last = last, .size = size, .align = 1, .fixed = -1};
}

static PlaceResult solve(PlaceItem *items, uint32_t n, uint64_t nodes)
{
    Arena a = {0};
    PlaceResult r;
    place_solve(&a, items, n, (PlaceBudget){nodes}, &r);
    const char *wrong = place_check(&a, items, n, &r);
    if (wrong != NULL)
        fail_msg("%s", wrong);
    arena_free(&a);
    return r;
}

// --- Brute force ---------------------------------------------------------------------------------

enum { BRUTE_MAX = 6 };

typedef struct Brute {
    PlaceItem items[BRUTE_MAX];
    bool is_placed[BRUTE_MAX];
    uint32_t n;
    uint64_t best;
} Brute;

static bool is_free(const Brute *b, const PlaceItem *it, uint64_t at)
{
    for (uint32_t j = 0; j < b->n; j++) {
        const PlaceItem *o = &b->items[j];
        if (b->is_placed[j] && o->size > 0 && o->first <= it->last && it->first <= o->last &&
            at < o->offset + o->size && o->offset < at + it->size)
            return false;
    }
    return true;
}

// The lowest free offset is 0 or the end of something, rounded up.
static uint64_t lowest_free(const Brute *b, const PlaceItem *it)
{
    uint64_t best = is_free(b, it, 0) ? 0 : UINT64_MAX;
    for (uint32_t j = 0; j < b->n; j++) {
        if (!b->is_placed[j])
            continue;
        uint64_t end = b->items[j].offset + b->items[j].size,
                 at = (end + it->align - 1) / it->align * it->align;
        if (at < best && is_free(b, it, at))
            best = at;
    }
    return best;
}

// Taking items in the order of their offsets in an optimal placement, each at its lowest free offset, is
// optimal: so the best order of all is.
static void try_orders(Brute *b, uint32_t n_placed, uint64_t arena)
{
    if (n_placed == b->n && arena < b->best)
        b->best = arena;
    for (uint32_t i = 0; i < b->n; i++) {
        if (b->is_placed[i])
            continue;
        PlaceItem *it = &b->items[i];
        it->offset = it->size == 0 ? 0 : lowest_free(b, it);
        uint64_t top = it->offset + it->size;
        b->is_placed[i] = true;
        try_orders(b, n_placed + 1, top > arena ? top : arena);
        b->is_placed[i] = false;
    }
}

static uint64_t brute_force(const PlaceItem *items, uint32_t n)
{
    Brute b = {.n = n, .best = UINT64_MAX};
    uint32_t n_fixed = 0;
    uint64_t arena = 0;
    for (uint32_t i = 0; i < n; i++) {
        b.items[i] = items[i];
        if (items[i].fixed >= 0) {
            b.items[i].offset = (uint64_t)items[i].fixed;
            b.is_placed[i] = true;
            n_fixed++;
            arena = b.items[i].offset + items[i].size > arena ? b.items[i].offset + items[i].size : arena;
        }
    }
    try_orders(&b, n_fixed, arena);
    return b.best;
}

static PlaceItem random_item(bool has_fixed)
{
    static const uint64_t aligns[] = {1, 1, 2, 3, 4, 8};
    uint32_t first = random_below(8);
    PlaceItem it = item(first, first + random_below(4), random_below(12));
    it.align = aligns[random_below(6)];
    if (has_fixed && random_below(4) == 0)
        it.fixed = (int64_t)(random_below(4) * it.align);
    return it;
}

static bool has_clash(const PlaceItem *items, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < i; j++) {
            const PlaceItem *p = &items[i], *q = &items[j];
            if (p->fixed >= 0 && q->fixed >= 0 && p->first <= q->last && q->first <= p->last &&
                p->fixed < q->fixed + (int64_t)q->size && q->fixed < p->fixed + (int64_t)p->size)
                return true;
        }
    }
    return false;
}

static void compare_with_brute_force(uint32_t rounds, bool has_fixed)
{
    rng_state = 7;
    for (uint32_t round = 0; round < rounds; round++) {
        PlaceItem items[BRUTE_MAX];
        uint32_t n = random_below(BRUTE_MAX + 1);
        for (uint32_t i = 0; i < n; i++)
            items[i] = random_item(has_fixed);
        if (has_clash(items, n))
            continue;
        uint64_t best = n == 0 ? 0 : brute_force(items, n);
        PlaceResult quick = solve(items, n, 0), full = solve(items, n, 100000);
        assert_true(quick.arena >= best);
        assert_true(quick.lower_bound <= best);
        assert_true(!quick.optimal || quick.arena == best);
        assert_int_equal(full.arena, best);
        assert_true(full.optimal);
    }
}

static void test_tiny_inputs_are_optimal(void **state)
{
    (void)state;
    compare_with_brute_force(3000, false);
}

static void test_tiny_inputs_with_fixed_items_are_optimal(void **state)
{
    (void)state;
    compare_with_brute_force(3000, true);
}

// --- Packings without holes ----------------------------------------------------------------------

enum { PACKING_MAX = 400, PACKING_STEPS = 4000 };
#define PACKING_BYTES UINT64_C(1048576)

// Cuts a full arena into n items, by time or by space: the optimum is PACKING_BYTES, with no byte to spare.
static uint32_t cut_packing(PlaceItem *items, uint32_t n, uint64_t seed)
{
    rng_state = seed;
    items[0] = item(0, PACKING_STEPS - 1, PACKING_BYTES);
    uint32_t len = 1;
    for (uint32_t tries = 0; len < n && tries < 100 * n; tries++) {
        PlaceItem *it = &items[random_below(len)], rest = *it;
        uint32_t steps = it->last - it->first + 1, units = (uint32_t)(it->size / 1024);
        bool by_time = (uint64_t)steps * 256 > (uint64_t)units * (1 + random_below(1000));
        if (by_time && steps > 8) {
            it->last = it->first + steps / 4 + random_below(steps / 2);
            rest.first = it->last + 1;
        } else if (!by_time && units > 4) {
            it->size = (units / 4 + random_below(units / 2)) * UINT64_C(1024);
            rest.size -= it->size;
        } else {
            continue;
        }
        items[len++] = rest;
    }
    for (uint32_t i = len - 1; i > 0; i--) {
        uint32_t j = random_below(i + 1);
        PlaceItem swap = items[i];
        items[i] = items[j];
        items[j] = swap;
    }
    return len;
}

static void test_packings_without_holes(void **state)
{
    (void)state;
    uint32_t n_perfect = 0;
    for (uint32_t seed = 1; seed <= 12; seed++) {
        PlaceItem items[PACKING_MAX];
        uint32_t n = cut_packing(items, 60 + seed * 10, seed);
        PlaceResult quick = solve(items, n, 0), full = solve(items, n, 400000);
        assert_int_equal(full.lower_bound, PACKING_BYTES);
        assert_true(full.arena <= quick.arena);
        assert_true(full.arena * 100 <= PACKING_BYTES * 110);
        n_perfect += full.arena == PACKING_BYTES;
    }
    assert_true(n_perfect >= 8);
}

static void test_equal_input_gives_equal_output(void **state)
{
    (void)state;
    PlaceItem one[PACKING_MAX], two[PACKING_MAX];
    uint32_t n = cut_packing(one, 200, 99);
    memcpy(two, one, sizeof one);
    for (uint32_t i = 0; i < n; i++)
        two[i].offset = 12345 + i;
    PlaceResult a = solve(one, n, 30000), b = solve(two, n, 30000);
    assert_int_equal(a.arena, b.arena);
    assert_int_equal(a.optimal, b.optimal);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(one[i].offset, two[i].offset);
}

// --- Shapes of real plans ------------------------------------------------------------------------

static void test_nothing_and_empty_items(void **state)
{
    (void)state;
    PlaceResult r = solve(NULL, 0, 100);
    assert_int_equal(r.arena, 0);
    assert_true(r.optimal);
    PlaceItem items[] = {item(0, 5, 0), item(0, 5, 10), item(2, 3, 0)};
    items[2].fixed = 64;
    r = solve(items, 3, 100);
    assert_int_equal(r.arena, 64);
    assert_true(r.optimal);
    assert_int_equal(items[1].offset, 0);
}

static void test_a_chain_of_two_reaches_the_bound_greedily(void **state)
{
    (void)state;
    enum { N = 5000 };
    static PlaceItem items[N];
    rng_state = 3;
    for (uint32_t i = 0; i < N; i++)
        items[i] = item(i, i + 1, 64 * (1 + random_below(1000)));
    PlaceResult r = solve(items, N, 0);
    assert_int_equal(r.arena, r.lower_bound);
}

static void test_independent_parts_share_the_arena(void **state)
{
    (void)state;
    PlaceItem items[] = {item(0, 1, 30), item(1, 2, 50), item(5, 6, 70), item(6, 7, 20), item(9, 9, 5)};
    PlaceResult r = solve(items, 5, 1000);
    assert_int_equal(r.arena, 90);
    assert_true(r.optimal);
}

static void test_the_bound_counts_padding_but_for_the_top(void **state)
{
    (void)state;
    PlaceItem items[] = {item(0, 1, 5), item(0, 1, 6), item(0, 1, 7)};
    for (int i = 0; i < 3; i++)
        items[i].align = 8;
    PlaceResult r = solve(items, 3, 1000);
    assert_int_equal(r.lower_bound, 21); // two pitches of 8 and the item of 5 on top
    assert_int_equal(r.arena, 21);
}

static void test_large_dense_inputs_end(void **state)
{
    (void)state;
    enum { N = 20000 };
    static PlaceItem items[N];
    rng_state = 11;
    for (uint32_t i = 0; i < N; i++) {
        uint32_t first = random_below(10000);
        items[i] = item(first, first + random_below(4000), 1 + random_below(100000));
        items[i].fixed = i % 1000 == 0 && i < 4000 ? (int64_t)i * 1000 : -1;
        items[i].first = items[i].fixed >= 0 ? 0 : items[i].first;
    }
    PlaceResult r = solve(items, N, 20000);
    assert_true(r.arena <= r.lower_bound + r.lower_bound / 4);
}

static void test_many_items_in_one_long_part(void **state)
{
    (void)state;
    enum { N = 30000 };
    static PlaceItem items[N];
    rng_state = 12;
    for (uint32_t i = 0; i < N; i++)
        items[i] = item(i, i + 1 + random_below(2), 64 * (1 + random_below(5000)));
    PlaceResult quick = solve(items, N, 0), full = solve(items, N, 200000);
    assert_true(full.arena <= quick.arena);
}

static void test_sizes_beyond_reason_saturate(void **state)
{
    (void)state;
    PlaceItem items[] = {item(0, 1, UINT64_MAX / 2 + 9), item(0, 1, UINT64_MAX / 2 + 9),
                         item(1, 2, UINT64_MAX)};
    items[1].align = 4096;
    Arena a = {0};
    PlaceResult r;
    place_solve(&a, items, 3, (PlaceBudget){10000}, &r);
    assert_non_null(place_check(&a, items, 3, &r));
    arena_free(&a);
}

// --- The check -----------------------------------------------------------------------------------

static void expect_wrong(const PlaceItem *items, uint32_t n, const PlaceResult *r, const char *part)
{
    Arena a = {0};
    const char *message = place_check(&a, items, n, r);
    assert_non_null(message);
    if (strstr(message, part) == NULL)
        fail_msg("'%s' does not say '%s'", message, part);
    arena_free(&a);
}

static void test_the_check_sees_each_kind_of_error(void **state)
{
    (void)state;
    PlaceItem good[] = {item(0, 3, 100), item(2, 5, 50), item(4, 9, 100)};
    good[1].align = 4;
    good[2].fixed = 0;
    PlaceResult r = solve(good, 3, 1000);
    assert_int_equal(r.arena, 150);
    PlaceItem bad[3];
#define SPOIL(change, part)                                                                                  \
    do {                                                                                                     \
        PlaceResult s = r;                                                                                   \
        memcpy(bad, good, sizeof good);                                                                      \
        change;                                                                                              \
        expect_wrong(bad, 3, &s, part);                                                                      \
    } while (0)
    SPOIL(bad[1].offset = 101, "alignment");
    SPOIL(bad[1].offset = 96; s.arena = 146; s.lower_bound = 100, "overlap");
    SPOIL(bad[0].size = 101, "overlap"); // by one byte
    SPOIL(bad[2].offset = 200, "must be at");
    SPOIL(s.arena = 151, "end at");
    SPOIL(s.arena = 149, "end at");
    SPOIL(s.lower_bound = 151, "lower bound");
    SPOIL(s.optimal = false, "optimal");
    SPOIL(bad[0].offset = UINT64_MAX - 5, "overflows");
    SPOIL(bad[0].first = 4, "before it begins");
#undef SPOIL
}

// A random move of one item either stays right by a plain comparison of all pairs, or the check must object.
static void test_the_check_agrees_with_comparing_all_pairs(void **state)
{
    (void)state;
    PlaceItem items[PACKING_MAX];
    uint32_t n = cut_packing(items, 80, 5), n_clashes = 0;
    for (uint32_t i = 0; i < n; i++)
        items[i].last -= items[i].last > items[i].first; // leaves room for moves
    PlaceResult r = solve(items, n, 1000);
    Arena a = {0};
    for (uint32_t round = 0; round < 3000; round++) {
        PlaceItem *it = &items[random_below(n)];
        uint64_t old = it->offset, arena = 0;
        it->offset = random_below((uint32_t)r.arena);
        bool clashes = false;
        for (uint32_t j = 0; j < n; j++) {
            const PlaceItem *o = &items[j];
            arena = o->offset + o->size > arena ? o->offset + o->size : arena;
            clashes = clashes || (o != it && o->first <= it->last && it->first <= o->last &&
                                  o->offset < it->offset + it->size && it->offset < o->offset + o->size);
        }
        PlaceResult moved = {.arena = arena, .optimal = true};
        assert_int_equal(place_check(&a, items, n, &moved) != NULL, clashes);
        n_clashes += clashes;
        it->offset = old;
    }
    assert_true(n_clashes > 100 && n_clashes < 3000);
    arena_free(&a);
}

// --- Tables --------------------------------------------------------------------------------------

typedef struct Table {
    Arena arena;
    Diag diag;
    PlaceItem *items;
    uint32_t n;
    bool is_read;
} Table;

static void read_table_n(Table *t, const char *text, size_t len)
{
    *t = (Table){0};
    t->diag = diag_new(&t->arena);
    t->is_read = place_read_csv(&t->arena, &t->diag, "items.csv", text, len, &t->items, &t->n);
    assert_int_equal(t->is_read, t->diag.n_errors == 0);
}

static void test_tables_are_read(void **state)
{
    (void)state;
    Table t;
    const char *text =
        "size, lower,upper,id,offset,alignment\r\n100,-5,10,a,,64\r\n\n 7 ,10,11,\"b\",32,\n0,0,1,,,";
    read_table_n(&t, text, strlen(text));
    assert_true(t.is_read);
    assert_int_equal(t.n, 3);
    assert_int_equal(t.items[0].first, 0);
    assert_int_equal(t.items[0].last, 14);
    assert_int_equal(t.items[0].align, 64);
    assert_int_equal(t.items[0].fixed, -1);
    assert_int_equal(t.items[1].first, 15);
    assert_int_equal(t.items[1].last, 15);
    assert_int_equal(t.items[1].fixed, 32);
    assert_int_equal(t.items[1].align, 1);
    assert_int_equal(t.items[2].size, 0);
    arena_free(&t.arena);
}

static void test_times_too_far_apart_are_ranked(void **state)
{
    (void)state;
    Table t;
    const char *text = "lower,upper,size\n-9223372036854775808,0,5\n0,9223372036854775807,6\n-1,1,7\n";
    read_table_n(&t, text, strlen(text));
    assert_true(t.is_read);
    assert_int_equal(t.items[0].first, 0);
    assert_int_equal(t.items[0].last, 1);
    assert_int_equal(t.items[1].first, 2);
    assert_int_equal(t.items[1].last, 3);
    assert_int_equal(t.items[2].first, 1);
    assert_int_equal(t.items[2].last, 2);
    arena_free(&t.arena);
}

static void test_tables_only_with_a_header(void **state)
{
    (void)state;
    Table t;
    read_table_n(&t, "lower,upper,size", 16);
    assert_true(t.is_read);
    assert_int_equal(t.n, 0);
    arena_free(&t.arena);
}

static void test_wrong_tables_are_explained(void **state)
{
    (void)state;
    static const struct Case {
        const char *text, *message;
        uint32_t begin; // of the span
    } cases[] = {
        {"", "column name", 0},
        {"lower,upper,sise\n", "column name", 12},
        {"lower,upper,size,lower\n", "named twice", 17},
        {"lower,size\n", "no column 'upper'", 0},
        {"lower,upper,size\n1,2\n", "2 fields, the header 3", 17},
        {"lower,upper,size\n1,2,3,4\n", "more than 3 fields", 22},
        {"lower,upper,size\n1,x,3\n", "integer for 'upper'", 19},
        {"lower,upper,size\n1,,3\n", "integer for 'upper'", 19},
        {"lower,upper,size\n1,2,9223372036854775808\n", "integer for 'size'", 21},
        {"lower,upper,size\n1,2,-3\n", "'size' is -3, expected 0", 21},
        {"lower,upper,size\n2,2,3\n", "must be greater", 17},
        {"lower,upper,size,alignment\n1,2,3,0\n", "'alignment' is 0", 33},
        {"lower,upper,size,offset,alignment\n1,2,3,6,4\n", "not a multiple", 34},
        {"lower,upper,size\n1,2,4611686018427387904\n", "2^62", 0},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        Table t;
        read_table_n(&t, cases[k].text, strlen(cases[k].text));
        assert_false(t.is_read);
        assert_int_equal(t.diag.items.len, 1);
        const DiagItem *found = &t.diag.items.data[0];
        if (strstr(found->message, cases[k].message) == NULL)
            fail_msg("'%s' does not say '%s'", found->message, cases[k].message);
        assert_int_equal(found->span.begin, cases[k].begin);
        arena_free(&t.arena);
    }
}

static void test_all_wrong_lines_are_reported(void **state)
{
    (void)state;
    Table t;
    const char *text = "lower,upper,size\n1,2,x\n1,2,3\n5,4,3\n";
    read_table_n(&t, text, strlen(text));
    assert_false(t.is_read);
    assert_int_equal(t.diag.n_errors, 2);
    arena_free(&t.arena);
}

static void test_hostile_tables_do_no_harm(void **state)
{
    (void)state;
    static const char base[] =
        "id,lower,upper,size,alignment,offset\na,0,10,100,64,\nb,3,12,50,,128\nc,9,20,7,1,\n";
    rng_state = 21;
    for (uint32_t round = 0; round < 5000; round++) {
        char text[sizeof base];
        memcpy(text, base, sizeof base);
        for (uint32_t k = 0; k <= random_below(4); k++)
            text[random_below(sizeof base - 1)] =
                random_below(2) == 0 ? (char)random_below(256) : "0,-9\n\r"[random_below(6)];
        Table t;
        read_table_n(&t, text, random_below(sizeof base));
        if (t.is_read) {
            PlaceResult r;
            place_solve(&t.arena, t.items, t.n, (PlaceBudget){100}, &r);
            assert_true(r.arena >= r.lower_bound);
        }
        arena_free(&t.arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiny_inputs_are_optimal),
        cmocka_unit_test(test_tiny_inputs_with_fixed_items_are_optimal),
        cmocka_unit_test(test_packings_without_holes),
        cmocka_unit_test(test_equal_input_gives_equal_output),
        cmocka_unit_test(test_nothing_and_empty_items),
        cmocka_unit_test(test_a_chain_of_two_reaches_the_bound_greedily),
        cmocka_unit_test(test_independent_parts_share_the_arena),
        cmocka_unit_test(test_the_bound_counts_padding_but_for_the_top),
        cmocka_unit_test(test_large_dense_inputs_end),
        cmocka_unit_test(test_many_items_in_one_long_part),
        cmocka_unit_test(test_sizes_beyond_reason_saturate),
        cmocka_unit_test(test_the_check_sees_each_kind_of_error),
        cmocka_unit_test(test_the_check_agrees_with_comparing_all_pairs),
        cmocka_unit_test(test_tables_are_read),
        cmocka_unit_test(test_times_too_far_apart_are_ranked),
        cmocka_unit_test(test_tables_only_with_a_header),
        cmocka_unit_test(test_wrong_tables_are_explained),
        cmocka_unit_test(test_all_wrong_lines_are_reported),
        cmocka_unit_test(test_hostile_tables_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
