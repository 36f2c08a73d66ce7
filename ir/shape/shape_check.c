// SPDX-License-Identifier: Apache-2.0
// The checks and small helpers that the shape rules begin with (see shape_rules.h).
#include "ir/shape/shape_rules.h"

static const char *class_text(unsigned classes)
{
    if (classes == CLS_FLOAT)
        return "a float type";
    if (classes == CLS_BOOL)
        return "bool";
    if (classes == CLS_INT)
        return "an integer type";
    return classes & CLS_BOOL ? "an integer type or bool" : "a float or integer type";
}

bool rule_dtypes(ShapeCtx *c, unsigned classes, uint32_t count)
{
    const DType t = c->in[0].dtype;
    if (!(classes >> dtype_info[t].cls & 1))
        return shape_fail(c, E0205, "the element type must be %s", class_text(classes));
    for (uint32_t i = 1; i < count && i < c->n_src; i++)
        if (c->src[i] != 0 && c->in[i].dtype != t)
            return shape_fail(c, E0205, "operands 0 and %u have different element types", i);
    return true;
}

bool rule_rank(ShapeCtx *c, uint32_t operand, uint32_t min, uint32_t max)
{
    const uint32_t rank = c->in[operand].shape.rank;
    if (rank >= min && rank <= max)
        return true;
    if (min == max)
        return shape_fail(c, E0204, "operand %u must have rank %u, not %u", operand, min, rank);
    return shape_fail(c, E0204, "operand %u must have a rank of %u to %u, not %u", operand, min, max, rank);
}

static bool check_axis(ShapeCtx *c, AttrId id, int64_t axis, uint32_t rank, uint32_t *out)
{
    if (axis < -(int64_t)rank || axis >= (int64_t)rank)
        return shape_fail(c, E0203, "`%s` has the axis %lld, but the rank is %u", attr_info[id].name,
                          (long long)axis, rank);
    *out = (uint32_t)(axis < 0 ? axis + (int64_t)rank : axis);
    return true;
}

bool rule_axis(ShapeCtx *c, AttrId id, uint32_t rank, uint32_t *axis)
{
    AttrVal *a = shape_attr(c, id);
    if (!check_axis(c, id, a->u.i, rank, axis))
        return false;
    a->u.i = *axis;
    return true;
}

void rule_set_ints(ShapeCtx *c, AttrId id, const int64_t *v, uint32_t n)
{
    AttrVal *a = shape_attr(c, id);
    a->len = n;
    a->u.ints = n == 0 ? NULL : arena_copy(c->g->arena, v, n * sizeof *v);
}

bool rule_axes(ShapeCtx *c, AttrId id, uint32_t rank, uint32_t *mask)
{
    const AttrVal *a = shape_attr(c, id);
    int64_t axes[SHAPE_MAX_RANK];
    *mask = 0;
    if (a->len > rank)
        return shape_fail(c, E0203, "`%s` has %llu entries, but the rank is %u", attr_info[id].name,
                          (unsigned long long)a->len, rank);
    for (uint32_t i = 0; i < a->len; i++) {
        uint32_t axis = 0;
        if (!check_axis(c, id, a->u.ints[i], rank, &axis))
            return false;
        if (*mask >> axis & 1)
            return shape_fail(c, E0203, "`%s` names axis %u twice", attr_info[id].name, axis);
        *mask |= 1u << axis;
        axes[i] = axis;
    }
    rule_set_ints(c, id, axes, (uint32_t)a->len);
    return true;
}

bool rule_ints(ShapeCtx *c, AttrId id, uint32_t n, int64_t dflt, int64_t min)
{
    int64_t filled[2 * SHAPE_MAX_RANK];
    rlx_assert(n <= 2 * SHAPE_MAX_RANK);
    AttrVal *a = shape_attr(c, id);
    if (a->len == 0) {
        for (uint32_t i = 0; i < n; i++)
            filled[i] = dflt;
        rule_set_ints(c, id, filled, n);
        return true;
    }
    if (a->len != n)
        return shape_fail(c, E0203, "`%s` has %llu entries, expected %u", attr_info[id].name,
                          (unsigned long long)a->len, n);
    for (uint32_t i = 0; i < n; i++)
        if (a->u.ints[i] < min || a->u.ints[i] > SHAPE_MAX_STEP)
            return shape_fail(c, E0203, "`%s` has the entry %lld, expected %lld to %lld", attr_info[id].name,
                              (long long)a->u.ints[i], (long long)min, (long long)SHAPE_MAX_STEP);
    return true;
}

bool rule_dims_equal(ShapeCtx *c, Dim a, Dim b, const char *what)
{
    if (a == b)
        return true;
    return shape_fail(c, E0204, "%s %s and %s differ", what, rule_dim_text(c, a), rule_dim_text(c, b));
}

bool rule_broadcasts_to(ShapeCtx *c, uint32_t operand, const Shape *to)
{
    Shape s;
    if (shape_broadcast(c->g->dims, &c->in[operand].shape, to, &s) && shape_equal(&s, to))
        return true;
    return shape_fail(c, E0204, "operand %u does not broadcast to %s", operand, rule_shape_text(c, to));
}

const char *rule_dim_text(ShapeCtx *c, Dim d)
{
    Str s = str_new(c->g->arena);
    dim_print(c->g->dims, d, &s);
    return str_text(&s);
}

const char *rule_shape_text(ShapeCtx *c, const Shape *s)
{
    Str text = str_new(c->g->arena);
    str_char(&text, '[');
    for (uint32_t i = 0; i < s->rank; i++) {
        str_add(&text, i > 0 ? ", " : "");
        dim_print(c->g->dims, s->dim[i], &text);
    }
    str_char(&text, ']');
    return str_text(&text);
}

void rule_out(ShapeCtx *c, uint32_t i, DType t, const Shape *s)
{
    c->out[i] = (TensorType){.dtype = t, .shape = *s};
}

Dim rule_min(DimTable *t, Dim a, Dim b)
{
    int64_t alo, ahi, blo, bhi;
    dim_range(t, a, &alo, &ahi);
    dim_range(t, b, &blo, &bhi);
    return ahi <= blo ? a : bhi <= alo ? b : dim_min(t, a, b);
}

Dim rule_max(DimTable *t, Dim a, Dim b)
{
    int64_t alo, ahi, blo, bhi;
    dim_range(t, a, &alo, &ahi);
    dim_range(t, b, &blo, &bhi);
    return alo >= bhi ? a : blo >= ahi ? b : dim_max(t, a, b);
}
