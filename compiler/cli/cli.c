// SPDX-License-Identifier: Apache-2.0
// Option parser and exit codes. See cli.h.
#include "compiler/cli/cli_tables.h"
#include <string.h>

// "--name=value" or "-O2" carries its value; returns where it starts, NULL when it has none.
static const char *match(const OptionInfo *o, const char *arg, bool *is_match)
{
    rlx_assert(o->name[0] == '-');
    const size_t n = strlen(o->name);
    const bool is_short = o->name[1] != '-';
    *is_match =
        strncmp(arg, o->name, n) == 0 && (arg[n] == '\0' || arg[n] == '=' || (is_short && o->value != NULL));
    return !*is_match || arg[n] == '\0' ? NULL : arg + n + (arg[n] == '=' ? 1 : 0);
}

static const OptionInfo *find_option(char letter, const char *arg, const char **value)
{
    for (uint32_t i = 0; i < option_count; i++) {
        bool is_match = false;
        *value = match(&option_info[i], arg, &is_match);
        if (is_match && option_applies(&option_info[i], letter))
            return &option_info[i];
    }
    return NULL;
}

static bool unknown_option(Cli *c, char letter, const char *command, const char *arg)
{
    const char **names = ARENA_ARRAY(c->arena, const char *, option_count);
    uint32_t n = 0;
    for (uint32_t i = 0; i < option_count; i++)
        if (option_applies(&option_info[i], letter))
            names[n++] = option_info[i].name;
    const char *near = str_closest(arg, names, n);
    diag_error(c->diag, (Span){0}, E0003, "unknown option '%s'", arg);
    if (near != NULL)
        diag_note(c->diag, (Span){0}, "did you mean '%s'?", near);
    diag_note(c->diag, (Span){0}, "`rlxc help %s` lists its options", command);
    return false;
}

static void set_option(Cli *c, const OptionInfo *o, const char *value)
{
    rlx_assert(o->offset + (o->is_list ? sizeof(Strings) : sizeof(char *)) <= sizeof c->options);
    char *field = (char *)&c->options + o->offset;
    if (o->is_list) {
        Strings *list = (Strings *)(void *)field;
        vec_push(c->arena, list, value);
    } else {
        *(const char **)(void *)field = value;
    }
}

bool cli_parse(Cli *c, char letter, int argc, char **argv)
{
    bool only_args = false;
    for (int i = 2; i < argc; i++) {
        const char *value = NULL;
        if (only_args || argv[i][0] != '-' || argv[i][1] == '\0') {
            vec_push(c->arena, &c->options.args, (const char *)argv[i]);
            continue;
        }
        if (strcmp(argv[i], "--") == 0) {
            only_args = true;
            continue;
        }
        const OptionInfo *o = find_option(letter, argv[i], &value);
        if (o == NULL)
            return unknown_option(c, letter, argv[1], argv[i]);
        if (o->value == NULL && value != NULL)
            return diag_error(c->diag, (Span){0}, E0003, "option '%s' takes no value", o->name);
        if (o->value != NULL && value == NULL && i + 1 == argc)
            return diag_error(c->diag, (Span){0}, E0003, "option '%s' needs a value: %s", o->name, o->value);
        set_option(c, o, o->value == NULL ? "" : value != NULL ? value : argv[++i]);
    }
    return true;
}

// A command line may turn out wrong at any place: the code of the message decides.
static ExitCode exit_code(DiagCode code)
{
    return code == E0003 || code == E0301 ? EXIT_USAGE : code == E0005 ? EXIT_TOOL : EXIT_WRONG;
}

ExitCode cli_fail(Cli *c)
{
    ExitCode code = EXIT_WRONG;
    cli_progress_end();
    diag_print(c->diag, stderr, c->style);
    for (uint32_t i = 0; i < c->diag->items.len; i++)
        if (c->diag->items.data[i].level == DIAG_ERROR && code == EXIT_WRONG)
            code = exit_code(c->diag->items.data[i].code);
    return code;
}
