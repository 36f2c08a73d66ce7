// SPDX-License-Identifier: Apache-2.0
// Hash maps: lookup, overwriting, insertion order, awkward keys, and the spread of the hash.
#include "base/map.h"
#include "base/vec.h"
#include "unit.h"

static void test_empty(void **state)
{
    (void)state;
    Map m = {0};
    uint64_t v = 5;
    assert_false(map_get_str(&m, "x", &v));
    assert_false(map_get(&m, NULL, 0, &v));
    assert_int_equal(v, 5);
}

static void test_put_get_overwrite(void **state)
{
    (void)state;
    Arena a = {0};
    Map m = {0};
    uint64_t v = 0;
    assert_true(map_put_str(&a, &m, "one", 1));
    assert_true(map_put_str(&a, &m, "two", UINT64_MAX));
    assert_false(map_put_str(&a, &m, "one", 11));
    assert_true(map_get_str(&m, "one", &v));
    assert_int_equal(v, 11);
    assert_true(map_get_str(&m, "two", &v));
    assert_true(v == UINT64_MAX);
    assert_false(map_get_str(&m, "on", &v));
    assert_false(map_get_str(&m, "ones", &v));
    assert_true(map_get_str(&m, "two", NULL));
    assert_int_equal(m.len, 2);
    arena_free(&a);
}

static void test_keys_are_bytes(void **state)
{
    (void)state;
    Arena a = {0};
    Map m = {0};
    uint64_t v = 0;
    assert_true(map_put(&a, &m, "a\0b", 3, 1));
    assert_true(map_put(&a, &m, "a\0c", 3, 2));
    assert_true(map_put(&a, &m, "a", 1, 3));
    assert_true(map_put(&a, &m, NULL, 0, 4));
    assert_false(map_put(&a, &m, "", 0, 5));
    assert_true(map_get(&m, "a\0c", 3, &v));
    assert_int_equal(v, 2);
    assert_true(map_get(&m, "", 0, &v));
    assert_int_equal(v, 5);
    arena_free(&a);
}

static void test_keys_are_copied(void **state)
{
    (void)state;
    Arena a = {0};
    Map m = {0};
    char key[] = "key";
    map_put_str(&a, &m, key, 9);
    key[0] = 'X';
    assert_true(map_get_str(&m, "key", NULL));
    assert_false(map_get_str(&m, key, NULL));
    arena_free(&a);
}

static void test_many_in_insertion_order(void **state)
{
    (void)state;
    Arena a = {0};
    Map m = {0};
    enum { N = 50000 };
    for (uint32_t i = 0; i < N; i++) {
        uint32_t key = i * 2654435761u;
        assert_true(map_put(&a, &m, &key, sizeof key, i));
    }
    assert_int_equal(m.len, N);
    for (uint32_t i = 0; i < N; i++) {
        uint32_t key = i * 2654435761u; // odd, so all keys differ
        uint64_t v = 0;
        assert_true(map_get(&m, &key, sizeof key, &v));
        assert_int_equal(v, i);
        assert_memory_equal(m.entries[i].key, &key, sizeof key);
    }
    arena_free(&a);
}

// Dense little keys are what the compiler hashes most; few of them may fall on one slot.
static void test_hash_spreads(void **state)
{
    (void)state;
    enum { SLOTS = 4096 };
    static uint32_t count[SLOTS];
    for (uint32_t i = 0; i < SLOTS; i++)
        count[hash_bytes(&i, sizeof i) % SLOTS]++;
    uint32_t most = 0, empty = 0;
    for (uint32_t i = 0; i < SLOTS; i++) {
        most = count[i] > most ? count[i] : most;
        empty += count[i] == 0;
    }
    assert_in_range(empty, SLOTS * 30 / 100, SLOTS * 44 / 100); // 1/e of them, if random
    assert_in_range(most, 2, 10);
}

// Every input bit changes about half of the output.
static void test_hash_avalanche(void **state)
{
    (void)state;
    unsigned char bytes[24] = {1, 2, 3};
    uint64_t h = hash_bytes64(bytes, sizeof bytes, 7);
    for (unsigned bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        int changed = __builtin_popcountll(h ^ hash_bytes64(bytes, sizeof bytes, 7));
        if (changed < 12 || changed > 52)
            fail_msg("bit %u changes %d bits of the hash", bit, changed);
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    assert_true(h != hash_bytes64(bytes, sizeof bytes, 8));
}

// Zero bytes count, and the length is part of the hash.
static void test_hash_of_zeros(void **state)
{
    (void)state;
    unsigned char zeros[64] = {0};
    for (size_t n = 0; n < sizeof zeros; n++)
        for (size_t k = n + 1; k <= sizeof zeros; k++)
            assert_true(hash_bytes64(zeros, n, 0) != hash_bytes64(zeros, k, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_put_get_overwrite),
        cmocka_unit_test(test_keys_are_bytes),
        cmocka_unit_test(test_keys_are_copied),
        cmocka_unit_test(test_many_in_insertion_order),
        cmocka_unit_test(test_hash_spreads),
        cmocka_unit_test(test_hash_avalanche),
        cmocka_unit_test(test_hash_of_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
