// SPDX-License-Identifier: Apache-2.0
// Functions that templates can call without an object.
#include "compiler/template/tpl_run.h"
#include <string.h>

enum { MAX_RANGE = 100000 }; // as jinja2's sandbox has it

static bool members(Tpl *t, TplCall *c, TplDict **out)
{
    TplDict *d = *out = tpl_new_dict(t);
    if (c->n > 1 || (c->n == 1 && c->value[0].kind != TPL_DICT))
        return tpl_fail(t, "%s(): expected a dictionary, or members with names", c->function->name);
    for (uint32_t i = 0; c->n == 1 && i < c->value[0].u.dict->items.len; i++)
        if (!tpl_put(t, d, c->value[0].u.dict->items.data[i].key, c->value[0].u.dict->items.data[i].value))
            return false;
    for (uint32_t i = 0; i < c->n_names; i++)
        if (!tpl_put(t, d, tpl_of_text(t->t->name_text.data[c->names[i]]), c->value[c->n + i]))
            return false;
    return tpl_spend(t, d->items.len);
}

bool tpl_function_dict(Tpl *t, TplCall *c, TplValue *out)
{
    out->kind = TPL_DICT;
    return members(t, c, &out->u.dict);
}

bool tpl_function_namespace(Tpl *t, TplCall *c, TplValue *out)
{
    out->kind = TPL_SPACE;
    return members(t, c, &out->u.dict);
}

bool tpl_function_range(Tpl *t, TplCall *c, TplValue *out)
{
    int64_t bound[3] = {0, 0, 1};
    for (uint32_t i = 0; i < 3; i++) {
        const TplValue v = c->arg[i];
        if (tpl_is_given(v) && v.kind != TPL_INT && v.kind != TPL_BOOL)
            return tpl_fail(t, "range(): expected whole numbers, found a value of type '%s'",
                            tpl_type_name(v));
        if (tpl_is_given(v))
            bound[i] = v.kind == TPL_INT ? v.u.i : v.u.truth;
    }
    if (!tpl_is_given(c->arg[1])) {
        bound[1] = bound[0];
        bound[0] = 0;
    }
    if (bound[2] == 0)
        return tpl_fail(t, "range(): the step is 0");
    TplList *list = tpl_new_list(t, TPL_RANGE);
    memcpy(list->range, bound, sizeof bound);
    for (int64_t i = bound[0]; bound[2] > 0 ? i < bound[1] : i > bound[1];) {
        if (list->items.len == MAX_RANGE)
            return tpl_fail(t, "range(): more than %d numbers", MAX_RANGE);
        vec_push(t->arena, &list->items, tpl_int(i));
        if (__builtin_add_overflow(i, bound[2], &i))
            break;
    }
    *out = tpl_of_list(list);
    return tpl_spend(t, list->items.len);
}

bool tpl_function_raise(Tpl *t, TplCall *c, TplValue *out)
{
    TplText s;
    (void)out;
    if (!tpl_string(t, c->arg[0], &s))
        return false;
    t->said = arena_strndup(t->diag->arena, s.data, s.len);
    return tpl_fail(t, "the template refuses its messages: %s", t->said);
}

bool tpl_function_strftime(Tpl *t, TplCall *c, TplValue *out)
{
    char text[512];
    struct tm when;
    if (c->arg[0].kind != TPL_TEXT || c->arg[0].u.text.len > 100)
        return tpl_fail(t, "strftime_now(): expected a format of at most 100 bytes");
    const char *format = arena_printf(t->arena, "%.*s ", (int)c->arg[0].u.text.len, c->arg[0].u.text.data);
    localtime_r(&t->now, &when);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    const size_t n = strftime(text, sizeof text, format, &when); // a space behind it: 0 is a failure
#pragma GCC diagnostic pop
    if (n == 0)
        return tpl_fail(t, "strftime_now(): the text is too long");
    *out = tpl_text_n(arena_strndup(t->arena, text, n - 1), n - 1);
    return true;
}
