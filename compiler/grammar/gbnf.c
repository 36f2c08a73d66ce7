// SPDX-License-Identifier: Apache-2.0
// Reads GBNF: rules of literals, classes of characters, groups, alternatives and repetitions.
#include "base/map.h"
#include "compiler/grammar/grammar.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_NESTING = 200, MAX_TIMES = 1 << 16, MAX_RANGES = 4096, MAX_RULES = 1 << 16 };

typedef struct Gbnf {
    Arena *arena;
    Diag *diag;
    GrammarText text;
    size_t at;
    Net net;
    Map names; // rules by their name
    uint32_t depth;
} Gbnf;

static bool fail_at(Gbnf *g, size_t at, const char *why)
{
    Span where = g->text.where;
    where.begin = where.end = (uint32_t)at;
    return diag_error(g->diag, where, E0121, "%s", why);
}

static bool fail(Gbnf *g, const char *why)
{
    return fail_at(g, g->at, why);
}

// --- signs ---------------------------------------------------------------------------------------

static int peek(const Gbnf *g)
{
    return g->at < g->text.len ? (unsigned char)g->text.data[g->at] : -1;
}

static bool skip_sign(Gbnf *g, const char *sign)
{
    const size_t n = strlen(sign);
    if (g->text.len - g->at < n || memcmp(g->text.data + g->at, sign, n) != 0)
        return false;
    g->at += n;
    return true;
}

static void skip_space(Gbnf *g, bool with_lines)
{
    for (int c; (c = peek(g)) >= 0;) {
        if (c == '#')
            while (peek(g) >= 0 && peek(g) != '\n')
                g->at++;
        else if (c == ' ' || c == '\t' || c == '\r' || (c == '\n' && with_lines))
            g->at++;
        else
            break;
    }
}

static bool is_name_sign(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

// The rule of the name here, which may be defined later.
static bool read_name(Gbnf *g, uint32_t *rule)
{
    const size_t begin = g->at;
    uint64_t found;
    while (is_name_sign(peek(g)))
        g->at++;
    if (g->at == begin)
        return fail(g, "expected the name of a rule");
    const char *name = g->text.data + begin;
    if (!map_get(&g->names, name, g->at - begin, &found)) {
        Span where = g->text.where;
        where.begin = where.end = (uint32_t)begin;
        found = g->net.rules.len;
        if (found == MAX_RULES)
            return fail_at(g, begin, "there are more than 65536 rules");
        map_put(g->arena, &g->names, name, g->at - begin, found);
        const NetRule r = {arena_strndup(g->arena, name, g->at - begin), NET_NONE, NET_NONE, where};
        vec_push(g->arena, &g->net.rules, r);
    }
    *rule = (uint32_t)found;
    return true;
}

// --- characters ----------------------------------------------------------------------------------

static bool read_hex(Gbnf *g, int digits, uint32_t *code)
{
    const size_t begin = g->at - 2;
    *code = 0;
    for (int i = 0; i < digits; i++, g->at++) {
        const int c = peek(g), small = c | 32;
        if (!((c >= '0' && c <= '9') || (small >= 'a' && small <= 'f')))
            return fail_at(g, begin,
                           digits == 2   ? "expected two hexadecimal digits after \\x"
                           : digits == 4 ? "expected four hexadecimal digits after \\u"
                                         : "expected eight hexadecimal digits after \\U");
        *code = *code << 4 | (uint32_t)(c <= '9' ? c - '0' : small - 'a' + 10);
    }
    return *code <= 0x10ffff || fail_at(g, begin, "no character has a number above 10FFFF");
}

static bool read_escape(Gbnf *g, uint32_t *code)
{
    static const char signs[] = "nrt\\\"[]-^/", values[] = "\n\r\t\\\"[]-^/";
    const int c = peek(g);
    const char *sign = c <= 0 ? NULL : strchr(signs, c);
    g->at += c >= 0;
    if (c == 'x' || c == 'u' || c == 'U')
        return read_hex(g, c == 'x' ? 2 : c == 'u' ? 4 : 8, code);
    if (sign == NULL)
        return fail_at(g, g->at - 1, "expected one of n r t \\ \" [ ] - ^ / x u U after a backslash");
    *code = (uint32_t)(unsigned char)values[sign - signs];
    return true;
}

static bool read_character(Gbnf *g, uint32_t *code)
{
    if (skip_sign(g, "\\"))
        return read_escape(g, code);
    const char *p = g->text.data + g->at;
    const size_t n = str_utf8(p, g->text.data + g->text.len, code);
    if (n == 0)
        return fail(g, "expected UTF-8");
    g->at += n;
    return true;
}

static bool read_literal(Gbnf *g, NetPart *out)
{
    const size_t begin = g->at++;
    *out = net_empty(&g->net);
    while (!skip_sign(g, "\"")) {
        CodeRange r;
        if (peek(g) < 0 || peek(g) == '\n')
            return fail_at(g, begin, "the text that begins here has no end");
        if (!read_character(g, &r.low))
            return false;
        r.high = r.low;
        *out = net_then(&g->net, *out, net_class(&g->net, &r, 1));
    }
    return true;
}

static int compare_ranges(const void *a, const void *b)
{
    const CodeRange *x = a, *y = b;
    return x->low != y->low ? (x->low < y->low ? -1 : 1) : x->high < y->high ? -1 : x->high > y->high;
}

// Sorts ranges and joins those that meet.
static void join_ranges(CodeRanges *r)
{
    uint32_t kept = 0;
    if (r->len != 0)
        qsort(r->data, r->len, sizeof *r->data, compare_ranges);
    for (uint32_t i = 0; i < r->len; i++) {
        CodeRange *last = kept == 0 ? NULL : &r->data[kept - 1];
        if (last != NULL && r->data[i].low <= last->high + 1)
            last->high = r->data[i].high > last->high ? r->data[i].high : last->high;
        else
            r->data[kept++] = r->data[i];
    }
    r->len = kept;
}

static bool read_class(Gbnf *g, NetPart *out)
{
    const size_t begin = g->at++;
    const bool is_not = skip_sign(g, "^");
    CodeRanges ranges = {0};
    while (!skip_sign(g, "]")) {
        CodeRange r;
        if (peek(g) < 0)
            return fail_at(g, begin, "the class that begins here has no end");
        if (!read_character(g, &r.low))
            return false;
        r.high = r.low;
        const bool is_range = peek(g) == '-' && g->at + 1 < g->text.len && g->text.data[g->at + 1] != ']';
        if (is_range && (g->at++, !read_character(g, &r.high)))
            return false;
        if (r.high < r.low)
            return fail(g, "the range ends before it begins");
        if (ranges.len == MAX_RANGES)
            return fail_at(g, begin, "the class has more than 4096 ranges");
        vec_push(g->arena, &ranges, r);
    }
    join_ranges(&ranges);
    if (is_not)
        ranges = net_complement(g->arena, ranges.data, ranges.len);
    *out = net_class(&g->net, ranges.data, ranges.len);
    return true;
}

// --- rules ---------------------------------------------------------------------------------------

static bool read_alternatives(Gbnf *g, bool is_group, NetPart *out);

static bool read_item(Gbnf *g, NetPart *out)
{
    static const CodeRange any = {0, 0x10ffff};
    const size_t begin = g->at;
    uint32_t rule;
    switch (peek(g)) {
    case '"':
        return read_literal(g, out);
    case '[':
        return read_class(g, out);
    case '.':
        g->at++;
        *out = net_class(&g->net, &any, 1);
        return true;
    case '(':
        g->at++;
        if (g->depth == MAX_NESTING)
            return fail_at(g, begin, "groups are nested more than 200 deep");
        g->depth++;
        skip_space(g, true);
        if (!read_alternatives(g, true, out))
            return false;
        g->depth--;
        return skip_sign(g, ")") || fail_at(g, begin, "the group that begins here has no end");
    default:
        if (!read_name(g, &rule))
            return false;
        *out = net_call(&g->net, rule);
        return true;
    }
}

static bool read_number(Gbnf *g, uint32_t *number)
{
    const size_t begin = g->at;
    *number = 0;
    for (; peek(g) >= '0' && peek(g) <= '9' && *number <= MAX_TIMES; g->at++)
        *number = *number * 10 + (uint32_t)(peek(g) - '0');
    if (g->at == begin)
        return fail(g, "expected a number");
    return *number <= MAX_TIMES || fail_at(g, begin, "expected at most 65536 repetitions");
}

// {3} {3,} {3,5} {,5}
static bool read_times(Gbnf *g, uint32_t *min, uint32_t *max)
{
    const size_t begin = g->at - 1;
    skip_space(g, true);
    *min = 0;
    if (peek(g) != ',' && !read_number(g, min))
        return false;
    *max = *min;
    skip_space(g, true);
    if (skip_sign(g, ",")) {
        skip_space(g, true);
        *max = NET_NONE;
        if (peek(g) != '}' && !read_number(g, max))
            return false;
        skip_space(g, true);
    }
    if (!skip_sign(g, "}"))
        return fail(g, "expected }");
    return *min <= *max || fail_at(g, begin, "the most repetitions are fewer than the fewest");
}

static bool read_repeated(Gbnf *g, NetPart *out)
{
    if (!read_item(g, out))
        return false;
    for (;;) {
        uint32_t min = 0, max = NET_NONE;
        const size_t begin = g->at;
        if (skip_sign(g, "{")) {
            if (!read_times(g, &min, &max))
                return false;
        } else if (skip_sign(g, "?")) {
            max = 1;
        } else if (skip_sign(g, "+")) {
            min = 1;
        } else if (!skip_sign(g, "*")) {
            return true;
        }
        *out = net_repeat(&g->net, *out, min, max);
        if (g->net.is_full)
            return fail_at(g, begin, "the grammar becomes too large here");
    }
}

static bool read_sequence(Gbnf *g, bool is_group, NetPart *out)
{
    *out = net_empty(&g->net);
    for (;;) {
        skip_space(g, is_group);
        const int c = peek(g);
        NetPart part;
        if (c < 0 || c == '|' || c == ')' || c == '\n')
            return true;
        if (!read_repeated(g, &part))
            return false;
        *out = net_then(&g->net, *out, part);
        if (g->net.is_full)
            return fail(g, "the grammar becomes too large here");
    }
}

// Another alternative may begin on the next line.
static bool skip_or(Gbnf *g)
{
    const size_t begin = g->at;
    skip_space(g, true);
    if (skip_sign(g, "|")) {
        skip_space(g, true);
        return true;
    }
    g->at = begin;
    return false;
}

static bool read_alternatives(Gbnf *g, bool is_group, NetPart *out)
{
    if (!read_sequence(g, is_group, out))
        return false;
    while (skip_or(g)) {
        NetPart other;
        if (!read_sequence(g, is_group, &other))
            return false;
        *out = net_or(&g->net, *out, other);
    }
    return true;
}

static bool read_rule(Gbnf *g)
{
    const size_t begin = g->at;
    uint32_t rule;
    NetPart part;
    if (!read_name(g, &rule))
        return false;
    if (g->net.rules.data[rule].begin != NET_NONE)
        return fail_at(g, begin, "a rule of this name is there already");
    skip_space(g, false);
    if (!skip_sign(g, "::="))
        return fail(g, "expected ::= after the name of a rule");
    skip_space(g, true);
    if (!read_alternatives(g, false, &part))
        return false;
    if (g->net.is_full) // by alternatives without anything
        return fail(g, "the grammar becomes too large here");
    rlx_assert(g->depth == 0 && g->net.rules.data[rule].begin == NET_NONE);
    g->net.rules.data[rule].begin = part.begin;
    g->net.rules.data[rule].end = part.end;
    if (peek(g) >= 0 && peek(g) != '\n')
        return fail(g, "expected the end of the rule");
    return true;
}

static bool check_rules(Gbnf *g)
{
    for (uint32_t i = 0; i < g->net.rules.len; i++) {
        const NetRule *r = &g->net.rules.data[i];
        if (r->begin == NET_NONE)
            return diag_error(g->diag, r->used, E0121, "there is no rule %s", r->name);
    }
    return true;
}

bool grammar_read(Arena *a, Diag *d, GrammarText gbnf, rlx_grammar *out)
{
    Gbnf g = {.arena = a, .diag = d, .text = gbnf, .net = {.arena = a}};
    uint64_t root;
    for (skip_space(&g, true); peek(&g) >= 0; skip_space(&g, true))
        if (!read_rule(&g))
            return false;
    if (!check_rules(&g))
        return false;
    if (!map_get_str(&g.names, "root", &root))
        return fail_at(&g, 0, "there is no rule root, with which a text begins");
    return grammar_build(&g.net, d, (uint32_t)root, out);
}
