// SPDX-License-Identifier: Apache-2.0
// Which values of a kernel are written where they are used, and which get a name of their own.
#ifndef CODEGEN_WALK_VALUES_H
#define CODEGEN_WALK_VALUES_H

#include "codegen/target/target.h"

#define VALUE_NEVER UINT32_MAX

typedef struct Value {
    uint32_t n_uses; // by live instructions; 0: not printed at all
    KRef last_use;
    KRef expires; // the first instruction that changes what the expression reads; VALUE_NEVER: none
    uint32_t block;
    uint16_t size;     // operations in its text
    bool in_own_block; // all uses are in the block that computes it
    bool is_inline;
    bool is_pinned; // one of several users cannot have it inline
} Value;

// One entry per instruction, in the arena.
Value *values_of(const Target *t, const Kernel *k, Arena *a);

// The template of a KI_op's text.
const char *value_template(const Target *t, const Kernel *k, const KInst *n);

// For each parameter: does the printed kernel name it?
bool *values_used_params(const Kernel *k, const Value *v, Arena *a);

#endif
