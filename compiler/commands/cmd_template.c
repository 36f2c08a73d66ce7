// SPDX-License-Identifier: Apache-2.0
// rlxc template: what a chat template makes of messages, for people who look at templates and for tests.
#include "compiler/chat/chat.h"
#include "compiler/cli/cli.h"
#include "compiler/system/json_scan.h"
#include "compiler/system/rawfile.h"
#include <errno.h>
#include <string.h>

enum { MOST_INPUT = 64 << 20 };

static bool read_input(Cli *c, const char **text, size_t *len)
{
    const char *path = c->options.messages;
    RawFile file;
    Str all = str_new(c->arena);
    char buffer[4096];
    if (path != NULL && strcmp(path, "-") != 0) {
        if (!rawfile_open(c->arena, c->diag, (Span){0}, path, &file))
            return false;
        *text = file.data;
        *len = file.len;
        return true;
    }
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, stdin)) != 0;) {
        str_add_n(&all, buffer, n);
        if (all.len > MOST_INPUT)
            return diag_error(c->diag, (Span){0}, E0004, "messages have at most %d bytes", MOST_INPUT);
    }
    *text = str_text(&all);
    *len = all.len;
    return !ferror(stdin) || diag_error(c->diag, (Span){0}, E0001, "standard input: %s", strerror(errno));
}

// The variables: an object as it is, or a list, which is the messages.
static bool read_variables(Cli *c, TplValue *out)
{
    const char *text, *why;
    size_t len, at;
    if (!read_input(c, &text, &len))
        return false;
    const char *name = c->options.messages == NULL ? "standard input" : c->options.messages;
    const uint32_t file = diag_add_file(c->diag, name, text, len);
    if (json_check(text, len, &at, &why) != JSON_FINE)
        return diag_error(c->diag, (Span){file, (uint32_t)at, (uint32_t)at + 1, NULL}, E0101, "%s", why);
    *out = tpl_of_json(c->arena, text, len);
    if (out->kind == TPL_LIST) {
        const TplValue messages = *out;
        *out = tpl_dict(c->arena);
        tpl_dict_set(c->arena, *out, "messages", messages);
        tpl_dict_set(c->arena, *out, "add_generation_prompt", tpl_bool(true));
    }
    return out->kind == TPL_DICT ||
           diag_error(c->diag, (Span){file, 0, 0, NULL}, E0102,
                      "expected a list of messages, or an object with messages and other variables");
}

// The template and the texts of special tokens, as one object.
static ExitCode print_source(const Cli *c, const Chat *chat)
{
    const TplDict *tokens = chat->variables.u.dict;
    const TplText text = template_text(chat->t);
    Str out = str_new(c->arena);
    str_add(&out, "{\"template\": ");
    json_print_string(&out, arena_strndup(c->arena, text.data, text.len));
    for (uint32_t i = 0; i < tokens->items.len; i++) {
        const TplText name = tokens->items.data[i].key.u.text, value = tokens->items.data[i].value.u.text;
        str_printf(&out, ", \"%.*s\": ", (int)name.len, name.data);
        json_print_string(&out, arena_strndup(c->arena, value.data, value.len));
    }
    printf("%s}\n", str_text(&out));
    return EXIT_OK;
}

ExitCode cmd_template(Cli *c)
{
    Chat chat;
    TplValue variables;
    TplText text;
    if (c->options.args.len != 1) {
        diag_error(c->diag, (Span){0}, E0003, "expected one file: a model, or a tokenizer_config.json");
        return cli_fail(c);
    }
    if (!chat_open(c->arena, c->diag, c->options.args.data[0], c->options.chat_template, &chat))
        return cli_fail(c);
    if (c->options.template_source != NULL)
        return print_source(c, &chat);
    if (!read_variables(c, &variables) || !chat_render(&chat, c->arena, variables, &text))
        return cli_fail(c);
    diag_print(c->diag, stderr, c->style);
    if (c->options.json == NULL) {
        fwrite(text.data, 1, text.len, stdout);
        return EXIT_OK;
    }
    Str quoted = str_new(c->arena);
    json_print_string(&quoted, arena_strndup(c->arena, text.data, text.len));
    printf("{\"text\": %s}\n", str_text(&quoted));
    return EXIT_OK;
}
