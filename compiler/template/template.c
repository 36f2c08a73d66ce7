// SPDX-License-Identifier: Apache-2.0
// See template.h: reading and rendering.
#include "compiler/template/tpl_run.h"
#include <string.h>

// The text as the lexer wants it: line breaks are \n, and one at the end is gone.
static TplText normal_lines(Arena *a, TplText text)
{
    char *data = arena_alloc(a, text.len + 1);
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++) {
        const bool is_return = text.data[i] == '\r';
        data[n++] = is_return ? '\n' : text.data[i];
        i += is_return && i + 1 < text.len && text.data[i + 1] == '\n';
    }
    n -= n > 0 && data[n - 1] == '\n';
    data[n] = '\0';
    return (TplText){data, n};
}

static bool check_text(Diag *d, uint32_t file, TplText text)
{
    for (size_t at = 0, n; at < text.len; at += n) {
        n = text.data[at] == '\0' ? 0 : str_utf8(text.data + at, text.data + text.len, NULL);
        if (n == 0)
            return diag_error(d, (Span){file, (uint32_t)at, (uint32_t)at + 1, NULL}, E0120,
                              "expected text in UTF-8");
    }
    return true;
}

Template *template_read(Arena *a, Diag *d, const char *name, TplText text)
{
    Template *t = ARENA_NEW(a, Template);
    if (text.len > TPL_MAX_SOURCE) {
        diag_error(d, (Span){diag_add_file(d, name, NULL, 0), 0, 0, NULL}, E0120,
                   "a template of %zu bytes; at most %d", text.len, TPL_MAX_SOURCE);
        return NULL;
    }
    t->name = name;
    t->text = normal_lines(a, text);
    t->file = diag_add_file(d, name, t->text.data, t->text.len);
    TplParser p = {.arena = a, .diag = d, .t = t};
    tpl_name(&p, (TplText){"loop", 4});
    tpl_name(&p, (TplText){"caller", 6});
    return check_text(d, t->file, t->text) && tpl_parse(&p) ? t : NULL;
}

TplText template_text(const Template *t)
{
    return t->text;
}

// The variables that the template names.
static void set_variables(Tpl *t, const TplDict *variables)
{
    for (uint32_t i = 0; i < variables->items.len; i++) {
        const TplItem *item = &variables->items.data[i];
        uint64_t name;
        rlx_assert(item->key.kind == TPL_TEXT);
        if (map_get(&t->t->names, item->key.u.text.data, item->key.u.text.len, &name))
            tpl_set_variable(t, (uint32_t)name, item->value);
    }
}

bool template_render(const Template *t, Arena *a, Diag *d, TemplateRun *run, TplText *out)
{
    Arena own = {0};
    Str text = str_new(&own);
    Tpl tpl = {.arena = &own,
               .diag = d,
               .t = t,
               .node = t->root,
               .out = &text,
               .steps = TPL_MAX_STEPS,
               .now = run->now != 0 ? run->now : time(NULL)};
    tpl.scope = tpl_open_scope(&tpl, NULL);
    set_variables(&tpl, run->variables);
    tpl.scope = tpl_open_scope(&tpl, tpl.scope);
    const TplFlow f = tpl_exec(&tpl, t->root);
    const bool ok = f != FLOW_FAIL;
    rlx_assert(!ok || (f == FLOW_ON && tpl.depth == 0 && tpl.out == &text)); // all that was entered is left
    run->said = tpl.said;
    if (ok)
        *out = (TplText){arena_strndup(a, str_text(&text), text.len), text.len};
    arena_free(&own);
    return ok;
}
