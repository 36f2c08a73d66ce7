// SPDX-License-Identifier: Apache-2.0
// Reading operands at computed coordinates. See operand.h. Separate from domain.c, where a domain's strides
// say everything.
#include "passes/lower/operand.h"

KRef operand_index(Lower *l, NodeId id, const KRef *idx)
{
    const Shape *s = lower_node(l, id)->shape;
    const Loc *loc = lower_loc(l, id);
    KRef index = lower_base(l, id);
    for (uint32_t i = 0; i < s->rank; i++)
        if (s->dim[i] > 1)
            index = k_expr(l->k, "$ * # + $", idx[i], loc->stride[i], index);
    return index;
}

KRef operand_broadcast_index(Lower *l, NodeId id, const KRef *idx, uint32_t rank)
{
    const Shape *s = lower_node(l, id)->shape;
    rlx_assert(s->rank <= rank);
    return operand_index(l, id, idx + (rank - s->rank));
}

KRef operand_load(Lower *l, NodeId id, KRef index, const Point *at, int64_t stride)
{
    const bool is_vector = at->lanes > 1 && stride != 0;
    rlx_assert(point_is_sound(at));
    rlx_assert(!is_vector || stride == 1);
    return operand_lanes(l, id, index, is_vector ? at->lanes : 1, is_vector ? at->count : 1);
}

// Masks of lanes have no form in memory: bools are read as bytes.
KRef operand_lanes(Lower *l, NodeId id, KRef index, uint8_t lanes, uint8_t count)
{
    Kernel *k = l->k;
    if (lanes == 1 || lower_node(l, id)->dtype != DTYPE_bool)
        return k_load(k, lower_param(l, id, PARAM_READ), index, lanes, count);
    const KRef bytes = k_load(k, lower_param_words(l, id, DTYPE_u8), index, lanes, count);
    return k_ne(k, k_cast(k, bytes, DTYPE_i32), k_splat(k, k_integer(k, DTYPE_i32, 0), lanes));
}

DType operand_moved_type(const Lower *l, NodeId id)
{
    const int type = lower_node(l, id)->dtype;
    return type == DTYPE_bool && caps_have_vectors(l->caps) ? DTYPE_u8 : (DType)type;
}

KRef operand_load_moved(Lower *l, NodeId id, KRef index, uint8_t lanes, uint8_t count)
{
    const DType type = operand_moved_type(l, id);
    const bool is_plain = (int)type == (int)lower_node(l, id)->dtype;
    return k_load(l->k, is_plain ? lower_param(l, id, PARAM_READ) : lower_param_words(l, id, type), index,
                  lanes, count);
}

KRef operand_even_lanes(Lower *l, NodeId id, KRef index, uint8_t lanes, uint8_t count)
{
    Kernel *k = l->k;
    const uint32_t param = lower_param(l, id, PARAM_READ);
    const int all = 2 * count - 1, upper = all - lanes;
    rlx_assert(lanes > 1 && count >= 1 && count <= lanes);
    const KRef low = k_load(k, param, index, lanes, (uint8_t)(upper > 0 ? lanes : all));
    if (upper <= 0)
        return k_zip(k, KZIP_EVEN, low, low);
    const KRef high = k_load(k, param, k_expr(k, "$ + #", index, lanes), lanes, (uint8_t)upper);
    return k_zip(k, KZIP_EVEN, low, high);
}

int operand_sum_type(int t)
{
    return t != KT_INDEX && dtype_info[t].cls == DCLASS_FLOAT && t != DTYPE_f64 ? (int)DTYPE_f32 : t;
}

KRef operand_scalar(Lower *l, NodeId id, KRef index, int type)
{
    return k_cast(l->k, k_load(l->k, lower_param(l, id, PARAM_READ), index, 1, 1), type);
}

// 64-bit values are clamped in their own type: an index may be narrower on the target. u64 beyond i64 is
// large, not negative.
KRef operand_clamped(Lower *l, NodeId id, KRef index, int64_t low, int64_t high)
{
    rlx_assert(shape_numel(lower_node(l, id)->shape) > 0);
    Kernel *k = l->k;
    const int dtype = lower_node(l, id)->dtype;
    const int type = dtype == DTYPE_i64 || dtype == DTYPE_u64 ? dtype : (int)KT_INDEX;
    KRef v = operand_scalar(l, id, index, type);
    if (l->caps->prefers_ints && k_is_byte(dtype) && low <= INT8_MIN && high >= UINT8_MAX)
        return v; // no byte is outside
    if (dtype_info[dtype].cls == DCLASS_UINT)
        low = 0;
    else
        v = k_max(k, v, k_integer(k, type, low));
    rlx_assert(low <= high);
    v = k_min(k, v, k_integer(k, type, high));
    return k_cast(k, v, KT_INDEX);
}

KRef operand_row(Lower *l, NodeId id, KRef index, int64_t n)
{
    rlx_assert(n > 0);
    const KRef row = operand_clamped(l, id, index, -n, n - 1);
    if (dtype_info[lower_node(l, id)->dtype].cls == DCLASS_UINT)
        return row;
    return k_select(l->k, k_expr(l->k, "$ < 0", row), k_expr(l->k, "$ + #", row, n), row);
}

uint32_t operand_map_axis(const Lower *l)
{
    const Shape *s = lower_node(l, l->root)->shape;
    uint32_t inner = s->rank == 0 ? 0 : s->rank - 1;
    for (uint32_t i = 0; i < s->rank; i++)
        if (lower_loc(l, l->root)->stride[i] == 1 && s->dim[i] > 1)
            inner = i;
    return inner;
}

bool operand_is_dense(const Lower *l, NodeId id, uint32_t axis)
{
    const Shape *s = lower_node(l, id)->shape;
    return axis < s->rank && (s->dim[axis] == 1 || lower_loc(l, id)->stride[axis] == 1);
}

bool operand_has_vectors(const Lower *l, NodeId id, uint32_t axis)
{
    const Node *n = lower_node(l, id);
    return (n->dtype == DTYPE_f32 || k_is_half(n->dtype)) && operand_is_dense(l, id, axis);
}

uint8_t operand_moved_lanes(const Lower *l, const Domain *d, uint32_t axis, NodeId id)
{
    enum { RUN_BYTES = 4096 };
    rlx_assert(axis < d->rank);
    const int64_t bytes = d->extent[axis] * (int64_t)dtype_info[lower_node(l, id)->dtype].bytes;
    bool is_run = !l->caps->is_gpu && bytes >= RUN_BYTES;
    for (uint32_t i = 0; i < d->access.len; i++)
        is_run = is_run && d->access.data[i].stride[axis] == 1;
    return is_run ? 1 : domain_lanes(l, d, axis);
}

void operand_store(Lower *l, uint32_t param, KRef index, KRef value, const Point *at)
{
    rlx_assert(point_is_sound(at) && value != 0);
    if (at->lanes > 1 && k_inst(l->k, value)->lanes == 1)
        value = k_splat(l->k, value, at->lanes);
    k_store(l->k, param, index, value, at->count);
}
