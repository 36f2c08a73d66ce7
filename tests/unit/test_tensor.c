// SPDX-License-Identifier: Apache-2.0
// Element conversions: rounding, saturation and wrapping for every type, half precision against a slow model.
#include "graph_fixture.h"
#include "ir/graph/tensor.h"

#include <math.h>

// --- half precision ---

// The value of a 16-bit float by its definition.
static double slow_widen(uint16_t v, int exp_bits, int frac_bits)
{
    int exponent = v >> frac_bits & ((1 << exp_bits) - 1), fraction = v & ((1 << frac_bits) - 1);
    int bias = (1 << (exp_bits - 1)) - 1;
    double magnitude = 0;
    if (exponent == (1 << exp_bits) - 1)
        magnitude = fraction ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        magnitude = ldexp(fraction, 1 - bias - frac_bits);
    else
        magnitude = ldexp(fraction + (1 << frac_bits), exponent - bias - frac_bits);
    return v >> 15 ? -magnitude : magnitude;
}

typedef struct Half {
    double (*widen)(uint16_t);
    uint16_t (*narrow)(double);
    int exp_bits, frac_bits;
} Half;

static const Half halves[] = {{f16_to_f64, f16_from_f64, 5, 10}, {bf16_to_f64, bf16_from_f64, 8, 7}};

static void test_every_half_widens(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        for (uint32_t i = 0; i <= UINT16_MAX; i++) {
            double expected = slow_widen((uint16_t)i, halves[k].exp_bits, halves[k].frac_bits);
            double got = halves[k].widen((uint16_t)i);
            if (isnan(expected)) {
                assert_true(isnan(got));
                assert_true(isnan(halves[k].widen(halves[k].narrow(got))));
                continue;
            }
            assert_memory_equal(&got, &expected, sizeof got);
            assert_int_equal(halves[k].narrow(got), i);
        }
    }
}

// Between each two neighbours: just below the middle, the middle (to even) and just above.
static void test_halves_round_to_nearest_even(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        const Half *h = &halves[k];
        uint16_t infinite = (uint16_t)(((1 << h->exp_bits) - 1) << h->frac_bits);
        for (uint16_t i = 0; i < infinite; i++) {
            double low = h->widen(i), high = h->widen((uint16_t)(i + 1));
            if (i + 1 == infinite) // the next number that there would be
                high = 2 * low - h->widen((uint16_t)(i - 1));
            double middle = low + (high - low) / 2;
            uint16_t even = i % 2 ? (uint16_t)(i + 1) : i;
            assert_int_equal(h->narrow(middle), even);
            assert_int_equal(h->narrow(nextafter(middle, low)), i);
            assert_int_equal(h->narrow(nextafter(middle, high)), i + 1);
            assert_int_equal(h->narrow(-middle), even | 0x8000);
        }
    }
}

static void test_half_extremes(void **state)
{
    (void)state;
    assert_int_equal(f16_from_f64(65504), 0x7bff);
    assert_int_equal(f16_from_f64(65520), 0x7c00);
    assert_int_equal(f16_from_f64(1e300), 0x7c00);
    assert_int_equal(f16_from_f64(-(double)INFINITY), 0xfc00);
    assert_int_equal(f16_from_f64(5e-324), 0);
    assert_int_equal(f16_from_f64(-5e-324), 0x8000);
    assert_int_equal(f16_from_f64(-0.0), 0x8000);
    assert_int_equal(f16_from_f64((double)NAN), 0x7e00);
    assert_int_equal(bf16_from_f64((double)NAN), 0x7fc0);
    // Not the same as rounding to f32 first, which would give 0x3c00 and then stay there.
    assert_int_equal(f16_from_f64(1 + ldexp(1, -11) + ldexp(1, -40)), 0x3c01);
    assert_int_equal(bf16_from_f64(1 + ldexp(1, -8) + ldexp(1, -40)), 0x3f81);
}

// --- setting and getting ---

typedef struct SetRow {
    DType type;
    double set;
    double get;
} SetRow;

static void test_set_f64(void **state)
{
    Fixture *f = *state;
    const double inf = (double)INFINITY, nan = (double)NAN;
    const SetRow rows[] = {
        {DTYPE_i8, 127.9, 127},
        {DTYPE_i8, 128, 127},
        {DTYPE_i8, -128.9, -128},
        {DTYPE_i8, -1e30, -128},
        {DTYPE_i8, -0.9, 0},
        {DTYPE_i16, 40000, 32767},
        {DTYPE_i32, -2147483649.0, -2147483648.0},
        {DTYPE_i64, 1e30, 9223372036854775807.0},
        {DTYPE_i64, -inf, -9223372036854775808.0},
        {DTYPE_i64, nan, 0},
        {DTYPE_u8, 255.5, 255},
        {DTYPE_u8, 256, 255},
        {DTYPE_u8, -0.5, 0},
        {DTYPE_u8, -5, 0},
        {DTYPE_u16, 1e9, 65535},
        {DTYPE_u32, 4294967295.5, 4294967295.0},
        {DTYPE_u64, 18446744073709551615.0, 18446744073709551615.0},
        {DTYPE_u64, inf, 18446744073709551615.0},
        {DTYPE_u64, 9223372036854775808.0, 9223372036854775808.0},
        {DTYPE_u64, nan, 0},
        {DTYPE_bool, 0.1, 1},
        {DTYPE_bool, -0.0, 0},
        {DTYPE_bool, nan, 1},
        {DTYPE_f32, 0.1, (double)0.1f},
        {DTYPE_f32, 1e300, inf},
        {DTYPE_f64, 0.1, 0.1},
        {DTYPE_f16, 0.1, 0.0999755859375},
        {DTYPE_bf16, 0.1, 0.10009765625},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Tensor t = tensor_new(&f->arena, rows[i].type, 0, NULL);
        tensor_set_f64(&t, 0, rows[i].set);
        if (tensor_get_f64(&t, 0) != rows[i].get)
            fail_msg("%g as %s is %g, not %g", rows[i].set, dtype_info[rows[i].type].name,
                     tensor_get_f64(&t, 0), rows[i].get);
    }
}

static void test_set_i64_wraps(void **state)
{
    Fixture *f = *state;
    static const struct {
        DType type;
        int64_t set, get;
    } rows[] = {
        {DTYPE_i8, 128, -128},
        {DTYPE_i8, -129, 127},
        {DTYPE_u8, 256, 0},
        {DTYPE_u8, -1, 255},
        {DTYPE_i16, 65535, -1},
        {DTYPE_u32, -1, 4294967295},
        {DTYPE_i64, INT64_MIN, INT64_MIN},
        {DTYPE_u64, -1, -1}, // its bit pattern
        {DTYPE_bool, 256, 1},
        {DTYPE_bool, 0, 0},
        {DTYPE_f32, 16777217, 16777216},
        {DTYPE_f64, INT64_MAX, INT64_MAX}, // 2^63, which saturates on the way back
        {DTYPE_f16, 100000, INT64_MAX},    // infinity
        {DTYPE_f32, INT64_MIN, INT64_MIN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Tensor t = tensor_new(&f->arena, rows[i].type, 0, NULL);
        tensor_set_i64(&t, 0, rows[i].set);
        if (tensor_get_i64(&t, 0) != rows[i].get)
            fail_msg("%lld as %s is %lld", (long long)rows[i].set, dtype_info[rows[i].type].name,
                     (long long)tensor_get_i64(&t, 0));
    }
}

// 2^60 + 2^36 + 1 is just above the middle of two floats; rounded to double first it would be the middle.
static void test_large_integers_round_once(void **state)
{
    Fixture *f = *state;
    Tensor t = tensor_new(&f->arena, DTYPE_f32, 0, NULL);
    int64_t v = (INT64_C(1) << 60) + (INT64_C(1) << 36) + 1;
    tensor_set_i64(&t, 0, v);
    assert_true(tensor_get_f64(&t, 0) == ldexp(1, 60) + ldexp(1, 37));
    tensor_set_i64(&t, 0, -v);
    assert_true(tensor_get_f64(&t, 0) == -ldexp(1, 60) - ldexp(1, 37));
    tensor_set_i64(&t, 0, v - 1); // the middle itself: to even
    assert_true(tensor_get_f64(&t, 0) == ldexp(1, 60));
}

static void test_get_i64_of_floats(void **state)
{
    Fixture *f = *state;
    Tensor t = tensor_new(&f->arena, DTYPE_f64, 0, NULL);
    static const double set[] = {2.9, -2.9, 1e19, -1e19};
    static const int64_t get[] = {2, -2, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < 4; i++) {
        tensor_set_f64(&t, 0, set[i]);
        assert_int_equal(tensor_get_i64(&t, 0), get[i]);
    }
    tensor_set_f64(&t, 0, (double)NAN);
    assert_int_equal(tensor_get_i64(&t, 0), 0);
}

// --- tensors ---

static void test_new_and_of_const(void **state)
{
    Fixture *f = *state;
    static const float data[] = {1, 2, 3, 4, 5, 6};
    int64_t dims[] = {2, 3}, none[] = {4, 0};
    Tensor t = tensor_new(&f->arena, DTYPE_i16, 2, dims);
    assert_int_equal(t.numel, 6);
    for (int64_t i = 0; i < 6; i++)
        assert_int_equal(tensor_get_i64(&t, i), 0);
    assert_int_equal(tensor_new(&f->arena, DTYPE_f64, 2, none).numel, 0);
    Shape s = shape_of(2, dims);
    Tensor c = tensor_of_const(f->g, graph_const(f->g, DTYPE_f32, &s, data, sizeof data, (Span){0}));
    assert_ptr_equal(c.data, data);
    assert_int_equal(c.rank, 2);
    assert_int_equal(c.dim[1], 3);
    assert_true(tensor_get_f64(&c, 5) == 6);
}

// A mapped file gives no alignment.
static void test_unaligned_data(void **state)
{
    (void)state;
    unsigned char bytes[17] = {0};
    Tensor t = {.dtype = DTYPE_f64, .rank = 1, .dim = {2}, .numel = 2, .data = bytes + 1};
    tensor_set_f64(&t, 1, -1.5);
    assert_true(tensor_get_f64(&t, 1) == -1.5);
    assert_int_equal(bytes[16], 0xbf);
}

static void read_behind_the_end(void)
{
    float v = 0;
    Tensor t = {.dtype = DTYPE_f32, .numel = 1, .data = &v};
    tensor_get_f64(&t, 1);
}

static void test_index_is_checked(void **state)
{
    (void)state;
    assert_aborts(read_behind_the_end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_every_half_widens), TEST(test_halves_round_to_nearest_even),
        TEST(test_half_extremes),     TEST(test_set_f64),
        TEST(test_set_i64_wraps),     TEST(test_large_integers_round_once),
        TEST(test_get_i64_of_floats), TEST(test_new_and_of_const),
        TEST(test_unaligned_data),    TEST(test_index_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
