// SPDX-License-Identifier: Apache-2.0
// Statements of templates: a tree to text.
#include "compiler/template/tpl_run.h"
#include <string.h>

// --- limits and messages -------------------------------------------------------------------------

bool tpl_fail(Tpl *t, const char *fmt, ...)
{
    va_list args;
    rlx_assert(t->node->at <= t->node->end && t->node->end <= t->t->text.len);
    va_start(args, fmt);
    const char *text = arena_vprintf(t->diag->arena, fmt, args);
    va_end(args);
    const Span where = {t->t->file, t->node->at, t->node->end, NULL};
    return diag_error(t->diag, where, E0120, "%s", text);
}

bool tpl_may_make(Tpl *t, uint64_t bytes)
{
    return (t->arena->used < TPL_MAX_BYTES && bytes <= TPL_MAX_BYTES - t->arena->used) ||
           tpl_fail(t, "the template makes more than %zu MB", TPL_MAX_BYTES >> 20);
}

bool tpl_spend(Tpl *t, uint64_t steps)
{
    if (steps >= t->steps)
        return tpl_fail(t, "the template takes more than %u steps", TPL_MAX_STEPS);
    t->steps -= steps;
    return t->arena->used < TPL_MAX_BYTES || tpl_may_make(t, 0);
}

bool tpl_enter(Tpl *t)
{
    return t->depth++ < TPL_MAX_DEPTH || tpl_fail(t, "nested more than %d deep", TPL_MAX_DEPTH);
}

// --- variables -----------------------------------------------------------------------------------

TplScope *tpl_open_scope(Tpl *t, TplScope *above)
{
    TplScope *s = ARENA_NEW(t->arena, TplScope);
    s->above = above;
    return s;
}

void tpl_set_variable(Tpl *t, uint32_t name, TplValue value)
{
    TplScope *s = t->scope;
    rlx_assert(name < t->t->name_text.len);
    for (uint32_t i = 0; i < s->variables.len; i++)
        if (s->variables.data[i].name == name) {
            s->variables.data[i].value = value;
            return;
        }
    const TplVariable v = {name, value};
    vec_push(t->arena, &s->variables, v);
}

static bool assign_member(Tpl *t, const TplNode *target, TplValue value)
{
    TplValue space;
    if (!tpl_eval(t, target->a, &space))
        return false;
    if (space.kind != TPL_SPACE)
        return tpl_fail(t, "cannot set a member of a value that is no namespace");
    return tpl_put(t, space.u.dict, target->value, value);
}

bool tpl_assign(Tpl *t, const TplNode *target, TplValue value)
{
    const TplList *list;
    if (target->kind == NODE_NAME) {
        tpl_set_variable(t, target->name, value);
        return true;
    }
    if (target->kind == NODE_MEMBER)
        return assign_member(t, target, value);
    rlx_assert(target->kind == NODE_TUPLE); // the parser makes no other targets
    if (!tpl_iterate(t, value, &list))
        return false;
    if (list->items.len != target->list.len)
        return tpl_fail(t, "%u values for %u names", list->items.len, target->list.len);
    for (uint32_t i = 0; i < list->items.len; i++)
        if (!tpl_assign(t, target->list.data[i], list->items.data[i]))
            return false;
    return true;
}

// --- statements ----------------------------------------------------------------------------------

static TplFlow flow(bool ok)
{
    return ok ? FLOW_ON : FLOW_FAIL;
}

static TplFlow exec_body(Tpl *t, const TplNode *n)
{
    for (uint32_t i = 0; i < n->list.len; i++) {
        const TplFlow f = tpl_exec(t, n->list.data[i]);
        if (f != FLOW_ON)
            return f;
    }
    return FLOW_ON;
}

static bool write_text(Tpl *t, TplText s)
{
    if (!tpl_may_make(t, s.len + (t->out->len + s.len > t->out->cap ? 2 * t->out->len : 0)))
        return false;
    str_add_n(t->out, s.data, s.len);
    return true;
}

static TplFlow exec_data(Tpl *t, const TplNode *n)
{
    rlx_assert(n->value.kind == TPL_TEXT);
    return flow(write_text(t, n->value.u.text));
}

static TplFlow exec_print(Tpl *t, const TplNode *n)
{
    TplValue v;
    return flow(tpl_eval(t, n->a, &v) && tpl_may_make(t, t->out->len * 2) && tpl_print(t, v, false, t->out));
}

static TplFlow exec_if(Tpl *t, const TplNode *n)
{
    for (; n != NULL && n->kind == NODE_IF; n = n->c) {
        TplValue v;
        if (!tpl_eval(t, n->a, &v))
            return FLOW_FAIL;
        if (tpl_is_true(v))
            return tpl_exec(t, n->b);
    }
    return n == NULL ? FLOW_ON : tpl_exec(t, n);
}

static TplFlow exec_set(Tpl *t, const TplNode *n)
{
    TplValue v;
    return flow(tpl_eval(t, n->b, &v) && tpl_assign(t, n->a, v));
}

// The filters of a block on its text: the first of them has no operand.
static bool filter_text(Tpl *t, const TplNode *n, TplValue *v)
{
    if (n == NULL)
        return true;
    TplCall c = {0};
    rlx_assert(n->kind == NODE_FILTER);
    if (!tpl_enter(t) || !filter_text(t, n->a, v))
        return false;
    tpl_leave(t);
    t->node = n;
    c.self = *v;
    return tpl_eval_arguments(t, n, &c) && tpl_call(t, n->function, "such filter", &c, v);
}

// The text that a body writes, in a scope of its own.
static TplFlow exec_text(Tpl *t, const TplNode *body, TplValue *v)
{
    Str *text = ARENA_NEW(t->arena, Str), *was = t->out;
    TplScope *scope = t->scope;
    *text = str_new(t->arena);
    t->out = text;
    t->scope = tpl_open_scope(t, scope);
    const TplFlow f = tpl_exec(t, body);
    t->out = was;
    t->scope = scope;
    *v = tpl_text_n(str_text(text), text->len);
    return f;
}

static TplFlow exec_set_block(Tpl *t, const TplNode *n)
{
    TplValue v;
    const TplFlow f = exec_text(t, n->b, &v);
    return f != FLOW_ON ? f : flow(filter_text(t, n->c, &v) && tpl_assign(t, n->a, v));
}

static TplFlow exec_filter_block(Tpl *t, const TplNode *n)
{
    TplValue v;
    const TplFlow f = exec_text(t, n->b, &v);
    return f != FLOW_ON ? f : flow(filter_text(t, n->c, &v) && tpl_print(t, v, false, t->out));
}

static TplMacro *make_macro(Tpl *t, const TplNode *n)
{
    TplMacro *m = ARENA_NEW(t->arena, TplMacro);
    *m = (TplMacro){n, t->scope};
    for (TplScope *s = t->scope; s != NULL && !s->is_kept; s = s->above)
        s->is_kept = true;
    return m;
}

static TplFlow exec_macro(Tpl *t, const TplNode *n)
{
    tpl_set_variable(t, n->name, (TplValue){TPL_MACRO, {.macro = make_macro(t, n)}});
    return FLOW_ON;
}

static TplFlow exec_call_block(Tpl *t, const TplNode *n)
{
    TplCall c = {0};
    TplValue callee, v;
    rlx_assert(n->a->kind == NODE_CALL && n->b->kind == NODE_MACRO);
    if (!tpl_eval(t, n->a->a, &callee) || !tpl_eval_arguments(t, n->a, &c))
        return FLOW_FAIL;
    if (callee.kind != TPL_MACRO)
        return flow(
            tpl_fail(t, "a call block calls a value of type '%s', not a macro", tpl_type_name(callee)));
    return flow(tpl_call_macro(t, callee.u.macro, &c, make_macro(t, n->b), &v) &&
                tpl_print(t, v, false, t->out));
}

static TplFlow exec_with(Tpl *t, const TplNode *n)
{
    TplScope *outside = t->scope, *inside = tpl_open_scope(t, outside);
    TplFlow f = FLOW_ON;
    rlx_assert(n->list.len % 2 == 0); // targets and values in turns
    for (uint32_t i = 0; i < n->list.len && f == FLOW_ON; i += 2) {
        TplValue v;
        bool ok = tpl_eval(t, n->list.data[i + 1], &v);
        t->scope = inside;
        ok = ok && tpl_assign(t, n->list.data[i], v);
        t->scope = outside;
        f = flow(ok);
    }
    t->scope = inside;
    f = f == FLOW_ON ? tpl_exec(t, n->a) : f;
    t->scope = outside;
    return f;
}

static TplFlow exec_scope(Tpl *t, const TplNode *n)
{
    TplScope *outside = t->scope;
    t->scope = tpl_open_scope(t, outside);
    const TplFlow f = tpl_exec(t, n->a);
    t->scope = outside;
    return f;
}

static TplFlow exec_leave(Tpl *t, const TplNode *n)
{
    (void)t;
    return n->kind == NODE_BREAK ? FLOW_BREAK : FLOW_CONTINUE;
}

TplFlow tpl_exec(Tpl *t, const TplNode *n)
{
    static TplFlow (*const by_kind[])(Tpl * t, const TplNode *n) = {[NODE_BODY] = exec_body,
                                                                    [NODE_DATA] = exec_data,
                                                                    [NODE_PRINT] = exec_print,
                                                                    [NODE_IF] = exec_if,
                                                                    [NODE_FOR] = tpl_exec_for,
                                                                    [NODE_SET] = exec_set,
                                                                    [NODE_MACRO] = exec_macro,
                                                                    [NODE_SET_BLOCK] = exec_set_block,
                                                                    [NODE_FILTER_BLOCK] = exec_filter_block,
                                                                    [NODE_WITH] = exec_with,
                                                                    [NODE_CALL_BLOCK] = exec_call_block,
                                                                    [NODE_SCOPE] = exec_scope,
                                                                    [NODE_BREAK] = exec_leave,
                                                                    [NODE_CONTINUE] = exec_leave};
    const TplNode *was = t->node;
    t->node = n;
    rlx_assert(n->kind < sizeof by_kind / sizeof *by_kind && by_kind[n->kind] != NULL);
    if (!tpl_spend(t, 1) || !tpl_enter(t))
        return FLOW_FAIL;
    const TplFlow f = by_kind[n->kind](t, n);
    tpl_leave(t);
    t->node = f == FLOW_FAIL ? t->node : was;
    return f;
}
