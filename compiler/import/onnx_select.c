// SPDX-License-Identifier: Apache-2.0
// Operators that choose elements by their values: TopK.
#include "compiler/import/onnx_import.h"

// How many: an attribute in opset 1, then an operand.
static bool read_k(OnnxNode *n, Dim *out)
{
    OnnxDims k;
    if (n->opset < 10) {
        *out = onnx_int(n, "k", -1);
    } else {
        if (!onnx_src_dims(n, 1, &k))
            return false;
        *out = k.n == 1 ? k.dim[0] : -1;
    }
    return !n->failed &&
           ((dim_is_const(*out) && *out < 0) ? onnx_fail(n, E0203, "needs one k, not negative") : true);
}

void onnx_import_top_k(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    const int64_t given = onnx_int(n, "axis", -1), largest = onnx_int(n, "largest", 1);
    uint32_t axis = 0;
    Dim k = 0;
    onnx_ignore_attr(n, "sorted"); // they are
    if (!onnx_axis(n, given, onnx_shape(n, x)->rank, &axis) || !read_k(n, &k))
        return;
    NodeBuild b = onnx_begin(n, OP_top_k);
    node_src(&b, x);
    node_ints(&b, A_top_k_k, &k, 1);
    node_int(&b, A_top_k_axis, axis);
    node_int(&b, A_top_k_largest, largest != 0);
    const NodeId values = onnx_end(n, &b);
    onnx_out(n, 0, values);
    onnx_out(n, 1, onnx_result(n, values, 1));
}
