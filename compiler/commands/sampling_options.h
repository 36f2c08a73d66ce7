// SPDX-License-Identifier: Apache-2.0
// The options of commands that choose tokens: numbers, checked. Separate because several commands take them.
#ifndef COMPILER_COMMANDS_SAMPLING_OPTIONS_H
#define COMPILER_COMMANDS_SAMPLING_OPTIONS_H

#include "compiler/cli/cli.h"
#include "runtime-lite/text/rlx_sample.h"

// A whole number from 0 to `most`; `v` stays where the option is not given. False: reported.
bool options_count(Cli *c, const char *option, const char *given, double most, double *v);
// --temperature, --top-k, --top-p, --min-p, --repeat-penalty and --seed. False: reported.
bool options_sampling(Cli *c, rlx_sampling *s);

#endif
