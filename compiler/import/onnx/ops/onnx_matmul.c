// SPDX-License-Identifier: Apache-2.0
// Matrix products and what transformers build on them.
#include "compiler/import/onnx/onnx_quant.h"

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

NodeId onnx_rope(OnnxNode *n, const OnnxRope *r)
{
    NodeBuild b = ONNX_BEGIN(n, OP_rope, r->x, r->cosine, r->sine, r->positions);
    node_int(&b, A_rope_interleaved, r->is_interleaved);
    node_int(&b, A_rope_dims, r->turned);
    return onnx_end(n, &b);
}

static bool is_const(const OnnxNode *n, NodeId id)
{
    return id != 0 && !n->failed && graph_node(n->graph, id)->op == OP_const;
}

// Rows of the tables by position, with an axis for the heads: of positions that are constant the rows are
// constants as well, and the rest of the tables is not kept.
static void place(OnnxNode *n, OnnxRope *r, NodeId positions, int64_t head_axis)
{
    if (positions && !is_const(n, positions) && onnx_shape(n, r->cosine)->rank == 2) {
        r->positions = onnx_unsqueeze(n, positions, &head_axis, 1);
        return;
    }
    NodeId *const table[] = {&r->cosine, &r->sine};
    for (uint32_t i = 0; i < 2; i++) {
        *table[i] = positions ? onnx_gather(n, *table[i], positions, 0) : *table[i];
        *table[i] = onnx_unsqueeze(n, *table[i], &head_axis, 1);
    }
}

// [B, H, S, D], or [B, S, H * D] with the number of heads as attribute. Only the first `rotary` elements of a
// head turn.
void onnx_import_rotary(OnnxNode *n)
{
    OnnxRope r = {.x = onnx_src(n, 0), .cosine = onnx_src(n, 1), .sine = onnx_src(n, 2)};
    const NodeId positions = onnx_opt(n, 3);
    const int64_t heads = onnx_int(n, "num_heads", 0);
    const Shape shape = *onnx_shape(n, r.x);
    r.turned = onnx_int(n, "rotary_embedding_dim", 0);
    r.is_interleaved = onnx_flag(n, "interleaved", 0);
    if (!n->failed && shape.rank != 4 && (shape.rank != 3 || heads < 1))
        onnx_fail(n, E0204,
                  "needs an input [B, heads, S, D], or [B, S, heads * D] and the attribute 'num_heads'");
    if (shape.rank == 3)
        r.x = onnx_reshape_to(n, r.x, (const Dim[]){shape.dim[0], shape.dim[1], heads, -1}, 4);
    place(n, &r, positions, shape.rank == 3 ? 2 : 1);
    onnx_out(n, 0, onnx_reshape(n, onnx_rope(n, &r), &shape));
}

// --- determinant ---
