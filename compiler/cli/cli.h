// SPDX-License-Identifier: Apache-2.0
// The command line: one table of options (options.def), one of commands (commands.def).
#ifndef COMPILER_CLI_CLI_H
#define COMPILER_CLI_CLI_H

#include "base/diag.h"
#include "base/str.h"

typedef enum ExitCode {
#define EXIT_CODE(name, number, text) name = number,
#include "compiler/cli/exit_codes.def"
#undef EXIT_CODE
} ExitCode;

typedef VEC(const char *) Strings;

typedef struct Options {
#define OPTION(field, name, value, commands, help) const char *field;
#define LIST(field, name, value, commands, help)   Strings field;
#include "compiler/cli/options.def"
#undef OPTION
#undef LIST
    Strings args; // what is no option
} Options;

typedef struct Cli {
    Arena *arena;
    Diag *diag;
    Options options;
    DiagStyle style;
    bool trusts_data; // ImportOptions.trusts_data: the command does not need what is in weights
} Cli;

#define COMMAND(letter, name, args, fn, text) ExitCode fn(Cli *c);
#include "compiler/cli/commands.def"
#undef COMMAND

// Fills c->options from argv[2..]. False: reported. A flag's value is "".
bool cli_parse(Cli *c, char letter, int argc, char **argv);
// Prints the diagnostics and gives the exit code that goes with them.
ExitCode cli_fail(Cli *c);
// One line on stderr that says what takes long, drawn anew again and again, and wiped by cli_progress_end and
// cli_fail. Nothing is drawn before main has allowed it: on terminals only.
void cli_progress_allow(void);
void cli_progress(const char *what);
// Like cli_progress, with how much is done, at most ten times a second. total 0: unknown.
void cli_progress_step(const char *what, uint64_t done, uint64_t total);
void cli_progress_end(void);

#endif
