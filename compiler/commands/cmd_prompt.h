// SPDX-License-Identifier: Apache-2.0
// rlxc run --prompt (cmd_run.c calls it).
#ifndef COMPILER_COMMANDS_CMD_PROMPT_H
#define COMPILER_COMMANDS_CMD_PROMPT_H

#include "compiler/cli/cli.h"

// Is there a prompt? False: options that go with it stand without it, or with what does not go with it
// (reported).
bool cmd_prompt_is_asked(Cli *c, bool *is_asked);
// Prints how the language model continues the text of --prompt, and nothing else on standard output.
ExitCode cmd_run_prompt(Cli *c);

#endif
