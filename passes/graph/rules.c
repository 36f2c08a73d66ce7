// SPDX-License-Identifier: Apache-2.0
// Reads the texts of rules into trees and sorts rules by the op of their root, so that a node is only held
// against rules that can match it. Separate from the matcher because only this file knows the notation.
#include "passes/graph/rules.h"

#include <string.h>

// --- text ---

typedef struct Reader {
    Arena *arena;
    const char *at;
    const char *error; // the first mistake
} Reader;

static const RuleNode *reader_fail(Reader *r, const char *what)
{
    if (!r->error)
        r->error = arena_printf(r->arena, "%s at '%s'", what, r->at);
    return NULL;
}

static void skip_spaces(Reader *r)
{
    while (*r->at == ' ')
        r->at++;
}

// The length of a name, number or letter.
static size_t word_len(const Reader *r)
{
    return strcspn(r->at, " ():");
}

static bool is_letter(const Reader *r)
{
    return word_len(r) == 1 && *r->at >= 'a' && *r->at <= 'z';
}

static RuleNode *read_op(Reader *r)
{
    RuleNode *n = ARENA_NEW(r->arena, RuleNode);
    r->at++;
    const size_t len = word_len(r);
    n->kind = RULE_OP;
    if (!op_parse(arena_strndup(r->arena, r->at, len), &n->op)) {
        reader_fail(r, "expected the name of an op");
        return NULL;
    }
    r->at += len;
    return n;
}

static const RuleNode *read_node(Reader *r, uint32_t depth);

static const RuleNode *read_list(Reader *r, uint32_t depth, char capture)
{
    RuleNode *n = read_op(r);
    for (skip_spaces(r); n && *r->at && *r->at != ')'; skip_spaces(r)) {
        const RuleNode *src =
            n->n_src < RULE_MAX_SRC ? read_node(r, depth + 1) : reader_fail(r, "too many operands");
        if (!src)
            return NULL;
        n->src[n->n_src++] = src;
    }
    if (!n)
        return NULL;
    if (*r->at != ')')
        return reader_fail(r, "expected )");
    if (n->n_src < op_info[n->op].min_src || n->n_src > op_info[n->op].max_src)
        return reader_fail(r, "wrong number of operands");
    r->at++;
    n->letter = capture;
    return n;
}

static const RuleNode *read_number(Reader *r)
{
    RuleNode *n = ARENA_NEW(r->arena, RuleNode);
    n->kind = RULE_NUMBER;
    if (!str_parse_f64(r->at, word_len(r), &n->number))
        return reader_fail(r, "expected a letter, a number or (");
    r->at += word_len(r);
    return n;
}

static const RuleNode *read_letter(Reader *r, uint32_t depth)
{
    const char letter = *r->at++;
    if (*r->at == ':') {
        r->at++;
        return *r->at == '(' ? read_list(r, depth, letter) : reader_fail(r, "expected ( behind the colon");
    }
    RuleNode *n = ARENA_NEW(r->arena, RuleNode);
    n->kind = RULE_LETTER;
    n->letter = letter;
    return n;
}

static const RuleNode *read_node(Reader *r, uint32_t depth)
{
    skip_spaces(r);
    if (depth > RULE_MAX_DEPTH)
        return reader_fail(r, "nested too deeply");
    if (*r->at == '(')
        return read_list(r, depth, 0);
    return is_letter(r) ? read_letter(r, depth) : read_number(r);
}

const RuleNode *rule_parse(Arena *a, const char *text, const char **error)
{
    rlx_assert(text != NULL && error != NULL);
    Reader r = {.arena = a, .at = text};
    const RuleNode *n = read_node(&r, 0);
    skip_spaces(&r);
    if (n && *r.at)
        n = reader_fail(&r, "expected the end");
    *error = r.error;
    return n;
}

// --- the set ---

static const RuleNode *parse_or_die(Arena *a, const Rule *rule, const char *text)
{
    const char *error = NULL;
    const RuleNode *n = rule_parse(a, text, &error);
    if (!n)
        diag_bug("rules.def", 0, arena_printf(a, "%s: %s", rule->name, error));
    return n;
}

// Rules keep the order of the table: each list is built from its end.
const RuleSet *rules_new(Arena *a, const Rule *rules, uint32_t n, RuleClass most)
{
    rlx_assert(rules != NULL && n > 0 && n < UINT32_MAX);
    RuleSet *s = ARENA_NEW(a, RuleSet);
    s->rules = rules;
    s->n = n;
    s->pattern = ARENA_ARRAY(a, const RuleNode *, n);
    s->replacement = ARENA_ARRAY(a, const RuleNode *, n);
    s->next = ARENA_ARRAY(a, uint32_t, n);
    for (uint32_t i = n; i-- > 0;) {
        s->pattern[i] = parse_or_die(a, &rules[i], rules[i].pattern);
        s->replacement[i] = rules[i].replacement ? parse_or_die(a, &rules[i], rules[i].replacement) : NULL;
        rlx_assert(s->pattern[i]->kind == RULE_OP);
        if (rules[i].promise > most)
            continue;
        s->next[i] = s->first[s->pattern[i]->op];
        s->first[s->pattern[i]->op] = i + 1;
    }
    return s;
}
