// SPDX-License-Identifier: Apache-2.0
// Blocks of IQ1 to IQ3 and TQ1_0 in other blocks: the elements of random ones are those that the Python
// package gguf gives, to the bit, by a hash that was made with it.
#include "compiler/import/gguf/gguf_recode.h"
#include "ir/graph/blocks.h"
#include "unit.h"

enum { BLOCKS = 200, MOST_BYTES = 128 };

static uint64_t state;

static uint8_t next_byte(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint8_t)(state >> 56);
}

// FNV-1a of the bits of floats, of which -0 counts as 0.
static uint64_t hash_of(const float *x, uint32_t n, uint64_t hash)
{
    for (uint32_t i = 0; i < n; i++) {
        const float v = x[i] + 0.0f;
        uint32_t bits;
        memcpy(&bits, &v, sizeof bits);
        hash = (hash ^ bits) * UINT64_C(1099511628211);
    }
    return hash;
}

static const struct {
    const char *type;
    uint32_t bytes, top; // of a block; where the upper byte of d is, of which bit 6 is cleared: below 2
    uint64_t hash;
} cases[] = {
    {"IQ2_XXS", 66, 1, UINT64_C(0x81d06f15f465d211)},
    {"IQ2_XS", 74, 1, UINT64_C(0xb21ad124c7b7ffa1)},
    {"IQ2_S", 82, 1, UINT64_C(0xd72dfe09558ec469)},
    {"IQ3_XXS", 98, 1, UINT64_C(0xc745413a8b669e0d)},
    {"IQ3_S", 110, 1, UINT64_C(0xb8978aaa6f146485)},
    {"IQ1_S", 50, 1, UINT64_C(0x67a525c468706ba5)},
    {"IQ1_M", 56, 55, UINT64_C(0xd17ff1e3b81efc05)},
    {"TQ1_0", 54, 53, UINT64_C(0x793015e9e4af6325)},
};

static void test_elements(void **unused)
{
    (void)unused;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        Arena a = {0};
        const GgufRecode *r = gguf_recode(cases[c].type);
        assert_non_null(r);
        const BlockFormat *f = block_format(&a, r->format);
        assert_non_null(f);
        assert_int_equal(f->elements, r->elements);
        assert_int_equal(f->bytes, r->bytes);
        const uint32_t per_block = GGUF_RECODED / r->elements;
        uint8_t *blocks = arena_alloc(&a, BLOCKS * cases[c].bytes);
        state = 1;
        for (uint32_t i = 0; i < BLOCKS * cases[c].bytes; i++) {
            blocks[i] = next_byte();
            if (i % cases[c].bytes == cases[c].top)
                blocks[i] &= 0xbf;
        }
        const uint8_t *other = gguf_recode_blocks(&a, r, blocks, BLOCKS);
        uint64_t hash = UINT64_C(14695981039346656037);
        float x[GGUF_RECODED];
        for (uint32_t i = 0; i < BLOCKS * per_block; i++) {
            block_decode(f, other + i * r->bytes, x);
            hash = hash_of(x, r->elements, hash);
        }
        if (hash != cases[c].hash)
            fail_msg("%s: 0x%016llx", cases[c].type, (unsigned long long)hash);
        arena_free(&a);
    }
}

static void test_others(void **unused)
{
    (void)unused;
    assert_null(gguf_recode("Q4_0"));
    assert_null(gguf_recode("IQ2"));
    Arena a = {0};
    assert_non_null(gguf_recode_blocks(&a, gguf_recode("TQ1_0"), NULL, 0));
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_elements), cmocka_unit_test(test_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
