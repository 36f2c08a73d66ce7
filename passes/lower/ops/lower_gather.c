// SPDX-License-Identifier: Apache-2.0
// gather: slices of operand 0 chosen by an integer tensor. Vectors run along the axes after the chosen one
// (rows of a table). Where slices are single elements, the indices may be computed here.
#include "ir/machine/machine.h"
#include "passes/lower/operand.h"
#include "passes/lower/product/table.h"
#include "passes/lower/wide.h"

#include <stdlib.h>

typedef struct Gather {
    NodeId x, index;
    uint32_t axis, index_rank;
    uint32_t table; // 1 + the parameter of a table that a product reads too; 0: it is none
} Gather;

enum { MAX_NARROW_ROWS = 1 << 30, PLACES = 64 };

// A row, clamped to those that there are, of which those below 0 count from the end. Where elements are read
// one by one, in 32 bits if that is enough, so that C compilers make vectors of it. They make none of a
// choice of two indices, which becomes a choice of two loads: so n is masked by the sign.
static KRef clamped_row(const Lower *l, KRef row, int dtype, int64_t n, uint8_t lanes)
{
    Kernel *k = l->k;
    const bool is_signed = dtype_info[dtype].cls != DCLASS_UINT;
    const bool is_narrow = caps_have_vectors(l->caps) && lanes == 1 && n <= MAX_NARROW_ROWS;
    const int plain = is_narrow ? (int)DTYPE_i32 : (int)KT_INDEX;
    const int type = dtype_info[dtype].bytes == 8 || (is_narrow && dtype == DTYPE_u32) ? dtype : plain;
    KRef v = k_cast(k, row, type);
    if (is_signed)
        v = k_max(k, v, k_integer(k, type, -n));
    v = k_min(k, v, k_integer(k, type, n - 1));
    if (!is_narrow) {
        v = k_cast(k, v, KT_INDEX);
        return is_signed ? k_select(k, k_expr(k, "$ < 0", v), k_expr(k, "$ + #", v, n), v) : v;
    }
    v = k_cast(k, v, DTYPE_i32);
    if (is_signed) {
        const KRef sign = k_op(k, KOP_shr, v, k_integer(k, DTYPE_i32, 31), 0);
        v = k_add(k, v, k_op(k, KOP_and, sign, k_integer(k, DTYPE_i32, n), 0));
    }
    return k_cast(k, v, KT_INDEX);
}

// The row that a point gets.
static KRef row_chosen(Lower *l, const Gather *g, const Domain *d, const Point *at, int64_t n)
{
    Kernel *k = l->k;
    const int dtype = lower_node(l, g->index)->dtype;
    rlx_assert(n > 0 && shape_numel(lower_node(l, g->index)->shape) > 0);
    if (!pull_is_computed(l, g->index)) {
        const KRef place = operand_index(l, g->index, &at->idx[g->axis]);
        const KRef row = k_load(k, lower_param(l, g->index, PARAM_READ), place, 1, 1);
        return clamped_row(l, row, dtype, n, at->lanes);
    }
    rlx_assert(at->lanes == 1);
    Pull p = pull_at(l, d, *at);
    return clamped_row(l, pull_value(&p, g->index), dtype, n, at->lanes);
}

// The index in the operand of the element that a point gets.
static KRef index_chosen(Lower *l, const Gather *g, const Domain *d, const Point *at)
{
    const Shape *s = lower_node(l, g->x)->shape;
    const int64_t n = s->dim[g->axis];
    KRef idx[SHAPE_MAX_RANK];
    for (uint32_t i = 0; i < g->axis; i++)
        idx[i] = at->idx[i];
    for (uint32_t i = g->axis + 1; i < s->rank; i++)
        idx[i] = at->idx[i + g->index_rank - 1];
    idx[g->axis] = row_chosen(l, g, d, at, n);
    return operand_index(l, g->x, idx);
}

static KRef gather_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Gather *g = ctx;
    if (g->table != 0)
        return table_load(l, g->table - 1, index_chosen(l, g, d, &at), at.lanes, at.count);
    return operand_load(l, g->x, index_chosen(l, g, d, &at), &at, 1);
}

// Threads of GPUs have whole vectors of a row, for which one index is read.
static bool wide_gather(Lower *l, const Gather *g, uint32_t inner, uint32_t of_x)
{
    Domain d = domain_of_root(l);
    Point at = {.lanes = 1, .count = 1};
    uint32_t opened = 0;
    Wide w;
    if (!l->caps->is_gpu || d.rank == 0 || shape_numel(lower_node(l, g->x)->shape) == 0)
        return false;
    const uint32_t piece = wide_operand_piece(l, g->x, of_x);
    if (piece == 0 || !wide_begin(l, &d, inner, &w, &at, &opened))
        return false;
    const KRef held = k_array(l->k, lower_node(l, g->x)->dtype, w.n);
    wide_load(l, lower_param(l, g->x, PARAM_READ), index_chosen(l, g, &d, &at), held, 0,
              (WideSpan){.n = w.n, .piece = piece});
    wide_finish_held(l, &w, at, opened, held);
    return true;
}

// Single elements of GPUs, of which a thread has several under way, whose neighbours are those of its
// neighbours.
static bool gather_several(Lower *l, const Gather *g, uint32_t inner)
{
    enum { BYTES = 16, MOST = 8 };
    Kernel *k = l->k;
    Domain d = domain_of_root(l);
    const int type = lower_node(l, g->x)->dtype;
    const int64_t all = shape_numel(lower_node(l, l->root)->shape);
    int64_t n = MOST;
    if (!l->caps->is_gpu || l->caps->shared_bytes == 0 || d.rank == 0 || inner + 1 != d.rank ||
        d.has_out_space || g->table != 0 || k_fetch_width(type) == 0 ||
        shape_numel(lower_node(l, g->x)->shape) == 0)
        return false;
    for (uint32_t i = 0; i < d.rank; i++)
        if (d.live[i].size != 0)
            return false;
    const int64_t threads = (int64_t)gpu_about_threads(l->caps->gpu);
    while (n > 1 && (n * dtype_info[type].bytes > BYTES || 2 * all < n * threads)) // half of them have some
        n /= 2;
    if (n == 1 || all > INT32_MAX - n * WIDE_GROUP) // indices of the last group go beyond all elements
        return false;
    if (pull_is_computed(l, g->index))
        domain_add_operands(l, &d, g->index);
    k_set_group(k, WIDE_GROUP);
    const KRef part = k_for_group(k, ceil_div(all, n * WIDE_GROUP), "part");
    const KRef first = k_expr(k, "$ * # + $", part, n * WIDE_GROUP, k_thread(k)), held = k_array(k, type, n);
    KRef j = k_loop(k, n, KFOR_UNROLL, "j");
    const Point from = domain_point(l->k, &d, k_expr(k, "min($ * # + $, #)", j, WIDE_GROUP, first, all - 1));
    k_astore(k, held, j, operand_load(l, g->x, index_chosen(l, g, &d, &from), &from, 1));
    k_end(k);
    j = k_loop(k, n, KFOR_UNROLL, "j");
    const KRef number = k_expr(k, "$ * # + $", j, WIDE_GROUP, first);
    k_if(k, k_expr(k, "$ < #", number, all));
    pull_store_root(l, &d, domain_point(l->k, &d, number), k_aload(k, held, j, 1));
    k_ends(k, 3);
    return true;
}

typedef struct GatherRow {
    const Gather *g;
    KRef first;     // a variable: index of the row's first element
    uint32_t inner; // axis of the elements of a row
} GatherRow;

static void move_element(Lower *l, const Domain *d, Point at, void *ctx)
{
    const GatherRow *r = ctx;
    const KRef index = k_add(l->k, k_get(l->k, r->first), at.idx[r->inner]);
    pull_store_root(l, d, at, operand_load(l, r->g->x, index, &at, 1));
}

// Rows whose elements are next to each other: one index is read for each.
static bool gather_rows(Lower *l, const Gather *g, uint32_t inner, uint32_t of_x)
{
    Domain d = domain_of_root(l);
    Point at = {.lanes = 1, .count = 1};
    uint32_t opened = 0;
    if (l->caps->is_gpu || l->caps->prefers_ints || d.rank == 0 || pull_is_computed(l, g->index) ||
        shape_numel(lower_node(l, g->x)->shape) == 0 || !operand_is_dense(l, g->x, of_x))
        return false;
    const bool has_vectors = operand_has_vectors(l, g->x, of_x) || l->root == l->anchor;
    const uint8_t lanes = has_vectors ? operand_moved_lanes(l, &d, inner, g->x) : 1;
    for (uint32_t i = 0; i < d.rank; i++)
        if (i != inner)
            opened += lower_open_axis(l, &d, i, KFOR_PARALLEL, &at);
    at.idx[inner] = k_index(l->k, 0);
    GatherRow row = {.g = g, .first = k_var(l->k, index_chosen(l, g, &d, &at), "from"), .inner = inner};
    lower_along(l, &d, inner, lanes, at, move_element, &row);
    lower_close(l, opened);
    return true;
}

// Elements of a row of the result.
typedef struct GatherSpan {
    KRef first;
    int64_t n;
} GatherSpan;

static void gather_places(Lower *l, const Gather *g, const Domain *d, Point at, uint32_t inner,
                          GatherSpan span)
{
    Kernel *k = l->k;
    const KRef places = k_array(k, DTYPE_i32, span.n);
    KRef j = k_loop(k, span.n, KFOR_SERIAL, "j");
    at.idx[inner] = k_add(k, span.first, j);
    k_astore(k, places, j, k_cast(k, index_chosen(l, g, d, &at), DTYPE_i32));
    k_end(k);
    j = k_loop(k, span.n, KFOR_SERIAL, "j");
    at.idx[inner] = k_add(k, span.first, j);
    pull_store_root(l, d, at, operand_load(l, g->x, k_cast(k, k_aload(k, places, j, 1), KT_INDEX), &at, 1));
    k_end(k);
}

// Single elements: the places of a block first, of which C compilers make vectors, then the elements, which
// they load one by one. In one loop, elements of 8 and 16 bits would keep both from being vectors, and those
// of 32 bits would be gathered by instructions that are slower than loads.
static bool gather_singly(Lower *l, const Gather *g, uint32_t inner)
{
    Kernel *k = l->k;
    const Shape *s = lower_node(l, g->x)->shape;
    int64_t reach = 1;
    for (uint32_t i = 0; i < s->rank; i++)
        reach += (s->dim[i] - 1) * llabs(lower_loc(l, g->x)->stride[i]);
    Domain d = domain_of_root(l);
    Point at = {.lanes = 1, .count = 1};
    uint32_t opened = 0;
    if (l->caps->is_gpu || l->caps->prefers_ints || l->caps->f32_lanes == 1 || d.rank == 0 || g->table != 0 ||
        l->strip.window != NULL || d.live[inner].size != 0 || d.extent[inner] < PLACES ||
        shape_numel(s) == 0 || reach > MAX_NARROW_ROWS)
        return false;
    if (pull_is_computed(l, g->index))
        domain_add_operands(l, &d, g->index);
    for (uint32_t i = 0; i < d.rank; i++)
        if (i != inner)
            opened += lower_open_axis(l, &d, i, KFOR_PARALLEL, &at);
    const int64_t n = d.extent[inner], whole = n - n % PLACES;
    const KRef first = k_for(k, k_index(k, 0), k_index(k, whole), PLACES, KFOR_PARALLEL, "p");
    gather_places(l, g, &d, at, inner, (GatherSpan){first, PLACES});
    k_end(k);
    if (whole < n)
        gather_places(l, g, &d, at, inner, (GatherSpan){k_index(k, whole), n - whole});
    lower_close(l, opened);
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
    if (is_after && g.axis == 0 && table_is_shared(l, g.x))
        g.table = 1 + table_param(l, g.x);
    if (is_after && g.table == 0 && gather_rows(l, &g, inner, of_x))
        return;
    if (!is_after && !is_before && gather_singly(l, &g, inner))
        return;
    if (gather_several(l, &g, inner))
        return;
    const bool has_vectors = (is_after || is_before) && operand_has_vectors(l, g.x, of_x);
    lower_map(l, gather_point, &g, has_vectors ? MAP_VECTOR : MAP_SCALAR);
}
