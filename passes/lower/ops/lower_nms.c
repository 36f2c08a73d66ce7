// SPDX-License-Identifier: Apache-2.0
// nms: per batch and class, sorts the boxes by score, then takes each that overlaps none of those taken
// before it. CPUs with vectors keep the edges of those taken in columns of scratch memory and compare with
// many at once. All arithmetic is in f32.
#include "passes/lower/ops/sort.h"

#include <math.h>

typedef struct Nms {
    NodeId boxes, scores, most, iou, score, count; // score, count: 0 = not given, nobody asks
    int64_t batches, classes, n, size;
    bool is_center;
    KRef batch, class; // where the loops are
    KRef found;        // variable: results so far
    uint32_t scratch;  // i32: order of the boxes (2n, without keys), boxes taken (n, without columns)
    uint32_t keys;     // u64: keys of the boxes (2n); only where has_keys
    bool has_keys;
    uint8_t lanes;    // 1: there are no columns
    uint32_t columns; // f32: of the boxes taken
} Nms;

static KRef score_of(Lower *l, const Nms *s, KRef box)
{
    const KRef idx[3] = {s->batch, s->class, box};
    return k_load(l->k, lower_param(l, s->scores, PARAM_READ), operand_index(l, s->scores, idx), 1, 1);
}

// Boxes that may be taken, by falling score; the others behind them.
static KRef is_candidate(Lower *l, const Nms *s, KRef v)
{
    Kernel *k = l->k;
    const KRef is_number = k_eq(k, v, v);
    if (s->score == 0)
        return is_number;
    const KRef least = operand_scalar(l, s->score, k_index(k, 0), DTYPE_f32);
    return k_expr(k, "$ & $ < $", is_number, least, v);
}

static KRef comes_before(Lower *l, void *ctx, KRef a, KRef b)
{
    const Nms *s = ctx;
    Kernel *k = l->k;
    const KRef x = score_of(l, s, a), y = score_of(l, s, b);
    const KRef a_is = is_candidate(l, s, x), b_is = is_candidate(l, s, y);
    const KRef wins = k_expr(k, "$ | $ < $", k_not(k, b_is), y, x);
    return k_and(k, a_is, wins);
}

static KRef coordinate(Lower *l, const Nms *s, KRef box, int64_t i)
{
    const KRef idx[3] = {s->batch, box, k_index(l->k, i)};
    return k_load(l->k, lower_param(l, s->boxes, PARAM_READ), operand_index(l, s->boxes, idx), 1, 1);
}

typedef struct Edge {
    KRef low, high;
} Edge;

static Edge edge_of(Lower *l, const Nms *s, KRef box, int64_t axis)
{
    Kernel *k = l->k;
    if (s->is_center) {
        const KRef middle = coordinate(l, s, box, axis), size = coordinate(l, s, box, 2 + axis);
        const KRef half = k_div(k, size, k_number(k, DTYPE_f32, 2));
        return (Edge){k_sub(k, middle, half), k_add(k, middle, half)};
    }
    const KRef p = coordinate(l, s, box, 1 - axis), q = coordinate(l, s, box, 3 - axis);
    return (Edge){k_min(k, p, q), k_max(k, q, p)};
}

// What the overlap of a box with others is made of: edges by axis, and its area.
typedef struct NmsBox {
    Edge edge[2];
    KRef area;
} NmsBox;

static NmsBox box_of(Lower *l, const Nms *s, KRef box)
{
    Kernel *k = l->k;
    NmsBox b = {0};
    for (int64_t axis = 0; axis < 2; axis++) {
        b.edge[axis] = edge_of(l, s, box, axis);
        const KRef size = k_sub(k, b.edge[axis].high, b.edge[axis].low);
        b.area = axis ? k_mul(k, b.area, size) : size;
    }
    return b;
}

static KRef overlaps(Lower *l, const Nms *s, const NmsBox *a, const NmsBox *b)
{
    Kernel *k = l->k;
    const KRef zero = k_number(k, DTYPE_f32, 0);
    KRef common = 0, meet = 0;
    for (uint32_t axis = 0; axis < 2; axis++) {
        const Edge x = a->edge[axis], y = b->edge[axis];
        const KRef low = k_max(k, x.low, y.low), high = k_min(k, x.high, y.high);
        const KRef part = k_sub(k, high, low), is_part = k_lt(k, low, high);
        meet = axis ? k_and(k, meet, is_part) : is_part;
        common = axis ? k_mul(k, common, part) : part;
    }
    const KRef ratio = k_div(k, common, k_expr(k, "$ + $ - $", a->area, b->area, common));
    const KRef of_a = k_lt(k, zero, a->area), of_b = k_lt(k, zero, b->area);
    const KRef is_more = k_lt(k, operand_scalar(l, s->iou, k_index(k, 0), DTYPE_f32), ratio);
    return k_expr(k, "$ & ($ & $ & $)", meet, of_b, is_more, of_a);
}

// --- boxes taken, in columns ---

enum { COLUMNS = 5 }; // low and high by axis, area

static int64_t column_length(const Nms *s)
{
    return ceil_div(s->n, s->lanes) * s->lanes;
}

// Boxes that overlap with none.
static void clear_columns(Lower *l, const Nms *s)
{
    Kernel *k = l->k;
    const double inf = (double)INFINITY;
    const double none[COLUMNS] = {inf, -inf, inf, -inf, 0};
    const int64_t n = column_length(s);
    for (uint32_t c = 0; c < COLUMNS; c++) {
        const KRef i = k_for(k, k_index(k, c * n), k_index(k, (c + 1) * n), s->lanes, KFOR_SERIAL, "i");
        k_store(k, s->columns, i, k_splat(k, k_number(k, DTYPE_f32, none[c]), s->lanes), s->lanes);
        k_end(k);
    }
}

static void store_columns(Lower *l, const Nms *s, KRef place, const NmsBox *b)
{
    const KRef value[COLUMNS] = {b->edge[0].low, b->edge[0].high, b->edge[1].low, b->edge[1].high, b->area};
    for (uint32_t c = 0; c < COLUMNS; c++)
        k_store(l->k, s->columns, k_expr(l->k, "$ + #", place, c * column_length(s)), value[c], 1);
}

// Whether a box overlaps with none of the first `count`.
static KRef is_free_of_columns(Lower *l, const Nms *s, const NmsBox *box, KRef count)
{
    Kernel *k = l->k;
    const KRef zero = k_number(k, DTYPE_f32, 0), one = k_number(k, DTYPE_f32, 1);
    const KRef found = k_var(k, k_splat(k, zero, s->lanes), "found");
    const KRef i = k_for(k, k_index(k, 0), count, s->lanes, KFOR_SERIAL, "i");
    KRef v[COLUMNS];
    for (uint32_t c = 0; c < COLUMNS; c++)
        v[c] = k_load(k, s->columns, k_expr(k, "$ + #", i, c * column_length(s)), s->lanes, s->lanes);
    const NmsBox others = {.edge = {{v[0], v[1]}, {v[2], v[3]}}, .area = v[4]};
    const KRef hit = k_select(k, overlaps(l, s, box, &others), k_splat(k, one, s->lanes), k_get(k, found));
    k_set(k, found, hit);
    k_end(k);
    return k_eq(k, k_hreduce(k, KOP_max, k_get(k, found)), zero);
}

static KRef load_box(Lower *l, const Nms *s, KRef at)
{
    return k_cast(l->k, k_load(l->k, s->scratch, at, 1, 1), KT_INDEX);
}

static void store_result(Lower *l, const Nms *s, KRef at, const KRef *value)
{
    Kernel *k = l->k;
    (void)s;
    for (int64_t i = 0; i < 3; i++) {
        const KRef idx[2] = {at, k_index(k, i)};
        k_store(k, lower_param(l, l->root, PARAM_WRITE), operand_index(l, l->root, idx),
                value ? k_cast(k, value[i], DTYPE_i64) : k_integer(k, DTYPE_i64, 0), 1);
    }
}

static int64_t first_taken(const Nms *s)
{
    return s->has_keys ? 0 : 2 * s->n;
}

static void take(Lower *l, const Nms *s, KRef box, KRef taken)
{
    Kernel *k = l->k;
    const KRef one = k_index(k, 1);
    if (s->lanes == 1)
        k_store(k, s->scratch, k_expr(k, "$ + #", k_get(k, taken), first_taken(s)), k_cast(k, box, DTYPE_i32),
                1);
    k_set(k, taken, k_add(k, k_get(k, taken), one));
    k_if(k, k_expr(k, "$ < #", k_get(k, s->found), s->size));
    const KRef value[3] = {s->batch, s->class, box};
    store_result(l, s, k_get(k, s->found), value);
    k_set(k, s->found, k_add(k, k_get(k, s->found), one));
    k_end(k);
}

static KRef count_candidates(Lower *l, const Nms *s)
{
    Kernel *k = l->k;
    const KRef count = k_var(k, k_index(k, 0), "candidates");
    const KRef i = k_loop(k, s->n, KFOR_SERIAL, "i");
    k_if(k, is_candidate(l, s, score_of(l, s, i)));
    k_set(k, count, k_expr(k, "$ + 1", k_get(k, count)));
    k_ends(k, 2);
    return k_get(k, count);
}

// The keys of the boxes that may be taken, sorted: their number.
static KRef sort_candidates(Lower *l, const Nms *s)
{
    Kernel *k = l->k;
    const KRef count = k_var(k, k_index(k, 0), "candidates");
    const KRef i = k_loop(k, s->n, KFOR_SERIAL, "i");
    const KRef score = score_of(l, s, i);
    k_if(k, is_candidate(l, s, score));
    k_store(k, s->keys, k_get(k, count), sort_key(l, score, i, SORT_FALLING), 1);
    k_set(k, count, k_expr(k, "$ + 1", k_get(k, count)));
    k_ends(k, 2);
    const KRef n = k_get(k, count);
    sort_keys(l, s->keys, n, s->n);
    return n;
}

static void emit_class(Lower *l, Nms *s)
{
    Kernel *k = l->k;
    const Sort sort = {
        .before = comes_before, .ctx = s, .n = s->n, .scratch = s->scratch, .base = k_index(k, 0)};
    const KRef sorted = s->has_keys ? 0 : sort_positions(l, &sort);
    const KRef candidates = s->has_keys ? sort_candidates(l, s) : count_candidates(l, s);
    const KRef most = operand_clamped(l, s->most, k_index(k, 0), 0, s->n);
    const KRef taken = k_var(k, k_index(k, 0), "taken");
    if (s->lanes > 1)
        clear_columns(l, s);
    const KRef t = k_for(k, k_index(k, 0), candidates, 1, KFOR_SERIAL, "t");
    k_if(k, k_lt(k, k_get(k, taken), most));
    const KRef box = s->has_keys ? sort_position(l, k_load(k, s->keys, t, 1, 1))
                                 : load_box(l, s, k_add(k, sorted, t));
    const NmsBox b = box_of(l, s, box);
    const KRef is_free = k_var(k, k_integer(k, DTYPE_bool, 1), "is_free");
    const KRef others = k_get(k, taken);
    if (s->lanes > 1) {
        k_set(k, is_free, is_free_of_columns(l, s, &b, others));
    } else {
        const KRef i = k_for(k, k_index(k, 0), others, 1, KFOR_SERIAL, "i");
        k_if(k, k_get(k, is_free));
        const NmsBox other = box_of(l, s, load_box(l, s, k_expr(k, "$ + #", i, first_taken(s))));
        k_set(k, is_free, k_not(k, overlaps(l, s, &b, &other)));
        k_ends(k, 2);
    }
    k_if(k, k_get(k, is_free));
    if (s->lanes > 1)
        store_columns(l, s, k_get(k, taken), &b);
    take(l, s, box, taken);
    k_ends(k, 3);
}

void lower_nms(Lower *l)
{
    Kernel *k = l->k;
    const Node *n = lower_node(l, l->anchor);
    const Shape *scores = lower_node(l, n->src[1])->shape;
    rlx_assert(scores->rank == 3 && n->n_src >= 4);
    Nms s = {.boxes = n->src[0],
             .scores = n->src[1],
             .most = n->src[2],
             .iou = n->src[3],
             .score = n->n_src > 4 ? n->src[4] : 0,
             .count = lower_find_result(l, 1),
             .batches = scores->dim[0],
             .classes = scores->dim[1],
             .n = scores->dim[2],
             .size = n->shape->dim[0],
             .is_center = node_get_int(n, A_nms_center_point_box) != 0};
    s.found = k_var(k, k_index(k, 0), "found");
    if (shape_numel(scores) > 0) {
        s.has_keys = sort_has_keys(l, s.scores, s.n);
        s.lanes = l->caps->is_gpu ? 1 : l->caps->f32_lanes;
        const int64_t order = first_taken(&s) + (s.lanes == 1 ? s.n : 0);
        if (order > 0)
            s.scratch = lower_param_scratch(l, "order", DTYPE_i32, (uint64_t)order);
        if (s.lanes > 1)
            s.columns = lower_param_scratch(l, "columns", DTYPE_f32, (uint64_t)(COLUMNS * column_length(&s)));
        if (s.has_keys)
            s.keys = lower_param_scratch(l, "keys", DTYPE_u64, (uint64_t)(2 * s.n));
        s.batch = k_loop(k, s.batches, KFOR_SERIAL, "batch");
        s.class = k_loop(k, s.classes, KFOR_SERIAL, "class");
        emit_class(l, &s);
        k_ends(k, 2);
    }
    const KRef rest = k_for(k, k_get(k, s.found), k_index(k, s.size), 1, KFOR_SERIAL, "rest");
    store_result(l, &s, rest, NULL);
    k_end(k);
    if (s.count != 0)
        k_store(k, lower_param(l, s.count, PARAM_WRITE), k_index(k, 0),
                k_cast(k, k_get(k, s.found), DTYPE_i64), 1);
}
