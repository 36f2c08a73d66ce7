// SPDX-License-Identifier: Apache-2.0
// Where templates come from: a GGUF file, a folder of Hugging Face, tokenizer_config.json (also beside
// another file), a file, a name.
#include "compiler/chat/chat.h"
#include "compiler/import/gguf/gguf.h"
#include "compiler/import/hf/hf.h"
#include "compiler/system/json_scan.h"
#include "compiler/system/rawfile.h"
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name, *text;
} built_in[] = {
#define CHAT_TEMPLATE(name, text) {name, text},
#include "compiler/chat/chat_names.def"
};

enum { BUILT_IN = sizeof built_in / sizeof *built_in };

// The names of the built-in templates, with commas.
static const char *chat_names(Arena *a)
{
    const char *all = built_in[0].name;
    for (size_t i = 1; i < BUILT_IN; i++)
        all = arena_printf(a, "%s, %s", all, built_in[i].name);
    return all;
}

static bool use(Chat *c, const char *name, TplText text)
{
    c->t = template_read(c->arena, c->diag, name, text);
    return c->t != NULL;
}

// --- GGUF ----------------------------------------------------------------------------------------

static void set_token(Chat *c, const GgufFile *f, const GgufArray *tokens, const char *name)
{
    uint64_t id;
    if (gguf_uint(f, arena_printf(c->arena, "tokenizer.ggml.%s_id", name), &id) && id < tokens->n)
        tpl_dict_set(c->arena, c->variables, name, tpl_text_n(tokens->text[id].data, tokens->text[id].len));
}

static bool open_gguf(Chat *c, const char *path, const RawFile *file, bool needs_template)
{
    static const char *const names[] = {"bos_token", "eos_token", "unknown_token", "padding_token"};
    static const char *const own[] = {"bos_token", "eos_token", "unk_token", "pad_token"};
    GgufFile f;
    GgufArray tokens;
    GgufText text;
    if (!gguf_read(c->arena, c->diag, path, file->data, file->len, &f))
        return false;
    if (gguf_array(&f, "tokenizer.ggml.tokens", &tokens) && tokens.text != NULL)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            set_token(c, &f, &tokens, names[i]);
            uint64_t at;
            if (strcmp(names[i], own[i]) != 0 && map_get_str(&c->variables.u.dict->texts, names[i], &at))
                tpl_dict_set(c->arena, c->variables, own[i], c->variables.u.dict->items.data[at].value);
        }
    if (!needs_template || !gguf_text(&f, "tokenizer.chat_template", &text))
        return true;
    return use(c, arena_printf(c->arena, "%s: tokenizer.chat_template", path),
               (TplText){text.data, text.len});
}

// --- tokenizer_config.json -----------------------------------------------------------------------

// A special token: a text, or an object with one.
static void set_json_token(Chat *c, const TplDict *from, const char *name)
{
    uint64_t at;
    if (!map_get_str(&from->texts, name, &at))
        return;
    TplValue v = from->items.data[at].value;
    if (v.kind == TPL_DICT && map_get_str(&v.u.dict->texts, "content", &at))
        v = v.u.dict->items.data[at].value;
    if (v.kind == TPL_TEXT)
        tpl_dict_set(c->arena, c->variables, name, v);
}

static const TplValue *member(const TplValue *of, const char *name)
{
    uint64_t at;
    return of->kind == TPL_DICT && map_get_str(&of->u.dict->texts, name, &at)
               ? &of->u.dict->items.data[at].value
               : NULL;
}

// The template, or the one of several that is called "default".
static const TplValue *json_template(const TplValue *v)
{
    if (v == NULL || v->kind != TPL_LIST)
        return v;
    for (uint32_t i = 0; i < v->u.list->items.len; i++) {
        const TplValue *name = member(&v->u.list->items.data[i], "name");
        if (name != NULL && name->kind == TPL_TEXT && name->u.text.len == 7 &&
            memcmp(name->u.text.data, "default", 7) == 0)
            return member(&v->u.list->items.data[i], "template");
    }
    return NULL;
}

static bool open_json(Chat *c, const char *path, const RawFile *file, bool needs_template)
{
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "pad_token"};
    size_t at;
    const char *why;
    const uint32_t id = diag_add_file(c->diag, path, file->data, file->len);
    if (json_check(file->data, file->len, &at, &why) != JSON_FINE)
        return diag_error(c->diag, (Span){id, (uint32_t)at, (uint32_t)at + 1, NULL}, E0101, "%s", why);
    const TplValue all = tpl_of_json(c->arena, file->data, file->len);
    if (all.kind != TPL_DICT)
        return diag_error(c->diag, (Span){id, 0, 0, NULL}, E0102, "expected an object");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        set_json_token(c, all.u.dict, names[i]);
    const TplValue *text = json_template(member(&all, "chat_template"));
    if (!needs_template || text == NULL)
        return true;
    if (text->kind != TPL_TEXT)
        return diag_error(c->diag, (Span){id, 0, 0, "/chat_template"}, E0102,
                          "expected a string, or a list of templates with one called default");
    return use(c, arena_printf(c->arena, "%s: chat_template", path), text->u.text);
}

// --- the choice ----------------------------------------------------------------------------------

static bool open_given(Chat *c, const char *given)
{
    RawFile file;
    for (size_t i = 0; i < BUILT_IN; i++)
        if (strcmp(given, built_in[i].name) == 0)
            return use(c, arena_printf(c->arena, "template %s", given),
                       (TplText){built_in[i].text, strlen(built_in[i].text)});
    if (access(given, F_OK) != 0)
        return diag_error(c->diag, (Span){0}, E0003, "--template %s: expected a file or one of %s", given,
                          chat_names(c->arena));
    return rawfile_open(c->arena, c->diag, (Span){0}, given, &file) &&
           use(c, given, (TplText){file.data, file.len});
}

// tokenizer_config.json in the folder of the model.
static const char *config_beside(Arena *a, const char *model)
{
    const char *slash = strrchr(model, '/');
    const int n = slash == NULL ? 0 : (int)(slash + 1 - model);
    const char *path = arena_printf(a, "%.*stokenizer_config.json", n, model);
    return access(path, R_OK) == 0 ? path : NULL;
}

// A folder of Hugging Face: tokenizer_config.json, and chat_template.jinja, which goes before its template.
static bool open_folder(Chat *c, const char *folder, bool needs_template)
{
    RawFile file;
    Arena *a = c->arena;
    const char *config = config_beside(a, arena_printf(a, "%s/", folder));
    const char *jinja = arena_printf(a, "%s/chat_template.jinja", folder);
    const bool has_jinja = needs_template && access(jinja, R_OK) == 0;
    if (config != NULL && (!rawfile_open(a, c->diag, (Span){0}, config, &file) ||
                           !open_json(c, config, &file, needs_template && !has_jinja)))
        return false;
    return !has_jinja || (rawfile_open(a, c->diag, (Span){0}, jinja, &file) &&
                          use(c, jinja, (TplText){file.data, file.len}));
}

static bool open_model(Chat *c, const char *model, bool needs_template)
{
    RawFile file;
    const char *path = model;
    if (hf_is_folder(model))
        return open_folder(c, model, needs_template);
    if (!rawfile_open(c->arena, c->diag, (Span){0}, model, &file))
        return false;
    if (gguf_is(file.data, file.len))
        return open_gguf(c, model, &file, needs_template);
    const bool is_config = str_ends_with(model, "config.json");
    if (!is_config && (path = config_beside(c->arena, model)) == NULL)
        return true;
    return (is_config || rawfile_open(c->arena, c->diag, (Span){0}, path, &file)) &&
           open_json(c, path, &file, needs_template);
}

bool chat_open(Arena *a, Diag *d, const char *model, const char *given, Chat *out)
{
    *out = (Chat){.arena = a, .diag = d, .variables = tpl_dict(a), .messages = tpl_list(a)};
    tpl_dict_set(a, out->variables, "bos_token", tpl_text(a, ""));
    tpl_dict_set(a, out->variables, "eos_token", tpl_text(a, ""));
    if (!open_model(out, model, given == NULL) || (given != NULL && !open_given(out, given)))
        return false;
    return out->t != NULL ||
           diag_error(
               d, (Span){0}, E0120,
               "%s has no chat template: give one with --template FILE, or one of the built-in ones with "
               "--template NAME (%s)",
               model, chat_names(a));
}
