// SPDX-License-Identifier: Apache-2.0
// Shape rules of mixtures of experts: grouped_matmul, and moe, which is built on it.
#include "ir/shape/shape_rules.h"

bool rule_experts(ShapeCtx *c)
{
    const Shape *x = &c->in[0].shape, *index = &c->in[2].shape;
    if (!(CLS_INT >> dtype_info[c->in[2].dtype].cls & 1))
        return shape_fail(c, E0205, "operand 2 must be of an integer type");
    if (index->rank + 1 != x->rank && index->rank != x->rank)
        return shape_fail(c, E0204, "operand 2 has %u axes, expected %u or %u", index->rank, x->rank - 1,
                          x->rank);
    for (uint32_t i = 0; i + 1 < x->rank; i++)
        if (!rule_dims_equal(c, x->dim[i], index->dim[i], "the rows of operands 0 and 2,"))
            return false;
    return index->rank < SHAPE_MAX_RANK || shape_fail(c, E0204, "the result would have too many axes");
}

bool shape_grouped_matmul(ShapeCtx *c)
{
    const bool is_transposed = shape_attr(c, A_grouped_matmul_transpose_b)->u.i != 0;
    const Shape *w = &c->in[1].shape;
    if (!rule_dtypes(c, CLS_FLOAT, 2) || !rule_rank(c, 0, 1, SHAPE_MAX_RANK) || !rule_rank(c, 1, 3, 3) ||
        !rule_experts(c) ||
        !rule_dims_equal(c, c->in[0].shape.dim[c->in[0].shape.rank - 1], w->dim[is_transposed ? 2 : 1],
                         "inner dims"))
        return false;
    Shape out = c->in[2].shape;
    out.dim[out.rank++] = w->dim[is_transposed ? 1 : 2];
    if (rule_has(c, 3)) {
        const Shape *bias = &c->in[3].shape;
        if (c->in[3].dtype != c->in[0].dtype)
            return shape_fail(c, E0205, "operands 0 and 3 have different element types");
        if (!rule_rank(c, 3, 2, 2) || !rule_dims_equal(c, bias->dim[0], w->dim[0], "experts") ||
            !rule_dims_equal(c, bias->dim[1], out.dim[out.rank - 1], "columns"))
            return false;
    }
    rule_out(c, 0, c->in[0].dtype, &out);
    return true;
}

// A matrix of [experts,] in, out, or with the last two the other way round.
static bool check_matrix(ShapeCtx *c, uint32_t i, bool is_transposed, Dim in, Dim out)
{
    const Shape *w = &c->in[i].shape;
    const uint32_t last = w->rank - 1;
    return rule_dims_equal(c, w->dim[is_transposed ? last : last - 1], in, "inner dims") &&
           rule_dims_equal(c, w->dim[is_transposed ? last - 1 : last], out, "outer dims");
}

bool shape_moe(ShapeCtx *c)
{
    const bool is_transposed = shape_attr(c, A_moe_transpose_b)->u.i != 0;
    const Shape *x = &c->in[0].shape, *gate = &c->in[2].shape;
    if (!rule_dtypes(c, CLS_FLOAT, 5) || !rule_rank(c, 0, 1, SHAPE_MAX_RANK - 2) || !rule_rank(c, 1, 2, 2) ||
        !rule_rank(c, 2, 3, 3) || !rule_rank(c, 3, 3, 3) || !rule_rank(c, 4, 3, 3))
        return false;
    const Dim inner = x->dim[x->rank - 1], experts = gate->dim[0], hidden = gate->dim[is_transposed ? 1 : 2];
    const int64_t k = shape_attr(c, A_moe_k)->u.i;
    if (!dim_is_const(experts) || k < 1 || k > experts)
        return shape_fail(c, E0203, "`k` is %lld, expected 1 to the number of experts, a constant",
                          (long long)k);
    for (uint32_t i = 3; i < 5; i++)
        if (!rule_dims_equal(c, c->in[i].shape.dim[0], experts, "experts"))
            return false;
    if (!check_matrix(c, 1, is_transposed, inner, experts) ||
        !check_matrix(c, 2, is_transposed, inner, hidden) ||
        !check_matrix(c, 3, is_transposed, inner, hidden) ||
        !check_matrix(c, 4, is_transposed, hidden, inner))
        return false;
    c->out[0] = c->in[0];
    return true;
}
