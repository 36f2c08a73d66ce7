// SPDX-License-Identifier: Apache-2.0
// roi_pool: every result element finds its bin in the region, then loops over the points (or elements) of the
// bin. CPUs find the bins and points of a region once for all channels, if the points of a bin have a known
// number, and keep them in a table; of channels-last images they take vectors of channels. Corners and steps
// are in the type that the op states, in the order of the evaluator.
#include "passes/lower/operand.h"
#include <math.h>

typedef struct RoiPool {
    NodeId x, rois, image;
    bool is_max, is_bins, half_pixel;
    int64_t size[2], bins[2], sampling, images; // y, x
    double scale;
    int type;
} RoiPool;

typedef struct RoiSpan {
    KRef start, step, points;
} RoiSpan;

typedef struct RoiBlend {
    KRef low, high, part, rest, is_inside;
} RoiBlend;

static KRef number(Lower *l, const RoiPool *r, double v)
{
    return k_number(l->k, r->type, v);
}

// Coordinate `which` of the region, scaled.
static KRef corner(Lower *l, const RoiPool *r, KRef roi, int64_t which)
{
    const KRef idx[2] = {roi, k_index(l->k, which)};
    const KRef v = operand_scalar(l, r->rois, operand_index(l, r->rois, idx), r->type);
    return k_mul(l->k, v, number(l, r, r->scale));
}

// Rounds to a whole number and keeps it in [low, high].
static KRef whole(Lower *l, const RoiPool *r, KOp rounding, KRef v, double low, double high)
{
    Kernel *k = l->k;
    const KRef n = rounding == KOP_COUNT ? v : k_op(k, rounding, v, 0, 0);
    const KRef above = k_select(k, k_le(k, number(l, r, low), n), n, number(l, r, low));
    return k_cast(k, k_select(k, k_le(k, above, number(l, r, high)), above, number(l, r, high)), KT_INDEX);
}

static RoiSpan span_of(Lower *l, const RoiPool *r, KRef roi, uint32_t axis)
{
    Kernel *k = l->k;
    const KRef offset = number(l, r, 0.5), one = number(l, r, 1);
    KRef start = corner(l, r, roi, 1 - (int64_t)axis), end = corner(l, r, roi, 3 - (int64_t)axis);
    if (r->half_pixel) {
        start = k_sub(k, start, offset);
        end = k_sub(k, end, offset);
    }
    KRef length = k_sub(k, end, start);
    if (!r->half_pixel)
        length = k_select(k, k_lt(k, one, length), length, one);
    RoiSpan s = {.start = start, .step = k_div(k, length, number(l, r, (double)r->bins[axis]))};
    s.points = r->sampling > 0 ? k_index(k, r->sampling)
                               : whole(l, r, KOP_ceil, s.step, 0, 4 * (double)r->size[axis]);
    return s;
}

static RoiBlend blend_of(Lower *l, const RoiPool *r, const RoiSpan *s, KRef bin, KRef point, uint32_t axis)
{
    Kernel *k = l->k;
    const double last = (double)r->size[axis] - 1;
    const KRef zero = number(l, r, 0), one = number(l, r, 1);
    const KRef base = k_expr(k, "$ + $ * $", s->start, k_cast(k, bin, r->type), s->step);
    const KRef half = k_add(k, k_cast(k, point, r->type), number(l, r, 0.5));
    const KRef inner = k_expr(k, "$ * $ / $", half, s->step, k_cast(k, s->points, r->type));
    const KRef v = k_add(k, base, inner);
    RoiBlend b;
    b.is_inside = k_expr(k, "$ <= $ & $ <= $", number(l, r, -1), v, v, number(l, r, last + 1));
    const KRef at = k_select(k, k_lt(k, zero, v), v, zero);
    b.low = whole(l, r, KOP_floor, at, 0, last);
    b.high = k_expr(k, "min($ + 1, #)", b.low, r->size[axis] - 1);
    const KRef part = k_sub(k, at, k_cast(k, b.low, r->type));
    b.part = k_select(k, k_expr(k, "$ < #", b.low, r->size[axis] - 1), part, zero);
    b.rest = k_sub(k, one, b.part);
    return b;
}

static KRef element(Lower *l, const RoiPool *r, const KRef *plane, KRef y, KRef x)
{
    const KRef idx[4] = {plane[0], plane[1], y, x};
    return operand_scalar(l, r->x, operand_index(l, r->x, idx), r->type);
}

// That of the point's channel, or those of its lanes.
static KRef elements(Lower *l, const RoiPool *r, const Point *at, const KRef *plane, KRef y, KRef x)
{
    const KRef idx[4] = {plane[0], plane[1], y, x};
    return k_cast(l->k, operand_load(l, r->x, operand_index(l, r->x, idx), at, 1), r->type);
}

static KRef larger(Kernel *k, KRef a, KRef b)
{
    const KRef wins = k_expr(k, "$ < $ | $ != $", a, b, a, a);
    return k_select(k, wins, b, a);
}

static KRef point_value(Lower *l, const RoiPool *r, const KRef *plane, const RoiBlend *y, const RoiBlend *x)
{
    Kernel *k = l->k;
    const KRef wy[2] = {y->rest, y->part}, wx[2] = {x->rest, x->part}, ay[2] = {y->low, y->high},
               ax[2] = {x->low, x->high};
    KRef all = 0;
    for (uint32_t i = 0; i < 4; i++) {
        const KRef weight = k_mul(k, wy[i / 2], wx[i % 2]);
        const KRef v = k_mul(k, weight, element(l, r, plane, ay[i / 2], ax[i % 2]));
        all = !all ? v : r->is_max ? larger(k, all, v) : k_add(k, all, v);
    }
    return all;
}

// Adds the value of a point, or takes it where it is the first or the largest.
static void take_point(Lower *l, const RoiPool *r, KRef all, KRef is_first, KRef v)
{
    Kernel *k = l->k;
    const KRef before = k_get(k, all);
    if (!r->is_max) {
        k_set(k, all, k_add(k, before, v));
        return;
    }
    k_set(k, all, k_select(k, k_get(k, is_first), v, larger(k, before, v)));
    k_set(k, is_first, k_integer(k, DTYPE_bool, 0));
}

static KRef align(Lower *l, const RoiPool *r, const KRef *plane, const Point *at)
{
    Kernel *k = l->k;
    const RoiSpan sy = span_of(l, r, at->idx[0], 0), sx = span_of(l, r, at->idx[0], 1);
    const KRef all = k_var(k, number(l, r, 0), "all");
    const KRef is_first = r->is_max ? k_var(k, k_integer(k, DTYPE_bool, 1), "first") : 0;
    const KRef py = k_for(k, k_index(k, 0), sy.points, 1, KFOR_SERIAL, "py");
    const RoiBlend y = blend_of(l, r, &sy, at->idx[2], py, 0);
    const KRef px = k_for(k, k_index(k, 0), sx.points, 1, KFOR_SERIAL, "px");
    const RoiBlend x = blend_of(l, r, &sx, at->idx[3], px, 1);
    const KRef value = k_var(k, number(l, r, 0), "value");
    k_if(k, k_and(k, y.is_inside, x.is_inside));
    k_set(k, value, point_value(l, r, plane, &y, &x));
    k_end(k);
    take_point(l, r, all, is_first, k_get(k, value));
    k_ends(k, 2);
    if (r->is_max)
        return k_get(k, all);
    const KRef count = k_expr(k, "max($ * $, 1)", sy.points, sx.points);
    return k_div(k, k_get(k, all), k_cast(k, count, r->type));
}

// --- MaxRoiPool ---

static KRef round_away(Lower *l, const RoiPool *r, KRef v)
{
    Kernel *k = l->k;
    const KRef size = k_add(k, k_abs(k, v), number(l, r, 0.5));
    const KRef n = whole(l, r, KOP_floor, size, 0, 1e6);
    const KRef is_negative = k_lt(k, v, number(l, r, 0));
    return k_select(k, is_negative, k_expr(k, "0 - $", n), n);
}

static void bin_range(Lower *l, const RoiPool *r, const Point *at, uint32_t axis, KRef *lo, KRef *hi)
{
    Kernel *k = l->k;
    const KRef start = round_away(l, r, corner(l, r, at->idx[0], 1 - (int64_t)axis)),
               end = round_away(l, r, corner(l, r, at->idx[0], 3 - (int64_t)axis));
    const KRef span = k_expr(k, "$ - $ + 1", end, start);
    const KRef length = k_cast(k, k_expr(k, "max($, 1)", span), r->type);
    const KRef step = k_div(k, length, number(l, r, (double)r->bins[axis]));
    const KRef bin = k_cast(k, at->idx[2 + axis], r->type),
               next = k_cast(k, k_expr(k, "$ + 1", at->idx[2 + axis]), r->type);
    const KRef from = whole(l, r, KOP_floor, k_mul(k, bin, step), 0, 4e6),
               to = whole(l, r, KOP_ceil, k_mul(k, next, step), 0, 4e6);
    const KRef zero = k_index(k, 0), size = k_index(k, r->size[axis]);
    *lo = k_expr(k, "min(max($ + $, $), $)", start, from, zero, size);
    *hi = k_expr(k, "min(max($ + $, $), $)", start, to, zero, size);
}

// Of the rows from range[0] to range[1] and the columns from range[2] to range[3]; 0 if there are none.
static KRef largest(Lower *l, const RoiPool *r, const Point *at, const KRef *plane, const KRef *range)
{
    Kernel *k = l->k;
    const KRef top = k_var(k, k_splat(k, number(l, r, 0), at->lanes), "top");
    k_if(k, k_expr(k, "$ < $ & $ < $", range[0], range[1], range[2], range[3]));
    k_set(k, top, elements(l, r, at, plane, range[0], range[2]));
    const KRef y = k_for(k, range[0], range[1], 1, KFOR_SERIAL, "y");
    const KRef x = k_for(k, range[2], range[3], 1, KFOR_SERIAL, "x");
    const KRef v = elements(l, r, at, plane, y, x), before = k_get(k, top);
    k_set(k, top, k_select(k, k_lt(k, before, v), v, before));
    k_ends(k, 3);
    return k_get(k, top);
}

// --- tables of a region --------------------------------------------------------------------------

enum { CORNERS = 4, TABLE_BINS = 64, TABLE_PLACES = 1 << 16 };

typedef struct RoiTable {
    uint32_t places, weights; // parameters: elements of a plane and what they count, four for each point
    KRef first_place, first_weight;
    int64_t points; // of a bin, at most; their number is behind all places
    KRef starts[2], ends[2]; // of is_bins: arrays of the rows and columns of each bin
} RoiTable;

static int64_t count_bins(const RoiPool *r)
{
    return r->bins[0] * r->bins[1];
}

static KRef bin_of(Lower *l, const RoiPool *r, KRef y, KRef x)
{
    return k_expr(l->k, "$ * # + $", y, r->bins[1], x);
}

static KRef count_place(Lower *l, const RoiPool *r, const RoiTable *t, KRef bin)
{
    return k_expr(l->k, "$ + $ + #", t->first_place, bin, count_bins(r) * t->points * CORNERS);
}

// Point number `n` of a bin.
static void store_corners(Lower *l, const RoiPool *r, const RoiTable *t, KRef place, const RoiBlend *yx)
{
    Kernel *k = l->k;
    const int64_t *stride = lower_loc(l, r->x)->stride;
    const RoiBlend *y = &yx[0], *x = &yx[1];
    const KRef wy[2] = {y->rest, y->part}, wx[2] = {x->rest, x->part}, ay[2] = {y->low, y->high},
               ax[2] = {x->low, x->high};
    for (uint32_t i = 0; i < CORNERS; i++) {
        const KRef at = k_expr(k, "$ * # + $ * #", ay[i / 2], stride[2], ax[i % 2], stride[3]);
        const KRef from = k_expr(k, "$ * # + #", place, CORNERS, i);
        k_store(k, t->places, k_add(k, t->first_place, from), k_cast(k, at, DTYPE_i32), 1);
        k_store(k, t->weights, k_add(k, t->first_weight, from), k_mul(k, wy[i / 2], wx[i % 2]), 1);
    }
}

// The points of all bins that are inside of the image: the others add nothing.
static void table_points(Lower *l, const RoiPool *r, const RoiTable *t, KRef roi)
{
    Kernel *k = l->k;
    const RoiSpan sy = span_of(l, r, roi, 0), sx = span_of(l, r, roi, 1);
    const KRef by = k_loop(k, r->bins[0], KFOR_SERIAL, "by"), bx = k_loop(k, r->bins[1], KFOR_SERIAL, "bx");
    const KRef bin = bin_of(l, r, by, bx), n = k_var(k, k_index(k, 0), "n");
    const KRef py = k_loop(k, r->sampling, KFOR_SERIAL, "py"), px = k_loop(k, r->sampling, KFOR_SERIAL, "px");
    const RoiBlend yx[2] = {blend_of(l, r, &sy, by, py, 0), blend_of(l, r, &sx, bx, px, 1)};
    k_if(k, k_and(k, yx[0].is_inside, yx[1].is_inside));
    store_corners(l, r, t, k_expr(k, "$ * # + $", bin, t->points, k_get(k, n)), yx);
    k_set(k, n, k_expr(k, "$ + 1", k_get(k, n)));
    k_ends(k, 3);
    k_store(k, t->places, count_place(l, r, t, bin), k_cast(k, k_get(k, n), DTYPE_i32), 1);
    k_ends(k, 2);
}

static KRef mean_of_points(Lower *l, const RoiPool *r, const RoiTable *t, const KRef *plane, const Point *at)
{
    Kernel *k = l->k;
    const KRef idx[4] = {plane[0], plane[1], k_index(k, 0), k_index(k, 0)};
    const KRef first = operand_index(l, r->x, idx), bin = bin_of(l, r, at->idx[2], at->idx[3]);
    const KRef all = k_var(k, k_splat(k, number(l, r, 0), at->lanes), "all");
    const KRef n = k_cast(k, k_load(k, t->places, count_place(l, r, t, bin), 1, 1), KT_INDEX);
    const KRef p = k_for(k, k_index(k, 0), n, 1, KFOR_SERIAL, "p");
    const KRef from = k_expr(k, "($ * # + $) * #", bin, t->points, p, CORNERS);
    KRef value = 0;
    for (uint32_t i = 0; i < CORNERS; i++) {
        const KRef place = k_load(k, t->places, k_expr(k, "$ + $ + #", t->first_place, from, i), 1, 1);
        const KRef weight = k_load(k, t->weights, k_expr(k, "$ + $ + #", t->first_weight, from, i), 1, 1);
        const KRef element = k_add(k, first, k_cast(k, place, KT_INDEX));
        const KRef x = k_cast(k, operand_load(l, r->x, element, at, 1), r->type);
        const KRef v = k_mul(k, k_splat(k, weight, at->lanes), x);
        value = i == 0 ? v : k_add(k, value, v);
    }
    k_set(k, all, k_add(k, k_get(k, all), value));
    k_end(k);
    return k_div(k, k_get(k, all), k_splat(k, number(l, r, (double)t->points), at->lanes));
}

static void table_bins(Lower *l, const RoiPool *r, RoiTable *t, KRef roi)
{
    Kernel *k = l->k;
    for (uint32_t axis = 0; axis < 2; axis++) {
        t->starts[axis] = k_array(k, DTYPE_i32, r->bins[axis]);
        t->ends[axis] = k_array(k, DTYPE_i32, r->bins[axis]);
        const KRef bin = k_loop(k, r->bins[axis], KFOR_SERIAL, "bin");
        Point at = {.lanes = 1, .count = 1};
        KRef lo, hi;
        at.idx[0] = roi;
        at.idx[2 + axis] = bin;
        bin_range(l, r, &at, axis, &lo, &hi);
        k_astore(k, t->starts[axis], bin, k_cast(k, lo, DTYPE_i32));
        k_astore(k, t->ends[axis], bin, k_cast(k, hi, DTYPE_i32));
        k_end(k);
    }
}

static KRef largest_of_bin(Lower *l, const RoiPool *r, const RoiTable *t, const KRef *plane, const Point *at)
{
    KRef range[4];
    for (uint32_t axis = 0; axis < 2; axis++) {
        range[2 * axis] = k_cast(l->k, k_aload(l->k, t->starts[axis], at->idx[2 + axis], 1), KT_INDEX);
        range[2 * axis + 1] = k_cast(l->k, k_aload(l->k, t->ends[axis], at->idx[2 + axis], 1), KT_INDEX);
    }
    return largest(l, r, at, plane, range);
}

static bool has_table(const Lower *l, const RoiPool *r)
{
    const int64_t places = count_bins(r) * r->sampling * r->sampling * CORNERS;
    const bool is_small = r->is_bins ? r->bins[0] <= TABLE_BINS && r->bins[1] <= TABLE_BINS
                                     : !r->is_max && r->sampling > 0 && places <= TABLE_PLACES;
    const Shape *x = lower_node(l, r->x)->shape;
    return !l->caps->is_gpu && !l->caps->prefers_ints && is_small && shape_numel(x) > 0 &&
           shape_numel(x) < INT32_MAX;
}

// A bin of one channel, or of a vector of them.
typedef struct RoiBin {
    const RoiPool *r;
    const RoiTable *t;
    KRef image;
} RoiBin;

static void roi_bin(Lower *l, const Domain *d, Point at, void *ctx)
{
    const RoiBin *b = ctx;
    const RoiPool *r = b->r;
    const KRef plane[2] = {b->image, at.idx[1]};
    const KRef v =
        r->is_bins ? largest_of_bin(l, r, b->t, plane, &at) : mean_of_points(l, r, b->t, plane, &at);
    pull_store_root(l, d, at, k_cast(l->k, v, lower_node(l, r->x)->dtype));
}

// All bins of all channels of a region, in the order of memory: vectors of channels, or planes.
static void roi_bins(Lower *l, const Domain *d, RoiBin *b, Point at)
{
    const uint8_t lanes = operand_has_vectors(l, b->r->x, 1) ? domain_lanes(l, d, 1) : 1;
    uint32_t opened = 0;
    if (lanes == 1)
        opened += lower_open_axis(l, d, 1, KFOR_SERIAL, &at);
    opened += lower_open_axis(l, d, 2, KFOR_SERIAL, &at);
    opened += lower_open_axis(l, d, 3, KFOR_SERIAL, &at);
    if (lanes == 1)
        roi_bin(l, d, at, b);
    else
        lower_along(l, d, 1, lanes, at, roi_bin, b);
    lower_close(l, opened);
}

static void roi_by_table(Lower *l, const RoiPool *r)
{
    Domain d = domain_of_root(l);
    Point at = {.lanes = 1, .count = 1};
    RoiTable t = {.points = r->sampling * r->sampling};
    RoiBin b = {.r = r, .t = &t};
    const uint64_t places = (uint64_t)(count_bins(r) * t.points * CORNERS);
    if (!r->is_bins) {
        t.places = lower_param_thread_scratch(l, "places", DTYPE_i32, places + (uint64_t)count_bins(r),
                                              &t.first_place);
        t.weights = lower_param_thread_scratch(l, "weights", (DType)r->type, places, &t.first_weight);
    }
    const uint32_t opened = lower_open_axis(l, &d, 0, KFOR_PARALLEL, &at);
    if (r->is_bins)
        table_bins(l, r, &t, at.idx[0]);
    else
        table_points(l, r, &t, at.idx[0]);
    const KRef place = operand_index(l, r->image, &at.idx[0]);
    b.image = operand_clamped(l, r->image, place, 0, r->images - 1);
    roi_bins(l, &d, &b, at);
    lower_close(l, opened);
}

static KRef roi_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const RoiPool *r = ctx;
    const KRef place = operand_index(l, r->image, &at.idx[0]);
    const KRef plane[2] = {operand_clamped(l, r->image, place, 0, r->images - 1), at.idx[1]};
    KRef range[4];
    (void)d;
    for (uint32_t axis = 0; r->is_bins && axis < 2; axis++)
        bin_range(l, r, &at, axis, &range[2 * axis], &range[2 * axis + 1]);
    const KRef v = r->is_bins ? largest(l, r, &at, plane, range) : align(l, r, plane, &at);
    return k_cast(l->k, v, lower_node(l, r->x)->dtype);
}

void lower_roi_pool(Lower *l)
{
    const Node *n = lower_node(l, l->anchor);
    const Shape *s = lower_node(l, n->src[0])->shape;
    rlx_assert(s->rank == 4 && n->shape->rank == 4);
    const char *mode = node_get_str(n, A_roi_pool_mode);
    RoiPool r = {.x = n->src[0],
                 .rois = n->src[1],
                 .image = n->src[2],
                 .is_max = str_equal(mode, "max"),
                 .is_bins = str_equal(mode, "bins"),
                 .half_pixel = node_get_int(n, A_roi_pool_half_pixel) != 0,
                 .size = {s->dim[2], s->dim[3]},
                 .bins = {n->shape->dim[2], n->shape->dim[3]},
                 .sampling = node_get_int(n, A_roi_pool_sampling),
                 .images = s->dim[0],
                 .scale = node_get_float(n, A_roi_pool_scale),
                 .type = operand_sum_type(n->dtype)};
    if (has_table(l, &r))
        roi_by_table(l, &r);
    else
        lower_map(l, roi_point, &r, MAP_SCALAR);
}
