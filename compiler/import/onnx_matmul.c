// SPDX-License-Identifier: Apache-2.0
// Matrix products and what transformers build on them.
#include "compiler/import/onnx_import.h"

#include <math.h>

void onnx_import_matmul(OnnxNode *n)
{
    const NodeId a = onnx_src(n, 0), b = onnx_src(n, 1);
    onnx_out(n, 0, onnx_matmul(n, a, b, false, false));
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
    const NodeId product = times(n, onnx_matmul(n, a, b, transpose_a, transpose_b), alpha);
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

// --- attention ---

// [B, S, heads * D] to [B, heads, S, D]; rank 4 is in that order already.
static NodeId split_heads(OnnxNode *n, NodeId x, int64_t heads, const char *attr)
{
    const Shape s = *onnx_shape(n, x);
    if (n->failed || s.rank == 4)
        return x;
    if (s.rank != 3 || heads < 1) {
        onnx_fail(n, E0204, "needs inputs [B, heads, S, D], or [B, S, heads * D] and the attribute '%s'",
                  attr);
        return 0;
    }
    const NodeId split = onnx_reshape_to(n, x, (const Dim[]){s.dim[0], s.dim[1], heads, -1}, 4);
    return onnx_transpose(n, split, (const int64_t[]){0, 2, 1, 3});
}

static NodeId with_past(OnnxNode *n, uint32_t past, uint32_t present, NodeId x)
{
    const NodeId before = onnx_opt(n, past);
    const NodeId all = before ? onnx_concat(n, (const NodeId[]){before, x}, 2, 2) : x;
    if (onnx_wants(n, present))
        onnx_out(n, present, all);
    return all;
}

// Query i sees keys up to i + past, as a mask [queries, keys]. Ours counts from the last key instead, which
// is the same only where queries and new keys are equally many.
static NodeId causal_mask(OnnxNode *n, NodeId q, NodeId k_new, NodeId k)
{
    const Dim queries = onnx_shape(n, q)->dim[2], keys = onnx_shape(n, k)->dim[2];
    const Dim past = dim_sub(n->graph->dims, keys, onnx_shape(n, k_new)->dim[2]);
    if (!n->failed && !dim_is_const(past))
        onnx_fail(n, E0207,
                  "a causal mask over another number of keys than queries needs the number of past keys");
    const NodeId row = onnx_unsqueeze(n, onnx_iota(n, queries), (const int64_t[]){1}, 1);
    const NodeId last = onnx_op2(n, OP_add, row, onnx_scalar(n, DTYPE_i64, (double)past));
    return onnx_op2(n, OP_le, onnx_iota(n, keys), last);
}

static NodeId join_masks(OnnxNode *n, NodeId a, NodeId b)
{
    if (!a || !b || onnx_dtype(n, a) == DTYPE_bool)
        return a && b ? onnx_op2(n, OP_logical_and, a, b) : a ? a : b;
    const NodeId never = onnx_scalar(n, onnx_dtype(n, a), -(double)INFINITY);
    return onnx_op3(n, OP_where, b, a, never);
}

// Keys behind the end of the mask are not seen.
static NodeId pad_mask(OnnxNode *n, NodeId mask, NodeId k)
{
    const Shape s = *onnx_shape(n, mask);
    const Dim keys = onnx_shape(n, k)->dim[2], given = s.rank ? s.dim[s.rank - 1] : 1;
    int64_t pads[2 * SHAPE_MAX_RANK] = {0};
    if (n->failed || !mask || given == 1 || !dim_is_const(keys) || !dim_is_const(given) || given >= keys)
        return mask;
    const bool is_bool = onnx_dtype(n, mask) == DTYPE_bool;
    const NodeId never = onnx_scalar(n, onnx_dtype(n, mask), is_bool ? 0 : -(double)INFINITY);
    pads[2 * s.rank - 1] = keys - given;
    NodeBuild b = onnx_begin(n, OP_pad);
    node_src(&b, mask);
    node_src(&b, never);
    node_ints(&b, A_pad_pads, pads, 2 * s.rank);
    return onnx_end(n, &b);
}

static void check_attention(OnnxNode *n)
{
    if (onnx_float(n, "softcap", 0) > 0)
        onnx_fail(n, E0206, "attribute 'softcap' is not supported");
    if (onnx_int(n, "left_window_size", -1) >= 0 || onnx_int(n, "right_window_size", -1) >= 0)
        onnx_fail(n, E0206, "window sizes are not supported");
    onnx_ignore_attr(n, "qk_matmul_output_mode"); // concerns result 3, which is not supported
    onnx_ignore_attr(n, "softmax_precision");     // ours is as exact as f32 or better
}

void onnx_import_attention(OnnxNode *n)
{
    const int64_t q_heads = onnx_int(n, "q_num_heads", 0), kv_heads = onnx_int(n, "kv_num_heads", 0);
    const NodeId q_given = onnx_src(n, 0), q = split_heads(n, q_given, q_heads, "q_num_heads");
    const NodeId k_new = split_heads(n, onnx_src(n, 1), kv_heads, "kv_num_heads");
    const NodeId v_new = split_heads(n, onnx_src(n, 2), kv_heads, "kv_num_heads");
    NodeId mask = onnx_opt(n, 3);
    const NodeId k = with_past(n, 4, 1, k_new), v = with_past(n, 5, 2, v_new);
    const bool causal = onnx_int(n, "is_causal", 0) != 0;
    const double scale = onnx_float(n, "scale", 0);
    check_attention(n);
    mask = pad_mask(n, mask, k);
    if (n->failed)
        return;
    const bool is_aligned = onnx_shape(n, q)->dim[2] == onnx_shape(n, k_new)->dim[2];
    if (causal && !is_aligned)
        mask = join_masks(n, mask, causal_mask(n, q, k_new, k));
    if (n->failed)
        return;
    NodeBuild b = onnx_begin(n, OP_attention);
    node_src(&b, q);
    node_src(&b, k);
    node_src(&b, v);
    node_src(&b, mask);
    node_float(&b, A_attention_scale, scale);
    node_int(&b, A_attention_causal, causal && is_aligned);
    NodeId y = onnx_end(n, &b);
    if (onnx_shape(n, q_given)->rank == 3) {
        const Shape s = *onnx_shape(n, q_given);
        y = onnx_reshape_to(n, onnx_transpose(n, y, (const int64_t[]){0, 2, 1, 3}),
                            (const Dim[]){s.dim[0], s.dim[1], -1}, 3);
    }
    onnx_out(n, 0, y);
}

void onnx_import_det(OnnxNode *n)
{
    onnx_out(n, 0, onnx_op1(n, OP_det, onnx_src(n, 0)));
}
