// SPDX-License-Identifier: Apache-2.0
// repack: every element of the result finds its number in the one box, and from it the place in the other.
#include "passes/operand.h"

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
        inside = k_op(k, KOP_and, inside, k_op(k, KOP_lt, at.idx[i], size, 0), 0);
        number = k_add(k, number, k_mul(k, at.idx[i], scale));
        scale = k_mul(k, scale, size);
    }
    for (uint32_t i = s->rank; i-- > 0;) {
        const KRef size = box_size(l, from, i, 0, s->dim[i]);
        const KRef divisor =
            box_size(l, from, i, 1, s->dim[i] > 1 ? s->dim[i] : 1); // an empty box has sizes 0
        idx[i] = k_op(k, KOP_rem, number, divisor, 0);
        number = k_op(k, KOP_div, number, divisor, 0);
        inside = k_op(k, KOP_and, inside, k_op(k, KOP_lt, k_index(k, 0), size, 0), 0);
    }
    inside = k_op(k, KOP_and, inside, k_op(k, KOP_eq, number, k_index(k, 0), 0), 0);
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

void lower_repack(Lower *l)
{
    lower_map(l, repack_point, NULL, MAP_SCALAR);
}
