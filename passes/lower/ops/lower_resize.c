// SPDX-License-Identifier: Apache-2.0
// resize: where each result element reads is a table per axis that changes, made at compile time from the
// rules that the evaluator uses too. Linear blends the 2 ^ n neighbours along n such axes, pair by pair.
// Filters of any other width (cubic, antialias) and what reads outside of the operand loop over tables of
// elements and weights. Vectors run along an axis that keeps its elements (channels; threads of GPUs have
// whole ones, for which tables are read once), or, where the nearest
// element of the last axis is each one 2, 4 or 8 times, along that one: zips of a vector with itself.
#include "ir/shape/resize.h"
#include "passes/lower/operand.h"
#include "passes/lower/wide.h"
#include <string.h>

typedef struct AxisTable {
    bool is_identity;
    uint32_t lower, upper, weight; // parameters; upper and weight for linear only
    int64_t taps;                  // of a filter: entries of `lower` and `weight` for each result element
} AxisTable;

typedef struct Resize {
    NodeId x;
    bool is_linear;
    bool is_nearest, may_be_outside; // of filters
    double outside;
    uint32_t rank;
    AxisTable axis[SHAPE_MAX_RANK];
    int type; // of sums and weights
} Resize;

// One step of a blend: position and weights of the neighbours along the axes that change.
typedef struct Blend {
    KRef lower[SHAPE_MAX_RANK], upper[SHAPE_MAX_RANK], weight[SHAPE_MAX_RANK], rest[SHAPE_MAX_RANK];
} Blend;

static uint32_t add_index_table(Lower *l, const char *name, const int32_t *v, int64_t n)
{
    return lower_param_data(l, name, DTYPE_i32, v, (uint64_t)n * sizeof *v);
}

static void add_linear_tables(Lower *l, const ResizeAxis *a, AxisTable *t, int type)
{
    Arena *perm = l->pass->perm;
    int32_t *lower = ARENA_ARRAY(perm, int32_t, a->out), *upper = ARENA_ARRAY(perm, int32_t, a->out);
    float *weight = ARENA_ARRAY(perm, float, a->out);
    double *wide = ARENA_ARRAY(perm, double, a->out);
    for (int64_t i = 0; i < a->out; i++) {
        const ResizeLinear r = resize_linear(a, i);
        lower[i] = (int32_t)r.lower;
        upper[i] = (int32_t)r.upper;
        weight[i] = (float)r.weight;
        wide[i] = r.weight;
    }
    t->lower = add_index_table(l, "lower", lower, a->out);
    t->upper = add_index_table(l, "upper", upper, a->out);
    const bool is_wide = type == DTYPE_f64;
    const uint64_t each = is_wide ? sizeof *wide : sizeof *weight;
    t->weight = lower_param_data(l, "weight", (DType)type, is_wide ? (const void *)wide : weight,
                                 (uint64_t)a->out * each);
}

static void add_nearest_table(Lower *l, const ResizeAxis *a, AxisTable *t)
{
    int32_t *from = ARENA_ARRAY(l->pass->perm, int32_t, a->out);
    for (int64_t i = 0; i < a->out; i++)
        from[i] = (int32_t)resize_nearest(a, i);
    t->lower = add_index_table(l, "from", from, a->out);
}

// Does every element stay?
static bool keeps_elements(const ResizeAxis *a)
{
    if (a->in != a->out || a->mode != RESIZE_nearest)
        return a->is_identity;
    for (int64_t i = 0; i < a->out; i++)
        if (resize_nearest(a, i) != i || !resize_is_inside(a, i))
            return false;
    return true;
}

static KRef table_index(Lower *l, uint32_t param, KRef i)
{
    return k_cast(l->k, k_load(l->k, param, i, 1, 1), KT_INDEX);
}

// The blend along axes [axis, rank), the axes before it being fixed in idx. Depth: at most the rank.
static KRef blend(Lower *l, const Resize *r, const Blend *b, uint32_t axis, KRef *idx, const Point *at)
{
    Kernel *k = l->k;
    while (axis < r->rank && r->axis[axis].is_identity)
        axis++;
    if (axis == r->rank)
        return k_cast(k, operand_load(l, r->x, operand_index(l, r->x, idx), at, 1), r->type);
    idx[axis] = b->lower[axis];
    const KRef low = blend(l, r, b, axis + 1, idx, at);
    idx[axis] = b->upper[axis];
    const KRef high = blend(l, r, b, axis + 1, idx, at);
    const KRef high_part = k_mul(k, high, b->weight[axis]);
    return k_expr(k, "$ * $ + $", low, b->rest[axis], high_part);
}

static KRef resize_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Resize *r = ctx;
    Kernel *k = l->k;
    Blend b;
    KRef idx[SHAPE_MAX_RANK];
    (void)d;
    for (uint32_t i = 0; i < r->rank; i++) {
        const AxisTable *t = &r->axis[i];
        idx[i] = t->is_identity ? at.idx[i] : table_index(l, t->lower, at.idx[i]);
        if (t->is_identity || !r->is_linear)
            continue;
        b.lower[i] = idx[i];
        b.upper[i] = table_index(l, t->upper, at.idx[i]);
        b.weight[i] = k_load(k, t->weight, at.idx[i], 1, 1);
        b.rest[i] = k_sub(k, k_number(k, r->type, 1), b.weight[i]);
    }
    if (r->is_linear)
        return k_cast(k, blend(l, r, &b, 0, idx, &at), lower_node(l, r->x)->dtype);
    return operand_load(l, r->x, operand_index(l, r->x, idx), &at, 1);
}

// --- filters ---

// Result elements outside of the operand have -1 as their first element.
static void add_filter_table(Lower *l, const ResizeAxis *a, Resize *r, AxisTable *t)
{
    const int64_t n = resize_tap_count(a), all = n * a->out;
    int64_t *index = ARENA_ARRAY(l->pass->scratch, int64_t, n);
    double *weight = ARENA_ARRAY(l->pass->perm, double, all);
    int32_t *from = ARENA_ARRAY(l->pass->perm, int32_t, all);
    for (int64_t i = 0; i < a->out; i++) {
        const bool is_inside = resize_is_inside(a, i);
        resize_taps(a, i, index, weight + i * n);
        for (int64_t k = 0; k < n; k++)
            from[i * n + k] = is_inside ? (int32_t)index[k] : -1;
        r->may_be_outside = r->may_be_outside || !is_inside;
    }
    t->taps = n;
    t->lower = add_index_table(l, "from", from, all);
    if (r->is_nearest)
        return;
    const bool is_wide = r->type == DTYPE_f64;
    float *narrow = ARENA_ARRAY(l->pass->perm, float, all);
    for (int64_t i = 0; i < all; i++)
        narrow[i] = (float)weight[i];
    t->weight = lower_param_data(l, "weight", (DType)r->type, is_wide ? (const void *)weight : narrow,
                                 (uint64_t)all * (is_wide ? sizeof *weight : sizeof *narrow));
}

static KRef is_inside(Lower *l, const Resize *r, const Point *at)
{
    Kernel *k = l->k;
    KRef inside = k_integer(k, DTYPE_bool, 1);
    for (uint32_t i = 0; i < r->rank; i++) {
        if (r->axis[i].is_identity)
            continue;
        const KRef first =
            table_index(l, r->axis[i].lower, k_expr(k, "$ * # + 0", at->idx[i], r->axis[i].taps));
        inside = k_expr(k, "$ & 0 <= $", inside, first);
    }
    return inside;
}

// The sum over all elements under the filter.
static KRef filtered(Lower *l, const Resize *r, const Point *at)
{
    Kernel *k = l->k;
    KRef idx[SHAPE_MAX_RANK], weight = 0;
    uint32_t opened = 0;
    const KRef sum = k_var(k, k_splat(k, k_number(k, r->type, 0), at->lanes), "sum");
    for (uint32_t i = 0; i < r->rank; i++) {
        const AxisTable *t = &r->axis[i];
        idx[i] = at->idx[i];
        if (t->is_identity)
            continue;
        const KRef tap = k_loop(k, t->taps, KFOR_SERIAL, "tap");
        const KRef place = k_expr(k, "$ * # + $", at->idx[i], t->taps, tap),
                   w = k_load(k, t->weight, place, 1, 1);
        idx[i] = table_index(l, t->lower, place);
        weight = weight ? k_mul(k, weight, w) : w;
        opened++;
    }
    const KRef x = k_cast(k, operand_load(l, r->x, operand_index(l, r->x, idx), at, 1), r->type);
    k_set(k, sum, k_add(k, k_get(k, sum), weight ? k_mul(k, x, weight) : x));
    lower_close(l, opened);
    return k_cast(k, k_get(k, sum), lower_node(l, r->x)->dtype);
}

static KRef picked(Lower *l, const Resize *r, const Point *at)
{
    KRef idx[SHAPE_MAX_RANK];
    for (uint32_t i = 0; i < r->rank; i++)
        idx[i] = r->axis[i].is_identity ? at->idx[i] : table_index(l, r->axis[i].lower, at->idx[i]);
    return operand_load(l, r->x, operand_index(l, r->x, idx), at, 1);
}

static KRef filter_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Resize *r = ctx;
    Kernel *k = l->k;
    const int type = lower_node(l, r->x)->dtype;
    (void)d;
    if (!r->may_be_outside)
        return r->is_nearest ? picked(l, r, &at) : filtered(l, r, &at);
    const int from = dtype_info[type].cls == DCLASS_FLOAT ? type : (int)DTYPE_f32;
    const KRef outside = k_cast(k, k_number(k, from, r->outside), type);
    const KRef value = k_var(k, k_splat(k, outside, at.lanes), "value");
    k_if(k, is_inside(l, r, &at));
    k_set(k, value, r->is_nearest ? picked(l, r, &at) : filtered(l, r, &at));
    k_end(k);
    return k_get(k, value);
}

static ResizeAxis axis_of(const Lower *l, const Node *n, uint32_t i)
{
    return resize_axis(n, i, lower_node(l, n->src[0])->shape->dim[i], n->shape->dim[i]);
}

// --- vectors of threads ---

enum { MOST_CORNERS = 8, FEW_TAPS = 8 };

// Of a thread: the places that it reads, and what it makes of them, `n` elements beside each other.
typedef struct Vector {
    const Resize *r;
    const Point *at;
    uint32_t n, piece;
    KRef held;
} Vector;

static void load_vector(Lower *l, const Vector *v, const KRef *idx, KRef array)
{
    const KRef index = operand_index(l, v->r->x, idx);
    wide_load(l, lower_param(l, v->r->x, PARAM_READ), index, array, 0,
              (WideSpan){.n = v->n, .piece = v->piece});
}

static KRef open_elements(Lower *l, const Vector *v)
{
    return k_loop(l->k, v->n, KFOR_UNROLL, "j");
}

static void nearest_vector(Lower *l, const Vector *v)
{
    KRef idx[SHAPE_MAX_RANK];
    for (uint32_t i = 0; i < v->r->rank; i++) {
        const AxisTable *t = &v->r->axis[i];
        idx[i] = t->is_identity ? v->at->idx[i] : table_index(l, t->lower, v->at->idx[i]);
    }
    load_vector(l, v, idx, v->held);
}

static uint32_t count_changed(const Resize *r)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->rank; i++)
        n += !r->axis[i].is_identity;
    return n;
}

// Changed axis number a of a corner has the upper neighbour where bit a of the corner's number is set.
static void linear_vector(Lower *l, const Vector *v)
{
    const Resize *r = v->r;
    Kernel *k = l->k;
    const uint32_t changed = count_changed(r);
    const int type = lower_node(l, r->x)->dtype;
    KRef corner[MOST_CORNERS], idx[SHAPE_MAX_RANK], weight[SHAPE_MAX_RANK];
    rlx_assert(1u << changed <= MOST_CORNERS);
    for (uint32_t c = 0; c < 1u << changed; c++) {
        uint32_t number = 0;
        for (uint32_t i = 0; i < r->rank; i++) {
            const AxisTable *t = &r->axis[i];
            idx[i] = t->is_identity
                         ? v->at->idx[i]
                         : table_index(l, c >> number & 1 ? t->upper : t->lower, v->at->idx[i]);
            if (!t->is_identity)
                weight[number++] = k_load(k, t->weight, v->at->idx[i], 1, 1);
        }
        corner[c] = k_array(k, type, v->n);
        load_vector(l, v, idx, corner[c]);
    }
    const KRef j = open_elements(l, v);
    KRef value[MOST_CORNERS];
    for (uint32_t c = 0; c < 1u << changed; c++)
        value[c] = k_cast(k, k_aload(k, corner[c], j, 1), r->type);
    for (uint32_t a = changed; a-- > 0;) { // as blend does, from the last axis on
        const KRef rest = k_sub(k, k_number(k, r->type, 1), weight[a]);
        for (uint32_t c = 0; c < 1u << a; c++)
            value[c] = k_expr(k, "$ * $ + $", value[c], rest, k_mul(k, value[c | 1u << a], weight[a]));
    }
    k_astore(k, v->held, j, k_cast(k, value[0], type));
    k_end(k);
}

static void filter_vector(Lower *l, const Vector *v)
{
    const Resize *r = v->r;
    Kernel *k = l->k;
    const int type = lower_node(l, r->x)->dtype;
    const KRef sums = k_array(k, r->type, v->n), x = k_array(k, type, v->n);
    KRef idx[SHAPE_MAX_RANK], weight = 0;
    uint32_t opened = 0;
    k_astore(k, sums, open_elements(l, v), k_number(k, r->type, 0));
    k_end(k);
    for (uint32_t i = 0; i < r->rank; i++) {
        const AxisTable *t = &r->axis[i];
        idx[i] = v->at->idx[i];
        if (t->is_identity)
            continue;
        const KRef tap = k_loop(k, t->taps, t->taps <= FEW_TAPS ? KFOR_UNROLL : KFOR_SERIAL, "tap");
        const KRef place = k_expr(k, "$ * # + $", v->at->idx[i], t->taps, tap);
        const KRef w = k_load(k, t->weight, place, 1, 1);
        idx[i] = table_index(l, t->lower, place);
        weight = weight != 0 ? k_mul(k, weight, w) : w;
        opened++;
    }
    load_vector(l, v, idx, x);
    KRef j = open_elements(l, v);
    const KRef part = k_cast(k, k_aload(k, x, j, 1), r->type);
    k_astore(k, sums, j, k_add(k, k_aload(k, sums, j, 1), weight != 0 ? k_mul(k, part, weight) : part));
    lower_close(l, opened + 1);
    j = open_elements(l, v);
    k_astore(k, v->held, j, k_cast(k, k_aload(k, sums, j, 1), type));
    k_end(k);
}

// A whole kernel of a GPU, where neighbours in memory are not resized. False: nothing was emitted.
static bool wide_resize(Lower *l, const Resize *r, uint32_t inner, bool has_filter)
{
    Domain d = domain_of_root(l);
    Point at = {.lanes = 1, .count = 1};
    uint32_t opened = 0;
    Wide w;
    if (!l->caps->is_gpu || d.rank == 0 || shape_numel(lower_node(l, r->x)->shape) == 0 ||
        (has_filter && r->may_be_outside) ||
        (!has_filter && r->is_linear && 1u << count_changed(r) > MOST_CORNERS))
        return false;
    const uint32_t piece = wide_operand_piece(l, r->x, inner);
    if (piece == 0 || !wide_begin(l, &d, inner, &w, &at, &opened))
        return false;
    const Vector v = {.r = r, .at = &at, .n = w.n, .piece = piece,
                      .held = k_array(l->k, lower_node(l, r->x)->dtype, w.n)};
    if (r->is_nearest)
        nearest_vector(l, &v);
    else if (has_filter)
        filter_vector(l, &v);
    else
        linear_vector(l, &v);
    wide_finish_held(l, &w, at, opened, v.held);
    return true;
}

static void store_resized(Lower *l, const Domain *d, Point at, void *ctx)
{
    pull_store_root(l, d, at, resize_point(l, d, at, ctx));
}

// A whole kernel of a GPU, where neighbours in memory are resized: a thread has some that it stores at once,
// for which tables of the other axes are read once. False: nothing was emitted.
static bool neighbours_resize(Lower *l, Resize *r, uint32_t inner)
{
    return l->caps->is_gpu && shape_numel(lower_node(l, r->x)->shape) != 0 &&
           shape_numel(lower_node(l, l->root)->shape) >= (int64_t)gpu_about_threads(l->caps->gpu) &&
           wide_axis_map(l, inner, store_resized, r);
}

// --- repeated neighbours ---

enum { MOST_REPEATS = 8, MIN_LANES = 4 };

typedef struct Repeat {
    const Resize *r;
    const Domain *d;
    int64_t times;
    uint8_t lanes;
} Repeat;

// How often each element of the axis follows itself; 0: other elements are nearest, or it is no power of two.
static int64_t find_repeats(const ResizeAxis *a)
{
    const int64_t times = a->in > 0 && a->out % a->in == 0 ? a->out / a->in : 0;
    if (times < 2 || times > MOST_REPEATS || (times & (times - 1)) != 0)
        return 0;
    for (int64_t i = 0; i < a->out; i++)
        if (resize_nearest(a, i) != i / times)
            return 0;
    return times;
}

// Some elements of a row from `first` on, each `times` times.
static void repeat_vector(Lower *l, const Repeat *p, Point at, KRef first, int64_t count)
{
    Kernel *k = l->k;
    const Resize *r = p->r;
    const uint32_t last = r->rank - 1;
    const int type = lower_node(l, r->x)->dtype;
    const Point in = {.lanes = p->lanes, .count = (uint8_t)count};
    KRef idx[SHAPE_MAX_RANK], v[MOST_REPEATS], next[MOST_REPEATS];
    for (uint32_t i = 0; i < last; i++)
        idx[i] = r->axis[i].is_identity ? at.idx[i] : table_index(l, r->axis[i].lower, at.idx[i]);
    idx[last] = first;
    v[0] = k_cast(k, operand_load(l, r->x, operand_index(l, r->x, idx), &in, 1), DTYPE_f32);
    for (int64_t n = 1; n < p->times; n *= 2) {
        for (int64_t i = 0; i < n; i++) {
            next[2 * i] = k_zip(k, KZIP_LOW, v[i], v[i]);
            next[2 * i + 1] = k_zip(k, KZIP_HIGH, v[i], v[i]);
        }
        memcpy(v, next, (size_t)(2 * n) * sizeof *v);
    }
    at.vec_axis = last;
    at.lanes = p->lanes;
    for (int64_t i = 0; i < p->times && i * p->lanes < count * p->times; i++) {
        const int64_t left = count * p->times - i * p->lanes;
        at.count = left < p->lanes ? (uint8_t)left : p->lanes;
        at.idx[last] = k_expr(k, "$ * # + #", first, p->times, i * p->lanes);
        pull_store_root(l, p->d, at, k_cast(k, v[i], type));
    }
}

// A whole kernel, where the last axis has repeats, and its elements are neighbours. False: nothing was
// emitted.
static bool repeat_map(Lower *l, const Resize *r)
{
    const ResizeAxis last = axis_of(l, lower_node(l, l->anchor), r->rank - 1);
    const int64_t times = find_repeats(&last);
    Domain d = domain_of_root(l);
    Point at = {.lanes = 1, .count = 1};
    uint32_t opened = 0;
    if (times == 0 || l->caps->is_gpu || !operand_has_vectors(l, r->x, r->rank - 1))
        return false;
    const Repeat p = {.r = r, .d = &d, .times = times, .lanes = domain_lanes(l, &d, r->rank - 1)};
    if (p.lanes < MIN_LANES || d.live[r->rank - 1].size != 0)
        return false;
    Kernel *k = l->k;
    const int64_t n = lower_node(l, r->x)->shape->dim[r->rank - 1], rest = n % p.lanes, whole = n - rest;
    for (uint32_t i = 0; i + 1 < r->rank; i++)
        opened += lower_open_axis(l, &d, i, KFOR_PARALLEL, &at);
    if (whole > 0) {
        const KRef first = k_for(k, k_index(k, 0), k_index(k, whole), p.lanes, KFOR_PARALLEL, "w");
        repeat_vector(l, &p, at, first, p.lanes);
        k_end(k);
    }
    if (rest > 0)
        repeat_vector(l, &p, at, k_index(k, whole), rest);
    lower_close(l, opened);
    return true;
}

// --- ---

static bool needs_filter(const Node *n)
{
    const ResizeAxis a = resize_axis(n, 0, 1, 1);
    return a.coord == RESIZE_tf_crop_and_resize || (a.mode != RESIZE_nearest && !resize_is_plain(&a));
}

static void add_axis(Lower *l, const Node *n, uint32_t i, bool has_filter, Resize *r)
{
    const ResizeAxis a = axis_of(l, n, i);
    r->axis[i].is_identity = keeps_elements(&a);
    if (r->axis[i].is_identity)
        return;
    if (has_filter)
        add_filter_table(l, &a, r, &r->axis[i]);
    else if (r->is_linear)
        add_linear_tables(l, &a, &r->axis[i], r->type);
    else
        add_nearest_table(l, &a, &r->axis[i]);
}

void lower_resize(Lower *l)
{
    const Node *n = lower_node(l, l->anchor);
    const Shape *s = lower_node(l, n->src[0])->shape;
    rlx_assert(s->rank == n->shape->rank);
    Resize r = {.x = n->src[0],
                .is_linear = str_equal(node_get_str(n, A_resize_mode), "linear"),
                .is_nearest = str_equal(node_get_str(n, A_resize_mode), "nearest"),
                .outside = node_get_float(n, A_resize_extrapolation),
                .rank = s->rank,
                .type = operand_sum_type(n->dtype)};
    const bool has_filter = s->rank > 0 && needs_filter(n);
    for (uint32_t i = 0; i + 1 < s->rank; i++)
        add_axis(l, n, i, has_filter, &r);
    if (r.is_nearest && !has_filter && s->rank > 0 && repeat_map(l, &r))
        return;
    if (s->rank > 0)
        add_axis(l, n, s->rank - 1, has_filter, &r);
    const uint32_t inner = operand_map_axis(l);
    const bool keeps_inner = s->rank > 0 && r.axis[inner].is_identity;
    if (keeps_inner && wide_resize(l, &r, inner, has_filter))
        return;
    if (s->rank > 0 && !keeps_inner && !has_filter && neighbours_resize(l, &r, inner))
        return;
    const bool has_vectors = keeps_inner && operand_has_vectors(l, r.x, inner);
    lower_map(l, has_filter ? filter_point : resize_point, &r, has_vectors ? MAP_VECTOR : MAP_SCALAR);
}
