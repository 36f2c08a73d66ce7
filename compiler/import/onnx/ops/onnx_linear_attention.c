// SPDX-License-Identifier: Apache-2.0
// Layers that carry a state from step to step: LinearAttention, whose recurrence is a loop over the
// sequence, and the causal convolution with its last inputs.
#include "compiler/import/onnx/onnx_loop.h"

#include <math.h>

// --- CausalConvWithState ---

void onnx_import_causal_conv(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), weight = onnx_src(n, 1), bias = onnx_opt(n, 2), past = onnx_opt(n, 3);
    const bool is_silu = ONNX_WORD(n, "activation", "none", "silu", "swish") != 0;
    if (!n->failed && (onnx_shape(n, x)->rank != 3 || onnx_shape(n, weight)->rank != 3))
        onnx_fail(n, E0204, "needs an input [N, C, length] and a weight [C, 1, kernel]");
    const int64_t channels = onnx_const_dim(n, x, 1), kernel = onnx_const_dim(n, weight, 2);
    if (!n->failed && (kernel < 1 || kernel > INT32_MAX))
        onnx_fail(n, E0204, "the kernel has %lld elements, which is not possible", (long long)kernel);
    if (n->failed)
        return;
    const Dim before[3] = {onnx_shape(n, x)->dim[0], channels, kernel - 1};
    const NodeId state = past ? past : onnx_expand(n, onnx_scalar(n, onnx_dtype(n, x), 0), before, 3);
    const NodeId all = kernel > 1 ? onnx_concat(n, (const NodeId[]){state, x}, 2, 2) : x;
    NodeBuild b = ONNX_BEGIN(n, OP_conv, all, weight, bias);
    node_int(&b, A_conv_group, channels);
    const NodeId y = onnx_end(n, &b);
    onnx_out(n, 0, is_silu ? onnx_op1(n, OP_silu, y) : y);
    if (onnx_wants(n, 1))
        onnx_out(n, 1, kernel > 1 ? onnx_slice(n, all, 2, 1 - kernel, INT64_MAX, 1) : state);
}

// --- LinearAttention ---

// All heads are matrices: [B, heads, ...].
typedef struct Linear {
    NodeId part[5]; // by Part: [B, heads, T, D]; decay and beta may be 0
    NodeId state;   // [B, Hkv, Dk, Dv]
    int64_t q_heads, kv_heads;
    double scale;
} Linear;

enum { MAX_UNROLLED = 8 };

// [B, T, heads * D] to [B, heads, T, D], in f32 or wider.
static NodeId split(OnnxNode *n, NodeId x, int64_t heads)
{
    const Shape s = *onnx_shape(n, x);
    if (!n->failed && s.rank != 3)
        onnx_fail(n, E0204, "needs inputs [B, T, heads * D]");
    if (n->failed)
        return 0;
    const NodeId wide = onnx_cast(n, x, onnx_dtype(n, x) == DTYPE_f64 ? DTYPE_f64 : DTYPE_f32);
    const NodeId parts = onnx_reshape_to(n, wide, (const Dim[]){s.dim[0], s.dim[1], heads, -1}, 4);
    return onnx_transpose(n, parts, (const int64_t[]){0, 2, 1, 3});
}

// What one step reads, each [B, heads, 1, D].
typedef enum Part { PART_Q, PART_K, PART_V, PART_DECAY, PART_BETA, N_PARTS } Part;

// One step: the state forgets, takes in the outer product of key and value (or of what the value adds to what
// the state says already), and is read by the query.
static NodeId run_step(OnnxNode *n, const Linear *a, const NodeId *part, NodeId *state)
{
    const int64_t turn[] = {0, 1, 3, 2};
    NodeId v = part[PART_V], s = *state;
    if (part[PART_DECAY])
        s = onnx_op2(n, OP_mul, s, onnx_transpose(n, onnx_op1(n, OP_exp, part[PART_DECAY]), turn));
    if (part[PART_BETA]) {
        const NodeId known = onnx_matmul(n, part[PART_K], s, false, false);
        v = onnx_op2(n, OP_mul, onnx_op2(n, OP_sub, v, known), part[PART_BETA]);
    }
    s = onnx_op2(n, OP_add, s, onnx_op2(n, OP_mul, onnx_transpose(n, part[PART_K], turn), v));
    *state = s;
    const Shape q = *onnx_shape(n, part[PART_Q]);
    const NodeId grouped =
        onnx_reshape_to(n, part[PART_Q], (const Dim[]){q.dim[0], a->kv_heads, -1, q.dim[3]}, 4);
    const NodeId read = onnx_op_number(n, OP_mul, onnx_matmul(n, grouped, s, false, false), a->scale);
    return onnx_reshape_to(n, read, (const Dim[]){q.dim[0], a->q_heads, 1, -1}, 4);
}

// Few steps one after the other: [B, Hq, T, Dv].
static NodeId unroll(OnnxNode *n, Linear *a, int64_t steps)
{
    rlx_assert(steps >= 1 && steps <= MAX_UNROLLED);
    NodeId y[MAX_UNROLLED] = {0};
    for (int64_t i = 0; i < steps && !n->failed; i++) {
        NodeId part[N_PARTS] = {0};
        for (uint32_t p = 0; p < N_PARTS; p++)
            part[p] = a->part[p] ? onnx_slice(n, a->part[p], 2, i, i + 1, 1) : 0;
        y[i] = run_step(n, a, part, &a->state);
    }
    return steps > 1 ? onnx_concat(n, y, (uint32_t)steps, 2) : y[0];
}

// The body of the loop: in has the state, then the parts that there are.
static void make_step(OnnxNode *n, const OnnxBody *b, NodeId i, const NodeId *in, NodeId *out)
{
    rlx_assert(b->n_carried == 1 && b->n_scan == 1);
    const Linear *a = b->ctx;
    NodeId part[N_PARTS] = {0};
    uint32_t at = 1;
    (void)i;
    for (uint32_t p = 0; p < N_PARTS; p++)
        if (a->part[p])
            part[p] = onnx_unsqueeze(n, in[at++], (const int64_t[]){2}, 1);
    out[0] = in[0];
    out[1] = run_step(n, a, part, &out[0]);
}

static NodeId loop(OnnxNode *n, Linear *a, Dim steps)
{
    OnnxRow rows[N_PARTS];
    NodeId out[2] = {0};
    OnnxBody body = {.n_carried = 1,
                     .n_scan = 1,
                     .carried = &a->state,
                     .rows = rows,
                     .trips = steps,
                     .make = make_step,
                     .ctx = a};
    for (uint32_t p = 0; p < N_PARTS; p++)
        if (a->part[p])
            rows[body.n_rows++] = (OnnxRow){.x = a->part[p], .axis = 2};
    onnx_loop_of(n, &body, out);
    a->state = out[0];
    if (n->failed)
        return 0;
    // [T, B, Hq, 1, Dv]
    const Shape y = *onnx_shape(n, out[1]);
    rlx_assert(y.rank == 5);
    const Dim flat[] = {y.dim[0], y.dim[1], y.dim[2], y.dim[4]};
    return onnx_transpose(n, onnx_reshape_to(n, out[1], flat, 4), (const int64_t[]){1, 2, 0, 3});
}

static void check_rule(OnnxNode *n, const char *rule, bool has_decay, bool has_beta)
{
    const bool is_gated = str_equal(rule, "gated") || str_equal(rule, "gated_delta");
    const bool is_delta = str_equal(rule, "delta") || str_equal(rule, "gated_delta");
    if (!is_gated && !is_delta && !str_equal(rule, "linear"))
        onnx_fail(n, E0203, "attribute 'update_rule' is '%s', expected linear, gated, delta or gated_delta",
                  rule);
    if (is_gated != has_decay)
        onnx_fail(n, E0202, "the update rule '%s' %s input 4 ('decay')", rule, is_gated ? "needs" : "has no");
    if (is_delta != has_beta)
        onnx_fail(n, E0202, "the update rule '%s' %s input 5 ('beta')", rule, is_delta ? "needs" : "has no");
}

static bool read_linear(OnnxNode *n, Linear *a)
{
    const NodeId q = onnx_src(n, 0), k = onnx_src(n, 1), v = onnx_src(n, 2), past = onnx_opt(n, 3);
    const NodeId decay = onnx_opt(n, 4), beta = onnx_opt(n, 5);
    a->q_heads = onnx_int(n, "q_num_heads", 0);
    a->kv_heads = onnx_int(n, "kv_num_heads", 0);
    a->scale = onnx_float(n, "scale", 0);
    check_rule(n, onnx_str(n, "update_rule", "gated_delta"), decay != 0, beta != 0);
    onnx_ignore_attr(n, "chunk_size"); // a hint
    if (!n->failed &&
        (a->q_heads < 1 || a->kv_heads < 1 || a->q_heads > INT32_MAX || a->q_heads % a->kv_heads != 0))
        onnx_fail(n, E0203, "'q_num_heads' must be a multiple of 'kv_num_heads'");
    a->part[PART_Q] = split(n, q, a->q_heads);
    a->part[PART_K] = split(n, k, a->kv_heads);
    a->part[PART_V] = split(n, v, a->kv_heads);
    const bool is_shared = beta && onnx_shape(n, beta)->rank == 3 && onnx_shape(n, beta)->dim[2] == 1;
    a->part[PART_DECAY] = decay ? split(n, decay, a->kv_heads) : 0;
    a->part[PART_BETA] = beta ? split(n, beta, is_shared ? 1 : a->kv_heads) : 0;
    const int64_t size = onnx_const_dim(n, a->part[PART_Q], 3);
    if (n->failed)
        return false;
    if (a->scale == 0)
        a->scale = 1 / sqrt((double)size);
    const DType type = onnx_dtype(n, a->part[PART_Q]);
    const Dim shape[4] = {onnx_shape(n, q)->dim[0], a->kv_heads, size,
                          onnx_shape(n, a->part[PART_V])->dim[3]};
    a->state = past ? onnx_cast(n, past, type) : onnx_expand(n, onnx_scalar(n, type, 0), shape, 4);
    return !n->failed;
}

void onnx_import_linear_attention(OnnxNode *n)
{
    Linear a = {.scale = 0};
    if (!read_linear(n, &a))
        return;
    const Shape s = *onnx_shape(n, onnx_src(n, 0));
    const DType type = onnx_dtype(n, onnx_src(n, 0));
    const DType state_type = onnx_has(n, 3) ? onnx_dtype(n, onnx_src(n, 3)) : type;
    const bool is_short = dim_is_const(s.dim[1]) && s.dim[1] >= 1 && s.dim[1] <= MAX_UNROLLED;
    NodeId y = is_short ? unroll(n, &a, s.dim[1]) : loop(n, &a, s.dim[1]);
    y = onnx_transpose(n, y, (const int64_t[]){0, 2, 1, 3});
    onnx_out(n, 0, onnx_cast(n, onnx_reshape_to(n, y, (const Dim[]){s.dim[0], s.dim[1], -1}, 3), type));
    if (onnx_wants(n, 1))
        onnx_out(n, 1, onnx_cast(n, a.state, state_type));
}
