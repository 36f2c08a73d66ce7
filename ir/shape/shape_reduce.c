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
static bool reduce(ShapeCtx *c, AttrId axes, AttrId keepdims, unsigned classes)
{
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
    const Shape out = drop_axes(s, mask, shape_attr(c, keepdims)->u.i != 0);
    rule_out(c, 0, c->in[0].dtype, &out);
    return true;
}

bool shape_reduce_sum(ShapeCtx *c)
{
    return reduce(c, A_reduce_sum_axes, A_reduce_sum_keepdims, CLS_FLOAT | CLS_INT);
}

bool shape_reduce_mean(ShapeCtx *c)
{
    return reduce(c, A_reduce_mean_axes, A_reduce_mean_keepdims, CLS_FLOAT | CLS_INT);
}

bool shape_reduce_max(ShapeCtx *c)
{
    return reduce(c, A_reduce_max_axes, A_reduce_max_keepdims, CLS_FLOAT | CLS_INT);
}

bool shape_reduce_min(ShapeCtx *c)
{
    return reduce(c, A_reduce_min_axes, A_reduce_min_keepdims, CLS_FLOAT | CLS_INT);
}

bool shape_reduce_prod(ShapeCtx *c)
{
    return reduce(c, A_reduce_prod_axes, A_reduce_prod_keepdims, CLS_FLOAT | CLS_INT);
}

bool shape_reduce_l1(ShapeCtx *c)
{
    return reduce(c, A_reduce_l1_axes, A_reduce_l1_keepdims, CLS_FLOAT);
}

bool shape_reduce_l2(ShapeCtx *c)
{
    return reduce(c, A_reduce_l2_axes, A_reduce_l2_keepdims, CLS_FLOAT);
}

bool shape_reduce_logsumexp(ShapeCtx *c)
{
    return reduce(c, A_reduce_logsumexp_axes, A_reduce_logsumexp_keepdims, CLS_FLOAT);
}

static bool search(ShapeCtx *c, AttrId axis_id, AttrId keepdims)
{
    const Shape *s = &c->in[0].shape;
    uint32_t axis = 0;
    if (!rule_dtypes(c, CLS_FLOAT | CLS_INT, 1) || !rule_axis(c, axis_id, s->rank, &axis))
        return false;
    if (s->dim[axis] == 0)
        return shape_fail(c, E0204, "axis %u has no element to find", axis);
    const Shape out = drop_axes(s, 1u << axis, shape_attr(c, keepdims)->u.i != 0);
    rule_out(c, 0, DTYPE_i64, &out);
    return true;
}

bool shape_argmax(ShapeCtx *c)
{
    return search(c, A_argmax_axis, A_argmax_keepdims);
}

bool shape_argmin(ShapeCtx *c)
{
    return search(c, A_argmin_axis, A_argmin_keepdims);
}

static bool along_axis(ShapeCtx *c, AttrId axis_id, unsigned classes)
{
    uint32_t axis = 0;
    if (!rule_dtypes(c, classes, 1) || !rule_axis(c, axis_id, c->in[0].shape.rank, &axis))
        return false;
    c->out[0] = c->in[0];
    return true;
}

bool shape_cumsum(ShapeCtx *c)
{
    return along_axis(c, A_cumsum_axis, CLS_FLOAT | CLS_INT);
}

bool shape_cumprod(ShapeCtx *c)
{
    return along_axis(c, A_cumprod_axis, CLS_FLOAT | CLS_INT);
}

bool shape_cummax(ShapeCtx *c)
{
    return along_axis(c, A_cummax_axis, CLS_FLOAT | CLS_INT);
}

bool shape_softmax(ShapeCtx *c)
{
    return along_axis(c, A_softmax_axis, CLS_FLOAT);
}

bool shape_log_softmax(ShapeCtx *c)
{
    return along_axis(c, A_log_softmax_axis, CLS_FLOAT);
}

// Scale and bias broadcast to the normalised axes.
static bool norm(ShapeCtx *c, AttrId axis_id, AttrId epsilon)
{
    const Shape *s = &c->in[0].shape;
    uint32_t axis = 0;
    double eps;
    memcpy(&eps, &shape_attr(c, epsilon)->u.f64_bits, sizeof eps);
    if (!rule_dtypes(c, CLS_FLOAT, c->n_src) || !rule_axis(c, axis_id, s->rank, &axis))
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

bool shape_layer_norm(ShapeCtx *c)
{
    return norm(c, A_layer_norm_axis, A_layer_norm_epsilon);
}

bool shape_rms_norm(ShapeCtx *c)
{
    return norm(c, A_rms_norm_axis, A_rms_norm_epsilon);
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

static bool global_pool(ShapeCtx *c)
{
    if (!rule_dtypes(c, CLS_FLOAT, 1) || !rule_rank(c, 0, 3, SHAPE_MAX_RANK))
        return false;
    const Shape *s = &c->in[0].shape;
    const Shape out = drop_axes(s, ((1u << s->rank) - 1) & ~3u, true);
    rule_out(c, 0, c->in[0].dtype, &out);
    return true;
}

bool shape_global_avg_pool(ShapeCtx *c)
{
    return global_pool(c);
}

bool shape_global_max_pool(ShapeCtx *c)
{
    return global_pool(c);
}
