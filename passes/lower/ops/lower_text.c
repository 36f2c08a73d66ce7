// SPDX-License-Identifier: Apache-2.0
// dfa: every string is walked by one scalar loop. With `all`, every byte's state is found by a walk of its
// own: strings are short, and results need not be computed in order.
#include "passes/lower/operand.h"

typedef struct Dfa {
    NodeId x, classes, table;
    uint32_t rank; // of x
    bool all;
} Dfa;

static KRef dfa_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Dfa *s = ctx;
    Kernel *k = l->k;
    const Shape *x = lower_node(l, s->x)->shape, *table = lower_node(l, s->table)->shape;
    KRef idx[SHAPE_MAX_RANK], cell[2];
    (void)d;
    for (uint32_t i = 0; i + 1 < s->rank; i++)
        idx[i] = at.idx[i];
    const KRef end = s->all ? k_expr(k, "$ + 1", at.idx[s->rank - 1]) : k_index(k, x->dim[s->rank - 1]);
    const KRef state = k_var(k, k_index(k, 0), "state");
    idx[s->rank - 1] = k_for(k, k_index(k, 0), end, 1, KFOR_SERIAL, "r");
    const KRef byte = operand_scalar(l, s->x, operand_index(l, s->x, idx), KT_INDEX);
    cell[0] = k_get(k, state);
    cell[1] = operand_clamped(l, s->classes, operand_index(l, s->classes, &byte), 0, table->dim[1] - 1);
    k_set(k, state, operand_clamped(l, s->table, operand_index(l, s->table, cell), 0, table->dim[0] - 1));
    k_end(k);
    return k_cast(k, k_get(k, state), DTYPE_i32);
}

void lower_dfa(Lower *l)
{
    const Node *n = lower_node(l, l->anchor);
    rlx_assert(n->n_src >= 3);
    Dfa s = {.x = n->src[0],
             .classes = n->src[1],
             .table = n->src[2],
             .rank = lower_node(l, n->src[0])->shape->rank,
             .all = node_get_int(n, A_dfa_all) != 0};
    lower_map(l, dfa_point, &s, MAP_SCALAR);
}
