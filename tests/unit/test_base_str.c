// SPDX-License-Identifier: Apache-2.0
// The text builder and the number conversions: shortest, exact, and the same in every locale.
#include "base/str.h"
#include "comma_locale.h"
#include "unit.h"
#include <float.h>
#include <math.h>

static const char *f32_text(Arena *a, float v)
{
    Str s = str_new(a);
    str_f32(&s, v);
    return str_text(&s);
}

static const char *f64_text(Arena *a, double v)
{
    Str s = str_new(a);
    str_f64(&s, v);
    return str_text(&s);
}

static void test_builder(void **state)
{
    (void)state;
    Arena a = {0};
    Str s = str_new(&a);
    assert_string_equal(str_text(&s), "");
    str_add(&s, "");
    str_add_n(&s, NULL, 0);
    assert_string_equal(str_text(&s), "");
    str_add_n(&s, "abcdef", 3);
    str_char(&s, '-');
    str_printf(&s, "%d %s %5.2s|%%|%zu", -7, "x", "long", (size_t)9);
    assert_string_equal(str_text(&s), "abc--7 x    lo|%|9");
    assert_int_equal(s.len, strlen(s.data));
    arena_free(&a);
}

static void test_builder_grows(void **state)
{
    (void)state;
    Arena a = {0};
    Str s = str_new(&a);
    for (int i = 0; i < 20000; i++) {
        str_printf(&s, "%06d", i);
        assert_int_equal(s.data[s.len], 0);
    }
    assert_int_equal(s.len, 120000);
    assert_memory_equal(s.data + 6 * 12345, "012345", 6);
    arena_free(&a);
}

static void print_a_float(void)
{
    Arena a = {0};
    Str s = str_new(&a);
    str_printf(&s, "%d%% %-8.3Lf", 1, (long double)2);
}

static void test_floats_by_printf_are_a_bug(void **state)
{
    (void)state;
    assert_aborts(print_a_float);
}

static const struct {
    double v;
    const char *text;
} f64_samples[] = {
    {0.0, "0.0"},
    {-0.0, "-0.0"},
    {1, "1.0"},
    {-1.5, "-1.5"},
    {0.1, "0.1"},
    {0.1 + 0.2, "0.30000000000000004"},
    {100, "100.0"},
    {123456789, "123456789.0"},
    {1e15, "1000000000000000.0"},
    {1e16, "1e16"},
    {1e-5, "0.00001"},
    {1e-6, "1e-6"},
    {1.25e-7, "1.25e-7"},
    {1e300, "1e300"},
    {DBL_MAX, "1.7976931348623157e308"},
    {DBL_MIN, "2.2250738585072014e-308"},
    {5e-324, "5e-324"},
    {9007199254740993.0, "9007199254740992.0"},
    {HUGE_VAL, "inf"},
    {-HUGE_VAL, "-inf"},
    {(double)NAN, "nan"},
    {-(double)NAN, "nan"},
};

static void test_f64_texts(void **state)
{
    (void)state;
    Arena a = {0};
    for (size_t i = 0; i < sizeof f64_samples / sizeof *f64_samples; i++)
        assert_string_equal(f64_text(&a, f64_samples[i].v), f64_samples[i].text);
    arena_free(&a);
}

static void test_f32_texts(void **state)
{
    (void)state;
    Arena a = {0};
    assert_string_equal(f32_text(&a, 0.1f), "0.1");
    assert_string_equal(f32_text(&a, 1.0f / 3), "0.33333334");
    assert_string_equal(f32_text(&a, 16777216.0f), "16777216.0");
    assert_string_equal(f32_text(&a, FLT_MAX), "3.4028235e38");
    assert_string_equal(f32_text(&a, FLT_MIN), "1.1754944e-38");
    assert_string_equal(f32_text(&a, 1e-45f), "1e-45");
    assert_string_equal(f32_text(&a, -0.0f), "-0.0");
    assert_string_equal(f32_text(&a, INFINITY), "inf");
    arena_free(&a);
}

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed ^ *seed >> 31;
}

// Every text reads back to the same bits, and dropping its last digit would not.
static void check_random_f32(Arena *a, uint32_t bits)
{
    float v = 0, back = 0;
    memcpy(&v, &bits, sizeof v);
    if (isnan(v) || isinf(v))
        return;
    const char *text = f32_text(a, v);
    double d = 0;
    assert_true(str_parse_f64(text, strlen(text), &d));
    back = (float)d;
    assert_memory_equal(&back, &v, sizeof v);
    assert_true(strchr(text, '.') || strchr(text, 'e'));
}

static void test_random_floats_read_back(void **state)
{
    (void)state;
    Arena a = {0};
    uint64_t seed = 1;
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = next_random(&seed);
        check_random_f32(&a, (uint32_t)bits);
        double v = 0, back = 0;
        memcpy(&v, &bits, sizeof v);
        const char *text = f64_text(&a, v);
        assert_true(str_parse_f64(text, strlen(text), &back));
        if (!isnan(v))
            assert_memory_equal(&back, &v, sizeof v);
        arena_reset(&a);
    }
    arena_free(&a);
}

static bool parses(const char *s, double want)
{
    double got = -77;
    return str_parse_f64(s, strlen(s), &got) && (got == want || (isnan(got) && isnan(want)));
}

static bool is_refused(const char *s)
{
    double got = -77;
    return !str_parse_f64(s, strlen(s), &got) && got == -77;
}

static void test_parse_f64(void **state)
{
    (void)state;
    assert_true(parses("1", 1) && parses("-1.5e3", -1500) && parses("+2.", 2) && parses(".5", 0.5));
    assert_true(parses("inf", HUGE_VAL) && parses("-inf", -HUGE_VAL) && parses("nan", (double)NAN));
    assert_true(parses("1e-400", 0) && parses("0x1p-2", 0.25));
    assert_true(is_refused("") && is_refused(" 1") && is_refused("1 ") && is_refused("1,5") &&
                is_refused("1e"));
    assert_true(is_refused("--1") && is_refused("1.2.3") && is_refused("1x") && is_refused(".") &&
                is_refused("-"));
    double v = 0;
    assert_true(str_parse_f64("12345", 3, &v)); // exactly n bytes
    assert_true(v == 123);
    assert_false(str_parse_f64("1\0", 2, &v));
    char digits[3000];
    memset(digits, '9', sizeof digits);
    digits[1] = '.';
    assert_true(str_parse_f64(digits, sizeof digits, &v) && v == 10.0);
}

static bool parse_i64(const char *s, int64_t want)
{
    int64_t got = ~want;
    return str_parse_i64(s, strlen(s), &got) && got == want;
}

static void test_parse_i64(void **state)
{
    (void)state;
    assert_true(parse_i64("0", 0) && parse_i64("-12", -12) && parse_i64("+7", 7) && parse_i64("007", 7));
    assert_true(parse_i64("9223372036854775807", INT64_MAX));
    assert_true(parse_i64("-9223372036854775808", INT64_MIN));
    int64_t v = 5;
    const char *bad[] = {"",   "-",  "+",   "9223372036854775808", "-9223372036854775809", "1.0",
                         " 1", "1 ", "0x1", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(str_parse_i64(bad[i], strlen(bad[i]), &v));
    assert_int_equal(v, 5);
    assert_true(str_parse_i64("123", 2, &v));
    assert_int_equal(v, 12);
}

static void test_comma_locale_changes_nothing(void **state)
{
    (void)state;
    if (!enter_comma_locale())
        skip();
    char proof[16];
    snprintf(proof, sizeof proof, "%.1f", 0.5);
    assert_string_equal(proof, "0,5");
    test_f64_texts(state);
    test_f32_texts(state);
    test_random_floats_read_back(state);
    test_parse_f64(state);
    setlocale(LC_ALL, "C");
}

static void test_small_helpers(void **state)
{
    (void)state;
    assert_true(str_equal("a", "a"));
    assert_false(str_equal("a", "A"));
    assert_true(str_ends_with("model.onnx", ".onnx") && str_ends_with("x", ""));
    assert_false(str_ends_with("onnx", ".onnx") || str_ends_with("model.onnx", ".json"));
}

static void test_closest(void **state)
{
    (void)state;
    static const char *const ops[] = {"matmul", "conv", "relu", "softmax", "add"};
    assert_string_equal(str_closest("matmlu", ops, 5), "matmul");
    assert_string_equal(str_closest("ReLU", ops, 5), "relu");
    assert_string_equal(str_closest("sofmax", ops, 5), "softmax");
    assert_string_equal(str_closest("conv2d", ops, 5), "conv");
    assert_null(str_closest("transpose", ops, 5));
    assert_null(str_closest("", ops, 5));
    assert_null(str_closest("x", ops, 5));
    assert_null(str_closest("relu", ops, 0));
    char longest[5000];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    const char *one = longest;
    assert_null(str_closest(longest, ops, 5));
    assert_null(str_closest("aaaa", &one, 1));
}

static void test_utf8(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n;
        uint32_t code;
    } cases[] = {
        {"a", 1, 'a'},
        {"\x7f", 1, 0x7f},
        {"\xc2\x80", 2, 0x80},
        {"\xdf\xbf-", 2, 0x7ff},
        {"\xe0\xa0\x80", 3, 0x800},
        {"\xed\x9f\xbf", 3, 0xd7ff},
        {"\xf0\x90\x80\x80", 4, 0x10000},
        {"\xf4\x8f\xbf\xbf", 4, 0x10ffff},
        {"\x80", 0, 0},             // no character begins so
        {"\xff\xbf\xbf\xbf", 0, 0}, // nor so
        {"\xc1\xbf", 0, 0},         // has a shorter form
        {"\xe0\x9f\xbf", 0, 0},
        {"\xf0\x8f\xbf\xbf", 0, 0},
        {"\xed\xa0\x80", 0, 0},     // half of a pair
        {"\xf4\x90\x80\x80", 0, 0}, // beyond the last one
        {"\xc3", 0, 0},             // cut off
        {"\xe2\x82", 0, 0},
        {"\xe2\x82z", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = cases[i].text;
        uint32_t code = 0;
        assert_int_equal(str_utf8(text, text + strlen(text), &code), cases[i].n);
        assert_int_equal(code, cases[i].code);
        assert_int_equal(str_utf8(text, text + strlen(text), NULL), cases[i].n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_builder),
        cmocka_unit_test(test_builder_grows),
        cmocka_unit_test(test_floats_by_printf_are_a_bug),
        cmocka_unit_test(test_f64_texts),
        cmocka_unit_test(test_f32_texts),
        cmocka_unit_test(test_random_floats_read_back),
        cmocka_unit_test(test_parse_f64),
        cmocka_unit_test(test_parse_i64),
        cmocka_unit_test(test_comma_locale_changes_nothing),
        cmocka_unit_test(test_small_helpers),
        cmocka_unit_test(test_closest),
        cmocka_unit_test(test_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
