// SPDX-License-Identifier: Apache-2.0
// The walk that prints a kernel, for the files that it is made of: cfamily.c (expressions and statements),
// walk_group.c (the grid, and what only kernels of thread groups have).
#ifndef CODEGEN_WALK_WALK_H
#define CODEGEN_WALK_WALK_H

#include "codegen/walk/names.h"
#include "codegen/walk/values.h"

typedef struct Walk {
    const Target *t;
    const Kernel *k;
    Arena *arena;
    Str *out;
    Value *values;
    const char **name;  // by instruction: of what has one
    const char **param; // by parameter; of those that point elsewhere (KI_point), the pointer in use
    const char **base;  // by parameter: its name
    const char **place; // by parameter: of those that are moved, the name in the signature
    Names names;
    VEC(uint32_t) marks; // names in scope when each open block began
    KernelGrid grid;
    const char *thread; // the number of the thread in the grid
    const char **slot;  // by KI_team: the array that it shares
    KRef question_end;  // where what only some devices have ends (walk_if)
    bool is_single;     // a GPU runs it in one thread
    bool has_team;      // threads of a CPU share it
    bool is_given;      // a call runs a part of its loop
    int indent;
} Walk;

static inline bool walk_is_float(int type)
{
    return type != KT_INDEX && dtype_info[type].cls == DCLASS_FLOAT;
}
static inline const TypeSpell *walk_type(const Walk *w, int type)
{
    rlx_assert(type >= 0 && type <= KT_INDEX && w->t->types[type].value != NULL);
    return &w->t->types[type];
}
// The text of a value.
const char *walk_expr(Walk *w, KRef r);
// The text of a scalar that a store may move without a way through the type of values: an element of memory,
// a number, or a choice of these. NULL: it is computed.
const char *walk_moved(Walk *w, KRef r);
// A template on one operand of type `from`, result of type `to`.
const char *walk_expand(Walk *w, const char *template, int to, int from, const char *operand);
// Type of the elements of local arrays.
const char *walk_array_type(const Walk *w, int type);
// The list of the signature; then lines that read the addresses of parameters that are moved. Nothing that
// runs beside the kernel changes these, so they come before all that it waits for.
const char *walk_params(Walk *w);
void walk_places(Walk *w);
// The address of an element of one of them (KI_address).
const char *walk_address(Walk *w, const KInst *n);
void walk_line(Walk *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// The function with the text of a custom op, where the kernel has one; a call of it.
void walk_custom_function(Walk *w);
void walk_custom_call(Walk *w, const KInst *n);

// Index of a loop in the grid, or -1 for a plain one.
int walk_grid_place(const Walk *w, KRef r);
void walk_grid_loop(Walk *w, KRef r, uint32_t place);
// The head of a KI_if, and the last line of a block. What only devices with cooperative matrices run, or only
// those without, is left out of the text of the others, so that it may take memory of its own.
void walk_if(Walk *w, KRef r);
void walk_end(Walk *w, KRef r);
// Declares all that the threads of a group share.
void walk_shared(Walk *w);
// False: it is no statement of group kernels, and none of custom ops.
bool walk_group_inst(Walk *w, KRef r);

#endif
