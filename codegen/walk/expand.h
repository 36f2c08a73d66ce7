// SPDX-License-Identifier: Apache-2.0
// Filling templates, with parentheses where C's precedence needs them and only there.
#ifndef CODEGEN_WALK_EXPAND_H
#define CODEGEN_WALK_EXPAND_H

#include "base/str.h"

typedef struct ExpandArgs {
    const char *operand[4];                  // $0 .. $3
    const char *type, *name, *wide, *vector; // $T $S $U $V; may be NULL where the template has none
    int lanes;                               // $L
} ExpandArgs;

// Operands of operators get parentheses; those of calls, and a whole template "$0", do not.
void expand_template(Str *out, const char *template, const ExpandArgs *args);
// The text alone, in the arena.
const char *expand_text(Arena *a, const char *template, const ExpandArgs *args);

#endif
