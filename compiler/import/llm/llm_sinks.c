// SPDX-License-Identifier: Apache-2.0
// Attention of which a part goes to no token: its share is the exponential of a number of each head, as if
// there were one more key with that score, whose value is zero. That key is a row of the caches, and keys
// have more columns: the key of no token has 1 in the first of them, all others 0, and queries have there
// what makes it the score. Separate from attention without it, whose caches are plain.
#include "compiler/import/llm/llm_build.h"

#include <math.h>

enum { MORE = 8 }; // columns of keys and queries: as many as keep vectors whole

// In plain caches, row 0 is that of no token, and the token at position p has row p + 1. bool[T, P + T + 1].
static NodeId seen_of_plain(LlmBuild *b)
{
    DimTable *dims = b->graph->dims;
    const Dim column[] = {b->t, 1}, rows = dim_add(dims, dim_add(dims, b->p, b->t), 1);
    const NodeId at = llm_reshape(b, llm_op2(b, OP_add, b->positions, llm_int(b, 1)), 2, column);
    const NodeId row = llm_count_rows(b, rows);
    const NodeId oldest = llm_op2(b, OP_sub, at, llm_int(b, llm_count(b, LLM_KEY_window) - 1));
    const NodeId is_begun = llm_op2(b, OP_le, row, at), is_near = llm_op2(b, OP_ge, row, oldest);
    return llm_op2(b, OP_logical_or, llm_op2(b, OP_logical_and, is_begun, is_near),
                   llm_op2(b, OP_le, row, llm_int(b, 0)));
}

// Behind the rows of a ring. bool[T, rows + 1]
static NodeId seen_of_ring(LlmBuild *b)
{
    const Dim column[] = {b->t, 1};
    const NodeId yes = llm_scalar(b, DTYPE_bool, 1);
    return llm_concat(b, b->ring.is_seen, llm_expand(b, yes, 2, column), 1);
}

void llm_make_sinks(LlmBuild *b)
{
    if (!llm_has(b, LLM_SINKS))
        return;
    b->sink_row[0] = llm_concat(b, llm_op2(b, OP_add, b->positions, llm_int(b, 1)), llm_int1(b, 0), 0);
    b->sink_seen[0] = seen_of_plain(b);
    if (b->ring.rows == 0)
        return;
    b->sink_row[1] = llm_concat(b, b->ring.row, llm_int1(b, b->ring.rows), 0);
    b->sink_seen[1] = seen_of_ring(b);
}

static NodeId zeros(LlmBuild *b, uint32_t rank, const Dim *dim)
{
    return llm_expand(b, llm_number(b, 0), rank, dim);
}

// f32[1, heads, size]: zeros, with 1 at column `at`; at < 0: without.
static NodeId row_of_none(LlmBuild *b, int64_t heads, int64_t size, int64_t at)
{
    const Dim dim[] = {1, heads, size};
    float *v = ARENA_ARRAY(b->arena, float, (size_t)(heads * size));
    for (int64_t i = 0; i < heads && at >= 0; i++)
        v[i * size + at] = 1;
    return llm_const(b, DTYPE_f32, 3, dim, v);
}

// A cache with the new rows and the row of no token: [heads, rows, size].
static NodeId append(LlmBuild *b, NodeId rows, NodeId none, const char *name)
{
    static const int64_t perm[] = {1, 0, 2};
    const bool is_ring = llm_is_window(b) && b->ring.rows != 0;
    DimTable *dims = b->graph->dims;
    const NodeId stored = llm_cast(b, llm_concat(b, llm_turn(b, rows, perm), none, 0), b->cache);
    if (b->failed)
        return 0;
    Shape s = *graph_node(b->graph, stored)->shape;
    s.dim[0] = is_ring ? b->ring.rows + 1 : dim_add(dims, dim_add(dims, b->p, b->t), 1);
    const NodeId cache = llm_cache(b, name, &s);
    return llm_turn(b, llm_cache_put(b, OP_scatter, cache, b->sink_row[is_ring], stored), perm);
}

// The queries with the columns that make the sinks the scores of the key of no token.
static NodeId widen_queries(LlmBuild *b, NodeId q, double scale)
{
    const int64_t heads = llm_count(b, LLM_KEY_heads);
    const Dim of_head[] = {heads, 1, 1}, column[] = {heads, b->t, 1}, more[] = {heads, b->t, MORE - 1};
    const NodeId sinks = llm_times(b, llm_vector(b, LLM_attn_sinks, heads), 1 / scale);
    const NodeId score = llm_expand(b, llm_reshape(b, sinks, 3, of_head), 3, column);
    return llm_concat(b, llm_concat(b, q, score, 2), zeros(b, 3, more), 2);
}

NodeId llm_sink_attention(LlmBuild *b, NodeId q, NodeId k, NodeId v, double scale)
{
    const int64_t kv = llm_count(b, LLM_KEY_kv_heads), size = llm_count(b, LLM_KEY_head_size);
    const int64_t value = llm_count(b, LLM_KEY_value_size);
    const Dim more[] = {kv, b->t, MORE};
    const bool is_window = llm_is_window(b), is_ring = is_window && b->ring.rows != 0;
    const double by = scale != 0 ? scale : 1 / sqrt((double)size);
    const NodeId wide = llm_concat(b, k, zeros(b, 3, more), 2);
    const NodeId keys = append(b, wide, row_of_none(b, kv, size + MORE, size), "k_cache");
    const NodeId values = append(b, v, row_of_none(b, kv, value, -1), "v_cache");
    const NodeId queries = widen_queries(b, q, by);
    NodeBuild n = llm_begin(b, OP_attention, llm_label(b, "attention"));
    node_src(&n, queries);
    node_src(&n, keys);
    node_src(&n, values);
    if (is_window)
        node_src(&n, b->sink_seen[is_ring]);
    node_float(&n, A_attention_scale, by);
    node_int(&n, A_attention_causal, !is_window); // the row of no token is the first: all see it
    return llm_end(b, &n);
}
