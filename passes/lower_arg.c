// SPDX-License-Identifier: Apache-2.0
// argmax and argmin: one scalar search along the axis for every result. The first of equal values wins, and
// the first NaN over all.
#include "passes/operand.h"

typedef struct Search {
    NodeId x;
    uint32_t axis;
    bool keeps_axis;
    bool finds_largest;
} Search;

// better(v, best), or v is the first NaN.
static KRef is_better(Kernel *k, const Search *s, KRef v, KRef best)
{
    const KRef wins = s->finds_largest ? k_op(k, KOP_lt, best, v, 0) : k_op(k, KOP_lt, v, best, 0);
    if (dtype_info[k_inst(k, v)->dtype].cls != DCLASS_FLOAT)
        return wins;
    const KRef v_is_nan = k_op(k, KOP_ne, v, v, 0), best_is_number = k_op(k, KOP_eq, best, best, 0);
    return k_op(k, KOP_and, best_is_number, k_op(k, KOP_or, v_is_nan, wins, 0), 0);
}

static KRef search_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Search *s = ctx;
    Kernel *k = l->k;
    const Shape *shape = lower_node(l, s->x)->shape;
    KRef idx[SHAPE_MAX_RANK];
    (void)d;
    for (uint32_t i = 0, from = 0; i < shape->rank; i++) {
        const bool is_searched = i == s->axis;
        idx[i] = is_searched ? k_index(k, 0) : at.idx[from];
        from += is_searched && !s->keeps_axis ? 0 : 1;
    }
    const uint32_t param = lower_param(l, s->x, PARAM_READ);
    const KRef best = k_var(k, k_load(k, param, operand_index(l, s->x, idx), 1, 1), "best");
    const KRef place = k_var(k, k_index(k, 0), "place");
    idx[s->axis] = k_for(k, k_index(k, 1), k_index(k, shape->dim[s->axis]), 1, KFOR_SERIAL, "r");
    const KRef v = k_load(k, param, operand_index(l, s->x, idx), 1, 1);
    k_if(k, is_better(k, s, v, k_get(k, best)));
    k_set(k, best, v);
    k_set(k, place, idx[s->axis]);
    k_end(k);
    k_end(k);
    return k_cast(k, k_get(k, place), DTYPE_i64);
}

static void lower_search(Lower *l, AttrId axis, AttrId keepdims, bool finds_largest)
{
    const Node *n = lower_node(l, l->anchor);
    Search s = {.x = n->src[0],
                .axis = (uint32_t)node_get_int(n, axis),
                .keeps_axis = node_get_int(n, keepdims) != 0,
                .finds_largest = finds_largest};
    lower_map(l, search_point, &s, MAP_SCALAR);
}

void lower_argmax(Lower *l)
{
    lower_search(l, A_argmax_axis, A_argmax_keepdims, true);
}

void lower_argmin(Lower *l)
{
    lower_search(l, A_argmin_axis, A_argmin_keepdims, false);
}
