// SPDX-License-Identifier: Apache-2.0
// The `rlxc` program: finds the command, parses its options, runs it.
#include "compiler/cli/help.h"
#include "compiler/cli/share_dir.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef ExitCode (*CommandFn)(Cli *c);

static CommandFn command_fn(char letter)
{
    switch (letter) {
#define COMMAND(letter, name, args, fn, text)                                                                \
    case letter:                                                                                             \
        return fn;
#include "compiler/cli/commands.def"
#undef COMMAND
    default:
        return NULL;
    }
}

static ExitCode unknown_command(Cli *c, const char *name)
{
    const char **names = ARENA_ARRAY(c->arena, const char *, command_count);
    for (uint32_t i = 0; i < command_count; i++)
        names[i] = command_info[i].name;
    const char *near = str_closest(name, names, command_count);
    diag_error(c->diag, (Span){0}, E0003, "unknown command '%s'", name);
    if (near != NULL)
        diag_note(c->diag, (Span){0}, "did you mean '%s'?", near);
    diag_note(c->diag, (Span){0}, "`rlxc --help` lists the commands");
    return cli_fail(c);
}

static ExitCode print_share_dir(Cli *c)
{
    const char *folder = share_dir_find(c->diag);
    if (folder == NULL)
        return cli_fail(c);
    puts(folder);
    return EXIT_OK;
}

// rlxc help [COMMAND], rlxc --help-man [COMMAND]
static ExitCode help(Cli *c, const char *name, bool is_man)
{
    const CommandInfo *command = name != NULL ? command_find(name) : NULL;
    if (name != NULL && command == NULL)
        return unknown_command(c, name);
    if (is_man)
        help_print_man(c->arena, command, stdout);
    else if (command != NULL)
        help_print_command(c->arena, command, stdout);
    else
        help_print(stdout);
    return EXIT_OK;
}

// What is asked before any command. False: a command.
static bool is_about_rlxc(Cli *c, char **argv, ExitCode *code)
{
    const char *what = argv[1];
    *code = EXIT_OK;
    if (strcmp(what, "--help") == 0 || strcmp(what, "-h") == 0 || strcmp(what, "help") == 0)
        *code = help(c, argv[2], false);
    else if (strcmp(what, "--help-man") == 0)
        *code = help(c, argv[2], true);
    else if (strcmp(what, "--help-markdown") == 0)
        help_print_markdown(c->arena, stdout);
    else if (strcmp(what, "--version") == 0)
        puts("rlxc " RLXC_VERSION);
    else if (strcmp(what, "--share-dir") == 0)
        *code = print_share_dir(c);
    else
        return false;
    return true;
}

static ExitCode run(Cli *c, int argc, char **argv)
{
    ExitCode code = EXIT_USAGE;
    if (argc < 2) {
        help_print(stderr);
        return code;
    }
    if (is_about_rlxc(c, argv, &code))
        return code;
    const CommandInfo *command = command_find(argv[1]);
    if (command == NULL)
        return unknown_command(c, argv[1]);
    if (!cli_parse(c, command->letter, argc, argv))
        return cli_fail(c);
    if (c->options.help != NULL) {
        help_print_command(c->arena, command, stdout);
        return EXIT_OK;
    }
    if (c->options.no_color != NULL && c->style == DIAG_COLOUR)
        c->style = DIAG_PLAIN;
    rlx_assert(command_fn(command->letter) != NULL);
    return command_fn(command->letter)(c);
}

// --- the terminal --------------------------------------------------------------------------------

static bool is_set(const char *variable)
{
    const char *value = getenv(variable);
    return value != NULL && value[0] != '\0';
}

// Can stderr show colours and a line that is drawn anew?
static bool is_terminal(void)
{
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && !is_set("NO_COLOR") && (term == NULL || strcmp(term, "dumb") != 0);
}

// Before the options are parsed: what is wrong with them is reported in that form too.
static bool has_json(int argc, char **argv)
{
    for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--json") == 0)
            return true;
    return false;
}

// What went to stdout is part of the result: a full disk or a closed pipe must not look like success.
static ExitCode flush_output(Cli *c, ExitCode code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    *c->diag = diag_new(c->arena);
    diag_error(c->diag, (Span){0}, E0002, "cannot write to the standard output: %s", strerror(errno));
    return cli_fail(c);
}

int main(int argc, char **argv)
{
    Arena arena = {0};
    Diag diag = diag_new(&arena);
    const bool is_json = has_json(argc, argv), is_drawn = is_terminal() && !is_json;
    Cli c = {.arena = &arena,
             .diag = &diag,
             .style = is_json    ? DIAG_JSON
                      : is_drawn ? DIAG_COLOUR
                                 : DIAG_PLAIN};
    if (is_drawn)
        cli_progress_allow();
    const ExitCode code = flush_output(&c, run(&c, argc, argv));
    arena_free(&arena);
    return (int)code;
}
