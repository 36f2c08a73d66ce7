// SPDX-License-Identifier: Apache-2.0
// top_k: per line of the axis, an insertion into a short list for few, else a merge sort of all positions.
#include "passes/lower/ops/sort.h"

enum { INSERT_MAX = 24 }; // longest list that is kept by insertion

typedef struct TopK {
    NodeId x, places; // places: the result node, 0 = nobody asks
    uint32_t axis;
    int64_t n, k;
    bool finds_largest;
    KRef idx[SHAPE_MAX_RANK]; // of the line
} TopK;

static KRef load(Lower *l, const TopK *t, KRef position)
{
    KRef idx[SHAPE_MAX_RANK];
    for (uint32_t i = 0; i < SHAPE_MAX_RANK; i++)
        idx[i] = i == t->axis ? position : t->idx[i];
    return k_load(l->k, lower_param(l, t->x, PARAM_READ), operand_index(l, t->x, idx), 1, 1);
}

// NaN is larger than all numbers.
static KRef comes_before(Lower *l, void *ctx, KRef a, KRef b)
{
    const TopK *t = ctx;
    Kernel *k = l->k;
    const int type = operand_sum_type(lower_node(l, t->x)->dtype);
    const KRef va = load(l, t, a), vb = load(l, t, b);
    KRef x = k_cast(k, va, type), y = k_cast(k, vb, type);
    if (type == DTYPE_bool) {
        x = k_cast(k, x, KT_INDEX);
        y = k_cast(k, y, KT_INDEX);
    }
    const KRef small = t->finds_largest ? y : x, large = t->finds_largest ? x : y;
    const KRef wins = k_lt(k, small, large);
    if (dtype_info[type].cls != DCLASS_FLOAT)
        return wins;
    const KRef small_is_number = k_eq(k, small, small);
    const KRef large_is_nan = k_ne(k, large, large);
    return k_expr(k, "$ & ($ | $)", small_is_number, wins, large_is_nan);
}

static void store(Lower *l, TopK *t, KRef rank, KRef position)
{
    Kernel *k = l->k;
    const KRef value = load(l, t, position);
    t->idx[t->axis] = rank;
    k_store(k, lower_param(l, l->root, PARAM_WRITE), operand_index(l, l->root, t->idx), value, 1);
    if (t->places != 0)
        k_store(k, lower_param(l, t->places, PARAM_WRITE), operand_index(l, t->places, t->idx),
                k_cast(k, position, DTYPE_i64), 1);
}

static void emit_line(Lower *l, TopK *t, Sort *s)
{
    Kernel *k = l->k;
    const bool inserts = t->k <= INSERT_MAX;
    const KRef sorted = inserts ? sort_first(l, s, t->k) : sort_positions(l, s);
    const KRef i = k_loop(k, t->k, KFOR_SERIAL, "i");
    const KRef at = inserts ? k_aload(k, sorted, i, 1) : k_load(k, s->scratch, k_add(k, sorted, i), 1, 1);
    store(l, t, i, k_cast(k, at, KT_INDEX));
    k_end(k);
}

void lower_top_k(Lower *l)
{
    const Node *n = lower_node(l, l->anchor);
    const Shape *x = lower_node(l, n->src[0])->shape;
    TopK t = {.x = n->src[0],
              .places = lower_find_result(l, 1),
              .axis = (uint32_t)node_get_int(n, A_top_k_axis),
              .finds_largest = node_get_int(n, A_top_k_largest) != 0};
    rlx_assert(t.axis < x->rank && n->shape->dim[t.axis] <= x->dim[t.axis]);
    t.n = x->dim[t.axis];
    t.k = n->shape->dim[t.axis];
    if (shape_numel(n->shape) == 0)
        return;
    Domain lines = domain_of(x);
    Point at = {.lanes = 1, .count = 1};
    uint32_t opened = 0;
    KRef line = k_index(l->k, 0);
    lines.extent[t.axis] = 1;
    for (uint32_t i = 0; i < lines.rank; i++) {
        opened += lower_open_axis(l, &lines, i, l->caps->is_gpu ? KFOR_PARALLEL : KFOR_SERIAL, &at);
        line = k_expr(l->k, "$ * # + $", line, lines.extent[i], at.idx[i]);
        t.idx[i] = at.idx[i];
    }
    Sort s = {.before = comes_before, .ctx = &t, .n = t.n, .base = k_index(l->k, 0)};
    if (t.k > INSERT_MAX) {
        const int64_t n_lines = l->caps->is_gpu ? shape_numel(x) / t.n : 1;
        s.scratch = lower_param_scratch(l, "order", DTYPE_i32, (uint64_t)(n_lines * sort_scratch(t.n)));
        if (l->caps->is_gpu)
            s.base = k_expr(l->k, "$ * #", line, sort_scratch(t.n));
    }
    emit_line(l, &t, &s);
    lower_close(l, opened);
}
