// SPDX-License-Identifier: Apache-2.0
// Shape rules of ops that choose elements or places by what the operands hold.
#include "ir/shape/shape_rules.h"

bool shape_scatter(ShapeCtx *c)
{
    const Shape *data = &c->in[0].shape, *indices = &c->in[1].shape, *updates = &c->in[2].shape;
    const char *reduction = shape_attr(c, A_scatter_reduction)->u.str;
    const bool replaces = str_equal(reduction, "none");
    if (!replaces && !str_equal(reduction, "add") && !str_equal(reduction, "mul") &&
        !str_equal(reduction, "min") && !str_equal(reduction, "max"))
        return shape_fail(c, E0203, "`reduction` is \"%s\", expected none, add, mul, min or max", reduction);
    if (c->in[2].dtype != c->in[0].dtype)
        return shape_fail(c, E0205, "operands 0 and 2 have different element types");
    if (!rule_dtypes(c, CLS_FLOAT | CLS_INT | (replaces ? CLS_BOOL : 0u), 1) ||
        !rule_rank(c, 0, 1, SHAPE_MAX_RANK) || !rule_rank(c, 1, 1, 1) ||
        !rule_rank(c, 2, data->rank, data->rank))
        return false;
    if (!(CLS_INT >> dtype_info[c->in[1].dtype].cls & 1))
        return shape_fail(c, E0205, "operand 1 must be of an integer type");
    if (!rule_dims_equal(c, indices->dim[0], updates->dim[0], "the numbers of indices and of updates,"))
        return false;
    for (uint32_t i = 1; i < data->rank; i++)
        if (!rule_dims_equal(c, data->dim[i], updates->dim[i], "the rows of operands 0 and 2,"))
            return false;
    c->out[0] = c->in[0];
    return true;
}

// One entry, a size.
static bool read_size(ShapeCtx *c, AttrId id, Dim *out)
{
    const AttrVal *v = shape_attr(c, id);
    if (v->len != 1)
        return shape_fail(c, E0203, "`%s` has %llu entries, expected 1", attr_info[id].name,
                          (unsigned long long)v->len);
    int64_t lo = 0, hi = 0;
    *out = v->u.ints[0];
    dim_range(c->g->dims, *out, &lo, &hi);
    return hi >= 0 || shape_fail(c, E0203, "`%s` is negative", attr_info[id].name);
}

// Places are sorted as 32-bit numbers.
static bool check_sortable(ShapeCtx *c, Dim n)
{
    return !dim_is_const(n) || n <= INT32_MAX / 2 ||
           shape_fail(c, E0204, "an axis of %lld elements is too long to be sorted", (long long)n);
}

bool shape_top_k(ShapeCtx *c)
{
    Shape out = c->in[0].shape;
    uint32_t axis = 0;
    Dim k = 0;
    int64_t lo = 0, hi = 0;
    if (!rule_dtypes(c, CLS_FLOAT | CLS_INT | CLS_BOOL, 1) || !rule_axis(c, A_top_k_axis, out.rank, &axis) ||
        !read_size(c, A_top_k_k, &k) || !check_sortable(c, out.dim[axis]))
        return false;
    dim_range(c->g->dims, dim_sub(c->g->dims, out.dim[axis], k), &lo, &hi);
    if (hi < 0)
        return shape_fail(c, E0203, "`k` is %s, but the axis has %s elements", rule_dim_text(c, k),
                          rule_dim_text(c, out.dim[axis]));
    out.dim[axis] = k;
    rule_out(c, 0, c->in[0].dtype, &out);
    rule_out(c, 1, DTYPE_i64, &out);
    return true;
}

// --- as many results as the operands say ---

static bool check_one(ShapeCtx *c, uint32_t operand, DType t)
{
    const TensorType *type = &c->in[operand];
    if (type->dtype != t)
        return shape_fail(c, E0205, "operand %u must be of type %s", operand, dtype_info[t].name);
    for (uint32_t i = 0; i < type->shape.rank; i++)
        if (type->shape.dim[i] != 1)
            return shape_fail(c, E0204, "operand %u must have one element", operand);
    return true;
}

bool shape_nonzero(ShapeCtx *c)
{
    Shape out = {.rank = 2, .dim = {c->in[0].shape.rank}};
    if (!rule_rank(c, 0, 1, SHAPE_MAX_RANK) || !read_size(c, A_nonzero_size, &out.dim[1]))
        return false;
    rule_out(c, 0, DTYPE_i64, &out);
    return true;
}

bool shape_unique(ShapeCtx *c)
{
    Shape all = {.rank = 1}, out = {.rank = 1};
    const Shape scalar = {0};
    if (!rule_rank(c, 0, 2, 2))
        return false;
    all.dim[0] = c->in[0].shape.dim[0];
    if ((rule_has(c, 1) && !check_one(c, 1, DTYPE_i64)) || !read_size(c, A_unique_size, &out.dim[0]) ||
        !check_sortable(c, all.dim[0]))
        return false;
    rule_out(c, 0, DTYPE_i64, &out);
    rule_out(c, 1, DTYPE_i64, &all);
    rule_out(c, 2, DTYPE_i64, &out);
    rule_out(c, 3, DTYPE_i64, &scalar);
    return true;
}

bool shape_nms(ShapeCtx *c)
{
    const Shape *boxes = &c->in[0].shape, *scores = &c->in[1].shape;
    const Shape scalar = {0};
    Shape out = {.rank = 2, .dim = {0, 3}};
    if (c->in[0].dtype != DTYPE_f32 || c->in[1].dtype != DTYPE_f32)
        return shape_fail(c, E0205, "boxes and scores must be of type f32");
    if (!rule_rank(c, 0, 3, 3) || !rule_rank(c, 1, 3, 3) ||
        !rule_dims_equal(c, boxes->dim[0], scores->dim[0], "the batches of boxes and scores,") ||
        !rule_dims_equal(c, boxes->dim[1], scores->dim[2], "the numbers of boxes and scores,") ||
        !rule_dims_equal(c, boxes->dim[2], 4, "the numbers of a box"))
        return false;
    if (!check_one(c, 2, DTYPE_i64) || !check_one(c, 3, DTYPE_f32) ||
        (rule_has(c, 4) && !check_one(c, 4, DTYPE_f32)) || !read_size(c, A_nms_size, &out.dim[0]) ||
        !check_sortable(c, boxes->dim[1]))
        return false;
    rule_out(c, 0, DTYPE_i64, &out);
    rule_out(c, 1, DTYPE_i64, &scalar);
    return true;
}

bool shape_repack(ShapeCtx *c)
{
    const AttrVal *shape = shape_attr(c, A_repack_shape);
    if (shape->len > SHAPE_MAX_RANK)
        return shape_fail(c, E0203, "`shape` has %llu entries, at most %d are possible",
                          (unsigned long long)shape->len, SHAPE_MAX_RANK);
    const Shape out = shape_of((uint32_t)shape->len, shape->u.ints);
    for (uint32_t i = 1; i < 3; i++) {
        const uint32_t rank = i == 1 ? c->in[0].shape.rank : out.rank;
        if (c->in[i].dtype != DTYPE_i64 || c->in[i].shape.rank != 1 || c->in[i].shape.dim[0] != rank)
            return shape_fail(c, E0204, "operand %u must be i64[%u]", i, rank);
    }
    rule_out(c, 0, c->in[0].dtype, &out);
    return true;
}
