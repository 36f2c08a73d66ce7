// SPDX-License-Identifier: Apache-2.0
// The library for programs that get schemas and conversations while they run: what it takes, what it says.
#include "compiler/text/rlxc_text.h"
#include "runtime-lite/text/rlx_grammar.h"
#include "unit.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static char why[256];

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

static void repeat(char **at, const char *text, int n)
{
    while (n-- > 0)
        *at = stpcpy(*at, text);
}

// Schemas of clients that mean harm: neither time nor memory may grow faster than they do.
static void test_hostile_schemas(void **state)
{
    enum { ROOM = 1 << 20, NAME = 300000, ITEMS = 60000 };
    char *text = malloc(ROOM), *at = text;
    (void)state;
    assert_non_null(text);
    repeat(&at, "{\"oneOf\":[", 1);
    for (int i = 0; i < 2; i++) { // objects that are equal, level by level
        repeat(&at, i == 0 ? "" : ",", 1);
        repeat(&at, "{\"required\":[\"a\"],\"properties\":{\"a\":{\"const\":", 1);
        repeat(&at, "{\"b\":", 50);
        repeat(&at, "1", 1);
        repeat(&at, "}", 53);
    }
    repeat(&at, "]}", 1);
    wrong("root ::= A", text, "oneOf: two");
    at = text; // a place with a long name, in which there are many more
    repeat(&at, "{\"$ref\":\"#/$defs/", 1);
    repeat(&at, "\xc3\xa4", NAME / 2);
    repeat(&at, "\",\"$defs\":{\"", 1);
    repeat(&at, "\xc3\xa4", NAME / 2);
    repeat(&at, "\":{\"anyOf\":[", 1);
    repeat(&at, "true,", ITEMS);
    repeat(&at, "5]}}}", 1);
    wrong("root ::= A", text, "\xc3\xa4/anyOf/60000: expected a schema");
    free(text);
}

static void test_one_of(void **state)
{
    (void)state;
#define OF(a, b) "{\"oneOf\":[{\"properties\":{\"k\":{\"const\":" a "}},\"required\":[\"k\"]}," \
                 "{\"properties\":{\"k\":{\"const\":" b "}}}]}"
    wrong("root ::= A", OF("{\"x\":1,\"y\":[0]}", "{\"y\":[-0.0],\"x\":1.0}"), "oneOf: two");
    const rlxc_schema fine[] = {schema("A", OF("{\"x\":1,\"y\":2}", "{\"x\":2,\"y\":1}")),
                                schema("B", OF("\"1\"", "1")), schema("C", OF("[1,2]", "[2,1]")),
                                schema("D", OF("true", "false")), schema("E", OF("{}", "[]"))};
    rlxc_grammar *g = rlxc_grammar_read("root ::= A | B | C | D | E", 26, fine, 5, why, sizeof why);
    assert_non_null(g);
    rlxc_grammar_free(g);
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
    const char large[] = "{\"tools\": null, \"x\": \"\xc3\xa4\xc3\xa4\"}";
    assert_null(rlxc_template_render(t, large, strlen(large), NULL, why, 7)); // whole characters
    assert_string_equal(why, "no \xc3\xa4");
    assert_null(rlxc_template_render(t, large, strlen(large), NULL, why, 8));
    assert_string_equal(why, "no \xc3\xa4\xc3\xa4");
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
                                       cmocka_unit_test(test_hostile_schemas), cmocka_unit_test(test_one_of),
                                       cmocka_unit_test(test_templates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
