// SPDX-License-Identifier: Apache-2.0
// Shape rules of ops that move elements without computing on them: cast, copy, gather, concat, slice, pad,
// transpose, expand, update_slice, split, result. Those that only regroup axes are in shape_reshape.c.
#include "ir/shape/forms.h"
#include "ir/shape/shape_rules.h"

bool shape_cast(ShapeCtx *c)
{
    const int64_t to = shape_attr(c, A_cast_to)->u.i;
    if (to < 0 || to >= DTYPE_COUNT)
        return shape_fail(c, E0203, "`to` is not an element type");
    rule_out(c, 0, (DType)to, &c->in[0].shape);
    return true;
}

bool shape_bitcast(ShapeCtx *c)
{
    const int64_t to = shape_attr(c, A_bitcast_to)->u.i;
    if (to < 0 || to >= DTYPE_COUNT)
        return shape_fail(c, E0203, "`to` is not an element type");
    const DType from = c->in[0].dtype;
    const uint32_t old = from == DTYPE_bool ? 8 : dtype_info[from].bits;
    const uint32_t bits = to == DTYPE_bool ? 8 : dtype_info[to].bits;
    if (old != bits)
        return shape_fail(c, E0205, "%s has %u bits and %s has %u", dtype_info[from].name, old,
                          dtype_info[to].name, bits);
    rule_out(c, 0, (DType)to, &c->in[0].shape);
    return true;
}

bool shape_copy(ShapeCtx *c)
{
    const char *order = shape_attr(c, A_copy_order)->u.str;
    if (!str_equal(order, "row_major") && !str_equal(order, "channels_last"))
        return shape_fail(c, E0203, "`order` is \"%s\", expected row_major or channels_last", order);
    c->out[0] = c->in[0];
    return true;
}

bool shape_gather(ShapeCtx *c)
{
    const Shape *x = &c->in[0].shape, *index = &c->in[1].shape;
    uint32_t axis = 0;
    if (!(CLS_INT >> dtype_info[c->in[1].dtype].cls & 1))
        return shape_fail(c, E0205, "operand 1 must be of an integer type");
    if (!rule_axis(c, A_gather_axis, x->rank, &axis))
        return false;
    if (x->rank - 1 + index->rank > SHAPE_MAX_RANK)
        return shape_fail(c, E0204, "the result would have rank %u, more than %d", x->rank - 1 + index->rank,
                          SHAPE_MAX_RANK);
    Shape out = shape_of(axis, x->dim);
    bool is_empty = false;
    for (uint32_t i = 0; i < index->rank; i++) {
        out.dim[out.rank++] = index->dim[i];
        is_empty = is_empty || index->dim[i] == 0;
    }
    if (x->dim[axis] == 0 && !is_empty)
        return shape_fail(c, E0204, "axis %u has no element to gather", axis);
    for (uint32_t i = axis + 1; i < x->rank; i++)
        out.dim[out.rank++] = x->dim[i];
    rule_out(c, 0, c->in[0].dtype, &out);
    return true;
}

bool shape_concat(ShapeCtx *c)
{
    Shape out = c->in[0].shape;
    uint32_t axis = 0;
    if (!rule_dtypes(c, CLS_FLOAT | CLS_INT | CLS_BOOL, c->n_src) ||
        !rule_axis(c, A_concat_axis, out.rank, &axis))
        return false;
    for (uint32_t i = 1; i < c->n_src; i++) {
        const Shape *s = &c->in[i].shape;
        if (!rule_rank(c, i, out.rank, out.rank))
            return false;
        for (uint32_t d = 0; d < out.rank; d++) {
            if (d == axis)
                out.dim[d] = dim_add(c->g->dims, out.dim[d], s->dim[d]);
            else if (s->dim[d] != out.dim[d])
                return shape_fail(c, E0204, "operands 0 and %u differ at axis %u: %s and %s", i, d,
                                  rule_dim_text(c, out.dim[d]), rule_dim_text(c, s->dim[d]));
        }
    }
    rule_out(c, 0, c->in[0].dtype, &out);
    return true;
}

// --- slice ---

// The position that ONNX means by v on an axis of size n, clamped to [lowest, n - 1 + past]. A size is never
// negative, which the range of its expression may not show: bounds that follow from it are left out.
static Dim slice_position(DimTable *t, Dim n, int64_t v, int64_t lowest, int64_t past)
{
    const int64_t bound = 2 * DIM_MAX_VALUE;
    const Dim last = dim_add(t, n, past - 1);
    v = v > bound ? bound : v < -bound ? -bound : v;
    if (v >= 0)
        return v == 0 && past == 1 ? 0 : rule_min(t, v, last);
    const Dim from_back = rule_max(t, dim_add(t, n, v), lowest);
    return past == 1 || lowest < 0 ? from_back : rule_min(t, from_back, last);
}

void shape_slice_range(DimTable *t, Dim n, SliceAxis s, Dim *first, Dim *count)
{
    const int64_t lowest = s.step > 0 ? 0 : -1, past = s.step > 0 ? 1 : 0;
    const Dim begin = slice_position(t, n, s.start, 0, past),
              stop = slice_position(t, n, s.end, lowest, past);
    const Dim span = s.step > 0 ? dim_sub(t, stop, begin) : dim_sub(t, begin, stop);
    const int64_t stride = s.step > 0 ? s.step : s.step < -DIM_MAX_VALUE ? DIM_MAX_VALUE : -s.step;
    *first = begin;
    *count = s.step == 1 && span == n ? n : rule_max(t, dim_ceil_div(t, span, stride), 0);
}

bool shape_slice(ShapeCtx *c)
{
    Shape out = c->in[0].shape;
    const AttrVal *starts = shape_attr(c, A_slice_starts), *ends = shape_attr(c, A_slice_ends);
    const AttrVal *axes = shape_attr(c, A_slice_axes), *steps = shape_attr(c, A_slice_steps);
    const uint32_t n = (uint32_t)starts->len;
    static const int64_t in_order[SHAPE_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    uint32_t mask = 0;
    if (starts->len > out.rank || ends->len != n || (axes->len != 0 && axes->len != n))
        return shape_fail(
            c, E0203,
            "`starts`, `ends` and `axes` have %llu, %llu and %llu entries, expected the same number",
            (unsigned long long)starts->len, (unsigned long long)ends->len, (unsigned long long)axes->len);
    if (axes->len == 0)
        rule_set_ints(c, A_slice_axes, in_order, n);
    if (!rule_axes(c, A_slice_axes, out.rank, &mask) || !rule_ints(c, A_slice_steps, n, 1, INT64_MIN))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        Dim first, *d = &out.dim[axes->u.ints[i]];
        if (steps->u.ints[i] == 0)
            return shape_fail(c, E0203, "`steps` must not be 0");
        const SliceAxis s = {.start = starts->u.ints[i], .end = ends->u.ints[i], .step = steps->u.ints[i]};
        shape_slice_range(c->g->dims, *d, s, &first, d);
    }
    rule_out(c, 0, c->in[0].dtype, &out);
    return true;
}

// --- pad ---

// How far a mode can read beyond an axis of size n; false: as far as it likes.
static bool pad_reach(const char *mode, Dim n, int64_t *reach)
{
    if (!dim_is_const(n) || str_equal(mode, "constant"))
        return false;
    if (str_equal(mode, "edge")) {
        *reach = 0;
        return n == 0;
    }
    *reach = n == 0 ? 0 : str_equal(mode, "reflect") ? n - 1 : n;
    return true;
}

static bool check_pad_mode(ShapeCtx *c, const char *mode)
{
    if (!str_equal(mode, "constant") && !str_equal(mode, "reflect") && !str_equal(mode, "edge") &&
        !str_equal(mode, "wrap"))
        return shape_fail(c, E0203, "`mode` is \"%s\", expected constant, reflect, edge or wrap", mode);
    if (!rule_has(c, 1))
        return true;
    for (uint32_t i = 0; i < c->in[1].shape.rank; i++)
        if (c->in[1].shape.dim[i] != 1)
            return shape_fail(c, E0204, "operand 1 must have one element");
    return rule_dtypes(c, CLS_FLOAT | CLS_INT | CLS_BOOL, 2);
}

bool shape_pad(ShapeCtx *c)
{
    Shape out = c->in[0].shape;
    const AttrVal *pads = shape_attr(c, A_pad_pads);
    const char *mode = shape_attr(c, A_pad_mode)->u.str;
    if (pads->len != (uint64_t)2 * out.rank)
        return shape_fail(c, E0203, "`pads` has %llu entries, expected %u", (unsigned long long)pads->len,
                          2 * out.rank);
    if (!check_pad_mode(c, mode) || !rule_ints(c, A_pad_pads, 2 * out.rank, 0, -SHAPE_MAX_STEP))
        return false;
    for (uint32_t i = 0; i < out.rank; i++) {
        const int64_t begin = pads->u.ints[i], end = pads->u.ints[out.rank + i];
        int64_t reach;
        if (pad_reach(mode, out.dim[i], &reach) && (begin > reach || end > reach))
            return shape_fail(c, E0204,
                              "mode %s can add at most %lld to each side of axis %u, not %lld and %lld", mode,
                              (long long)reach, i, (long long)begin, (long long)end);
        out.dim[i] = dim_add(c->g->dims, out.dim[i], begin + end);
    }
    rule_out(c, 0, c->in[0].dtype, &out);
    return true;
}

// --- the rest ---

bool shape_transpose(ShapeCtx *c)
{
    const Shape *x = &c->in[0].shape;
    const AttrVal *perm = shape_attr(c, A_transpose_perm);
    int64_t reversed[SHAPE_MAX_RANK];
    uint32_t mask = 0;
    for (uint32_t i = 0; i < x->rank; i++)
        reversed[i] = x->rank - 1 - i;
    if (perm->len == 0)
        rule_set_ints(c, A_transpose_perm, reversed, x->rank);
    if (perm->len != x->rank)
        return shape_fail(c, E0203, "`perm` has %llu entries, expected %u", (unsigned long long)perm->len,
                          x->rank);
    if (!rule_axes(c, A_transpose_perm, x->rank, &mask))
        return false;
    Shape out = {.rank = x->rank};
    for (uint32_t i = 0; i < x->rank; i++)
        out.dim[i] = x->dim[perm->u.ints[i]];
    rule_out(c, 0, c->in[0].dtype, &out);
    return true;
}

// Both ways, as ONNX Expand: an axis of the given shape may be 1 where the operand's is larger.
bool shape_expand(ShapeCtx *c)
{
    const AttrVal *a = shape_attr(c, A_expand_shape);
    if (a->len > SHAPE_MAX_RANK)
        return shape_fail(c, E0203, "`shape` has %llu entries, at most %d are possible",
                          (unsigned long long)a->len, SHAPE_MAX_RANK);
    const Shape want = shape_of((uint32_t)a->len, a->u.ints);
    Shape out;
    if (!shape_broadcast(c->g->dims, &c->in[0].shape, &want, &out))
        return shape_fail(c, E0204, "does not broadcast with %s", rule_shape_text(c, &want));
    rule_set_ints(c, A_expand_shape, out.dim, out.rank);
    rule_out(c, 0, c->in[0].dtype, &out);
    return true;
}

// Sizes of the patch along some axes, each named once.
static bool check_patch_sizes(ShapeCtx *c, uint32_t rank)
{
    const AttrVal *axes = shape_attr(c, A_update_slice_axes);
    uint32_t seen = 0;
    for (uint64_t i = 0; i < axes->len; i++) {
        const int64_t axis = axes->u.ints[i];
        if (axis < 0 || axis >= (int64_t)rank || (seen >> axis & 1))
            return shape_fail(c, E0203, "`axes` must be different axes of the patch, counted from 0");
        seen |= 1u << axis;
    }
    if (!rule_has(c, 3))
        return axes->len == 0 || shape_fail(c, E0203, "`axes` needs operand 3, the sizes");
    return (c->in[3].dtype == DTYPE_i64 && c->in[3].shape.rank == 1 &&
            c->in[3].shape.dim[0] == (int64_t)axes->len) ||
           shape_fail(c, E0204, "operand 3 must be i64[%llu]", (unsigned long long)axes->len);
}

bool shape_update_slice(ShapeCtx *c)
{
    const Shape *x = &c->in[0].shape, *patch = &c->in[1].shape, *start = &c->in[2].shape;
    if (!rule_dtypes(c, CLS_FLOAT | CLS_INT | CLS_BOOL, 2) || !rule_rank(c, 0, 1, SHAPE_MAX_RANK) ||
        !rule_rank(c, 1, x->rank, x->rank) || !rule_rank(c, 2, 0, 1))
        return false;
    if (!(CLS_INT >> dtype_info[c->in[2].dtype].cls & 1))
        return shape_fail(c, E0205, "operand 2 must be of an integer type");
    if (start->rank == 1 && start->dim[0] != x->rank)
        return shape_fail(c, E0204, "operand 2 must be a scalar or have %u entries", x->rank);
    for (uint32_t i = 0; i < x->rank; i++) {
        int64_t lo, hi;
        dim_range(c->g->dims, dim_sub(c->g->dims, x->dim[i], patch->dim[i]), &lo, &hi);
        if (hi < 0)
            return shape_fail(c, E0204, "the patch is larger than operand 0 at axis %u", i);
    }
    c->out[0] = c->in[0];
    return check_patch_sizes(c, x->rank);
}

bool shape_split(ShapeCtx *c)
{
    const Shape *x = &c->in[0].shape;
    const AttrVal *sizes = shape_attr(c, A_split_sizes);
    uint32_t axis = 0;
    int64_t sum = 0;
    if (!rule_axis(c, A_split_axis, x->rank, &axis))
        return false;
    if (sizes->len == 0 || sizes->len > NODE_MAX_RESULTS)
        return shape_fail(c, E0203, "`sizes` has %llu entries, expected 1 to %d",
                          (unsigned long long)sizes->len, NODE_MAX_RESULTS);
    c->n_out = (uint32_t)sizes->len;
    for (uint32_t i = 0; i < c->n_out; i++) {
        if (sizes->u.ints[i] < 0 || sizes->u.ints[i] > DIM_MAX_VALUE)
            return shape_fail(c, E0203, "`sizes` has the entry %lld", (long long)sizes->u.ints[i]);
        sum += sizes->u.ints[i];
        c->out[i] = c->in[0];
        c->out[i].shape.dim[axis] = sizes->u.ints[i];
    }
    return rule_dims_equal(c, x->dim[axis], sum, "the size of the axis and the sum of `sizes`,");
}

bool shape_result(ShapeCtx *c)
{
    const Node *n = graph_node(c->g, c->src[0]);
    const int64_t index = shape_attr(c, A_result_index)->u.i;
    if (index < 1 || index >= n->n_results)
        return shape_fail(c, E0203, "`index` is %lld, but %s has %u results", (long long)index,
                          op_info[n->op].name, n->n_results);
    c->out[0] = n->results[index];
    return true;
}

// --- forms ---

int64_t gather_axis(const Node *n)
{
    return n->op == OP_gather ? node_get_int(n, A_gather_axis) : -1;
}

int64_t concat_axis(const Node *n)
{
    return n->op == OP_concat ? node_get_int(n, A_concat_axis) : -1;
}

SliceForm slice_form(const Node *n, uint32_t axis)
{
    const AttrVal *axes = node_attr(n, A_slice_axes);
    for (uint32_t i = 0; i < node_attr(n, A_slice_starts)->len; i++)
        if ((axes->len != 0 ? axes->u.ints[i] : (int64_t)i) == (int64_t)axis)
            return (SliceForm){node_get_at(n, A_slice_starts, i, 0), node_get_at(n, A_slice_steps, i, 1)};
    return (SliceForm){0, 1};
}

const int64_t *pad_amounts(const Node *n)
{
    return n->op == OP_pad ? node_attr(n, A_pad_pads)->u.ints : NULL;
}

bool update_is_whole(const Node *n)
{
    return n->op == OP_update_slice && (n->n_src <= 3 || n->src[3] == 0);
}
