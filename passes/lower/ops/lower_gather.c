// SPDX-License-Identifier: Apache-2.0
// gather: slices of operand 0 chosen by an integer tensor. Vectors run along the axes after the chosen one
// (rows of a table).
#include "passes/lower/operand.h"
#include "passes/lower/wide.h"

typedef struct Gather {
    NodeId x, index;
    uint32_t axis, index_rank;
} Gather;

// The index in the operand of the element that a point gets.
static KRef index_chosen(Lower *l, const Gather *g, const Point *at)
{
    Kernel *k = l->k;
    const Shape *s = lower_node(l, g->x)->shape;
    const int64_t n = s->dim[g->axis];
    KRef idx[SHAPE_MAX_RANK];
    for (uint32_t i = 0; i < g->axis; i++)
        idx[i] = at->idx[i];
    for (uint32_t i = g->axis + 1; i < s->rank; i++)
        idx[i] = at->idx[i + g->index_rank - 1];
    const KRef place = operand_index(l, g->index, &at->idx[g->axis]);
    const KRef chosen = operand_clamped(l, g->index, place, -n, n - 1);
    const KRef from_end = k_expr(k, "$ < 0", chosen);
    idx[g->axis] = k_select(k, from_end, k_expr(k, "$ + #", chosen, n), chosen);
    return operand_index(l, g->x, idx);
}

static KRef gather_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Gather *g = ctx;
    (void)d;
    return operand_load(l, g->x, index_chosen(l, g, &at), &at, 1);
}

// Threads of GPUs have whole vectors of a row, for which one index is read.
static bool wide_gather(Lower *l, const Gather *g, uint32_t inner, uint32_t of_x)
{
    Domain d = domain_of(lower_node(l, l->root)->shape);
    Point at = {.lanes = 1, .count = 1};
    uint32_t opened = 0;
    Wide w;
    if (!l->caps->is_gpu || d.rank == 0 || shape_numel(lower_node(l, g->x)->shape) == 0)
        return false;
    domain_trim(l, &d, l->root);
    domain_add(l, &d, l->root);
    domain_add_operands(l, &d, l->root);
    const uint32_t piece = wide_operand_piece(l, g->x, of_x);
    if (piece == 0 || !wide_begin(l, &d, inner, &w, &at, &opened))
        return false;
    const KRef held = k_array(l->k, lower_node(l, g->x)->dtype, w.n);
    wide_load(l, lower_param(l, g->x, PARAM_READ), index_chosen(l, g, &at), held, 0,
              (WideSpan){.n = w.n, .piece = piece});
    wide_finish_held(l, &w, at, opened, held);
    return true;
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
    if ((is_after || is_before) && wide_gather(l, &g, inner, of_x))
        return;
    const bool has_vectors = (is_after || is_before) && operand_has_vectors(l, g.x, of_x);
    lower_map(l, gather_point, &g, has_vectors ? MAP_VECTOR : MAP_SCALAR);
}
