// SPDX-License-Identifier: Apache-2.0
// Shape rule of qmatmul, whose weights are packed bytes.
#include "ir/shape/shape_rules.h"

static bool check_parameter(ShapeCtx *c, uint32_t i)
{
    const Shape *w = &c->in[1].shape, *s = &c->in[i].shape;
    if (c->in[i].dtype != c->in[0].dtype)
        return shape_fail(c, E0205, "operands 0 and %u have different element types", i);
    return rule_rank(c, i, 2, 2) && rule_dims_equal(c, s->dim[0], w->dim[0], "columns") &&
           rule_dims_equal(c, s->dim[1], w->dim[1], "blocks");
}

bool shape_qmatmul(ShapeCtx *c)
{
    const int64_t bits = shape_attr(c, A_qmatmul_bits)->u.i;
    const Shape *w = &c->in[1].shape;
    Shape out = c->in[0].shape;
    if (!rule_dtypes(c, CLS_FLOAT, 1) || !rule_rank(c, 0, 1, SHAPE_MAX_RANK) || !rule_rank(c, 1, 3, 3))
        return false;
    if (c->in[1].dtype != DTYPE_u8)
        return shape_fail(c, E0205, "operand 1 must be of u8");
    if (bits != 2 && bits != 4 && bits != 8)
        return shape_fail(c, E0203, "`bits` is %lld, expected 2, 4 or 8", (long long)bits);
    const int64_t x_bits = shape_attr(c, A_qmatmul_x_bits)->u.i;
    if (x_bits != 0 && (x_bits != 8 || c->in[0].dtype != DTYPE_f32))
        return shape_fail(c, E0203, "`x_bits` is %lld, expected 0, or 8 for f32", (long long)x_bits);
    const Dim inner = out.dim[out.rank - 1];
    if (!shape_is_const(w) || !dim_is_const(inner))
        return shape_fail(c, E0207, "the weights and the last axis of operand 0 need constant sizes");
    if (w->dim[2] < 4 || w->dim[2] % 4 != 0 || w->dim[2] > SHAPE_MAX_STEP)
        return shape_fail(c, E0204, "a block of %lld bytes is not a multiple of 4", (long long)w->dim[2]);
    const int64_t block = w->dim[2] * (8 / bits);
    if (w->dim[1] != inner / block + (inner % block != 0))
        return shape_fail(c, E0204, "%lld blocks of %lld do not hold %lld elements", (long long)w->dim[1],
                          (long long)block, (long long)inner);
    if (!check_parameter(c, 2) || (rule_has(c, 3) && !check_parameter(c, 3)))
        return false;
    out.dim[out.rank - 1] = w->dim[0];
    rule_out(c, 0, c->in[0].dtype, &out);
    return true;
}
