// SPDX-License-Identifier: Apache-2.0
// Symbolic dims: canonical forms, division, ranges, values, and text in both directions.
#include "ir/graph/dim.h"
#include "unit.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct Fixture {
    Arena arena;
    DimTable table;
    Dim s, h, q; // s in [1, 100], h in [2, 64], q in [8, 64] by 8
} Fixture;

static int set_up(void **state)
{
    Fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->table.arena = &f->arena;
    f->s = dim_symbol(&f->table, "s", 1, 100, 1);
    f->h = dim_symbol(&f->table, "h", 2, 64, 1);
    f->q = dim_symbol(&f->table, "q", 8, 64, 8);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    Fixture *f = *state;
    arena_free(&f->arena);
    free(f);
    return 0;
}

static Dim parse(Fixture *f, const char *text)
{
    Dim d = 0;
    size_t at = 0;
    if (!dim_parse(&f->table, text, strlen(text), DIM_KNOWN_ONLY, &d, &at))
        fail_msg("'%s' does not parse at %zu", text, at);
    return d;
}

static const char *print(Fixture *f, Dim d)
{
    Str s = str_new(&f->arena);
    dim_print(&f->table, d, &s);
    return str_text(&s);
}

#define assert_prints(f, text, expected) assert_string_equal(print((f), parse((f), (text))), (expected))

static void test_numbers_from_outside(void **state)
{
    Fixture *f = *state;
    const int64_t wrong[] = {-1,        -DIM_MAX_VALUE, DIM_SYMBOLIC_BELOW, DIM_SYMBOLIC_BELOW - 1,
                             INT64_MIN, INT64_MIN + 1,  INT64_MIN + 4096,   DIM_MAX_VALUE + 1,
                             INT64_MAX, f->s,           f->q};
    Dim d = 7;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(dim_from_size(wrong[i], &d));
        assert_int_equal(d, 0);
        assert_true(dim_is_const(dim_from_entry(wrong[i])));
    }
    assert_true(dim_from_size(0, &d) && d == 0);
    assert_true(dim_from_size(DIM_MAX_VALUE, &d) && d == DIM_MAX_VALUE);
    assert_int_equal(dim_from_entry(-3), -3);
    assert_true(dim_is_valid(&f->table, f->s) && dim_is_valid(&f->table, -3));
    assert_false(dim_is_valid(&f->table, f->q + 1));
}

// The signal that ends a child that takes a number for a dim without dim_from_size.
static int ends_by(Fixture *f, int64_t raw)
{
    int status = 0;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        assert_non_null(freopen("/dev/null", "w", stderr));
        signal(SIGABRT, SIG_DFL);
        Str s = str_new(&f->arena);
        dim_print(&f->table, raw, &s);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void test_raw_numbers_name_no_expression(void **state)
{
    static const int64_t raw[] = {INT64_MIN, INT64_MIN + 1, INT64_MIN + 4096, DIM_SYMBOLIC_BELOW - 1};
    for (size_t i = 0; i < sizeof raw / sizeof *raw; i++)
        assert_int_equal(ends_by(*state, raw[i]), SIGABRT);
    assert_int_equal(ends_by(*state, ((Fixture *)*state)->s), 0);
}

static void test_equal_sums_are_one_dim(void **state)
{
    Fixture *f = *state;
    DimTable *t = &f->table;
    Dim a = dim_mul(t, dim_add(t, f->s, 1), 2);
    Dim b = dim_add(t, dim_mul(t, 2, f->s), 2);
    assert_true(a == b);
    assert_true(parse(f, "(s + h)*(s - h)") == parse(f, "s*s - h*h"));
    assert_true(parse(f, "(s + 1)*(h + 2)*q") == parse(f, "2*q + q*h + 2*s*q + s*h*q"));
    assert_true(dim_sub(t, a, a) == 0);
    assert_true(dim_sub(t, dim_add(t, f->s, f->h), f->h) == f->s);
    assert_true(dim_mul(t, f->s, 0) == 0);
    assert_true(parse(f, "s") != parse(f, "h"));
    assert_true(parse(f, "s*h") != parse(f, "s + h"));
}

static void test_symbols(void **state)
{
    Fixture *f = *state;
    assert_true(dim_symbol(&f->table, "s", 5, 6, 1) == f->s);
    assert_int_equal(f->table.symbols.data[0].max, 100);
    assert_int_equal(dim_find_symbol(&f->table, "h"), 1);
    assert_int_equal(dim_find_symbol(&f->table, "none"), -1);
    assert_int_equal(dim_as_symbol(&f->table, f->q), 2);
    assert_int_equal(dim_as_symbol(&f->table, dim_add(&f->table, f->q, 1)), -1);
    assert_int_equal(dim_as_symbol(&f->table, 7), -1);
}

static void test_division(void **state)
{
    Fixture *f = *state;
    assert_prints(f, "floor((4*s) / 2)", "2*s");
    assert_prints(f, "floor((4*s + 3) / 2)", "2*s + 1");
    assert_prints(f, "floor((4*s - 1) / 2)", "2*s - 1");
    assert_prints(f, "floor((4*s + h) / 2)", "2*s + floor(h / 2)");
    assert_prints(f, "floor((6*s + 4) / 9)", "floor((2*s + 1) / 3)");
    assert_prints(f, "floor(floor(s / 2) / 3)", "floor(s / 6)");
    assert_prints(f, "floor((floor((s - 1) / 2) + 1) / 2)", "floor((s + 1) / 4)");
    assert_prints(f, "floor(s / 101)", "0");
    assert_prints(f, "floor(s*h*4 / (2*h))", "2*s");
    assert_prints(f, "floor((s*q + q) / (s + 1))", "q");
    assert_prints(f, "floor((s*q + q + h*s + h) / (s + 1))", "h + q");
    assert_prints(f, "ceil(s*h / h)", "s");
    assert_prints(f, "ceil(s / 1)", "s");
    assert_prints(f, "ceil(s / 4)", "floor((s + 3) / 4)");
    assert_prints(f, "floor((s*h + s) / h)", "s + floor(s / h)");
    assert_true(dim_floor_div(&f->table, -7, 2) == -4);
    assert_true(dim_ceil_div(&f->table, 7, 2) == 4);
    assert_true(dim_mod(&f->table, -7, 4) == 1);
}

static void test_mod(void **state)
{
    Fixture *f = *state;
    assert_prints(f, "mod(q, 4)", "0");
    assert_prints(f, "mod(q + 3, 8)", "3");
    assert_prints(f, "mod(5*s - 1, 4)", "mod(s + 3, 4)");
    assert_prints(f, "mod(s, 101)", "s");
    assert_prints(f, "mod(s*h, h)", "0");
    assert_prints(f, "mod(s*h + 1, h)", "1");
    assert_prints(f, "mod(s, h)", "mod(s, h)");
}

static void test_min_max(void **state)
{
    Fixture *f = *state;
    assert_prints(f, "min(s, s + 1)", "s");
    assert_prints(f, "max(s, s + 1)", "s + 1");
    assert_prints(f, "min(s, 100)", "s");
    assert_prints(f, "max(s, 0)", "s");
    assert_prints(f, "min(s, 50)", "min(50, s)");
    assert_prints(f, "min(50, s)", "min(50, s)");
    assert_prints(f, "min(min(s, 50), 30)", "min(30, s)");
    assert_prints(f, "min(h, min(s, h))", "min(s, h)");
    assert_true(parse(f, "min(s, h)") == parse(f, "min(h, s)"));
}

// As exporters of Keras write the last row of a loop that may not run at all.
static void test_sums_of_min_max(void **state)
{
    Fixture *f = *state;
    int64_t min = -1, max = -1;
    dim_symbol(&f->table, "z", 0, 9, 1);
    assert_prints(f, "max(0, s - max(0, s - 1))", "1");
    assert_prints(f, "max(0, z - max(0, z - 1))", "min(1, z)");
    assert_prints(f, "z - max(0, z - 3)", "min(3, z)");
    assert_prints(f, "max(0, z - 3) - z", "max(-3, -z)");
    assert_prints(f, "s + h - min(s, h)", "s + h - min(s, h)");
    dim_range(&f->table, parse(f, "z - max(0, z - 1)"), &min, &max);
    assert_int_equal(min, 0);
    assert_int_equal(max, 1);
    for (int64_t z = 0; z <= 9; z++) {
        int64_t values[] = {1, 2, 8, z}, got = 0;
        assert_true(dim_eval(&f->table, parse(f, "z - max(2*z - 7, z - 3)"), (DimValues){values, 4}, &got));
        assert_int_equal(got, z - (2 * z - 7 > z - 3 ? 2 * z - 7 : z - 3));
    }
}

static void test_unknown(void **state)
{
    Fixture *f = *state;
    DimTable *t = &f->table;
    Dim zero_divisor = dim_floor_div(t, f->s, 0);
    assert_true(dim_is_unknown(t, zero_divisor));
    assert_true(dim_is_unknown(t, dim_mod(t, f->s, -1)));
    assert_true(dim_is_unknown(t, dim_add(t, zero_divisor, 1)));
    assert_true(dim_is_unknown(t, dim_mul(t, INT64_C(1) << 40, INT64_C(1) << 40)));
    assert_true(dim_is_unknown(t, dim_add(t, (INT64_C(1) << 62) - 1, 1)));
    assert_true(dim_is_unknown(t, dim_mul(t, dim_mul(t, f->s, INT64_C(1) << 40), INT64_C(1) << 40)));
    assert_false(dim_is_unknown(t, f->s));
    assert_true(dim_floor_div(t, f->s, 0) != zero_divisor);
    int64_t v = 0, values[] = {1, 2, 8};
    assert_false(dim_eval(t, zero_divisor, (DimValues){values, 3}, &v));
}

// Squaring doubles the number of terms; nesting doubles the tree. Both must end as unknown, soon.
static void test_growth_is_bounded(void **state)
{
    Fixture *f = *state;
    DimTable *t = &f->table;
    Dim d = dim_add(t, dim_add(t, f->s, f->h), dim_add(t, f->q, 1));
    for (int i = 0; i < 1000; i++)
        d = dim_mul(t, d, d);
    assert_true(dim_is_unknown(t, d));
    d = f->s;
    for (int i = 0; i < 1000; i++)
        d = dim_mod(t, dim_mul(t, d, f->h), dim_add(t, d, f->h));
    assert_true(dim_is_unknown(t, d));
}

static void test_range(void **state)
{
    Fixture *f = *state;
    static const struct {
        const char *text;
        int64_t min, max;
    } rows[] = {
        {"7", 7, 7},         {"s", 1, 100},           {"2*s - h", -62, 198},
        {"s*h", 2, 6400},    {"floor(s / h)", 0, 50}, {"floor((s - 50) / 3)", -17, 16},
        {"mod(s, 7)", 0, 6}, {"min(s, h)", 1, 64},    {"max(s, h)", 2, 100},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t min = 0, max = 0;
        dim_range(&f->table, parse(f, rows[i].text), &min, &max);
        assert_int_equal(min, rows[i].min);
        assert_int_equal(max, rows[i].max);
    }
}

static void test_range_saturates(void **state)
{
    Fixture *f = *state;
    DimTable *t = &f->table;
    Dim big = dim_symbol(t, "big", 1, DIM_MAX_VALUE, 1);
    int64_t min = 0, max = 0;
    dim_range(t, dim_mul(t, big, dim_mul(t, big, big)), &min, &max);
    assert_int_equal(min, 1);
    assert_true(max == INT64_C(1) << 61);
    dim_range(t, dim_sub(t, 0, dim_mul(t, big, big)), &min, &max);
    assert_true(min == -(INT64_C(1) << 61));
    assert_int_equal(max, -1);
}

// Every form agrees with plain arithmetic on the values of its symbols, also after substitution of one of
// them.
static void test_eval_and_substitute(void **state)
{
    Fixture *f = *state;
    DimTable *t = &f->table;
    static const char *const texts[] = {
        "2*s*h - 3*q + 5",     "floor((s*h + 3*s + 1) / 7)", "floor((s + q) / (h + 1))", "mod(5*s + h, 12)",
        "mod(s*h, s + 3)",     "min(s, floor(h / 2))",       "max(s*2, h + q)",          "ceil((s + h) / 8)",
        "floor(s*h / (s + 1))"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Dim d = parse(f, texts[i]);
        for (int64_t s = 1; s <= 100; s += 9) {
            for (int64_t h = 2; h <= 64; h += 5) {
                int64_t q = 8 + 8 * (s % 7), all[] = {s, h, q}, some[] = {s, -1, q};
                int64_t expected[] = {2 * s * h - 3 * q + 5,
                                      (s * h + 3 * s + 1) / 7,
                                      (s + q) / (h + 1),
                                      (5 * s + h) % 12,
                                      s * h % (s + 3),
                                      s < h / 2 ? s : h / 2,
                                      s * 2 > h + q ? s * 2 : h + q,
                                      (s + h + 7) / 8,
                                      s * h / (s + 1)};
                int64_t got = 0;
                assert_true(dim_eval(t, d, (DimValues){all, 3}, &got));
                assert_int_equal(got, expected[i]);
                assert_false(dim_eval(t, d, (DimValues){some, 3}, &got));
                Dim partly = dim_substitute(t, d, (DimValues){some, 3});
                assert_true(dim_eval(t, partly, (DimValues){all, 3}, &got));
                assert_int_equal(got, expected[i]);
                assert_true(dim_substitute(t, d, (DimValues){all, 3}) == expected[i]);
                int64_t min = 0, max = 0;
                dim_range(t, d, &min, &max);
                assert_true(min <= got && got <= max);
            }
        }
    }
}

static void test_print_and_parse_are_inverse(void **state)
{
    Fixture *f = *state;
    static const char *const texts[] = {"-3",
                                        "s",
                                        "-s + 1",
                                        "2*s*h - 3*q + 5",
                                        "s*s + s*h + 1",
                                        "floor(s / h)",
                                        "floor((s*h + 1) / (s + q))",
                                        "floor((2*s) / 3)",
                                        "mod(s - 4, h)",
                                        "q*max(s, h) + min(50, s)",
                                        "min(30, floor(s / 3) + mod(s, 7))",
                                        "-floor(s / 2)*floor(h / 3) + s"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_prints(f, texts[i], texts[i]);
    assert_prints(f, "floor((-3) / h)", "floor((-3) / h)");
}

// The order of terms must not depend on which expression was made first.
static void test_order_is_structural(void **state)
{
    Fixture *f = *state;
    Dim a = parse(f, "floor(s / 3)"), b = parse(f, "floor(s / 2)"), c = parse(f, "mod(h, 5)");
    Dim sum = dim_add(&f->table, dim_add(&f->table, c, a), b);
    assert_string_equal(print(f, sum), "floor(s / 2) + floor(s / 3) + mod(h, 5)");
}

static void test_quoted_symbols(void **state)
{
    Fixture *f = *state;
    Dim d = dim_symbol(&f->table, "batch \"size\"\n\x01", 1, 8, 1);
    Dim sum = dim_add(&f->table, dim_mul(&f->table, 2, d), f->s);
    const char *text = print(f, sum);
    assert_string_equal(text, "s + 2*\"batch \\\"size\\\"\\n\\x01\"");
    assert_true(parse(f, text) == sum);
    assert_true(dim_symbol(&f->table, "floor", 1, 8, 1) == parse(f, "floor"));
}

static void test_parse_errors(void **state)
{
    Fixture *f = *state;
    static const struct {
        const char *text;
        size_t at;
    } rows[] = {
        {"", 0},
        {"s +", 3},
        {"s s", 2},
        {"2*unknown", 2},
        {"floor(s)", 7},
        {"min(s / 2)", 6},
        {"(s", 2},
        {"s / 2", 2},
        {"\"s", 2},
        {"99999999999999999999", 0},
        {"4611686018427387904", 0},
        {"floor(s / 0)", 0},
        {"floor(s + 1 / 2)", 8},
        {"floor(s/2 - 1)", 10},
        {"s\n", 1},
        {"\"\\q\"", 1},
        {"\"a\\x00\"", 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Dim d = 12345;
        size_t at = 999;
        assert_false(dim_parse(&f->table, rows[i].text, strlen(rows[i].text), DIM_KNOWN_ONLY, &d, &at));
        assert_int_equal(d, 12345);
        assert_int_equal(at, rows[i].at);
    }
}

static void test_parse_nesting_is_limited(void **state)
{
    Fixture *f = *state;
    char text[4096];
    Dim d = 0;
    memset(text, '(', sizeof text);
    assert_false(dim_parse(&f->table, text, sizeof text, DIM_KNOWN_ONLY, &d, NULL));
    for (size_t i = 0; i + 6 <= sizeof text; i += 6)
        memcpy(text + i, "floor(", 6);
    assert_false(dim_parse(&f->table, text, sizeof text, DIM_KNOWN_ONLY, &d, NULL));
    assert_true(parse(f, "((((((((s))))))))") == f->s);
}

static void test_parse_adds_symbols(void **state)
{
    Fixture *f = *state;
    Dim d = 0;
    assert_true(dim_parse(&f->table, "new + 1 ignored", 7, DIM_ADD_SYMBOLS, &d, NULL));
    int32_t i = dim_find_symbol(&f->table, "new");
    assert_int_equal(i, 3);
    assert_int_equal(f->table.symbols.data[i].min, 1);
    assert_true(f->table.symbols.data[i].max == DIM_MAX_VALUE);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_numbers_from_outside),
        TEST(test_raw_numbers_name_no_expression),
        TEST(test_equal_sums_are_one_dim),
        TEST(test_symbols),
        TEST(test_division),
        TEST(test_mod),
        TEST(test_min_max),
        TEST(test_sums_of_min_max),
        TEST(test_unknown),
        TEST(test_growth_is_bounded),
        TEST(test_range),
        TEST(test_range_saturates),
        TEST(test_eval_and_substitute),
        TEST(test_print_and_parse_are_inverse),
        TEST(test_order_is_structural),
        TEST(test_quoted_symbols),
        TEST(test_parse_errors),
        TEST(test_parse_nesting_is_limited),
        TEST(test_parse_adds_symbols),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
