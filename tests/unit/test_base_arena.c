// SPDX-License-Identifier: Apache-2.0
// The arena: alignment, zeroing, growth, reset, and what happens when there is no memory.
#include "base/arena.h"
#include "unit.h"

static void test_aligned_and_zeroed(void **state)
{
    (void)state;
    Arena a = {0};
    for (size_t n = 0; n < 3000; n += 7) {
        unsigned char *p = arena_alloc(&a, n);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xa5, n);
    }
    arena_free(&a);
}

static void test_blocks_do_not_overlap(void **state)
{
    (void)state;
    Arena a = {0};
    enum { N = 400 };
    unsigned char *blocks[N];
    size_t sizes[N];
    for (unsigned i = 0; i < N; i++) {
        sizes[i] = i % 13 == 0 ? 40000u + i * 997u : i * 31u % 300u; // some get a chunk of their own
        blocks[i] = arena_alloc(&a, sizes[i]);
        memset(blocks[i], (int)(i & 0xff), sizes[i]);
    }
    for (unsigned i = 0; i < N; i++)
        for (size_t k = 0; k < sizes[i]; k++)
            if (blocks[i][k] != (i & 0xff))
                fail_msg("block %u was overwritten at %zu", i, k);
    arena_free(&a);
}

static void test_empty_blocks_are_unique(void **state)
{
    (void)state;
    Arena a = {0};
    char *p = arena_alloc(&a, 0), *q = arena_alloc(&a, 0);
    assert_non_null(p);
    assert_ptr_not_equal(p, q);
    arena_free(&a);
}

static void test_reset_gives_zeroed_memory_again(void **state)
{
    (void)state;
    Arena a = {0};
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 200; i++) {
            unsigned char *p = arena_alloc(&a, 1000);
            for (int k = 0; k < 1000; k++)
                assert_int_equal(p[k], 0);
            memset(p, 0xff, 1000);
        }
        assert_true(a.used >= 200 * 1000);
        arena_reset(&a);
        assert_int_equal(a.used, 0);
    }
    arena_free(&a);
    arena_free(&a); // twice does no harm
    arena_reset(&a);
    assert_null(a.head);
}

static void test_copies(void **state)
{
    (void)state;
    Arena a = {0};
    char source[] = "one two";
    char *whole = arena_strdup(&a, source), *part = arena_strndup(&a, source, 3);
    char *bytes = arena_copy(&a, source, sizeof source);
    source[0] = 'X';
    assert_string_equal(whole, "one two");
    assert_string_equal(part, "one");
    assert_memory_equal(bytes, "one two", 8);
    assert_non_null(arena_copy(&a, NULL, 0));
    assert_string_equal(arena_strndup(&a, NULL, 0), "");
    assert_string_equal(arena_printf(&a, "%s-%d", "x", 42), "x-42");
    arena_free(&a);
}

static void test_long_printf(void **state)
{
    (void)state;
    Arena a = {0};
    char *s = arena_printf(&a, "%0200000d|", 7);
    assert_int_equal(strlen(s), 200001);
    assert_string_equal(s + 199999, "7|");
    arena_free(&a);
}

static void ask_for_overflow(void)
{
    Arena a = {0};
    arena_alloc_array(&a, SIZE_MAX / 4, 8);
}

static void ask_for_everything(void)
{
    Arena a = {0};
    arena_alloc(&a, SIZE_MAX);
}

static void ask_for_endless_string(void)
{
    Arena a = {0};
    arena_strndup(&a, "", SIZE_MAX);
}

static void test_no_memory_ends_the_program(void **state)
{
    (void)state;
    assert_exits(ask_for_overflow);
    assert_exits(ask_for_everything);
    assert_exits(ask_for_endless_string);
}

static void test_array_of_product_zero(void **state)
{
    (void)state;
    Arena a = {0};
    assert_non_null(ARENA_ARRAY(&a, int, 0));
    assert_non_null(arena_alloc_array(&a, SIZE_MAX, 0));
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_aligned_and_zeroed),
        cmocka_unit_test(test_blocks_do_not_overlap),
        cmocka_unit_test(test_empty_blocks_are_unique),
        cmocka_unit_test(test_reset_gives_zeroed_memory_again),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_long_printf),
        cmocka_unit_test(test_no_memory_ends_the_program),
        cmocka_unit_test(test_array_of_product_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
