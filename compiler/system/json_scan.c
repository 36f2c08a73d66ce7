// SPDX-License-Identifier: Apache-2.0
// A scanner over JSON text that builds nothing. cJSON takes texts that are not JSON ("01", raw control
// characters, broken UTF-8, \u0000 which would cut a string) and does not say where a value stands; this does
// both jobs in one pass each, without recursion.
#include "compiler/system/json_scan.h"
#include "base/diag.h"

#include <stdio.h>
#include <string.h>

enum { MAX_NUMBER = 60 }; // characters; cJSON reads up to 63

typedef struct Check {
    const char *at, *end;
    const char *why;
    JsonFault fault;
    uint32_t n_values;
    uint32_t depth;
    char open[JSON_MAX_DEPTH]; // '{' or '['
} Check;

static bool fail(Check *c, JsonFault fault, const char *why)
{
    c->fault = fault;
    c->why = why;
    return false;
}

static bool broken(Check *c, const char *why)
{
    return fail(c, JSON_BROKEN, c->at < c->end ? why : "the text ends too early");
}

static bool is_space(char ch)
{
    return ch == ' ' || ch == '\t' || ch == '\n' || ch == '\r';
}

static bool is_digit(char ch)
{
    return ch >= '0' && ch <= '9';
}

static int hex_value(char ch)
{
    return is_digit(ch)             ? ch - '0'
           : ch >= 'a' && ch <= 'f' ? ch - 'a' + 10
           : ch >= 'A' && ch <= 'F' ? ch - 'A' + 10
                                    : -1;
}

static void skip_space(Check *c)
{
    while (c->at < c->end && is_space(*c->at))
        c->at++;
}

static bool peek(const Check *c, char ch)
{
    return c->at < c->end && *c->at == ch;
}

// The four digits of \uXXXX, or -1.
static int32_t read_code_unit(Check *c)
{
    int32_t unit = 0;
    for (int i = 0; i < 4; i++, c->at++) {
        int digit = c->at < c->end ? hex_value(*c->at) : -1;
        if (digit < 0)
            return -1;
        unit = unit * 16 + digit;
    }
    return unit;
}

// After the backslash.
static bool check_escape(Check *c)
{
    if (c->at == c->end || !*c->at || !strchr("\"\\/bfnrtu", *c->at))
        return broken(c, "a backslash is followed by one of \" \\ / b f n r t u");
    if (*c->at++ != 'u')
        return true;
    int32_t unit = read_code_unit(c);
    if (unit < 0)
        return broken(c, "\\u needs four hexadecimal digits");
    if (unit == 0)
        return broken(c, "a string with a NUL character is not accepted");
    if (unit < 0xd800 || unit > 0xdfff)
        return true;
    bool is_pair = unit < 0xdc00 && peek(c, '\\') && c->end - c->at > 1 && c->at[1] == 'u';
    if (is_pair) {
        c->at += 2;
        int32_t low = read_code_unit(c);
        is_pair = low >= 0xdc00 && low <= 0xdfff;
    }
    return is_pair || broken(c, "half of a surrogate pair");
}

static bool check_utf8(Check *c)
{
    size_t n = str_utf8(c->at, c->end, NULL);
    c->at += n;
    return n || broken(c, "not UTF-8");
}

// At the opening quote.
static bool check_string(Check *c)
{
    c->at++;
    while (c->at < c->end && *c->at != '"') {
        unsigned char ch = (unsigned char)*c->at;
        if (ch < 0x20)
            return broken(c, "a string holds a control character; write it as an escape");
        if (ch >= 0x80 && !check_utf8(c))
            return false;
        if (ch >= 0x80)
            continue;
        c->at++;
        if (ch == '\\' && !check_escape(c))
            return false;
    }
    if (c->at == c->end)
        return broken(c, "");
    c->at++;
    return true;
}

static bool check_digits(Check *c)
{
    if (c->at == c->end || !is_digit(*c->at))
        return broken(c, "expected a digit");
    while (c->at < c->end && is_digit(*c->at))
        c->at++;
    return true;
}

static bool check_number(Check *c)
{
    const char *begin = c->at;
    c->at += peek(c, '-');
    if (peek(c, '0'))
        c->at++;
    else if (!check_digits(c))
        return false;
    if (peek(c, '.')) {
        c->at++;
        if (!check_digits(c))
            return false;
    }
    if (peek(c, 'e') || peek(c, 'E')) {
        c->at++;
        c->at += peek(c, '+') || peek(c, '-');
        if (!check_digits(c))
            return false;
    }
    if (c->at - begin <= MAX_NUMBER)
        return true;
    c->at = begin;
    return fail(c, JSON_TOO_LARGE, "a number of more than 60 characters");
}

static bool check_word(Check *c)
{
    static const char *const words[] = {"true", "false", "null"};
    for (uint32_t i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(c->end - c->at) >= n && memcmp(c->at, words[i], n) == 0) {
            c->at += n;
            return true;
        }
    }
    return broken(c, "expected a value: an object, list, string, number, true, false or null");
}

static bool check_scalar(Check *c)
{
    if (peek(c, '"'))
        return check_string(c);
    return c->at < c->end && (*c->at == '-' || is_digit(*c->at)) ? check_number(c) : check_word(c);
}

// The name of a member and its colon.
static bool check_key(Check *c)
{
    skip_space(c);
    if (!peek(c, '"'))
        return broken(c, "expected the name of a member, in double quotes");
    if (!check_string(c))
        return false;
    skip_space(c);
    if (!peek(c, ':'))
        return broken(c, "expected ':' after the name of a member");
    c->at++;
    return true;
}

// At a value. Opens an object or list, or passes over a scalar; *is_open says which. Empty ones are passed
// over.
static bool check_begin(Check *c, bool *is_open)
{
    skip_space(c);
    *is_open = false;
    if (++c->n_values > JSON_MAX_VALUES)
        return fail(c, JSON_TOO_LARGE,
                    "more than 16 million values; large weights belong into a file of their own");
    if (!peek(c, '{') && !peek(c, '['))
        return check_scalar(c);
    if (c->depth == JSON_MAX_DEPTH)
        return fail(c, JSON_TOO_LARGE, "nested more than 64 deep");
    char open = *c->at++;
    skip_space(c);
    if (peek(c, open == '{' ? '}' : ']')) {
        c->at++;
        return true;
    }
    c->open[c->depth++] = open;
    *is_open = true;
    return open == '[' || check_key(c);
}

// After a value: closes what ends here, up to a comma or the end of the text.
static bool check_after(Check *c)
{
    while (c->depth) {
        bool is_object = c->open[c->depth - 1] == '{';
        skip_space(c);
        if (peek(c, ',')) {
            c->at++;
            return !is_object || check_key(c);
        }
        if (!peek(c, is_object ? '}' : ']'))
            return broken(c, is_object ? "expected ',' or '}' after a member"
                                       : "expected ',' or ']' after an element");
        c->at++;
        c->depth--;
    }
    return true;
}

static bool check_text(Check *c)
{
    do {
        bool is_open = false;
        if (!check_begin(c, &is_open))
            return false;
        if (!is_open && !check_after(c))
            return false;
    } while (c->depth);
    skip_space(c);
    return c->at == c->end || broken(c, "there is more text after the end of the value");
}

JsonFault json_check(const char *text, size_t len, size_t *at, const char **why)
{
    Check c = {.at = text, .end = text + len};
    if (len > JSON_MAX_TEXT)
        fail(&c, JSON_TOO_LARGE, "more than 256 MiB of text; large weights belong into a file of their own");
    else
        check_text(&c);
    *at = (size_t)(c.at - text);
    *why = c.why;
    return c.fault;
}

// --- cJSON --------------------------------------------------

// cJSON's hooks take no context, so the arena of the one parse that runs stands here.
static Arena *tree_arena;

static void *allocate(size_t n)
{
    return arena_alloc(tree_arena, n);
}

static void keep(void *p)
{
    (void)p;
}

cJSON *json_parse(Arena *a, const char *text, size_t len, size_t *at)
{
    rlx_assert(tree_arena == NULL);
    cJSON_Hooks hooks = {allocate, keep};
    const char *end = text;
    tree_arena = a;
    cJSON_InitHooks(&hooks);
    cJSON *tree = cJSON_ParseWithLengthOpts(text, len, &end, false);
    cJSON_InitHooks(NULL);
    tree_arena = NULL;
    *at = (size_t)(end - text);
    return tree;
}

// --- places --------------------------------------------------

static uint32_t after_space(const char *text, uint32_t at)
{
    while (is_space(text[at]))
        at++;
    return at;
}

static uint32_t after_string(const char *text, uint32_t at)
{
    for (at++; text[at] != '"'; at++)
        at += text[at] == '\\';
    return at + 1;
}

// Past the value at `at`, which is within an object or list.
static uint32_t after_value(const char *text, uint32_t at)
{
    static const bool is_structure[256] = {
        ['"'] = true, ['{'] = true, ['['] = true, ['}'] = true, [']'] = true};
    uint32_t depth = 0;
    do {
        while (depth && !is_structure[(unsigned char)text[at]])
            at++;
        char ch = text[at];
        if (ch == '"') {
            at = after_string(text, at);
            continue;
        }
        if (ch == '{' || ch == '[') {
            depth++;
        } else if (ch == '}' || ch == ']') {
            depth--;
        } else if (depth == 0) {
            while (!is_space(text[at]) && !strchr(",]}", text[at]))
                at++;
            return at;
        }
        at++;
    } while (depth);
    return at;
}

// Where the child begins that follows `at`, which is after a bracket or comma. There is one.
static uint32_t child_begin(const char *text, uint32_t parent, uint32_t at)
{
    at = after_space(text, at);
    return text[parent] == '{' ? after_space(text, after_space(text, after_string(text, at)) + 1) : at;
}

JsonRange *json_find_children(Arena *a, const char *text, uint32_t parent, uint32_t n)
{
    rlx_assert(text[parent] == '{' || text[parent] == '[');
    JsonRange *children = ARENA_ARRAY(a, JsonRange, n);
    uint32_t at = parent + 1;
    for (uint32_t i = 0; i < n; i++) {
        children[i].begin = child_begin(text, parent, at);
        children[i].end = after_value(text, children[i].begin);
        at = after_space(text, children[i].end) + 1;
    }
    return children;
}

uint32_t json_find_child(const char *text, uint32_t parent, uint32_t index)
{
    rlx_assert(text[parent] == '{' || text[parent] == '[');
    uint32_t begin = child_begin(text, parent, parent + 1);
    for (uint32_t i = 0; i < index; i++)
        begin = child_begin(text, parent, after_space(text, after_value(text, begin)) + 1);
    return begin;
}

JsonRange json_find_end(const char *text, uint32_t begin)
{
    return (JsonRange){begin, after_value(text, begin)};
}

JsonRange json_find_root(const char *text, size_t len)
{
    JsonRange root = {0, (uint32_t)len};
    root.begin = after_space(text, 0);
    while (is_space(text[root.end - 1]))
        root.end--;
    return root;
}

void json_print_string(Str *out, const char *s)
{
    const char *end = s + strlen(s);
    str_char(out, '"');
    while (s < end) {
        unsigned char ch = (unsigned char)*s;
        size_t n = str_utf8(s, end, NULL);
        if (ch == '"' || ch == '\\')
            str_char(out, '\\');
        if (ch < 0x20)
            str_printf(out, "\\u%04x", (unsigned)ch);
        else if (n)
            str_add_n(out, s, n);
        else
            str_add(out, "\xef\xbf\xbd");
        s += n ? n : 1;
    }
    str_char(out, '"');
}
