// SPDX-License-Identifier: Apache-2.0
// What the schedules of running sums share (lower_cumsum.c, cumsum_group.c).
#ifndef PASSES_LOWER_OPS_CUMSUM_H
#define PASSES_LOWER_OPS_CUMSUM_H

#include "passes/lower/operand.h"
#include "passes/lower/rows.h"

typedef struct Cumsum {
    NodeId x;
    bool is_exclusive, is_reverse;
    const RowFold *fold;
    const char *name;
} Cumsum;

static inline int cumsum_type(const Lower *l, const Cumsum *c)
{
    return operand_sum_type(lower_node(l, c->x)->dtype);
}

// Where the element is that comes at place i of the order.
static inline KRef cumsum_place(Lower *l, const Rows *r, const Cumsum *c, KRef i)
{
    return c->is_reverse ? k_expr(l->k, "# - $", r->count - 1, i) : i;
}

// A kernel of a GPU in which the threads of a group share each row; false: nothing was emitted.
bool cumsum_by_groups(Lower *l, const Rows *r, const Cumsum *c);

#endif
