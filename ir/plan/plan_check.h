// SPDX-License-Identifier: Apache-2.0
// What the files of plan_verify share.
#ifndef IR_PLAN_PLAN_CHECK_H
#define IR_PLAN_PLAN_CHECK_H

#include "ir/plan/plan.h"

// NULL, or what is wrong with a kernel of which several arguments share bytes of the arena though they are of
// different buffers: its accesses are replayed in their order.
const char *plan_replay_kernel(const Plan *p, const PlanKernel *k);

// Bytes of which each is written for one buffer last: a set of them by buffer.
typedef struct PlanWritten {
    BufId owner;
    uint64_t *bits;
} PlanWritten;
typedef VEC(PlanWritten) PlanBytes;
void plan_bytes_add(PlanBytes *b, Arena *a, BufId owner, uint64_t bytes); // before it writes any
void plan_bytes_write(PlanBytes *b, BufId owner, uint64_t begin, uint64_t end);
// Another buffer that one of these bytes was written for last, or 0.
BufId plan_bytes_read(const PlanBytes *b, BufId owner, uint64_t begin, uint64_t end);

// By how much the value of each instruction of the loop's body, which ends at `end`, grows when the loop's
// variable grows by 1; entry 0 is the loop. PLAN_ANY_MOVE: by nothing that is known. NULL: a variable is set
// there, or bounds or conditions inside may change. is_needed: the instructions that matter.
#define PLAN_ANY_MOVE INT64_MIN
const int64_t *plan_moves(Arena *a, const Kernel *k, KRef loop, KRef end, const bool *is_needed);
static inline int64_t plan_move(const int64_t *moves, KRef loop, KRef i)
{
    return i < loop ? 0 : moves[i - loop];
}
// NULL, or what is wrong with the banks of a plan and with what lies in them.
const char *plan_check_banks(const Plan *p);

#endif
