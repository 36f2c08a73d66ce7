// SPDX-License-Identifier: Apache-2.0
// A kernel on its way to a program, for resolve.c and fork.c.
#ifndef IR_INTERP_RESOLVE_H
#define IR_INTERP_RESOLVE_H

#include "ir/interp/machine.h"

typedef enum BlockForm { BLOCK_NONE, BLOCK_IF, BLOCK_LOOP, BLOCK_GROUP, BLOCK_FORK, BLOCK_BATCH } BlockForm;

typedef struct Block {
    uint32_t code, jump; // of its begin; of an else
    uint8_t form;        // BlockForm
    uint32_t loop;       // the loop around
} Block;

// What a parameter pointed to before a KI_point.
typedef struct Point {
    uint32_t param, before, depth;
} Point;

typedef struct Resolver {
    Arena *arena;
    const Kernel *k;
    Program *p;
    uint32_t *slot, *array; // by instruction
    bool *is_used, *is_joined;
    KRef *same;         // by instruction: the variable whose register it has, or 0
    bool *is_left_out;  // copies from and to that
    bool *is_batch;     // loops whose iterations run in batches
    bool *is_chain;     // what in them goes from iteration to iteration
    uint32_t *point; // by parameter: the register that is added to its indices, or 0
    VEC(Point) points;
    Block block[64];
    uint32_t depth;
    uint32_t loop; // the innermost one
    uint32_t way;  // register for conditions of loops
    uint32_t parts;
    KRef fork_end;  // 0: not in a fork
    KRef batch_end; // 0: not in a loop of batches, or at its chain
} Resolver;

// May iterations of the loop run as threads, whatever they do?
bool resolve_may_fork(const Resolver *r, KRef loop);
// Fills the fork of a loop, with the loops in it that are joined to it.
void resolve_fork(Resolver *r, KRef loop, uint32_t code);
// The same for a loop that runs in batches.
void resolve_batch(Resolver *r, KRef loop, uint32_t code);
// Registers that instructions share (copies.c).
void resolve_copies(Resolver *r);
// Loops that run in batches, and their chains (batch.c). False: there is none.
bool resolve_find_batches(Resolver *r);
// The variables that a batch hands from iteration to iteration.
void resolve_carried(Resolver *r, Fork *f, KRef loop);
// A new register; that of a value.
uint32_t resolve_register(Resolver *r, uint32_t bytes);
uint32_t resolve_slot(Resolver *r, KRef ref);

#endif
