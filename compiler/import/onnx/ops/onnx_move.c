// SPDX-License-Identifier: Apache-2.0
// Operators that select, join and pad: concat, gather, pad, slice, split.
#include "compiler/import/onnx/onnx_import.h"

enum { CONCAT_MAX = 255 }; // operands of our concat

// --- concat, gather ---

static NodeId *join_groups(OnnxNode *n, const NodeId *src, uint32_t *count, int64_t axis)
{
    const uint32_t groups = (*count + CONCAT_MAX - 1) / CONCAT_MAX;
    NodeId *joined = ARENA_ARRAY(n->model->arena, NodeId, groups);
    for (uint32_t i = 0; i < groups; i++) {
        const uint32_t first = i * CONCAT_MAX, left = *count - first;
        joined[i] = onnx_concat(n, src + first, left < CONCAT_MAX ? left : CONCAT_MAX, axis);
    }
    *count = groups;
    return joined;
}

NodeId onnx_concat_many(OnnxNode *n, NodeId *src, uint32_t count, int64_t axis)
{
    rlx_assert(n->failed || count >= 1);
    while (count > 1 && !n->failed)
        src = join_groups(n, src, &count, axis);
    return n->failed ? 0 : src[0];
}

void onnx_import_concat(OnnxNode *n)
{
    NodeId *src = ARENA_ARRAY(n->model->arena, NodeId, n->n_in);
    for (uint32_t i = 0; i < n->n_in; i++)
        src[i] = onnx_src(n, i);
    if (n->opset >= 4)
        onnx_need_attr(n, "axis");
    const int64_t axis = onnx_int(n, "axis", 1);
    if (n->n_in == 0)
        onnx_fail(n, E0202, "needs at least one input");
    if (!n->failed)
        onnx_out(n, 0, onnx_concat_many(n, src, n->n_in, axis));
}

void onnx_import_gather(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), indices = onnx_src(n, 1);
    onnx_out(n, 0, onnx_gather(n, x, indices, onnx_int(n, "axis", 0)));
}

// --- pad ---

// Pads of all axes, begins and then ends. Since opset 18 the operand may be for some axes only.
static bool read_pads(OnnxNode *n, uint32_t rank, int64_t *pads)
{
    OnnxInts given, axes = {.n = rank};
    for (uint32_t i = 0; i < rank; i++)
        axes.v[i] = i;
    if (n->opset >= 11)
        onnx_src_ints(n, 1, &given);
    else if (!onnx_ints(n, onnx_has_attr(n, "pads") ? "pads" : "paddings", &given))
        onnx_fail(n, E0203, "needs the attribute 'pads'");
    if (onnx_has(n, 3))
        onnx_src_ints(n, 3, &axes);
    if (n->failed)
        return false;
    if (given.n != 2 * axes.n)
        return onnx_fail(n, E0203, "%u pads are given for %u axes, expected %u", given.n, axes.n, 2 * axes.n);
    for (uint32_t i = 0; i < axes.n; i++) {
        uint32_t axis = 0;
        if (!onnx_axis(n, axes.v[i], rank, &axis))
            return false;
        pads[axis] = given.v[i];
        pads[rank + axis] = given.v[axes.n + i];
    }
    return true;
}

// ONNX Runtime removes elements before it wraps (the standard does not say), and OP_pad the other way round.
static NodeId cut_before_wrap(OnnxNode *n, NodeId x, uint32_t rank, int64_t *pads)
{
    int64_t cuts[2 * SHAPE_MAX_RANK];
    bool is_mixed = false;
    rlx_assert(rank <= SHAPE_MAX_RANK);
    for (uint32_t i = 0; i < rank; i++)
        is_mixed = is_mixed || (pads[i] < 0 && pads[rank + i] > 0) || (pads[i] > 0 && pads[rank + i] < 0);
    if (!is_mixed)
        return x;
    for (uint32_t i = 0; i < 2 * rank; i++) {
        cuts[i] = pads[i] < 0 ? pads[i] : 0;
        pads[i] = pads[i] > 0 ? pads[i] : 0;
    }
    return onnx_op_ints(n, OP_pad, x, A_pad_pads, cuts, 2 * rank);
}

void onnx_import_pad(OnnxNode *n)
{
    NodeId x = onnx_src(n, 0);
    int64_t pads[2 * SHAPE_MAX_RANK] = {0};
    const uint32_t rank = onnx_shape(n, x)->rank;
    const char *mode = onnx_str(n, "mode", "constant");
    NodeId value = n->opset >= 11 ? onnx_opt(n, 2) : 0;
    if (n->opset < 11 && onnx_has_attr(n, "value"))
        value = onnx_scalar(n, onnx_dtype(n, x), onnx_float(n, "value", 0));
    NodeId made = 0;
    if (n->opset >= 11 && onnx_promise_pad(n, mode, value, &made)) {
        onnx_out(n, 0, made);
        return;
    }
    if (!read_pads(n, rank, pads))
        return;
    if (str_equal(mode, "wrap"))
        x = cut_before_wrap(n, x, rank, pads);
    NodeBuild b = ONNX_BEGIN(n, OP_pad, x, str_equal(mode, "constant") ? value : 0);
    node_ints(&b, A_pad_pads, pads, 2 * rank);
    node_str(&b, A_pad_mode, mode);
    onnx_out(n, 0, onnx_end(n, &b));
}

// --- slice ---

typedef struct SliceArgs {
    OnnxDims starts, ends;
    OnnxInts axes, steps;
} SliceArgs;

static bool list_attr(OnnxNode *n, const char *name, OnnxDims *out)
{
    return onnx_dims_attr(n, name, out) || onnx_fail(n, E0203, "needs the attribute '%s'", name);
}

static bool read_slice(OnnxNode *n, SliceArgs *a)
{
    a->axes.n = a->steps.n = 0;
    if (n->opset < 10) {
        if (!list_attr(n, "starts", &a->starts) || !list_attr(n, "ends", &a->ends))
            return false;
        onnx_ints(n, "axes", &a->axes);
    } else {
        if (!onnx_src_dims(n, 1, &a->starts) || !onnx_src_dims(n, 2, &a->ends))
            return false;
        if (onnx_has(n, 3))
            onnx_src_ints(n, 3, &a->axes);
        if (onnx_has(n, 4))
            onnx_src_ints(n, 4, &a->steps);
    }
    const uint32_t count = a->starts.n;
    if (n->failed)
        return false;
    if (a->ends.n != count || (a->axes.n && a->axes.n != count) || (a->steps.n && a->steps.n != count))
        return onnx_fail(n, E0203, "%u starts, %u ends, %u axes and %u steps; expected the same number",
                         count, a->ends.n, a->axes.n, a->steps.n);
    for (uint32_t i = 0; i < count; i++) {
        a->axes.v[i] = a->axes.n ? a->axes.v[i] : i;
        a->steps.v[i] = !a->steps.n ? 1 : a->steps.v[i] > INT32_MAX ? INT32_MAX : a->steps.v[i];
    }
    return true;
}

static Dim smaller(DimTable *t, Dim a, Dim b)
{
    int64_t lo = 0, hi = 0;
    dim_range(t, dim_sub(t, a, b), &lo, &hi);
    return hi <= 0 ? a : lo >= 0 ? b : dim_min(t, a, b);
}

// A position on an axis of `size`, which counts from the back when it is negative, clamped to the end. False:
// its sign depends on symbols.
static bool position(DimTable *t, Dim size, Dim v, Dim *out)
{
    int64_t lo = 0, hi = 0;
    dim_range(t, v, &lo, &hi);
    if (lo < 0 && hi >= 0)
        return false;
    if (hi >= 0) {
        *out = smaller(t, v, size);
        return true;
    }
    const Dim from_front = dim_add(t, size, v);
    dim_range(t, from_front, &lo, &hi);
    *out = lo >= 0 ? from_front : hi <= 0 ? 0 : dim_max(t, from_front, 0);
    return true;
}

// A slice between symbolic positions: the elements start, start + 1, ... by a gather.
static NodeId slice_symbolic(OnnxNode *n, NodeId x, uint32_t axis, Dim start, Dim end)
{
    DimTable *t = n->graph->dims;
    const Dim size = onnx_shape(n, x)->dim[axis];
    Dim first = 0, stop = 0;
    int64_t lo = 0, hi = 0;
    if (!position(t, size, start, &first) || !position(t, size, end, &stop)) {
        onnx_fail(n, E0207, "the sign of a symbolic start or end is not known");
        return 0;
    }
    Dim count = dim_sub(t, stop, first);
    dim_range(t, count, &lo, &hi);
    count = lo >= 0 ? count : hi <= 0 ? 0 : dim_max(t, count, 0);
    if (first == 0 && count == size)
        return x;
    OnnxValue offset = {.kind = ONNX_DIMS, .dims = &(OnnxDims){.dtype = DTYPE_i64, .n = 1, .dim = {first}}};
    const NodeId from = onnx_value_node(n->scope, &offset, n->span);
    if (!from) {
        n->failed = true;
        return 0;
    }
    const NodeId steps = onnx_iota(n, count);
    return onnx_gather(n, x, first == 0 ? steps : onnx_op2(n, OP_add, steps, from), axis);
}

static NodeId slice_axis(OnnxNode *n, NodeId x, const SliceArgs *a, uint32_t i)
{
    uint32_t axis = 0;
    const Dim start = a->starts.dim[i];
    Dim end = a->ends.dim[i];
    if (n->failed || !onnx_axis(n, a->axes.v[i], onnx_shape(n, x)->rank, &axis))
        return 0;
    if (end == onnx_shape(n, x)->dim[axis] && a->steps.v[i] > 0)
        end = INT64_MAX;
    if (dim_is_const(start) && dim_is_const(end))
        return onnx_slice(n, x, axis, start, end, a->steps.v[i]);
    if (a->steps.v[i] == 1)
        return slice_symbolic(n, x, axis, start, end);
    onnx_fail(n, E0207, "a slice with a step needs numbers as start and end");
    return 0;
}

// Takes exactly what the slice reaches of axes whose computed size is at least that, so that the result has a
// known size.
static NodeId take_least(OnnxNode *n, NodeId x, const SliceArgs *a)
{
    for (uint32_t i = 0; i < a->starts.n; i++) {
        uint32_t axis = 0;
        const int64_t end = a->ends.dim[i];
        if (!onnx_axis(n, a->axes.v[i], onnx_shape(n, x)->rank, &axis))
            return 0;
        const Dim d = onnx_shape(n, x)->dim[axis];
        const bool is_forward = a->starts.dim[i] >= 0 && a->steps.v[i] > 0 && end > 0;
        if (is_forward && graph_dim_is_computed(n->graph, d) && end <= onnx_least(n, d))
            x = onnx_gather(n, x, onnx_iota(n, end), axis);
    }
    return x;
}

void onnx_import_slice(OnnxNode *n)
{
    NodeId x = onnx_src(n, 0);
    SliceArgs a;
    NodeId made = 0;
    bool is_const = true;
    if (n->opset >= 10 && onnx_promise_slice(n, &made)) {
        onnx_out(n, 0, made);
        return;
    }
    if (onnx_slice_open(n, x, &made)) {
        onnx_out(n, 0, made);
        return;
    }
    if (!read_slice(n, &a))
        return;
    for (uint32_t i = 0; i < a.starts.n; i++)
        is_const = is_const && dim_is_const(a.starts.dim[i]) && dim_is_const(a.ends.dim[i]);
    if (is_const) {
        x = take_least(n, x, &a);
        NodeBuild b = ONNX_BEGIN(n, OP_slice, x);
        node_ints(&b, A_slice_starts, a.starts.dim, a.starts.n);
        node_ints(&b, A_slice_ends, a.ends.dim, a.starts.n);
        node_ints(&b, A_slice_axes, a.axes.v, a.starts.n);
        node_ints(&b, A_slice_steps, a.steps.v, a.starts.n);
        onnx_out(n, 0, onnx_end(n, &b));
        return;
    }
    for (uint32_t i = 0; i < a.starts.n; i++)
        x = slice_axis(n, x, &a, i);
    onnx_out(n, 0, x);
}

// --- split ---

// Equal parts; only since opset 18 may the last one be smaller.
static void equal_parts(OnnxNode *n, int64_t size, uint32_t count, OnnxInts *sizes)
{
    if (count == 0 || count > ONNX_MAX_LIST) {
        onnx_fail(n, E0004, "an axis can be split into 1 to %d parts, not %u", ONNX_MAX_LIST, count);
        return;
    }
    const int64_t part = size / count + (size % count != 0);
    if (n->opset < 18 && size % count != 0)
        onnx_fail(n, E0204, "an axis of size %lld cannot be split into %u equal parts", (long long)size,
                  count);
    sizes->n = count;
    for (uint32_t i = 0; i < count; i++) {
        const int64_t before = (int64_t)i * part, left = size > before ? size - before : 0;
        sizes->v[i] = left < part ? left : part;
    }
}

static bool check_parts(OnnxNode *n, int64_t size, const OnnxInts *sizes)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < sizes->n && !n->failed; i++) {
        if (sizes->v[i] < 0 || sizes->v[i] > size - sum)
            return onnx_fail(n, E0204, "the parts do not sum up to the size %lld of the axis",
                             (long long)size);
        sum += sizes->v[i];
    }
    if (!n->failed && (sum != size || sizes->n < n->n_out))
        return onnx_fail(n, E0204,
                         "%u parts with %lld elements in all do not fit %u outputs and an axis of size %lld",
                         sizes->n, (long long)sum, n->n_out, (long long)size);
    return !n->failed;
}

static void split_node(OnnxNode *n, NodeId x, uint32_t axis, const OnnxInts *sizes)
{
    NodeBuild b = ONNX_BEGIN(n, OP_split, x);
    node_int(&b, A_split_axis, axis);
    node_ints(&b, A_split_sizes, sizes->v, sizes->n);
    const NodeId parts = onnx_end(n, &b);
    for (uint32_t i = 0; i < n->n_out; i++)
        onnx_out(n, i, onnx_result(n, parts, i));
}

bool onnx_open_parts(OnnxNode *n, uint32_t axis, Dim size, uint32_t count, Dim *part)
{
    OnnxDims d;
    Tensor known;
    bool is_open = graph_dim_is_computed(n->graph, size); // PyTorch's tracing writes numbers for it
    if (!onnx_has(n, 1))
        return false;
    if (onnx_peek_dims(n, 1, &d)) {
        for (uint32_t i = 0; i < d.n; i++)
            is_open = is_open || !dim_is_const(d.dim[i]);
        if (is_open && d.n != count)
            return onnx_fail(n, E0204, "the sizes are those of %u parts, but there are %u outputs", d.n,
                             count);
        for (uint32_t i = 0; is_open && i < count; i++)
            part[i] = d.dim[i];
        return is_open;
    }
    if (onnx_assume(n, 1, &known))
        return false;
    const NodeId list = onnx_cast(n, onnx_src(n, 1), DTYPE_i64), most = onnx_dim_value(n, size);
    const Shape s = *onnx_shape(n, list);
    if (!n->failed && (s.rank != 1 || s.dim[0] != count))
        return onnx_fail(n, E0204, "there must be one size for each of the %u outputs", count);
    for (uint32_t i = 0; i < count && !n->failed; i++) {
        const NodeId v = onnx_reshape(n, onnx_slice(n, list, 0, i, (int64_t)i + 1, 1), &(Shape){0});
        const NodeId least = onnx_op2(n, OP_max, v, onnx_scalar(n, DTYPE_i64, 0));
        const NodeId fitting = onnx_op2(n, OP_min, least, most);
        onnx_require(n, onnx_op2(n, OP_eq, v, fitting),
                     arena_printf(n->model->arena,
                                  GRAPH_RANGE "node '%s': %s: part %u is negative or over the size of "
                                              "the axis",
                                  n->label, n->op, i));
        part[i] = onnx_extent(n, i, axis, fitting, size);
    }
    return !n->failed;
}

void onnx_split_open(OnnxNode *n, NodeId x, uint32_t axis, uint32_t count, const Dim *part, OnnxValue *out)
{
    rlx_assert(axis < onnx_shape(n, x)->rank);
    NodeId at = onnx_scalar(n, DTYPE_i64, 0);
    Dim sum = 0;
    const Dim size = onnx_shape(n, x)->dim[axis];
    onnx_skip(n, 1);
    for (uint32_t i = 0; i < count && !n->failed; i++) {
        out[i] = onnx_value(onnx_gather(n, x, onnx_op2(n, OP_add, onnx_iota(n, part[i]), at), axis));
        at = onnx_op2(n, OP_add, at, onnx_dim_value(n, part[i]));
        sum = dim_add(n->graph->dims, sum, part[i]);
    }
    if (!n->failed && sum != size)
        onnx_require(n, onnx_op2(n, OP_eq, at, onnx_dim_value(n, size)),
                     arena_printf(n->model->arena,
                                  "node '%s': %s: the parts must sum up to the size of the axis", n->label,
                                  n->op));
}

void onnx_import_split(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    uint32_t axis = 0;
    OnnxInts sizes;
    const int64_t given = onnx_int(n, "num_outputs", n->n_out);
    if (!onnx_axis(n, onnx_int(n, "axis", 0), onnx_shape(n, x)->rank, &axis))
        return;
    onnx_promise_split(n, axis);
    Dim *open = ARENA_ARRAY(n->model->arena, Dim, n->n_out);
    if (onnx_open_parts(n, axis, onnx_shape(n, x)->dim[axis], n->n_out, open)) {
        OnnxValue *part = ARENA_ARRAY(n->model->arena, OnnxValue, n->n_out);
        onnx_split_open(n, x, axis, n->n_out, open, part);
        for (uint32_t i = 0; i < n->n_out && !n->failed; i++)
            onnx_out_any(n, i, part[i]);
        return;
    }
    if (n->failed)
        return;
    const bool is_listed = onnx_has(n, 1) ? onnx_src_ints(n, 1, &sizes) : onnx_ints(n, "split", &sizes);
    if (!n->failed && !is_listed && n->n_out == 1) {
        onnx_out(n, 0, x);
        return;
    }
    const int64_t size = onnx_const_dim(n, x, axis);
    if (!n->failed && !is_listed)
        equal_parts(n, size, given < 0 || given > ONNX_MAX_LIST ? 0 : (uint32_t)given, &sizes);
    if (!check_parts(n, size, &sizes))
        return;
    if (sizes.n > 1 && !node_is_const(n->graph, x)) {
        split_node(n, x, axis, &sizes);
        return;
    }
    int64_t at = 0;
    for (uint32_t i = 0; i < n->n_out; i++) {
        onnx_out(n, i, onnx_slice(n, x, axis, at, at + sizes.v[i], 1));
        at += sizes.v[i];
    }
}
