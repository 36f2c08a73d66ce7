// SPDX-License-Identifier: Apache-2.0
// top_k, line by line. With keys (sort.h): those that come before the last of the best so far are collected,
// and when the memory for them is full, it is sorted and all but the best are dropped; so each element is
// compared once, in vectors, and few are sorted. A few best are in order all the time. Else an insertion into
// a short list for few, or a merge sort of all positions. On GPUs a group searches a line for a few best, one
// after the other; where up to 1024 are wanted of long lines, it finds the last of them first
// (top_k_level.c). Else a thread has an element and counts those that come before it, unless lines are so
// long, or so many, that a thread for each of these is faster. Where most of a line is wanted, groups sort it
// (top_k_sort.c).
#include "ir/machine/machine.h"
#include "passes/lower/ops/top_k.h"
#include <math.h>

enum {
    INSERT_MAX = 24,  // longest list that is kept by insertion
    ALL_SHARE = 4,    // from this part of the elements on all are sorted
    KEPT_OF_BEST = 2, // memory for keys: so many times the best ones
    FEW_BEST = 64,    // so many are kept in order: each better one moves those behind it
};

KRef top_k_load(Lower *l, const TopK *t, KRef position)
{
    KRef idx[SHAPE_MAX_RANK];
    for (uint32_t i = 0; i < SHAPE_MAX_RANK; i++)
        idx[i] = i == t->axis ? position : t->idx[i];
    return k_load(l->k, lower_param(l, t->x, PARAM_READ), operand_index(l, t->x, idx), 1, 1);
}

// NaN is larger than all numbers.
KRef top_k_before(Lower *l, const TopK *t, KRef a, KRef b)
{
    Kernel *k = l->k;
    const int type = operand_sum_type(lower_node(l, t->x)->dtype);
    KRef x = k_cast(k, a, type), y = k_cast(k, b, type);
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

static KRef comes_before(Lower *l, void *ctx, KRef a, KRef b)
{
    const KRef first = top_k_load(l, ctx, a), second = top_k_load(l, ctx, b);
    return top_k_before(l, ctx, first, second);
}

void top_k_store(Lower *l, TopK *t, KRef rank, KRef position)
{
    Kernel *k = l->k;
    const KRef value = top_k_load(l, t, position);
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
    top_k_store(l, t, i, k_cast(k, at, KT_INDEX));
    k_end(k);
}

// --- by keys -------------------------------------------------------------------------------------

typedef struct Best {
    uint32_t keys;           // parameter
    int64_t most, block;     // keys that it holds; elements that are tested at once
    KRef count, limit, last; // variables: keys; what a key must be below; the value of that
    KRef moved;              // of few: an array for the keys while they move; else 0
} Best;

static KRef no_limit(Kernel *k)
{
    return k_bitnot(k, k_integer(k, DTYPE_u64, 0));
}

// The value that has the limit for a key.
static void set_last(Lower *l, const TopK *t, const Best *b)
{
    const KRef position = sort_position(l, k_get(l->k, b->limit));
    k_set(l->k, b->last, k_cast(l->k, top_k_load(l, t, position), DTYPE_f32));
}

// Puts a key among few that are in order behind a 0, and drops the last one.
static void insert(Lower *l, const TopK *t, const Best *b, KRef key)
{
    Kernel *k = l->k;
    const KRef i = k_loop(k, t->k, KFOR_SERIAL, "m");
    const KRef here = k_load(k, b->keys, k_expr(k, "$ + 1", i), 1, 1), before = k_load(k, b->keys, i, 1, 1);
    k_astore(k, b->moved, i, k_max(k, before, k_min(k, here, key)));
    k_end(k);
    const KRef j = k_loop(k, t->k, KFOR_SERIAL, "m");
    k_store(k, b->keys, k_expr(k, "$ + 1", j), k_aload(k, b->moved, j, 1), 1);
    k_end(k);
    k_set(k, b->limit, k_load(k, b->keys, k_index(k, t->k), 1, 1));
    if (b->last == 0)
        return;
    k_if(k, k_lt(k, k_get(k, b->limit), no_limit(k)));
    set_last(l, t, b);
    k_end(k);
}

static void append(Lower *l, const Best *b, KRef key)
{
    Kernel *k = l->k;
    k_store(k, b->keys, k_get(k, b->count), key, 1);
    k_set(k, b->count, k_expr(k, "$ + 1", k_get(k, b->count)));
}

// Whether a value, or any of a vector, may come before the last of the best, which is NaN as long as these
// are not all there.
static KRef may_be_better(Lower *l, const TopK *t, const Best *b, KRef at, uint8_t lanes)
{
    Kernel *k = l->k;
    const KRef last = k_splat(k, k_get(k, b->last), lanes);
    KRef idx[SHAPE_MAX_RANK];
    for (uint32_t i = 0; i < SHAPE_MAX_RANK; i++)
        idx[i] = i == t->axis ? at : t->idx[i];
    const KRef index = operand_index(l, t->x, idx);
    const KRef x = k_cast(k, k_load(k, lower_param(l, t->x, PARAM_READ), index, lanes, lanes), DTYPE_f32);
    const KRef better = k_not(k, t->finds_largest ? k_le(k, x, last) : k_le(k, last, x));
    return lanes == 1 ? better : k_hreduce(k, KOP_or, better);
}

// Takes the keys from begin to end that are below the limit.
static void collect(Lower *l, const TopK *t, const Best *b, KRef begin, KRef end)
{
    Kernel *k = l->k;
    const KRef j = k_for(k, begin, end, 1, KFOR_SERIAL, "j");
    if (b->last != 0)
        k_if(k, may_be_better(l, t, b, j, 1));
    const KRef key = k_var(k, sort_key(l, top_k_load(l, t, j), j, top_k_order(t)), "key");
    k_if(k, k_lt(k, k_get(k, key), k_get(k, b->limit)));
    if (b->moved != 0)
        insert(l, t, b, k_get(k, key));
    else
        append(l, b, k_get(k, key));
    k_end(k);
    if (b->last != 0)
        k_end(k);
    k_end(k);
}

// Sorts what was collected, keeps the best, and sets the limit.
static void keep_best(Lower *l, const TopK *t, const Best *b)
{
    Kernel *k = l->k;
    sort_keys(l, b->keys, k_get(k, b->count), b->most);
    k_set(k, b->count, k_index(k, t->k));
    k_set(k, b->limit, k_load(k, b->keys, k_index(k, t->k - 1), 1, 1));
    if (b->last != 0)
        set_last(l, t, b);
}

// A 0 and the best, which are nothing yet.
static void begin_few(Lower *l, const TopK *t, Best *b)
{
    Kernel *k = l->k;
    b->moved = k_array(k, DTYPE_u64, t->k);
    k_store(k, b->keys, k_index(k, 0), k_integer(k, DTYPE_u64, 0), 1);
    const KRef i = k_loop(k, t->k, KFOR_SERIAL, "i");
    k_store(k, b->keys, k_expr(k, "$ + 1", i), no_limit(k), 1);
    k_end(k);
}

// All blocks. The last vectors overlap with those before them: that they are tested again does not matter.
static void select_best(Lower *l, const TopK *t, Best *b)
{
    Kernel *k = l->k;
    b->limit = k_var(k, no_limit(k), "limit");
    b->last = lower_is_float(lower_node(l, t->x)->dtype)
                  ? k_var(k, k_number(k, DTYPE_f32, (double)NAN), "last")
                  : 0;
    if (t->k <= FEW_BEST)
        begin_few(l, t, b);
    else
        b->count = k_var(k, k_index(k, 0), "count");
    const KRef i = k_for(k, k_index(k, 0), k_index(k, t->n), b->block, KFOR_SERIAL, "i");
    const KRef end = k_expr(k, "min($ + #, #)", i, b->block, t->n);
    if (b->block > 1)
        k_if(k, may_be_better(l, t, b, k_expr(k, "min($, #)", i, t->n - b->block), (uint8_t)b->block));
    collect(l, t, b, i, end);
    if (b->block > 1)
        k_end(k);
    if (b->moved == 0) {
        k_if(k, k_expr(k, "# < $ | $ == #", b->most - b->block, k_get(k, b->count), end, t->n));
        keep_best(l, t, b);
        k_end(k);
    }
    k_end(k);
}

// Elements that are tested at once.
static int64_t count_block(const Lower *l, const TopK *t)
{
    const int64_t lanes = l->caps->f32_lanes;
    const bool is_wide = lower_is_float(lower_node(l, t->x)->dtype) && lanes > 1 &&
                         lower_loc(l, t->x)->stride[t->axis] == 1 && t->n >= lanes;
    return is_wide ? lanes : 1;
}

static void emit_line_by_keys(Lower *l, TopK *t)
{
    Kernel *k = l->k;
    Best b = {.block = count_block(l, t)};
    const bool takes_all = t->k >= t->n / ALL_SHARE;
    b.most = takes_all ? t->n : KEPT_OF_BEST * t->k + b.block;
    b.keys = lower_param_scratch(l, "keys", DTYPE_u64, (uint64_t)(2 * b.most));
    if (takes_all) {
        const KRef j = k_loop(k, t->n, KFOR_SERIAL, "j");
        k_store(k, b.keys, j, sort_key(l, top_k_load(l, t, j), j, top_k_order(t)), 1);
        k_end(k);
        sort_keys(l, b.keys, k_index(k, t->n), t->n);
    } else {
        select_best(l, t, &b);
    }
    const KRef i = k_loop(k, t->k, KFOR_SERIAL, "i");
    const KRef from = k_expr(k, "$ + #", i, b.moved != 0 ? 1 : 0);
    top_k_store(l, t, i, sort_position(l, k_load(k, b.keys, from, 1, 1)));
    k_end(k);
}

// --- by counting ---------------------------------------------------------------------------------

// Sorting loads what one comparison decides about, step by step; counting streams elements that all threads
// of a line share.
static bool counts_ranks(const Lower *l, const TopK *t, int64_t elements)
{
    enum { OF_LIST = 1, OF_SORT = 8 };
    int64_t passes = 0;
    while ((INT64_C(1) << passes) < t->n)
        passes++;
    const int64_t serial = t->k <= INSERT_MAX ? OF_LIST : OF_SORT * passes;
    return l->caps->is_gpu && t->n > 1 && elements / (int64_t)gpu_about_threads(l->caps->gpu) < serial;
}

// Those before the element that must not come behind it, and those behind it that must come before it.
static KRef count_before(Lower *l, TopK *t, KRef position)
{
    Kernel *k = l->k;
    const KRef zero = k_index(k, 0), one = k_index(k, 1), count = k_var(k, zero, "rank");
    const KRef i = k_for(k, zero, position, 1, KFOR_SERIAL, "i");
    const KRef is_behind = comes_before(l, t, position, i);
    k_set(k, count, k_add(k, k_get(k, count), k_select(k, is_behind, zero, one)));
    k_end(k);
    const KRef j = k_for(k, k_add(k, position, one), k_index(k, t->n), 1, KFOR_SERIAL, "i");
    const KRef is_before = comes_before(l, t, j, position);
    k_set(k, count, k_add(k, k_get(k, count), k_select(k, is_before, one, zero)));
    k_end(k);
    return k_get(k, count);
}

static void emit_counting(Lower *l, TopK *t, const Domain *elements)
{
    Kernel *k = l->k;
    Point at = {.lanes = 1, .count = 1};
    const uint32_t opened = lower_open(l, elements, elements->rank, &at);
    for (uint32_t i = 0; i < elements->rank; i++)
        t->idx[i] = at.idx[i];
    const KRef rank = count_before(l, t, at.idx[t->axis]);
    k_if(k, k_expr(k, "$ < #", rank, t->k));
    top_k_store(l, t, rank, at.idx[t->axis]);
    k_end(k);
    lower_close(l, opened);
}

// --- by rounds -----------------------------------------------------------------------------------

enum {
    ROUNDS_MOST = 32,    // best ones
    ROUNDS_LEAST = 64,   // elements of a line,
    ROUNDS_SHARE = 10,   // for each best one so many: a round takes as long as so many comparisons,
    ROUNDS_MANY = 32,    // and where lines are so many that a thread could have each,
    LINES_SHARE = 4,     // a part of the threads of the device
    ROUND_THREADS = 256, // where there are lines for all processors
    LEAST_THREADS = 32,
    OF_THREAD = 16,      // neighbouring elements: teams of more threads take longer than these
    FEW_LINES = 2        // of each processor
};

static bool takes_rounds(const Lower *l, const TopK *t, int64_t lines)
{
    if (!l->caps->is_gpu || l->caps->shared_bytes == 0)
        return false;
    const bool has_many = lines >= (int64_t)gpu_about_threads(l->caps->gpu) / LINES_SHARE;
    return t->k <= ROUNDS_MOST && t->n >= ROUNDS_LEAST &&
           t->n >= t->k * (has_many ? ROUNDS_MANY : ROUNDS_SHARE) && t->n < INT32_MAX &&
           dtype_info[lower_node(l, t->x)->dtype].bytes <= 4;
}

uint32_t top_k_threads(const Lower *l, const TopK *t, int64_t lines)
{
    const uint32_t most =
        lines < FEW_LINES * l->caps->gpu->processors ? l->caps->group_threads : ROUND_THREADS;
    const int64_t own = t->axis + 1 == lower_node(l, t->x)->shape->rank ? OF_THREAD : 1;
    uint32_t threads = LEAST_THREADS;
    while (2 * threads <= most && 2 * threads * own <= t->n)
        threads *= 2;
    return threads;
}

void top_k_open_line(Lower *l, TopK *t, const Domain *lines, uint32_t threads)
{
    Kernel *k = l->k;
    int64_t count = 1;
    for (uint32_t i = 0; i < lines->rank; i++)
        count *= lines->extent[i];
    k_set_group(k, threads);
    KRef line = k_for_group(k, count, "line");
    for (uint32_t i = lines->rank; i-- > 0; line = k_expr(k, "$ / #", line, lines->extent[i]))
        t->idx[i] = k_expr(k, "$ % #", line, lines->extent[i]);
}

// What comes first of a thread's elements behind those that were found: its rank and its place.
typedef struct Found {
    KRef rank, place; // variables
} Found;

static Found search_line(Lower *l, const TopK *t, const Found *last, uint32_t threads)
{
    Kernel *k = l->k;
    const KRef nowhere = k_integer(k, DTYPE_i32, INT32_MAX);
    const Found best = {k_var(k, k_integer(k, DTYPE_u32, UINT32_MAX), "best"), k_var(k, nowhere, "where")};
    const KRef i = k_for(k, k_thread(k), k_index(k, t->n), threads, KFOR_SERIAL, "r");
    const KRef rank = sort_rank(l, top_k_load(l, t, i), top_k_order(t)), place = k_cast(k, i, DTYPE_i32);
    const KRef was = k_get(k, last->rank), is_same = k_eq(k, rank, was);
    const KRef is_behind = k_expr(k, "$ | ($ & $)", k_lt(k, was, rank), is_same,
                                  k_lt(k, k_get(k, last->place), place));
    const KRef is_first = k_or(k, k_lt(k, rank, k_get(k, best.rank)), k_eq(k, k_get(k, best.place), nowhere));
    const KRef wins = k_and(k, is_behind, is_first);
    const KRef next_rank = k_select(k, wins, rank, k_get(k, best.rank));
    k_set(k, best.place, k_select(k, wins, place, k_get(k, best.place)));
    k_set(k, best.rank, next_rank);
    k_end(k);
    return best;
}

static void emit_rounds(Lower *l, TopK *t, const Domain *lines, int64_t n_lines)
{
    Kernel *k = l->k;
    const uint32_t threads = top_k_threads(l, t, n_lines);
    top_k_open_line(l, t, lines, threads);
    const Found last = {k_var(k, k_integer(k, DTYPE_u32, 0), "rank"),
                        k_var(k, k_integer(k, DTYPE_i32, -1), "place")};
    const KRef i = k_loop(k, t->k, KFOR_SERIAL, "i");
    const Found best = search_line(l, t, &last, threads);
    const KRef rank = k_get(k, best.rank), top = k_team(k, KOP_min, rank, threads);
    const KRef nowhere = k_integer(k, DTYPE_i32, INT32_MAX);
    const KRef own = k_select(k, k_eq(k, rank, top), k_get(k, best.place), nowhere);
    const KRef first = k_team(k, KOP_min, own, threads);
    k_set(k, last.rank, top);
    k_set(k, last.place, first);
    k_if(k, k_expr(k, "$ == 0", k_thread(k)));
    top_k_store(l, t, i, k_cast(k, first, KT_INDEX));
    k_ends(k, 3);
}

// Elements of the sorted runs of which lines are, because they are what another top_k has found; 0: nobody
// knows of any.
static int64_t run_of(const Lower *l, const TopK *t)
{
    const Node *x = lower_node(l, t->x);
    if (!l->caps->is_gpu || l->caps->shared_bytes == 0 || t->axis + 1 != x->shape->rank)
        return 0;
    while (op_is_view_of_rows(x->op) && lower_node(l, x->src[0])->dtype == x->dtype)
        x = lower_node(l, x->src[0]);
    if (x->op != lower_node(l, l->anchor)->op ||
        (node_get_int(x, A_top_k_largest) != 0) != t->finds_largest ||
        node_get_int(x, A_top_k_axis) + 1 != x->shape->rank)
        return 0;
    const int64_t run = x->shape->dim[x->shape->rank - 1];
    return run > 1 && run < t->n && t->n % run == 0 ? run : 0;
}

// What sorts, or finds the last of the best first.
static bool takes_group(Lower *l, TopK *t, const Domain *lines, int64_t n_lines)
{
    return (top_k_prefers_merges(t) && top_k_by_merges(l, t, lines)) ||
           top_k_by_level(l, t, lines, n_lines) || top_k_by_merges(l, t, lines);
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
    Domain single = lines;
    single.extent[t.axis] = 1;
    if (takes_rounds(l, &t, shape_numel(x) / t.n)) {
        emit_rounds(l, &t, &single, shape_numel(x) / t.n);
        return;
    }
    const int64_t run = run_of(l, &t);
    if (run != 0) {
        top_k_by_runs(l, &t, &lines, run);
        return;
    }
    if (takes_group(l, &t, &single, shape_numel(x) / t.n))
        return;
    if (counts_ranks(l, &t, shape_numel(x))) {
        emit_counting(l, &t, &lines);
        return;
    }
    Point at = {.lanes = 1, .count = 1};
    uint32_t opened = 0;
    KRef line = k_index(l->k, 0);
    lines.extent[t.axis] = 1;
    for (uint32_t i = 0; i < lines.rank; i++) {
        opened += lower_open_axis(l, &lines, i, l->caps->is_gpu ? KFOR_PARALLEL : KFOR_SERIAL, &at);
        line = k_expr(l->k, "$ * # + $", line, lines.extent[i], at.idx[i]);
        t.idx[i] = at.idx[i];
    }
    if (sort_has_keys(l, t.x, t.n)) {
        emit_line_by_keys(l, &t);
        lower_close(l, opened);
        return;
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
