// SPDX-License-Identifier: Apache-2.0
// Attention in the forms of com.microsoft: from a fused projection, from separate queries, keys and values,
// and with groups of query heads over a cache. All end in the core op, or in its steps where scores are
// capped or a sink takes part in the softmax.
#include "compiler/import/onnx/onnx_quant.h"

#include <math.h>

// Queries, keys and values are [B, heads, S, D]; keys and values have those of the past in front.
typedef struct Heads {
    NodeId q, k, v;
    NodeId bias; // added to the scores; 0: none
    NodeId seen; // bool; 0: all
    NodeId sink; // [heads]: a key without a value that takes its part of the softmax; 0: none
    double scale, softcap;
    bool causal;
    int64_t window; // keys that a query sees up to its own; 0: all
} Heads;

// [B, S, heads * D] to [B, heads, S, D].
static NodeId split_heads(OnnxNode *n, NodeId x, int64_t heads)
{
    const Shape s = *onnx_shape(n, x);
    if (n->failed || !x || s.rank == 4)
        return x;
    if (s.rank != 3 || heads < 1) {
        onnx_fail(n, E0204, "needs operands [B, S, heads * D] and a number of heads");
        return 0;
    }
    const NodeId split = onnx_reshape_to(n, x, (const Dim[]){s.dim[0], s.dim[1], heads, -1}, 4);
    return onnx_transpose(n, split, (const int64_t[]){0, 2, 1, 3});
}

static NodeId merge_heads(OnnxNode *n, NodeId y)
{
    const Shape s = *onnx_shape(n, y);
    if (n->failed)
        return 0;
    y = onnx_transpose(n, y, (const int64_t[]){0, 2, 1, 3});
    return onnx_reshape_to(n, y, (const Dim[]){s.dim[0], s.dim[2], -1}, 3);
}

// --- scores ---

// With the sink as a last column, which is then dropped.
static NodeId softmax_with_sink(OnnxNode *n, NodeId score, NodeId sink)
{
    const Shape s = *onnx_shape(n, score);
    if (!sink || n->failed)
        return onnx_softmax(n, score, -1);
    rlx_assert(s.rank == 4);
    const NodeId column =
        onnx_reshape_to(n, onnx_cast(n, sink, onnx_dtype(n, score)), (const Dim[]){-1, 1, 1}, 3);
    const NodeId wide = onnx_expand(n, column, (const Dim[]){s.dim[0], s.dim[1], s.dim[2], 1}, 4);
    const NodeId y = onnx_softmax(n, onnx_concat(n, (const NodeId[]){score, wide}, 2, 3), -1);
    return onnx_slice(n, y, 3, 0, -1, 1);
}

// Query i sees keys up to i + (keys - queries).
static NodeId causal_keys(OnnxNode *n, const Heads *h)
{
    const Dim queries = onnx_shape(n, h->q)->dim[2], keys = onnx_shape(n, h->k)->dim[2];
    const Dim past = dim_sub(n->graph->dims, keys, queries);
    if (!n->failed && !dim_is_const(past))
        onnx_fail(n, E0207, "the number of past keys must be a number");
    const NodeId row = onnx_unsqueeze(n, onnx_iota(n, queries), (const int64_t[]){1}, 1);
    return onnx_op2(n, OP_le, onnx_iota(n, keys),
                    onnx_op_number(n, OP_add, row, n->failed ? 0 : (double)past));
}

static NodeId by_steps(OnnxNode *n, const Heads *h)
{
    const Dim size = onnx_shape(n, h->q)->dim[3];
    if (!n->failed && !dim_is_const(size))
        onnx_fail(n, E0207, "the size of a head must be a number");
    const double scale = h->scale > 0 || n->failed ? h->scale : 1 / sqrt((double)size);
    NodeId score = onnx_op_number(n, OP_mul, onnx_grouped_matmul(n, h->q, h->k, true), scale);
    if (h->softcap > 0)
        score = onnx_op_number(n, OP_mul, onnx_op1(n, OP_tanh, onnx_op_number(n, OP_div, score, h->softcap)),
                               h->softcap);
    score = onnx_join(n, OP_add, score, h->bias);
    const NodeId seen = onnx_join(n, OP_logical_and, h->seen, h->causal ? causal_keys(n, h) : 0);
    if (seen)
        score = onnx_op3(n, OP_where, seen, score, onnx_scalar(n, onnx_dtype(n, score), -(double)INFINITY));
    return onnx_grouped_matmul(n, softmax_with_sink(n, score, h->sink), h->v, false);
}

static NodeId attend(OnnxNode *n, const Heads *h)
{
    NodeId mask = h->bias ? onnx_cast(n, h->bias, onnx_dtype(n, h->q)) : h->seen;
    if (n->failed)
        return 0;
    if (h->sink)
        return by_steps(n, h);
    if (h->bias && h->seen)
        mask = onnx_op3(n, OP_where, h->seen, mask, onnx_scalar(n, onnx_dtype(n, mask), -(double)INFINITY));
    NodeBuild b = ONNX_BEGIN(n, OP_attention, h->q, h->k, h->v, mask);
    node_float(&b, A_attention_scale, h->scale);
    node_float(&b, A_attention_softcap, h->softcap);
    node_int(&b, A_attention_causal, h->causal);
    node_int(&b, A_attention_left, h->window - 1);
    return onnx_end(n, &b);
}

// --- masks ---

// Which keys count, as [B, 1 or heads, 1 or S, keys]: given by a mask [B, keys] or [B, S, keys], by the ends
// of the keys [B], or by ends and then begins [2 * B].
static NodeId seen_keys(OnnxNode *n, NodeId mask, Dim batch, Dim keys)
{
    const Shape s = *onnx_shape(n, mask);
    if (s.rank == 2)
        return onnx_unsqueeze(n, onnx_cast(n, mask, DTYPE_bool), (const int64_t[]){1, 2}, 2);
    if (s.rank == 3)
        return onnx_unsqueeze(n, onnx_cast(n, mask, DTYPE_bool), (const int64_t[]){1}, 1);
    const bool has_begins = s.rank == 1 && dim_is_const(batch) && s.dim[0] == 2 * batch;
    if (s.rank != 1 || (s.dim[0] != batch && !has_begins)) {
        onnx_fail(n, E0206,
                  "this form of mask is not supported, only [B, keys], [B, S, keys], [B] and [2 * B]");
        return 0;
    }
    const NodeId key = onnx_iota(n, keys), at = onnx_cast(n, mask, DTYPE_i64);
    const Dim row[] = {-1, 1, 1, 1};
    if (!has_begins)
        return onnx_op2(n, OP_lt, key, onnx_reshape_to(n, at, row, 4));
    const NodeId end = onnx_reshape_to(n, onnx_slice(n, at, 0, 0, batch, 1), row, 4);
    const NodeId begin = onnx_reshape_to(n, onnx_slice(n, at, 0, batch, 2 * batch, 1), row, 4);
    return onnx_join(n, OP_logical_and, onnx_op2(n, OP_lt, key, end), onnx_op2(n, OP_ge, key, begin));
}

// A mask is added to the scores as a large negative number, which is not the same where it hides all keys.
static void add_mask(OnnxNode *n, Heads *h, NodeId mask)
{
    const double never = onnx_float(n, "mask_filter_value", -10000);
    if (!mask || n->failed)
        return;
    const DType t = onnx_dtype(n, h->q);
    const NodeId seen = seen_keys(n, mask, onnx_shape(n, h->q)->dim[0], onnx_shape(n, h->k)->dim[2]);
    const NodeId added = onnx_op3(n, OP_where, seen, onnx_scalar(n, t, 0), onnx_scalar(n, t, never));
    h->bias = onnx_join(n, OP_add, h->bias, added);
}

// --- from a fused projection ---

// Keys or values with those of earlier runs in front; `past` is [2, B, heads, P, D].
static NodeId join_past(OnnxNode *n, NodeId past, int64_t i, NodeId x)
{
    if (!past)
        return x;
    const NodeId before = onnx_squeeze(n, onnx_slice(n, past, 0, i, i + 1, 1), (const int64_t[]){0}, 1);
    return onnx_concat(n, (const NodeId[]){before, x}, 2, 2);
}

// Widths of q, k and v in [B, S, width].
static bool read_widths(OnnxNode *n, NodeId qkv, int64_t heads, int64_t width[3])
{
    OnnxInts sizes;
    const bool has_sizes = onnx_ints(n, "qkv_hidden_sizes", &sizes) && sizes.n > 0;
    if (n->failed || onnx_shape(n, qkv)->rank != 3)
        return n->failed ? false : onnx_fail(n, E0204, "needs an input [B, S, hidden]");
    const int64_t all = onnx_const_dim(n, qkv, 2);
    if (has_sizes && sizes.n != 3)
        return onnx_fail(n, E0203, "attribute 'qkv_hidden_sizes' has %u entries, expected 3", sizes.n);
    for (uint32_t i = 0; i < 3; i++)
        width[i] = has_sizes ? sizes.v[i] : all / 3;
    bool fits = heads > 0 && heads <= all;
    for (uint32_t i = 0; fits && i < 3; i++)
        fits = width[i] > 0 && width[i] <= all && width[i] % heads == 0;
    if (n->failed || !fits || width[0] + width[1] + width[2] != all)
        return n->failed ? false
                         : onnx_fail(n, E0204, "%lld heads of q, k and v do not fit a width of %lld",
                                     (long long)heads, (long long)all);
    return true;
}

static void from_projection(OnnxNode *n, NodeId qkv, NodeId mask, NodeId past, NodeId bias)
{
    const int64_t heads = onnx_int(n, "num_heads", 0);
    Heads h = {
        .causal = onnx_flag(n, "unidirectional", 0), .scale = onnx_float(n, "scale", 0), .bias = bias};
    int64_t width[3] = {0};
    if (onnx_flag(n, "do_rotary", 0) || onnx_flag(n, "past_present_share_buffer", 0))
        onnx_fail(n, E0206, "rotary embedding and shared buffers are not supported");
    if (!read_widths(n, qkv, heads, width))
        return;
    const int64_t k_at = width[0], v_at = width[0] + width[1];
    h.q = split_heads(n, onnx_slice(n, qkv, 2, 0, k_at, 1), heads);
    h.k = join_past(n, past, 0, split_heads(n, onnx_slice(n, qkv, 2, k_at, v_at, 1), heads));
    h.v = join_past(n, past, 1, split_heads(n, onnx_slice(n, qkv, 2, v_at, v_at + width[2], 1), heads));
    add_mask(n, &h, mask);
    onnx_out(n, 0, merge_heads(n, attend(n, &h)));
    if (!onnx_wants(n, 1))
        return;
    const NodeId parts[] = {onnx_unsqueeze(n, h.k, (const int64_t[]){0}, 1),
                            onnx_unsqueeze(n, h.v, (const int64_t[]){0}, 1)};
    onnx_out(n, 1, onnx_concat(n, parts, 2, 0));
}

void onnx_import_ms_attention(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), weight = onnx_src(n, 1), bias = onnx_opt(n, 2);
    const NodeId mask = onnx_opt(n, 3), past = onnx_opt(n, 4), added = onnx_opt(n, 5);
    from_projection(n, onnx_join(n, OP_add, onnx_matmul(n, x, weight, false, false), bias), mask, past,
                    added);
}

void onnx_import_ms_qattention(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), weight = onnx_src(n, 1), bias = onnx_src(n, 2);
    const NodeId x_scale = quant_along(n, onnx_src(n, 3), 1, 0),
                 w_scale = quant_along(n, onnx_src(n, 4), 1, 0);
    const NodeId mask = onnx_opt(n, 5), past = onnx_opt(n, 8);
    const NodeId sum = quant_matmul(n, x, onnx_opt(n, 6), weight, onnx_opt(n, 7));
    const NodeId factor = onnx_op2(n, OP_mul, x_scale, w_scale);
    const NodeId product = onnx_op2(n, OP_mul, onnx_cast(n, sum, onnx_dtype(n, factor)), factor);
    from_projection(n, onnx_join(n, OP_add, product, bias), mask, past, 0);
}

// --- from queries, keys and values ---

// Part i of [B, S, heads, parts, D], as [B, heads, S, D].
static NodeId packed_part(OnnxNode *n, NodeId x, int64_t i)
{
    const NodeId part = onnx_squeeze(n, onnx_slice(n, x, 3, i, i + 1, 1), (const int64_t[]){3}, 1);
    return onnx_transpose(n, part, (const int64_t[]){0, 2, 1, 3});
}

// The part of the bias of q, k or v: [from, to) of it, as [heads, 1, D].
static NodeId biased(OnnxNode *n, NodeId x, NodeId bias, int64_t *at)
{
    const Shape s = *onnx_shape(n, x);
    if (!bias || n->failed)
        return x;
    if (!dim_is_const(s.dim[1]) || !dim_is_const(s.dim[3])) {
        onnx_fail(n, E0207, "the width must be a number");
        return 0;
    }
    const int64_t width = s.dim[1] * s.dim[3];
    const NodeId part = onnx_slice(n, bias, 0, *at, *at + width, 1);
    *at += width;
    return onnx_op2(n, OP_add, x, onnx_reshape_to(n, part, (const Dim[]){s.dim[1], 1, s.dim[3]}, 3));
}

// Queries [B, S, hidden], with keys and values like them, as one operand [B, L, heads, 2, D], or as [B,
// heads, L, D] of a cross attention; or all three as [B, S, heads, 3, D].
static void read_heads(OnnxNode *n, Heads *h, int64_t heads)
{
    const NodeId q = onnx_src(n, 0), k = onnx_opt(n, 1), v = onnx_opt(n, 2);
    if (onnx_shape(n, q)->rank == 5) {
        h->q = packed_part(n, q, 0);
        h->k = packed_part(n, q, 1);
        h->v = packed_part(n, q, 2);
        return;
    }
    h->q = split_heads(n, q, heads);
    if (k && onnx_shape(n, k)->rank == 5) {
        h->k = packed_part(n, k, 0);
        h->v = packed_part(n, k, 1);
    } else if (k && v) {
        h->k = split_heads(n, k, heads);
        h->v = split_heads(n, v, heads);
    } else {
        onnx_fail(n, E0202, "needs keys and values");
    }
}

void onnx_import_ms_multi_head_attention(OnnxNode *n)
{
    const int64_t heads = onnx_int(n, "num_heads", 0);
    Heads h = {.causal = onnx_flag(n, "unidirectional", 0), .scale = onnx_float(n, "scale", 0)};
    read_heads(n, &h, heads);
    const NodeId bias = onnx_opt(n, 3), mask = onnx_opt(n, 4);
    int64_t at = 0;
    h.bias = onnx_opt(n, 5);
    h.q = biased(n, h.q, bias, &at);
    h.k = onnx_with_past(n, 6, 1, biased(n, h.k, bias, &at));
    h.v = onnx_with_past(n, 7, 2, biased(n, h.v, bias, &at));
    add_mask(n, &h, mask);
    onnx_out(n, 0, merge_heads(n, attend(n, &h)));
}

// --- rotary embedding ---

// x [B, heads, S, D]; the caches [positions, R / 2] turn the first R elements of a head. positions: i64 [S]
// or [B, S].
static NodeId rotate(OnnxNode *n, NodeId x, NodeId cosine, NodeId sine, NodeId positions, bool interleaved)
{
    const int64_t size = onnx_const_dim(n, x, 3), turned = 2 * onnx_const_dim(n, cosine, 1);
    if (!n->failed && turned > size)
        onnx_fail(n, E0204, "the caches rotate %lld elements, but a head has %lld", (long long)turned,
                  (long long)size);
    if (n->failed)
        return 0;
    const bool is_fixed = graph_node(n->graph, positions)->op == OP_const;
    NodeId table[2] = {onnx_cast(n, cosine, onnx_dtype(n, x)), onnx_cast(n, sine, onnx_dtype(n, x))};
    for (uint32_t i = 0; is_fixed && i < 2; i++) {
        table[i] = onnx_gather(n, table[i], positions, 0);
        if (onnx_shape(n, positions)->rank == 2)
            table[i] = onnx_unsqueeze(n, table[i], (const int64_t[]){1}, 1);
    }
    if (!is_fixed && onnx_shape(n, positions)->rank == 2)
        positions = onnx_unsqueeze(n, positions, (const int64_t[]){1}, 1);
    return onnx_rope(n, &(OnnxRope){.x = x,
                                    .cosine = table[0],
                                    .sine = table[1],
                                    .positions = is_fixed ? 0 : positions,
                                    .turned = turned < size ? turned : 0,
                                    .is_interleaved = interleaved});
}

// How many elements of a head turn: the caches have half as many columns, which the attribute must not
// contradict.
static void check_rotary_dim(OnnxNode *n, NodeId x, NodeId cosine, int64_t heads)
{
    const int64_t turned = onnx_int(n, "rotary_embedding_dim", 0);
    if (n->failed || turned == 0)
        return;
    const int64_t columns = onnx_const_dim(n, cosine, 1);
    if (!n->failed && turned != 2 * columns)
        onnx_fail(n, E0203,
                  "attribute 'rotary_embedding_dim' is %lld, but the caches have %lld columns, not half "
                  "as many",
                  (long long)turned, (long long)columns);
    if (!n->failed && onnx_shape(n, x)->rank == 3 && heads == 0)
        onnx_fail(n, E0203, "attribute 'rotary_embedding_dim' needs 'num_heads' beside it");
}

void onnx_import_ms_rotary(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), cosine = onnx_src(n, 2), sine = onnx_src(n, 3);
    NodeId positions = onnx_cast(n, onnx_src(n, 1), DTYPE_i64);
    const bool interleaved = onnx_flag(n, "interleaved", 0);
    int64_t heads = onnx_int(n, "num_heads", 0);
    check_rotary_dim(n, x, cosine, heads);
    onnx_ignore_attr(n, "scale"); // nothing reads it
    if (onnx_flag(n, "is_packed_batching", 0))
        onnx_fail(n, E0206, "attribute 'is_packed_batching' is not supported");
    const Shape s = *onnx_shape(n, x);
    if (!n->failed && s.rank == 3 && heads == 0) {
        const int64_t size = 2 * onnx_const_dim(n, cosine, 1);
        heads = size > 0 ? onnx_const_dim(n, x, 2) / size : 0;
    }
    const NodeId y = split_heads(n, x, heads);
    if (n->failed)
        return;
    if (onnx_shape(n, positions)->rank < 2) // the position of the first
        positions = onnx_op2(n, OP_add, onnx_iota(n, onnx_shape(n, y)->dim[2]), positions);
    const NodeId turned = rotate(n, y, cosine, sine, positions, interleaved);
    onnx_out(n, 0, s.rank == 3 ? merge_heads(n, turned) : turned);
}

// --- groups of query heads over a cache ---

// The cache that a run sees: `past` keys before its own, of room for `room` ones.
typedef struct Cache {
    int64_t batch, news, past, room; // past: of a single batch; of several it is in `start`
    NodeId start;                    // i64 [B, 1]; 0: `past` for all
} Cache;

static bool read_cache(OnnxNode *n, const Heads *h, Cache *c)
{
    const NodeId past = onnx_opt(n, 3), lengths = onnx_src(n, 5);
    OnnxInts total;
    onnx_skip(n, 4);
    if (n->failed || !onnx_src_ints(n, 6, &total))
        return false;
    c->batch = onnx_const_dim(n, h->q, 0);
    c->news = onnx_const_dim(n, h->q, 2);
    const int64_t held = past ? onnx_const_dim(n, past, 2) : 0;
    if (n->failed)
        return false;
    if (total.n != 1 || total.v[0] < c->news || total.v[0] > held + c->news || c->batch < 1)
        return onnx_fail(n, E0204, "%lld keys in all are not the sum of %lld past keys and %lld new ones",
                         total.n ? (long long)total.v[0] : 0, (long long)held, (long long)c->news);
    c->room = total.v[0] > held ? total.v[0] : held;
    c->past = total.v[0] - c->news;
    rlx_assert(c->past >= 0 && c->room >= c->news);
    if (c->batch > 1 && c->past > 0) { // batches may be of different lengths
        const NodeId length = onnx_reshape_to(n, onnx_cast(n, lengths, DTYPE_i64), (const Dim[]){-1, 1}, 2);
        c->start = onnx_op_number(n, OP_add, length, (double)(1 - c->news));
    }
    return !n->failed;
}

// Keys or values with the new ones in their place, [B, heads, room, D].
static NodeId placed(OnnxNode *n, const Cache *c, NodeId before, NodeId x)
{
    rlx_assert(c->batch >= 1);
    if (!before || c->past == 0) {
        const int64_t held = before ? onnx_const_dim(n, before, 2) : 0;
        return held <= c->news
                   ? x
                   : onnx_concat(n, (const NodeId[]){x, onnx_slice(n, before, 2, c->news, held, 1)}, 2, 2);
    }
    const int64_t held = onnx_const_dim(n, before, 2);
    if (!c->start) {
        const NodeId head = onnx_slice(n, before, 2, 0, c->past, 1);
        const NodeId tail = onnx_slice(n, before, 2, c->past + c->news, held, 1);
        const NodeId parts[] = {head, x, tail};
        return onnx_concat(n, parts, c->past + c->news < held ? 3 : 2, 2);
    }
    // Entry t is t of the cache, or t - start of the new ones, which stand behind it.
    const NodeId all = onnx_concat(n, (const NodeId[]){before, x}, 2, 2), t = onnx_iota(n, c->room);
    const NodeId since = onnx_op2(n, OP_sub, t, c->start); // [B, room]
    const NodeId is_new = onnx_join(n, OP_logical_and, onnx_op_number(n, OP_ge, since, 0),
                                    onnx_op_number(n, OP_lt, since, (double)c->news));
    const NodeId old = onnx_op_number(n, OP_min, t, (double)(held - 1));
    const NodeId from = onnx_op3(n, OP_where, is_new, onnx_op_number(n, OP_add, since, (double)held), old);
    NodeId *rows = ARENA_ARRAY(n->model->arena, NodeId, (size_t)c->batch);
    if (c->batch > 256) {
        onnx_fail(n, E0206, "more than 256 batches of different lengths are not supported");
        return 0;
    }
    for (int64_t i = 0; i < c->batch; i++) {
        const NodeId index = onnx_reshape_to(n, onnx_slice(n, from, 0, i, i + 1, 1), (const Dim[]){-1}, 1);
        rows[i] = onnx_gather(n, onnx_slice(n, all, 0, i, i + 1, 1), index, 2);
    }
    return onnx_concat(n, rows, (uint32_t)c->batch, 0);
}

// The places of the new keys, [S] or [B, S].
static NodeId new_positions(OnnxNode *n, const Cache *c)
{
    const NodeId row = onnx_iota(n, c->news);
    return c->start ? onnx_op2(n, OP_add, row, c->start) : onnx_op_number(n, OP_add, row, (double)c->past);
}

// What a window, or lengths of the batches, leave of the keys, [B or 1, 1, S, keys].
static NodeId seen_of_cache(OnnxNode *n, const Cache *c, NodeId k, int64_t window, bool causal)
{
    if (!c->start && window < 0)
        return 0;
    const NodeId key = onnx_iota(n, onnx_shape(n, k)->dim[2]);
    const NodeId at = onnx_reshape_to(n, new_positions(n, c), (const Dim[]){-1, 1, c->news, 1}, 4);
    NodeId seen = causal ? onnx_op2(n, OP_le, key, at) : 0;
    if (window >= 0)
        seen = onnx_join(n, OP_logical_and, seen,
                         onnx_op2(n, OP_gt, key, onnx_op_number(n, OP_sub, at, (double)window)));
    return seen;
}

static void read_groups(OnnxNode *n, Heads *h)
{
    const int64_t heads = onnx_int(n, "num_heads", 0), kv_heads = onnx_int(n, "kv_num_heads", 0);
    NodeId q = onnx_src(n, 0), k = onnx_opt(n, 1), v = onnx_opt(n, 2);
    if (!n->failed && (heads < 1 || kv_heads < 1 || heads % kv_heads != 0))
        onnx_fail(n, E0203, "'num_heads' must be a multiple of 'kv_num_heads'");
    if (!n->failed && !k && onnx_shape(n, q)->rank == 3) { // all in one
        const int64_t size = onnx_const_dim(n, q, 2) / (heads + 2 * kv_heads);
        const int64_t k_at = heads * size, v_at = k_at + kv_heads * size;
        k = onnx_slice(n, q, 2, k_at, v_at, 1);
        v = onnx_slice(n, q, 2, v_at, v_at + kv_heads * size, 1);
        q = onnx_slice(n, q, 2, 0, k_at, 1);
    }
    h->q = split_heads(n, q, heads);
    h->k = split_heads(n, k, kv_heads);
    h->v = split_heads(n, v, kv_heads);
}

// Each head by the root of its mean square.
static NodeId head_norm(OnnxNode *n, NodeId x, NodeId weight, double epsilon)
{
    if (!weight || n->failed)
        return x;
    NodeBuild b = ONNX_BEGIN(n, OP_rms_norm, x, onnx_cast(n, weight, onnx_dtype(n, x)));
    node_int(&b, A_rms_norm_axis, -1);
    node_float(&b, A_rms_norm_epsilon, epsilon);
    return onnx_end(n, &b);
}

static void check_groups(OnnxNode *n)
{
    if (onnx_int(n, "kv_cache_bit_width", 0) != 0 || onnx_int(n, "qk_output", 0) != 0 ||
        onnx_int(n, "sliding_window_cache", 0) != 0)
        onnx_fail(n, E0206, "quantised and sliding caches and the scores as a result are not supported");
    if (!str_equal(onnx_str(n, "k_quant_type", "NONE"), "NONE") ||
        !str_equal(onnx_str(n, "v_quant_type", "NONE"), "NONE"))
        onnx_fail(n, E0206, "quantised caches are not supported");
}

void onnx_import_ms_group_query_attention(OnnxNode *n)
{
    Heads h = {.scale = onnx_float(n, "scale", 0), .softcap = onnx_float(n, "softcap", 0)};
    const bool rotates = onnx_flag(n, "do_rotary", 0), causal = onnx_flag(n, "causal", 1);
    const bool interleaved = onnx_flag(n, "rotary_interleaved", 0);
    const int64_t window = onnx_int(n, "local_window_size", -1);
    Cache c = {0};
    check_groups(n);
    read_groups(n, &h);
    if (!read_cache(n, &h, &c))
        return;
    const NodeId cosine = onnx_opt(n, 7), sine = onnx_opt(n, 8), given = onnx_opt(n, 9);
    h.bias = onnx_opt(n, 10);
    h.sink = onnx_opt(n, 11);
    if (onnx_int(n, "smooth_softmax", 0) > 0 && !h.sink)
        h.sink = onnx_expand(n, onnx_scalar(n, onnx_dtype(n, h.q), 0),
                             (const Dim[]){onnx_shape(n, h.q)->dim[1]}, 1);
    const double epsilon = onnx_float(n, "qk_norm_epsilon", (double)1e-6f);
    h.q = head_norm(n, h.q, onnx_opt(n, 14), epsilon);
    h.k = head_norm(n, h.k, onnx_opt(n, 15), epsilon);
    if (rotates && !(cosine && sine))
        onnx_fail(n, E0202, "needs the caches of the rotary embedding");
    if (rotates) {
        const NodeId at = given ? onnx_cast(n, given, DTYPE_i64) : new_positions(n, &c);
        h.q = rotate(n, h.q, cosine, sine, at, interleaved);
        h.k = rotate(n, h.k, cosine, sine, at, interleaved);
    }
    h.k = placed(n, &c, onnx_opt(n, 3), h.k);
    h.v = placed(n, &c, onnx_opt(n, 4), h.v);
    onnx_out(n, 1, h.k);
    onnx_out(n, 2, h.v);
    const int64_t keys = c.past + c.news;
    if (c.room > keys) {
        h.k = onnx_slice(n, h.k, 2, 0, keys, 1);
        h.v = onnx_slice(n, h.v, 2, 0, keys, 1);
    }
    const bool is_own = !c.start && !h.sink && window != 0 && window <= 1 << 28;
    h.window = is_own && window > 0 ? window : 0;
    h.seen = is_own ? 0 : seen_of_cache(n, &c, h.k, window, causal);
    h.causal = causal && !h.seen;
    onnx_out(n, 0, merge_heads(n, attend(n, &h)));
}
