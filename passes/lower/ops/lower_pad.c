// SPDX-License-Identifier: Apache-2.0
// pad. CPUs have loops of their own for what is before, inside and behind the operand on an axis, so that the
// inner ones only fill or copy; axes behind the last padded one are joined with it where they lie together.
// Threads of GPUs take neighbours of the result; where they fill, they read some element of the operand. The
// other modes fold the index back into the operand.
#include "passes/lower/operand.h"
#include "passes/lower/wide.h"

typedef enum PadMode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP } PadMode;

typedef struct Pad {
    NodeId x, fill; // fill 0: zeros
    PadMode mode;
    const Shape *shape;
    int64_t begin[SHAPE_MAX_RANK], end[SHAPE_MAX_RANK];
} Pad;

// The loops of a CPU over a domain with the axes of the result.
typedef struct PadLoops {
    Pad pad;
    Domain d;
    int64_t dim[SHAPE_MAX_RANK], stride[SHAPE_MAX_RANK]; // of the operand
    uint32_t order[SHAPE_MAX_RANK], n;                   // axes that have loops, the outer ones first
    bool splits[SHAPE_MAX_RANK];                         // by axis: it has a loop for each part
    bool folds[SHAPE_MAX_RANK];                          // by axis: the point may be outside the operand
    bool is_fill;                                        // the point is outside of it
    uint8_t lanes;
} PadLoops;

static PadMode mode_of(const Node *n)
{
    static const char *const names[] = {"constant", "reflect", "edge", "wrap"};
    for (uint32_t i = 0; i < 4; i++)
        if (str_equal(node_get_str(n, A_pad_mode), names[i]))
            return (PadMode)i;
    diag_bug(node_get_str(n, A_pad_mode), 0, "unknown mode of pad");
}

// Where the operand is read on an axis of size n, at position v in [-n, 2 * n).
static KRef fold_back(Kernel *k, PadMode mode, KRef v, int64_t n)
{
    const KRef zero = k_index(k, 0), size = k_index(k, n);
    if (mode == PAD_REFLECT) {
        const KRef above = k_expr(k, "max($, $ - $)", v, zero, v);
        return k_expr(k, "min($, # - $)", above, 2 * (n - 1), above);
    }
    if (mode == PAD_EDGE)
        return k_expr(k, "min(max($, $), #)", v, zero, n - 1);
    const KRef below = k_lt(k, v, zero), beyond = k_le(k, size, v);
    const KRef from_end = k_add(k, v, size), from_start = k_expr(k, "$ + #", v, -n);
    return k_select(k, below, from_end, k_select(k, beyond, from_start, v));
}

static KRef fill_value(Lower *l, const Pad *p)
{
    const int type = lower_node(l, p->x)->dtype;
    if (p->fill != 0)
        return k_load(l->k, lower_param(l, p->fill, PARAM_READ), k_index(l->k, 0), 1, 1);
    return dtype_info[type].cls == DCLASS_FLOAT ? k_number(l->k, type, 0) : k_integer(l->k, type, 0);
}

// Is the point inside the operand? Only sides that are padded are asked.
static KRef is_inside(Kernel *k, const Pad *p, const KRef *idx)
{
    KRef inside = k_integer(k, DTYPE_bool, 1);
    for (uint32_t i = 0; i < p->shape->rank; i++) {
        const KRef above = p->begin[i] > 0 ? k_expr(k, "0 <= $", idx[i]) : 0;
        const KRef below = p->end[i] > 0 ? k_expr(k, "$ < #", idx[i], p->shape->dim[i]) : 0;
        inside = above != 0 ? k_and(k, inside, above) : inside;
        inside = below != 0 ? k_and(k, inside, below) : inside;
    }
    return inside;
}

// Coordinates in the operand.
static void place_in_operand(Lower *l, const Pad *p, const Point *at, KRef *idx)
{
    for (uint32_t i = 0; i < p->shape->rank; i++) {
        idx[i] = k_expr(l->k, "$ + #", at->idx[i], -p->begin[i]);
        if (p->mode != PAD_CONSTANT && (p->begin[i] > 0 || p->end[i] > 0))
            idx[i] = fold_back(l->k, p->mode, idx[i], p->shape->dim[i]);
    }
}

// Some element of the operand, so that a load needs no branch and several are under way at once.
static void clamp_place(Kernel *k, const Pad *p, KRef *idx)
{
    for (uint32_t i = 0; i < p->shape->rank; i++) {
        idx[i] = p->begin[i] > 0 ? k_expr(k, "max($, 0)", idx[i]) : idx[i];
        idx[i] = p->end[i] > 0 ? k_expr(k, "min($, #)", idx[i], p->shape->dim[i] - 1) : idx[i];
    }
}

static KRef pad_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Pad *p = ctx;
    Kernel *k = l->k;
    KRef idx[SHAPE_MAX_RANK];
    (void)d;
    place_in_operand(l, p, &at, idx);
    if (p->mode != PAD_CONSTANT)
        return operand_load(l, p->x, operand_index(l, p->x, idx), &at, 1);
    const KRef fill = fill_value(l, p);
    if (shape_numel(p->shape) == 0)
        return k_splat(k, fill, at.lanes);
    if (l->caps->is_gpu) {
        const KRef inside = is_inside(k, p, idx);
        clamp_place(k, p, idx);
        return k_select(k, inside, operand_load(l, p->x, operand_index(l, p->x, idx), &at, 1), fill);
    }
    const KRef value = k_var(k, k_splat(k, fill, at.lanes), "value");
    k_if(k, is_inside(k, p, idx));
    k_set(k, value, operand_load(l, p->x, operand_index(l, p->x, idx), &at, 1));
    k_end(k);
    return k_get(k, value);
}

static void store_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    pull_store_root(l, d, at, pad_point(l, d, at, ctx));
}

// The operand's elements are no neighbours along the axis: whole vectors of the result nevertheless.
static bool wide_pad(Lower *l, Pad *p, uint32_t axis)
{
    return lower_loc(l, p->x)->stride[axis] != 1 && wide_axis_map(l, axis, store_point, p);
}

// Whole vectors are inside of the operand or outside.
static bool row_pad(Lower *l, Pad *p, uint32_t axis)
{
    Domain d = domain_of_root(l);
    Kernel *k = l->k;
    Point at = {.lanes = 1, .count = 1};
    uint32_t opened = 0;
    Wide w;
    if (!l->caps->is_gpu || d.rank == 0 || p->begin[axis] != 0 || p->end[axis] != 0 ||
        shape_numel(p->shape) == 0)
        return false;
    const uint32_t piece = wide_operand_piece(l, p->x, axis);
    if (piece == 0 || !wide_begin(l, &d, axis, &w, &at, &opened))
        return false;
    KRef idx[SHAPE_MAX_RANK], inside = 0;
    place_in_operand(l, p, &at, idx);
    const KRef held = k_array(k, lower_node(l, p->x)->dtype, w.n);
    if (p->mode == PAD_CONSTANT) {
        const KRef fill = fill_value(l, p);
        for (uint32_t i = 0; i < w.n; i++)
            k_astore(k, held, k_index(k, i), fill);
        inside = is_inside(k, p, idx);
        k_if(k, inside);
    }
    wide_load(l, lower_param(l, p->x, PARAM_READ), operand_index(l, p->x, idx), held, 0,
              (WideSpan){.n = w.n, .piece = piece});
    lower_close(l, inside != 0 ? 1 : 0);
    wide_finish_held(l, &w, at, opened, held);
    return true;
}

// The last axis has no vectors, but all axes together have.
static bool flat_pad(Lower *l, Pad *p)
{
    Domain d = domain_of_root(l);
    return wide_flat_map(l, &d, store_point, p);
}

static bool is_padded(const Pad *p, uint32_t axis)
{
    return p->begin[axis] > 0 || p->end[axis] > 0;
}

static void store_part(Lower *l, const Domain *d, Point at, void *ctx)
{
    const PadLoops *r = ctx;
    Kernel *k = l->k;
    KRef index = lower_base(l, r->pad.x);
    if (r->is_fill) {
        pull_store_root(l, d, at, k_splat(k, fill_value(l, &r->pad), at.lanes));
        return;
    }
    for (uint32_t i = 0; i < d->rank; i++) {
        if (r->dim[i] == 1)
            continue;
        const KRef v = k_expr(k, "$ + #", at.idx[i], -r->pad.begin[i]);
        const KRef idx = r->folds[i] ? fold_back(k, r->pad.mode, v, r->dim[i]) : v;
        index = k_expr(k, "$ * # + $", idx, r->stride[i], index);
    }
    pull_store_root(l, d, at, operand_load(l, r->pad.x, index, &at, 1));
}

static void each_axis(Lower *l, PadLoops *r, uint32_t place, Point at);

// The loop over an axis from `from` to `to`; the last axis has vectors.
static void each_of_part(Lower *l, PadLoops *r, uint32_t place, Point at, const int64_t *range)
{
    Kernel *k = l->k;
    const uint32_t axis = r->order[place];
    const int64_t n = range[1] - range[0];
    const bool has_vectors = place + 1 == r->n && r->lanes > 1 && !r->folds[axis];
    const uint8_t fit = has_vectors ? lower_fit_lanes(l, n) : 1, lanes = fit < r->lanes ? fit : r->lanes;
    const int64_t whole = n - n % lanes;
    at.vec_axis = axis;
    at.lanes = at.count = lanes;
    if (whole > 0) {
        const KRef from = k_index(k, range[0]);
        at.idx[axis] =
            whole == lanes ? from : k_for(k, from, k_index(k, range[0] + whole), lanes, KFOR_PARALLEL, "i");
        each_axis(l, r, place + 1, at);
        lower_close(l, whole == lanes ? 0 : 1);
    }
    if (whole < n) {
        at.idx[axis] = k_index(k, range[0] + whole);
        at.count = (uint8_t)(n - whole);
        each_axis(l, r, place + 1, at);
    }
}

// The parts of an axis that is padded: inside the operand, or else in front of it and behind it.
static void each_part(Lower *l, PadLoops *r, uint32_t place, Point at)
{
    const uint32_t axis = r->order[place];
    const int64_t extent = r->d.extent[axis], begin = r->pad.begin[axis], end = begin + r->dim[axis];
    const int64_t from = begin < 0 ? 0 : begin < extent ? begin : extent;
    const int64_t to = end < from ? from : end < extent ? end : extent;
    const int64_t bound[] = {0, from, to, extent};
    for (uint32_t part = 0; part < 3; part++) {
        const bool is_outside = part != 1;
        r->is_fill = is_outside && r->pad.mode == PAD_CONSTANT;
        r->folds[axis] = is_outside && r->pad.mode != PAD_CONSTANT;
        each_of_part(l, r, place, at, bound + part);
    }
    r->is_fill = false;
}

static void each_axis(Lower *l, PadLoops *r, uint32_t place, Point at)
{
    if (place == r->n) {
        store_part(l, &r->d, at, r);
        return;
    }
    const uint32_t axis = r->order[place];
    if (r->splits[axis] && !r->is_fill) {
        each_part(l, r, place, at);
    } else if (place + 1 == r->n) {
        lower_along(l, &r->d, axis, r->folds[axis] ? 1 : r->lanes, at, store_part, r);
    } else {
        const uint32_t opened = lower_open_axis(l, &r->d, axis, KFOR_PARALLEL, &at);
        each_axis(l, r, place + 1, at);
        lower_close(l, opened);
    }
}

// Do steps along `inner`, which is whole, lead from one step along `outer` to the next everywhere? Positions
// on a joined axis are not folded back.
static bool can_join(const PadLoops *r, uint32_t outer, uint32_t inner)
{
    bool can = !r->folds[outer] && r->pad.begin[inner] == 0 && r->pad.end[inner] == 0 &&
               r->d.live[inner].size == 0 && r->d.live[outer].size == 0 &&
               (r->dim[outer] == 1 || r->stride[outer] == r->stride[inner] * r->dim[inner]);
    for (uint32_t i = 0; i < r->d.access.len; i++) {
        const int64_t *stride = r->d.access.data[i].stride;
        can = can && stride[outer] == stride[inner] * r->d.extent[inner];
    }
    return can;
}

static void join_last(PadLoops *r)
{
    while (r->n > 1 && can_join(r, r->order[r->n - 2], r->order[r->n - 1])) {
        const uint32_t outer = r->order[r->n - 2], inner = r->order[--r->n];
        const int64_t times = r->dim[inner];
        r->d.extent[outer] *= times;
        r->dim[outer] *= times;
        r->stride[outer] = r->stride[inner];
        r->pad.begin[outer] *= times;
        r->pad.end[outer] *= times;
        r->d.extent[inner] = r->dim[inner] = 1;
        for (uint32_t i = 0; i < r->d.access.len; i++)
            r->d.access.data[i].stride[outer] = r->d.access.data[i].stride[inner];
    }
}

// The axes that have loops, and the last one that is padded: behind it, elements are only copied.
static uint32_t order_axes(PadLoops *r, uint32_t inner)
{
    uint32_t last = r->d.rank;
    for (uint32_t i = 0; i <= r->d.rank; i++) {
        const uint32_t axis = i < r->d.rank ? i : inner;
        if ((i < r->d.rank && i == inner) || (r->d.extent[axis] == 1 && !is_padded(&r->pad, axis)))
            continue;
        r->order[r->n++] = axis;
        last = is_padded(&r->pad, axis) ? axis : last;
    }
    return last;
}

static bool pad_loops(Lower *l, const Pad *p, uint32_t inner)
{
    const Shape *s = lower_node(l, l->root)->shape;
    PadLoops r = {.pad = *p, .d = domain_of_root(l)};
    Point at = {.lanes = 1, .count = 1};
    if (l->caps->is_gpu || shape_numel(p->shape) == 0 || shape_numel(s) == 0)
        return false;
    for (uint32_t i = 0; i < s->rank; i++) {
        r.dim[i] = p->shape->dim[i];
        r.stride[i] = lower_loc(l, p->x)->stride[i];
        at.idx[i] = k_index(l->k, 0);
        if (is_padded(p, i) && r.d.live[i].size != 0)
            return false;
    }
    const uint32_t last = order_axes(&r, inner);
    if (last == r.d.rank)
        return false;
    for (uint32_t i = 0; i < r.n; i++) {
        const uint32_t axis = r.order[i];
        r.splits[axis] = is_padded(p, axis) && (p->mode == PAD_CONSTANT || axis == last);
        r.folds[axis] = is_padded(p, axis) && p->mode != PAD_CONSTANT;
    }
    join_last(&r);
    const uint32_t along = r.order[r.n - 1];
    // Compilers make more of short rows when they see the elements.
    const bool is_short = r.splits[along] && lower_fit_lanes(l, r.dim[along]) < l->caps->f32_lanes;
    const bool has_vectors = !is_short && lower_is_float(lower_node(l, p->x)->dtype) &&
                             (r.dim[along] == 1 || r.stride[along] == 1);
    r.lanes = has_vectors ? domain_lanes(l, &r.d, along) : 1;
    each_axis(l, &r, 0, at);
    return true;
}

void lower_pad(Lower *l)
{
    const Node *n = lower_node(l, l->anchor);
    rlx_assert(node_attr(n, A_pad_pads)->len == 2 * (uint64_t)n->shape->rank);
    Pad p = {.x = n->src[0],
             .fill = n->n_src > 1 ? n->src[1] : 0,
             .mode = mode_of(n),
             .shape = lower_node(l, n->src[0])->shape};
    for (uint32_t i = 0; i < p.shape->rank; i++) {
        p.begin[i] = node_get_at(n, A_pad_pads, i, 0);
        p.end[i] = node_get_at(n, A_pad_pads, p.shape->rank + i, 0);
    }
    const uint32_t inner = operand_map_axis(l);
    if (row_pad(l, &p, inner) || flat_pad(l, &p) || wide_pad(l, &p, inner) || pad_loops(l, &p, inner))
        return;
    const bool is_whole = p.shape->rank > 0 && p.begin[inner] <= 0 && p.end[inner] <= 0;
    lower_map(l, pad_point, &p, is_whole && operand_has_vectors(l, p.x, inner) ? MAP_VECTOR : MAP_SCALAR);
}
