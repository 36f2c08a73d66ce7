// SPDX-License-Identifier: Apache-2.0
// Fused operators of ONNX Runtime's own domain, com.microsoft, which its optimiser leaves in transformers.
// Here they are taken apart again into operators that our passes know.
#include "compiler/import/onnx_import.h"

static NodeId add_optional(OnnxNode *n, NodeId x, NodeId y)
{
    return y ? onnx_op2(n, OP_add, x, y) : x;
}

// --- activations ---

static void import_activation(OnnxNode *n, OpId op)
{
    const NodeId x = onnx_src(n, 0);
    onnx_out(n, 0, onnx_op1(n, op, add_optional(n, x, onnx_opt(n, 1))));
}

void onnx_import_ms_gelu(OnnxNode *n)
{
    import_activation(n, OP_gelu);
}

void onnx_import_ms_fast_gelu(OnnxNode *n)
{
    import_activation(n, OP_gelu_tanh);
}

void onnx_import_ms_quick_gelu(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    const NodeId alpha = onnx_scalar(n, onnx_dtype(n, x), onnx_float(n, "alpha", (double)1.702f));
    onnx_out(n, 0, onnx_op2(n, OP_mul, x, onnx_op1(n, OP_sigmoid, onnx_op2(n, OP_mul, x, alpha))));
}

// --- norms ---

static NodeId build_norm(OnnxNode *n, OpId op, NodeId x, NodeId scale, NodeId shift)
{
    const double epsilon = onnx_float(n, "epsilon", 1e-12);
    if (n->failed)
        return 0;
    NodeBuild b = onnx_begin(n, op);
    node_src(&b, x);
    node_src(&b, scale);
    if (op == OP_layer_norm)
        node_src(&b, shift);
    node_float(&b, attr_find(op, "epsilon"), epsilon);
    return onnx_end(n, &b);
}

// Operands x, skip, scale, shift, bias; result 3 is the sum that is normalised.
void onnx_import_ms_skip_layer_norm(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), skip = onnx_src(n, 1), scale = onnx_src(n, 2);
    const NodeId shift = onnx_opt(n, 3), bias = onnx_opt(n, 4);
    const NodeId sum = onnx_op2(n, OP_add, add_optional(n, x, bias), skip);
    onnx_out(n, 0, build_norm(n, OP_layer_norm, sum, scale, shift));
    onnx_out(n, 3, sum);
}

void onnx_import_ms_skip_rms_norm(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), skip = onnx_src(n, 1), scale = onnx_src(n, 2), bias = onnx_opt(n, 3);
    const NodeId sum = onnx_op2(n, OP_add, add_optional(n, x, bias), skip);
    onnx_out(n, 0, build_norm(n, OP_rms_norm, sum, scale, 0));
    onnx_out(n, 3, sum);
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
    onnx_out(n, 0, build_norm(n, OP_layer_norm, sum, scale, shift));
    // Exporters name result 1 even where nothing reads it; with zeros the model is complete.
    if (onnx_wants(n, 1) && !onnx_has(n, 7))
        onnx_out(n, 1, onnx_expand(n, onnx_scalar(n, DTYPE_i32, 0), s.dim, 1));
    onnx_out(n, 2, sum);
}

// --- attention ---

// Part i of q, k, v from [B, S, 3 * heads * D], as [B, heads, S, D].
static NodeId head_part(OnnxNode *n, NodeId qkv, int64_t i, int64_t hidden, int64_t heads)
{
    const Shape s = *onnx_shape(n, qkv);
    const NodeId part = onnx_slice(n, qkv, 2, i * hidden, (i + 1) * hidden, 1);
    const NodeId split =
        onnx_reshape_to(n, part, (const Dim[]){s.dim[0], s.dim[1], heads, hidden / heads}, 4);
    return onnx_transpose(n, split, (const int64_t[]){0, 2, 1, 3});
}

// Keys or values with those of earlier runs in front; `past` is [2, B, heads, P, D].
static NodeId join_past(OnnxNode *n, NodeId past, int64_t i, NodeId x)
{
    if (!past)
        return x;
    const NodeId before = onnx_squeeze(n, onnx_slice(n, past, 0, i, i + 1, 1), (const int64_t[]){0}, 1);
    return onnx_concat(n, (const NodeId[]){before, x}, 2, 2);
}

// A mask [B, keys] of 0 and 1 for [B, heads, S, keys].
static NodeId key_mask(OnnxNode *n, NodeId mask)
{
    if (!mask)
        return 0;
    if (onnx_shape(n, mask)->rank != 2) {
        onnx_fail(n, E0206, "a mask of rank %u is not supported, only [batch, keys]",
                  onnx_shape(n, mask)->rank);
        return 0;
    }
    return onnx_unsqueeze(n, onnx_cast(n, mask, DTYPE_bool), (const int64_t[]){1, 2}, 2);
}

static void check_attention(OnnxNode *n)
{
    OnnxInts sizes;
    onnx_ignore_attr(n, "mask_filter_value"); // any value that large hides a key
    if (onnx_ints(n, "qkv_hidden_sizes", &sizes) && sizes.n)
        onnx_fail(n, E0206, "attribute 'qkv_hidden_sizes' is not supported");
    if (onnx_int(n, "do_rotary", 0) != 0 || onnx_int(n, "past_present_share_buffer", 0) != 0)
        onnx_fail(n, E0206, "rotary embedding and shared buffers are not supported");
}

void onnx_import_ms_attention(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), weight = onnx_src(n, 1), bias = onnx_opt(n, 2), past = onnx_opt(n, 4);
    const NodeId mask = key_mask(n, onnx_opt(n, 3));
    const int64_t heads = onnx_int(n, "num_heads", 0);
    const bool causal = onnx_int(n, "unidirectional", 0) != 0;
    const double scale = onnx_float(n, "scale", 0);
    check_attention(n);
    const int64_t width = onnx_const_dim(n, weight, 1), hidden = width / 3;
    if (!n->failed && (onnx_shape(n, x)->rank != 3 || heads < 1 || hidden < 1 || width % (3 * heads) != 0))
        onnx_fail(n, E0204, "needs an input [B, S, hidden] and weights [hidden, 3 * heads * D]");
    const NodeId qkv = add_optional(n, onnx_matmul(n, x, weight, false, false), bias);
    const NodeId q = head_part(n, qkv, 0, hidden, n->failed ? 1 : heads);
    const NodeId k = join_past(n, past, 0, head_part(n, qkv, 1, hidden, n->failed ? 1 : heads));
    const NodeId v = join_past(n, past, 1, head_part(n, qkv, 2, hidden, n->failed ? 1 : heads));
    if (n->failed)
        return;
    NodeBuild b = onnx_begin(n, OP_attention);
    node_src(&b, q);
    node_src(&b, k);
    node_src(&b, v);
    node_src(&b, mask);
    node_float(&b, A_attention_scale, scale);
    node_int(&b, A_attention_causal, causal);
    const NodeId y = onnx_transpose(n, onnx_end(n, &b), (const int64_t[]){0, 2, 1, 3});
    const Shape s = *onnx_shape(n, x);
    onnx_out(n, 0, onnx_reshape_to(n, y, (const Dim[]){s.dim[0], s.dim[1], hidden}, 3));
    if (!onnx_wants(n, 1))
        return;
    const NodeId both[] = {onnx_unsqueeze(n, k, (const int64_t[]){0}, 1),
                           onnx_unsqueeze(n, v, (const int64_t[]){0}, 1)};
    onnx_out(n, 1, onnx_concat(n, both, 2, 0));
}
