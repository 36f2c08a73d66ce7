// SPDX-License-Identifier: Apache-2.0
// Expressions of templates: tokens to a tree, with Jinja's precedences.
#include "compiler/template/tpl_run.h"
#include <string.h>

#define OP(c) TPL_OP(c, 0)

static bool enter(TplParser *p)
{
    if (++p->depth <= TPL_MAX_NESTING)
        return true;
    return tpl_wrong(p, tpl_peek(p)->at, tpl_peek(p)->end, "nested more than %d deep", TPL_MAX_NESTING);
}

static TplNode *with(TplParser *p, TplNodeKind kind, TplNode *a)
{
    TplNode *n = tpl_node(p, kind);
    n->a = a;
    return n;
}

// n reaches to the token before the next one.
static TplNode *done(TplParser *p, TplNode *n, uint32_t at)
{
    rlx_assert(p->at > 0);
    n->at = at;
    n->end = tpl_peek(p)[-1].end;
    rlx_assert(n->at <= n->end);
    return n;
}

// --- arguments and primaries ----------------------------------------------------------------------

// After '(': up to and with ')'.
static bool parse_arguments(TplParser *p, TplNode *call)
{
    for (bool is_first = true; !tpl_take_op(p, OP(')')); is_first = false) {
        if (!is_first && !tpl_need_op(p, OP(','), "',' or ')'"))
            return false;
        if (tpl_take_op(p, OP(')')))
            return true;
        if (tpl_at_op(p, OP('*')) || tpl_at_op(p, TPL_OP('*', '*')))
            return tpl_unexpected(p, "an argument; those from lists are not supported");
        const TplToken *next = tpl_peek(p) + 1;
        if (tpl_peek(p)->kind == TOKEN_NAME && next->kind == TOKEN_OPERATOR && next->op == OP('=')) {
            uint32_t name;
            tpl_need_name(p, &name);
            p->at++;
            vec_push(p->arena, &call->names, name);
        } else if (call->names.len != 0) {
            return tpl_unexpected(p, "an argument with a name, as those before it have");
        }
        TplNode *value = tpl_parse_expression(p);
        if (value == NULL)
            return false;
        vec_push(p->arena, &call->list, value);
    }
    return true;
}

bool tpl_parse_parameters(TplParser *p, TplNode *macro)
{
    if (!tpl_need_op(p, OP('('), "'('"))
        return false;
    while (!tpl_take_op(p, OP(')'))) {
        uint32_t name;
        if ((macro->names.len != 0 && !tpl_need_op(p, OP(','), "',' or ')'")) || !tpl_need_name(p, &name))
            return false;
        vec_push(p->arena, &macro->names, name);
        if (tpl_take_op(p, OP('='))) {
            TplNode *value = tpl_parse_expression(p);
            if (value == NULL)
                return false;
            vec_push(p->arena, &macro->list, value);
        } else if (macro->list.len != 0) {
            return tpl_unexpected(p, "'=', since the parameter before it has a default");
        }
    }
    return true;
}

// Items up to a closing bracket; pairs: with ':' between keys and values.
static TplNode *parse_items(TplParser *p, TplNodeKind kind, char close)
{
    TplNode *n = tpl_node(p, kind);
    const uint32_t at = tpl_peek(p)->at;
    p->at++;
    while (!tpl_take_op(p, OP(close))) {
        if (n->list.len != 0 && !tpl_need_op(p, OP(','), "',' or a closing bracket"))
            return NULL;
        if (tpl_take_op(p, OP(close)))
            break;
        for (int i = 0; i < (kind == NODE_DICT ? 2 : 1); i++) {
            if (i == 1 && !tpl_need_op(p, OP(':'), "':'"))
                return NULL;
            TplNode *item = tpl_parse_expression(p);
            if (item == NULL)
                return NULL;
            vec_push(p->arena, &n->list, item);
        }
    }
    return done(p, n, at);
}

static TplNode *parse_parentheses(TplParser *p)
{
    const uint32_t at = tpl_peek(p)->at;
    p->at++;
    if (tpl_take_op(p, OP(')')))
        return done(p, tpl_node(p, NODE_TUPLE), at);
    TplNode *n = tpl_parse_tuple(p, true);
    return n != NULL && tpl_need_op(p, OP(')'), "')'") ? n : NULL;
}

static TplNode *parse_word(TplParser *p)
{
    static const struct {
        const char *word;
        TplValue value;
    } words[] = {{"true", {TPL_BOOL, {.truth = true}}},
                 {"True", {TPL_BOOL, {.truth = true}}},
                 {"false", {TPL_BOOL, {.truth = false}}},
                 {"False", {TPL_BOOL, {.truth = false}}},
                 {"none", {TPL_NONE, {0}}},
                 {"None", {TPL_NONE, {0}}}};
    TplNode *n = tpl_node(p, NODE_CONST);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (tpl_take_word(p, words[i].word)) {
            n->value = words[i].value;
            return n;
        }
    n->kind = NODE_NAME;
    return tpl_need_name(p, &n->name) ? n : NULL;
}

static TplNode *parse_texts(TplParser *p)
{
    TplNode *n = tpl_node(p, NODE_CONST);
    n->value = tpl_peek(p)->value;
    p->at++;
    if (tpl_peek(p)->kind != TOKEN_TEXT)
        return n;
    Str all = str_new(p->arena);
    str_add_n(&all, n->value.u.text.data, n->value.u.text.len);
    for (; tpl_peek(p)->kind == TOKEN_TEXT; p->at++)
        str_add_n(&all, tpl_peek(p)->value.u.text.data, tpl_peek(p)->value.u.text.len);
    n->value = tpl_text_n(str_text(&all), all.len);
    return n;
}

static TplNode *tpl_parse_primary(TplParser *p)
{
    const TplToken *t = tpl_peek(p);
    if (t->kind == TOKEN_NAME)
        return parse_word(p);
    if (t->kind == TOKEN_TEXT)
        return parse_texts(p);
    if (t->kind == TOKEN_INT || t->kind == TOKEN_FLOAT) {
        TplNode *n = tpl_node(p, NODE_CONST);
        n->value = t->value;
        p->at++;
        return n;
    }
    if (tpl_at_op(p, OP('(')))
        return parse_parentheses(p);
    if (tpl_at_op(p, OP('[')))
        return parse_items(p, NODE_LIST, ']');
    if (tpl_at_op(p, OP('{')))
        return parse_items(p, NODE_DICT, '}');
    tpl_unexpected(p, "an expression");
    return NULL;
}

// --- what follows them ----------------------------------------------------------------------------

// a[...]: an item or a slice.
static TplNode *parse_subscript(TplParser *p, TplNode *a, uint32_t at)
{
    TplNode *n = with(p, NODE_ITEM, a), **to = &n->b;
    p->at++;
    while (!tpl_take_op(p, OP(']'))) {
        if (tpl_take_op(p, OP(':'))) {
            n->kind = NODE_SLICE;
            if (to == &n->d && !tpl_unexpected(p, "']'"))
                return NULL;
            to = to == &n->b ? &n->c : &n->d;
            continue;
        }
        if (*to != NULL && !tpl_unexpected(p, "']'"))
            return NULL;
        *to = tpl_parse_expression(p);
        if (*to == NULL)
            return NULL;
    }
    if (n->kind == NODE_ITEM && n->b == NULL && !tpl_wrong(p, n->at, n->end, "expected an index"))
        return NULL;
    return done(p, n, at);
}

static TplNode *parse_member(TplParser *p, TplNode *a, uint32_t at)
{
    TplNode *n = with(p, NODE_MEMBER, a);
    p->at++;
    const TplToken *t = tpl_peek(p);
    if (t->kind != TOKEN_NAME && t->kind != TOKEN_INT && !tpl_unexpected(p, "a name after '.'"))
        return NULL;
    n->value = t->value;
    if (t->kind == TOKEN_INT) {
        n->kind = NODE_ITEM;
        n->b = tpl_node(p, NODE_CONST);
        n->b->value = t->value;
    }
    p->at++;
    return done(p, n, at);
}

static TplNode *parse_call(TplParser *p, TplNode *a, uint32_t at)
{
    TplNode *n = with(p, NODE_CALL, a);
    p->at++;
    return parse_arguments(p, n) ? done(p, n, at) : NULL;
}

static TplNode *tpl_parse_postfix(TplParser *p, TplNode *n)
{
    while (n != NULL) {
        const uint32_t at = n->at;
        if (tpl_at_op(p, OP('.')))
            n = parse_member(p, n, at);
        else if (tpl_at_op(p, OP('[')))
            n = parse_subscript(p, n, at);
        else if (tpl_at_op(p, OP('(')))
            n = parse_call(p, n, at);
        else
            break;
    }
    return n;
}

// A name with dots, of a filter or test.
static bool parse_dotted(TplParser *p, TplNode *n)
{
    const TplToken *first = tpl_peek(p);
    if (first->kind != TOKEN_NAME)
        return tpl_unexpected(p, "a name");
    p->at++;
    while (tpl_at_op(p, OP('.')) && tpl_peek(p)[1].kind == TOKEN_NAME)
        p->at += 2;
    n->value = tpl_text_n(p->t->text.data + first->at, tpl_peek(p)[-1].end - first->at);
    return true;
}

static TplNode *parse_filter(TplParser *p, TplNode *of)
{
    rlx_assert(tpl_at_op(p, OP('|')));
    TplNode *n = with(p, NODE_FILTER, of);
    p->at++;
    const uint32_t at = tpl_peek(p)->at;
    if (!parse_dotted(p, n))
        return NULL;
    n->function = tpl_find_function(tpl_filters, n->value.u.text);
    done(p, n, at);
    return !tpl_take_op(p, OP('(')) || parse_arguments(p, n) ? n : NULL;
}

TplNode *tpl_parse_filters(TplParser *p, TplNode *of)
{
    do
        of = parse_filter(p, of);
    while (of != NULL && tpl_at_op(p, OP('|')));
    return of;
}

// May an argument without parentheses follow a test?
static bool is_at_argument(const TplParser *p)
{
    const TplToken *t = tpl_peek(p);
    const bool is_value = t->kind == TOKEN_NAME || t->kind == TOKEN_TEXT || t->kind == TOKEN_INT ||
                          t->kind == TOKEN_FLOAT || tpl_at_op(p, OP('[')) || tpl_at_op(p, OP('{'));
    return is_value && !tpl_at_word(p, "else") && !tpl_at_word(p, "or") && !tpl_at_word(p, "and");
}

static TplNode *parse_test(TplParser *p, TplNode *of)
{
    TplNode *n = with(p, NODE_TEST, of);
    p->at++;
    const bool is_not = tpl_take_word(p, "not");
    const uint32_t at = tpl_peek(p)->at;
    if (!parse_dotted(p, n))
        return NULL;
    n->function = tpl_find_function(tpl_tests, n->value.u.text);
    done(p, n, at);
    if (tpl_take_op(p, OP('('))) {
        if (!parse_arguments(p, n))
            return NULL;
    } else if (is_at_argument(p)) {
        if (tpl_at_word(p, "is") && !tpl_unexpected(p, "one test"))
            return NULL;
        TplNode *argument = tpl_parse_postfix(p, tpl_parse_primary(p));
        if (argument == NULL)
            return NULL;
        vec_push(p->arena, &n->list, argument);
    }
    return is_not ? done(p, with(p, NODE_NOT, n), n->at) : n;
}

// Filters, tests and calls in a row.
static TplNode *parse_behind(TplParser *p, TplNode *n)
{
    while (n != NULL) {
        if (tpl_at_op(p, OP('|')))
            n = parse_filter(p, n);
        else if (tpl_at_word(p, "is"))
            n = parse_test(p, n);
        else if (tpl_at_op(p, OP('(')))
            n = parse_call(p, n, n->at);
        else
            break;
    }
    return n;
}

// --- operators: each calls what binds more ------------------------------------------------------

static TplNode *parse_unary(TplParser *p, bool has_filters)
{
    TplNode *n;
    if (!enter(p))
        return NULL;
    if (tpl_at_op(p, OP('-')) || tpl_at_op(p, OP('+'))) {
        n = tpl_node(p, NODE_SIGN);
        n->op = tpl_peek(p)->op;
        p->at++;
        n->a = parse_unary(p, false);
        n = n->a != NULL ? n : NULL;
    } else {
        n = tpl_parse_primary(p);
    }
    n = tpl_parse_postfix(p, n);
    p->depth--;
    return has_filters ? parse_behind(p, n) : n;
}

static TplNode *binary(TplParser *p, TplNode *a, TplNode *(*operand)(TplParser *p))
{
    TplNode *n = with(p, NODE_BINARY, a);
    rlx_assert(tpl_peek(p)->kind == TOKEN_OPERATOR);
    n->op = tpl_peek(p)->op;
    p->at++;
    n->b = operand(p);
    return n->b != NULL ? done(p, n, a->at) : NULL;
}

static TplNode *parse_operand(TplParser *p)
{
    return parse_unary(p, true);
}

static TplNode *parse_power(TplParser *p)
{
    TplNode *n = parse_operand(p);
    while (n != NULL && tpl_at_op(p, TPL_OP('*', '*')))
        n = binary(p, n, parse_operand);
    return n;
}

static TplNode *parse_product(TplParser *p)
{
    TplNode *n = parse_power(p);
    while (n != NULL && (tpl_at_op(p, OP('*')) || tpl_at_op(p, OP('/')) || tpl_at_op(p, OP('%')) ||
                         tpl_at_op(p, TPL_OP('/', '/'))))
        n = binary(p, n, parse_power);
    return n;
}

static TplNode *parse_concat(TplParser *p)
{
    TplNode *first = parse_product(p);
    if (first == NULL || !tpl_at_op(p, OP('~')))
        return first;
    TplNode *n = tpl_node(p, NODE_CONCAT);
    vec_push(p->arena, &n->list, first);
    while (tpl_take_op(p, OP('~'))) {
        TplNode *next = parse_product(p);
        if (next == NULL)
            return NULL;
        vec_push(p->arena, &n->list, next);
    }
    return done(p, n, first->at);
}

static TplNode *parse_sum(TplParser *p)
{
    TplNode *n = parse_concat(p);
    while (n != NULL && (tpl_at_op(p, OP('+')) || tpl_at_op(p, OP('-'))))
        n = binary(p, n, parse_concat);
    return n;
}

// The comparison that is next, which is taken. 0: none.
static uint32_t take_comparison(TplParser *p)
{
    static const uint32_t ops[] = {TPL_OP('=', '='), TPL_OP('!', '='), TPL_OP('<', '='),
                                   TPL_OP('>', '='), OP('<'),          OP('>')};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (tpl_take_op(p, ops[i]))
            return ops[i];
    if (tpl_take_word(p, "in"))
        return TPL_IN;
    const TplToken *next = tpl_peek(p) + 1;
    if (!tpl_at_word(p, "not") || next->kind != TOKEN_NAME || next->value.u.text.len != 2 ||
        memcmp(next->value.u.text.data, "in", 2) != 0)
        return 0;
    p->at += 2;
    return TPL_NOT_IN;
}

static TplNode *parse_compare(TplParser *p)
{
    TplNode *first = parse_sum(p), *n = NULL;
    for (uint32_t op; first != NULL && (op = take_comparison(p)) != 0;) {
        n = n == NULL ? with(p, NODE_COMPARE, first) : n;
        TplNode *next = parse_sum(p);
        if (next == NULL)
            return NULL;
        vec_push(p->arena, &n->ops, op);
        vec_push(p->arena, &n->list, next);
    }
    return n == NULL ? first : done(p, n, first->at);
}

static TplNode *parse_not(TplParser *p)
{
    if (!tpl_at_word(p, "not"))
        return parse_compare(p);
    TplNode *n = tpl_node(p, NODE_NOT);
    p->at++;
    n->a = enter(p) ? parse_not(p) : NULL;
    p->depth--;
    return n->a != NULL ? done(p, n, n->at) : NULL;
}

static TplNode *parse_and(TplParser *p)
{
    TplNode *n = parse_not(p);
    while (n != NULL && tpl_take_word(p, "and")) {
        n = with(p, NODE_AND, n);
        n->b = parse_not(p);
        n = n->b != NULL ? done(p, n, n->a->at) : NULL;
    }
    return n;
}

static TplNode *parse_or(TplParser *p)
{
    TplNode *n = parse_and(p);
    while (n != NULL && tpl_take_word(p, "or")) {
        n = with(p, NODE_OR, n);
        n->b = parse_and(p);
        n = n->b != NULL ? done(p, n, n->a->at) : NULL;
    }
    return n;
}

TplNode *tpl_parse_expression(TplParser *p)
{
    TplNode *n = enter(p) ? parse_or(p) : NULL;
    while (n != NULL && tpl_take_word(p, "if")) {
        TplNode *choice = tpl_node(p, NODE_CHOICE);
        choice->b = n;
        choice->a = parse_or(p);
        if (choice->a == NULL || (tpl_take_word(p, "else") && (choice->c = tpl_parse_expression(p)) == NULL))
            return NULL;
        n = done(p, choice, choice->b->at);
    }
    p->depth--;
    return n;
}

// Where a list with commas may end.
static bool is_at_tuple_end(const TplParser *p)
{
    const TplToken *t = tpl_peek(p);
    return t->kind == TOKEN_BLOCK_END || t->kind == TOKEN_PRINT_END || tpl_at_op(p, OP(')')) ||
           tpl_at_word(p, "recursive") || tpl_at_word(p, "if");
}

TplNode *tpl_parse_tuple(TplParser *p, bool has_choice)
{
    const uint32_t at = tpl_peek(p)->at;
    TplNode *tuple = NULL, *n;
    for (;;) {
        n = has_choice ? tpl_parse_expression(p) : enter(p) ? parse_or(p) : NULL;
        p->depth -= !has_choice;
        if (n == NULL || (tuple == NULL && !tpl_at_op(p, OP(','))))
            return n;
        tuple = tuple == NULL ? tpl_node(p, NODE_TUPLE) : tuple;
        vec_push(p->arena, &tuple->list, n);
        if (!tpl_take_op(p, OP(',')) || is_at_tuple_end(p))
            return done(p, tuple, at);
    }
}

// --- targets -------------------------------------------------------------------------------------

static TplNode *parse_target(TplParser *p, bool has_members)
{
    TplNode *n = tpl_node(p, NODE_NAME);
    if (tpl_take_op(p, OP('('))) {
        n = enter(p) ? tpl_parse_target(p, false) : NULL;
        p->depth--;
        return n != NULL && tpl_need_op(p, OP(')'), "')'") ? n : NULL;
    }
    if (!tpl_need_name(p, &n->name))
        return NULL;
    return has_members && tpl_at_op(p, OP('.')) ? parse_member(p, n, n->at) : n;
}

TplNode *tpl_parse_target(TplParser *p, bool has_members)
{
    TplNode *first = parse_target(p, has_members);
    if (first == NULL || !tpl_at_op(p, OP(',')))
        return first;
    TplNode *n = tpl_node(p, NODE_TUPLE);
    vec_push(p->arena, &n->list, first);
    while (tpl_take_op(p, OP(','))) {
        if (tpl_peek(p)->kind != TOKEN_NAME && !tpl_at_op(p, OP('(')))
            break;
        if (tpl_at_word(p, "in"))
            break;
        TplNode *next = parse_target(p, has_members);
        if (next == NULL)
            return NULL;
        vec_push(p->arena, &n->list, next);
    }
    return done(p, n, first->at);
}
