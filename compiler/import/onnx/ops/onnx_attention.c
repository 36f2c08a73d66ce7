// SPDX-License-Identifier: Apache-2.0
// Attention of ONNX's default domain and FlexAttention: the core op, or, where the scores themselves are
// asked for, matrix products with the steps between them. What a query may see (causal order, windows, caches
// that are not full) the core op counts from one place for all batches; where they differ, it becomes a mask.
#include "compiler/import/onnx/onnx_import.h"

#include <math.h>

// One call. q, k, v are [B, heads, S, D], k and v with the past in front.
typedef struct Attention {
    NodeId q, k, v;
    NodeId mask;    // bool, or of q's type; 0: none
    NodeId allowed; // bool; 0: all
    Dim past;       // keys before the first query
    NodeId length;  // i64 [B]: keys that count; 0: all
    bool causal;
    int64_t left, right; // of the window; -1: without limit
    double scale, softcap;
    DType softmax_type;
} Attention;

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

NodeId onnx_with_past(OnnxNode *n, uint32_t past, uint32_t present, NodeId x)
{
    const NodeId before = onnx_opt(n, past);
    const NodeId all = before ? onnx_concat(n, (const NodeId[]){before, x}, 2, 2) : x;
    if (onnx_wants(n, present))
        onnx_out(n, present, all);
    return all;
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
    rlx_assert(s.rank >= 1);
    pads[2 * s.rank - 1] = keys - given;
    NodeBuild b = ONNX_BEGIN(n, OP_pad, mask, never);
    node_ints(&b, A_pad_pads, pads, 2 * s.rank);
    return onnx_end(n, &b);
}

// --- what a query sees ---

// The position of each query among the keys: [queries, 1], or [B, 1, queries, 1] where every batch has its
// own.
static NodeId query_positions(OnnxNode *n, const Attention *a)
{
    const Dim queries = onnx_shape(n, a->q)->dim[2];
    const NodeId row = onnx_unsqueeze(n, onnx_iota(n, queries), (const int64_t[]){1}, 1);
    if (!a->length) {
        if (!n->failed && !dim_is_const(a->past))
            onnx_fail(n, E0207,
                      "what a query sees depends on the number of past keys, which must be a number");
        return a->past == 0 ? row : onnx_op_number(n, OP_add, row, (double)a->past);
    }
    if (!n->failed && !dim_is_const(queries))
        onnx_fail(n, E0207, "what a query sees depends on the number of queries, which must be a number");
    const NodeId first = onnx_op_number(n, OP_sub, a->length, (double)queries);
    const NodeId of_batch = onnx_reshape_to(n, first, (const Dim[]){-1, 1, 1, 1}, 4);
    return onnx_op2(n, OP_add, of_batch, row);
}

// Keys that the order, the window and the length of the cache leave; 0: all.
static NodeId allowed_keys(OnnxNode *n, const Attention *a)
{
    const NodeId key = onnx_iota(n, onnx_shape(n, a->k)->dim[2]);
    NodeId allowed = 0;
    if (a->causal || a->left >= 0 || a->right >= 0) {
        const NodeId at = query_positions(n, a);
        if (a->causal)
            allowed = onnx_op2(n, OP_le, key, at);
        if (a->left >= 0)
            allowed = onnx_join(n, OP_logical_and, allowed,
                                onnx_op2(n, OP_ge, key, onnx_op_number(n, OP_sub, at, (double)a->left)));
        if (a->right >= 0)
            allowed = onnx_join(n, OP_logical_and, allowed,
                                onnx_op2(n, OP_le, key, onnx_op_number(n, OP_add, at, (double)a->right)));
    }
    if (!a->length)
        return allowed;
    const NodeId end = onnx_reshape_to(n, a->length, (const Dim[]){-1, 1, 1, 1}, 4);
    return onnx_join(n, OP_logical_and, allowed, onnx_op2(n, OP_lt, key, end));
}

// --- scores as values ---

static NodeId scores_of(OnnxNode *n, const Attention *a)
{
    const Dim size = onnx_shape(n, a->q)->dim[3];
    if (a->scale == 0 && !dim_is_const(size))
        onnx_fail(n, E0207, "the size of a head must be a number");
    // Half of the factor on either side, which 16-bit floats need.
    const double half = n->failed ? 1 : sqrt(a->scale == 0 ? 1 / sqrt((double)size) : fabs(a->scale));
    const NodeId q = onnx_op_number(n, OP_mul, a->q, a->scale < 0 ? -half : half),
                 k = onnx_op_number(n, OP_mul, a->k, half);
    return onnx_grouped_matmul(n, q, k, true);
}

static NodeId capped(OnnxNode *n, NodeId score, double cap)
{
    if (!(cap > 0))
        return score;
    return onnx_op_number(n, OP_mul, onnx_op1(n, OP_tanh, onnx_op_number(n, OP_div, score, cap)), cap);
}

// Hidden keys get -inf, whatever their score is.
static NodeId masked(OnnxNode *n, const Attention *a, NodeId score)
{
    const NodeId never = onnx_scalar(n, onnx_dtype(n, score), -(double)INFINITY);
    NodeId seen = a->allowed;
    if (a->mask && onnx_dtype(n, a->mask) == DTYPE_bool)
        seen = onnx_join(n, OP_logical_and, seen, a->mask);
    else if (a->mask) {
        const NodeId added = onnx_cast(n, a->mask, onnx_dtype(n, score));
        seen = onnx_join(n, OP_logical_and, seen, onnx_op2(n, OP_ne, added, never));
        score = onnx_op2(n, OP_add, score, added);
    }
    return seen ? onnx_op3(n, OP_where, seen, score, never) : score;
}

static NodeId softmax(OnnxNode *n, NodeId x)
{
    return onnx_steps_softmax(n, x, -1) ? onnx_softmax_steps(n, x, -1) : onnx_softmax(n, x, -1);
}

// Rows that see no key become 0.
static NodeId probabilities(OnnxNode *n, NodeId score, DType type)
{
    const NodeId x = onnx_cast(n, score, type);
    const int64_t last = 3;
    const NodeId top = onnx_reduce(n, OP_reduce_max, x, &last, 1);
    const NodeId is_blind = onnx_op2(n, OP_eq, top, onnx_scalar(n, type, -(double)INFINITY));
    if (n->failed)
        return 0;
    const NodeId weights = softmax(n, x);
    return onnx_op3(n, OP_where, is_blind, onnx_scalar(n, type, 0), weights);
}

static NodeId by_steps(OnnxNode *n, const Attention *a, int64_t output_mode)
{
    rlx_assert(output_mode >= 0 && output_mode <= 3);
    const DType type = onnx_dtype(n, a->q);
    NodeId shown[4];
    shown[0] = scores_of(n, a);
    shown[1] = capped(n, shown[0], a->softcap);
    shown[2] = masked(n, a, shown[1]);
    shown[3] = onnx_cast(n, probabilities(n, shown[2], a->softmax_type), type);
    if (onnx_wants(n, 3))
        onnx_out(n, 3, shown[output_mode]);
    return onnx_grouped_matmul(n, shown[3], a->v, false);
}

// a->allowed is 0 where the order, the window and the length are the op's own.
static NodeId by_core_op(OnnxNode *n, const Attention *a)
{
    const bool is_own = a->allowed == 0;
    NodeId mask = a->mask;
    if (a->allowed && mask && onnx_dtype(n, mask) != DTYPE_bool) {
        const NodeId never = onnx_scalar(n, onnx_dtype(n, mask), -(double)INFINITY);
        mask = onnx_op3(n, OP_where, a->allowed, mask, never);
    } else {
        mask = onnx_join(n, OP_logical_and, mask, a->allowed);
    }
    if (mask && onnx_dtype(n, mask) != DTYPE_bool)
        mask = onnx_cast(n, mask, onnx_dtype(n, a->q));
    const Dim queries = onnx_shape(n, a->q)->dim[2];
    NodeBuild b = ONNX_BEGIN(n, OP_attention, a->q, a->k, a->v, mask, is_own ? a->length : 0,
                             is_own && a->length ? onnx_op_number(n, OP_sub, a->length, (double)queries) : 0);
    node_float(&b, A_attention_scale, a->scale);
    node_float(&b, A_attention_softcap, a->softcap);
    node_int(&b, A_attention_causal, is_own && a->causal);
    node_int(&b, A_attention_left, is_own ? a->left : -1);
    node_int(&b, A_attention_right, is_own ? a->right : -1);
    return onnx_end(n, &b);
}

// --- Attention ---

static void check_heads(OnnxNode *n, const Attention *a)
{
    const Dim q = onnx_shape(n, a->q)->dim[1], k = onnx_shape(n, a->k)->dim[1];
    if (!n->failed &&
        (onnx_shape(n, a->q)->rank != 4 || onnx_shape(n, a->k)->rank != 4 || onnx_shape(n, a->v)->rank != 4))
        onnx_fail(n, E0204, "needs query, key and value of the same rank");
    if (!n->failed && (!dim_is_const(q) || !dim_is_const(k) || k < 1 || q % k != 0))
        onnx_fail(n, E0204, "the query heads must be a multiple of the key heads");
}

static void read_window(OnnxNode *n, Attention *a)
{
    a->left = onnx_int(n, "left_window_size", -1);
    a->right = onnx_int(n, "right_window_size", -1);
    if (!n->failed && (a->left < -1 || a->right < -1))
        onnx_fail(n, E0203, "the window size must be at least -1");
    a->left = a->left > INT32_MAX ? -1 : a->left;
    a->right = a->right > INT32_MAX ? -1 : a->right;
}

// Can the core op count the places of all queries? From the last key, where queries and new keys are equally
// many, or from the length of a single batch.
static bool has_own_places(const OnnxNode *n, const Attention *a, NodeId k_new)
{
    const Shape q = *onnx_shape(n, a->q);
    const int64_t furthest = 1 << 28;
    if (a->left > furthest || a->right > furthest)
        return false;
    return a->length ? q.dim[0] == 1 && dim_is_const(q.dim[2]) : q.dim[2] == onnx_shape(n, k_new)->dim[2];
}

static bool has_few_keys(const OnnxNode *n, const Attention *a)
{
    const Dim keys = onnx_shape(n, a->k)->dim[2];
    return dim_is_const(keys) && keys >= 1 && keys <= 32;
}

// [B, heads, S, D] as the query was given.
static NodeId merge_heads(OnnxNode *n, NodeId y, NodeId q_given)
{
    const Shape s = *onnx_shape(n, q_given);
    if (s.rank != 3)
        return y;
    y = onnx_transpose(n, y, (const int64_t[]){0, 2, 1, 3});
    return onnx_reshape_to(n, y, (const Dim[]){s.dim[0], s.dim[1], -1}, 3);
}

void onnx_import_attention(OnnxNode *n)
{
    const int64_t q_heads = onnx_int(n, "q_num_heads", 0), kv_heads = onnx_int(n, "kv_num_heads", 0);
    const int64_t output_mode = onnx_int(n, "qk_matmul_output_mode", 0);
    const NodeId q_given = onnx_src(n, 0);
    Attention a = {.q = split_heads(n, q_given, q_heads, "q_num_heads"),
                   .causal = onnx_flag(n, "is_causal", 0),
                   .scale = onnx_float(n, "scale", 0),
                   .softcap = onnx_float(n, "softcap", 0)};
    const NodeId k_new = split_heads(n, onnx_src(n, 1), kv_heads, "kv_num_heads");
    const NodeId v_new = split_heads(n, onnx_src(n, 2), kv_heads, "kv_num_heads");
    a.mask = onnx_opt(n, 3);
    a.k = onnx_with_past(n, 4, 1, k_new);
    a.v = onnx_with_past(n, 5, 2, v_new);
    a.length = onnx_opt(n, 6);
    a.softmax_type = onnx_type_attr(n, "softmax_precision", onnx_dtype(n, a.q));
    read_window(n, &a);
    check_heads(n, &a);
    if (!n->failed && (output_mode < 0 || output_mode > 3))
        onnx_fail(n, E0203, "attribute 'qk_matmul_output_mode' is %lld", (long long)output_mode);
    if (!n->failed && dtype_info[a.softmax_type].cls != DCLASS_FLOAT)
        onnx_fail(n, E0203, "attribute 'softmax_precision' is not a float type");
    a.mask = pad_mask(n, a.mask, a.k);
    if (n->failed)
        return;
    rlx_assert(onnx_shape(n, a.k)->rank == 4 && onnx_shape(n, k_new)->rank == 4);
    a.past = dim_sub(n->graph->dims, onnx_shape(n, a.k)->dim[2], onnx_shape(n, k_new)->dim[2]);
    if (a.length)
        a.length = onnx_cast(n, onnx_reshape_to(n, a.length, (const Dim[]){-1}, 1), DTYPE_i64);
    // bf16 that ONNX rounds after every step is computed so, where that is no more than a few keys.
    const bool is_stepped =
        onnx_dtype(n, a.q) == DTYPE_bf16 && a.softmax_type == DTYPE_bf16 && has_few_keys(n, &a);
    const bool has_core = !onnx_wants(n, 3) && !is_stepped;
    if (!has_core || !has_own_places(n, &a, k_new))
        a.allowed = allowed_keys(n, &a);
    const NodeId y = has_core ? by_core_op(n, &a) : by_steps(n, &a, output_mode);
    onnx_out(n, 0, merge_heads(n, y, q_given));
}

// --- FlexAttention ---

// The sub-graph of an attribute applied to a value.
static NodeId modified(OnnxNode *n, const char *attr, NodeId x)
{
    if (n->failed || !onnx_has_attr(n, attr))
        return x;
    const Onnx__GraphProto *g = onnx_graph(n, attr);
    const OnnxValue arg = onnx_value(x);
    OnnxValue out = {.kind = ONNX_BROKEN};
    if (n->failed || !onnx_inline_graph(n, g, &arg, 1, &out, 1)) {
        n->failed = true;
        return 0;
    }
    const NodeId y = onnx_value_node(n->scope, &out, n->span);
    n->failed = y == 0;
    if (!n->failed && !shape_equal(onnx_shape(n, y), onnx_shape(n, x)))
        onnx_fail(n, E0204, "the graph '%s' changes the shape", attr);
    return y;
}

void onnx_import_flex_attention(OnnxNode *n)
{
    Attention a = {.q = onnx_src(n, 0),
                   .k = onnx_src(n, 1),
                   .v = onnx_src(n, 2),
                   .left = -1,
                   .right = -1,
                   .scale = onnx_float(n, "scale", 0)};
    const DType type = onnx_dtype(n, a.q);
    check_heads(n, &a);
    a.softmax_type = onnx_type_attr(n, "softmax_precision", type == DTYPE_f64 ? DTYPE_f64 : DTYPE_f32);
    if (!n->failed && dtype_info[a.softmax_type].cls != DCLASS_FLOAT)
        onnx_fail(n, E0203, "attribute 'softmax_precision' is not a float type");
    if (!n->failed && !onnx_has_attr(n, "score_mod") && !onnx_has_attr(n, "prob_mod")) {
        onnx_out(n, 0, by_core_op(n, &a));
        return;
    }
    NodeId score = onnx_cast(n, scores_of(n, &a), a.softmax_type);
    score = onnx_cast(n, modified(n, "score_mod", score), a.softmax_type);
    const NodeId weight = onnx_cast(n, modified(n, "prob_mod", softmax(n, score)), a.softmax_type);
    const NodeId y = onnx_grouped_matmul(n, weight, onnx_cast(n, a.v, a.softmax_type), false);
    onnx_out(n, 0, onnx_cast(n, y, onnx_dtype(n, a.v)));
}
