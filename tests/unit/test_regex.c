// SPDX-License-Identifier: Apache-2.0
// Regular expressions: which strings match as a whole, and what is wrong with patterns.
#include "compiler/import/onnx/text/onnx_regex.h"
#include "unit.h"

#include <string.h>

static Arena arena;

static bool matches(const char *pattern, const char *text)
{
    const char *error = NULL;
    Automaton a;
    const RegexNode *tree = regex_parse(&arena, pattern, strlen(pattern), &error);
    if (!tree || !regex_automaton(&arena, tree, &a, &error))
        fail_msg("%s: %s", pattern, error);
    int32_t state = 0;
    for (const char *c = text; *c; c++)
        state = a.table[(uint32_t)state * a.n_classes + (uint32_t)a.classes[(uint8_t)*c]];
    return a.result[state] == 1;
}

typedef struct Match {
    const char *pattern, *text;
    bool matches;
} Match;

static const Match cases[] = {
    {"", "", true},
    {"", "a", false},
    {"abc", "abc", true},
    {"abc", "abcd", false},
    {"a|bc|", "bc", true},
    {"a|bc|", "", true},
    {"a*b+c?", "aabb", true},
    {"a*b+c?", "aac", false},
    {"(?:ab){2,3}", "abab", true},
    {"(?:ab){2,3}", "ab", false},
    {"(?:ab){2,3}", "abababab", false},
    {"a{2}{2}", "aaaa", true},
    {"a{,2}", "a{,2}", true},
    {"[a-c\\d]+", "a1b2c3", true},
    {"[^a-c]", "d", true},
    {"[^a-c]", "\n", true},
    {"[]a]+", "]a]", true},
    {"[a-]+", "a-a", true},
    {".", "\n", false},
    {"(?s).", "\n", true},
    {".", "\xc3\xa9", true},
    {"..", "\xc3\xa9", false},
    {"[\xc3\xa0-\xc3\xbf]", "\xc3\xa9", true},
    {"[^\xc3\xa9]", "\xf0\x9f\x98\x80", true},
    {"[^\xc3\xa9]", "\xc3\xa9", false},
    {"\\x{1F600}", "\xf0\x9f\x98\x80", true},
    {".", "\xc3", false},
    {"(?i)stra\xc3\x9f\x65 \xc3\xa9", "STRA\xc3\x9f\x45 \xc3\x89", true},
    {"(?i:a)b", "Ab", true},
    {"(?i:a)b", "AB", false},
    {"a(?i)b|c", "aB", true},
    {"\\bfoo\\b.*", "foo bar", true},
    {"\\bfoo\\b.*", "foobar", false},
    {"fo\\Bo", "foo", true},
    {"^a$", "a", true},
    {"a^b", "ab", false},
    {"a$\\n^b", "a\nb", false},
    {"(?m)a$\\n^b", "a\nb", true},
    {"\\Aa\\z", "a", true},
    {"\\Qa.b\\E+", "a.bbb", true},
    {"\\Qa.b\\E", "axb", false},
    {"[[:alpha:]]+[[:^digit:]]", "ab!", true},
    {"\\w+\\W\\s?\\S", "ab- x", true},
    {"(?P<name>a)(b)", "ab", true},
    {"a*?b+?", "aab", true},
    {"\\x41\\102\\t", "AB\t", true},
};

static void test_matches(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (matches(cases[i].pattern, cases[i].text) != cases[i].matches)
            fail_msg("'%s' on '%s': expected %d", cases[i].pattern, cases[i].text, cases[i].matches);
}

static const struct {
    const char *pattern, *error;
} wrong[] = {
    {"(", "is not closed"},
    {"a)", "was not opened"},
    {"[a", "is not closed"},
    {"*a", "nothing to repeat"},
    {"a{3,2}", "reversed"},
    {"[b-a]", "reversed"},
    {"a{1001}", "more than 1000"},
    {"\\pL", "class of Unicode"},
    {"(a)\\1", "back reference"},
    {"(?=a)", "not supported"},
    {"\xff", "UTF-8"},
    {"[[:nix:]]", "does not exist"},
    {"((((((((((a{100}){100}){100}){100}){100}){100}){100}){100}){100}){100})", "too long"},
    {"(.*a.{20})", "4096 states"},
};

static void test_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *error = NULL, *pattern = wrong[i].pattern;
        Automaton a;
        const RegexNode *tree = regex_parse(&arena, pattern, strlen(pattern), &error);
        assert_true(!tree || !regex_automaton(&arena, tree, &a, &error));
        if (!strstr(error, wrong[i].error))
            fail_msg("'%s': got '%s', expected '%s'", pattern, error, wrong[i].error);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_matches), cmocka_unit_test(test_errors)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_free(&arena);
    return failed;
}
