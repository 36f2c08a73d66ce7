// SPDX-License-Identifier: Apache-2.0
// What a graph is read from: its roots, and the nodes that some of them need. All walks go over the array of
// nodes; none recurses along operands, whose chains may be long.
#include "ir/graph/intern.h"
#include <stddef.h>
#include <string.h>

// The ids of one kind of root, each at the same place of the entries of a list.
typedef struct RootList {
    const void *entries;
    uint32_t len;
    size_t entry_bytes, offset;
} RootList;

static RootList root_list(const Graph *g, uint32_t list)
{
    const RootList lists[ROOT_LISTS] = {
        {g->outputs.data, g->outputs.len, sizeof(GraphOutput), offsetof(GraphOutput, node)},
        {g->states.data, g->states.len, sizeof(GraphState), offsetof(GraphState, next)},
        {g->checks.data, g->checks.len, sizeof(GraphCheck), offsetof(GraphCheck, cond)},
        {g->extents.data, g->extents.len, sizeof(GraphExtent), offsetof(GraphExtent, value)},
        {g->lives.data, g->lives.len, sizeof(GraphLive), offsetof(GraphLive, size)},
        {g->states.data, g->states.len, sizeof(GraphState), offsetof(GraphState, node)},
        {g->inputs.data, g->inputs.len, sizeof(NodeId), 0},
        {&g->page, 1, sizeof(NodeId), 0},
    };
    return lists[list];
}

bool graph_next_root(const Graph *g, uint32_t kinds, RootWalk *w)
{
    rlx_assert((kinds & ~(uint32_t)ROOT_ALL) == 0);
    for (; w->list < ROOT_LISTS; w->list++, w->next = 0) {
        const RootList l = root_list(g, w->list);
        while ((kinds >> w->list & 1) != 0 && w->next < l.len) {
            memcpy(&w->id, (const char *)l.entries + w->next++ * l.entry_bytes + l.offset, sizeof w->id);
            if (w->id != 0)
                return true;
        }
    }
    return false;
}

// Marks what the nodes that are marked depend on.
static void graph_mark_operands(const Graph *g, bool *is_needed)
{
    for (NodeId id = g->nodes.len; id-- > 1;) {
        const Node *n = graph_node(g, id);
        for (uint32_t i = 0; is_needed[id] && i < n->n_src; i++)
            is_needed[n->src[i]] = true;
    }
    is_needed[0] = false;
}

bool *graph_mark_needed(const Graph *g, uint32_t kinds, Arena *a)
{
    rlx_assert(kinds != 0);
    bool *is_needed = ARENA_ARRAY(a, bool, g->nodes.len);
    for (RootWalk w = {0}; graph_next_root(g, kinds, &w);)
        is_needed[w.id] = true;
    graph_mark_operands(g, is_needed);
    return is_needed;
}

// Sizes of nodes that are needed. True if there is a new one.
static bool mark_sizes(const Graph *g, bool *is_live)
{
    bool any = false;
    for (uint32_t i = 0; i < g->lives.len; i++) {
        const GraphLive *v = &g->lives.data[i];
        any = any || (is_live[v->node] && !is_live[v->size]);
        is_live[v->size] |= is_live[v->node];
    }
    return any;
}

bool *graph_mark_live(const Graph *g, Arena *a)
{
    bool *is_live = graph_mark_needed(g, ROOT_ALL & ~ROOT_SIZE, a);
    while (mark_sizes(g, is_live))
        graph_mark_operands(g, is_live);
    return is_live;
}

uint32_t *graph_count_uses(const Graph *g, Arena *a)
{
    uint32_t *uses = ARENA_ARRAY(a, uint32_t, g->nodes.len);
    for (NodeId id = 1; id < g->nodes.len; id++) {
        const Node *n = graph_node(g, id);
        for (uint32_t i = 0; i < n->n_src; i++)
            uses[n->src[i]]++;
    }
    for (RootWalk w = {0}; graph_next_root(g, ROOT_RESULTS | ROOT_EXTENT, &w);)
        uses[w.id]++;
    uses[0] = 0; // absent operands
    return uses;
}
