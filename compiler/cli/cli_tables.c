// SPDX-License-Identifier: Apache-2.0
// See cli_tables.h.
#include "compiler/cli/cli_tables.h"
#include <string.h>

const OptionInfo option_info[] = {
#define OPTION(field, name, value, commands, help)                                                           \
    {name, value, commands, help, offsetof(Options, field), false},
#define LIST(field, name, value, commands, help)                                                             \
    {name, value, commands, help, offsetof(Options, field), true},
#include "compiler/cli/options.def"
#undef OPTION
#undef LIST
};

const CommandInfo command_info[] = {
#define COMMAND(letter, name, args, fn, text) {letter, name, args, text},
#include "compiler/cli/commands.def"
#undef COMMAND
};

const ExampleInfo example_info[] = {
#define EXAMPLE(letter, line, text) {letter, line, text},
#define NEXT(letter, text)          {letter, NULL, text},
#include "compiler/cli/examples.def"
#undef EXAMPLE
#undef NEXT
};

const ExitInfo exit_info[] = {
#define EXIT_CODE(name, number, text) {number, text},
#include "compiler/cli/exit_codes.def"
#undef EXIT_CODE
};

const uint32_t option_count = sizeof option_info / sizeof *option_info,
               command_count = sizeof command_info / sizeof *command_info,
               example_count = sizeof example_info / sizeof *example_info,
               exit_count = sizeof exit_info / sizeof *exit_info;

bool option_applies(const OptionInfo *o, char letter)
{
    rlx_assert(letter != '\0');
    return o->commands[0] == '*' || strchr(o->commands, letter) != NULL;
}

const char *const *option_values(const OptionInfo *i, const Options *o, uint32_t *n)
{
    const char *field = (const char *)o + i->offset;
    if (i->is_list) {
        const Strings *list = (const Strings *)(const void *)field;
        *n = list->len;
        return (const char *const *)list->data;
    }
    const char *const *one = (const char *const *)(const void *)field;
    *n = *one != NULL;
    return one;
}

const OptionInfo *option_find(const char *name)
{
    uint32_t i = 0;
    while (strcmp(option_info[i].name, name) != 0)
        rlx_assert(++i < option_count);
    return &option_info[i];
}

const CommandInfo *command_find(const char *name)
{
    for (uint32_t i = 0; i < command_count; i++)
        if (strcmp(command_info[i].name, name) == 0)
            return &command_info[i];
    return NULL;
}

const char *option_usage(Arena *a, const OptionInfo *o)
{
    return o->value == NULL ? o->name : arena_printf(a, "%s %s", o->name, o->value);
}
