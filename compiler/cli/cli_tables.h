// SPDX-License-Identifier: Apache-2.0
// The tables of commands and options as data, for the parser and for what is made from them: help, the page
// docs/CLI.md, man pages, completions.
#ifndef COMPILER_CLI_CLI_TABLES_H
#define COMPILER_CLI_CLI_TABLES_H

#include "compiler/cli/cli.h"

typedef struct OptionInfo {
    const char *name, *value, *commands, *help;
    size_t offset; // into Options
    bool is_list;
} OptionInfo;

typedef struct CommandInfo {
    char letter;
    const char *name, *args, *text;
} CommandInfo;

typedef struct ExampleInfo {
    char letter;
    const char *line, *text; // line NULL: text is about what comes next
} ExampleInfo;

typedef struct ExitInfo {
    int number;
    const char *text;
} ExitInfo;

extern const OptionInfo option_info[];
extern const CommandInfo command_info[];
extern const ExampleInfo example_info[];
extern const ExitInfo exit_info[];
extern const uint32_t option_count, command_count, example_count, exit_count;

// Does the command (its letter) take the option?
bool option_applies(const OptionInfo *o, char letter);
// The first option of that name, which must exist.
const OptionInfo *option_find(const char *name);
// NULL: no such command.
const CommandInfo *command_find(const char *name);
// What was given of an option: its values, *n of them.
const char *const *option_values(const OptionInfo *i, const Options *o, uint32_t *n);
// "--dim NAME=VALUE"
const char *option_usage(Arena *a, const OptionInfo *o);

#endif
