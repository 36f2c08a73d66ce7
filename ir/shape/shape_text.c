// SPDX-License-Identifier: Apache-2.0
// Shape rules of the ops on bytes of strings.
#include "ir/shape/shape_rules.h"

// Bytes, a class for each of their values, and the table of transitions by state and class.
bool shape_dfa(ShapeCtx *c)
{
    const Shape *x = &c->in[0].shape, *classes = &c->in[1].shape, *table = &c->in[2].shape;
    if (c->in[0].dtype != DTYPE_u8 || x->rank == 0)
        return shape_fail(c, E0205, "operand 0 must be u8 with at least one axis");
    if (c->in[1].dtype != DTYPE_i32 || c->in[2].dtype != DTYPE_i32)
        return shape_fail(c, E0205, "operands 1 and 2 must be i32");
    if (classes->rank != 1 || classes->dim[0] != 256)
        return shape_fail(c, E0204, "operand 1 must have 256 entries");
    if (table->rank != 2 || !shape_is_const(table) || table->dim[0] < 1 || table->dim[1] < 1)
        return shape_fail(c, E0204, "operand 2 must have a row per state and a column per class");
    const bool all = shape_attr(c, A_dfa_all)->u.i != 0;
    const Shape out = shape_of(all ? x->rank : x->rank - 1, x->dim);
    rule_out(c, 0, DTYPE_i32, &out);
    return true;
}
