// SPDX-License-Identifier: Apache-2.0
// scatter on GPUs with many updates. A group has some rows of the result. It looks at all updates, a part of
// them at a time, and by how many of those of the threads before are for its rows (scan.h) it lists these in
// shared memory as keys: the row, and within it the number of the update. Where a key goes among all is how
// many are less. Then each thread has some elements of the rows and goes over what is listed for their row,
// so that what comes together in an element is added in the order of the updates.
#include "ir/machine/machine.h"
#include "passes/lower/ops/scan.h"
#include "passes/lower/ops/scatter.h"

enum {
    LEAST = 32,     // updates
    EACH = 16,      // of a thread at a time, or twice as many, where these are less parts
    LINE = 32,      // threads that look at neighbouring updates
    LISTED = 1024,  // keys at a time: of all updates of a part, or of a window of as many
    AHEAD = 8,      // keys, or updates of an element, that are on their way at once
    MOST_ROWS = 2048,
    OF_THREAD = 4,  // elements of the rows at least, where the group has more than the least threads
    UNDER_WAY = 4,  // accesses of a thread that copies rows
    COMPARED = 1 << 16, // pairs of rows and listed keys, in less time than a search by halves
    SPARE = 1024,   // bytes of shared memory
    LEAST_THREADS = 64
};

typedef struct Share {
    Lower *l;
    const Scatter *s;
    int64_t count, own, columns, threads; // own: rows of a group; columns: elements of a row
    int64_t each, part;                   // updates of a thread, and of all, at a time
    bool is_whole;                        // all updates are listed at once
    Scan scan;
    KRef first;         // row of the group
    KRef own_keys;      // of the thread's updates; -1: not the group's
    KRef keys, by_rows; // shared: of the list, and in order, by rows from the first one on
    KRef begins;        // shared: where those of a row begin, and of one more
    KRef starts;        // shared: how many keys are before a window, and before the end
} Share;

// The number of an update of the thread, in its part.
static KRef number_of(const Share *s, KRef i)
{
    Kernel *k = s->l->k;
    const KRef line = k_expr(k, "$ / #", s->scan.thread, LINE);
    const KRef lane = k_expr(k, "$ % #", s->scan.thread, LINE);
    return k_expr(k, "($ * # + $) * # + $", line, s->each, i, LINE, lane);
}

// The key of an update, or -1.
static KRef own_key(const Share *s, KRef part, KRef number)
{
    Kernel *k = s->l->k;
    KRef inside = 0;
    const bool is_full = s->count % s->part == 0;
    const KRef at = k_expr(k, "$ * # + $", part, s->part, number);
    const KRef update = is_full ? at : k_expr(k, "min($, #)", at, s->count - 1);
    const KRef row = k_sub(k, scatter_row(s->l, s->s, update, &inside), s->first);
    const KRef is_there = is_full ? inside : k_expr(k, "$ & $ < #", inside, at, s->count);
    const KRef is_own = k_expr(k, "$ & 0 <= $ & $ < #", is_there, row, row, s->own);
    return k_cast(k, k_select(k, is_own, k_expr(k, "$ * # + $", row, s->part, number), k_index(k, -1)),
                  DTYPE_i32);
}

// Of the thread's updates, all of which are asked for before the first is waited for.
static KRef count_own(const Share *s, KRef part)
{
    Kernel *k = s->l->k;
    const KRef zero = k_integer(k, DTYPE_i32, 0), count = k_var(k, zero, "count");
    KRef i = k_loop(k, s->each, KFOR_UNROLL, "u");
    k_astore(k, s->own_keys, i, own_key(s, part, number_of(s, i)));
    k_end(k);
    i = k_loop(k, s->each, KFOR_UNROLL, "u");
    const KRef is_own = k_le(k, zero, k_aload(k, s->own_keys, i, 1));
    k_set(k, count, k_add(k, k_get(k, count), k_select(k, is_own, k_integer(k, DTYPE_i32, 1), zero)));
    k_end(k);
    return k_get(k, count);
}

// The group's updates of a window (is_listed: of this thread; 0: of all): to the list, behind which there is
// what comes after all keys.
static void list_own(const Share *s, KRef before, KRef is_listed, KRef listed)
{
    Kernel *k = s->l->k;
    if (is_listed != 0)
        k_if(k, is_listed);
    const KRef at = k_var(k, before, "at"), i = k_loop(k, s->each, KFOR_UNROLL, "u");
    const KRef key = k_aload(k, s->own_keys, i, 1), place = k_get(k, at);
    k_if(k, k_le(k, k_integer(k, DTYPE_i32, 0), key));
    k_astore(k, s->keys, place, key);
    k_set(k, at, k_expr(k, "$ + 1", place));
    k_ends(k, is_listed != 0 ? 3 : 2);
    k_if(k, k_expr(k, "$ < #", s->scan.thread, AHEAD));
    k_astore(k, s->keys, k_add(k, listed, s->scan.thread), k_integer(k, DTYPE_i32, INT32_MAX));
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

// Elements of one access to a value that lies in rows, so that a group's are one run; 0: it does not.
static int64_t access_of(const Share *s, NodeId id)
{
    const Node *n = lower_node(s->l, id);
    const Loc *loc = lower_loc(s->l, id);
    const int64_t aligned = lower_alignment(s->l, loc, (DType)n->dtype) / dtype_info[n->dtype].bytes;
    int64_t dense = 1, width = k_fetch_width(n->dtype);
    for (uint32_t i = n->shape->rank; i-- > 0; dense *= n->shape->dim[i])
        if (n->shape->dim[i] != 1 && loc->stride[i] != dense)
            return 0;
    while (width > 1 && (aligned % width != 0 || s->own * s->columns % width != 0 || dense % width != 0))
        width /= 2;
    return width;
}

// The group's rows as one run of elements.
static void copy_run(const Share *s, int64_t width)
{
    Kernel *k = s->l->k;
    const int64_t run = s->own * s->columns, all = shape_numel(s->s->shape);
    const uint32_t from = lower_param(s->l, s->s->data, PARAM_READ);
    const uint32_t to = lower_param(s->l, s->l->root, PARAM_READ_WRITE);
    const KRef first = k_expr(k, "$ * #", s->first, s->columns);
    const KRef held = k_array(k, lower_node(s->l, s->l->root)->dtype, UNDER_WAY * width);
    const KRef i = k_for(k, k_expr(k, "$ * #", s->scan.thread, width), k_index(k, run),
                         UNDER_WAY * s->threads * width, KFOR_SERIAL, "e");
    for (uint32_t is_store = 0; is_store < 2; is_store++) {
        const KRef j = k_loop(k, UNDER_WAY, KFOR_UNROLL, "j");
        const KRef at = k_expr(k, "$ * # + $", j, s->threads * width, i), index = k_add(k, first, at);
        k_if(k, k_expr(k, "$ < # & $ < #", at, run, index, all));
        (is_store != 0 ? k_put : k_fetch)(k, is_store != 0 ? to : from, index, held,
                                          k_expr(k, "$ * #", j, width), (uint8_t)width);
        k_ends(k, 2);
    }
    k_end(k);
}

static void copy_rows(const Share *s)
{
    const int64_t from = access_of(s, s->s->data), to = access_of(s, s->l->root);
    const int64_t past = s->own * s->columns; // indices of the last group go beyond all elements
    if (from != 0 && to != 0 && shape_numel(s->s->shape) <= INT32_MAX - past) {
        // One element at a time, a thread reads later what it has stored itself.
        copy_run(s, !s->l->caps->orders_memory ? 1 : from < to ? from : to);
        return;
    }
    const Spot e = open_elements(s);
    store(s, &e, scatter_old(s->l, s->s, e.idx, e.place));
    k_ends(s->l->k, 2);
}

// How many keys are less.
static KRef place_of(const Share *s, KRef key, KRef listed)
{
    Kernel *k = s->l->k;
    const KRef zero = k_index(k, 0), place = k_var(k, zero, "place");
    const KRef i = k_for(k, zero, listed, AHEAD, KFOR_SERIAL, "i"), j = k_loop(k, AHEAD, KFOR_UNROLL, "j");
    const KRef is_less = k_lt(k, k_aload(k, s->keys, k_add(k, i, j), 1), key);
    k_set(k, place, k_add(k, k_get(k, place), k_select(k, is_less, k_index(k, 1), zero)));
    k_ends(k, 2);
    return k_get(k, place);
}

// Where the keys of a row begin among those in order, by halves: what is behind all of them is not less.
static KRef find_begin(const Share *s, KRef row, KRef listed)
{
    Kernel *k = s->l->k;
    const KRef key = k_cast(k, k_expr(k, "$ * #", row, s->part), DTYPE_i32);
    const KRef begin = k_var(k, k_index(k, 0), "begin");
    for (int64_t step = LISTED; step > 0; step /= 2) {
        const KRef next = k_expr(k, "$ + #", k_get(k, begin), step);
        const KRef last = k_aload(k, s->by_rows, k_expr(k, "min($ - 1, $)", next, listed), 1);
        k_set(k, begin, k_select(k, k_lt(k, last, key), next, k_get(k, begin)));
    }
    return k_cast(k, k_get(k, begin), DTYPE_i32);
}

// Are there so many rows, and so many keys of a part, if they are spread evenly?
static bool takes_halves(const Share *s)
{
    const int64_t looked = s->count < s->part ? s->count : s->part;
    return s->own * (looked * s->own / s->s->shape->dim[0]) > COMPARED;
}

static void find_begins(const Share *s, KRef listed)
{
    Kernel *k = s->l->k;
    k_if(k, k_expr(k, "$ == 0", s->scan.thread));
    k_astore(k, s->by_rows, listed, k_integer(k, DTYPE_i32, INT32_MAX));
    k_end(k);
    k_barrier(k);
    const KRef row = k_for(k, s->scan.thread, k_index(k, s->own + 1), s->threads, KFOR_SERIAL, "row");
    k_astore(k, s->begins, row, find_begin(s, row, listed));
    k_end(k);
}

// Puts keys in order, and finds where those of each row begin: behind all keys below its first one. Few rows
// are further keys, of which only the place is stored.
static void sort_listed(const Share *s, KRef listed)
{
    Kernel *k = s->l->k;
    const bool has_halves = takes_halves(s);
    const KRef end = has_halves ? listed : k_expr(k, "$ + #", listed, s->own + 1);
    const KRef i = k_for(k, s->scan.thread, end, s->threads, KFOR_SERIAL, "own");
    const KRef is_key = k_lt(k, i, listed), row = k_sub(k, i, listed);
    const KRef own = k_aload(k, s->keys, k_expr(k, "min($, $)", i, listed), 1);
    const KRef key = k_select(k, is_key, own, k_cast(k, k_expr(k, "$ * #", row, s->part), DTYPE_i32));
    const KRef place = place_of(s, key, listed);
    k_if(k, is_key);
    k_astore(k, s->by_rows, place, key);
    if (!has_halves) {
        k_else(k);
        k_astore(k, s->begins, row, k_cast(k, place, DTYPE_i32));
    }
    k_ends(k, 2);
    if (has_halves)
        find_begins(s, listed);
    k_barrier(k);
}

// Where keys of the element's row begin, or those of the next one.
static KRef begin_of(const Share *s, const Spot *e, int64_t more)
{
    Kernel *k = s->l->k;
    return k_cast(k, k_aload(k, s->begins, k_expr(k, "$ + #", e->row, more), 1), KT_INDEX);
}

static KRef update_index(const Share *s, const Spot *e, KRef part, KRef place)
{
    Kernel *k = s->l->k;
    KRef idx[SHAPE_MAX_RANK];
    const KRef key = k_cast(k, k_aload(k, s->by_rows, place, 1), KT_INDEX);
    idx[0] = k_expr(k, "$ * # + $ % #", part, s->part, key, s->part);
    for (uint32_t i = 1; i < s->s->shape->rank; i++)
        idx[i] = e->idx[i];
    return operand_index(s->l, s->s->updates, idx);
}

// What is there, joined with all listed updates of its row, of which some are asked for at once.
static void join_listed(const Share *s, const Spot *e, KRef part)
{
    Kernel *k = s->l->k;
    const uint32_t param = lower_param(s->l, s->l->root, PARAM_READ_WRITE);
    const int type = scatter_type(s->l), dtype = lower_node(s->l, s->l->root)->dtype;
    const KRef begin = begin_of(s, e, 0), end = begin_of(s, e, 1);
    k_if(k, k_lt(k, begin, end));
    const KRef value = k_var(k, k_cast(k, k_load(k, param, e->place, 1, 1), type), "value");
    const KRef update = k_array(k, type, AHEAD);
    const KRef i = k_for(k, begin, end, AHEAD, KFOR_SERIAL, "i"), j = k_loop(k, AHEAD, KFOR_UNROLL, "j");
    const KRef index = update_index(s, e, part, k_expr(k, "min($ + $, $ - 1)", i, j, end));
    k_astore(k, update, j, operand_scalar(s->l, s->s->updates, index, type));
    k_end(k);
    const KRef next = k_loop(k, AHEAD, KFOR_UNROLL, "j"), so_far = k_get(k, value);
    const KRef joined = scatter_join(s->l, s->s, so_far, k_aload(k, update, next, 1));
    k_set(k, value, k_select(k, k_expr(k, "$ + $ < $", i, next, end), joined, so_far));
    k_ends(k, 2);
    store(s, e, k_cast(k, k_get(k, value), dtype));
    k_end(k);
}

// The last listed update of its row.
static void replace_listed(const Share *s, const Spot *e, KRef part)
{
    Kernel *k = s->l->k;
    const KRef end = begin_of(s, e, 1);
    k_if(k, k_lt(k, begin_of(s, e, 0), end));
    const KRef index = update_index(s, e, part, k_expr(k, "$ - 1", end));
    store(s, e, k_load(k, lower_param(s->l, s->s->updates, PARAM_READ), index, 1, 1));
    k_end(k);
}

static void take_listed(const Share *s, KRef part)
{
    const Spot e = open_elements(s);
    if (s->s->join != OP_none)
        join_listed(s, &e, part);
    else
        replace_listed(s, &e, part);
    k_ends(s->l->k, 2);
}

// A list in its order, and what it does to the elements.
static void take_list(const Share *s, KRef part, KRef before, KRef is_listed, KRef listed)
{
    list_own(s, before, is_listed, listed);
    k_barrier(s->l->k);
    sort_listed(s, listed);
    take_listed(s, part);
}

// Keys of windows, which are as many as a list has at most: all of them, where they fit into one.
static void take_windows(const Share *s, KRef part, KRef before, KRef all)
{
    Kernel *k = s->l->k;
    const int64_t windows = s->part / LISTED, of_window = LISTED / s->each; // threads
    const KRef fits = k_le(k, all, k_index(k, LISTED)), zero = k_index(k, 0), thread = s->scan.thread;
    k_if(k, k_expr(k, "$ % # == 0", thread, of_window));
    k_astore(k, s->starts, k_expr(k, "$ / #", thread, of_window), k_cast(k, before, DTYPE_i32));
    k_end(k);
    k_if(k, k_expr(k, "$ == 0", thread));
    k_astore(k, s->starts, k_index(k, windows), k_cast(k, all, DTYPE_i32));
    k_end(k);
    const KRef n = k_select(k, fits, k_expr(k, "min($, 1)", all), k_index(k, windows));
    const KRef window = k_for(k, zero, n, 1, KFOR_SERIAL, "window");
    k_barrier(k); // what was listed before has been read
    const KRef start = k_cast(k, k_aload(k, s->starts, window, 1), KT_INDEX);
    const KRef end = k_cast(k, k_aload(k, s->starts, k_expr(k, "$ + 1", window), 1), KT_INDEX);
    const KRef is_listed = k_expr(k, "$ | $ / # == $", fits, thread, of_window, window);
    take_list(s, part, k_sub(k, before, start), is_listed, k_sub(k, k_select(k, fits, all, end), start));
    k_end(k);
}

static void take_part(const Share *s, KRef part)
{
    KRef all = 0;
    Kernel *k = s->l->k;
    const KRef before = k_cast(k, scan_before(&s->scan, count_own(s, part), &all), KT_INDEX);
    all = k_cast(k, all, KT_INDEX);
    if (s->is_whole)
        take_list(s, part, before, 0, all);
    else
        take_windows(s, part, before, all);
}

// Rows of a group: one group of each processor looks at all updates.
static int64_t rows_of_group(const Lower *l, int64_t rows)
{
    const int64_t own = ceil_div(rows, (int64_t)l->caps->gpu->processors);
    return own < MOST_ROWS ? own : MOST_ROWS;
}

static bool fits(const Lower *l, const Scatter *s, int64_t count)
{
    const int64_t numbers = 2 * LISTED + 1 + AHEAD + MOST_ROWS + 2 * (int64_t)l->caps->group_threads;
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
    g.own = rows_of_group(l, rows);
    while (2 * g.threads <= l->caps->group_threads &&
           (g.threads * EACH < count || g.threads * OF_THREAD < g.own * columns))
        g.threads *= 2;
    g.each = g.threads * EACH < count ? 2 * EACH : EACH;
    g.part = g.threads * g.each;
    g.is_whole = count <= LISTED;
    rlx_assert(!g.is_whole || count <= g.part);
    k_set_group(k, (uint32_t)g.threads);
    g.first = k_expr(k, "$ * #", k_for_group(k, ceil_div(rows, g.own), "rows"), g.own);
    g.scan = scan_new(k, &row_fold_sum, DTYPE_i32, g.threads);
    g.own_keys = k_array(k, DTYPE_i32, g.each);
    g.keys = k_shared(k, DTYPE_i32, LISTED + AHEAD);
    g.by_rows = k_shared(k, DTYPE_i32, LISTED + 1);
    g.begins = k_shared(k, DTYPE_i32, g.own + 1);
    g.starts = g.is_whole ? 0 : k_shared(k, DTYPE_i32, g.part / LISTED + 1);
    if (!s->is_in_place)
        copy_rows(&g);
    take_part(&g, k_loop(k, ceil_div(count, g.part), KFOR_SERIAL, "part"));
    k_ends(k, 2);
    return true;
}
