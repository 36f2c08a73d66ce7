// SPDX-License-Identifier: Apache-2.0
// Rows on GPUs: a thread or up to a group of them a row, which take neighbouring vectors of it in turns. Rows
// that are not too long are read once, into registers; of longer ones each pass reads its part again.
// If elements of a row are not next to each other in memory, but those of neighbouring rows are (columns),
// neighbouring threads have neighbouring rows, and the threads of a row join in shared memory. What is
// neither is taken element by element.
#include "passes/lower/rows.h"
#include "passes/lower/wide.h"

struct RowsGroup {
    Wide wide;
    uint32_t threads, width; // of a group; of a row
    int64_t rows;
    int64_t vectors, turns; // of a row; that a thread has of it, at most
    uint32_t columns; // rows that neighbouring threads have; 0: neighbours share a row
    int64_t ahead; // of a row that is not held: vectors that a thread asks for before it uses the first
    bool is_held, is_live;
    KRef thread; // number of this one among those of its row
    KRef column; // number of its row among the columns
    KRef is_row; // 0, or that the row exists: a group has several, and there may be fewer
};

enum {
    FULL_GROUPS = 2, // of each processor, that keep it busy
    LEAST_GROUP = 32,
    USUAL_GROUP = 128, // threads of a group that has several rows
    ROW_THREADS = 256, // of a row, where there is a choice
    REGISTERS = 32,    // elements that a thread holds, where there is a choice
    MOST_REGISTERS = 64,
    SECTOR = 32, // bytes that memory gives at least
    COLUMNS = 32, // at most: neighbours that read together
    COLUMN_THREADS = 256, // of a group that has columns, where there is a choice
    FEW_REGISTERS = 4,    // elements of a column that a thread holds where threads are missing
    MOST_AHEAD = 16,
};

static int64_t power_above(int64_t n)
{
    int64_t p = 1;
    while (p < n)
        p *= 2;
    return p;
}

static int64_t clamp(int64_t n, int64_t low, int64_t high)
{
    return n < low ? low : n > high ? high : n;
}

// Threads of a row: such that each holds about REGISTERS elements, or one vector where there are few rows.
static uint32_t row_width(const Lower *l, const RowsGroup *g)
{
    const int64_t n = g->wide.n, values = g->wide.n_values > 0 ? g->wide.n_values : 1;
    const int64_t some = clamp(REGISTERS / (n * values), 1, REGISTERS);
    // Neighbours read a sector of memory together, however short a row is.
    const int64_t sector = SECTOR / (n * dtype_info[g->wide.root_type].bytes);
    const int64_t least = clamp(sector, 1, power_above(g->vectors));
    const int64_t usual = clamp(power_above(ceil_div(g->vectors, some)), least, INT32_MAX);
    if (g->rows < FULL_GROUPS * l->caps->gpu->processors)
        return (uint32_t)clamp(power_above(g->vectors), 1, l->caps->group_threads);
    if (usual <= ROW_THREADS)
        return (uint32_t)usual;
    const int64_t fewer = power_above(ceil_div(g->vectors, 2 * some));
    return (uint32_t)clamp(fewer, ROW_THREADS, l->caps->group_threads);
}

static bool has_live_rows(const Rows *r)
{
    for (uint32_t i = 0; i < r->n_kept; i++)
        if (r->d.live[i].size != 0)
            return true;
    return false;
}

static void choose_threads(const Lower *l, RowsGroup *g, const Rows *r)
{
    // What ends early ends at the same place for all threads of a group.
    const bool is_alone = g->is_live || has_live_rows(r);
    const uint32_t width = row_width(l, g);
    g->width = is_alone && width < LEAST_GROUP ? LEAST_GROUP : width;
    g->threads = is_alone || width >= USUAL_GROUP
                     ? g->width
                     : (uint32_t)clamp(width * power_above(g->rows), LEAST_GROUP, USUAL_GROUP);
    g->turns = ceil_div(g->vectors, g->width);
    g->is_held = !g->is_live && g->turns * g->wide.n * g->wide.n_values <= MOST_REGISTERS;
}

// The kept axis along which elements of the operand are closest to each other; n_kept: there is none.
static uint32_t column_axis(const Rows *r)
{
    const Access *a = &r->d.access.data[0];
    uint32_t best = r->n_kept;
    int64_t least = INT64_MAX;
    for (uint32_t i = 0; i < r->n_kept; i++) {
        const int64_t step = a->stride[i] < 0 ? -a->stride[i] : a->stride[i];
        if (r->d.extent[i] == 1 || step == 0 || step >= least)
            continue;
        least = step;
        best = i;
    }
    return best;
}

// Columns as wide as a sector at least, and so many threads for each that all processors have some.
static void choose_columns(const Lower *l, RowsGroup *g)
{
    const int64_t processors = l->caps->gpu->processors, full = FULL_GROUPS * processors;
    const int64_t values = g->wide.n_values > 0 ? g->wide.n_values : 1;
    const int64_t sector = clamp(SECTOR / dtype_info[g->wide.root_type].bytes, 1, COLUMNS);
    int64_t columns = COLUMNS;
    while (columns > sector && g->rows < columns * full)
        columns /= 2;
    const bool is_full = g->rows >= (int64_t)gpu_about_threads(l->caps->gpu);
    const int64_t some = clamp((is_full ? REGISTERS : REGISTERS / 2) / values, 1, REGISTERS);
    int64_t width = power_above(ceil_div(g->vectors, some));
    while (width < g->vectors / FEW_REGISTERS && g->rows * width < full * COLUMN_THREADS)
        width *= 2;
    g->width = (uint32_t)clamp(width, 1, COLUMN_THREADS / columns);
    g->columns = (uint32_t)(columns * g->width < LEAST_GROUP ? LEAST_GROUP / g->width : columns);
    while (g->width == 1 && g->columns < COLUMN_THREADS && g->rows >= 2 * full * g->columns)
        g->columns *= 2; // a group of 32 threads costs as much to begin as a larger one
    g->threads = g->columns * g->width;
    g->turns = ceil_div(g->vectors, g->width);
    g->is_held = g->turns * values <= MOST_REGISTERS;
}

static bool use_columns(const Lower *l, RowsGroup *g, const Rows *r)
{
    const uint32_t axis = column_axis(r);
    if (axis == r->n_kept || g->is_live || has_live_rows(r) ||
        !wide_new_single(l, &r->d, axis, r->n_kept, &g->wide))
        return false;
    g->vectors = r->count;
    choose_columns(l, g);
    // Passes over what is not held may write, unless they are folds: no two threads may have the same row
    // then. Long rows that are no neighbours gain nothing by it, and get few threads.
    const int64_t step = r->d.access.data[0].stride[axis];
    return g->is_held || ((step == 1 || step == -1) && (r->is_folded || g->rows % g->columns == 0));
}

static bool use_neighbours(const Lower *l, RowsGroup *g, const Rows *r)
{
    if ((g->is_live && r->d.rank - r->n_kept > 1) || !wide_new(l, &r->d, r->d.rank - 1, &g->wide))
        return false;
    if (g->is_live)
        wide_narrow(&g->wide);
    g->vectors = r->count / g->wide.n;
    choose_threads(l, g, r);
    return true;
}

// Neither along rows nor across them is everything next to itself: neighbours take single elements of a row.
static bool use_singles(const Lower *l, RowsGroup *g, const Rows *r)
{
    g->columns = 0;
    if (g->is_live || has_live_rows(r) ||
        !wide_new_single(l, &r->d, 0, r->n_kept, &g->wide))
        return false;
    g->vectors = r->count;
    choose_threads(l, g, r);
    return true;
}

void rows_use_groups(Lower *l, Rows *r)
{
    rlx_assert(r->group == NULL && r->count >= 0);
    RowsGroup *g = ARENA_NEW(l->plan->arena, RowsGroup);
    if (!l->caps->is_gpu || l->caps->shared_bytes == 0 || r->d.rank == r->n_kept || r->count < 2)
        return;
    g->rows = 1;
    for (uint32_t i = 0; i < r->n_kept; i++)
        g->rows *= r->d.extent[i];
    for (uint32_t i = r->n_kept; i < r->d.rank; i++)
        g->is_live = g->is_live || r->d.live[i].size != 0;
    if (g->rows == 0 || (!use_neighbours(l, g, r) && !use_columns(l, g, r) && !use_singles(l, g, r)))
        return;
    const int64_t values = g->wide.n_values > 0 ? g->wide.n_values : 1;
    const int64_t ahead = clamp(REGISTERS / values, 1, MOST_AHEAD);
    g->ahead = g->is_live || g->wide.n > 1 ? 1 : clamp(g->vectors / g->width, 1, ahead);
    r->mode = ROWS_GROUP;
    r->group = g;
}

// --- loops ---------------------------------------------------------------------------------------

// Coordinates of the row with this number, which counts along the axis of columns first.
static void place_row(Lower *l, const Rows *r, KRef number, Point *at)
{
    const uint32_t first = r->group->columns != 0 ? r->group->wide.axis : r->n_kept - 1;
    for (uint32_t turn = 0; turn < r->n_kept; turn++) {
        const uint32_t i = turn == 0 ? first : r->n_kept - turn - (r->n_kept - turn <= first);
        const bool is_last = turn + 1 == r->n_kept;
        const KRef extent = k_index(l->k, r->d.extent[i]);
        at->idx[i] = is_last ? number : k_rem(l->k, number, extent);
        number = is_last ? number : k_div(l->k, number, extent);
    }
}

// Coordinates of the vector with this number in its row.
static void place_vector(Lower *l, const Rows *r, KRef number, Point *at)
{
    KRef rest = k_expr(l->k, "$ * #", number, r->group->wide.n);
    for (uint32_t i = r->d.rank; i-- > r->n_kept;) {
        const KRef extent = k_index(l->k, r->d.extent[i]);
        at->idx[i] = i == r->n_kept ? rest : k_rem(l->k, rest, extent);
        rest = i == r->n_kept ? rest : k_div(l->k, rest, extent);
    }
}

typedef void (*VectorFn)(Lower *l, const Rows *r, Point at, KRef slot, void *ctx);

static void fetch_vector(Lower *l, const Rows *r, Point at, KRef slot, void *ctx)
{
    (void)ctx;
    wide_fetch(l, &r->group->wide, at, slot);
}

// Calls fn for each of the vectors that are asked for together; first: the number of the first of them.
static void each_ahead(Lower *l, const Rows *r, Point at, KRef first, VectorFn fn, void *ctx)
{
    const RowsGroup *g = r->group;
    Kernel *k = l->k;
    const KRef turn = k_loop(k, g->ahead, KFOR_UNROLL, "v");
    place_vector(l, r, k_expr(k, "$ + $ * #", first, turn, g->width), &at);
    fn(l, r, at, k_expr(k, "$ * #", turn, g->wide.n), ctx);
    k_end(k);
}

// The same as each_vector, where the row is read again in each pass.
static void each_read(Lower *l, const Rows *r, Point at, VectorFn fn, void *ctx)
{
    const RowsGroup *g = r->group;
    Kernel *k = l->k;
    const int64_t step = g->ahead * g->width, whole = g->ahead > 1 ? g->vectors / step : 0;
    if (whole > 0) {
        const KRef part = k_loop(k, whole, KFOR_SERIAL, "part");
        const KRef first = k_expr(k, "$ * # + $", part, step, g->thread);
        each_ahead(l, r, at, first, fetch_vector, NULL);
        each_ahead(l, r, at, first, fn, ctx);
        k_end(k);
    }
    if (whole * step == g->vectors)
        return;
    const KRef end = g->is_live ? lower_live(l, &r->d.live[r->n_kept], r->d.extent[r->n_kept])
                                : k_index(k, g->vectors);
    const KRef from = k_expr(k, "$ + #", g->thread, whole * step);
    place_vector(l, r, k_for(k, from, end, g->width, KFOR_SERIAL, "v"), &at);
    wide_fetch(l, &g->wide, at, k_index(k, 0));
    fn(l, r, at, k_index(k, 0), ctx);
    k_end(k);
}

// Calls fn for each vector of the row that the thread has; slot: where its registers begin.
static void each_vector(Lower *l, const Rows *r, Point at, VectorFn fn, void *ctx)
{
    const RowsGroup *g = r->group;
    Kernel *k = l->k;
    if (!g->is_held) {
        each_read(l, r, at, fn, ctx);
        return;
    }
    const int64_t whole = g->vectors / g->width;
    if (whole > 0) {
        const KRef turn = k_loop(k, whole, KFOR_UNROLL, "v");
        place_vector(l, r, k_expr(k, "$ * # + $", turn, g->width, g->thread), &at);
        fn(l, r, at, k_expr(k, "$ * #", turn, g->wide.n), ctx);
        k_end(k);
    }
    if (whole == g->turns)
        return;
    const KRef number = k_expr(k, "$ + #", g->thread, whole * g->width);
    k_if(k, k_expr(k, "$ < #", number, g->vectors));
    place_vector(l, r, number, &at);
    fn(l, r, at, k_index(k, whole * g->wide.n), ctx);
    k_end(k);
}

void rows_group_emit(Lower *l, const Rows *r, RowFn fn, void *ctx)
{
    RowsGroup *g = r->group;
    rlx_assert(r->mode == ROWS_GROUP && g->width >= 1 && g->threads % g->width == 0);
    Kernel *k = l->k;
    Point at = {.lanes = 1, .count = 1};
    const int64_t each = g->threads / g->width; // rows of a group
    k_set_group(k, g->threads);
    KRef row = k_for_group(k, ceil_div(g->rows, each), "row");
    g->thread = k_thread(k);
    if (each > 1) {
        const KRef thread = g->thread;
        const bool is_across = g->columns != 0;
        g->column = is_across ? k_expr(k, "$ % #", thread, g->columns) : k_expr(k, "$ / #", thread, g->width);
        g->thread = is_across ? k_expr(k, "$ / #", thread, g->columns) : k_expr(k, "$ % #", thread, g->width);
        row = k_expr(k, "$ * # + $", row, each, g->column);
        if (g->rows % each != 0) {
            g->is_row = k_expr(k, "$ < #", row, g->rows);
            row = k_expr(k, "min($, #)", row, g->rows - 1);
        }
    }
    place_row(l, r, row, &at);
    const uint32_t opened = lower_open_live(l, &r->d, r->n_kept, &at);
    wide_declare(l, &g->wide, g->is_held ? g->turns : g->ahead);
    if (g->is_held)
        each_vector(l, r, at, fetch_vector, NULL);
    fn(l, r, at, ctx);
    wide_end(l);
    lower_close(l, opened + 1);
}

typedef struct Each {
    PointFn fn;
    void *ctx;
    bool stores;
} Each;

static void each_element(Lower *l, const Rows *r, Point at, KRef slot, void *ctx)
{
    const Each *e = ctx;
    wide_each(l, &r->group->wide, at, slot, e->stores, e->fn, e->ctx);
}

void rows_group_fold(Lower *l, const Rows *r, Point at, PointFn fn, void *ctx)
{
    rlx_assert(r->mode == ROWS_GROUP && fn != NULL);
    Each e = {fn, ctx, false};
    each_vector(l, r, at, each_element, &e);
}

// By way of shared memory, in the order of the threads: all of a row get the same bits.
static KRef join_columns(Lower *l, const RowsGroup *g, KOp op, KRef v)
{
    Kernel *k = l->k;
    const int type = k_inst(k, v)->dtype;
    const KRef parts = k_shared(k, type, g->threads);
    k_astore(k, parts, k_expr(k, "$ * # + $", g->thread, g->columns, g->column), v);
    k_barrier(k);
    const KRef joined = k_var(k, k_aload(k, parts, g->column, 1), "joined");
    const KRef i = k_loop(k, g->width - 1, KFOR_UNROLL, "i");
    const KRef other = k_aload(k, parts, k_expr(k, "$ * # + # + $", i, g->columns, g->columns, g->column), 1);
    k_set(k, joined, k_op(k, op, k_get(k, joined), other, 0));
    k_end(k);
    return k_get(k, joined);
}

KRef rows_group_join(Lower *l, const Rows *r, KOp op, KRef v)
{
    rlx_assert(r->mode == ROWS_GROUP && v != 0);
    const RowsGroup *g = r->group;
    return g->columns != 0 && g->width > 1 ? join_columns(l, g, op, v) : k_team(l->k, op, v, g->width);
}

void rows_group_each(Lower *l, const Rows *r, Point at, PointFn fn, void *ctx)
{
    rlx_assert(r->mode == ROWS_GROUP && fn != NULL);
    Each e = {fn, ctx, true};
    if (r->group->is_row != 0)
        k_if(l->k, r->group->is_row);
    each_vector(l, r, at, each_element, &e);
    lower_close(l, r->group->is_row != 0);
}

void rows_group_begin_result(Lower *l, const Rows *r)
{
    rlx_assert(r->mode == ROWS_GROUP && r->group->thread != 0);
    Kernel *k = l->k;
    KRef is_first = k_expr(k, "$ == 0", r->group->thread);
    if (r->group->is_row != 0)
        is_first = k_and(k, is_first, r->group->is_row);
    k_if(k, is_first);
}

KRef rows_keep(Lower *l, const Rows *r, int type)
{
    const RowsGroup *g = r->group;
    return r->mode == ROWS_GROUP && g->is_held ? k_array(l->k, type, g->turns * g->wide.n) : 0;
}
