// SPDX-License-Identifier: Apache-2.0
// The parser of regular expressions. See onnx_regex.h.
#include "compiler/import/onnx/text/onnx_regex.h"
#include "compiler/import/onnx/text/onnx_case.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NESTING = 100, MAX_NODES = 1 << 16 };

typedef struct Parser {
    Arena *arena;
    const uint8_t *at, *end;
    bool folds_case, dot_is_all, is_multiline; // (?i), (?s), (?m)
    uint32_t depth, n_nodes;
    const char *error;
} Parser;

static RegexNode *parse_alternatives(Parser *p);

static bool wrong(Parser *p, const char *what)
{
    if (!p->error)
        p->error = what;
    return false;
}

static RegexNode *new_node(Parser *p, RegexKind kind)
{
    RegexNode *n = ARENA_NEW(p->arena, RegexNode);
    n->kind = kind;
    if (++p->n_nodes > MAX_NODES)
        wrong(p, "it is too long");
    return n;
}

static bool take(Parser *p, const char *text)
{
    const size_t n = strlen(text);
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, text, n) != 0)
        return false;
    p->at += n;
    return true;
}

// One character of UTF-8.
static uint32_t take_char(Parser *p)
{
    const uint8_t first = *p->at++;
    const uint32_t more = first < 0x80 ? 0 : first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    uint32_t c = first < 0x80 ? first : first & (0x3fu >> more);
    for (uint32_t i = 0; i < more; i++) {
        if (p->at == p->end || (*p->at & 0xc0) != 0x80) {
            wrong(p, "it is not valid UTF-8");
            return 0;
        }
        c = c << 6 | (*p->at++ & 0x3fu);
    }
    if (c > REGEX_LAST_POINT)
        wrong(p, "it is not valid UTF-8");
    return c;
}

// --- sets ---

static void add_range(Parser *p, RegexNode *n, uint32_t first, uint32_t last)
{
    vec_push(p->arena, &n->set, ((RegexRange){first, last}));
}

static int compare_ranges(const void *a, const void *b)
{
    const RegexRange *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

static void sort_set(RegexNode *n)
{
    uint32_t kept = 0;
    if (n->set.len == 0)
        return;
    qsort(n->set.data, n->set.len, sizeof *n->set.data, compare_ranges);
    for (uint32_t i = 1; i < n->set.len; i++) {
        RegexRange *last = &n->set.data[kept];
        const RegexRange r = n->set.data[i];
        if (r.first <= last->last + 1)
            last->last = r.last > last->last ? r.last : last->last;
        else
            n->set.data[++kept] = r;
    }
    n->set.len = kept + 1;
}

static void negate(Parser *p, RegexNode *n)
{
    RegexNode other = {0};
    uint32_t next = 1; // no string has a zero byte
    sort_set(n);
    for (uint32_t i = 0; i < n->set.len; i++) {
        if (n->set.data[i].first > next)
            add_range(p, &other, next, n->set.data[i].first - 1);
        next = n->set.data[i].last + 1;
    }
    if (next <= REGEX_LAST_POINT)
        add_range(p, &other, next, REGEX_LAST_POINT);
    n->set.len = 0;
    for (uint32_t i = 0; i < other.set.len; i++)
        add_range(p, n, other.set.data[i].first, other.set.data[i].last);
}

static void add_other_case(Parser *p, RegexNode *n)
{
    const uint32_t count = n->set.len;
    for (uint32_t i = 0; i < count; i++) {
        const RegexRange r = n->set.data[i];
        for (uint32_t c = r.first; c <= r.last && c < CASE_POINTS; c++) {
            const uint32_t lower = case_lower(c), upper = case_upper(c);
            if (lower != c)
                add_range(p, n, lower, lower);
            if (upper != c)
                add_range(p, n, upper, upper);
        }
    }
}

static RegexNode *end_set(Parser *p, RegexNode *n, bool is_negated)
{
    if (p->folds_case)
        add_other_case(p, n);
    if (is_negated)
        negate(p, n);
    sort_set(n);
    return n;
}

typedef struct NamedSet {
    const char *name;
    const char *ranges; // pairs of first and last
} NamedSet;

static const NamedSet perl_sets[] = {
    {"d", "09"},
    {"s", "\t\n\f\r  "},
    {"w", "09AZ__az"},
};

static const NamedSet posix_sets[] = {
    {"alnum", "09AZaz"},
    {"alpha", "AZaz"},
    {"ascii", "\x01\x7f"},
    {"blank", "\t\t  "},
    {"cntrl", "\x01\x1f\x7f\x7f"},
    {"digit", "09"},
    {"graph", "!~"},
    {"lower", "az"},
    {"print", " ~"},
    {"punct", "!/:@[`{~"},
    {"space", "\t\r  "},
    {"upper", "AZ"},
    {"word", "09AZ__az"},
    {"xdigit", "09AFaf"},
};

static void add_named(Parser *p, RegexNode *n, const char *ranges, bool is_negated)
{
    RegexNode set = {0};
    for (const char *r = ranges; *r; r += 2)
        add_range(p, &set, (uint8_t)r[0], (uint8_t)r[1]);
    if (is_negated)
        negate(p, &set);
    for (uint32_t i = 0; i < set.set.len; i++)
        add_range(p, n, set.set.data[i].first, set.set.data[i].last);
}

// \d, \D ...: true when the character after the backslash names a set.
static bool add_perl(Parser *p, RegexNode *n, uint8_t c)
{
    for (size_t i = 0; i < sizeof perl_sets / sizeof *perl_sets; i++) {
        const char name = perl_sets[i].name[0];
        if (c != name && c != name - 'a' + 'A')
            continue;
        add_named(p, n, perl_sets[i].ranges, c != name);
        return true;
    }
    return false;
}

static bool add_posix(Parser *p, RegexNode *n)
{
    if (!take(p, "[:"))
        return false;
    const bool is_negated = take(p, "^");
    for (size_t i = 0; i < sizeof posix_sets / sizeof *posix_sets; i++) {
        const uint8_t *before = p->at;
        if (take(p, posix_sets[i].name) && take(p, ":]")) {
            add_named(p, n, posix_sets[i].ranges, is_negated);
            return true;
        }
        p->at = before;
    }
    return wrong(p, "it has a class [:name:] that does not exist");
}

// --- escapes ---

static int hex_digit(uint8_t c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static uint32_t take_hex(Parser *p)
{
    const bool is_braced = take(p, "{");
    uint32_t c = 0, n = 0;
    for (; p->at < p->end && hex_digit(*p->at) >= 0 && n < (is_braced ? 6u : 2u); n++)
        c = c * 16 + (uint32_t)hex_digit(*p->at++);
    if (n == 0 || (!is_braced && n != 2) || (is_braced && !take(p, "}")) || c > REGEX_LAST_POINT || c == 0)
        wrong(p, "it has a malformed \\x");
    return c;
}

static uint32_t take_octal(Parser *p, uint8_t first)
{
    uint32_t c = first - '0', n = 1;
    for (; p->at < p->end && *p->at >= '0' && *p->at <= '7' && n < 3; n++)
        c = c * 8 + (*p->at++ - '0');
    if (first != '0' && n < 3)
        wrong(p, "it has a back reference");
    else if (c == 0)
        wrong(p, "it has a zero character, which no string has");
    return c;
}

// The character that an escape stands for; the backslash is taken.
static uint32_t take_escape(Parser *p)
{
    static const char names[] = "afnrtv", values[] = "\a\f\n\r\t\v";
    if (p->at == p->end) {
        wrong(p, "it ends in a backslash");
        return 0;
    }
    const uint8_t c = *p->at;
    const char *known = memchr(names, c, sizeof names - 1);
    if (c >= 0x80)
        return take_char(p);
    p->at++;
    if (known)
        return (uint8_t)values[known - names];
    if (c == 'x')
        return take_hex(p);
    if (c >= '0' && c <= '7')
        return take_octal(p, c);
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '8' || c == '9')
        wrong(p, c == 'p' || c == 'P' ? "it has a class of Unicode (\\p)"
                                      : "it has an escape that is not supported");
    return c;
}

// --- classes ---

static uint32_t class_char(Parser *p)
{
    if (p->at == p->end) {
        wrong(p, "a class [ is not closed");
        return 0;
    }
    return take(p, "\\") ? take_escape(p) : take_char(p);
}

static void class_item(Parser *p, RegexNode *n)
{
    if (add_posix(p, n))
        return;
    if (p->end - p->at >= 2 && p->at[0] == '\\' && add_perl(p, n, p->at[1])) {
        p->at += 2;
        return;
    }
    const uint32_t first = class_char(p);
    uint32_t last = first;
    if (p->end - p->at >= 2 && p->at[0] == '-' && p->at[1] != ']') {
        p->at++;
        last = class_char(p);
    }
    if (last < first)
        wrong(p, "a range of a class is reversed");
    add_range(p, n, first, last);
}

static RegexNode *parse_class(Parser *p)
{
    RegexNode *n = new_node(p, REGEX_SET);
    const bool is_negated = take(p, "^");
    bool is_first = true;
    while (!p->error && (is_first || !take(p, "]"))) {
        class_item(p, n);
        is_first = false;
    }
    return end_set(p, n, is_negated);
}

// --- atoms ---

static RegexNode *place(Parser *p, RegexPlace where)
{
    RegexNode *n = new_node(p, REGEX_ASSERT);
    n->place = where;
    return n;
}

static RegexNode *literal(Parser *p, uint32_t c)
{
    RegexNode *n = new_node(p, REGEX_SET);
    add_range(p, n, c, c);
    return end_set(p, n, false);
}

static RegexNode *parse_escape(Parser *p)
{
    static const struct {
        const char *name;
        RegexPlace place;
    } places[] = {{"A", PLACE_BEGIN}, {"z", PLACE_END}, {"b", PLACE_WORD}, {"B", PLACE_NO_WORD}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (take(p, places[i].name))
            return place(p, places[i].place);
    RegexNode *set = new_node(p, REGEX_SET);
    if (p->at < p->end && add_perl(p, set, *p->at)) {
        p->at++;
        sort_set(set);
        return set;
    }
    return literal(p, take_escape(p));
}

// (?ims-ims: or (?ims-ims). True when a group follows.
static bool parse_flags(Parser *p)
{
    bool value = true;
    while (p->at < p->end) {
        const uint8_t c = *p->at++;
        if (c == ':' || c == ')')
            return c == ':';
        if (c == '-')
            value = false;
        else if (c == 'i')
            p->folds_case = value;
        else if (c == 's')
            p->dot_is_all = value;
        else if (c == 'm')
            p->is_multiline = value;
        else if (c != 'U') // which match is found first does not matter
            break;
    }
    return wrong(p, "it has a group (? that is not supported");
}

static bool skip_name(Parser *p)
{
    while (p->at < p->end && *p->at != '>' && *p->at != ')')
        p->at++;
    return take(p, ">") || wrong(p, "the name of a group is malformed");
}

static RegexNode *parse_group(Parser *p)
{
    const Parser outer = *p;
    bool has_group = true;
    if (++p->depth > MAX_NESTING)
        wrong(p, "it is nested too deep");
    if (take(p, "?P<") || take(p, "?<"))
        skip_name(p);
    else if (take(p, "?"))
        has_group = parse_flags(p);
    if (!has_group) { // flags for the rest of the group around
        p->depth--;
        return new_node(p, REGEX_EMPTY);
    }
    RegexNode *n = p->error ? new_node(p, REGEX_EMPTY) : parse_alternatives(p);
    if (!take(p, ")"))
        wrong(p, "a group ( is not closed");
    p->depth--;
    p->folds_case = outer.folds_case;
    p->dot_is_all = outer.dot_is_all;
    p->is_multiline = outer.is_multiline;
    return n;
}

static RegexNode *parse_dot(Parser *p)
{
    RegexNode *n = new_node(p, REGEX_SET);
    if (!p->dot_is_all)
        add_range(p, n, '\n', '\n');
    negate(p, n);
    return n;
}

static RegexNode *parse_atom(Parser *p)
{
    if (take(p, "("))
        return parse_group(p);
    if (take(p, "["))
        return parse_class(p);
    if (take(p, "."))
        return parse_dot(p);
    if (take(p, "^"))
        return place(p, p->is_multiline ? PLACE_LINE_BEGIN : PLACE_BEGIN);
    if (take(p, "$"))
        return place(p, p->is_multiline ? PLACE_LINE_END : PLACE_END);
    if (take(p, "\\"))
        return parse_escape(p);
    if (take(p, "*") || take(p, "+") || take(p, "?"))
        wrong(p, "there is nothing to repeat");
    return literal(p, p->error ? 'x' : take_char(p));
}

// --- repeats ---

static int32_t take_count(Parser *p)
{
    int32_t v = -1;
    while (p->at < p->end && *p->at >= '0' && *p->at <= '9') {
        v = (v < 0 ? 0 : v) * 10 + (*p->at++ - '0');
        if (v > REGEX_MAX_REPEAT) {
            wrong(p, "it repeats more than 1000 times");
            return REGEX_MAX_REPEAT;
        }
    }
    return v;
}

// {2}, {2,} or {2,5}; anything else after { is text.
static bool take_braces(Parser *p, int32_t *min, int32_t *max)
{
    const uint8_t *before = p->at;
    if (!take(p, "{"))
        return false;
    *min = take_count(p);
    *max = *min;
    if (take(p, ","))
        *max = take_count(p);
    if (*min >= 0 && take(p, "}")) {
        if (*max >= 0 && *max < *min)
            wrong(p, "a repeat is reversed");
        return true;
    }
    p->at = before;
    return false;
}

static RegexNode *parse_repeats(Parser *p, RegexNode *n)
{
    while (!p->error) {
        int32_t min = 0, max = REGEX_NO_MAX;
        if (take(p, "+"))
            min = 1;
        else if (take(p, "?"))
            max = 1;
        else if (!take(p, "*") && !take_braces(p, &min, &max))
            break;
        take(p, "?"); // as few as possible: the same strings match
        RegexNode *r = new_node(p, REGEX_REPEAT);
        r->min = min;
        r->max = max;
        vec_push(p->arena, &r->child, n);
        n = r;
        if (++p->depth > MAX_NESTING)
            wrong(p, "it is nested too deep");
    }
    return n;
}

// \Q...\E: the text as it is. What repeats it repeats its last character.
static void parse_quoted(Parser *p, RegexNode *n)
{
    while (p->at < p->end && !p->error && !take(p, "\\E")) {
        RegexNode *c = literal(p, take_char(p));
        const bool is_last = take(p, "\\E");
        vec_push(p->arena, &n->child, is_last ? parse_repeats(p, c) : c);
        if (is_last)
            break;
    }
}

static RegexNode *parse_sequence(Parser *p)
{
    RegexNode *n = new_node(p, REGEX_CAT);
    while (p->at < p->end && *p->at != '|' && *p->at != ')' && !p->error) {
        if (take(p, "\\Q")) {
            parse_quoted(p, n);
            continue;
        }
        const uint32_t depth = p->depth;
        RegexNode *atom = parse_atom(p);
        vec_push(p->arena, &n->child, parse_repeats(p, atom));
        p->depth = depth;
    }
    return n;
}

static RegexNode *parse_alternatives(Parser *p)
{
    RegexNode *n = new_node(p, REGEX_ALT);
    do
        vec_push(p->arena, &n->child, parse_sequence(p));
    while (!p->error && take(p, "|"));
    return n;
}

RegexNode *regex_parse(Arena *a, const char *pattern, size_t len, const char **error)
{
    Parser p = {.arena = a, .at = (const uint8_t *)pattern, .end = (const uint8_t *)pattern + len};
    RegexNode *n = parse_alternatives(&p);
    if (p.at < p.end)
        wrong(&p, "a group ) was not opened");
    *error = p.error;
    return p.error ? NULL : n;
}
