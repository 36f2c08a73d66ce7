// SPDX-License-Identifier: Apache-2.0
// Many sequences in one run. Beside the tokens the graph takes, for each of them, its slot, its position in
// the sequence and its row in the caches; and for each slot and page of the caches the position of the page's
// first row, or -1 where the slot has no part in it. So sequences have any lengths, lie in any pages, and
// share those of common prefixes. A mask says which rows a token sees.
#include "compiler/import/llm/llm_build.h"

// The rows of pages of the caches for the positions up to that of each token; of the last `window` of them
// only, unless that is 0. As bool[T, rows].
static NodeId make_mask(LlmBuild *b, NodeId position, NodeId base, int64_t window)
{
    int32_t nth[LLM_PAGE];
    const Dim page[] = {1, 1, LLM_PAGE}, flat[] = {b->t, b->rows};
    for (int32_t i = 0; i < LLM_PAGE; i++)
        nth[i] = i;
    const NodeId rows = llm_const(b, DTYPE_i32, 3, page, arena_copy(b->arena, nth, sizeof nth));
    const NodeId zero = llm_scalar(b, DTYPE_i32, 0);
    const NodeId place = llm_op2(b, OP_add, base, rows);
    const NodeId is_own = llm_op2(b, OP_ge, base, zero), is_before = llm_op2(b, OP_le, place, position);
    NodeId seen = llm_op2(b, OP_logical_and, is_own, is_before);
    if (window != 0) {
        const NodeId most = llm_scalar(b, DTYPE_i32, (double)window);
        const NodeId back = llm_op2(b, OP_sub, position, place);
        seen = llm_op2(b, OP_logical_and, seen, llm_op2(b, OP_lt, back, most));
    }
    return llm_reshape(b, seen, 2, flat);
}

void llm_make_slots(LlmBuild *b)
{
    const int64_t pages = (b->context + LLM_PAGE - 1) / LLM_PAGE, window = llm_count(b, LLM_KEY_window);
    const Dim wanted = b->l != 0 ? b->l : (Dim)b->slots, table[] = {b->slots, pages};
    const Dim cell[] = {b->t, pages, 1}, column[] = {b->t, 1, 1};
    const Shape of_table = shape_of(2, table);
    b->rows = pages * LLM_PAGE;
    b->slot = b->row_slot = llm_input(b, "slot", 1, &b->t);
    b->positions = llm_input(b, "position", 1, &b->t);
    b->row = llm_input(b, "row", 1, &b->t);
    // Many slots have a table of many pages, which each run brings to the device.
    b->pages = graph_input(b->graph, "pages", DTYPE_i32, &of_table, b->source->span);
    b->last = llm_input(b, "wanted", 1, &wanted);
    const NodeId base = llm_reshape(b, llm_gather(b, b->pages, b->slot), 3, cell);
    const NodeId position = llm_reshape(b, llm_cast(b, b->positions, DTYPE_i32), 3, column);
    b->mask = b->window_mask = make_mask(b, position, base, 0);
    if (b->arch->window_period != 0 && window != 0)
        b->window_mask = make_mask(b, position, base, window);
}

// The rows of all heads where a state [kv heads * rows, size] has them: i64[T * kv heads].
static NodeId head_rows(LlmBuild *b, int64_t heads)
{
    const Dim line[] = {1, heads}, column[] = {b->t, 1}, flat[] = {dim_mul(b->graph->dims, b->t, heads)};
    int64_t *first = ARENA_ARRAY(b->arena, int64_t, (size_t)heads);
    for (int64_t i = 0; i < heads; i++)
        first[i] = i * b->rows;
    const NodeId begin = llm_const(b, DTYPE_i64, 2, line, first), row = llm_reshape(b, b->row, 2, column);
    return llm_reshape(b, llm_op2(b, OP_add, begin, row), 1, flat);
}

// Tokens come first in what is written, as products leave them: nothing is turned for it.
NodeId llm_slots_append(LlmBuild *b, NodeId rows, const char *name)
{
    static const int64_t perm[] = {1, 0, 2};
    Graph *g = b->graph;
    const NodeId stored = llm_cast(b, rows, b->cache);
    if (b->failed)
        return 0;
    const Shape *s = graph_node(g, rows)->shape;
    rlx_assert(s->rank == 3);
    const Dim heads = s->dim[0], size = s->dim[2];
    const Dim all[] = {heads * b->rows, size}, by_head[] = {heads, b->rows, size};
    const Dim flat[] = {dim_mul(g->dims, b->t, heads), size};
    const Shape state = shape_of(2, all);
    const NodeId cache = llm_cache(b, name, &state);
    const NodeId index = head_rows(b, heads), updates = llm_reshape(b, llm_turn(b, stored, perm), 2, flat);
    return llm_reshape(b, llm_cache_put(b, OP_scatter, cache, index, updates), 3, by_head);
}
