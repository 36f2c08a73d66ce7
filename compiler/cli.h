// SPDX-License-Identifier: Apache-2.0
// The command line: one table of options (options.def), one of commands (commands.def).
#ifndef COMPILER_CLI_H
#define COMPILER_CLI_H

#include "base/diag.h"
#include "base/str.h"

// Exit codes, documented in docs/CLI.md and `rlxc --help`.
typedef enum ExitCode {
    EXIT_OK = 0,
    EXIT_WRONG = 1, // the input is wrong, or outputs differ: see the messages
    EXIT_USAGE = 2, // the command line is wrong
    EXIT_TOOL = 3,  // a program that rlxc needs (the C compiler) failed
} ExitCode;

typedef VEC(const char *) Strings;

typedef struct Options {
#define OPTION(field, name, value, commands, help) const char *field;
#define LIST(field, name, value, commands, help)   Strings field;
#include "compiler/options.def"
#undef OPTION
#undef LIST
    Strings args; // what is no option
} Options;

typedef struct Cli {
    Arena *arena;
    Diag *diag;
    Options options;
    DiagStyle style;
} Cli;

#define COMMAND(letter, name, args, fn, text) ExitCode fn(Cli *c);
#include "compiler/commands.def"
#undef COMMAND

// Fills c->options from argv[2..]. False: reported. A flag's value is "".
bool cli_parse(Cli *c, char letter, int argc, char **argv);
void cli_print_help(FILE *out);
void cli_print_command_help(char letter, FILE *out);
void cli_print_markdown(FILE *out);
// Letter of a command, or 0.
char cli_find_command(const char *name);
// Prints the diagnostics and gives the exit code that goes with them.
ExitCode cli_fail(Cli *c);
// Progress on a terminal, nothing in a pipe.
void cli_progress(const char *what);
void cli_progress_end(void);

#endif
