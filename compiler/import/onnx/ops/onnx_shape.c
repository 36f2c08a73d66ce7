// SPDX-License-Identifier: Apache-2.0
// Operators that regroup or repeat axes. Shapes and axes are attributes in old opsets and operands in new
// ones; operands may hold symbolic dims.
#include "compiler/import/onnx/onnx_import.h"

#include <string.h>

// --- sizes as values ---

void onnx_import_shape(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    const Shape *s = onnx_shape(n, x);
    const int64_t rank = s->rank;
    int64_t start = onnx_int(n, "start", 0), end = onnx_int(n, "end", rank);
    start = start < -rank ? 0 : start < 0 ? start + rank : start > rank ? rank : start;
    end = end < -rank ? 0 : end < 0 ? end + rank : end > rank ? rank : end;
    OnnxDims dims = {.dtype = DTYPE_i64, .rank = 1};
    for (int64_t i = start; i < end; i++)
        dims.dim[dims.n++] = s->dim[i];
    onnx_out_dims(n, 0, &dims);
}

void onnx_import_size(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    const Shape s = *onnx_shape(n, x);
    const OnnxDims dims = {.dtype = DTYPE_i64, .n = 1, .dim = {dim_product(n->graph->dims, s.dim, s.rank)}};
    onnx_out_dims(n, 0, &dims);
}

// --- regrouping ---

// A list that is an attribute before `since` and an operand from then on. False: not given.
static bool read_list(OnnxNode *n, const char *attr, uint32_t operand, OnnxDims *out)
{
    return onnx_has(n, operand) ? onnx_src_dims(n, operand, out) : onnx_dims_attr(n, attr, out);
}

static bool has_zero(const OnnxDims *d)
{
    for (uint32_t i = 0; i < d->n; i++)
        if (d->dim[i] == 0)
            return true;
    return false;
}

void onnx_import_reshape(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    const bool allow_zero = onnx_flag(n, "allowzero", 0);
    OnnxDims shape;
    onnx_promise_reshape(n, allow_zero);
    if (!read_list(n, "shape", 1, &shape)) {
        onnx_fail(n, E0202, "the shape is missing");
        return;
    }
    if (shape.n > SHAPE_MAX_RANK)
        onnx_fail(n, E0206, "%u axes are more than the %d that are supported", shape.n, SHAPE_MAX_RANK);
    // Ours copies a size where the shape has 0. Where 0 means 0 there are no elements, so that any empty
    // tensor will do.
    if (allow_zero && has_zero(&shape))
        onnx_out(n, 0, onnx_expand(n, onnx_scalar(n, onnx_dtype(n, x), 0), shape.dim, shape.n));
    else if (onnx_sizes_fit(n, x, &shape))
        onnx_out(n, 0, onnx_reshape_to(n, x, shape.dim, shape.n));
}

void onnx_import_flatten(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    const int64_t axis = onnx_int(n, "axis", 1);
    onnx_out(n, 0, onnx_op_int(n, OP_flatten, x, A_flatten_axis, axis));
}

static void import_axes(OnnxNode *n, bool inserts)
{
    const NodeId x = onnx_src(n, 0);
    OnnxInts axes = {0};
    NodeId made = 0;
    if (onnx_promise_axes(n, inserts, &made)) {
        onnx_out(n, 0, made);
        return;
    }
    const bool is_given = onnx_has(n, 1) ? onnx_src_ints(n, 1, &axes) : onnx_ints(n, "axes", &axes);
    if (!n->failed && !is_given && inserts)
        onnx_fail(n, E0202, "the axes are missing");
    if (n->failed)
        return;
    NodeBuild b = ONNX_BEGIN(n, inserts ? OP_unsqueeze : OP_squeeze, x);
    node_ints(&b, inserts ? A_unsqueeze_axes : A_squeeze_axes, axes.v, axes.n);
    // An empty list is as none: all axes of size 1 go, as with ONNX Runtime.
    onnx_out(n, 0, inserts && axes.n == 0 ? x : onnx_end(n, &b));
}

void onnx_import_squeeze(OnnxNode *n)
{
    import_axes(n, false);
}

void onnx_import_unsqueeze(OnnxNode *n)
{
    import_axes(n, true);
}

void onnx_import_transpose(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    const uint32_t rank = onnx_shape(n, x)->rank;
    OnnxInts perm;
    if (!onnx_ints(n, "perm", &perm)) {
        perm.n = rank;
        for (uint32_t i = 0; i < rank; i++)
            perm.v[i] = rank - 1 - i;
    }
    if (perm.n != rank)
        onnx_fail(n, E0203, "attribute 'perm' has %u entries, but the rank is %u", perm.n, rank);
    onnx_out(n, 0, onnx_transpose(n, x, perm.v));
}

// --- repeating ---

void onnx_import_expand(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    OnnxDims shape;
    onnx_promise_expand(n);
    if (!onnx_src_sizes(n, 1, &shape))
        return;
    if (shape.n > SHAPE_MAX_RANK)
        onnx_fail(n, E0206, "%u axes are more than the %d that are supported", shape.n, SHAPE_MAX_RANK);
    onnx_out(n, 0, onnx_expand(n, x, shape.dim, shape.n));
}

// One axis: [.., d, ..] as [.., 1, d, ..] expanded to [.., times, d, ..], and the two joined.
static NodeId repeat_axis(OnnxNode *n, NodeId x, uint32_t axis, Dim times)
{
    Shape s = *onnx_shape(n, x);
    if (times == 1 || n->failed)
        return x;
    if (s.rank == SHAPE_MAX_RANK) {
        onnx_fail(n, E0206, "repeating an axis of a tensor of rank %u is not supported", s.rank);
        return 0;
    }
    const Shape wide = shape_insert(&s, axis, times);
    s.dim[axis] = dim_mul(n->graph->dims, s.dim[axis], times);
    const NodeId apart = onnx_unsqueeze(n, x, (const int64_t[]){axis}, 1);
    return onnx_reshape(n, onnx_expand(n, apart, wide.dim, wide.rank), &s);
}

// Opset 1 repeats one axis: operand 1 says how often, operand 2 which.
static bool read_repeats(OnnxNode *n, uint32_t rank, OnnxDims *times)
{
    OnnxInts one;
    uint32_t axis = 0;
    if (!onnx_src_dims(n, 1, times))
        return false;
    if (n->opset >= 6)
        return true;
    if (!onnx_src_ints(n, 2, &one))
        return false;
    if (times->n != 1 || one.n != 1)
        return onnx_fail(n, E0203, "inputs 1 and 2 must be one number each");
    if (!onnx_axis(n, one.v[0], rank, &axis))
        return false;
    const Dim count = times->dim[0];
    times->n = rank;
    for (uint32_t i = 0; i < rank; i++)
        times->dim[i] = i == axis ? count : 1;
    return true;
}

void onnx_import_tile(OnnxNode *n)
{
    NodeId x = onnx_src(n, 0);
    OnnxDims times;
    NodeId made = 0;
    const Shape s = *onnx_shape(n, x);
    if (n->opset >= 6)
        onnx_promise_tile(n);
    if (onnx_tile_open(n, x, &made)) {
        onnx_out(n, 0, made);
        return;
    }
    if (!read_repeats(n, s.rank, &times))
        return;
    if (times.n != s.rank)
        onnx_fail(n, E0204, "%u repeats are given for rank %u", times.n, s.rank);
    bool is_empty = false;
    Shape out = s;
    for (uint32_t i = 0; i < s.rank && !n->failed; i++) {
        out.dim[i] = dim_mul(n->graph->dims, s.dim[i], times.dim[i]);
        is_empty = is_empty || out.dim[i] == 0;
    }
    if (is_empty) {
        onnx_out(n, 0, onnx_expand(n, onnx_scalar(n, onnx_dtype(n, x), 0), out.dim, out.rank));
        return;
    }
    for (uint32_t i = 0; i < s.rank && !n->failed; i++)
        x = repeat_axis(n, x, i, times.dim[i]);
    onnx_out(n, 0, x);
}

// --- blocks ---

static int64_t block_size(OnnxNode *n, NodeId x)
{
    const int64_t size = onnx_int(n, "blocksize", 0);
    if (!n->failed && (size < 1 || size > 65536 || onnx_shape(n, x)->rank != 4))
        onnx_fail(n, E0204, "needs a 'blocksize' of 1 to 65536 and an input [N, C, H, W]");
    return size;
}

// True for channels in the order column, row, depth instead of depth, column, row.
static bool reads_columns_first(OnnxNode *n)
{
    return ONNX_WORD(n, "mode", "DCR", "CRD") == 1;
}

void onnx_import_depth_to_space(OnnxNode *n)
{
    static const int64_t dcr[] = {0, 3, 4, 1, 5, 2}, crd[] = {0, 1, 4, 2, 5, 3};
    const NodeId x = onnx_src(n, 0);
    const int64_t b = block_size(n, x);
    const bool is_crd = reads_columns_first(n);
    if (n->failed)
        return;
    DimTable *t = n->graph->dims;
    const Shape s = *onnx_shape(n, x);
    const Dim depth = dim_floor_div(t, s.dim[1], b * b), h = s.dim[2], w = s.dim[3];
    const Dim split_dcr[] = {s.dim[0], b, b, depth, h, w}, split_crd[] = {s.dim[0], depth, b, b, h, w};
    const NodeId apart = onnx_reshape_to(n, x, is_crd ? split_crd : split_dcr, 6);
    const Dim out[] = {s.dim[0], depth, dim_mul(t, h, b), dim_mul(t, w, b)};
    onnx_out(n, 0, onnx_reshape_to(n, onnx_transpose(n, apart, is_crd ? crd : dcr), out, 4));
}

void onnx_import_space_to_depth(OnnxNode *n)
{
    static const int64_t dcr[] = {0, 3, 5, 1, 2, 4}, crd[] = {0, 1, 3, 5, 2, 4};
    const NodeId x = onnx_src(n, 0);
    const int64_t b = block_size(n, x);
    const bool is_crd = reads_columns_first(n);
    if (n->failed)
        return;
    DimTable *t = n->graph->dims;
    const Shape s = *onnx_shape(n, x);
    const Dim h = dim_floor_div(t, s.dim[2], b), w = dim_floor_div(t, s.dim[3], b);
    const NodeId apart = onnx_reshape_to(n, x, (const Dim[]){s.dim[0], s.dim[1], h, b, w, b}, 6);
    const Dim out[] = {s.dim[0], dim_mul(t, s.dim[1], b * b), h, w};
    onnx_out(n, 0, onnx_reshape_to(n, onnx_transpose(n, apart, is_crd ? crd : dcr), out, 4));
}
