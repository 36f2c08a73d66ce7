// SPDX-License-Identifier: Apache-2.0
// Programs that rlxc starts and waits for: C compilers. They read nothing, and print to stderr.
#ifndef COMPILER_SYSTEM_CHILDREN_H
#define COMPILER_SYSTEM_CHILDREN_H

#include "base/diag.h"
#include "base/vec.h"

// argv ends with NULL; `what` is the file that it works on, for messages; NULL: nobody wants any, and what it
// prints is lost.
typedef struct ChildCommand {
    const char *const *argv;
    const char *what;
} ChildCommand;

typedef struct ChildCommands {
    VEC(ChildCommand) list;
} ChildCommands;

// Processors that programs may use side by side; at least 1.
uint32_t children_processors(void);
// Runs one program in this folder. False: it failed; says nothing itself.
bool children_run_program(const char *const *words);
// Runs all of them in a folder, as many at once as there are processors, and waits until every one that was
// started has ended; after a failure none is started any more. False: reported.
bool children_run(Diag *d, const char *dir, const ChildCommands *commands);

#endif
