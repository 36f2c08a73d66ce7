// SPDX-License-Identifier: Apache-2.0
// pad: constant fills behind a test that also guards the load; the other modes fold the index back into the
// operand. Vectors run along an axis that is not padded; threads of GPUs that change the order of axes take
// neighbours of the result.
#include "passes/lower/operand.h"
#include "passes/lower/wide.h"

typedef enum PadMode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP } PadMode;

typedef struct Pad {
    NodeId x, fill; // fill 0: zeros
    PadMode mode;
    const Shape *shape;
    int64_t begin[SHAPE_MAX_RANK], end[SHAPE_MAX_RANK];
} Pad;

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

static KRef pad_point(Lower *l, const Domain *d, Point at, void *ctx)
{
    const Pad *p = ctx;
    Kernel *k = l->k;
    KRef idx[SHAPE_MAX_RANK];
    (void)d;
    for (uint32_t i = 0; i < p->shape->rank; i++) {
        idx[i] = k_expr(k, "$ + #", at.idx[i], -p->begin[i]);
        if (p->mode != PAD_CONSTANT && (p->begin[i] > 0 || p->end[i] > 0))
            idx[i] = fold_back(k, p->mode, idx[i], p->shape->dim[i]);
    }
    if (p->mode != PAD_CONSTANT)
        return operand_load(l, p->x, operand_index(l, p->x, idx), &at, 1);
    const KRef fill = fill_value(l, p);
    if (shape_numel(p->shape) == 0)
        return k_splat(k, fill, at.lanes);
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
    Domain d = domain_of(lower_node(l, l->root)->shape);
    Point at = {.lanes = 1, .count = 1};
    uint32_t opened = 0;
    Wide w;
    domain_trim(l, &d, l->root);
    domain_add(l, &d, l->root);
    domain_add_operands(l, &d, l->root);
    if (!l->caps->is_gpu || d.rank == 0 || lower_loc(l, p->x)->stride[axis] == 1 ||
        !wide_begin(l, &d, axis, &w, &at, &opened))
        return false;
    wide_finish(l, &w, at, opened, store_point, p);
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
    if (wide_pad(l, &p, inner))
        return;
    const bool is_whole = p.shape->rank > 0 && p.begin[inner] <= 0 && p.end[inner] <= 0;
    lower_map(l, pad_point, &p, is_whole && operand_has_vectors(l, p.x, inner) ? MAP_VECTOR : MAP_SCALAR);
}
