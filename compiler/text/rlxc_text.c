// SPDX-License-Identifier: Apache-2.0
// See rlxc_text.h. Each object lives in an arena of its own.
#include "compiler/text/rlxc_text.h"
#include "base/str.h"
#include "compiler/grammar/grammar.h"
#include "compiler/system/json_scan.h"
#include "compiler/template/template.h"
#include <stdlib.h>
#include <string.h>

struct rlxc_grammar {
    Arena arena;
    rlx_grammar tables;
};

struct rlxc_template {
    Arena arena;
    const Template *t;
};

static void *new_object(size_t bytes)
{
    void *object = calloc(1, bytes);
    if (object == NULL)
        arena_give_up("bytes", bytes);
    return object;
}

// A message ends where there is no more room, but not within a character.
static void end_character(char *why)
{
    char *end = why + strlen(why), *at = end;
    while (at > why && ((unsigned char)at[-1] & 0xc0) == 0x80)
        at--;
    if (at > why && (unsigned char)at[-1] >= 0xc0 && str_utf8(at - 1, end, NULL) == 0)
        at[-1] = '\0';
}

// The first error, with its place in JSON.
static void say_why(const Diag *d, char *why, size_t room)
{
    const DiagItem *item = d->items.data, *end = item + d->items.len;
    while (item < end && item->level != DIAG_ERROR)
        item++;
    if (room == 0)
        return;
    if (item == end)
        snprintf(why, room, "it cannot be read");
    else if (item->span.path != NULL)
        snprintf(why, room, "%s: %s", item->span.path, item->message);
    else
        snprintf(why, room, "%s", item->message);
    end_character(why);
}

// --- grammars ------------------------------------------------------------------------------------

rlxc_grammar *rlxc_grammar_read(const char *gbnf, size_t n, const rlxc_schema *schemas, size_t n_schemas,
                                char *why, size_t room)
{
    rlxc_grammar *g = new_object(sizeof *g);
    Arena own = {0};
    Diag d = diag_new(&own);
    Str all = str_new(&own);
    GrammarSchema *rules = ARENA_ARRAY(&own, GrammarSchema, n_schemas);
    for (size_t i = 0; i < n_schemas; i++) {
        const uint32_t file = diag_add_file(&d, schemas[i].name, schemas[i].text, schemas[i].n);
        rules[i] = (GrammarSchema){schemas[i].name, {schemas[i].text, schemas[i].n, {.file = file}}};
    }
    str_add_n(&all, gbnf, n);
    str_char(&all, '\n');
    bool ok = grammar_of_schemas(&own, &d, rules, n_schemas, &all);
    const Span where = {.file = diag_add_file(&d, "grammar", str_text(&all), all.len)};
    ok = ok && grammar_read(&g->arena, &d, (GrammarText){str_text(&all), all.len, where}, &g->tables);
    if (!ok)
        say_why(&d, why, room);
    arena_free(&own);
    if (ok)
        return g;
    rlxc_grammar_free(g);
    return NULL;
}

const struct rlx_grammar *rlxc_grammar_tables(const rlxc_grammar *g)
{
    return &g->tables;
}

void rlxc_grammar_free(rlxc_grammar *g)
{
    if (g != NULL)
        arena_free(&g->arena);
    free(g);
}

// --- templates -----------------------------------------------------------------------------------

rlxc_template *rlxc_template_read(const char *text, size_t n, char *why, size_t room)
{
    rlxc_template *t = new_object(sizeof *t);
    Diag d = diag_new(&t->arena);
    t->t = template_read(&t->arena, &d, "template", (TplText){arena_strndup(&t->arena, text, n), n});
    if (t->t != NULL)
        return t;
    say_why(&d, why, room);
    rlxc_template_free(t);
    return NULL;
}

static bool render(const Template *t, Arena *a, Diag *d, TplText json, TemplateRun *run, TplText *out)
{
    const char *why = "";
    size_t at = 0;
    if (json_check(json.data, json.len, &at, &why) != JSON_FINE)
        return diag_error(d, (Span){0}, E0101, "the variables, byte %zu: %s", at, why);
    const TplValue variables = tpl_of_json(a, json.data, json.len);
    if (variables.kind != TPL_DICT)
        return diag_error(d, (Span){0}, E0102, "expected an object with the variables");
    run->variables = variables.u.dict;
    return template_render(t, a, d, run, out);
}

char *rlxc_template_render(const rlxc_template *t, const char *variables, size_t n, size_t *length, char *why,
                           size_t room)
{
    Arena own = {0};
    Diag d = diag_new(&own);
    TemplateRun run = {0};
    TplText text;
    char *out = NULL;
    // Messages point into the text of the template: they have its number, which this list has for no other.
    diag_add_file(&d, "template", NULL, 0);
    if (render(t->t, &own, &d, (TplText){variables, n}, &run, &text)) {
        out = new_object(text.len + 1);
        memcpy(out, text.data, text.len);
        if (length != NULL)
            *length = text.len;
    } else if (run.said != NULL && room != 0) {
        snprintf(why, room, "%s", run.said);
        end_character(why);
    } else {
        say_why(&d, why, room);
    }
    arena_free(&own);
    return out;
}

void rlxc_template_free(rlxc_template *t)
{
    if (t != NULL)
        arena_free(&t->arena);
    free(t);
}
