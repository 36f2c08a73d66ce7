// SPDX-License-Identifier: Apache-2.0
// argmax and argmin on GPUs: the threads of a group share an axis, each with a part of it, and then find the
// best of all and its first place. Where elements lie apart, neighbouring threads have neighbouring results.
#include "ir/machine/machine.h"
#include "passes/lower/ops/arg.h"

#include <math.h>

enum {
    LEAST = 64,       // elements along the axis
    THREADS = 256,
    FEW_ROWS = 2,     // rows of each processor
    APART_ROWS = 32,  // below that, even elements that lie apart are shared among threads
    NEIGHBOURS = 32,  // results of a group,
    OF_PART = 4,      // of each of which a thread has so many elements at least,
    RESULTS_SHARE = 4 // where results are so many times fewer than threads
};

static uint32_t search_threads(const Lower *l, int64_t rows, int64_t n)
{
    const uint32_t most =
        rows < FEW_ROWS * l->caps->gpu->processors ? l->caps->group_threads : THREADS;
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

// The results: a domain of the root without what is beyond its live elements. False: there are none, or a run
// decides how many there are.
static bool read_results(Lower *l, const Search *s, Domain *d, int64_t *rows)
{
    const int64_t n = lower_node(l, s->x)->shape->dim[s->axis];
    bool is_live = false;
    *d = domain_of(lower_node(l, l->root)->shape);
    domain_trim(l, d, l->root);
    *rows = 1;
    for (uint32_t i = 0; i < d->rank; i++) {
        *rows *= d->extent[i];
        is_live = is_live || d->live[i].size != 0;
    }
    return l->caps->is_gpu && l->caps->shared_bytes != 0 && n >= LEAST && n < INT32_MAX && *rows != 0 &&
           !is_live && lower_node(l, s->x)->dtype != DTYPE_bool;
}

// The place of a part of x that belongs to a result.
static void place_part(const Lower *l, const Search *s, const Point *at, KRef part, KRef *idx)
{
    const uint32_t rank = lower_node(l, s->x)->shape->rank;
    for (uint32_t i = 0, from = 0; i < rank; i++) {
        idx[i] = i == s->axis ? part : at->idx[from];
        from += i == s->axis && !s->keeps_axis ? 0 : 1;
    }
}

// --- neighbours ------------------------------------------------------------------------------------

typedef struct Across {
    const Search *s;
    uint32_t axis;                     // of the root
    int64_t width, parts, tiles;       // results of a group; parts of each; groups along the axis
    uint32_t threads;
    KRef thread, best, place;          // shared: of part p of result i at p * width + i
} Across;

static bool plan_across(const Lower *l, const Search *s, const Domain *d, int64_t rows, Across *a)
{
    const GpuMachine *m = l->caps->gpu;
    const int64_t n = lower_node(l, s->x)->shape->dim[s->axis];
    *a = (Across){.s = s, .axis = search_across_axis(l, s), .threads = THREADS};
    if (a->axis == d->rank || lower_loc(l, s->x)->stride[s->axis] == 1 ||
        rows * RESULTS_SHARE > (int64_t)gpu_about_threads(m))
        return false;
    a->width = d->extent[a->axis] < NEIGHBOURS ? d->extent[a->axis] : NEIGHBOURS;
    a->tiles = ceil_div(d->extent[a->axis], a->width);
    const int64_t groups = rows / d->extent[a->axis] * a->tiles;
    if (groups < m->processors) // more of them have a result each
        return false;
    if (groups < FEW_ROWS * m->processors)
        a->threads = l->caps->group_threads;
    while (a->threads > NEIGHBOURS && a->threads / a->width * OF_PART > n)
        a->threads /= 2;
    a->parts = a->threads / a->width;
    return a->parts > 1;
}

// The first place of the best of all parts, of the result that the thread has part 0 of.
static KRef join_parts(Lower *l, const Across *a)
{
    Kernel *k = l->k;
    const KRef top = k_var(k, k_aload(k, a->best, a->thread, 1), "best");
    const KRef where = k_var(k, k_aload(k, a->place, a->thread, 1), "place");
    const KRef part = k_for(k, k_index(k, 1), k_index(k, a->parts), 1, KFOR_SERIAL, "p");
    const KRef at = k_expr(k, "$ * # + $", part, a->width, a->thread);
    const KRef v = k_aload(k, a->best, at, 1), best = k_get(k, top), here = k_aload(k, a->place, at, 1);
    const KRef wins = search_wins(k, a->s, (SearchBest){v, here}, (SearchBest){best, k_get(k, where)});
    k_set(k, where, k_select(k, wins, here, k_get(k, where)));
    k_set(k, top, k_select(k, wins, v, best));
    k_end(k);
    return k_get(k, where);
}

static void emit_across(Lower *l, const Domain *d, Across *a)
{
    Kernel *k = l->k;
    Point at = {.lanes = 1, .count = 1};
    KRef idx[SHAPE_MAX_RANK], best, place;
    int64_t groups = a->tiles;
    for (uint32_t i = 0; i < d->rank; i++)
        groups *= i == a->axis ? 1 : d->extent[i];
    k_set_group(k, a->threads);
    const KRef group = k_for_group(k, groups, "group");
    a->thread = k_thread(k);
    const KRef column = k_expr(k, "$ % # * # + $ % #", group, a->tiles, a->width, a->thread, a->width);
    KRef rest = k_expr(k, "$ / #", group, a->tiles);
    for (uint32_t i = d->rank; i-- > 0;) {
        if (i == a->axis)
            continue;
        at.idx[i] = k_expr(k, "$ % #", rest, d->extent[i]);
        rest = k_expr(k, "$ / #", rest, d->extent[i]);
    }
    at.idx[a->axis] = column;
    a->best = k_shared(k, operand_sum_type(lower_node(l, a->s->x)->dtype), a->threads);
    a->place = k_shared(k, DTYPE_i32, a->threads);
    const KRef part = k_expr(k, "$ / #", a->thread, a->width);
    const KRef is_own = k_expr(k, "$ < # & $ < #", part, a->parts, column, d->extent[a->axis]);
    k_if(k, is_own);
    place_part(l, a->s, &at, part, idx);
    search_part(l, a->s, idx, a->parts, &best, &place);
    k_astore(k, a->best, a->thread, k_cast(k, best, operand_sum_type(lower_node(l, a->s->x)->dtype)));
    k_astore(k, a->place, a->thread, k_cast(k, place, DTYPE_i32));
    k_end(k);
    k_barrier(k);
    k_if(k, k_expr(k, "$ == 0 & $ < #", part, column, d->extent[a->axis]));
    pull_store_root(l, d, at, k_cast(k, join_parts(l, a), DTYPE_i64));
    k_ends(k, 2);
}

// --- which -----------------------------------------------------------------------------------------

static void emit_row(Lower *l, const Search *s, const Domain *d, int64_t rows)
{
    Kernel *k = l->k;
    const int64_t n = lower_node(l, s->x)->shape->dim[s->axis];
    const uint32_t threads = search_threads(l, rows, n);
    KRef idx[SHAPE_MAX_RANK], best, place;
    k_set_group(k, threads);
    const Point at = domain_point(k, d, k_for_group(k, rows, "row"));
    place_part(l, s, &at, k_thread(k), idx);
    search_part(l, s, idx, threads, &best, &place);
    const KRef found = join_places(l, s, best, place, threads);
    k_if(k, k_expr(k, "$ == 0", k_thread(k)));
    pull_store_root(l, d, at, k_cast(k, found, DTYPE_i64));
    k_ends(k, 2);
}

bool search_in_groups(Lower *l, const Search *s)
{
    Domain d;
    Across a;
    int64_t rows = 0;
    if (!read_results(l, s, &d, &rows))
        return false;
    const bool has_neighbours = plan_across(l, s, &d, rows, &a);
    if (!has_neighbours && lower_loc(l, s->x)->stride[s->axis] != 1 &&
        rows >= APART_ROWS * l->caps->gpu->processors)
        return false;
    domain_add(l, &d, l->root);
    domain_add_operands(l, &d, l->root);
    if (has_neighbours)
        emit_across(l, &d, &a);
    else
        emit_row(l, s, &d, rows);
    return true;
}
