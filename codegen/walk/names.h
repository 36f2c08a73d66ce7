// SPDX-License-Identifier: Apache-2.0
// Names of locals and parameters in emitted text: the hints of the kernel, made valid and unique among what
// is in scope.
#ifndef CODEGEN_WALK_NAMES_H
#define CODEGEN_WALK_NAMES_H

#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"

typedef struct Names {
    Arena *arena;
    VEC(const char *) in_scope;
    Map taken; // name: 1 while it is in scope
    Map next;  // base: the first number that may be free
    uint32_t n_temps;
    bool is_for_gpu; // words of CUDA, GLSL and MSL are kept, too
} Names;

// The hint, or the hint with an underscore or a number; never a word of the language, never
// starting with rlx_, never t and a number. A NULL hint is "v".
const char *names_take(Names *n, const char *hint);
// t1, t2 ...
const char *names_take_temp(Names *n);
// A mark to go back to when a block ends.
static inline uint32_t names_mark(const Names *n)
{
    return n->in_scope.len;
}
void names_release(Names *n, uint32_t mark);

#endif
