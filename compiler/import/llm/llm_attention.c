// SPDX-License-Identifier: Apache-2.0
// The branch of attention: queries, keys and values of the new rows, the caches with these rows in them, and
// what each query gathers from them.
#include "compiler/import/llm/llm_build.h"

#include <math.h>

typedef struct Heads {
    NodeId q, k, v; // [T, heads * size]
} Heads;

static Heads project(LlmBuild *b, NodeId x)
{
    const int64_t size = llm_count(b, LLM_KEY_head_size), kv = llm_count(b, LLM_KEY_kv_heads);
    const int64_t q = llm_count(b, LLM_KEY_heads) * size, k = kv * size;
    const int64_t v = kv * llm_count(b, LLM_KEY_value_size);
    const LlmJoint joint = {{LLM_attn_q, LLM_attn_k, LLM_attn_v}, LLM_attn_qkv, {q, k, v}, 3};
    const bool has_one = llm_has(b, LLM_FUSED_QKV);
    // Each of the three would leave most of a GPU idle when it has a row of each of some sequences.
    const NodeId joined = !has_one && b->slots != 0 ? llm_joint_product(b, x, &joint) : 0;
    if (!has_one && joined == 0)
        return (Heads){llm_product(b, x, LLM_attn_q, q), llm_product(b, x, LLM_attn_k, k),
                       llm_product(b, x, LLM_attn_v, v)};
    const NodeId all = has_one ? llm_product(b, x, LLM_attn_qkv, q + k + v) : joined;
    return (Heads){llm_slice(b, all, 1, 0, q), llm_slice(b, all, 1, q, q + k),
                   llm_slice(b, all, 1, q + k, q + k + v)};
}

// [T, heads * size] to [T, heads, size], with the norm that the architecture has.
static NodeId split_rows(LlmBuild *b, NodeId x, int64_t heads, int64_t size, LlmRole norm)
{
    const Dim dim[] = {b->t, heads, size};
    const bool has_norm = norm != LLM_ROLE_COUNT;
    if (has_norm && llm_has(b, LLM_ROW_NORMS))
        x = llm_norm(b, x, norm);
    x = llm_reshape(b, x, 3, dim);
    if (has_norm && llm_has(b, LLM_HEAD_NORMS))
        x = llm_norm(b, x, norm);
    return x;
}

static const int64_t heads_first[] = {1, 0, 2};

// The same to [heads, T, size].
static NodeId split_heads(LlmBuild *b, NodeId x, int64_t heads, int64_t size, LlmRole norm)
{
    return llm_turn(b, split_rows(b, x, heads, size, norm), heads_first);
}

// Keys of new rows. With slots they are stored as products leave them, with tokens first: they are turned
// back there, which leaves nothing to do.
static NodeId turned_keys(LlmBuild *b, NodeId x, int64_t heads, int64_t size)
{
    if (b->slots == 0 || llm_has(b, LLM_SINKS))
        return llm_rope(b, split_heads(b, x, heads, size, LLM_attn_k_norm));
    const NodeId rows = llm_rope_tokens(b, split_rows(b, x, heads, size, LLM_attn_k_norm));
    return llm_turn(b, llm_cast(b, rows, b->cache), heads_first);
}

// A state that has the rows of all tokens before, with the new rows behind them.
static NodeId append(LlmBuild *b, NodeId rows, const char *name)
{
    if (b->slots != 0)
        return llm_slots_append(b, rows, name);
    const NodeId stored = llm_cast(b, rows, b->cache);
    if (b->failed)
        return 0;
    Shape s = *graph_node(b->graph, rows)->shape;
    rlx_assert(s.rank == 3);
    s.dim[1] = dim_add(b->graph->dims, b->p, b->t);
    return llm_cache_put(b, OP_update_slice, llm_cache(b, name, &s), stored, b->start);
}

// The rows that queries see: these and those before, as far as the layer keeps them.
static NodeId keep(LlmBuild *b, NodeId rows, const char *name)
{
    if (llm_has(b, LLM_ENCODER))
        return rows;
    return llm_is_window(b) && b->ring.rows != 0 ? llm_ring_append(b, rows, name) : append(b, rows, name);
}

// 0: the root of the size of a head.
static double score_scale(const LlmBuild *b)
{
    const bool is_scaled =
        b->arch->scaled_layers != 0 && llm_count(b, LLM_KEY_layers) == b->arch->scaled_layers;
    if (is_scaled && b->number[LLM_KEY_score_scale] == 0)
        return 1 / sqrt(b->number[LLM_KEY_width] / b->number[LLM_KEY_heads]);
    return b->number[LLM_KEY_score_scale];
}

// [heads, T, size]
static NodeId mix(LlmBuild *b, NodeId q, NodeId k, NodeId v)
{
    const bool is_ring = llm_is_window(b) && b->ring.rows != 0, is_masked = is_ring || b->slots != 0;
    const bool is_narrow = b->has_bf16_rows && b->cache != DTYPE_f32 && !llm_has(b, LLM_ENCODER);
    const NodeId keys = keep(b, k, "k_cache"), values = keep(b, v, "v_cache");
    NodeBuild n = llm_begin(b, OP_attention, llm_label(b, "attention"));
    node_src(&n, is_narrow ? llm_cast(b, q, b->cache) : q);
    node_src(&n, keys);
    node_src(&n, values);
    if (b->slots != 0)
        node_src(&n, llm_is_window(b) ? b->window_mask : b->mask);
    else if (is_ring)
        node_src(&n, b->ring.is_seen);
    node_float(&n, A_attention_scale, score_scale(b));
    node_float(&n, A_attention_softcap, b->number[LLM_KEY_softcap]);
    node_int(&n, A_attention_causal, !llm_has(b, LLM_ENCODER) && !is_masked);
    node_int(&n, A_attention_sparse, b->slots != 0);
    if (llm_is_window(b) && !is_masked)
        node_int(&n, A_attention_left, llm_count(b, LLM_KEY_window) - 1);
    const NodeId y = llm_end(b, &n);
    // The product behind it would do so, but what is turned there would be read once more for it.
    return is_narrow ? llm_cast(b, y, DTYPE_bf16) : y;
}

NodeId llm_attention(LlmBuild *b, NodeId x)
{
    const int64_t size = llm_count(b, LLM_KEY_head_size), value = llm_count(b, LLM_KEY_value_size);
    const int64_t heads = llm_count(b, LLM_KEY_heads), kv = llm_count(b, LLM_KEY_kv_heads);
    const Heads h = project(b, x);
    const NodeId q = llm_rope(b, split_heads(b, h.q, heads, size, LLM_attn_q_norm));
    const NodeId k = turned_keys(b, h.k, kv, size);
    const bool is_stored = !llm_has(b, LLM_ENCODER) && !llm_has(b, LLM_SINKS);
    const NodeId stored = is_stored ? llm_cast(b, h.v, b->cache) : h.v; // by the product, not by a copy of it
    const NodeId v = split_heads(b, stored, kv, value, LLM_ROLE_COUNT);
    const NodeId mixed =
        llm_has(b, LLM_SINKS) ? llm_sink_attention(b, q, k, v, score_scale(b)) : mix(b, q, k, v);
    const NodeId rows = b->failed ? 0 : graph_transpose(b->graph, mixed, heads_first);
    const Dim dim[] = {b->t, heads * value};
    return llm_reshape(b, rows, 2, dim);
}
