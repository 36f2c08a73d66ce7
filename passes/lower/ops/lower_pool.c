// SPDX-License-Identifier: Apache-2.0
// max_pool, argmax_pool and avg_pool: every window is clipped to the input first, so nothing is tested
// inside. Values in rows have a schedule of their own (pool_rows.c). Channels-last values take vectors of
// channels; there the columns are split into the two borders and the middle, whose windows have all their
// columns. Accumulation: in the element type (f32 for the 16-bit floats), in the order of memory.
#include "ir/shape/forms.h"
#include "passes/lower/operand.h"
#include "passes/lower/ops/pool.h"
#include "passes/lower/wide.h"
#include <math.h>
#include <string.h>

enum { MAX_VECTORS = 4, MAX_WIDE_TAPS = 32 };

static Pool pool_of(const Lower *l)
{
    const Node *n = lower_node(l, l->anchor);
    const WindowForm form = window_form(n);
    const int64_t *kernel = node_find_attr(n, "kernel")->u.ints;
    const Shape *s = lower_node(l, n->src[0])->shape;
    Pool p = {.x = n->src[0], .n_vectors = 1, .spatial = s->rank - 2};
    for (uint32_t i = 0; i < p.spatial; i++) {
        p.in[i] = s->dim[i + 2];
        p.out[i] = n->shape->dim[i + 2];
        p.kernel[i] = kernel[i];
        p.stride[i] = form.stride[i];
        p.dilation[i] = form.dilation[i];
        p.pad_begin[i] = form.pad[i];
        p.pad_end[i] = form.pad[p.spatial + i];
    }
    return p;
}

void pool_clip(Kernel *k, const Pool *p, uint32_t axis, KRef start, int64_t end, KRef *lo, KRef *hi)
{
    const int64_t d = p->dilation[axis], extent = (p->kernel[axis] - 1) * d;
    const KRef zero = k_index(k, 0);
    *lo = zero;
    *hi = k_index(k, p->kernel[axis]);
    if (p->pad_begin[axis] > 0) {
        const KRef missing = k_expr(k, "max($ - $, $)", zero, start, zero);
        *lo = k_expr(k, "($ + #) / #", missing, d - 1, d);
    }
    if ((p->out[axis] - 1) * p->stride[axis] - p->pad_begin[axis] + extent >= end) {
        const KRef room = k_expr(k, "max(# - $, $)", end, start, zero);
        *hi = k_expr(k, "min($, ($ + #) / #)", *hi, room, d - 1, d);
    }
}

KRef pool_neutral(Kernel *k, const Pool *p, int type)
{
    static const int64_t lowest[DTYPE_COUNT] = {
        [DTYPE_i64] = INT64_MIN, [DTYPE_i32] = INT32_MIN, [DTYPE_i16] = INT16_MIN, [DTYPE_i8] = INT8_MIN};
    if (dtype_info[type].cls != DCLASS_FLOAT)
        return k_integer(k, type, lowest[type]);
    return k_number(k, type, p->is_max ? -(double)INFINITY : 0);
}

// argmax_pool: the first element, a larger one, or the first NaN.
static void take_place(Lower *l, const Pool *p, const KRef *idx, KRef acc, KRef v)
{
    Kernel *k = l->k;
    const KRef top = k_get(k, acc), place = k_get(k, p->best);
    const KRef is_first = k_expr(k, "$ < 0", place), is_larger = k_lt(k, top, v);
    const KRef v_is_nan = k_ne(k, v, v), top_is_number = k_eq(k, top, top);
    const KRef wins = k_expr(k, "$ & ($ | $)", top_is_number, v_is_nan, is_larger);
    KRef here = k_index(k, 0);
    for (uint32_t i = 0; i < p->spatial; i++)
        here = k_expr(k, "$ * # + $", here, p->in[i], idx[i + 2]);
    k_if(k, k_or(k, is_first, wins));
    k_set(k, acc, v);
    k_set(k, p->best, here);
    k_end(k);
}

// The larger of two; NaN, if one of them is.
static KRef larger(Kernel *k, const KRef *operand, int type)
{
    const bool has_nan = dtype_info[type].cls == DCLASS_FLOAT;
    return k_form(k, has_nan ? "(select (ne a a) a (max a b))" : "(max a b)", operand, type);
}

KRef pool_join(Kernel *k, const Pool *p, KRef a, KRef b)
{
    const KRef operand[3] = {a, b, 0};
    const int type = k_inst(k, a)->dtype;
    return p->is_max ? larger(k, operand, type) : k_form(k, "(add a b)", operand, type);
}

static void take_one(Lower *l, const Pool *p, const Point *at, const KRef *idx, KRef acc)
{
    Kernel *k = l->k;
    const int type = k_inst(k, acc)->dtype;
    const KRef v = k_cast(k, operand_load(l, p->x, operand_index(l, p->x, idx), at, p->x_stride), type);
    if (p->finds_place) {
        take_place(l, p, idx, acc, v);
        return;
    }
    k_set(k, acc, pool_join(k, p, k_get(k, acc), v));
}

// acc: of every vector.
static void take(Lower *l, const Pool *p, const Point *at, const KRef *idx, const KRef *acc)
{
    KRef of[SHAPE_MAX_RANK] = {0};
    memcpy(of, idx, (p->spatial + 2) * sizeof *of);
    for (uint32_t v = 0; v < p->n_vectors; v++) {
        of[1] = k_expr(l->k, "$ + #", idx[1], (int64_t)v * at->lanes);
        take_one(l, p, at, of, acc[v]);
    }
}

// All taps along the axes from `axis` on; idx holds the operand's coordinates on the axes before it.
static void take_taps(Lower *l, const Pool *p, const Point *at, uint32_t axis, KRef *idx, const KRef *acc)
{
    Kernel *k = l->k;
    if (axis == p->spatial || axis == POOL_MAX_SPATIAL) {
        take(l, p, at, idx, acc);
        return;
    }
    const KRef start = k_expr(k, "$ * # + #", at->idx[axis + 2], p->stride[axis], -p->pad_begin[axis]);
    if (axis + 1 == p->spatial && p->has_whole_columns && p->kernel[axis] <= POOL_MAX_UNROLL) {
        for (int64_t t = 0; t < p->kernel[axis]; t++) {
            idx[axis + 2] = k_expr(k, "$ + #", start, t * p->dilation[axis]);
            take(l, p, at, idx, acc);
        }
        return;
    }
    KRef lo = k_index(k, 0), hi = k_index(k, p->kernel[axis]);
    if (axis + 1 != p->spatial || !p->has_whole_columns)
        pool_clip(k, p, axis, start, p->in[axis], &lo, &hi);
    const KRef tap = k_for(k, lo, hi, 1, KFOR_SERIAL, axis == 0 ? "k0" : axis == 1 ? "k1" : "k2");
    idx[axis + 2] = k_expr(k, "$ * # + $", tap, p->dilation[axis], start);
    take_taps(l, p, at, axis + 1, idx, acc);
    k_end(k);
}

KRef pool_count(Kernel *k, const Pool *p, uint32_t axis, KRef at)
{
    const KRef start = k_expr(k, "$ * # + #", at, p->stride[axis], -p->pad_begin[axis]);
    KRef lo, hi;
    pool_clip(k, p, axis, start, p->in[axis] + (p->counts_pads ? p->pad_end[axis] : 0), &lo, &hi);
    return k_expr(k, "max($ - $, 0)", hi, p->counts_pads ? k_index(k, 0) : lo);
}

// Elements that a mean divides by, at least 1.
static KRef window_count(Lower *l, const Pool *p, const Point *at)
{
    Kernel *k = l->k;
    KRef count = k_index(k, 1);
    for (uint32_t i = 0; i < p->spatial; i++) {
        const bool is_whole = p->has_whole_columns && i + 1 == p->spatial;
        count = k_mul(k, count, is_whole ? k_index(k, p->kernel[i]) : pool_count(k, p, i, at->idx[i + 2]));
    }
    return k_expr(k, "max($, 1)", count);
}

// The results of all vectors.
static void pool_window(Lower *l, const Pool *p, const Point *at, KRef *value)
{
    Kernel *k = l->k;
    const int dtype = lower_node(l, p->x)->dtype, type = operand_sum_type(dtype);
    KRef idx[SHAPE_MAX_RANK] = {at->idx[0], at->idx[1]}, acc[MAX_VECTORS];
    for (uint32_t v = 0; v < p->n_vectors; v++)
        acc[v] = k_var(k, k_splat(k, pool_neutral(k, p, type), at->lanes), "acc");
    take_taps(l, p, at, 0, idx, acc);
    const KRef count = p->is_max ? 0 : k_cast(k, window_count(l, p, at), type);
    for (uint32_t v = 0; v < p->n_vectors; v++) {
        const KRef sum = k_get(k, acc[v]);
        value[v] = k_cast(k, p->is_max ? sum : k_div(k, sum, count), dtype);
    }
}

static KRef pool_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    KRef value;
    (void)d;
    pool_window(l, ctx, &at, &value);
    return value;
}

// --- vectors of channels ---

static void pool_channels(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Pool *p = ctx;
    const KRef channel = at.idx[1];
    KRef value[MAX_VECTORS];
    pool_window(l, p, &at, value);
    for (uint32_t v = 0; v < p->n_vectors; v++) {
        at.idx[1] = k_expr(l->k, "$ + #", channel, (int64_t)v * at.lanes);
        pull_store_root(l, d, at, value[v]);
    }
}

// Several vectors share what it takes to walk over a window, as long as the text stays short.
static uint32_t count_vectors(const Domain *d, const Pool *p, uint8_t lanes)
{
    uint32_t n = MAX_VECTORS;
    while (n > 1 && (n * p->kernel[p->spatial - 1] > POOL_MAX_UNROLL || d->extent[1] % (n * lanes) != 0))
        n /= 2;
    return n;
}

static void pool_all_channels(Lower *l, const Domain *d, Pool *p, Point at, uint8_t lanes)
{
    Kernel *k = l->k;
    p->n_vectors = count_vectors(d, p, lanes);
    if (p->n_vectors == 1) {
        lower_along(l, d, 1, lanes, at, pool_channels, p);
        return;
    }
    at.vec_axis = 1;
    at.lanes = at.count = lanes;
    at.idx[1] =
        k_for(k, k_index(k, 0), k_index(k, d->extent[1]), (int64_t)p->n_vectors * lanes, KFOR_PARALLEL, "c");
    pool_channels(l, d, at, p);
    k_end(k);
}

// Columns [lo, hi) of the result, for all channels.
static void pool_columns(Lower *l, const Domain *d, const Pool *p, Point at, const int64_t *range,
                         uint8_t lanes)
{
    Kernel *k = l->k;
    Pool part = *p;
    const uint32_t last = d->rank - 1;
    if (range[0] >= range[1])
        return;
    const bool has_loop = range[1] - range[0] > 1;
    at.idx[last] = has_loop ? k_for(k, k_index(k, range[0]), k_index(k, range[1]), 1, KFOR_PARALLEL, "ow")
                            : k_index(k, range[0]);
    pool_all_channels(l, d, &part, at, lanes);
    if (has_loop)
        k_end(k);
}

static int64_t ceil_div_at_least_0(int64_t a, int64_t b)
{
    return a <= 0 ? 0 : (a + b - 1) / b;
}

static void pool_vectors(Lower *l, const Domain *d, Pool *p, uint8_t lanes)
{
    Point at = {.lanes = 1, .count = 1};
    const uint32_t w = p->spatial - 1;
    const int64_t reach =
        p->in[w] - 1 - (p->kernel[w] - 1) * p->dilation[w] + p->pad_begin[w]; // last start of a whole window
    int64_t first = ceil_div_at_least_0(p->pad_begin[w], p->stride[w]),
            end = reach < 0 ? 0 : reach / p->stride[w] + 1;
    end = end > p->out[w] ? p->out[w] : end;
    first = first > end ? end : first;
    uint32_t opened = lower_open_axis(l, d, 0, KFOR_PARALLEL, &at);
    for (uint32_t i = 2; i + 1 < d->rank; i++)
        opened += lower_open_axis(l, d, i, KFOR_PARALLEL, &at);
    pool_columns(l, d, p, at, (const int64_t[]){0, first}, lanes);
    p->has_whole_columns = true;
    pool_columns(l, d, p, at, (const int64_t[]){first, end}, lanes);
    p->has_whole_columns = false;
    pool_columns(l, d, p, at, (const int64_t[]){end, p->out[w]}, lanes);
    lower_close(l, opened);
}

// --- vectors of channels of a GPU's threads ---

// A maximum or mean of neighbouring channels, all taps of which are under way at once. Where a tap is beyond
// the input, a maximum takes the nearest one that is not again, and a mean takes zeros.
typedef struct WidePool {
    const Pool *p;
    uint32_t n, piece; // channels of a thread, and of one access
    KRef best, count;  // best: array of n, the maximum or sum; count: that sums are divided by
} WidePool;

static bool wide_pool_fits(Lower *l, const Pool *p, const Wide *w, WidePool *out)
{
    Domain in = domain_of(lower_node(l, p->x)->shape);
    int64_t taps = 1;
    for (uint32_t i = 0; i < p->spatial; i++) {
        const int64_t last = (p->out[i] - 1) * p->stride[i] - p->pad_begin[i];
        taps *= p->kernel[i];
        if (p->dilation[i] != 1 || p->in[i] == 0 || p->pad_begin[i] >= p->kernel[i] || last >= p->in[i])
            return false;
    }
    domain_add(l, &in, p->x);
    *out = (WidePool){.p = p, .n = w->n, .piece = wide_piece(l, &in, p->x, 1)};
    return out->piece > 0 && taps <= MAX_WIDE_TAPS;
}

static KRef nearest(Kernel *k, KRef at, int64_t n)
{
    return k_expr(k, "min(max($, 0), #)", at, n - 1);
}

// Whether the input at `at` along an axis is there; `inside` so far, 0: always.
static KRef and_inside(Kernel *k, const Pool *p, uint32_t axis, KRef at, int64_t by, KRef inside)
{
    if (by >= 0 && (p->out[axis] - 1) * p->stride[axis] + by < p->in[axis])
        return inside;
    const KRef here = k_expr(k, "0 <= $ & $ < #", at, at, p->in[axis]);
    return inside == 0 ? here : k_and(k, inside, here);
}

// The elements of tap `tap` of the window at a point, counted with the last axis running fastest: an array.
static KRef fetch_wide_tap(Lower *l, const WidePool *w, const Point *at, int64_t tap)
{
    Kernel *k = l->k;
    const Pool *p = w->p;
    const int dtype = lower_node(l, p->x)->dtype;
    KRef idx[SHAPE_MAX_RANK] = {at->idx[0], at->idx[1]}, inside = 0;
    int64_t left = tap;
    for (uint32_t i = p->spatial; i-- > 0; left /= p->kernel[i]) {
        const int64_t by = left % p->kernel[i] - p->pad_begin[i];
        const KRef pos = k_expr(k, "$ * # + #", at->idx[i + 2], p->stride[i], by);
        inside = p->is_max ? 0 : and_inside(k, p, i, pos, by, inside);
        idx[i + 2] = p->is_max ? nearest(k, pos, p->in[i]) : pos;
    }
    const KRef of_tap = k_array(k, dtype, w->n);
    if (inside != 0) {
        const KRef j = k_loop(k, w->n, KFOR_UNROLL, "j");
        k_astore(k, of_tap, j, k_number(k, dtype, 0));
        k_end(k);
        k_if(k, inside);
    }
    wide_load(l, lower_param(l, p->x, PARAM_READ), operand_index(l, p->x, idx), of_tap, 0,
              (WideSpan){.n = w->n, .piece = w->piece});
    if (inside != 0)
        k_end(k);
    return of_tap;
}

static void take_wide_tap(Lower *l, const WidePool *w, const Point *at, int64_t tap)
{
    Kernel *k = l->k;
    const int type = operand_sum_type(lower_node(l, w->p->x)->dtype);
    const KRef of_tap = fetch_wide_tap(l, w, at, tap);
    const KRef j = k_loop(k, w->n, KFOR_UNROLL, "j");
    KRef v = k_cast(k, k_aload(k, of_tap, j, 1), type);
    if (tap > 0) {
        const KRef both[3] = {k_aload(k, w->best, j, 1), v, 0};
        v = w->p->is_max ? larger(k, both, type) : k_form(k, "(add a b)", both, type);
    }
    k_astore(k, w->best, j, v);
    k_end(k);
}

static void store_best(Lower *l, const Domain *d, Point at, void *ctx)
{
    const WidePool *w = ctx;
    KRef best = k_aload(l->k, w->best, at.lane, 1);
    if (!w->p->is_max)
        best = k_div(l->k, best, w->count);
    pull_store_root(l, d, at, k_cast(l->k, best, lower_node(l, w->p->x)->dtype));
}

static bool wide_pool(Lower *l, const Domain *d, const Pool *p)
{
    Point at = {.lanes = 1, .count = 1};
    uint32_t opened = 0;
    int64_t taps = 1;
    WidePool pool;
    Wide w;
    if (!l->caps->is_gpu || !wide_new(l, d, 1, &w) || !wide_pool_fits(l, p, &w, &pool) ||
        !wide_begin(l, d, 1, &w, &at, &opened))
        return false;
    pool.best = k_array(l->k, operand_sum_type(lower_node(l, p->x)->dtype), pool.n);
    for (uint32_t i = 0; i < p->spatial; i++)
        taps *= p->kernel[i];
    for (int64_t tap = 0; tap < taps; tap++)
        take_wide_tap(l, &pool, &at, tap);
    if (!p->is_max)
        pool.count = k_cast(l->k, window_count(l, p, &at), operand_sum_type(lower_node(l, p->x)->dtype));
    wide_finish(l, &w, at, opened, store_best, &pool);
    return true;
}

static void lower_pool(Lower *l, Pool *p)
{
    rlx_assert(lower_node(l, l->anchor)->shape->rank >= 3);
    Domain d = domain_of_root(l);
    const uint8_t lanes = domain_lanes(l, &d, 1);
    p->x_stride = 1;
    if (wide_pool(l, &d, p) || pool_rows(l, &d, p))
        return;
    if (!l->caps->is_gpu && lanes > 1 && d.extent[1] > 1 && operand_has_vectors(l, p->x, 1))
        pool_vectors(l, &d, p, lanes);
    else
        lower_map(l, pool_point, p, MAP_SCALAR);
}

void lower_max_pool(Lower *l)
{
    Pool p = pool_of(l);
    p.is_max = true;
    lower_pool(l, &p);
}

static KRef place_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    Pool *p = ctx;
    Kernel *k = l->k;
    const int type = operand_sum_type(lower_node(l, p->x)->dtype);
    KRef idx[SHAPE_MAX_RANK] = {at.idx[0], at.idx[1]};
    (void)d;
    const KRef acc = k_var(k, pool_neutral(k, p, type), "acc");
    p->best = k_var(k, k_index(k, -1), "best");
    take_taps(l, p, &at, 0, idx, &acc);
    return k_cast(k, k_expr(k, "max($, 0)", k_get(k, p->best)), DTYPE_i64);
}

void lower_argmax_pool(Lower *l)
{
    Pool p = pool_of(l);
    p.is_max = p.finds_place = true;
    lower_map(l, place_point, &p, MAP_SCALAR);
}

void lower_avg_pool(Lower *l)
{
    Pool p = pool_of(l);
    p.counts_pads = node_get_int(lower_node(l, l->anchor), A_avg_pool_count_include_pad) != 0;
    lower_pool(l, &p);
}
