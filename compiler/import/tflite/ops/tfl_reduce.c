// SPDX-License-Identifier: Apache-2.0
// Reductions, places of extremes, running sums.
#include "compiler/import/tflite/tfl_import.h"

// The axes of operand 1, each once, in rising order.
static uint32_t read_axes(TflNode *n, NodeId x, int64_t *axes)
{
    int64_t v[TFL_MAX_LIST];
    uint32_t count = 0, seen = 0, out = 0;
    tfl_src_ints(n, 1, v, &count);
    const uint32_t rank = tfl_rank(n, x);
    for (uint32_t i = 0; i < count && !n->failed; i++)
        seen |= 1u << tfl_axis(n, v[i], rank);
    for (uint32_t i = 0; i < rank; i++)
        if (seen >> i & 1)
            axes[out++] = i;
    return out;
}

// Quantised SUM and MEAN: the exact sum of steps, times f32(scale_x / (scale_y * count)), rounded once.
static NodeId integer_sum(TflNode *n, NodeId x, const int64_t *axes, uint32_t count, bool keeps)
{
    const TflQuant a = tfl_quant(n, tfl_in(n, 0)), b = tfl_quant(n, tfl_of_out(n, 0));
    NodeId v = tfl_cast(n, x, DTYPE_i32);
    int64_t elements = 1;
    for (uint32_t i = 0; i < count && !n->failed; i++)
        if (__builtin_mul_overflow(elements, tfl_size(n, x, (uint32_t)axes[i]), &elements) ||
            elements > 1 << 23)
            tfl_fail(n, E0004, "too many elements are added");
    if (a.zero != 0)
        v = tfl_op_number(n, OP_sub, v, (double)a.zero);
    const NodeId sum = tfl_reduce(n, OP_reduce_sum, v, axes, count, keeps);
    const double by = n->op->op == OP_reduce_mean && elements ? (double)elements : 1;
    const float factor = (float)(a.scale / (b.scale * by));
    return tfl_from_steps(n, tfl_op_number(n, OP_mul, tfl_cast(n, sum, DTYPE_f32), (double)factor),
                          tfl_of_out(n, 0), 0);
}

void tfl_import_reduce(TflNode *n)
{
    int64_t axes[SHAPE_MAX_RANK];
    const bool keeps = tfl_option(n, 0, FLAT_U8, 0) != 0;
    NodeId x = tfl_src(n, 0);
    const uint32_t count = read_axes(n, x, axes);
    const bool is_sum = n->op->op == OP_reduce_sum || n->op->op == OP_reduce_mean;
    const DType type = tfl_type(n, x);
    if (n->failed)
        return;
    if (is_sum && tfl_is_quantised(tfl_of_out(n, 0)) && dtype_info[type].bits <= 16) {
        tfl_out(n, 0, integer_sum(n, x, axes, count, keeps));
        return;
    }
    if (!is_sum && n->op->op != OP_reduce_prod)
        tfl_same_scale(n, 0);
    if (n->op->op == OP_reduce_prod && tfl_is_quantised(tfl_of_out(n, 0)))
        x = tfl_dequantise(n, x, tfl_in(n, 0));
    if (type == DTYPE_bool)
        x = tfl_cast(n, x, DTYPE_u8);
    x = tfl_reduce(n, n->op->op, x, axes, count, keeps);
    if (n->op->op == OP_reduce_prod && tfl_is_quantised(tfl_of_out(n, 0)))
        x = tfl_quantise(n, x, tfl_of_out(n, 0));
    tfl_out(n, 0, tfl_cast(n, x, type));
}

void tfl_import_arg(TflNode *n)
{
    tfl_ignore(n, 0); // the type is that of the result
    const NodeId x = tfl_src(n, 0);
    const uint32_t axis = tfl_axis(n, tfl_src_int(n, 1), tfl_rank(n, x));
    if (n->failed)
        return;
    NodeBuild b = tfl_begin(n, n->op->op);
    node_src(&b, tfl_type(n, x) == DTYPE_bool ? tfl_cast(n, x, DTYPE_u8) : x);
    node_int(&b, attr_find(n->op->op, "axis"), axis);
    tfl_out(n, 0, tfl_cast(n, tfl_end(n, &b), tfl_of_out(n, 0)->dtype));
}

void tfl_import_cumsum(TflNode *n)
{
    const int64_t is_exclusive = tfl_option(n, 0, FLAT_U8, 0), is_reverse = tfl_option(n, 1, FLAT_U8, 0);
    const NodeId x = tfl_src(n, 0);
    const TflTensor *from = tfl_in(n, 0), *to = tfl_of_out(n, 0);
    const uint32_t axis = tfl_axis(n, tfl_src_int(n, 1), tfl_rank(n, x));
    const bool is_quantised = tfl_is_quantised(to);
    NodeId v = x;
    if (is_quantised)
        v = tfl_op_number(n, OP_sub, tfl_cast(n, x, DTYPE_i32), (double)tfl_quant(n, from).zero);
    if (n->failed)
        return;
    NodeBuild b = tfl_begin(n, OP_cumsum);
    node_src(&b, v);
    node_int(&b, A_cumsum_axis, axis);
    node_int(&b, A_cumsum_exclusive, is_exclusive != 0);
    node_int(&b, A_cumsum_reverse, is_reverse != 0);
    v = tfl_end(n, &b);
    if (is_quantised)
        v = tfl_finish(n, tfl_scaled(n, v, tfl_factor(tfl_quant(n, from).scale / tfl_quant(n, to).scale)), to,
                       0);
    tfl_out(n, 0, v);
}

void tfl_import_top_k(TflNode *n)
{
    const NodeId x = tfl_src(n, 0);
    const int64_t k = tfl_src_int(n, 1);
    if (!n->failed && (tfl_rank(n, x) < 1 || k < 0))
        tfl_fail(n, E0204, "the %lld greatest of rank %u", (long long)k, tfl_rank(n, x));
    if (n->failed)
        return;
    NodeBuild b = tfl_begin(n, OP_top_k);
    node_src(&b, x);
    node_ints(&b, A_top_k_k, &k, 1);
    const NodeId id = tfl_end(n, &b);
    tfl_out(n, 0, id);
    tfl_out(n, 1, tfl_cast(n, tfl_result(n, id, 1), tfl_of_out(n, 1)->dtype));
}
