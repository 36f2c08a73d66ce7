// SPDX-License-Identifier: Apache-2.0
// nonzero: one walk over all elements in row order, which keeps a counter.
#include "passes/lower/operand.h"

static KRef is_not_zero(Kernel *k, KRef v, int dtype)
{
    const int type = operand_sum_type(dtype);
    if (dtype == DTYPE_bool)
        return v;
    const KRef zero = dtype_info[type].cls == DCLASS_FLOAT ? k_number(k, type, 0) : k_integer(k, type, 0);
    return k_ne(k, k_cast(k, v, type), zero);
}

static void store_place(Lower *l, const KRef *place, uint32_t rank, KRef at)
{
    Kernel *k = l->k;
    const uint32_t param = lower_param(l, l->root, PARAM_WRITE);
    for (uint32_t i = 0; i < rank; i++) {
        const KRef idx[2] = {k_index(k, i), at};
        const KRef value = place ? k_cast(k, place[i], DTYPE_i64) : k_integer(k, DTYPE_i64, 0);
        k_store(k, param, operand_index(l, l->root, idx), value, 1);
    }
}

void lower_nonzero(Lower *l)
{
    Kernel *k = l->k;
    const NodeId x = lower_node(l, l->anchor)->src[0];
    const Shape *s = lower_node(l, x)->shape;
    rlx_assert(lower_node(l, l->root)->shape->rank == 2);
    const Domain d = domain_of(s);
    const KRef size = k_index(k, lower_node(l, l->root)->shape->dim[1]), zero = k_index(k, 0);
    Point at = {.lanes = 1, .count = 1};
    uint32_t opened = 0;
    const KRef found = k_var(k, zero, "found");
    if (shape_numel(s) > 0) {
        for (uint32_t i = 0; i < d.rank; i++)
            opened += lower_open_axis(l, &d, i, KFOR_SERIAL, &at);
        const KRef v = k_load(k, lower_param(l, x, PARAM_READ), operand_index(l, x, at.idx), 1, 1);
        const KRef has_room = k_lt(k, k_get(k, found), size);
        k_if(k, k_and(k, is_not_zero(k, v, lower_node(l, x)->dtype), has_room));
        store_place(l, at.idx, d.rank, k_get(k, found));
        k_set(k, found, k_expr(k, "$ + 1", k_get(k, found)));
        k_end(k);
        lower_close(l, opened);
    }
    const KRef rest = k_for(k, k_get(k, found), size, 1, KFOR_SERIAL, "rest");
    store_place(l, NULL, d.rank, rest);
    k_end(k);
}
