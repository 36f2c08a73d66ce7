// SPDX-License-Identifier: Apache-2.0
// Growable arrays: contents survive growth, capacity doubles, and a count beyond 32 bits is refused.
#include "base/vec.h"
#include "unit.h"

typedef struct Pair {
    uint64_t a;
    char b;
} Pair;

static void test_push_keeps_everything(void **state)
{
    (void)state;
    Arena a = {0};
    VEC(Pair) v = {0};
    for (uint32_t i = 0; i < 10000; i++) {
        Pair p = {i * 3u, (char)(i & 0x7f)};
        vec_push(&a, &v, p);
    }
    assert_int_equal(v.len, 10000);
    assert_true(v.cap >= v.len && v.cap < 4 * v.len);
    for (uint32_t i = 0; i < v.len; i++) {
        assert_int_equal(v.data[i].a, i * 3u);
        assert_int_equal(v.data[i].b, i & 0x7f);
    }
    arena_free(&a);
}

static void test_growth_at_least_doubles(void **state)
{
    (void)state;
    Arena a = {0};
    uint32_t cap = 0;
    uint32_t *data = vec_grow(&a, NULL, 0, &cap, sizeof *data);
    assert_true(cap > 0);
    data[0] = 77;
    uint32_t before = cap;
    data = vec_grow(&a, data, 1, &cap, sizeof *data);
    assert_true(cap >= 2 * before);
    assert_int_equal(data[0], 77);
    assert_int_equal(data[cap - 1], 0);
    arena_free(&a);
}

static void grow_beyond_the_index(void)
{
    Arena a = {0};
    uint32_t cap = UINT32_MAX / 2 + 1;
    vec_grow(&a, NULL, 0, &cap, 1);
}

static void test_too_many_end_the_program(void **state)
{
    (void)state;
    assert_exits(grow_beyond_the_index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_push_keeps_everything),
        cmocka_unit_test(test_growth_at_least_doubles),
        cmocka_unit_test(test_too_many_end_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
