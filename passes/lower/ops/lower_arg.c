// SPDX-License-Identifier: Apache-2.0
// argmax and argmin: one scalar search along the axis for every result, on GPUs shared by a group of threads.
// The first of equal values wins, and the first NaN over all.
#include "passes/lower/operand.h"

#include <math.h>

typedef struct Search {
    NodeId x;
    uint32_t axis;
    bool keeps_axis;
    bool finds_largest;
} Search;

// better(v, best), or v is the first NaN.
static KRef is_better(Kernel *k, const Search *s, KRef v, KRef best)
{
    const KRef wins = s->finds_largest ? k_lt(k, best, v) : k_lt(k, v, best);
    if (dtype_info[k_inst(k, v)->dtype].cls != DCLASS_FLOAT)
        return wins;
    const KRef v_is_nan = k_ne(k, v, v), best_is_number = k_eq(k, best, best);
    return k_expr(k, "$ & ($ | $)", best_is_number, v_is_nan, wins);
}

// From the place that idx says on, every `step` elements.
static void search_part(Lower *l, const Search *s, KRef *idx, int64_t step, KRef *best, KRef *place)
{
    Kernel *k = l->k;
    const uint32_t param = lower_param(l, s->x, PARAM_READ);
    const KRef top = k_var(k, k_load(k, param, operand_index(l, s->x, idx), 1, 1), "best");
    const KRef where = k_var(k, idx[s->axis], "place");
    const KRef second = k_expr(k, "$ + #", idx[s->axis], step),
               end = k_index(k, lower_node(l, s->x)->shape->dim[s->axis]);
    idx[s->axis] = k_for(k, second, end, step, KFOR_SERIAL, "r");
    const KRef v = k_load(k, param, operand_index(l, s->x, idx), 1, 1);
    k_if(k, is_better(k, s, v, k_get(k, top)));
    k_set(k, top, v);
    k_set(k, where, idx[s->axis]);
    k_end(k);
    k_end(k);
    *best = k_get(k, top);
    *place = k_get(k, where);
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
    KRef best, place;
    search_part(l, s, idx, 1, &best, &place);
    return k_cast(k, place, DTYPE_i64);
}

// --- a group of threads a row, on GPUs -------------------------------------------------------------

enum { SEARCH_LEAST = 64, SEARCH_THREADS = 256, SEARCH_FEW_ROWS = 2 }; // rows of each processor

static uint32_t search_threads(const Lower *l, int64_t rows, int64_t n)
{
    const uint32_t most =
        rows < SEARCH_FEW_ROWS * l->caps->gpu->processors ? l->caps->group_threads : SEARCH_THREADS;
    uint32_t threads = 32;
    while (2 * threads <= most && 2 * threads <= n)
        threads *= 2;
    return threads;
}

// Each thread found the first of the best in its part of the row; this is the first of the
// best.
static KRef join_places(Lower *l, const Search *s, KRef best, KRef place, uint32_t threads)
{
    Kernel *k = l->k;
    const int type = k_inst(k, best)->dtype;
    const KRef nowhere = k_integer(k, DTYPE_i32, INT32_MAX), own = k_cast(k, place, DTYPE_i32);
    const KOp op = s->finds_largest ? KOP_max : KOP_min;
    if (dtype_info[type].cls != DCLASS_FLOAT) {
        const KRef top = k_team(k, op, best, threads);
        return k_team(k, KOP_min, k_select(k, k_eq(k, best, top), own, nowhere), threads);
    }
    const KRef is_nan = k_ne(k, best, best);
    const KRef worst = k_number(k, type, s->finds_largest ? -(double)INFINITY : (double)INFINITY);
    const KRef top = k_team(k, op, k_select(k, is_nan, worst, best), threads);
    const KRef of_top = k_select(k, k_eq(k, best, top), own, nowhere);
    const KRef first = k_team(k, KOP_min, of_top, threads),
               nan = k_team(k, KOP_min, k_select(k, is_nan, own, nowhere), threads);
    return k_select(k, k_eq(k, nan, nowhere), first, nan);
}

static bool search_in_groups(Lower *l, const Search *s)
{
    Kernel *k = l->k;
    const Shape *shape = lower_node(l, s->x)->shape;
    const int64_t n = shape->dim[s->axis];
    Domain d = domain_of(lower_node(l, l->root)->shape);
    int64_t rows = 1;
    bool is_live = false;
    domain_trim(l, &d, l->root);
    for (uint32_t i = 0; i < d.rank; i++) {
        rows *= d.extent[i];
        is_live = is_live || d.live[i].size != 0;
    }
    if (!l->caps->is_gpu || l->caps->shared_bytes == 0 || n < SEARCH_LEAST || n >= INT32_MAX || rows == 0 ||
        is_live || lower_loc(l, s->x)->stride[s->axis] != 1 || lower_node(l, s->x)->dtype == DTYPE_bool)
        return false;
    domain_add(l, &d, l->root);
    domain_add_operands(l, &d, l->root);
    const uint32_t threads = search_threads(l, rows, n);
    Point at = {.lanes = 1, .count = 1};
    KRef idx[SHAPE_MAX_RANK];
    k_set_group(k, threads);
    KRef rest = k_for_group(k, rows, "row");
    for (uint32_t i = d.rank; i-- > 0; rest = k_expr(k, "$ / #", rest, d.extent[i]))
        at.idx[i] = k_expr(k, "$ % #", rest, d.extent[i]);
    for (uint32_t i = 0, from = 0; i < shape->rank; i++) {
        idx[i] = i == s->axis ? k_thread(k) : at.idx[from];
        from += i == s->axis && !s->keeps_axis ? 0 : 1;
    }
    KRef best, place;
    search_part(l, s, idx, threads, &best, &place);
    const KRef found = join_places(l, s, best, place, threads);
    k_if(k, k_expr(k, "$ == 0", k_thread(k)));
    pull_store_root(l, &d, at, k_cast(k, found, DTYPE_i64));
    k_end(k);
    k_end(k);
    return true;
}

static void lower_search(Lower *l, AttrId axis, AttrId keepdims, bool finds_largest)
{
    rlx_assert(l->anchor != 0 && lower_node(l, l->anchor)->n_src >= 1);
    const Node *n = lower_node(l, l->anchor);
    Search s = {.x = n->src[0],
                .axis = (uint32_t)node_get_int(n, axis),
                .keeps_axis = node_get_int(n, keepdims) != 0,
                .finds_largest = finds_largest};
    if (!search_in_groups(l, &s))
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
