// SPDX-License-Identifier: Apache-2.0
// Matrix products and what transformers build on them.
#include "compiler/import/onnx_quant.h"

#include <math.h>

void onnx_import_matmul(OnnxNode *n)
{
    const NodeId a = onnx_src(n, 0), b = onnx_src(n, 1);
    NodeId packed = quant_product(n, a, b);
    packed = packed ? packed : qdq_matmul(n, a, b, false);
    onnx_out(n, 0, packed ? packed : onnx_matmul(n, a, b, false, false));
}

static NodeId times(OnnxNode *n, NodeId x, double factor)
{
    return factor >= 1 && factor <= 1 ? x : onnx_op2(n, OP_mul, x, onnx_scalar(n, onnx_dtype(n, x), factor));
}

void onnx_import_gemm(OnnxNode *n)
{
    const NodeId a = onnx_src(n, 0), b = onnx_src(n, 1), c = onnx_opt(n, 2);
    const bool transpose_a = onnx_int(n, "transA", 0) != 0, transpose_b = onnx_int(n, "transB", 0) != 0;
    const double alpha = onnx_float(n, "alpha", 1.0), beta = onnx_float(n, "beta", 1.0);
    onnx_ignore_attr(n, "broadcast"); // before opset 7; since then c always broadcasts
    const NodeId whole = transpose_a ? 0 : qdq_matmul(n, a, b, transpose_b);
    const NodeId product = times(n, whole ? whole : onnx_matmul(n, a, b, transpose_a, transpose_b), alpha);
    const bool adds = c && fabs(beta) > 0;
    onnx_out(n, 0, adds ? onnx_op2(n, OP_add, product, times(n, c, beta)) : product);
}

// --- rotary embedding ---

// Angles for every position of the batch, [B, S, D/2], with an axis for the heads.
static NodeId angles(OnnxNode *n, NodeId cache, NodeId positions, int64_t head_axis)
{
    if (positions)
        cache = onnx_gather(n, cache, positions, 0);
    return onnx_unsqueeze(n, cache, &head_axis, 1);
}

static NodeId rope(OnnxNode *n, NodeId x, NodeId cosine, NodeId sine, bool interleaved)
{
    if (n->failed)
        return 0;
    NodeBuild b = onnx_begin(n, OP_rope);
    node_src(&b, x);
    node_src(&b, cosine);
    node_src(&b, sine);
    node_int(&b, A_rope_interleaved, interleaved);
    return onnx_end(n, &b);
}

// [B, H, S, D], or [B, S, H * D] with the number of heads as attribute. Only the first `rotary` elements of a
// head turn.
void onnx_import_rotary(OnnxNode *n)
{
    NodeId x = onnx_src(n, 0);
    const NodeId cosine = onnx_src(n, 1), sine = onnx_src(n, 2), positions = onnx_opt(n, 3);
    const int64_t heads = onnx_int(n, "num_heads", 0), rotary = onnx_int(n, "rotary_embedding_dim", 0);
    const bool interleaved = onnx_int(n, "interleaved", 0) != 0;
    const Shape shape = *onnx_shape(n, x);
    if (!n->failed && shape.rank != 4 && (shape.rank != 3 || heads < 1))
        onnx_fail(n, E0204,
                  "needs an input [B, heads, S, D], or [B, S, heads * D] and the attribute 'num_heads'");
    if (shape.rank == 3)
        x = onnx_reshape_to(n, x, (const Dim[]){shape.dim[0], shape.dim[1], heads, -1}, 4);
    const int64_t head_axis = shape.rank == 3 ? 2 : 1;
    const NodeId c = angles(n, cosine, positions, head_axis), s = angles(n, sine, positions, head_axis);
    NodeId y = 0;
    if (rotary > 0) {
        const NodeId turned = rope(n, onnx_slice(n, x, 3, 0, rotary, 1), c, s, interleaved);
        y = onnx_concat(n, (const NodeId[]){turned, onnx_slice(n, x, 3, rotary, INT64_MAX, 1)}, 2, 3);
    } else {
        y = rope(n, x, c, s, interleaved);
    }
    onnx_out(n, 0, onnx_reshape(n, y, &shape));
}

// --- determinant ---

void onnx_import_det(OnnxNode *n)
{
    onnx_out(n, 0, onnx_op1(n, OP_det, onnx_src(n, 0)));
}
