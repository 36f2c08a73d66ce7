// SPDX-License-Identifier: Apache-2.0
// scatter on GPUs with many updates. A group has some rows of the result. It looks at all updates, a part of
// them at a time, of which each thread has neighbours, and by how many of those before are for its rows
// (scan.h) lists these in shared memory, in their order, and then by rows. Then each thread has some elements
// of the rows and goes over what is listed for their row, so that what comes together in an element is added
// in the order of the updates.
#include "ir/machine/machine.h"
#include "passes/lower/ops/scan.h"
#include "passes/lower/ops/scatter.h"
#include <math.h>

enum {
    LEAST = 32,   // updates
    EACH = 16,    // of a thread at a time
    LISTED = 1024,
    AHEAD = 4,    // updates of an element that are on their way at once
    MOST_ROWS = 2048,
    OF_THREAD = 4, // elements of the rows at least, where the group has more than the least threads
    SPARE = 1024,       // bytes of shared memory
    LEAST_THREADS = 64
};
// What an update costs that is looked at, in entries of a list.
static const double look_cost = 2.5;

typedef struct Share {
    Lower *l;
    const Scatter *s;
    int64_t count, own, columns, threads; // own: rows of a group; columns: elements of a row
    Scan scan;
    KRef first;         // row of the group
    KRef own_rows;      // of the thread's updates, from the first one on; -1: not the group's
    KRef rows, numbers; // of the list, shared: rows from the first one on, numbers of the updates
    KRef by_rows, begins; // shared: the numbers by rows, and where those of a row begin, and of one more
} Share;

// The row of an update, from the group's first one on; is_own: whether it is the group's.
static KRef own_row(const Share *s, KRef update, KRef *is_own)
{
    Kernel *k = s->l->k;
    KRef inside = 0;
    const KRef row = k_sub(k, scatter_row(s->l, s->s, update, &inside), s->first);
    *is_own = k_expr(k, "$ & 0 <= $ & $ < #", inside, row, row, s->own);
    return row;
}

// Of the thread's updates, all of which are asked for before the first is waited for.
static KRef count_own(const Share *s, KRef part)
{
    Kernel *k = s->l->k;
    const KRef none = k_integer(k, DTYPE_i32, -1), count = k_var(k, k_integer(k, DTYPE_i32, 0), "count");
    KRef is_own = 0, i = k_loop(k, EACH, KFOR_UNROLL, "u");
    const KRef update = k_expr(k, "($ * # + $) * # + $", part, s->threads, s->scan.thread, EACH, i);
    const bool is_whole = s->count % (s->threads * EACH) == 0;
    const KRef row = own_row(s, is_whole ? update : k_expr(k, "min($, #)", update, s->count - 1), &is_own);
    is_own = is_whole ? is_own : k_expr(k, "$ & $ < #", is_own, update, s->count);
    k_astore(k, s->own_rows, i, k_select(k, is_own, k_cast(k, row, DTYPE_i32), none));
    k_end(k);
    i = k_loop(k, EACH, KFOR_UNROLL, "u");
    const KRef is_there = k_lt(k, none, k_aload(k, s->own_rows, i, 1));
    k_set(k, count,
          k_add(k, k_get(k, count),
                k_select(k, is_there, k_integer(k, DTYPE_i32, 1), k_integer(k, DTYPE_i32, 0))));
    k_end(k);
    return k_get(k, count);
}

// Those of the group's updates that have numbers from `window` on: to the list.
static void list_own(const Share *s, KRef part, KRef before, KRef window)
{
    Kernel *k = s->l->k;
    const KRef at = k_var(k, k_sub(k, k_cast(k, before, KT_INDEX), window), "at");
    const KRef i = k_loop(k, EACH, KFOR_UNROLL, "u");
    const KRef row = k_aload(k, s->own_rows, i, 1), place = k_get(k, at);
    const KRef is_own = k_lt(k, k_integer(k, DTYPE_i32, -1), row);
    const KRef update = k_expr(k, "($ * # + $) * # + $", part, s->threads, s->scan.thread, EACH, i);
    k_if(k, k_expr(k, "$ & 0 <= $ & $ < #", is_own, place, place, LISTED));
    k_astore(k, s->rows, place, row);
    k_astore(k, s->numbers, place, k_cast(k, update, DTYPE_i32));
    k_end(k);
    k_set(k, at, k_add(k, place, k_select(k, is_own, k_index(k, 1), k_index(k, 0))));
    k_end(k);
}

// An element of the group's rows.
typedef struct Spot {
    KRef row, place; // row: from the group's first one on; place: in the result
    KRef idx[SHAPE_MAX_RANK];
} Spot;

// Opens the loop over the elements of a thread, and what is only done for those that there are: close both.
static Spot open_elements(const Share *s)
{
    Kernel *k = s->l->k;
    const Shape *shape = s->s->shape;
    const KRef i = k_for(k, s->scan.thread, k_index(k, s->own * s->columns), s->threads, KFOR_SERIAL, "e");
    Spot e = {.row = k_expr(k, "$ / #", i, s->columns)};
    KRef rest = k_expr(k, "$ % #", i, s->columns);
    e.idx[0] = k_add(k, s->first, e.row);
    k_if(k, k_expr(k, "$ < #", e.idx[0], shape->dim[0]));
    for (uint32_t axis = shape->rank; axis-- > 1; rest = k_expr(k, "$ / #", rest, shape->dim[axis]))
        e.idx[axis] = axis == 1 ? rest : k_expr(k, "$ % #", rest, shape->dim[axis]);
    e.place = operand_index(s->l, s->l->root, e.idx);
    return e;
}

static void store(const Share *s, const Spot *e, KRef value)
{
    k_store(s->l->k, lower_param(s->l, s->l->root, PARAM_READ_WRITE), e->place, value, 1);
}

static void copy_rows(const Share *s)
{
    const Spot e = open_elements(s);
    store(s, &e, scatter_old(s->l, s->s, e.idx, e.place));
    k_ends(s->l->k, 2);
}

// Lists the numbers by rows: each thread finds how many stand before some of them, and before some rows.
static void sort_listed(const Share *s, KRef listed)
{
    Kernel *k = s->l->k;
    const KRef zero = k_index(k, 0), one = k_index(k, 1);
    const KRef own = k_for(k, s->scan.thread, k_index(k, LISTED), s->threads, KFOR_SERIAL, "own");
    k_if(k, k_lt(k, own, listed));
    const KRef row = k_aload(k, s->rows, own, 1), place = k_var(k, zero, "place");
    const KRef i = k_for(k, zero, listed, 1, KFOR_SERIAL, "i"), other = k_aload(k, s->rows, i, 1);
    const KRef is_before = k_expr(k, "$ | ($ & $ < $)", k_lt(k, other, row), k_eq(k, other, row), i, own);
    k_set(k, place, k_add(k, k_get(k, place), k_select(k, is_before, one, zero)));
    k_end(k);
    k_astore(k, s->by_rows, k_get(k, place), k_aload(k, s->numbers, own, 1));
    k_ends(k, 2);
    const KRef at = k_for(k, s->scan.thread, k_index(k, s->own + 1), s->threads, KFOR_SERIAL, "row");
    const KRef begin = k_var(k, zero, "begin"), j = k_for(k, zero, listed, 1, KFOR_SERIAL, "i");
    const KRef is_lower = k_lt(k, k_cast(k, k_aload(k, s->rows, j, 1), KT_INDEX), at);
    k_set(k, begin, k_add(k, k_get(k, begin), k_select(k, is_lower, one, zero)));
    k_end(k);
    k_astore(k, s->begins, at, k_cast(k, k_get(k, begin), DTYPE_i32));
    k_end(k);
    k_barrier(k);
}

// Where numbers of the element's row begin, or those of the next one.
static KRef begin_of(const Share *s, const Spot *e, int64_t more)
{
    Kernel *k = s->l->k;
    return k_cast(k, k_aload(k, s->begins, k_expr(k, "$ + #", e->row, more), 1), KT_INDEX);
}

static KRef update_index(const Share *s, const Spot *e, KRef place)
{
    KRef idx[SHAPE_MAX_RANK];
    for (uint32_t i = 0; i < s->s->shape->rank; i++)
        idx[i] = i == 0 ? k_cast(s->l->k, k_aload(s->l->k, s->by_rows, place, 1), KT_INDEX) : e->idx[i];
    return operand_index(s->l, s->s->updates, idx);
}

// What is there, joined with all listed updates of its row, of which some are asked for at once.
static void join_listed(const Share *s, const Spot *e)
{
    Kernel *k = s->l->k;
    const uint32_t param = lower_param(s->l, s->l->root, PARAM_READ_WRITE);
    const int type = scatter_type(s->l), dtype = lower_node(s->l, s->l->root)->dtype;
    const KRef begin = begin_of(s, e, 0), end = begin_of(s, e, 1);
    const KRef value = k_var(k, k_cast(k, k_load(k, param, e->place, 1, 1), type), "value");
    const KRef update = k_array(k, type, AHEAD);
    const KRef i = k_for(k, begin, end, AHEAD, KFOR_SERIAL, "i"), j = k_loop(k, AHEAD, KFOR_UNROLL, "j");
    const KRef index = update_index(s, e, k_expr(k, "min($ + $, $ - 1)", i, j, end));
    k_astore(k, update, j, operand_scalar(s->l, s->s->updates, index, type));
    k_end(k);
    const KRef next = k_loop(k, AHEAD, KFOR_UNROLL, "j"), so_far = k_get(k, value);
    const KRef joined = scatter_join(s->l, s->s, so_far, k_aload(k, update, next, 1));
    k_set(k, value, k_select(k, k_expr(k, "$ + $ < $", i, next, end), joined, so_far));
    k_ends(k, 2);
    store(s, e, k_cast(k, k_get(k, value), dtype));
}

// The last listed update of its row.
static void replace_listed(const Share *s, const Spot *e)
{
    Kernel *k = s->l->k;
    const KRef end = begin_of(s, e, 1);
    k_if(k, k_lt(k, begin_of(s, e, 0), end));
    const KRef index = update_index(s, e, k_expr(k, "$ - 1", end));
    store(s, e, k_load(k, lower_param(s->l, s->s->updates, PARAM_READ), index, 1, 1));
    k_end(k);
}

static void take_listed(const Share *s)
{
    const Spot e = open_elements(s);
    if (s->s->join != OP_none)
        join_listed(s, &e);
    else
        replace_listed(s, &e);
    k_ends(s->l->k, 2);
}

static void take_part(const Share *s, KRef part)
{
    Kernel *k = s->l->k;
    KRef all = 0;
    const KRef before = scan_before(&s->scan, count_own(s, part), &all), end = k_cast(k, all, KT_INDEX);
    const KRef window = k_for(k, k_index(k, 0), end, LISTED, KFOR_SERIAL, "window");
    k_barrier(k); // what was listed before has been read
    list_own(s, part, before, window);
    k_barrier(k);
    sort_listed(s, k_expr(k, "min($ - $, #)", end, window, LISTED));
    take_listed(s);
    k_end(k);
}

// Rows of a group: few groups look at few updates, of which each is in a short list where groups are many.
static int64_t rows_of_group(const Lower *l, int64_t rows, int64_t columns)
{
    const int64_t processors = l->caps->gpu->processors;
    int64_t groups = (int64_t)sqrt((double)(rows * columns) / look_cost);
    groups = groups < processors ? processors : groups;
    const int64_t own = ceil_div(rows, groups < rows ? groups : rows);
    return own < MOST_ROWS ? own : MOST_ROWS;
}

static bool fits(const Lower *l, const Scatter *s, int64_t count)
{
    const int64_t numbers = 3 * LISTED + MOST_ROWS + 1 + 2 * (int64_t)l->caps->group_threads;
    const int64_t bytes = numbers * (int64_t)sizeof(int32_t) + SPARE;
    return l->caps->is_gpu && bytes <= (int64_t)l->caps->shared_bytes && count >= LEAST &&
           count < INT32_MAX && s->shape->dim[0] < INT32_MAX && shape_numel(s->shape) > 0 &&
           shape_numel(lower_node(l, s->updates)->shape) > 0;
}

bool scatter_by_groups(Lower *l, const Scatter *s, int64_t count)
{
    if (!fits(l, s, count))
        return false;
    Kernel *k = l->k;
    const int64_t rows = s->shape->dim[0], columns = shape_numel(s->shape) / rows;
    Share g = {.l = l, .s = s, .count = count, .columns = columns, .threads = LEAST_THREADS};
    g.own = rows_of_group(l, rows, columns);
    while (2 * g.threads <= l->caps->group_threads &&
           (g.threads * EACH < count || g.threads * OF_THREAD < g.own * columns))
        g.threads *= 2;
    k_set_group(k, (uint32_t)g.threads);
    g.first = k_expr(k, "$ * #", k_for_group(k, ceil_div(rows, g.own), "rows"), g.own);
    g.scan = scan_new(k, &row_fold_sum, DTYPE_i32, g.threads);
    g.own_rows = k_array(k, DTYPE_i32, EACH);
    g.rows = k_shared(k, DTYPE_i32, LISTED);
    g.numbers = k_shared(k, DTYPE_i32, LISTED);
    g.by_rows = k_shared(k, DTYPE_i32, LISTED);
    g.begins = k_shared(k, DTYPE_i32, g.own + 1);
    if (!s->is_in_place)
        copy_rows(&g);
    take_part(&g, k_loop(k, ceil_div(count, g.threads * EACH), KFOR_SERIAL, "part"));
    k_ends(k, 2);
    return true;
}
