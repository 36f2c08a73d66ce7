// SPDX-License-Identifier: Apache-2.0
// The library for programs that get schemas and conversations while they run: what it takes, what it says.
#include "compiler/text/rlxc_text.h"
#include "runtime-lite/text/rlx_grammar.h"
#include "unit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static char why[128];

static bool keeps(const rlxc_grammar *g, const char *text)
{
    static unsigned char memory[RLX_PARSE_BYTES(200)];
    rlx_parse p;
    assert_int_equal(rlx_parse_start(&p, rlxc_grammar_tables(g), memory, sizeof memory), 0);
    return rlx_parse_feed(&p, (const uint8_t *)text, strlen(text)) == 0 && rlx_parse_can_end(&p);
}

static rlxc_schema schema(const char *name, const char *text)
{
    return (rlxc_schema){name, text, strlen(text)};
}

static void test_grammars(void **state)
{
    const rlxc_schema schemas[] = {
        schema("A", "{\"$ref\":\"#/$defs/x\",\"$defs\":{\"x\":{\"enum\":[1,2]}}}"),
        schema("B", "{\"$ref\":\"#/$defs/x\",\"$defs\":{\"x\":{\"type\":\"boolean\"}}}"),
    };
    const char gbnf[] = "root ::= \"a \" A | \"b \" B | More\nMore ::= \"\\U0001F600\"";
    rlxc_grammar *g = rlxc_grammar_read(gbnf, strlen(gbnf), schemas, 2, why, sizeof why);
    (void)state;
    assert_non_null(g);
    assert_true(keeps(g, "a 2"));
    assert_false(keeps(g, "b 2")); // the places of one schema are not those of another
    assert_true(keeps(g, "b true"));
    assert_true(keeps(g, "\xf0\x9f\x98\x80"));
    rlxc_grammar_free(g);
    g = rlxc_grammar_read("root ::= \"x\"", 12, NULL, 0, NULL, 0);
    assert_true(keeps(g, "x"));
    rlxc_grammar_free(g);
    rlxc_grammar_free(NULL);
}

static void wrong(const char *gbnf, const char *text, const char *expected)
{
    const rlxc_schema one = schema("A", text);
    why[0] = '\0';
    assert_null(rlxc_grammar_read(gbnf, strlen(gbnf), &one, 1, why, sizeof why));
    if (strstr(why, expected) == NULL)
        fail_msg("%s, not: %s", why, expected);
    assert_null(rlxc_grammar_read(gbnf, strlen(gbnf), &one, 1, NULL, 0));
}

static void test_wrong_grammars(void **state)
{
    (void)state;
    wrong("root ::= A", "{", "");
    wrong("root ::= A", "", "");
    wrong("root ::= A", "{\"type\":\"string\",\"format\":\"email\",\"pattern\":\"x\"}", "keyword pattern");
    wrong("root ::= A", "{\"properties\":{\"x\":{\"type\":\"cat\"}}}", "/properties/x: ");
    wrong("root ::= C", "{}", "no rule C");
    wrong("", "{}", "root");
}

static void test_templates(void **state)
{
    const char text[] = "{% if tools is none %}{{ raise_exception('no ' + x) }}{% endif %}"
                        "{{ tools | tojson }}";
    rlxc_template *t = rlxc_template_read(text, strlen(text), why, sizeof why);
    const char some[] = "{\"tools\": [{\"a\": \"\xc3\xa4<\"}]}";
    const char none[] = "{\"tools\": null, \"x\": \"tools\"}";
    size_t n = 0;
    (void)state;
    assert_non_null(t);
    char *out = rlxc_template_render(t, some, strlen(some), &n, why, sizeof why);
    assert_string_equal(out, "[{\"a\": \"\xc3\xa4<\"}]");
    assert_int_equal(n, strlen(out));
    free(out);
    for (int i = 0; i < 50; i++) // messages do not pile up
        assert_null(rlxc_template_render(t, none, strlen(none), NULL, why, sizeof why));
    assert_string_equal(why, "no tools");
    assert_null(rlxc_template_render(t, "[]", 2, NULL, why, sizeof why));
    assert_non_null(strstr(why, "expected an object"));
    assert_null(rlxc_template_render(t, "{", 1, NULL, why, sizeof why));
    assert_null(rlxc_template_render(t, "{", 1, NULL, NULL, 0));
    rlxc_template_free(t);
    rlxc_template_free(NULL);
    assert_null(rlxc_template_read("{% if %}", 8, why, sizeof why));
    assert_true(why[0] != '\0');
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_grammars), cmocka_unit_test(test_wrong_grammars),
                                       cmocka_unit_test(test_templates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
