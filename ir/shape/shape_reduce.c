// SPDX-License-Identifier: Apache-2.0
// Shape rules of ops that work along axes and keep or drop them: reductions, searches, running sums, softmax
// and norms.
#include "ir/shape/shape_rules.h"

#include <string.h>

// The result shape without the axes of the mask, or with size 1 in their place.
static Shape drop_axes(const Shape *s, uint32_t mask, bool keep)
{
    Shape r = {.rank = 0};
    for (uint32_t i = 0; i < s->rank; i++) {
        if (!(mask >> i & 1))
            r.dim[r.rank++] = s->dim[i];
        else if (keep)
            r.dim[r.rank++] = 1;
    }
    return r;
}

// Axes are stored in ascending order, and all of them where the list is empty, so that equal reductions are
// one node.
static bool reduce(ShapeCtx *c, unsigned classes)
{
    const AttrId axes = attr_find(c->op, "axes");
    const Shape *s = &c->in[0].shape;
    uint32_t mask = 0, n = 0;
    int64_t sorted[SHAPE_MAX_RANK];
    if (!rule_dtypes(c, classes, 1) || !rule_axes(c, axes, s->rank, &mask))
        return false;
    if (mask == 0)
        mask = (1u << s->rank) - 1;
    for (uint32_t i = 0; i < s->rank; i++)
        if (mask >> i & 1)
            sorted[n++] = i;
    rule_set_ints(c, axes, sorted, n);
    const Shape out = drop_axes(s, mask, shape_attr(c, attr_find(c->op, "keepdims"))->u.i != 0);
    rule_out(c, 0, c->in[0].dtype, &out);
    return true;
}

bool shape_reduced(ShapeCtx *c)
{
    return reduce(c, CLS_FLOAT | CLS_INT);
}

bool shape_reduced_floats(ShapeCtx *c)
{
    return reduce(c, CLS_FLOAT);
}

bool shape_found(ShapeCtx *c)
{
    const Shape *s = &c->in[0].shape;
    uint32_t axis = 0;
    if (!rule_dtypes(c, CLS_FLOAT | CLS_INT, 1) || !rule_axis(c, attr_find(c->op, "axis"), s->rank, &axis))
        return false;
    if (s->dim[axis] == 0)
        return shape_fail(c, E0204, "axis %u has no element to find", axis);
    const Shape out = drop_axes(s, 1u << axis, shape_attr(c, attr_find(c->op, "keepdims"))->u.i != 0);
    rule_out(c, 0, DTYPE_i64, &out);
    return true;
}

static bool along_axis(ShapeCtx *c, unsigned classes)
{
    uint32_t axis = 0;
    if (!rule_dtypes(c, classes, 1) ||
        !rule_axis(c, attr_find(c->op, "axis"), c->in[0].shape.rank, &axis))
        return false;
    c->out[0] = c->in[0];
    return true;
}

bool shape_running(ShapeCtx *c)
{
    return along_axis(c, CLS_FLOAT | CLS_INT);
}

bool shape_softmax(ShapeCtx *c)
{
    return along_axis(c, CLS_FLOAT);
}

// Scale and bias broadcast to the normalised axes.
bool shape_norm(ShapeCtx *c)
{
    const Shape *s = &c->in[0].shape;
    uint32_t axis = 0;
    double eps;
    memcpy(&eps, &shape_attr(c, attr_find(c->op, "epsilon"))->u.f64_bits, sizeof eps);
    if (!rule_dtypes(c, CLS_FLOAT, c->n_src) ||
        !rule_axis(c, attr_find(c->op, "axis"), s->rank, &axis))
        return false;
    if (!(eps >= 0 && eps < 1e30))
        return shape_fail(c, E0203, "`epsilon` must be a number of at least 0");
    const Shape normalised = shape_of(s->rank - axis, s->dim + axis);
    for (uint32_t i = 1; i < c->n_src; i++)
        if (c->src[i] != 0 && !rule_broadcasts_to(c, i, &normalised))
            return false;
    c->out[0] = c->in[0];
    return true;
}

bool shape_batch_norm(ShapeCtx *c)
{
    const Shape *s = &c->in[0].shape;
    if (!rule_dtypes(c, CLS_FLOAT, c->n_src) || !rule_rank(c, 0, 2, SHAPE_MAX_RANK))
        return false;
    for (uint32_t i = 1; i < c->n_src; i++)
        if (!rule_rank(c, i, 1, 1) || !rule_dims_equal(c, c->in[i].shape.dim[0], s->dim[1], "channels"))
            return false;
    c->out[0] = c->in[0];
    return true;
}

bool shape_global_pool(ShapeCtx *c)
{
    if (!rule_dtypes(c, CLS_FLOAT, 1) || !rule_rank(c, 0, 3, SHAPE_MAX_RANK))
        return false;
    const Shape *s = &c->in[0].shape;
    const Shape out = drop_axes(s, ((1u << s->rank) - 1) & ~3u, true);
    rule_out(c, 0, c->in[0].dtype, &out);
    return true;
}
