// SPDX-License-Identifier: Apache-2.0
// What a plan is, as tables: for reports of the compiler, and for programs that ask a compiled model.
#ifndef IR_PLAN_PLAN_TABLE_H
#define IR_PLAN_PLAN_TABLE_H

#include "ir/plan/plan.h"

enum { PLAN_GROUP_SIZES = 8 }; // the last one: so many and more

// Kernels of the bodies of loops count once.
typedef struct PlanCounts {
    uint32_t launches;
    uint32_t barriers, barriers_placed; // in the order of now, and in that in which kernels were placed
    uint32_t moved;                     // kernels that were brought forward since
    uint32_t groups, largest_group;     // of kernels with no barrier between them
    uint32_t groups_by_size[PLAN_GROUP_SIZES];
    uint32_t fused; // nodes that are computed in kernels of others
    uint32_t split; // kernels that are submitted first; 0: all at once
} PlanCounts;

PlanCounts plan_counts(const Plan *p);

// The nodes whose values are in each buffer.
typedef struct PlanNodes {
    const Plan *plan;
    NodeId *first; // by BufId: the first one, 0: none
    NodeId *next;  // by NodeId: the one behind it in the same buffer, 0: none
} PlanNodes;

PlanNodes plan_nodes(const Plan *p, Arena *a);
// The node that the buffer was made for; where that is not known its first one, 0: none.
NodeId plan_buffer_node(const PlanNodes *n, BufId b);
// "a, b, c": names of its nodes, "" for none.
const char *plan_buffer_nodes(const PlanNodes *n, BufId b, Arena *a);
// What a bank holds, with the state behind.
static inline uint64_t plan_bank_used(const PlanBank *b)
{
    return b->state != 0 ? (b->bytes + 63) / 64 * 64 + b->state : b->bytes;
}
// Has it bytes in its region at some time? (Those of outer plans have none of this one, and constants none
// that are numbers in the text of kernels.)
static inline bool plan_has_bytes(const PlanBuffer *b)
{
    const bool has_times = b->region == REGION_ARENA || b->region == REGION_WEIGHTS;
    return b->bytes != 0 && b->region != REGION_OUTER && (!has_times || b->first <= b->last);
}

#endif
