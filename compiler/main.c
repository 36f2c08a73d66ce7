// SPDX-License-Identifier: Apache-2.0
// The `rlxc` program: finds the command, parses its options, runs it.
#include "compiler/cli.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

typedef ExitCode (*CommandFn)(Cli *c);

static CommandFn command_fn(char letter)
{
    switch (letter) {
#define COMMAND(letter, name, args, fn, text)                                                                \
    case letter:                                                                                             \
        return fn;
#include "compiler/commands.def"
#undef COMMAND
    default:
        return NULL;
    }
}

static ExitCode unknown_command(Cli *c, const char *name)
{
    static const char *const names[] = {
#define COMMAND(letter, name, args, fn, text) name,
#include "compiler/commands.def"
#undef COMMAND
    };
    const char *near = str_closest(name, names, sizeof names / sizeof names[0]);
    diag_error(c->diag, (Span){0}, E0003, "unknown command '%s'", name);
    if (near != NULL)
        diag_note(c->diag, (Span){0}, "did you mean '%s'?", near);
    diag_note(c->diag, (Span){0}, "`rlxc --help` lists the commands");
    return cli_fail(c);
}

static ExitCode run(Cli *c, int argc, char **argv)
{
    if (argc < 2) {
        cli_print_help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        cli_print_help(stdout);
        return EXIT_OK;
    }
    if (strcmp(argv[1], "--help-markdown") == 0) {
        cli_print_markdown(stdout);
        return EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("rlxc " RLXC_VERSION);
        return EXIT_OK;
    }
    const char letter = cli_find_command(argv[1]);
    if (letter == 0)
        return unknown_command(c, argv[1]);
    if (!cli_parse(c, letter, argc, argv))
        return cli_fail(c);
    if (c->options.help != NULL) {
        cli_print_command_help(letter, stdout);
        return EXIT_OK;
    }
    if (c->options.no_color != NULL)
        c->style = DIAG_PLAIN;
    return command_fn(letter)(c);
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
    Cli c = {.arena = &arena, .diag = &diag, .style = isatty(STDERR_FILENO) ? DIAG_COLOUR : DIAG_PLAIN};
    const ExitCode code = flush_output(&c, run(&c, argc, argv));
    arena_free(&arena);
    return (int)code;
}
