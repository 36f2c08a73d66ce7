// SPDX-License-Identifier: Apache-2.0
// Reductions and searches along axes. Axes are an attribute in old opsets and an operand in new ones.
#include "compiler/import/onnx/onnx_import.h"

// The axes to reduce. False: none, because an empty list was asked to mean that.
static bool read_axes(OnnxNode *n, OnnxInts *axes)
{
    const bool is_noop = onnx_flag(n, "noop_with_empty_axes", 0);
    axes->n = 0;
    if (onnx_has(n, 1))
        onnx_src_ints(n, 1, axes);
    else
        onnx_ints(n, "axes", axes);
    return axes->n > 0 || !is_noop;
}

static NodeId reduce_axes(OnnxNode *n, OpId op, NodeId x, const OnnxInts *axes)
{
    const bool keepdims = onnx_flag(n, "keepdims", 1);
    if (n->failed)
        return 0;
    NodeBuild b = ONNX_BEGIN(n, op, x);
    node_ints(&b, attr_find(op, "axes"), axes->v, axes->n);
    node_int(&b, attr_find(op, "keepdims"), keepdims);
    return onnx_end(n, &b);
}

typedef struct Reduction {
    OpId before, op, after; // OP_none: nothing
} Reduction;

static void import_reduce(OnnxNode *n, Reduction r)
{
    rlx_assert(r.op != OP_none);
    NodeId x = onnx_src(n, 0);
    OnnxInts axes;
    const bool reduces = read_axes(n, &axes);
    const bool is_bool = onnx_dtype(n, x) == DTYPE_bool;
    if (!reduces)
        onnx_ignore_attr(n, "keepdims");
    if (is_bool)
        x = onnx_cast(n, x, DTYPE_u8);
    if (r.before != OP_none)
        x = onnx_op1(n, r.before, x);
    if (reduces)
        x = reduce_axes(n, r.op, x, &axes);
    if (r.after != OP_none)
        x = onnx_op1(n, r.after, x);
    onnx_out(n, 0, is_bool ? onnx_cast(n, x, DTYPE_bool) : x);
}

// Through f64 and back, as the standard's functions say of square roots and logarithms of whole numbers. The
// way back cuts off what is behind the point.
static void import_real(OnnxNode *n, Reduction r)
{
    const DType type = onnx_dtype(n, onnx_src(n, 0));
    const bool is_float = dtype_info[type].cls == DCLASS_FLOAT;
    if (!is_float && !n->failed)
        n->in[0] = onnx_value(onnx_cast(n, onnx_src(n, 0), DTYPE_f64));
    import_reduce(n, r);
    if (!is_float && !n->failed)
        onnx_out(n, 0, onnx_cast(n, n->out[0].node, type));
}

// The norms of a single number are its magnitude.
static bool import_magnitudes(OnnxNode *n)
{
    OnnxInts axes;
    if (read_axes(n, &axes))
        return false;
    onnx_ignore_attr(n, "keepdims");
    onnx_out(n, 0, onnx_op1(n, OP_abs, onnx_src(n, 0)));
    return true;
}

void onnx_import_reduce_l1(OnnxNode *n)
{
    const bool is_float = dtype_info[onnx_dtype(n, onnx_src(n, 0))].cls == DCLASS_FLOAT;
    if (import_magnitudes(n))
        return;
    if (is_float)
        import_reduce(n, (Reduction){OP_none, OP_reduce_l1, OP_none});
    else
        import_reduce(n, (Reduction){OP_abs, OP_reduce_sum, OP_none});
}

void onnx_import_reduce_l2(OnnxNode *n)
{
    if (!import_magnitudes(n))
        import_real(n, (Reduction){OP_none, OP_reduce_l2, OP_none});
}

void onnx_import_reduce_log_sum(OnnxNode *n)
{
    import_real(n, (Reduction){OP_none, OP_reduce_sum, OP_log});
}

void onnx_import_reduce_log_sum_exp(OnnxNode *n)
{
    import_real(n, (Reduction){OP_none, OP_reduce_logsumexp, OP_none});
}

void onnx_import_reduce(OnnxNode *n)
{
    import_reduce(n, (Reduction){OP_none, n->row_op, OP_none});
}

void onnx_import_reduce_sum_square(OnnxNode *n)
{
    import_reduce(n, (Reduction){OP_square, OP_reduce_sum, OP_none});
}

static NodeId search(OnnxNode *n, OpId op, NodeId x, int64_t axis)
{
    const bool keepdims = onnx_flag(n, "keepdims", 1);
    NodeBuild b = ONNX_BEGIN(n, op, x);
    node_int(&b, attr_find(op, "axis"), axis);
    node_int(&b, attr_find(op, "keepdims"), keepdims);
    return onnx_end(n, &b);
}

// The last of equal values is the first one of the reversed axis.
static NodeId search_last(OnnxNode *n, OpId op, NodeId x, int64_t axis)
{
    uint32_t at = 0;
    if (!onnx_axis(n, axis, onnx_shape(n, x)->rank, &at))
        return 0;
    const int64_t size = onnx_const_dim(n, x, at);
    const NodeId found = search(n, op, onnx_slice(n, x, at, -1, INT64_MIN, -1), at);
    return onnx_op2(n, OP_sub, onnx_scalar(n, DTYPE_i64, (double)(size - 1)), found);
}

void onnx_import_search(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    const int64_t axis = onnx_int(n, "axis", 0);
    const bool wants_last = onnx_flag(n, "select_last_index", 0);
    onnx_out(n, 0, (wants_last ? search_last : search)(n, n->row_op, x, axis));
}

void onnx_import_running(OnnxNode *n)
{
    const OpId op = n->row_op;
    const NodeId x = onnx_src(n, 0);
    OnnxInts axis;
    onnx_src_ints(n, 1, &axis);
    if (!n->failed && axis.n != 1)
        onnx_fail(n, E0203, "input 1 must be one axis, found %u", axis.n);
    const bool exclusive = onnx_flag(n, "exclusive", 0), reverse = onnx_flag(n, "reverse", 0);
    if (n->failed)
        return;
    NodeBuild b = ONNX_BEGIN(n, op, x);
    node_int(&b, attr_find(op, "axis"), axis.v[0]);
    node_int(&b, attr_find(op, "exclusive"), exclusive);
    node_int(&b, attr_find(op, "reverse"), reverse);
    onnx_out(n, 0, onnx_end(n, &b));
}
