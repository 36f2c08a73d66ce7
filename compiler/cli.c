// SPDX-License-Identifier: Apache-2.0
// Option parser, help and progress. See cli.h.
#include "compiler/cli.h"
#include <string.h>
#include <unistd.h>

typedef struct OptionInfo {
    const char *name, *value, *commands, *help;
    size_t offset;
    bool is_list;
} OptionInfo;

static const OptionInfo option_info[] = {
#define OPTION(field, name, value, commands, help)                                                           \
    {name, value, commands, help, offsetof(Options, field), false},
#define LIST(field, name, value, commands, help)                                                             \
    {name, value, commands, help, offsetof(Options, field), true},
#include "compiler/options.def"
#undef OPTION
#undef LIST
};

typedef struct CommandInfo {
    char letter;
    const char *name, *args, *text;
} CommandInfo;

static const CommandInfo command_info[] = {
#define COMMAND(letter, name, args, fn, text) {letter, name, args, text},
#include "compiler/commands.def"
#undef COMMAND
};

enum {
    N_OPTIONS = sizeof option_info / sizeof option_info[0],
    N_COMMANDS = sizeof command_info / sizeof command_info[0]
};

char cli_find_command(const char *name)
{
    for (uint32_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(command_info[i].name, name) == 0)
            return command_info[i].letter;
    return 0;
}

// --- help ----------------------------------------------------------------------------------------

static bool applies(const OptionInfo *o, char letter)
{
    return o->commands[0] == '*' || strchr(o->commands, letter) != NULL;
}

void cli_print_help(FILE *out)
{
    fputs("rlxc: compiles neural graphs (JSON, ONNX) to one self-contained C file.\n\n"
          "  rlxc compile model.onnx -o out        writes out/model.h and out/model.c\n"
          "  rlxc run model.onnx --random 1        compiles, runs once, prints the outputs\n"
          "  rlxc inspect model.onnx               RAM, flash, multiply-adds, kernels\n\nCommands:\n",
          out);
    for (uint32_t i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  %-10s %s\n", command_info[i].name, command_info[i].text);
    fputs("\n`rlxc COMMAND --help` shows the options of a command.\n"
          "Exit codes: 0 done; 1 the input is wrong or outputs differ; 2 wrong command line; 3 a program "
          "that rlxc needs failed.\n",
          out);
}

void cli_print_command_help(char letter, FILE *out)
{
    for (uint32_t i = 0; i < N_COMMANDS; i++)
        if (command_info[i].letter == letter)
            fprintf(out, "Usage: rlxc %s %s [options]\n\n%s.\n\nOptions:\n", command_info[i].name,
                    command_info[i].args, command_info[i].text);
    for (uint32_t i = 0; i < N_OPTIONS; i++) {
        const OptionInfo *o = &option_info[i];
        char left[64];
        if (!applies(o, letter))
            continue;
        snprintf(left, sizeof left, "%s%s%s", o->name, o->value != NULL ? " " : "",
                 o->value != NULL ? o->value : "");
        fprintf(out, "  %-26s %s\n", left, o->help);
    }
}

// What docs/CLI.md is: a test compares it with this.
void cli_print_markdown(FILE *out)
{
    fputs(
        "# Command line\n\nMade by `rlxc --help-markdown` from `compiler/commands.def` and "
        "`compiler/options.def`.\n\n"
        "Exit codes: 0 done; 1 the input is wrong or outputs differ; 2 wrong command line; 3 a program that\n"
        "rlxc needs failed. Messages go to stderr, results to stdout; colours only on a terminal.\n",
        out);
    for (uint32_t i = 0; i < N_COMMANDS; i++) {
        const CommandInfo *c = &command_info[i];
        fprintf(out, "\n## rlxc %s%s%s\n\n%s.\n\n| option | meaning |\n|---|---|\n", c->name,
                c->args[0] != '\0' ? " " : "", c->args, c->text);
        for (uint32_t k = 0; k < N_OPTIONS; k++) {
            const OptionInfo *o = &option_info[k];
            if (applies(o, c->letter))
                fprintf(out, "| `%s%s%s` | %s |\n", o->name, o->value != NULL ? " " : "",
                        o->value != NULL ? o->value : "", o->help);
        }
    }
}

// --- parsing -------------------------------------------------------------------------------------

// "--name=value" or "-O2" carries its value; returns where it starts, NULL when it has none.
static const char *match(const OptionInfo *o, const char *arg, bool *is_match)
{
    const size_t n = strlen(o->name);
    const bool is_short = o->name[1] != '-';
    *is_match =
        strncmp(arg, o->name, n) == 0 && (arg[n] == '\0' || arg[n] == '=' || (is_short && o->value != NULL));
    if (!*is_match || arg[n] == '\0')
        return NULL;
    return arg + n + (arg[n] == '=' ? 1 : 0);
}

static const OptionInfo *find_option(char letter, const char *arg, const char **value)
{
    for (uint32_t i = 0; i < N_OPTIONS; i++) {
        bool is_match = false;
        *value = match(&option_info[i], arg, &is_match);
        if (is_match && applies(&option_info[i], letter))
            return &option_info[i];
    }
    return NULL;
}

static bool unknown_option(Cli *c, char letter, const char *arg)
{
    const char *names[N_OPTIONS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < N_OPTIONS; i++)
        if (applies(&option_info[i], letter))
            names[n++] = option_info[i].name;
    const char *near = str_closest(arg, names, n);
    diag_error(c->diag, (Span){0}, E0003, "unknown option '%s'", arg);
    if (near != NULL)
        diag_note(c->diag, (Span){0}, "did you mean '%s'?", near);
    return false;
}

static void set_option(Cli *c, const OptionInfo *o, const char *value)
{
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
            return unknown_option(c, letter, argv[i]);
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

// --- progress ------------------------------------------------------------------------------------

void cli_progress(const char *what)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K%s ...", what);
}

void cli_progress_end(void)
{
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}
