// SPDX-License-Identifier: Apache-2.0
// Quantised blocks: the table-driven decoder against GGML's closed forms, written out here one by one with
// nothing of the table, on random bits (infinite and NaN scales among them).
#include "ir/graph/blocks.h"
#include "ir/graph/tensor.h"
#include "runtime-lite/rlx_params.h"
#include "unit.h"

#include <math.h>

enum { BLOCKS = 500 };

static uint64_t state;

static unsigned next_byte(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(state >> 56);
}

static double half(const unsigned char *p)
{
    return f16_to_f64((uint16_t)(p[0] + 256 * p[1]));
}

static int nibble(unsigned byte, unsigned i)
{
    return (int)(byte >> (4 * i) & 15);
}

static int signed_byte(unsigned byte)
{
    return byte < 128 ? (int)byte : (int)byte - 256;
}

static const int iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static double q4_0(const unsigned char *b, unsigned i)
{
    return half(b) * (nibble(b[2 + i % 16], i / 16) - 8);
}

static double q4_1(const unsigned char *b, unsigned i)
{
    return half(b) * nibble(b[4 + i % 16], i / 16) + half(b + 2);
}

static unsigned word(const unsigned char *p)
{
    return p[0] | (unsigned)p[1] << 8 | (unsigned)p[2] << 16 | (unsigned)p[3] << 24;
}

static double q5_0(const unsigned char *b, unsigned i)
{
    return half(b) * ((nibble(b[6 + i % 16], i / 16) | (int)(word(b + 2) >> i & 1) << 4) - 16);
}

static double q5_1(const unsigned char *b, unsigned i)
{
    return half(b) * (nibble(b[8 + i % 16], i / 16) | (int)(word(b + 4) >> i & 1) << 4) + half(b + 2);
}

static double q8_0(const unsigned char *b, unsigned i)
{
    return half(b) * signed_byte(b[2 + i]);
}

static double iq4_nl(const unsigned char *b, unsigned i)
{
    return half(b) * iq4[nibble(b[2 + i % 16], i / 16)];
}

static double iq4_xs(const unsigned char *b, unsigned i)
{
    const unsigned s = i / 32, high = b[2] + 256u * b[3];
    const int scale = nibble(b[4 + s / 2], s % 2) | (int)(high >> (2 * s) & 3) << 4;
    return half(b) * (scale - 32) * iq4[nibble(b[8 + 16 * s + i % 16], i % 32 / 16)];
}

// Scale and minimum j of q4_k and q5_k.
static void k4(const unsigned char *s, unsigned j, int *scale, int *min)
{
    if (j < 4) {
        *scale = s[j] & 63;
        *min = s[j + 4] & 63;
    } else {
        *scale = (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
        *min = s[j + 4] >> 4 | s[j] >> 6 << 4;
    }
}

static double q4_k(const unsigned char *b, unsigned i)
{
    int scale = 0, min = 0;
    k4(b + 4, i / 32, &scale, &min);
    return half(b) * scale * nibble(b[16 + 32 * (i / 64) + i % 32], i / 32 % 2) - half(b + 2) * min;
}

static double q5_k(const unsigned char *b, unsigned i)
{
    const unsigned s = i / 32;
    int scale = 0, min = 0;
    k4(b + 4, s, &scale, &min);
    const int q = nibble(b[48 + 32 * (s / 2) + i % 32], s % 2) | (b[16 + i % 32] >> s & 1) << 4;
    return half(b) * scale * q - half(b + 2) * min;
}

static double q6_k(const unsigned char *b, unsigned i)
{
    const unsigned h = i / 128, p = i % 128 / 32, l = i % 32;
    const int low = nibble(b[64 * h + l + 32 * (p & 1)], p >> 1), high = b[128 + 32 * h + l] >> (2 * p) & 3;
    return half(b + 208) * signed_byte(b[192 + i / 16]) * ((low | high << 4) - 32);
}

static double q2_k(const unsigned char *b, unsigned i)
{
    const int q = b[16 + 32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32)) & 3, s = b[i / 16];
    return half(b + 80) * (s & 15) * q - half(b + 82) * (s >> 4);
}

static double q3_k(const unsigned char *b, unsigned i)
{
    const unsigned h = i / 128, p = i % 128 / 32, l = i % 32, g = i / 16;
    const unsigned char *s = b + 96;
    const int scale = nibble(s[g % 8], g / 8) | (s[8 + g % 4] >> (2 * (g / 4)) & 3) << 4;
    const int low = b[32 + 32 * h + l] >> (2 * p) & 3, q = low - (b[l] >> (4 * h + p) & 1 ? 0 : 4);
    return half(b + 108) * (scale - 32) * q;
}

static double tq2_0(const unsigned char *b, unsigned i)
{
    return half(b + 64) * ((b[32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32)) & 3) - 1);
}

static double mxfp4(const unsigned char *b, unsigned i)
{
    static const double value[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    const int code = nibble(b[1 + i % 16], i / 16);
    return ldexp(code & 8 ? -value[code & 7] : value[code & 7], b[0] - 127);
}

static const struct {
    const char *name;
    unsigned elements, bytes;
    double (*value)(const unsigned char *block, unsigned i);
} forms[] = {
    {"q4_0", 32, 18, q4_0},    {"q4_1", 32, 20, q4_1},     {"q5_0", 32, 22, q5_0},
    {"q5_1", 32, 24, q5_1},    {"q8_0", 32, 34, q8_0},     {"q2_k", 256, 84, q2_k},
    {"q3_k", 256, 110, q3_k},  {"q4_k", 256, 144, q4_k},   {"q5_k", 256, 176, q5_k},
    {"q6_k", 256, 210, q6_k},  {"iq4_nl", 32, 18, iq4_nl}, {"iq4_xs", 256, 136, iq4_xs},
    {"tq2_0", 256, 66, tq2_0}, {"mxfp4", 32, 17, mxfp4},
};

static void test_decoding(void **unused)
{
    (void)unused;
    state = 7;
    assert_int_equal(sizeof forms / sizeof *forms, BLOCK_FORMATS);
    for (uint32_t t = 0; t < BLOCK_FORMATS; t++) {
        const BlockFormat *f = block_format(NULL, forms[t].name);
        assert_non_null(f);
        assert_int_equal(f->elements, forms[t].elements);
        assert_int_equal(f->bytes, forms[t].bytes);
        for (uint32_t n = 0; n < BLOCKS; n++) {
            unsigned char block[256];
            float out[256];
            for (unsigned j = 0; j < f->bytes; j++)
                block[j] = (unsigned char)next_byte();
            block_decode(f, block, out);
            for (unsigned i = 0; i < f->elements; i++) {
                const float want = (float)forms[t].value(block, i);
                assert_true(want == out[i] || (want != want && out[i] != out[i]));
            }
        }
    }
}

// --- groups --------------------------------------------------------------------------------------

// A number of 2 or 4 bytes.
static double number(const unsigned char *p, DType type)
{
    const uint32_t bits = type == DTYPE_f32 ? word(p) : (p[0] | (uint32_t)p[1] << 8) << 16;
    float v;
    memcpy(&v, &bits, sizeof v);
    return type == DTYPE_f16 ? half(p) : (double)v;
}

// Element i of a block of groups: pairs of scale and bias, then the bits of all units of 32 elements, of 6
// bits the lower four before the upper two.
static double affine(const unsigned char *b, unsigned i, unsigned bits, unsigned group, unsigned size,
                     DType type)
{
    const unsigned bytes = dtype_info[type].bytes, at = size / group * 2 * bytes, u = i / 32, j = i % 32;
    const unsigned char *pair = b + i / group * 2 * bytes;
    int q = bits == 8 ? b[at + i] : nibble(b[at + 16 * u + j % 16], j / 16);
    if (bits == 6)
        q |= (b[at + size / 2 + 8 * u + j % 8] >> (2 * (j / 8)) & 3) << 4;
    return number(pair, type) * q + number(pair + bytes, type);
}

static void check_groups(Arena *a, unsigned bits, unsigned group, DType type)
{
    const unsigned size = block_group_elements(group);
    const BlockFormat *f = block_format(a, block_group_name(a, bits, group, type));
    unsigned char block[1024];
    float out[BLOCK_GROUP_MOST];
    assert_non_null(f);
    assert_int_equal(f->elements, size);
    assert_int_equal(f->bytes, size * bits / 8 + size / group * 2 * dtype_info[type].bytes);
    for (uint32_t n = 0; n < 20; n++) {
        for (unsigned j = 0; j < f->bytes; j++)
            block[j] = (unsigned char)next_byte();
        block_decode(f, block, out);
        for (unsigned i = 0; i < size; i++) {
            const float want = (float)affine(block, i, bits, group, size, type);
            assert_true(want == out[i] || (want != want && out[i] != out[i]));
        }
    }
}

static void test_groups(void **unused)
{
    static const DType types[] = {DTYPE_f16, DTYPE_bf16, DTYPE_f32};
    Arena a = {0};
    uint32_t n = 0;
    (void)unused;
    for (unsigned group = 0; group <= 2 * BLOCK_GROUP_MOST; group++) {
        const unsigned size = block_group_elements(group);
        // all multiples of 32 up to 512, and what makes one of at most 15 of these
        const bool has_one = group % 32 == 0 ? group > 0 && group <= 512 : group / (group & -group) < 16;
        assert_int_equal(size != 0, has_one && group <= 512);
        if (size == 0)
            continue;
        assert_true(size % 32 == 0 && size % group == 0 && size / group <= 32);
        for (unsigned t = 0; t < 3; t++)
            for (unsigned bits = 4; bits <= 8; bits += 2, n++)
                check_groups(&a, bits, group, types[t]);
    }
    assert_true(n > 500);
    arena_free(&a);
}

// The runtime's list has the same formats, with blocks of the same size.
static void test_runtime(void **unused)
{
    static const struct {
        const char *name;
        rlx_blocks kind;
    } kinds[] = {
        {"q8_0", RLX_Q8_0},   {"q4_0", RLX_Q4_0},   {"q4_1", RLX_Q4_1},     {"q5_0", RLX_Q5_0},
        {"q5_1", RLX_Q5_1},   {"q2_k", RLX_Q2_K},   {"q3_k", RLX_Q3_K},     {"q4_k", RLX_Q4_K},
        {"q5_k", RLX_Q5_K},   {"q6_k", RLX_Q6_K},   {"iq4_nl", RLX_IQ4_NL}, {"iq4_xs", RLX_IQ4_XS},
        {"tq2_0", RLX_TQ2_0}, {"mxfp4", RLX_MXFP4},
    };
    (void)unused;
    assert_int_equal(RLX_BLOCK_KINDS, BLOCK_FORMATS);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        assert_int_equal(kinds[i].kind, i);
        assert_int_equal(block_format(NULL, kinds[i].name)->bytes, rlx_block_bytes(kinds[i].kind));
    }
    assert_int_equal(rlx_block_bytes(RLX_BLOCK_KINDS), 0);
}

static void test_names(void **unused)
{
    static const char *const none[] = {"q4_9",
                                       "",
                                       "affine",
                                       "affine4",
                                       "affine4_",
                                       "affine4_0_f16",
                                       "affine4_33_f16",
                                       "affine4_1024_f16",
                                       "affine4_32_f64",
                                       "affine5_32_f16",
                                       "affine4 32_f16",
                                       "affine4_032_f16",
                                       "affine4_+32_f16",
                                       "affine4_32_f16 ",
                                       "affine4_4294967328_f16"};
    Arena a = {0};
    (void)unused;
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_null(block_format(&a, none[i]));
    assert_non_null(block_format(&a, "affine4_24_bf16"));
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_decoding), cmocka_unit_test(test_groups),
                                       cmocka_unit_test(test_names), cmocka_unit_test(test_runtime)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
