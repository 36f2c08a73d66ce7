// SPDX-License-Identifier: Apache-2.0
// Diagnostics: the exact text that users see, the limits, and that nothing hostile reaches the terminal.
#include "base/diag.h"
#include "base/str.h"
#include "unit.h"

static const char *printed(Diag *d, DiagStyle style)
{
    FILE *f = tmpfile();
    assert_non_null(f);
    diag_print(d, f, style);
    long n = ftell(f);
    assert_true(n >= 0);
    rewind(f);
    char *text = arena_alloc(d->arena, (size_t)n + 1);
    assert_int_equal(fread(text, 1, (size_t)n, f), n);
    fclose(f);
    return text;
}

// A span over the first occurrence of `what` in the text.
static Span span_of(uint32_t file, const char *text, const char *what)
{
    const char *p = strstr(text, what);
    assert_non_null(p);
    uint32_t begin = (uint32_t)(p - text);
    return (Span){.file = file, .begin = begin, .end = begin + (uint32_t)strlen(what)};
}

static void test_place_path_and_caret(void **state)
{
    (void)state;
    Arena a = {0};
    Diag d = diag_new(&a);
    const char *text = "{\n\t\"inputs\": [\"x\", 31],\n}\n";
    Span span = span_of(diag_add_file(&d, "m.json", text, strlen(text)), text, "31");
    span.path = "/nodes/3/inputs/0";
    assert_false(diag_error(&d, span, E0102, "expected %s, found %d", "a name", 31));
    assert_int_equal(d.n_errors, 1);
    assert_string_equal(printed(&d, DIAG_PLAIN), "m.json:2:18: error[E0102]: expected a name, found 31\n"
                                                 "  at /nodes/3/inputs/0\n"
                                                 "    2 | \t\"inputs\": [\"x\", 31],\n"
                                                 "      | \t                ^~\n");
    arena_free(&a);
}

static void test_without_file_and_with_binary_file(void **state)
{
    (void)state;
    Arena a = {0};
    Diag d = diag_new(&a);
    uint32_t file = diag_add_file(&d, "m.onnx", NULL, 100);
    diag_error(&d, (Span){0}, E0003, "unknown option");
    diag_warning(&d, (Span){.file = file, .begin = 3, .path = "Conv_7"}, E0206, "opset 99");
    diag_note(&d, (Span){.file = 77}, "supported: up to 23");
    assert_string_equal(printed(&d, DIAG_PLAIN), "rlxc: error[E0003]: unknown option\n"
                                                 "m.onnx: warning[E0206]: opset 99\n"
                                                 "  at Conv_7\n"
                                                 "rlxc: note: supported: up to 23\n");
    assert_int_equal(d.n_errors, 1);
    arena_free(&a);
}

static const char *print_one(Arena *a, const char *text, size_t len, uint32_t begin, uint32_t end)
{
    Diag d = diag_new(a);
    uint32_t file = diag_add_file(&d, "f", text, len);
    diag_error(&d, (Span){.file = file, .begin = begin, .end = end}, E0101, "x");
    return printed(&d, DIAG_PLAIN);
}

static void test_ends_of_lines_and_files(void **state)
{
    (void)state;
    Arena a = {0};
    assert_string_equal(print_one(&a, "", 0, 0, 0), "f:1:1: error[E0101]: x\n    1 | \n      | ^\n");
    assert_string_equal(print_one(&a, "ab", 2, 9, 9), "f:1:3: error[E0101]: x\n    1 | ab\n      |   ^\n");
    assert_string_equal(print_one(&a, "ab\n", 3, 3, 3), "f:2:1: error[E0101]: x\n    2 | \n      | ^\n");
    assert_string_equal(print_one(&a, "ab\r\ncd\r\n", 8, 0, 9),
                        "f:1:1: error[E0101]: x\n    1 | ab\n      | ^~\n"); // cut to its first line
    assert_string_equal(print_one(&a, "ab\ncd", 5, 2, 2),
                        "f:1:3: error[E0101]: x\n    1 | ab\n      |   ^\n");
    assert_string_equal(print_one(&a, "abc", 3, 2, 1), "f:1:3: error[E0101]: x\n    1 | abc\n      |   ^\n");
    // The text is not zero-terminated: len alone says where it ends.
    assert_string_equal(print_one(&a, "abX", 2, 1, 3), "f:1:2: error[E0101]: x\n    1 | ab\n      |  ^\n");
    arena_free(&a);
}

static void test_columns_count_characters(void **state)
{
    (void)state;
    Arena a = {0};
    const char *text = "\"h\xc3\xb6he \xe2\x82\xac\": 1";
    assert_string_equal(print_one(&a, text, strlen(text), (uint32_t)strlen(text) - 1, (uint32_t)strlen(text)),
                        "f:1:11: error[E0101]: x\n    1 | \"h\xc3\xb6he \xe2\x82\xac\": 1\n"
                        "      |           ^\n");
    arena_free(&a);
}

static void test_nothing_hostile_is_printed(void **state)
{
    (void)state;
    Arena a = {0};
    // escape, overlong, surrogate, stray continuation, cut sequence, C1 control, text direction override
    const char *text = "\x1b[2J\xc0\x80\xed\xa0\x80\x80\xc2\x9b\xe2\x80\xae\x7f|\xe2\x82";
    assert_string_equal(print_one(&a, text, strlen(text), 0, 1),
                        "f:1:1: error[E0101]: x\n    1 | ?[2J????????????|??\n      | ^\n");
    Diag d = diag_new(&a);
    diag_error(&d, (Span){.path = "/a\x1b"}, E0103, "unknown \"%s\"", "\x1b]0;x\a\xff\n\xc3\xb6");
    assert_string_equal(printed(&d, DIAG_PLAIN),
                        "rlxc: error[E0103]: unknown \"\\x1b]0;x\\x07\\xff\n  \xc3\xb6\"\n  at /a\\x1b\n");
    arena_free(&a);
}

static void test_overlong_lines_are_cut_around_the_column(void **state)
{
    (void)state;
    Arena a = {0};
    enum { N = 100000 };
    char *text = arena_alloc(&a, N + 1);
    memset(text, '.', N);
    for (uint32_t at = 0; at <= N; at += at < 200 ? 1 : 9999) {
        if (at < N)
            text[at] = '#';
        const char *out = print_one(&a, text, N, at, at + 1);
        const char *source = strchr(out, '\n') + 1, *caret = strchr(source, '\n') + 1;
        assert_true(strlen(source) < 260);
        size_t column = strcspn(caret, "^");
        assert_int_equal(source[column], at < N ? '#' : '\n');
        if (at < N)
            text[at] = '.';
    }
    arena_free(&a);
}

static void test_multibyte_overlong_line(void **state)
{
    (void)state;
    Arena a = {0};
    Str s = str_new(&a);
    for (int i = 0; i < 500; i++)
        str_add(&s, "\xe2\x82\xac");
    str_add(&s, "!");
    const char *out = print_one(&a, s.data, s.len, (uint32_t)s.len - 1, (uint32_t)s.len);
    assert_non_null(strstr(out, "f:1:501:"));
    assert_non_null(strstr(out, "| ...\xe2\x82\xac"));
    assert_non_null(strstr(out, "\xe2\x82\xac!\n"));
    assert_null(strchr(out, '?'));
    arena_free(&a);
}

// Any bytes, any span: one line of source, one caret under it, and only printable text.
static void test_random_texts_and_spans(void **state)
{
    (void)state;
    Arena a = {0};
    uint32_t seed = 1;
    for (int round = 0; round < 3000; round++) {
        size_t len = (seed >> 8) % 300;
        char *text = arena_alloc(&a, len);
        for (size_t i = 0; i < len; i++) {
            seed = seed * 1664525u + 1013904223u;
            text[i] = (char)(seed >> 24);
        }
        seed = seed * 1664525u + 1013904223u;
        const char *out = print_one(&a, text, len, (seed >> 8) % 310, (seed >> 16) % 310);
        uint32_t lines = 0;
        for (const char *p = out; *p; p++) {
            lines += *p == '\n';
            assert_true((unsigned char)*p >= 0x20 || *p == '\n' || *p == '\t');
            assert_true(*p != 0x7f);
        }
        assert_int_equal(lines, 3);
        arena_reset(&a);
    }
    arena_free(&a);
}

static void test_limits(void **state)
{
    (void)state;
    Arena a = {0};
    Diag d = diag_new(&a);
    for (int i = 0; i < 1000; i++) {
        diag_error(&d, (Span){0}, E0103, "number %d", i);
        diag_note(&d, (Span){0}, "note %d", i);
    }
    diag_warning(&d, (Span){0}, E0103, "late warning");
    assert_int_equal(d.n_errors, 1000);
    assert_int_equal(d.items.len, 2 * DIAG_MAX_ERRORS);
    const char *out = printed(&d, DIAG_PLAIN);
    assert_non_null(strstr(out, "number 19\n"));
    assert_non_null(strstr(out, "note 19\n"));
    assert_null(strstr(out, "number 20"));
    assert_null(strstr(out, "note 20")); // a note whose error was dropped is dropped too
    assert_non_null(strstr(out, "rlxc: 980 more errors are not shown\n"));
    arena_free(&a);
}

static void test_warnings_are_limited_and_errors_still_shown(void **state)
{
    (void)state;
    Arena a = {0};
    Diag d = diag_new(&a);
    diag_note(&d, (Span){0}, "a note to nothing");
    assert_int_equal(d.items.len, 0);
    for (int i = 0; i < 100000; i++)
        diag_warning(&d, (Span){0}, E0206, "w");
    assert_int_equal(d.items.len, DIAG_MAX_ITEMS);
    diag_error(&d, (Span){0}, E0201, "the error");
    assert_non_null(strstr(printed(&d, DIAG_PLAIN), "the error"));
    for (int i = 0; i < 100000; i++)
        diag_note(&d, (Span){0}, "n");
    assert_true(d.items.len <= 2 * DIAG_MAX_ITEMS);
    arena_free(&a);
}

static void test_what_is_given_is_copied(void **state)
{
    (void)state;
    Arena a = {0};
    Diag d = diag_new(&a);
    char name[] = "name", path[] = "/path";
    uint32_t file = diag_add_file(&d, name, NULL, 0);
    diag_error(&d, (Span){.file = file, .path = path}, E0001, "%s", "m");
    name[0] = path[1] = 'X';
    assert_string_equal(printed(&d, DIAG_PLAIN), "name: error[E0001]: m\n  at /path\n");
    arena_free(&a);
}

static void test_colours(void **state)
{
    (void)state;
    Arena a = {0};
    Diag d = diag_new(&a);
    uint32_t file = diag_add_file(&d, "f", "abc", 3);
    diag_error(&d, (Span){.file = file, .begin = 1, .end = 3}, E0101, "x");
    assert_null(strchr(printed(&d, DIAG_PLAIN), '\033'));
    assert_string_equal(printed(&d, DIAG_COLOUR),
                        "\033[1mf:1:2:\033[0m \033[1;31merror[E0101]:\033[0m x\n    1 | abc\n"
                        "      |  \033[1;32m^~\033[0m\n");
    arena_free(&a);
}

static void test_codes(void **state)
{
    (void)state;
    DiagCode code = E0001;
    assert_true(diag_code_parse("E0102", &code));
    assert_int_equal(code, E0102);
    assert_true(diag_code_parse("e0401", &code));
    assert_int_equal(code, E0401);
    assert_false(diag_code_parse("E9999", &code));
    assert_false(diag_code_parse("", &code));
    assert_false(diag_code_parse("0102", &code));
    assert_false(diag_code_parse("E01020", &code));
    for (uint32_t i = 0; i < DIAG_CODE_COUNT; i++) {
        assert_true(diag_code_parse(diag_code_text((DiagCode)i), &code));
        assert_int_equal(code, i);
        assert_true(strlen(diag_code_title((DiagCode)i)) > 3);
        assert_true(strlen(diag_code_explanation((DiagCode)i)) > 20);
        if (i > 0)
            assert_true(strcmp(diag_code_text((DiagCode)(i - 1)), diag_code_text((DiagCode)i)) < 0);
    }
}

static void hit_a_bug(void)
{
    rlx_assert(1 + 1 == 3);
}

static void hit_no_bug(void)
{
    rlx_assert(1 + 1 == 2);
}

static void test_assert(void **state)
{
    (void)state;
    assert_aborts(hit_a_bug);
    assert_int_equal(status_of(hit_no_bug), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_place_path_and_caret),
        cmocka_unit_test(test_without_file_and_with_binary_file),
        cmocka_unit_test(test_ends_of_lines_and_files),
        cmocka_unit_test(test_columns_count_characters),
        cmocka_unit_test(test_nothing_hostile_is_printed),
        cmocka_unit_test(test_overlong_lines_are_cut_around_the_column),
        cmocka_unit_test(test_multibyte_overlong_line),
        cmocka_unit_test(test_random_texts_and_spans),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_warnings_are_limited_and_errors_still_shown),
        cmocka_unit_test(test_what_is_given_is_copied),
        cmocka_unit_test(test_colours),
        cmocka_unit_test(test_codes),
        cmocka_unit_test(test_assert),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
