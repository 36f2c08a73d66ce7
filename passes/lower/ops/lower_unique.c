// SPDX-License-Identifier: Apache-2.0
// unique: sorts the rows, then numbers the groups of equal ones; for the order of appearance the groups are
// numbered again in the order of their first rows.
#include "passes/lower/ops/sort.h"

typedef struct Unique {
    NodeId x, inverse, counts, count; // result nodes; 0 = nobody asks
    int64_t n, m, size;
    KRef live;
    uint32_t scratch; // i32: order of the rows (2n), group of every row (n), first row of every group (n)
} Unique;

static KRef load(Lower *l, const Unique *u, KRef row, KRef column)
{
    const KRef idx[2] = {row, column};
    const int dtype = lower_node(l, u->x)->dtype;
    const KRef v = k_load(l->k, lower_param(l, u->x, PARAM_READ), operand_index(l, u->x, idx), 1, 1);
    return k_cast(l->k, v, dtype == DTYPE_bool ? (int)KT_INDEX : operand_sum_type(dtype));
}

// NaN is larger than all numbers and equals NaN.
static KRef is_less(Kernel *k, KRef a, KRef b)
{
    const KRef less = k_lt(k, a, b);
    const int type = k_inst(k, a)->dtype;
    if (type == KT_INDEX || dtype_info[type].cls != DCLASS_FLOAT)
        return less;
    const KRef a_is_number = k_eq(k, a, a), b_is_nan = k_ne(k, b, b);
    return k_expr(k, "$ & ($ | $)", a_is_number, less, b_is_nan);
}

// Rows beyond those that count go last.
static KRef comes_before(Lower *l, void *ctx, KRef a, KRef b)
{
    const Unique *u = ctx;
    Kernel *k = l->k;
    const KRef zero = k_index(k, 0), one = k_index(k, 1);
    const KRef a_counts = k_lt(k, a, u->live), b_counts = k_lt(k, b, u->live);
    const KRef both = k_and(k, a_counts, b_counts);
    const KRef order = k_var(k, zero, "order"); // 0 equal so far, 1 before, 2 after
    const KRef column = k_for(k, zero, k_index(k, u->m), 1, KFOR_SERIAL, "c");
    k_if(k, k_expr(k, "$ & $ == $", both, k_get(k, order), zero));
    const KRef x = load(l, u, a, column), y = load(l, u, b, column);
    const KRef after = k_select(k, is_less(k, y, x), k_index(k, 2), zero);
    k_set(k, order, k_select(k, is_less(k, x, y), one, after));
    k_ends(k, 2);
    const KRef decided = k_eq(k, k_get(k, order), one);
    const KRef only_a = k_and(k, a_counts, k_not(k, b_counts));
    return k_expr(k, "$ | $ & $", only_a, both, decided);
}

static KRef scratch_load(Lower *l, const Unique *u, KRef at)
{
    return k_cast(l->k, k_load(l->k, u->scratch, at, 1, 1), KT_INDEX);
}

static void scratch_store(Lower *l, const Unique *u, KRef at, KRef v)
{
    k_store(l->k, u->scratch, at, k_cast(l->k, v, DTYPE_i32), 1);
}

static void store(Lower *l, NodeId result, KRef at, KRef v)
{
    if (result != 0)
        k_store(l->k, lower_param(l, result, PARAM_READ_WRITE), operand_index(l, result, &at),
                k_cast(l->k, v, DTYPE_i64), 1);
}

static void clear(Lower *l, NodeId result, int64_t n)
{
    Kernel *k = l->k;
    if (result == 0)
        return;
    const KRef i = k_loop(k, n, KFOR_SERIAL, "i");
    store(l, result, i, k_index(k, 0));
    k_end(k);
}

// Numbers the groups along the sorted rows: the group of every row, and the first row of every group.
static KRef number_groups(Lower *l, Unique *u, KRef sorted)
{
    Kernel *k = l->k;
    const KRef one = k_index(k, 1);
    const KRef groups = k_var(k, k_index(k, 0), "groups"), last = k_var(k, k_index(k, 0), "last");
    const KRef t = k_for(k, k_index(k, 0), u->live, 1, KFOR_SERIAL, "t");
    const KRef row = scratch_load(l, u, k_add(k, sorted, t));
    const KRef is_new = k_var(k, k_expr(k, "$ == 0", t), "is_new");
    k_if(k, k_not(k, k_get(k, is_new)));
    k_set(k, is_new, comes_before(l, u, k_get(k, last), row));
    k_end(k);
    k_if(k, k_get(k, is_new));
    scratch_store(l, u, k_expr(k, "$ + #", k_get(k, groups), 3 * u->n), row);
    k_set(k, groups, k_add(k, k_get(k, groups), one));
    k_end(k);
    k_set(k, last, row);
    scratch_store(l, u, k_expr(k, "$ + #", row, 2 * u->n), k_sub(k, k_get(k, groups), one));
    k_end(k);
    return k_get(k, groups);
}

// The number of every group in the order of appearance, where the sorted order was: that is not needed any
// more.
static void number_again(Lower *l, Unique *u)
{
    Kernel *k = l->k;
    const KRef next = k_var(k, k_index(k, 0), "next");
    const KRef row = k_for(k, k_index(k, 0), u->live, 1, KFOR_SERIAL, "row");
    const KRef group = scratch_load(l, u, k_expr(k, "$ + #", row, 2 * u->n));
    const KRef first = scratch_load(l, u, k_expr(k, "$ + #", group, 3 * u->n));
    k_if(k, k_eq(k, first, row));
    scratch_store(l, u, group, k_get(k, next));
    k_set(k, next, k_expr(k, "$ + 1", k_get(k, next)));
    k_ends(k, 2);
}

static void write_results(Lower *l, Unique *u, bool is_sorted)
{
    Kernel *k = l->k;
    clear(l, l->root, u->size);
    clear(l, u->counts, u->size);
    clear(l, u->inverse, u->n);
    const KRef row = k_for(k, k_index(k, 0), u->live, 1, KFOR_SERIAL, "row");
    const KRef group = scratch_load(l, u, k_expr(k, "$ + #", row, 2 * u->n));
    const KRef first = scratch_load(l, u, k_expr(k, "$ + #", group, 3 * u->n));
    const KRef number = is_sorted ? group : scratch_load(l, u, group);
    store(l, u->inverse, row, number);
    k_if(k, k_expr(k, "$ < #", number, u->size));
    store(l, l->root, number, first);
    if (u->counts != 0) {
        const KRef old = k_load(k, lower_param(l, u->counts, PARAM_READ_WRITE),
                                operand_index(l, u->counts, &number), 1, 1);
        store(l, u->counts, number, k_add(k, old, k_integer(k, DTYPE_i64, 1)));
    }
    k_ends(k, 2);
}

void lower_unique(Lower *l)
{
    Kernel *k = l->k;
    const Node *n = lower_node(l, l->anchor);
    const Shape *x = lower_node(l, n->src[0])->shape;
    rlx_assert(x->rank == 2);
    Unique u = {.x = n->src[0],
                .inverse = lower_find_result(l, 1),
                .counts = lower_find_result(l, 2),
                .count = lower_find_result(l, 3),
                .n = x->dim[0],
                .m = x->dim[1],
                .size = n->shape->dim[0]};
    const bool is_sorted = node_get_int(n, A_unique_sorted) != 0;
    u.live = n->n_src > 1 && n->src[1] != 0 ? operand_clamped(l, n->src[1], k_index(k, 0), 0, u.n)
                                            : k_index(k, u.n);
    KRef groups = k_index(k, 0);
    if (u.n > 0) {
        u.scratch = lower_param_scratch(l, "order", DTYPE_i32, (uint64_t)(4 * u.n));
        const Sort s = {
            .before = comes_before, .ctx = &u, .n = u.n, .scratch = u.scratch, .base = k_index(k, 0)};
        groups = number_groups(l, &u, sort_positions(l, &s));
        if (!is_sorted)
            number_again(l, &u);
        write_results(l, &u, is_sorted);
    } else {
        clear(l, l->root, u.size);
        clear(l, u.counts, u.size);
    }
    if (u.count != 0)
        store(l, u.count, k_index(k, 0), k_expr(k, "min($, #)", groups, u.size));
}
