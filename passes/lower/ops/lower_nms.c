// SPDX-License-Identifier: Apache-2.0
// nms: per batch and class, sorts the boxes by score, then takes each that overlaps none of those taken
// before it. All arithmetic is in f32.
#include "passes/lower/ops/sort.h"

typedef struct Nms {
    NodeId boxes, scores, most, iou, score, count; // score, count: 0 = not given, nobody asks
    int64_t batches, classes, n, size;
    bool is_center;
    KRef batch, class; // where the loops are
    KRef found;        // variable: results so far
    uint32_t scratch;  // i32: order of the boxes (2n), boxes taken (n)
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

static KRef overlaps(Lower *l, const Nms *s, KRef a, KRef b)
{
    Kernel *k = l->k;
    const KRef zero = k_number(k, DTYPE_f32, 0);
    KRef area_a = 0, area_b = 0, common = 0, meet = k_integer(k, DTYPE_bool, 1);
    for (int64_t axis = 0; axis < 2; axis++) {
        const Edge x = edge_of(l, s, a, axis), y = edge_of(l, s, b, axis);
        const KRef low = k_max(k, x.low, y.low), high = k_min(k, x.high, y.high);
        const KRef part = k_sub(k, high, low);
        const KRef size_a = k_sub(k, x.high, x.low), size_b = k_sub(k, y.high, y.low);
        meet = k_expr(k, "$ & $ < $", meet, low, high);
        area_a = axis ? k_mul(k, area_a, size_a) : size_a;
        area_b = axis ? k_mul(k, area_b, size_b) : size_b;
        common = axis ? k_mul(k, common, part) : part;
    }
    const KRef whole = k_expr(k, "$ + $ - $", area_a, area_b, common);
    const KRef ratio = k_div(k, common, whole);
    const KRef have_area = k_expr(k, "$ < $ & $ < $", zero, area_a, zero, area_b);
    const KRef is_more = k_lt(k, operand_scalar(l, s->iou, k_index(k, 0), DTYPE_f32), ratio);
    return k_expr(k, "$ & ($ & $)", meet, have_area, is_more);
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

static void take(Lower *l, const Nms *s, KRef box, KRef taken)
{
    Kernel *k = l->k;
    const KRef one = k_index(k, 1);
    k_store(k, s->scratch, k_expr(k, "$ + #", k_get(k, taken), 2 * s->n), k_cast(k, box, DTYPE_i32), 1);
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
    k_end(k);
    k_end(k);
    return k_get(k, count);
}

static void emit_class(Lower *l, Nms *s)
{
    Kernel *k = l->k;
    const Sort sort = {
        .before = comes_before, .ctx = s, .n = s->n, .scratch = s->scratch, .base = k_index(k, 0)};
    const KRef sorted = sort_positions(l, &sort), candidates = count_candidates(l, s);
    const KRef most = operand_clamped(l, s->most, k_index(k, 0), 0, s->n);
    const KRef taken = k_var(k, k_index(k, 0), "taken");
    const KRef t = k_for(k, k_index(k, 0), candidates, 1, KFOR_SERIAL, "t");
    k_if(k, k_lt(k, k_get(k, taken), most));
    const KRef box = load_box(l, s, k_add(k, sorted, t));
    const KRef is_free = k_var(k, k_integer(k, DTYPE_bool, 1), "is_free");
    const KRef others = k_get(k, taken);
    const KRef i = k_for(k, k_index(k, 0), others, 1, KFOR_SERIAL, "i");
    k_if(k, k_get(k, is_free));
    const KRef other = load_box(l, s, k_expr(k, "$ + #", i, 2 * s->n));
    k_set(k, is_free, k_not(k, overlaps(l, s, box, other)));
    k_end(k);
    k_end(k);
    k_if(k, k_get(k, is_free));
    take(l, s, box, taken);
    k_end(k);
    k_end(k);
    k_end(k);
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
        s.scratch = lower_param_scratch(l, "order", DTYPE_i32, (uint64_t)(3 * s.n));
        s.batch = k_loop(k, s.batches, KFOR_SERIAL, "batch");
        s.class = k_loop(k, s.classes, KFOR_SERIAL, "class");
        emit_class(l, &s);
        k_end(k);
        k_end(k);
    }
    const KRef rest = k_for(k, k_get(k, s.found), k_index(k, s.size), 1, KFOR_SERIAL, "rest");
    store_result(l, &s, rest, NULL);
    k_end(k);
    if (s.count != 0)
        k_store(k, lower_param(l, s.count, PARAM_WRITE), k_index(k, 0),
                k_cast(k, k_get(k, s.found), DTYPE_i64), 1);
}
