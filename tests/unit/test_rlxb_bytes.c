// SPDX-License-Identifier: Apache-2.0
// Numbers in .rlxb files are little-endian on every machine, at any alignment, and their checksum is a fixed
// function of the bytes.
#include "base/map.h"
#include "compiler/rlxb/codec.h"
#include "unit.h"

static void test_numbers(void **state)
{
    (void)state;
    static const unsigned char bytes[] = {0xff, 1, 2, 3, 4, 5, 6, 7, 0x88};
    assert_int_equal(rlxb_get(bytes + 1, 4), 0x04030201);
    assert_true(rlxb_get(bytes + 1, 8) == UINT64_C(0x8807060504030201));
    Arena a = {0};
    Str s = str_new(&a);
    rlxb_put(&s, UINT64_C(0x8807060504030201), 8);
    rlxb_put(&s, 0x04030201, 4);
    assert_int_equal(s.len, 12);
    assert_memory_equal(s.data, bytes + 1, 8);
    assert_memory_equal(s.data + 8, bytes + 1, 4);
    arena_free(&a);
}

// Files hold it: it must never change.
static void test_checksum(void **state)
{
    (void)state;
    assert_true(hash_bytes64("", 0, 0) == 0);
    assert_true(hash_bytes64("rlxb", 4, 0) == UINT64_C(0x3194049d2df91aac));
    assert_true(hash_bytes64("0123456789", 10, 7) == UINT64_C(0x9f22e99ae0818021));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_checksum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
