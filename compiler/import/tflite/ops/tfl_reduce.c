// SPDX-License-Identifier: Apache-2.0
// Reductions, places of extremes, running sums.
#include "compiler/import/tflite/ops/tfl_fixed.h"

#include <math.h>

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

// The factor of the built-in kernel: that of a sum, whose multiplier is divided, not rounded, by the count.
static TflFactor mean_factor(double ratio, int64_t count)
{
    TflFactor f = tfl_factor(ratio);
    int up = 63 - __builtin_clzll((uint64_t)count);
    up = up < 31 + f.shift ? up : 31 + f.shift;
    f.multiplier = (int32_t)(((int64_t)f.multiplier << up) / count);
    f.shift -= up;
    return f;
}

// The sum of steps with their zero points times a factor, and what this is too much, in f32: XNNPACK's rule.
// The product is exact in f64 and rounded by a cast, so that no compiler fuses it with the addition.
static NodeId rounded_once(TflNode *n, NodeId sum, float factor, int64_t elements)
{
    const TflQuant a = tfl_quant(n, tfl_in(n, 0)), b = tfl_quant(n, tfl_of_out(n, 0));
    const TflRange r = tfl_range(n, tfl_of_out(n, 0), 0);
    const float zero = (float)b.zero - (float)(elements * a.zero) * factor;
    const NodeId real = tfl_cast(n, tfl_cast(n, sum, DTYPE_f32), DTYPE_f64);
    const NodeId steps = tfl_cast(n, tfl_op_number(n, OP_mul, real, (double)factor), DTYPE_f32);
    const NodeId y = tfl_op1(n, OP_round, tfl_op_number(n, OP_add, steps, (double)zero));
    return tfl_cast(n, tfl_clamp(n, y, (double)r.lo, (double)r.hi), tfl_of_out(n, 0)->dtype);
}

// x / 2^shift, halves to the even number: what f32 makes of an integer with `shift` bits too many.
static NodeId to_even(TflNode *n, NodeId x, NodeId shift)
{
    const NodeId one = tfl_number(n, DTYPE_i64, 1);
    const NodeId half = tfl_op_number(n, OP_shift_right, tfl_op2(n, OP_shift_left, one, shift), 1);
    const NodeId odd = tfl_op2(n, OP_bit_and, tfl_op2(n, OP_shift_right, x, shift), one);
    const NodeId more = tfl_op2(n, OP_add, tfl_op_number(n, OP_sub, half, 1), odd);
    return tfl_op2(n, OP_shift_right, tfl_op2(n, OP_add, x, more), shift);
}

// A sum of 16 bits times a ratio, each rounded to f32 as the built-in kernel has it, then rounded with halves
// away from zero: in integers, so that no target needs floats for it. An f32 has 24 bits. The product becomes
// the half above it where it is less than half a step of its own below that.
static NodeId rounded_away(TflNode *n, NodeId sum, float ratio, int64_t elements)
{
    enum { BITS = 24, MOST_SHIFT = 60 };
    int exponent = 0;
    int64_t factor = (int64_t)ldexp(frexp((double)ratio, &exponent), BITS);
    int64_t shift = BITS - exponent;
    if (shift < 1) { // everything but 0 is too large
        factor = INT64_C(1) << BITS;
        shift = 1;
    }
    shift = shift < MOST_SHIFT ? shift : MOST_SHIFT;
    const NodeId zero = tfl_number(n, DTYPE_i64, 0), wide = tfl_cast(n, sum, DTYPE_i64);
    const NodeId less = tfl_op_number(n, OP_shift_right, wide, 63); // -1 where the sum is negative
    NodeId x = tfl_op2(n, OP_max, wide, tfl_op2(n, OP_sub, zero, wide));
    if (elements > INT64_C(1) << (BITS - 15)) {
        const NodeId twice = tfl_op_number(n, OP_mul, x, 2);
        const NodeId over = tfl_op_number(n, OP_sub, tfl_top_bit(n, twice, 32), BITS - 1);
        const NodeId more = tfl_op2(n, OP_max, over, tfl_number(n, DTYPE_i64, 1));
        x = tfl_op2(n, OP_shift_left, to_even(n, twice, more), tfl_op_number(n, OP_sub, more, 1));
    }
    x = tfl_op_number(n, OP_mul, x, (double)factor);
    const NodeId step = tfl_op2(n, OP_shift_left, tfl_number(n, DTYPE_i64, 1), tfl_top_bit(n, x, 64));
    x = tfl_op2(n, OP_add, x, tfl_op_number(n, OP_shift_right, step, BITS));
    x = tfl_op_number(n, OP_add, x, ldexp(1, (int)shift - 1));
    x = tfl_op_number(n, OP_shift_right, x, (double)shift);
    x = tfl_op2(n, OP_min, x, tfl_number(n, DTYPE_i64, 1 << 17));
    return tfl_cast(n, tfl_op2(n, OP_sub, tfl_op2(n, OP_bit_xor, x, less), less), DTYPE_i32);
}

// Quantised SUM and MEAN: the exact sum of steps, then the rule of XNNPACK for bytes, those of the built-in
// kernels for 16 bits.
static NodeId integer_sum(TflNode *n, NodeId x, const int64_t *axes, uint32_t count, bool keeps)
{
    const TflQuant a = tfl_quant(n, tfl_in(n, 0)), b = tfl_quant(n, tfl_of_out(n, 0));
    int64_t elements = 1;
    for (uint32_t i = 0; i < count && !n->failed; i++)
        if (__builtin_mul_overflow(elements, tfl_size(n, x, (uint32_t)axes[i]), &elements) ||
            elements > 1 << 23)
            tfl_fail(n, E0004, "too many elements are added");
    const int64_t by = n->op->op == OP_reduce_mean && elements ? elements : 1;
    const NodeId sum = tfl_reduce(n, OP_reduce_sum, tfl_cast(n, x, DTYPE_i32), axes, count, keeps);
    if (tfl_is_byte(tfl_in(n, 0)->dtype) && !n->model->source->options.rounds_twice)
        return rounded_once(n, sum, (float)a.scale / (float)b.scale * (1.0f / (float)by), elements);
    if (n->op->op == OP_reduce_sum && !n->model->source->options.rounds_twice) {
        const float ratio = (float)a.scale / (float)b.scale;
        return tfl_finish(n, rounded_away(n, sum, ratio, elements), tfl_of_out(n, 0), 0);
    }
    const NodeId steps = tfl_op_number(n, OP_sub, sum, (double)(elements * a.zero));
    const TflFactor f = mean_factor((double)((float)a.scale / (float)b.scale), by);
    return tfl_finish(n, tfl_scaled(n, a.zero ? steps : sum, f), tfl_of_out(n, 0), 0);
}

// A factor of 16 bits for a product in i64, rounded once, halves up.
static NodeId scaled_product(TflNode *n, NodeId x, TflFactor f)
{
    return tfl_cast(n, tfl_scaled_wide(n, x, &f, &(Shape){0}, false), DTYPE_i32);
}

// Quantised products, element by element: each step is scaled, so that it fits.
static NodeId integer_product(TflNode *n, NodeId x, const int64_t *axes, uint32_t count, bool keeps)
{
    enum { MOST = 64 };
    const TflQuant a = tfl_quant(n, tfl_in(n, 0)), b = tfl_quant(n, tfl_of_out(n, 0));
    const uint32_t rank = tfl_rank(n, x);
    int64_t perm[SHAPE_MAX_RANK], elements = 1;
    uint32_t is_axis = 0, at = 0;
    Shape out = {0};
    for (uint32_t i = 0; i < count; i++)
        is_axis |= 1u << axes[i];
    for (uint32_t i = 0; i < rank && !n->failed; i++) {
        if (is_axis >> i & 1)
            elements *= tfl_size(n, x, i);
        else
            perm[at++] = i;
        if (elements > MOST || elements < 1)
            return tfl_fail(n, E0206, "quantised products of more than %d elements are not supported", MOST);
        if (keeps || !(is_axis >> i & 1))
            out.dim[out.rank++] = is_axis >> i & 1 ? 1 : tfl_shape(n, x)->dim[i];
    }
    for (uint32_t i = 0; i < count; i++)
        perm[at++] = axes[i];
    if (elements == 1) // as it is, whatever the scales
        return tfl_reshape_like(n, x, &out);
    const TflFactor f = tfl_factor(a.scale / pow(b.scale, 1.0 / (double)elements));
    NodeId v = tfl_cast(n, tfl_transpose(n, x, perm), DTYPE_i32);
    v = a.zero ? tfl_op_number(n, OP_sub, v, (double)a.zero) : v;
    v = tfl_reshape(n, v, (const Dim[]){-1, elements}, 2);
    NodeId product = tfl_cast(n, tfl_slice(n, v, 1, 0, 1, 1), DTYPE_i64);
    for (int64_t i = 1; i < elements; i++) {
        const NodeId next = tfl_cast(n, tfl_slice(n, v, 1, i, i + 1, 1), DTYPE_i64);
        product = tfl_cast(n, scaled_product(n, tfl_op2(n, OP_mul, product, next), f), DTYPE_i64);
    }
    return tfl_reshape_like(n, tfl_finish(n, scaled_product(n, product, f), tfl_of_out(n, 0), 0), &out);
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
    if (n->op->op == OP_reduce_prod && tfl_is_quantised(tfl_of_out(n, 0))) {
        tfl_out(n, 0, integer_product(n, x, axes, count, keeps));
        return;
    }
    if (!is_sum && n->op->op != OP_reduce_prod)
        tfl_same_scale(n, 0);
    if (type == DTYPE_bool)
        x = tfl_cast(n, x, DTYPE_u8);
    x = tfl_reduce(n, n->op->op, x, axes, count, keeps);
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
