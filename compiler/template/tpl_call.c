// SPDX-License-Identifier: Apache-2.0
// Calls in templates: arguments, rows of the tables, macros.
#include "compiler/template/tpl_run.h"
#include <string.h>

bool tpl_eval_arguments(Tpl *t, const TplNode *n, TplCall *c)
{
    rlx_assert(n->names.len <= n->list.len); // those with names are the last
    TplValue *value = ARENA_ARRAY(t->arena, TplValue, n->list.len);
    for (uint32_t i = 0; i < n->list.len; i++)
        if (!tpl_eval(t, n->list.data[i], &value[i]))
            return false;
    c->value = value;
    c->names = n->names.data;
    c->n_names = n->names.len;
    c->n = n->list.len - n->names.len;
    return true;
}

const TplValue *tpl_named(const Tpl *t, const TplCall *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_names; i++)
        if (tpl_text_is(t->t->name_text.data[c->names[i]], name))
            return &c->value[c->n + i];
    return NULL;
}

// The place of a name among those of `names`, between spaces. -1: it is not there.
static int32_t place(const char *names, TplText name)
{
    int32_t at = 0;
    for (const char *p = names; *p != '\0'; at++) {
        const size_t n = strcspn(p, " ");
        if (n == name.len && memcmp(p, name.data, n) == 0)
            return at;
        p += n + (p[n] == ' ');
    }
    return -1;
}

static uint32_t count(const char *names)
{
    uint32_t n = names[0] != '\0';
    for (; *names != '\0'; names++)
        n += *names == ' ';
    return n;
}

static bool bind(Tpl *t, const TplFunction *f, TplCall *c)
{
    const uint32_t n = count(f->parameters);
    bool is_given[TPL_MOST_PARAMETERS] = {0};
    rlx_assert(n <= TPL_MOST_PARAMETERS && f->least <= n);
    if (c->n > n)
        return tpl_fail(t, "%s() takes at most %u arguments, and has %u", f->name, n, c->n);
    for (uint32_t i = 0; i < n; i++) {
        is_given[i] = i < c->n;
        c->arg[i] = i < c->n ? c->value[i] : (TplValue){0};
    }
    for (uint32_t i = 0; i < c->n_names; i++) {
        const TplText name = t->t->name_text.data[c->names[i]];
        const int32_t at = place(f->parameters, name);
        if (at < 0 || is_given[at])
            return tpl_fail(t, "%s() %s '%.*s'", f->name, at < 0 ? "has no parameter" : "has two values for",
                            (int)name.len, name.data);
        is_given[at] = true;
        c->arg[at] = c->value[c->n + i];
    }
    for (uint32_t i = 0; i < f->least; i++)
        if (!is_given[i])
            return tpl_fail(t, "%s() needs %u arguments", f->name, f->least);
    return true;
}

bool tpl_call(Tpl *t, const TplFunction *f, const char *what, TplCall *c, TplValue *out)
{
    if (f == NULL)
        return tpl_fail(t, "there is no %s", what);
    c->function = f;
    return tpl_spend(t, 1) && (f->parameters == NULL || bind(t, f, c)) && f->call(t, c, out);
}

// --- macros --------------------------------------------------------------------------------------

static bool bind_macro(Tpl *t, const TplNode *m, const TplCall *c)
{
    const uint32_t n = m->names.len, defaults = m->list.len;
    rlx_assert(m->kind == NODE_MACRO && defaults <= n);
    if (c->n > n)
        return tpl_fail(t, "the macro takes at most %u arguments, and has %u", n, c->n);
    for (uint32_t i = 0; i < n; i++) {
        const TplText name = t->t->name_text.data[m->names.data[i]];
        TplValue v = tpl_undefined(t, "parameter '%.*s' was not given", (int)name.len, name.data);
        uint32_t named = c->n_names;
        for (uint32_t k = 0; k < c->n_names; k++)
            named = c->names[k] == m->names.data[i] ? k : named;
        if (i < c->n)
            v = c->value[i];
        else if (named < c->n_names)
            v = c->value[c->n + named];
        else if (i >= n - defaults && !tpl_eval(t, m->list.data[i - (n - defaults)], &v))
            return false;
        if (i < c->n && named < c->n_names)
            return tpl_fail(t, "the macro has two values for '%.*s'", (int)name.len, name.data);
        tpl_set_variable(t, m->names.data[i], v);
    }
    for (uint32_t k = 0; k < c->n_names; k++) {
        bool is_known = false;
        for (uint32_t i = 0; i < n; i++)
            is_known = is_known || c->names[k] == m->names.data[i];
        const TplText name = t->t->name_text.data[c->names[k]];
        if (!is_known)
            return tpl_fail(t, "the macro has no parameter '%.*s'", (int)name.len, name.data);
    }
    return true;
}

bool tpl_call_macro(Tpl *t, const TplMacro *m, const TplCall *c, const TplMacro *caller, TplValue *out)
{
    TplScope *scope = t->scope;
    Str *was = t->out, *text = ARENA_NEW(t->arena, Str);
    uint64_t name;
    *text = str_new(t->arena);
    if (!tpl_enter(t))
        return false;
    t->scope = tpl_open_scope(t, m->scope);
    t->out = text;
    if (caller != NULL && map_get_str(&t->t->names, "caller", &name)) {
        const TplValue v = {TPL_MACRO, {.macro = (TplMacro *)(uintptr_t)caller}};
        tpl_set_variable(t, (uint32_t)name, v);
    }
    const TplFlow f = bind_macro(t, m->node, c) ? tpl_exec(t, m->node->a) : FLOW_FAIL;
    if (f == FLOW_FAIL)
        return false;
    rlx_assert(f == FLOW_ON && t->out == text); // the parser lets no break leave a macro
    t->scope = scope;
    t->out = was;
    tpl_leave(t);
    *out = tpl_text_n(str_text(text), text->len);
    return true;
}

bool tpl_call_value(Tpl *t, TplValue callee, TplCall *c, TplValue *out)
{
    switch (callee.kind) {
    case TPL_MACRO:
        return tpl_call_macro(t, callee.u.macro, c, NULL, out);
    case TPL_FUNCTION:
        return tpl_call(t, callee.u.function, "function", c, out);
    case TPL_METHOD:
        c->self = callee.u.method->self;
        return tpl_call(t, callee.u.method->function, "method", c, out);
    case TPL_UNDEFINED:
        return tpl_fail_undefined(t, callee);
    default:
        return tpl_fail(t, "a value of type '%s' is called", tpl_type_name(callee));
    }
}
