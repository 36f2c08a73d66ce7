// SPDX-License-Identifier: Apache-2.0
// What rlxc says about itself, from the tables of the command line: --help, docs/CLI.md, man pages.
#ifndef COMPILER_CLI_HELP_H
#define COMPILER_CLI_HELP_H

#include "compiler/cli/cli_tables.h"

void help_print(FILE *out);
void help_print_command(Arena *a, const CommandInfo *c, FILE *out);
// What docs/CLI.md is: a test compares it with this.
void help_print_markdown(Arena *a, FILE *out);
// rlxc(1), or rlxc-COMMAND(1).
void help_print_man(Arena *a, const CommandInfo *c, FILE *out);

#endif
