// SPDX-License-Identifier: Apache-2.0
// Other programs that rlxc starts: where they are, and which ones they are.
#ifndef COMPILER_SYSTEM_TOOL_H
#define COMPILER_SYSTEM_TOOL_H

#include "compiler/cli/cli.h"

// The program of that name as it would be started: a path, or found by PATH. NULL: there is none.
const char *tool_find(Arena *a, const char *name);
// The words of a command such as "ccache gcc -m32", as it can be started from any folder.
void tool_add_command(Arena *a, const char *command, Strings *argv);
// Its first word; "": it has none.
const char *tool_of_command(Arena *a, const char *command);
// A text that changes when another program, or another version of it, would be started by a command such as
// "ccache gcc -m32": its words, with the real path, size and time of each one that is a program, and the
// variables that say where compilers look.
const char *tool_identity(Arena *a, const char *command);

#endif
