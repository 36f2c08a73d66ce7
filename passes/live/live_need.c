// SPDX-License-Identifier: Apache-2.0
// The second half of the analysis in live.h: from users to operands. Elements along an axis that no user
// reads because its own do not exist need not be computed, whatever they are made from: a mask of all
// positions that the model could be at is computed for the rows of this run only. Elementwise values are
// followed, which read from each operand just what is at their own place, and masks of attention.
#include "passes/live/live.h"

typedef struct Need {
    bool lasts; // made of parameters and constants only: computed once (prepare.h), whatever the sizes are
                // then
    enum { UNUSED, FIRST, ALL } kind[SHAPE_MAX_RANK];
    LiveRef end[SHAPE_MAX_RANK]; // FIRST: elements up to here are read
} Need;

static void needs_all(Need *n)
{
    for (uint32_t i = 0; i < SHAPE_MAX_RANK; i++)
        n->kind[i] = ALL;
}

static void merge(Need *n, uint32_t axis, const LiveRef *end)
{
    const bool is_same = n->kind[axis] == FIRST && end != NULL && live_equal(&n->end[axis], end);
    if (end == NULL || (n->kind[axis] != UNUSED && !is_same)) {
        n->kind[axis] = ALL;
        return;
    }
    n->kind[axis] = FIRST;
    n->end[axis] = *end;
}

// Does element i of the result along an axis read element i of operand k only?
static bool is_aligned(const Node *n, uint32_t k, uint32_t axis)
{
    if (n->op == OP_attention)
        return k == 3 && axis + 1 < n->shape->rank;
    return op_is_pointwise((OpId)n->op) || n->op == OP_copy;
}

static void need_operands(const Graph *g, const Node *n, const LiveFacts *facts, Need *need)
{
    for (uint32_t k = 0; k < n->n_src; k++) {
        const NodeId src = n->src[k];
        const Shape *s = graph_node(g, src)->shape;
        for (uint32_t i = 0; src != 0 && i < s->rank; i++) {
            const uint32_t axis = i + n->shape->rank - s->rank;
            const LiveAxis *a = facts != NULL && s->rank <= n->shape->rank ? &facts->axis[axis] : NULL;
            const bool ends = a != NULL && a->dead.size != 0 && a->fill.size == 0 &&
                              s->dim[i] == n->shape->dim[axis] && is_aligned(n, k, axis);
            merge(&need[src], i, ends ? &a->dead : NULL);
        }
    }
}

static bool lasts(const Graph *g, NodeId id, const Need *need)
{
    const Node *n = graph_node(g, id);
    bool all =
        op_info[n->op].kind != OPKIND_LEAF || n->op == OP_const || (n->op == OP_param && id != g->page);
    for (uint32_t i = 0; i < n->n_src; i++)
        all = all && (n->src[i] == 0 || need[n->src[i]].lasts);
    return all;
}

// The facts with what the users say, or the same.
static const LiveFacts *add_ends(const Node *n, const LiveFacts *facts, const Need *need, Arena *a)
{
    LiveFacts out = facts != NULL ? *facts : (LiveFacts){0};
    bool is_new = false;
    if (need->lasts)
        return facts;
    for (uint32_t i = 0; op_is_pointwise((OpId)n->op) && i < n->shape->rank; i++) {
        LiveAxis *x = &out.axis[i];
        if (need->kind[i] != FIRST || x->dead.size != 0 || x->fill.size != 0 || n->shape->dim[i] <= 1)
            continue;
        x->dead = need->end[i];
        is_new = true;
    }
    return is_new ? arena_copy(a, &out, sizeof out) : facts;
}

void live_follow_needs(const Graph *g, const LiveFacts **of, Arena *a)
{
    rlx_assert(of != NULL && g->nodes.len > 0);
    Arena scratch = {0};
    Need *need = ARENA_ARRAY(&scratch, Need, g->nodes.len);
    for (NodeId id = 1; id < g->nodes.len; id++)
        need[id].lasts = lasts(g, id, need);
    for (RootWalk w = {0}; graph_next_root(g, ROOT_RESULTS | ROOT_EXTENT | ROOT_SIZE, &w);)
        needs_all(&need[w.id]);
    for (NodeId id = g->nodes.len; id-- > 1;) {
        const Node *n = graph_node(g, id);
        of[id] = add_ends(n, of[id], &need[id], a);
        need_operands(g, n, of[id], need);
    }
    arena_free(&scratch);
}
