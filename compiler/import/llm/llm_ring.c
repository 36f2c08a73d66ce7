// SPDX-License-Identifier: Apache-2.0
// Caches of layers with windows that keep no more than such layers see: rings, in which a new row takes the
// place of one that no later token sees. Separate from the plain caches, whose rows are in the order of the
// tokens.
#include "compiler/import/llm/llm_build.h"

// i64[rows]: 0, 1, 2 ...
static NodeId count_up(LlmBuild *b, int64_t rows)
{
    int64_t *v = ARENA_ARRAY(b->arena, int64_t, (size_t)rows);
    for (int64_t i = 0; i < rows; i++)
        v[i] = i;
    return llm_const(b, DTYPE_i64, 1, &rows, v);
}

// Row r holds the last token up to the end of this run whose position is r mod `rows`. A token sees it if it
// is not behind the token, within its window, and not before the first of all.
static NodeId find_seen(LlmBuild *b, int64_t rows)
{
    const Dim column[] = {b->t, 1};
    const NodeId at = llm_reshape(b, b->positions, 2, column);
    const NodeId end = llm_op2(b, OP_add, b->past, b->final); // i64[1]: the last position
    const NodeId back = llm_op2(b, OP_mod, llm_op2(b, OP_sub, end, count_up(b, rows)), llm_int(b, rows));
    const NodeId held = llm_op2(b, OP_sub, end, back); // i64[rows]
    const NodeId oldest = llm_op2(b, OP_sub, at, llm_int(b, llm_count(b, LLM_KEY_window) - 1));
    const NodeId is_begun = llm_op2(b, OP_le, held, at), is_near = llm_op2(b, OP_ge, held, oldest);
    const NodeId is_token = llm_op2(b, OP_ge, held, llm_int(b, 0));
    return llm_op2(b, OP_logical_and, llm_op2(b, OP_logical_and, is_begun, is_near), is_token);
}

void llm_make_rings(LlmBuild *b)
{
    const int64_t window = llm_count(b, LLM_KEY_window), chunk = llm_chunk(b->context);
    if (!b->has_rings || window == 0 || window >= b->context)
        return;
    b->ring.rows = window - 1 + chunk;
    b->ring.row = llm_op2(b, OP_mod, b->positions, llm_int(b, b->ring.rows));
    b->ring.is_seen = find_seen(b, b->ring.rows);
}

NodeId llm_ring_append(LlmBuild *b, NodeId rows, const char *name)
{
    static const int64_t perm[] = {1, 0, 2};
    const NodeId stored = llm_cast(b, llm_turn(b, rows, perm), b->cache);
    if (b->failed)
        return 0;
    Shape s = *graph_node(b->graph, stored)->shape;
    rlx_assert(s.rank == 3 && b->ring.rows != 0);
    s.dim[0] = b->ring.rows;
    return llm_turn(b, llm_cache_put(b, OP_scatter, llm_cache(b, name, &s), b->ring.row, stored), perm);
}
