// SPDX-License-Identifier: Apache-2.0
// rlxc run --audio (cmd_run.c calls it).
#ifndef COMPILER_COMMANDS_CMD_AUDIO_H
#define COMPILER_COMMANDS_CMD_AUDIO_H

#include "compiler/cli/cli.h"

// Prints what is said in the sound of --audio, by a model of three parts, and nothing else on standard
// output.
ExitCode cmd_run_audio(Cli *c);

#endif
