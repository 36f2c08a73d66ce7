// SPDX-License-Identifier: Apache-2.0
// max_pool and avg_pool of images in rows, whose neighbours are columns. For each row of the result, the rows
// under its windows are joined column by column into a line of scratch memory, between as many neutral
// elements as the windows reach beyond both ends. Then the columns under each window are joined: a vector of
// results takes neighbours of the line, or every second one. So borders cost nothing, and a column is joined
// once for all windows that share it. Where rows are short, several lines are filled before the first one is
// read: a load waits for stores that it overlaps and that have not left the core. Accumulation: in the
// element type (f32 for the 16-bit floats), along columns first.
#include "ir/shape/forms.h"
#include "passes/lower/line.h"
#include "passes/lower/operand.h"
#include "passes/lower/ops/pool.h"

enum { MIN_LANES = 4, LINES_ELEMENTS = 2048 };

typedef struct PoolRows {
    Lower *l;
    const Domain *d;
    const Pool *p;
    uint32_t last;  // the spatial axis of columns
    int type;       // of sums
    uint8_t lanes;  // of results
    uint8_t joined; // lanes of columns
    uint32_t line;  // the scratch memory
    KRef base;      // of this thread there
    KRef place;     // of the line there
    int64_t length; // that results read
    int64_t pitch;  // from one line to the next
    int64_t block;  // lines that are filled before they are read
    uint32_t counts; // of means: parameter with the columns inside each window
    Point at;       // the row of the result
} PoolRows;

bool pool_can_keep_rows(const Graph *g, const TargetCaps *caps, const Node *n)
{
    const Shape *x = graph_node(g, n->src[0])->shape;
    const uint32_t last = n->shape->rank - 1;
    const WindowForm form = window_form(n);
    rlx_assert(x->rank == n->shape->rank && x->rank >= 3);
    const int64_t kernel = node_find_attr(n, "kernel")->u.ints[last - 2];
    return (n->op == OP_max_pool || n->op == OP_avg_pool) && !caps->is_gpu && caps->f32_lanes >= MIN_LANES &&
           lower_is_float(n->dtype) && x->rank <= POOL_MAX_SPATIAL + 2 && kernel <= POOL_MAX_UNROLL &&
           form.stride[last - 2] <= LINE_MAX_STRIDE &&
           line_is_worthwhile(caps, n->shape->dim[last], n->shape->dim[1]);
}

// --- the line ------------------------------------------------------------------------------------

static KRef window_start(const PoolRows *r, uint32_t axis)
{
    const Pool *p = r->p;
    return k_expr(r->l->k, "$ * # + #", r->at.idx[axis + 2], p->stride[axis], -p->pad_begin[axis]);
}

static KRef load_columns(const PoolRows *r, const KRef *idx, uint8_t count)
{
    const Point at = {.lanes = r->joined, .count = count};
    const KRef v = operand_load(r->l, r->p->x, operand_index(r->l, r->p->x, idx), &at, 1);
    return k_cast(r->l->k, v, r->type);
}

// All rows under the window from `axis` on, joined with `sum` (0: nothing so far); idx: the coordinates
// before.
static KRef join_all_rows(const PoolRows *r, uint32_t axis, KRef *idx, KRef sum, uint8_t count)
{
    Kernel *k = r->l->k;
    const Pool *p = r->p;
    if (axis == r->last || axis == POOL_MAX_SPATIAL) {
        const KRef v = load_columns(r, idx, count);
        return sum == 0 ? v : pool_join(k, p, sum, v);
    }
    const KRef start = window_start(r, axis);
    for (int64_t t = 0; t < p->kernel[axis]; t++) {
        idx[axis + 2] = k_expr(k, "$ + #", start, t * p->dilation[axis]);
        sum = join_all_rows(r, axis + 1, idx, sum, count);
    }
    return sum;
}

// Joins the rows under the window from `axis` on that are inside to `acc`.
static void join_rows(const PoolRows *r, uint32_t axis, KRef *idx, KRef acc, uint8_t count)
{
    Kernel *k = r->l->k;
    const Pool *p = r->p;
    if (axis == r->last || axis == POOL_MAX_SPATIAL) {
        k_set(k, acc, pool_join(k, p, k_get(k, acc), load_columns(r, idx, count)));
        return;
    }
    const KRef start = window_start(r, axis);
    KRef lo, hi;
    pool_clip(k, p, axis, start, p->in[axis], &lo, &hi);
    const KRef tap = k_for(k, lo, hi, 1, KFOR_SERIAL, axis == 0 ? "k0" : "k1");
    idx[axis + 2] = k_expr(k, "$ * # + $", tap, p->dilation[axis], start);
    join_rows(r, axis + 1, idx, acc, count);
    k_end(k);
}

static KRef neutral(const PoolRows *r)
{
    return k_splat(r->l->k, pool_neutral(r->l->k, r->p, r->type), r->joined);
}

static void put_in_line(const PoolRows *r, KRef place, int64_t from, KRef value)
{
    k_store(r->l->k, r->line, k_expr(r->l->k, "$ + ($ + #)", r->place, place, from), value, r->joined);
}

// Neutral elements [from, end) of the line, and some behind them.
static void put_neutral(const PoolRows *r, int64_t from, int64_t end)
{
    for (int64_t i = from; i < end; i += r->joined)
        put_in_line(r, k_index(r->l->k, 0), i, neutral(r));
}

static void join_columns(const PoolRows *r, KRef column, bool all, uint8_t count)
{
    KRef idx[SHAPE_MAX_RANK] = {r->at.idx[0], r->at.idx[1]}, value;
    idx[r->last + 2] = column;
    if (all) {
        value = join_all_rows(r, 0, idx, r->p->is_max ? 0 : neutral(r), count);
    } else {
        const KRef acc = k_var(r->l->k, neutral(r), "acc");
        join_rows(r, 0, idx, acc, count);
        value = k_get(r->l->k, acc);
    }
    put_in_line(r, column, r->p->pad_begin[r->last], value);
}

static void join_all_columns(const PoolRows *r, bool all)
{
    Kernel *k = r->l->k;
    const int64_t n = r->p->in[r->last], rest = n % r->joined, whole = n - rest;
    if (whole > 0) {
        join_columns(r, k_for(k, k_index(k, 0), k_index(k, whole), r->joined, KFOR_SERIAL, "x"), all,
                     r->joined);
        k_end(k);
    }
    if (rest > 0)
        join_columns(r, k_index(k, whole), all, (uint8_t)rest);
}

// Whether every row under the window is there; 0: always.
static KRef has_all_rows(const PoolRows *r)
{
    Kernel *k = r->l->k;
    const Pool *p = r->p;
    KRef all = 0;
    for (uint32_t i = 0; i < r->last; i++) {
        const int64_t extent = (p->kernel[i] - 1) * p->dilation[i];
        const KRef start = window_start(r, i);
        if (p->pad_begin[i] == 0 && (p->out[i] - 1) * p->stride[i] + extent < p->in[i])
            continue;
        const KRef here = k_expr(k, "0 <= $ & $ + # < #", start, start, extent, p->in[i]);
        all = all == 0 ? here : k_and(k, all, here);
    }
    return all;
}

static void fill_line(const PoolRows *r)
{
    Kernel *k = r->l->k;
    const Pool *p = r->p;
    const int64_t first = p->pad_begin[r->last];
    int64_t taps = 1;
    for (uint32_t i = 0; i < r->last; i++)
        taps *= p->kernel[i];
    put_neutral(r, 0, first);
    const KRef all = has_all_rows(r);
    if (taps > POOL_MAX_UNROLL || all == 0) {
        join_all_columns(r, taps <= POOL_MAX_UNROLL);
    } else {
        k_if(k, all);
        join_all_columns(r, true);
        k_else(k);
        join_all_columns(r, false);
        k_end(k);
    }
    put_neutral(r, first + p->in[r->last], r->length);
}

// --- the results ---------------------------------------------------------------------------------

// What the sums of a vector are divided by.
static KRef divisor(const PoolRows *r, KRef column)
{
    Kernel *k = r->l->k;
    KRef rows = k_index(k, 1);
    for (uint32_t i = 0; i < r->last; i++)
        rows = k_mul(k, rows, pool_count(k, r->p, i, r->at.idx[i + 2]));
    const KRef columns = k_load(k, r->counts, column, r->lanes, r->lanes);
    const KRef n = k_mul(k, columns, k_splat(k, k_cast(k, rows, r->type), r->lanes));
    return k_max(k, n, k_splat(k, k_number(k, r->type, 1), r->lanes));
}

static void store_results(const PoolRows *r, KRef column, uint8_t count)
{
    Kernel *k = r->l->k;
    const Pool *p = r->p;
    LineTaps taps = {.param = r->line, .lanes = r->lanes, .stride = p->stride[r->last]};
    taps.place = k_expr(k, "$ * # + $", column, taps.stride, r->place);
    KRef value = line_tap(k, &taps, 0);
    for (int64_t t = 1; t < p->kernel[r->last]; t++)
        value = pool_join(k, p, value, line_tap(k, &taps, t * p->dilation[r->last]));
    if (!p->is_max)
        value = k_div(k, value, divisor(r, column));
    Point at = r->at;
    at.idx[r->last + 2] = column;
    at.vec_axis = r->last + 2;
    at.lanes = r->lanes;
    at.count = count;
    pull_store_root(r->l, r->d, at, k_cast(k, value, lower_node(r->l, p->x)->dtype));
}

static void store_row(const PoolRows *r)
{
    Kernel *k = r->l->k;
    const int64_t n = r->p->out[r->last], rest = n % r->lanes, whole = n - rest;
    if (whole > 0) {
        store_results(r, k_for(k, k_index(k, 0), k_index(k, whole), r->lanes, KFOR_SERIAL, "ow"), r->lanes);
        k_end(k);
    }
    if (rest > 0)
        store_results(r, k_index(k, whole), (uint8_t)rest);
}

// --- the kernel ----------------------------------------------------------------------------------

// For each column of the result, the taps inside the input, or inside the padded one.
static uint32_t add_counts(const PoolRows *r)
{
    const Pool *p = r->p;
    const uint32_t w = r->last;
    const int64_t n = p->out[w] + r->lanes, begin = p->counts_pads ? -p->pad_begin[w] : 0,
                  end = p->in[w] + (p->counts_pads ? p->pad_end[w] : 0);
    float *counts = ARENA_ARRAY(r->l->pass->perm, float, n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t t = 0; t < p->kernel[w]; t++) {
            const int64_t at = i * p->stride[w] - p->pad_begin[w] + t * p->dilation[w];
            counts[i] += at >= begin && at < end ? 1 : 0;
        }
    return lower_param_data(r->l, "columns", DTYPE_f32, counts, (uint64_t)n * sizeof *counts);
}

// Lines of about LINES_ELEMENTS together, in blocks of equal size; one where the number of rows is set
// between runs.
static int64_t choose_block(const Domain *d, uint32_t rows, int64_t pitch)
{
    const int64_t n = d->extent[rows], most = LINES_ELEMENTS / pitch;
    if (most <= 1 || n <= 1 || d->live[rows].size != 0)
        return 1;
    return ceil_div(n, ceil_div(n, most));
}

static void each_row(PoolRows *r, uint32_t rows, KRef first, KRef end, void (*emit)(const PoolRows *r))
{
    Kernel *k = r->l->k;
    const KRef row = k_for(k, first, end, 1, KFOR_SERIAL, "y");
    r->at.idx[rows] = row;
    r->place = k_expr(k, "$ + ($ - $) * #", r->base, row, first, r->pitch);
    emit(r);
    k_end(k);
}

// All rows along the axis before the columns.
static void pool_lines(PoolRows *r, uint32_t rows)
{
    Kernel *k = r->l->k;
    const int64_t n = r->d->extent[rows];
    if (r->block == 1) {
        const uint32_t opened = lower_open_axis(r->l, r->d, rows, KFOR_PARALLEL, &r->at);
        r->place = r->base;
        fill_line(r);
        store_row(r);
        lower_close(r->l, opened);
        return;
    }
    const KRef first = k_for(k, k_index(k, 0), k_index(k, n), r->block, KFOR_PARALLEL, "block");
    const KRef end = k_expr(k, "min($ + #, #)", first, r->block, n);
    each_row(r, rows, first, end, fill_line);
    each_row(r, rows, first, end, store_row);
    k_end(k);
}

bool pool_rows(Lower *l, const Domain *d, const Pool *p)
{
    const uint32_t last = p->spatial - 1, columns = d->rank - 1, rows = columns - 1;
    PoolRows r = {.l = l, .d = d, .p = p, .last = last, .at = {.lanes = 1, .count = 1}};
    uint32_t opened = 0;
    if (!pool_can_keep_rows(l->g, l->caps, lower_node(l, l->anchor)) || l->strip.window != NULL ||
        lower_goes_by_rows(l) || d->live[columns].size != 0 || !operand_has_vectors(l, p->x, columns))
        return false;
    r.lanes = domain_lanes(l, d, columns);
    r.joined = lower_fit_lanes(l, p->in[last]);
    if (r.lanes < MIN_LANES || r.joined < MIN_LANES || !lower_take(l))
        return false;
    r.type = operand_sum_type(lower_node(l, p->x)->dtype);
    r.length = line_length(p->out[last], p->stride[last], r.lanes, (p->kernel[last] - 1) * p->dilation[last]);
    const int64_t filled = p->pad_begin[last] + p->in[last],
                  elements = (r.length > filled ? r.length : filled) + 2 * r.joined;
    r.pitch = ceil_div(elements, r.joined) * r.joined;
    r.block = choose_block(d, rows, r.pitch);
    r.line = lower_param_thread_scratch(l, "line", (DType)r.type, (uint64_t)(r.block * r.pitch), &r.base);
    r.counts = p->is_max ? 0 : add_counts(&r);
    for (uint32_t i = 0; i < rows; i++)
        opened += lower_open_axis(l, d, i, KFOR_PARALLEL, &r.at);
    pool_lines(&r, rows);
    lower_close(l, opened);
    return true;
}
