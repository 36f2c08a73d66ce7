// SPDX-License-Identifier: Apache-2.0
// DFT and STFT, by the transforms of compiler/import/dft.h.
#include "compiler/import/dft.h"
#include "compiler/import/onnx/onnx_import.h"

static bool spend(void *node, uint64_t elements)
{
    return onnx_spend(node, (int64_t)elements);
}

static void refuse(void *node, const char *reason)
{
    onnx_fail(node, E0206, "%s", reason);
}

static NodeId along(OnnxNode *n, NodeId x, uint32_t axis, int64_t points, DftKind kind)
{
    if (n->failed)
        return 0;
    const DftReader reader = {.graph = n->graph, .span = n->span, .label = n->label, .node = n,
                              .spend = spend, .refuse = refuse};
    const NodeId y = dft_along(&reader, x, axis, points, kind);
    n->failed = y == 0;
    return y;
}

// One number that shapes the result, or dflt where it is absent.
static int64_t read_number(OnnxNode *n, uint32_t operand, int64_t dflt)
{
    OnnxInts v;
    if (!onnx_has(n, operand) || !onnx_src_ints(n, operand, &v))
        return dflt;
    if (v.n == 1)
        return v.v[0];
    onnx_fail(n, E0203, "input %u must be one number, found %u", operand, v.n);
    return dflt;
}

void onnx_import_dft(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    const int64_t points = read_number(n, 1, 0);
    const int64_t given = n->opset < 20 ? onnx_int(n, "axis", 1) : read_number(n, 2, -2);
    const DftKind kind = {onnx_flag(n, "inverse", 0), onnx_flag(n, "onesided", 0)};
    const uint32_t rank = onnx_shape(n, x)->rank;
    uint32_t axis = 0;
    if (onnx_has(n, 1) && points < 1)
        onnx_fail(n, E0203, "input 1 (dft_length) is %lld, expected at least 1", (long long)points);
    if (!onnx_axis(n, given, rank, &axis))
        return;
    if (axis + 1 == rank)
        onnx_fail(n, E0203, "the last axis has the parts of the numbers; it cannot be transformed");
    onnx_out(n, 0, along(n, x, axis, points, kind));
}

// Where the frames of a signal of `length` samples lie: [frames, points].
static NodeId frame_indices(OnnxNode *n, Dim length, int64_t points, int64_t step)
{
    rlx_assert(step >= 1 && points >= 1);
    DimTable *t = n->graph->dims;
    const Dim frames = dim_add(t, dim_floor_div(t, dim_sub(t, length, points), step), 1);
    int64_t lo = 0, hi = 0;
    dim_range(t, frames, &lo, &hi);
    if (hi < 1) {
        onnx_fail(n, E0204, "the signal is shorter than a frame of %lld samples", (long long)points);
        return 0;
    }
    const NodeId number = onnx_unsqueeze(n, onnx_iota(n, frames), &(const int64_t){1}, 1);
    const NodeId begin = onnx_op2(n, OP_mul, number, onnx_scalar(n, DTYPE_i64, (double)step));
    return onnx_op2(n, OP_add, begin, onnx_iota(n, points));
}

void onnx_import_stft(OnnxNode *n)
{
    NodeId x = onnx_src(n, 0);
    const NodeId window = onnx_opt(n, 2);
    const DftKind kind = {false, onnx_flag(n, "onesided", 1)};
    const int64_t step = read_number(n, 1, 0);
    if (onnx_shape(n, x)->rank == 2)
        x = onnx_unsqueeze(n, x, &(const int64_t){2}, 1);
    if (!n->failed && onnx_shape(n, x)->rank != 3)
        onnx_fail(n, E0204, "input 0 must have 3 axes, found %u", onnx_shape(n, x)->rank);
    int64_t points = 0;
    if (onnx_has(n, 3))
        points = read_number(n, 3, 0);
    else
        points = window ? onnx_const_dim(n, window, 0) : onnx_const_dim(n, x, 1);
    if (!n->failed && (step < 1 || step > INT32_MAX || points < 1 || points > INT32_MAX))
        onnx_fail(n, E0203, "frames of %lld samples, one every %lld", (long long)points, (long long)step);
    if (n->failed)
        return;
    NodeId framed = onnx_gather(n, x, frame_indices(n, onnx_shape(n, x)->dim[1], points, step), 1);
    if (window) {
        const NodeId column = onnx_unsqueeze(n, window, &(const int64_t){1}, 1);
        framed = onnx_op2(n, OP_mul, framed, onnx_cast(n, column, onnx_dtype(n, x)));
    }
    onnx_out(n, 0, along(n, framed, 2, points, kind));
}
