// SPDX-License-Identifier: Apache-2.0
// gather: slices of operand 0 chosen by an integer tensor. Vectors run along the axes after the chosen one
// (rows of a table).
#include "passes/lower/operand.h"

typedef struct Gather {
    NodeId x, index;
    uint32_t axis, index_rank;
} Gather;

static KRef gather_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Gather *g = ctx;
    Kernel *k = l->k;
    const Shape *s = lower_node(l, g->x)->shape;
    const int64_t n = s->dim[g->axis];
    KRef idx[SHAPE_MAX_RANK];
    (void)d;
    for (uint32_t i = 0; i < g->axis; i++)
        idx[i] = at.idx[i];
    for (uint32_t i = g->axis + 1; i < s->rank; i++)
        idx[i] = at.idx[i + g->index_rank - 1];
    const KRef chosen = operand_clamped(l, g->index, operand_index(l, g->index, &at.idx[g->axis]), -n, n - 1);
    const KRef from_end = k_expr(k, "$ < 0", chosen);
    idx[g->axis] = k_select(k, from_end, k_expr(k, "$ + #", chosen, n), chosen);
    return operand_load(l, g->x, operand_index(l, g->x, idx), &at, 1);
}

void lower_gather(Lower *l)
{
    const Node *n = lower_node(l, l->anchor);
    Gather g = {.x = n->src[0],
                .index = n->src[1],
                .axis = (uint32_t)node_get_int(n, A_gather_axis),
                .index_rank = lower_node(l, n->src[1])->shape->rank};
    rlx_assert(g.axis < lower_node(l, g.x)->shape->rank);
    const uint32_t inner = operand_map_axis(l);
    const bool is_after = inner >= g.axis + g.index_rank, is_before = inner < g.axis;
    const uint32_t of_x = is_before ? inner : inner + 1 - g.index_rank;
    const bool has_vectors = (is_after || is_before) && operand_has_vectors(l, g.x, of_x);
    lower_map(l, gather_point, &g, has_vectors ? MAP_VECTOR : MAP_SCALAR);
}
