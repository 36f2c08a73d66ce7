// SPDX-License-Identifier: Apache-2.0
// Fused operators of ONNX Runtime's own domain, com.microsoft, which its optimiser leaves in transformers.
// Here they are taken apart again into operators that our passes know. Its norms are in onnx_layer_norm.c.
#include "compiler/import/onnx/onnx_import.h"

// --- activations ---

void onnx_import_ms_activation(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    onnx_out(n, 0, onnx_op1(n, n->row_op, onnx_join(n, OP_add, x, onnx_opt(n, 1))));
}

void onnx_import_ms_quick_gelu(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    const NodeId alpha = onnx_scalar(n, onnx_dtype(n, x), onnx_float(n, "alpha", (double)1.702f));
    onnx_out(n, 0, onnx_op2(n, OP_mul, x, onnx_op1(n, OP_sigmoid, onnx_op2(n, OP_mul, x, alpha))));
}

// --- norms ---

static NodeId build_norm(OnnxNode *n, NodeId x, NodeId scale, NodeId shift)
{
    const double epsilon = onnx_float(n, "epsilon", 1e-12);
    NodeBuild b = ONNX_BEGIN(n, OP_layer_norm, x, scale, shift);
    node_float(&b, A_layer_norm_epsilon, epsilon);
    return onnx_end(n, &b);
}

// Without positions they are 0, 1, ...; result 1, lengths for a mask, is not made.
void onnx_import_ms_embed_layer_norm(OnnxNode *n)
{
    const NodeId ids = onnx_src(n, 0), segments = onnx_opt(n, 1), words = onnx_src(n, 2),
                 places = onnx_src(n, 3);
    const NodeId kinds = onnx_opt(n, 4), scale = onnx_src(n, 5), shift = onnx_src(n, 6);
    const NodeId positions = onnx_opt(n, 8);
    const Shape s = *onnx_shape(n, ids);
    onnx_ignore_attr(n, "mask_index_type");
    if (!n->failed && s.rank != 2)
        onnx_fail(n, E0204, "needs input ids [batch, sequence]");
    NodeId sum = onnx_gather(n, words, ids, 0);
    sum = onnx_op2(n, OP_add, sum, onnx_gather(n, places, positions ? positions : onnx_iota(n, s.dim[1]), 0));
    if (segments && kinds)
        sum = onnx_op2(n, OP_add, sum, onnx_gather(n, kinds, segments, 0));
    onnx_out(n, 0, build_norm(n, sum, scale, shift));
    // Exporters name result 1 even where nothing reads it; with zeros the model is complete.
    if (onnx_wants(n, 1) && !onnx_has(n, 7))
        onnx_out(n, 1, onnx_expand(n, onnx_scalar(n, DTYPE_i32, 0), s.dim, 1));
    onnx_out(n, 2, sum);
}
