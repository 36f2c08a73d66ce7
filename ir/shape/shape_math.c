// SPDX-License-Identifier: Apache-2.0
// Shape rules of algorithms that are ops of their own: determinants, walks through decision trees, random
// bits.
#include "ir/shape/shape_rules.h"

bool shape_det(ShapeCtx *c)
{
    const Shape *x = &c->in[0].shape;
    if (!rule_dtypes(c, CLS_FLOAT, 1) || !rule_rank(c, 0, 2, SHAPE_MAX_RANK) ||
        !rule_dims_equal(c, x->dim[x->rank - 2], x->dim[x->rank - 1], "rows and columns"))
        return false;
    const Shape out = shape_of(x->rank - 2, x->dim);
    rule_out(c, 0, c->in[0].dtype, &out);
    return true;
}

// The deepest walk that is worth a kernel: trees are not taller than their nodes, and loops must end.
enum { TREE_MAX_DEPTH = 1 << 20 };

bool shape_tree_walk(ShapeCtx *c)
{
    const Shape *x = &c->in[0].shape, *nodes = &c->in[1].shape, *roots = &c->in[3].shape;
    const int64_t depth = shape_attr(c, A_tree_walk_depth)->u.i;
    if (!rule_dtypes(c, CLS_FLOAT, 1) || !rule_rank(c, 0, 2, 2) || !rule_rank(c, 1, 2, 2) ||
        !rule_rank(c, 2, 1, 1) || !rule_rank(c, 3, 1, 1))
        return false;
    if (c->in[1].dtype != DTYPE_i32 || c->in[3].dtype != DTYPE_i32 || c->in[2].dtype != c->in[0].dtype)
        return shape_fail(c, E0205, "needs nodes and roots of i32 and thresholds of the type of operand 0");
    if (depth < 0 || depth > TREE_MAX_DEPTH)
        return shape_fail(c, E0203, "`depth` is %lld, expected 0 to %d", (long long)depth, TREE_MAX_DEPTH);
    if (x->dim[1] == 0 || nodes->dim[0] == 0)
        return shape_fail(c, E0204, "needs at least one feature and one node");
    if (!rule_dims_equal(c, nodes->dim[1], 4, "the entries of a node") ||
        !rule_dims_equal(c, nodes->dim[0], c->in[2].shape.dim[0], "nodes and thresholds"))
        return false;
    const Shape out = {.rank = 2, .dim = {x->dim[0], roots->dim[0]}};
    rule_out(c, 0, DTYPE_i32, &out);
    return true;
}

bool shape_mt19937(ShapeCtx *c)
{
    const AttrVal *shape = shape_attr(c, A_mt19937_shape);
    const Shape state = c->in[0].shape;
    if (c->in[0].dtype != DTYPE_u32)
        return shape_fail(c, E0205, "the state must be u32");
    if (!rule_rank(c, 0, 1, 1) || !rule_dims_equal(c, state.dim[0], 625, "the words of the state"))
        return false;
    if (shape->len > SHAPE_MAX_RANK)
        return shape_fail(c, E0203, "`shape` has %llu axes", (unsigned long long)shape->len);
    const Shape out = shape_of((uint32_t)shape->len, shape->u.ints);
    for (uint32_t i = 0; i < out.rank; i++)
        if (dim_is_const(out.dim[i]) && (out.dim[i] < 0 || out.dim[i] > DIM_MAX_VALUE))
            return shape_fail(c, E0203, "`shape` has the entry %lld", (long long)out.dim[i]);
    rule_out(c, 0, DTYPE_u32, &out);
    rule_out(c, 1, DTYPE_u32, &state);
    return true;
}
