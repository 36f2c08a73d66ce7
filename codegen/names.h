// SPDX-License-Identifier: Apache-2.0
// Names of locals and parameters in emitted text: the hints of the kernel, made valid and unique among what
// is in scope.
#ifndef CODEGEN_NAMES_H
#define CODEGEN_NAMES_H

#include "base/str.h"
#include "base/vec.h"

typedef struct Names {
    Arena *arena;
    VEC(const char *) in_scope;
    uint32_t n_temps;
} Names;

// The hint, or the hint with an underscore or a number; never a word of C, C++, CUDA, GLSL or MSL, never
// starting with rlx_. A NULL hint is "v".
const char *names_take(Names *n, const char *hint);
// t1, t2 ...
const char *names_take_temp(Names *n);
// A mark to go back to when a block ends.
static inline uint32_t names_mark(const Names *n)
{
    return n->in_scope.len;
}
static inline void names_release(Names *n, uint32_t mark)
{
    n->in_scope.len = mark;
}

#endif
