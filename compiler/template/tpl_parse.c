// SPDX-License-Identifier: Apache-2.0
// Statements of templates: tokens to a tree.
#include "compiler/template/tpl_node.h"
#include <stdarg.h>
#include <string.h>

bool tpl_wrong(TplParser *p, uint32_t at, uint32_t end, const char *fmt, ...)
{
    va_list args;
    rlx_assert(at <= end && end <= p->t->text.len);
    va_start(args, fmt);
    const char *text = arena_vprintf(p->arena, fmt, args);
    va_end(args);
    return diag_error(p->diag, (Span){p->t->file, at, end, NULL}, E0120, "%s", text);
}

// --- tokens --------------------------------------------------------------------------------------

const TplToken *tpl_peek(const TplParser *p)
{
    rlx_assert(p->at < p->tokens.len); // nothing takes TOKEN_END, the last one
    return &p->tokens.data[p->at];
}

TplNode *tpl_node(TplParser *p, TplNodeKind kind)
{
    TplNode *n = ARENA_NEW(p->arena, TplNode);
    n->kind = kind;
    n->at = tpl_peek(p)->at;
    n->end = tpl_peek(p)->end;
    return n;
}

static const char *show(TplParser *p, const TplToken *t)
{
    if (t->kind == TOKEN_END)
        return "the end of the template";
    if (t->kind == TOKEN_BLOCK_END || t->kind == TOKEN_PRINT_END)
        return "the end of the tag";
    const uint32_t n = t->end - t->at < 40 ? t->end - t->at : 40;
    return t->kind == TOKEN_DATA ? "text" : arena_printf(p->arena, "'%.*s'", (int)n, p->t->text.data + t->at);
}

bool tpl_unexpected(TplParser *p, const char *expected)
{
    const TplToken *t = tpl_peek(p);
    return tpl_wrong(p, t->at, t->end, "expected %s, found %s", expected, show(p, t));
}

bool tpl_at_op(const TplParser *p, uint32_t op)
{
    return tpl_peek(p)->kind == TOKEN_OPERATOR && tpl_peek(p)->op == op;
}

static bool is_word(const TplToken *t, const char *word)
{
    return t->kind == TOKEN_NAME && t->value.u.text.len == strlen(word) &&
           memcmp(t->value.u.text.data, word, t->value.u.text.len) == 0;
}

bool tpl_at_word(const TplParser *p, const char *word)
{
    return is_word(tpl_peek(p), word);
}

bool tpl_take_op(TplParser *p, uint32_t op)
{
    const bool is_there = tpl_at_op(p, op);
    p->at += is_there;
    return is_there;
}

bool tpl_take_word(TplParser *p, const char *word)
{
    const bool is_there = tpl_at_word(p, word);
    p->at += is_there;
    return is_there;
}

bool tpl_need_op(TplParser *p, uint32_t op, const char *what)
{
    return tpl_take_op(p, op) || tpl_unexpected(p, what);
}

uint32_t tpl_name(TplParser *p, TplText text)
{
    uint64_t known;
    if (map_get(&p->t->names, text.data, text.len, &known))
        return (uint32_t)known;
    map_put(p->arena, &p->t->names, text.data, text.len, p->t->name_text.len);
    vec_push(p->arena, &p->t->name_text, text);
    return p->t->name_text.len - 1;
}

bool tpl_need_name(TplParser *p, uint32_t *name)
{
    if (tpl_peek(p)->kind != TOKEN_NAME)
        return tpl_unexpected(p, "a name");
    *name = tpl_name(p, tpl_peek(p)->value.u.text);
    p->at++;
    return true;
}

static bool need_end(TplParser *p)
{
    if (tpl_peek(p)->kind != TOKEN_BLOCK_END)
        return tpl_unexpected(p, "the end %} of the tag");
    p->at++;
    return true;
}

// --- bodies --------------------------------------------------------------------------------------

static TplNode *parse_statement(TplParser *p);

static bool is_at_end(const TplParser *p, const char *const *ends)
{
    if (tpl_peek(p)->kind != TOKEN_BLOCK_BEGIN)
        return false;
    for (; *ends != NULL; ends++)
        if (is_word(tpl_peek(p) + 1, *ends))
            return true;
    return false;
}

static TplNode *parse_print(TplParser *p)
{
    TplNode *n = tpl_node(p, NODE_PRINT);
    p->at++;
    n->a = tpl_parse_tuple(p, true);
    if (n->a == NULL || (tpl_peek(p)->kind != TOKEN_PRINT_END && !tpl_unexpected(p, "the end }} of the tag")))
        return NULL;
    p->at++;
    return n;
}

// One part of a body.
static TplNode *parse_part(TplParser *p)
{
    const TplToken *t = tpl_peek(p);
    if (t->kind == TOKEN_PRINT_BEGIN)
        return parse_print(p);
    if (t->kind == TOKEN_BLOCK_BEGIN)
        return parse_statement(p);
    rlx_assert(t->kind == TOKEN_DATA); // other tokens are within tags
    TplNode *n = tpl_node(p, NODE_DATA);
    n->value = t->value;
    p->at++;
    return n;
}

// Up to a block that begins with one of the words, of which the first token is next then.
static TplNode *parse_body(TplParser *p, const char *const *ends, const char *of)
{
    TplNode *body = tpl_node(p, NODE_BODY);
    const TplToken *begin = tpl_peek(p);
    while (!is_at_end(p, ends)) {
        if (tpl_peek(p)->kind == TOKEN_END) {
            if (of == NULL)
                return body;
            tpl_wrong(p, begin->at, begin->end, "%s without its {%% %s %%}", of, ends[0]);
            return NULL;
        }
        TplNode *part = parse_part(p);
        if (part == NULL)
            return NULL;
        vec_push(p->arena, &body->list, part);
    }
    p->at++;
    return body;
}

// A body that ends with {% word %}.
static TplNode *parse_block(TplParser *p, const char *word, const char *of)
{
    const char *const ends[] = {word, NULL};
    TplNode *body = need_end(p) ? parse_body(p, ends, of) : NULL;
    if (body == NULL)
        return NULL;
    p->at++;
    return need_end(p) ? body : NULL;
}

// --- statements: the word is behind ---------------------------------------------------------------

static TplNode *parse_if(TplParser *p)
{
    static const char *const ends[] = {"endif", "elif", "else", NULL}, *const last[] = {"endif", NULL};
    TplNode *first = NULL, **to = &first;
    for (;;) {
        TplNode *n = *to = tpl_node(p, NODE_IF);
        n->a = tpl_parse_tuple(p, false);
        n->b = n->a != NULL && need_end(p) ? parse_body(p, ends, "an if") : NULL;
        if (n->b == NULL)
            return NULL;
        to = &n->c;
        if (!tpl_take_word(p, "elif"))
            break;
    }
    if (tpl_take_word(p, "else")) {
        *to = need_end(p) ? parse_body(p, last, "an if") : NULL;
        if (*to == NULL)
            return NULL;
    }
    p->at++;
    return need_end(p) ? first : NULL;
}

static TplNode *parse_for(TplParser *p)
{
    static const char *const ends[] = {"endfor", "else", NULL}, *const last[] = {"endfor", NULL};
    TplNode *n = tpl_node(p, NODE_FOR);
    n->a = tpl_parse_target(p, false);
    if (n->a == NULL || (!tpl_take_word(p, "in") && !tpl_unexpected(p, "'in'")))
        return NULL;
    n->b = tpl_parse_tuple(p, false);
    if (n->b == NULL)
        return NULL;
    if (tpl_take_word(p, "if") && (n->c = tpl_parse_expression(p)) == NULL)
        return NULL;
    if (tpl_at_word(p, "recursive")) {
        tpl_unexpected(p, "the end of the tag: recursive loops are not supported");
        return NULL;
    }
    p->loops++;
    n->d = need_end(p) ? parse_body(p, ends, "a for") : NULL;
    p->loops--;
    if (n->d == NULL)
        return NULL;
    if (tpl_take_word(p, "else")) {
        n->e = need_end(p) ? parse_body(p, last, "a for") : NULL;
        if (n->e == NULL)
            return NULL;
    }
    p->at++;
    return need_end(p) ? n : NULL;
}

static TplNode *parse_set(TplParser *p)
{
    TplNode *n = tpl_node(p, NODE_SET);
    n->a = tpl_parse_target(p, true);
    if (n->a == NULL)
        return NULL;
    if (tpl_take_op(p, TPL_OP('=', 0))) {
        n->b = tpl_parse_tuple(p, true);
        return n->b != NULL && need_end(p) ? n : NULL;
    }
    n->kind = NODE_SET_BLOCK;
    if (tpl_at_op(p, TPL_OP('|', 0)) && (n->c = tpl_parse_filters(p, NULL)) == NULL)
        return NULL;
    n->b = parse_block(p, "endset", "a set without '='");
    return n->b != NULL ? n : NULL;
}

static TplNode *parse_macro(TplParser *p)
{
    TplNode *n = tpl_node(p, NODE_MACRO);
    const uint32_t loops = p->loops;
    if (!tpl_need_name(p, &n->name) || !tpl_parse_parameters(p, n))
        return NULL;
    p->loops = 0;
    n->a = parse_block(p, "endmacro", "a macro");
    p->loops = loops;
    return n->a != NULL ? n : NULL;
}

static TplNode *parse_call(TplParser *p)
{
    TplNode *n = tpl_node(p, NODE_CALL_BLOCK), *macro = n->b = tpl_node(p, NODE_MACRO);
    const uint32_t loops = p->loops;
    macro->name = tpl_name(p, (TplText){"caller", 6});
    if (tpl_at_op(p, TPL_OP('(', 0)) && !tpl_parse_parameters(p, macro))
        return NULL;
    n->a = tpl_parse_expression(p);
    if (n->a == NULL || (n->a->kind != NODE_CALL && !tpl_wrong(p, n->a->at, n->a->end, "expected a call")))
        return NULL;
    p->loops = 0;
    macro->a = parse_block(p, "endcall", "a call");
    p->loops = loops;
    return macro->a != NULL ? n : NULL;
}

static TplNode *parse_filter(TplParser *p)
{
    TplNode *n = tpl_node(p, NODE_FILTER_BLOCK);
    // The first filter has no bar before it: the token of the word stands for it.
    p->at--;
    rlx_assert(tpl_at_word(p, "filter"));
    p->tokens.data[p->at].kind = TOKEN_OPERATOR;
    p->tokens.data[p->at].op = TPL_OP('|', 0);
    n->c = tpl_parse_filters(p, NULL);
    n->b = n->c != NULL ? parse_block(p, "endfilter", "a filter") : NULL;
    return n->b != NULL ? n : NULL;
}

static TplNode *parse_with(TplParser *p)
{
    TplNode *n = tpl_node(p, NODE_WITH);
    while (tpl_peek(p)->kind != TOKEN_BLOCK_END) {
        if (n->list.len != 0 && !tpl_need_op(p, TPL_OP(',', 0), "','"))
            return NULL;
        TplNode *target = tpl_parse_target(p, false);
        if (target == NULL || !tpl_need_op(p, TPL_OP('=', 0), "'='"))
            return NULL;
        TplNode *value = tpl_parse_expression(p);
        if (value == NULL)
            return NULL;
        vec_push(p->arena, &n->list, target);
        vec_push(p->arena, &n->list, value);
    }
    n->a = parse_block(p, "endwith", "a with");
    return n->a != NULL ? n : NULL;
}

// {% generation %} marks what the model wrote, for training; its text counts as any other.
static TplNode *parse_generation(TplParser *p)
{
    TplNode *n = tpl_node(p, NODE_SCOPE);
    const uint32_t loops = p->loops;
    p->loops = 0;
    n->a = parse_block(p, "endgeneration", "a generation");
    p->loops = loops;
    return n->a != NULL ? n : NULL;
}

static TplNode *parse_leave(TplParser *p, TplNodeKind kind)
{
    TplNode *n = tpl_node(p, kind);
    if (p->loops == 0 && !tpl_wrong(p, n->at, n->end, "break and continue stand within loops"))
        return NULL;
    return need_end(p) ? n : NULL;
}

static TplNode *parse_break(TplParser *p)
{
    return parse_leave(p, NODE_BREAK);
}

static TplNode *parse_continue(TplParser *p)
{
    return parse_leave(p, NODE_CONTINUE);
}

static TplNode *parse_statement(TplParser *p)
{
    static const struct {
        const char *word;
        TplNode *(*parse)(TplParser *p);
    } words[] = {{"if", parse_if},
                 {"for", parse_for},
                 {"set", parse_set},
                 {"macro", parse_macro},
                 {"call", parse_call},
                 {"filter", parse_filter},
                 {"with", parse_with},
                 {"break", parse_break},
                 {"continue", parse_continue},
                 {"generation", parse_generation}};
    TplNode *n = NULL;
    p->at++;
    if (++p->depth > TPL_MAX_NESTING) {
        tpl_wrong(p, tpl_peek(p)->at, tpl_peek(p)->end, "nested more than %d deep", TPL_MAX_NESTING);
        return NULL;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!tpl_take_word(p, words[i].word))
            continue;
        n = words[i].parse(p);
        p->depth--;
        return n;
    }
    tpl_unexpected(p, "one of if, for, set, macro, call, filter, with, break, continue, generation");
    return n;
}

bool tpl_parse(TplParser *p)
{
    static const char *const none[] = {NULL};
    if (!tpl_lex(p))
        return false;
    rlx_assert(p->tokens.len != 0 && p->tokens.data[p->tokens.len - 1].kind == TOKEN_END);
    p->t->root = parse_body(p, none, NULL);
    if (p->t->root == NULL)
        return false;
    rlx_assert(p->depth == 0 && p->loops == 0 && p->at + 1 == p->tokens.len);
    return true;
}
