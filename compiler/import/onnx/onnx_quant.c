// SPDX-License-Identifier: Apache-2.0
// Quantised operators, taken apart: integers become differences to their zero points, products are integer
// ones, and results are scaled, rounded and clamped back into the integer type. 8-bit floats are products in
// f32.
#include "compiler/import/onnx/onnx_quant.h"

#include <math.h>

static bool is_float(DType t)
{
    return dtype_info[t].cls == DCLASS_FLOAT;
}

NodeId quant_along(OnnxNode *n, NodeId v, uint32_t rank, uint32_t axis)
{
    const Shape s = *onnx_shape(n, v);
    if (n->failed || !v || s.rank != 1)
        return v;
    if (s.dim[0] == 1)
        return onnx_reshape(n, v, &(Shape){0});
    rlx_assert(axis <= rank && rank <= SHAPE_MAX_RANK);
    Shape to = {.rank = rank - axis, .dim = {s.dim[0], 1, 1, 1, 1, 1, 1, 1}};
    return onnx_reshape(n, v, &to);
}

bool quant_is_zero(OnnxNode *n, NodeId zero)
{
    if (n->failed || !node_is_const(n->graph, zero))
        return false;
    const Tensor t = tensor_of_const(n->graph, zero);
    int64_t i = 0;
    while (i < t.numel && fabs(tensor_get_f64(&t, i)) <= 0)
        i++;
    return i == t.numel;
}

// Floats have zero points of 0, which exporters write all the same.
static bool is_no_zero(OnnxNode *n, NodeId zero)
{
    return zero == 0 || (is_float(onnx_dtype(n, zero)) && quant_is_zero(n, zero));
}

NodeId quant_centred(OnnxNode *n, NodeId x, NodeId zero)
{
    const DType type = is_float(onnx_dtype(n, x)) ? DTYPE_f32 : DTYPE_i32;
    const NodeId wide = onnx_cast(n, x, type);
    return !is_no_zero(n, zero) ? onnx_op2(n, OP_sub, wide, onnx_cast(n, zero, type)) : wide;
}

// In f32, which holds integers of up to 16 bits exactly, or in the type of x where that is wider.
NodeId quant_saturate(OnnxNode *n, NodeId x, NodeId zero, DType type, bool saturate)
{
    const DType work = onnx_dtype(n, x) == DTYPE_f64 ? DTYPE_f64 : DTYPE_f32;
    const bool is_signed = dtype_info[type].cls == DCLASS_INT;
    const double count = exp2((double)dtype_info[type].bits);
    const bool is_wide = dtype_info[type].bits > 16 || (is_float(type) && !dtype_is_narrow(type));
    if (!n->failed && (is_wide || type == DTYPE_bool))
        onnx_fail(n, E0206, "quantised results of type %s are not supported", dtype_info[type].name);
    NodeId y = onnx_cast(n, is_float(type) ? x : onnx_op1(n, OP_round, x), work);
    double none = 1;
    const bool is_zero =
        zero && !is_float(type) && node_is_scalar_const(n->graph, zero, &none) && fabs(none) <= 0;
    if (zero && !is_zero)
        y = onnx_op2(n, OP_add, y, onnx_cast(n, zero, work));
    if (is_float(type))
        return onnx_cast_mode(n, y, type, saturate, "up");
    if (dtype_info[type].bits >= 8) // the cast saturates by itself
        return onnx_cast(n, y, type);
    const NodeId lo = onnx_scalar(n, work, is_signed ? -count / 2 : 0);
    const NodeId hi = onnx_scalar(n, work, is_signed ? count / 2 - 1 : count - 1);
    return onnx_cast(n, onnx_op3(n, OP_clamp, y, lo, hi), type);
}

NodeId quant_to_f32(OnnxNode *n, NodeId x, NodeId scale, NodeId zero)
{
    return onnx_op2(n, OP_mul, onnx_cast(n, quant_centred(n, x, zero), DTYPE_f32),
                    onnx_cast(n, scale, DTYPE_f32));
}

NodeId quant_from_f32(OnnxNode *n, NodeId x, NodeId scale, NodeId zero, DType type)
{
    return quant_saturate(n, onnx_op2(n, OP_div, x, onnx_cast(n, scale, DTYPE_f32)), zero, type, true);
}

// --- granularity ---

// How scales and zero points lie over x: one for all, one per entry of an axis, or one per block along it.
// For blocks x gets an axis of its own within a block where it is made of whole ones; else the parameters are
// repeated.
typedef struct Grain {
    Shape shape, split; // of x; split.rank 0: x keeps its shape
    uint32_t axis;
    int64_t block; // 0: none
} Grain;

static void split_blocks(Grain *g)
{
    rlx_assert(g->block >= 1);
    if (g->shape.rank == SHAPE_MAX_RANK || g->shape.dim[g->axis] % g->block != 0)
        return;
    for (uint32_t i = 0; i <= g->axis; i++)
        g->split.dim[i] = g->shape.dim[i];
    g->split.dim[g->axis] /= g->block;
    g->split.dim[g->axis + 1] = g->block;
    for (uint32_t i = g->axis + 1; i < g->shape.rank; i++)
        g->split.dim[i + 1] = g->shape.dim[i];
    g->split.rank = g->shape.rank + 1;
}

// Blocks along g->axis. False: they do not fit (reported).
static bool read_blocks(OnnxNode *n, Grain *g, const Shape *s)
{
    rlx_assert(g->axis < g->shape.rank);
    if (s->rank != g->shape.rank || !dim_is_const(g->shape.dim[g->axis]) || !dim_is_const(s->dim[g->axis]))
        return onnx_fail(n, E0204,
                         "quantisation in blocks needs a scale of the rank of x and a constant axis");
    const int64_t size = g->shape.dim[g->axis];
    if (g->block < 1 || s->dim[g->axis] != size / g->block + (size % g->block != 0))
        return onnx_fail(n, E0204,
                         "block_size %lld and the %lld blocks of the scale do not fit an axis of %lld",
                         (long long)g->block, (long long)s->dim[g->axis], (long long)size);
    split_blocks(g);
    return true;
}

static Grain read_grain(OnnxNode *n, NodeId x, NodeId scale)
{
    Grain g = {.shape = *onnx_shape(n, x)};
    const Shape s = *onnx_shape(n, scale);
    const int64_t axis = onnx_int(n, "axis", 1);
    g.block = onnx_int(n, "block_size", 0);
    if (n->failed)
        return g;
    if (g.block == 0) {
        if (s.rank == 1 && s.dim[0] != 1 && g.shape.rank > 1)
            onnx_axis(n, axis, g.shape.rank, &g.axis);
        if (s.rank > 1)
            onnx_fail(n, E0204, "a scale of rank %u needs the attribute 'block_size'", s.rank);
        return g;
    }
    if (onnx_axis(n, axis, g.shape.rank, &g.axis))
        read_blocks(n, &g, &s);
    return g;
}

// A scale or zero point in a shape that broadcasts to x as quant_split gives it.
static NodeId place(OnnxNode *n, const Grain *g, NodeId v)
{
    if (n->failed || !v)
        return v;
    if (g->block == 0)
        return quant_along(n, v, g->shape.rank, g->axis);
    if (g->split.rank)
        return onnx_unsqueeze(n, v, (const int64_t[]){g->axis + 1}, 1);
    const int64_t count = g->shape.dim[g->axis];
    if (!onnx_spend(n, count))
        return 0;
    int64_t *from = ARENA_ARRAY(n->model->arena, int64_t, (size_t)count + 1);
    for (int64_t i = 0; i < count; i++)
        from[i] = i / g->block;
    const Shape shape = {.rank = 1, .dim = {count}};
    const NodeId index = onnx_const(n, DTYPE_i64, &shape, from, (uint64_t)count * sizeof *from);
    return onnx_gather(n, v, index, g->axis);
}

static NodeId split(OnnxNode *n, const Grain *g, NodeId x)
{
    return g->split.rank ? onnx_reshape(n, x, &g->split) : x;
}

static NodeId join(OnnxNode *n, const Grain *g, NodeId y)
{
    return g->split.rank ? onnx_reshape(n, y, &g->shape) : y;
}

// Scales that are powers of two are only factors: one computes in f32 with them.
static DType work_type(DType t)
{
    return dtype_is_narrow(t) || !is_float(t) ? DTYPE_f32 : t;
}

// --- to and from floats ---

void onnx_import_dequantize(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), scale = onnx_src(n, 1), zero = onnx_opt(n, 2);
    const Grain g = read_grain(n, x, scale);
    const DType dflt = work_type(onnx_dtype(n, scale));
    const DType type = onnx_int(n, "output_dtype", 0) ? onnx_type_attr(n, "output_dtype", dflt) : dflt;
    const NodeId steps = onnx_cast(n, quant_centred(n, split(n, &g, x), place(n, &g, zero)), dflt);
    const NodeId y = onnx_op2(n, OP_mul, steps, onnx_cast(n, place(n, &g, scale), dflt));
    const NodeId whole = join(n, &g, onnx_cast(n, y, type));
    quant_remember(n, whole, x, scale, zero, g.axis, g.block);
    qdq_remember(n, whole, &(OnnxDequantised){x, scale, zero, g.axis, g.block});
    onnx_out(n, 0, whole);
}

void onnx_import_quantize(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), scale = onnx_src(n, 1), zero = onnx_opt(n, 2);
    const Grain g = read_grain(n, x, scale);
    const bool is_named = onnx_int(n, "output_dtype", 0) != 0;
    const DType dflt = zero ? onnx_dtype(n, zero) : DTYPE_u8;
    const DType type = is_named ? onnx_type_attr(n, "output_dtype", dflt) : dflt;
    const bool saturate = onnx_flag(n, "saturate", 1);
    const DType own = work_type(onnx_dtype(n, scale));
    const DType work = onnx_int(n, "precision", 0) ? onnx_type_attr(n, "precision", own) : own;
    const NodeId wide = onnx_cast(n, split(n, &g, x), work);
    const NodeId by = onnx_cast(n, place(n, &g, scale), work);
    onnx_out(n, 0, join(n, &g, qdq_quantised(n, wide, by, place(n, &g, zero), type, saturate)));
}

NodeId quant_blocks_to_float(OnnxNode *n, NodeId x, NodeId scale, NodeId zero, uint32_t axis, int64_t block)
{
    Grain g = {.shape = *onnx_shape(n, x), .axis = axis, .block = block};
    const Shape s = *onnx_shape(n, scale);
    if (n->failed || !read_blocks(n, &g, &s))
        return 0;
    const bool is_scalar = zero && onnx_shape(n, zero)->rank == 0;
    const NodeId steps = quant_centred(n, split(n, &g, x), is_scalar ? zero : place(n, &g, zero));
    const NodeId y = onnx_op2(n, OP_mul, onnx_cast(n, steps, onnx_dtype(n, scale)), place(n, &g, scale));
    return join(n, &g, y);
}

// The range of x and 0 becomes that of u8.
NodeId quant_dynamic(OnnxNode *n, NodeId x, NodeId *scale, NodeId *zero)
{
    const Shape scalar = {0};
    const NodeId none = onnx_scalar(n, DTYPE_f32, 0);
    const NodeId least = onnx_reshape(n, onnx_reduce(n, OP_reduce_min, x, NULL, 0), &scalar);
    const NodeId most = onnx_reshape(n, onnx_reduce(n, OP_reduce_max, x, NULL, 0), &scalar);
    const NodeId lo = onnx_op2(n, OP_min, least, none), hi = onnx_op2(n, OP_max, most, none);
    *scale = onnx_op2(n, OP_div, onnx_op2(n, OP_sub, hi, lo), onnx_scalar(n, DTYPE_f32, 255));
    *zero = quant_saturate(n, onnx_op1(n, OP_neg, onnx_op2(n, OP_div, lo, *scale)), 0, DTYPE_u8, true);
    return quant_saturate(n, onnx_op2(n, OP_div, x, *scale), *zero, DTYPE_u8, true);
}

void onnx_import_dynamic_quantize(OnnxNode *n)
{
    NodeId scale = 0, zero = 0;
    onnx_out(n, 0, quant_dynamic(n, onnx_src(n, 0), &scale, &zero));
    onnx_out(n, 1, scale);
    onnx_out(n, 2, zero);
}

// --- products ---

static bool is_zero_point(OnnxNode *n, NodeId zero, bool many)
{
    const Shape *s = onnx_shape(n, zero);
    return !zero || s->rank == 0 || (s->rank == 1 && (many || (dim_is_const(s->dim[0]) && s->dim[0] == 1)));
}

static bool are_bytes(OnnxNode *n, NodeId a, NodeId b)
{
    const DType s = onnx_dtype(n, a), t = onnx_dtype(n, b);
    return (s == DTYPE_u8 || s == DTYPE_i8) && (t == DTYPE_u8 || t == DTYPE_i8);
}

NodeId quant_matmul(OnnxNode *n, NodeId a, NodeId a_zero, NodeId b, NodeId b_zero)
{
    if (!n->failed && are_bytes(n, a, b) && is_zero_point(n, a_zero, false) &&
        is_zero_point(n, b_zero, true)) {
        const NodeId y =
            quant_rows(n, a, quant_along(n, a_zero, 1, 0), b, quant_along(n, b_zero, 1, 0), false);
        if (y || n->failed)
            return y;
    }
    const uint32_t rank = onnx_shape(n, a)->rank;
    const NodeId rows = a_zero && rank >= 2 ? quant_along(n, a_zero, rank, rank - 2) : a_zero;
    const NodeId x = quant_centred(n, a, rows), y = quant_centred(n, b, quant_along(n, b_zero, 1, 0));
    if (onnx_dtype(n, x) != onnx_dtype(n, y))
        onnx_fail(n, E0205, "cannot multiply %s and %s", dtype_info[onnx_dtype(n, a)].name,
                  dtype_info[onnx_dtype(n, b)].name);
    return onnx_matmul(n, x, y, false, false);
}

void onnx_import_matmul_integer(OnnxNode *n)
{
    const NodeId a = onnx_src(n, 0), b = onnx_src(n, 1), a_zero = onnx_opt(n, 2), b_zero = onnx_opt(n, 3);
    onnx_out(n, 0, quant_matmul(n, a, a_zero, b, b_zero));
}

// Our convolution is for floats: the narrowest in which no sum of products of two bytes is rounded.
static DType exact_type(OnnxNode *n, NodeId w)
{
    const Shape *s = onnx_shape(n, w);
    int64_t taps = 1;
    for (uint32_t i = 1; i < s->rank; i++)
        if (!dim_is_const(s->dim[i]) || __builtin_mul_overflow(taps, s->dim[i], &taps))
            return DTYPE_f64;
    return taps <= (1 << 24) / (256 * 256) ? DTYPE_f32 : DTYPE_f64;
}

static NodeId integer_conv(OnnxNode *n, NodeId x, NodeId x_zero, NodeId w, NodeId w_zero)
{
    if (!n->failed && are_bytes(n, x, w) && is_zero_point(n, x_zero, false) &&
        is_zero_point(n, w_zero, true)) {
        const NodeId src[] = {x, w, 0, quant_along(n, x_zero, 1, 0), quant_along(n, w_zero, 1, 0)};
        return onnx_int_conv(n, src);
    }
    const DType type = exact_type(n, w);
    const NodeId zero = quant_along(n, w_zero, onnx_shape(n, w)->rank, 0);
    const NodeId steps = onnx_cast(n, quant_centred(n, x, quant_along(n, x_zero, 1, 0)), type);
    return onnx_cast(n, onnx_conv(n, steps, onnx_cast(n, quant_centred(n, w, zero), type), 0), DTYPE_i32);
}

void onnx_import_conv_integer(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0), w = onnx_src(n, 1), x_zero = onnx_opt(n, 2), w_zero = onnx_opt(n, 3);
    onnx_out(n, 0, integer_conv(n, x, x_zero, w, w_zero));
}

// sum * (scale_a * scale_b / scale_y), rounded into the type of the zero point of y.
static NodeId requantize(OnnxNode *n, NodeId sum, NodeId factor, NodeId scale, NodeId zero)
{
    const NodeId wide = onnx_op2(n, OP_mul, onnx_cast(n, sum, DTYPE_f32), onnx_cast(n, factor, DTYPE_f32));
    return qdq_quantised(n, wide, onnx_cast(n, scale, DTYPE_f32), zero, onnx_dtype(n, zero), true);
}

void onnx_import_qlinear_matmul(OnnxNode *n)
{
    NodeId src[8];
    for (uint32_t i = 0; i < 8; i++)
        src[i] = onnx_src(n, i);
    const NodeId sum = quant_matmul(n, src[0], src[2], src[3], src[5]);
    const uint32_t rank = onnx_shape(n, src[0])->rank;
    const NodeId rows = rank >= 2 ? quant_along(n, src[1], rank, rank - 2) : src[1];
    onnx_out(n, 0, requantize(n, sum, onnx_op2(n, OP_mul, rows, src[4]), src[6], src[7]));
}

// The bias has the scale of the product.
void onnx_import_qlinear_conv(OnnxNode *n)
{
    NodeId src[8];
    for (uint32_t i = 0; i < 8; i++)
        src[i] = onnx_src(n, i);
    const NodeId bias = onnx_opt(n, 8);
    const uint32_t rank = onnx_shape(n, src[0])->rank;
    NodeId sum = integer_conv(n, src[0], src[2], src[3], src[5]);
    if (bias)
        sum = onnx_op2(n, OP_add, sum, quant_along(n, bias, rank, 1));
    const NodeId factor = onnx_op2(n, OP_mul, quant_along(n, src[1], 1, 0), quant_along(n, src[4], rank, 1));
    onnx_out(n, 0, requantize(n, sum, factor, quant_along(n, src[6], 1, 0), quant_along(n, src[7], 1, 0)));
}
