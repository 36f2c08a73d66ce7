// SPDX-License-Identifier: Apache-2.0
// repack. Where one of the boxes is a list, the rows of the other are copied as they are, one after the
// other; else every element of the result finds its number in the one box, and from it the place in the
// other.
#include "passes/lower/operand.h"

// Size of axis `i` of a box that is read at run time, at most what the shape has.
static KRef box_size(Lower *l, NodeId box, uint32_t i, int64_t min, int64_t max)
{
    const KRef at = k_index(l->k, i);
    return operand_clamped(l, box, operand_index(l, box, &at), min, max);
}

static KRef repack_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    Kernel *k = l->k;
    const Node *n = lower_node(l, l->anchor);
    const NodeId x = n->src[0], from = n->src[1], to = n->src[2];
    const Shape *s = lower_node(l, x)->shape, *out = lower_node(l, l->root)->shape;
    const int dtype = lower_node(l, x)->dtype;
    KRef number = k_index(k, 0), scale = k_index(k, 1), inside = k_integer(k, DTYPE_bool, 1);
    KRef idx[SHAPE_MAX_RANK];
    (void)d;
    (void)ctx;
    for (uint32_t i = out->rank; i-- > 0;) {
        const KRef size = box_size(l, to, i, 0, out->dim[i]);
        inside = k_expr(k, "$ & $ < $", inside, at.idx[i], size);
        number = k_expr(k, "$ + $ * $", number, at.idx[i], scale);
        scale = k_mul(k, scale, size);
    }
    for (uint32_t i = s->rank; i-- > 0;) {
        const KRef size = box_size(l, from, i, 0, s->dim[i]);
        const KRef divisor =
            box_size(l, from, i, 1, s->dim[i] > 1 ? s->dim[i] : 1); // an empty box has sizes 0
        idx[i] = k_rem(k, number, divisor);
        number = k_div(k, number, divisor);
        inside = k_expr(k, "$ & 0 < $", inside, size);
    }
    inside = k_expr(k, "$ & $ == 0", inside, number);
    const int type = dtype;
    const KRef zero = dtype_info[type].cls == DCLASS_FLOAT ? k_number(k, type, 0) : k_integer(k, type, 0);
    const KRef value = k_var(k, zero, "value");
    if (shape_numel(s) == 0)
        return k_get(k, value);
    k_if(k, inside);
    k_set(k, value, operand_load(l, x, operand_index(l, x, idx), &at, 1));
    k_end(k);
    return k_get(k, value);
}

// --- rows ----------------------------------------------------------------------------------------

// The box that is not a list, and where its rows are in the list.
typedef struct Rows {
    NodeId x, box_sizes, list_sizes;
    const Shape *box;
    bool is_spread; // from the list into the box
    Domain d;       // of the root
    uint8_t lanes;
    KRef size[SHAPE_MAX_RANK], scale[SHAPE_MAX_RANK]; // of the box, in this run
    KRef n_list;                                      // elements that the list has
} Rows;

static void read_sizes(Lower *l, Rows *r)
{
    Kernel *k = l->k;
    const int64_t room =
        r->is_spread ? shape_numel(lower_node(l, r->x)->shape) : shape_numel(lower_node(l, l->root)->shape);
    KRef scale = k_index(k, 1);
    for (uint32_t i = r->box->rank; i-- > 0;) {
        r->size[i] = box_size(l, r->box_sizes, i, 0, r->box->dim[i]);
        r->scale[i] = scale;
        scale = k_mul(k, scale, r->size[i]);
    }
    r->n_list = box_size(l, r->list_sizes, 0, 0, room);
}

// Element j of the row at `at` (indices in the box) that begins at `base` in the list.
static void copy_element(Lower *l, const Rows *r, const Point *at, KRef base, uint8_t lanes)
{
    Kernel *k = l->k;
    const uint32_t last = r->box->rank - 1;
    const KRef in_list = k_add(k, base, at->idx[last]);
    Point to = *at;
    to.lanes = to.count = lanes;
    to.vec_axis = r->is_spread ? last : 0;
    const KRef from = operand_index(l, r->x, r->is_spread ? &in_list : at->idx);
    if (!r->is_spread)
        to.idx[0] = in_list;
    pull_store_root(l, &r->d, to, operand_load(l, r->x, from, &to, 1));
}

static KRef zero_of(Lower *l)
{
    const int type = lower_node(l, l->anchor)->dtype;
    return dtype_info[type].cls == DCLASS_FLOAT ? k_number(l->k, type, 0) : k_integer(l->k, type, 0);
}

// `count` elements of a row, in vectors and then one by one.
static void copy_row(Lower *l, const Rows *r, Point at, KRef base, KRef count)
{
    Kernel *k = l->k;
    const uint32_t last = r->box->rank - 1;
    KRef done = k_index(k, 0);
    if (r->lanes > 1) {
        const KRef rest = k_expr(k, "$ % #", count, r->lanes);
        const KRef whole = k_sub(k, count, rest);
        at.idx[last] = k_for(k, done, whole, r->lanes, KFOR_SERIAL, "j");
        copy_element(l, r, &at, base, r->lanes);
        k_end(k);
        done = whole;
    }
    at.idx[last] = k_for(k, done, count, 1, KFOR_SERIAL, "j");
    copy_element(l, r, &at, base, 1);
    k_end(k);
}

static KRef at_least_none(Kernel *k, KRef v)
{
    return k_expr(k, "max($, 0)", v);
}

// Rows of the result: what the list has for them, then zeros.
static void spread_rows(Lower *l, const Rows *r)
{
    Kernel *k = l->k;
    const uint32_t last = r->box->rank - 1;
    Point at = {.lanes = 1, .count = 1};
    KRef base = k_index(k, 0), inside = k_integer(k, DTYPE_bool, 1);
    const uint32_t opened = lower_open(l, &r->d, last, &at);
    for (uint32_t i = 0; i < last; i++) {
        base = k_expr(k, "$ + $ * $", base, at.idx[i], r->scale[i]);
        inside = k_expr(k, "$ & $ < $", inside, at.idx[i], r->size[i]);
    }
    const KRef left = at_least_none(k, k_sub(k, r->n_list, base));
    const KRef count = k_select(k, inside, k_min(k, r->size[last], left), k_index(k, 0));
    copy_row(l, r, at, base, count);
    at.idx[last] = k_for(k, count, lower_live(l, &r->d.live[last], r->box->dim[last]), 1, KFOR_SERIAL, "j");
    at.vec_axis = last;
    pull_store_root(l, &r->d, at, zero_of(l));
    k_end(k);
    lower_close(l, opened);
}

// Rows of the operand one after the other, then zeros.
static void join_rows(Lower *l, const Rows *r)
{
    Kernel *k = l->k;
    const uint32_t last = r->box->rank - 1;
    Point at = {.lanes = 1, .count = 1};
    KRef base = k_index(k, 0);
    for (uint32_t i = 0; i < last; i++)
        at.idx[i] = k_for(k, k_index(k, 0), r->size[i], 1, KFOR_PARALLEL, "i");
    for (uint32_t i = 0; i < last; i++)
        base = k_expr(k, "$ + $ * $", base, at.idx[i], r->scale[i]);
    const KRef left = at_least_none(k, k_sub(k, r->n_list, base));
    copy_row(l, r, at, base, k_min(k, r->size[last], left));
    lower_close(l, last);
    const KRef all = k_expr(k, "min($ * $, $)", r->scale[0], r->size[0], r->n_list);
    at.idx[0] = k_for(k, all, lower_live(l, &r->d.live[0], r->d.extent[0]), 1, KFOR_PARALLEL, "z");
    at.vec_axis = 0;
    pull_store_root(l, &r->d, at, zero_of(l));
    k_end(k);
}

static void repack_rows(Lower *l, bool is_spread)
{
    const Node *n = lower_node(l, l->anchor);
    Rows r = {.x = n->src[0],
              .box_sizes = n->src[is_spread ? 2 : 1],
              .list_sizes = n->src[is_spread ? 1 : 2],
              .box = is_spread ? n->shape : lower_node(l, n->src[0])->shape,
              .is_spread = is_spread,
              .d = domain_of_root(l)};
    const uint32_t axis = lower_node(l, r.x)->shape->rank - 1;
    const bool has_vectors =
        operand_has_vectors(l, r.x, axis) && domain_lanes(l, &r.d, r.d.rank - 1) >= l->caps->f32_lanes;
    r.lanes = has_vectors ? l->caps->f32_lanes : 1;
    read_sizes(l, &r);
    if (is_spread)
        spread_rows(l, &r);
    else
        join_rows(l, &r);
}

void lower_repack(Lower *l)
{
    const Node *n = lower_node(l, l->anchor);
    const Shape *from = lower_node(l, n->src[0])->shape;
    if (!l->caps->is_gpu && from->rank > 0 && n->shape->rank > 0 && shape_numel(from) > 0 &&
        (from->rank == 1 || n->shape->rank == 1))
        repack_rows(l, from->rank == 1);
    else
        lower_map(l, repack_point, NULL, MAP_SCALAR);
}
