// SPDX-License-Identifier: Apache-2.0
// Elementwise operators of two operands, and those that change types. Quantised ones have the integer
// formulas of XNNPACK (ADD, SUB, MUL) or of the built-in kernels.
#include "compiler/import/tflite/tfl_import.h"

#include <math.h>

// Is the result a quantised integer?
static bool is_integer(TflNode *n)
{
    return tfl_is_quantised(tfl_of_out(n, 0));
}

static NodeId centred(TflNode *n, uint32_t i)
{
    const TflQuant q = tfl_quant(n, tfl_in(n, i));
    const NodeId x = tfl_cast(n, tfl_src(n, i), DTYPE_i32);
    return q.zero == 0 ? x : tfl_op_number(n, OP_sub, x, (double)q.zero);
}

// --- sums ---

// XNNPACK: multipliers of up to 21 bits over the scale of the result, one shift that rounds halves up.
static NodeId sum_by_shift(TflNode *n, double a, double b, double sign, int64_t activation)
{
    const TflQuant x = tfl_quant(n, tfl_in(n, 0)), y = tfl_quant(n, tfl_in(n, 1));
    const int shift = 20 - ilogb(a > b ? a : b);
    const double ma = rint(ldexp(a, shift)), mb = sign * rint(ldexp(b, shift));
    double bias = ldexp(1, shift - 1) - ma * (double)x.zero - mb * (double)y.zero;
    // The zero point of the result is a part of the bias where no sum leaves i32 then.
    const double zero = ldexp((double)tfl_quant(n, tfl_of_out(n, 0)).zero, shift);
    const bool has_zero = fabs(bias + zero) + 256 * (fabs(ma) + fabs(mb)) < ldexp(1, 31);
    bias += has_zero ? zero : 0;
    const NodeId p = tfl_op_number(n, OP_mul, tfl_cast(n, tfl_src(n, 0), DTYPE_i32), ma);
    const NodeId q = tfl_op_number(n, OP_mul, tfl_cast(n, tfl_src(n, 1), DTYPE_i32), mb);
    const NodeId sum = tfl_op2(n, OP_add, p, tfl_op_number(n, OP_add, q, bias));
    const NodeId steps = tfl_op_number(n, OP_shift_right, sum, shift);
    return (has_zero ? tfl_saturate : tfl_finish)(n, steps, tfl_of_out(n, 0), activation);
}

// The built-in kernels: both operands with more bits, over twice the larger scale.
static NodeId sum_by_factors(TflNode *n, double a, double b, bool is_difference, int64_t activation)
{
    const int left = dtype_info[tfl_of_out(n, 0)->dtype].bits == 16 ? 15 : 20;
    const double most = 2 * (a > b ? a : b);
    const NodeId x =
        tfl_scaled(n, tfl_op_number(n, OP_shift_left, centred(n, 0), left), tfl_factor(a / most));
    const NodeId y =
        tfl_scaled(n, tfl_op_number(n, OP_shift_left, centred(n, 1), left), tfl_factor(b / most));
    const NodeId sum = tfl_op2(n, is_difference ? OP_sub : OP_add, x, y);
    return tfl_finish(n, tfl_scaled(n, sum, tfl_factor(ldexp(most, -left))), tfl_of_out(n, 0), activation);
}

// ADD and SUB.
void tfl_import_sum(TflNode *n)
{
    const int64_t activation = tfl_option(n, 0, FLAT_I8, 0);
    const bool is_difference = n->op->op == OP_sub;
    tfl_ignore(n, 1); // scales that are powers of two
    const NodeId x = tfl_src(n, 0), y = tfl_src(n, 1);
    if (!is_integer(n)) {
        const NodeId sum = tfl_op2(n, n->op->op, x, y);
        tfl_out(n, 0, activation ? tfl_activate(n, sum, activation) : sum);
        return;
    }
    const TflQuant a = tfl_quant(n, tfl_in(n, 0)), b = tfl_quant(n, tfl_in(n, 1)),
                   c = tfl_quant(n, tfl_of_out(n, 0));
    const double ra = (double)((float)a.scale / (float)c.scale),
                 rb = (double)((float)b.scale / (float)c.scale);
    const double most = fmax(ra, rb), least = fmin(ra, rb);
    const bool is_common = least >= 1.0 / 1024 && most < 256 &&
                           dtype_info[tfl_of_out(n, 0)->dtype].bits == 8 &&
                           !n->model->source->options.rounds_twice;
    tfl_out(n, 0,
            is_common ? sum_by_shift(n, ra, rb, is_difference ? -1 : 1, activation)
                      : sum_by_factors(n, a.scale / c.scale, b.scale / c.scale, is_difference, activation));
}

void tfl_import_mul(TflNode *n)
{
    const int64_t activation = tfl_option(n, 0, FLAT_I8, 0);
    const NodeId x = tfl_src(n, 0), y = tfl_src(n, 1);
    const TflTensor *t = tfl_of_out(n, 0);
    if (!is_integer(n)) {
        tfl_out(n, 0, tfl_activate(n, tfl_op2(n, OP_mul, x, y), activation));
        return;
    }
    const TflQuant a = tfl_quant(n, tfl_in(n, 0)), b = tfl_quant(n, tfl_in(n, 1)), c = tfl_quant(n, t);
    const NodeId product = tfl_op2(n, OP_mul, centred(n, 0), centred(n, 1));
    if (dtype_info[t->dtype].bits == 8 && !n->model->source->options.rounds_twice) {
        const float factor = (float)a.scale * (float)b.scale / (float)c.scale;
        tfl_out(n, 0,
                tfl_from_steps(n, tfl_op_number(n, OP_mul, tfl_cast(n, product, DTYPE_f32), (double)factor),
                               t, activation));
        return;
    }
    tfl_out(n, 0,
            tfl_finish(n, tfl_scaled(n, product, tfl_factor(a.scale * b.scale / c.scale)), t, activation));
}

// --- DIV of bytes: the built-in kernel's, whose parts for each operand are tables ---

static int32_t high(int32_t a, int32_t b)
{
    return tfl_scaled_number(a, (TflFactor){.multiplier = b});
}

// 2^31 / (1 + x / 2^31): three steps of Newton, with 2 bits before the point.
static int32_t reciprocal(int32_t x)
{
    const int32_t half = (int32_t)(((int64_t)x + INT32_MAX + 1) / 2);
    int32_t y = 1515870810 + high(half, -1010580540);
    for (int i = 0; i < 3; i++)
        y += high(y, (1 << 29) - high(half, y)) * 4;
    return y > INT32_MAX / 2 ? INT32_MAX : y * 2;
}

enum { DIVIDENDS = 511, DIVISORS = 256, MOST_BYTE = 255 };

// Of dividends from -255 on, and of divisors: a number with all of its 31 bits, and how far it is moved.
static int32_t dividend(int32_t at, bool wants_shift)
{
    const int32_t x = at - MOST_BYTE, room = x ? __builtin_clrsb(x) : 30;
    return wants_shift ? room : x * (INT32_C(1) << room);
}

static int32_t divisor(int32_t x, bool wants_shift)
{
    const int room = x ? __builtin_clz((uint32_t)x) : 0;
    if (wants_shift || x == 0)
        return x ? 31 - room : 0;
    return reciprocal((int32_t)(((uint32_t)x << room) - (UINT32_C(1) << 31)));
}

static NodeId part_of(TflNode *n, NodeId at, int32_t (*value)(int32_t, bool), int64_t count, bool wants_shift)
{
    Tensor t = tensor_new(n->model->arena, DTYPE_i32, 1, &count);
    for (int64_t i = 0; i < count; i++)
        ((int32_t *)t.data)[i] = value((int32_t)i, wants_shift);
    const Shape s = shape_of(1, &count);
    return tfl_gather(n, tfl_const(n, DTYPE_i32, &s, t.data), at, 0);
}

// (a * b + half) >> 31 in i64.
static NodeId high_product(TflNode *n, NodeId a, NodeId b)
{
    const NodeId p = tfl_op2(n, OP_mul, tfl_cast(n, a, DTYPE_i64), tfl_cast(n, b, DTYPE_i64));
    return tfl_op_number(n, OP_shift_right, tfl_op_number(n, OP_add, p, 1 << 30), 31);
}

static NodeId quotient(TflNode *n, int64_t activation)
{
    enum { LEAST_ROOM = 23 };
    const TflTensor *to = tfl_of_out(n, 0);
    const TflQuant a = tfl_quant(n, tfl_in(n, 0)), b = tfl_quant(n, tfl_in(n, 1)), c = tfl_quant(n, to);
    const TflFactor f = tfl_factor((double)((float)a.scale / ((float)b.scale * (float)c.scale)));
    if (!tfl_is_byte(to->dtype) || f.shift >= LEAST_ROOM)
        return tfl_fail(n, E0206, "quotients of 16 bits, or with so different scales, are not supported");
    const NodeId y = centred(n, 1), is_below = tfl_op2(n, OP_lt, y, tfl_number(n, DTYPE_i32, 0));
    NodeId x = centred(n, 0);
    x = tfl_op_number(n, OP_add, tfl_op3(n, OP_where, is_below, tfl_op1(n, OP_neg, x), x), MOST_BYTE);
    const NodeId size = tfl_op1(n, OP_abs, y);
    const NodeId whole = high_product(n, part_of(n, x, dividend, DIVIDENDS, false),
                                      part_of(n, size, divisor, DIVISORS, false));
    const NodeId room = tfl_op2(n, OP_add, part_of(n, x, dividend, DIVIDENDS, true),
                                part_of(n, size, divisor, DIVISORS, true));
    const NodeId down = tfl_cast(n, tfl_op_number(n, OP_sub, room, f.shift), DTYPE_i64);
    const NodeId steps = high_product(n, whole, tfl_number(n, DTYPE_i64, f.multiplier));
    const NodeId less = tfl_cast(n, tfl_op2(n, OP_lt, steps, tfl_number(n, DTYPE_i64, 0)), DTYPE_i64);
    const NodeId half =
        tfl_op2(n, OP_shift_left, tfl_number(n, DTYPE_i64, 1), tfl_op_number(n, OP_sub, down, 1));
    const NodeId sum = tfl_op2(n, OP_add, steps, tfl_op2(n, OP_sub, half, less)); // halves away from zero
    return tfl_finish(n, tfl_cast(n, tfl_op2(n, OP_shift_right, sum, down), DTYPE_i32), to, activation);
}

void tfl_import_div(TflNode *n)
{
    const int64_t activation = tfl_option(n, 0, FLAT_I8, 0);
    const NodeId x = tfl_src(n, 0), y = tfl_src(n, 1);
    if (is_integer(n))
        tfl_out(n, 0, quotient(n, activation));
    else
        tfl_out(n, 0, tfl_activate(n, tfl_op2(n, OP_div, x, y), activation));
}

void tfl_import_squared_difference(TflNode *n)
{
    const NodeId x = tfl_src(n, 0), y = tfl_src(n, 1);
    if (!is_integer(n)) {
        tfl_out(n, 0, tfl_op1(n, OP_square, tfl_op2(n, OP_sub, x, y)));
        return;
    }
    const int left = dtype_info[tfl_of_out(n, 0)->dtype].bits == 16 ? 0 : 7;
    const double a = tfl_quant(n, tfl_in(n, 0)).scale, b = tfl_quant(n, tfl_in(n, 1)).scale;
    const double c = tfl_quant(n, tfl_of_out(n, 0)).scale, most = 2 * fmax(a, b);
    const NodeId p =
        tfl_scaled(n, tfl_op_number(n, OP_shift_left, centred(n, 0), left), tfl_factor(a / most));
    const NodeId q =
        tfl_scaled(n, tfl_op_number(n, OP_shift_left, centred(n, 1), left), tfl_factor(b / most));
    const NodeId d = tfl_op1(n, OP_square, tfl_op2(n, OP_sub, p, q));
    tfl_out(
        n, 0,
        tfl_finish(n, tfl_scaled(n, d, tfl_factor(ldexp(most * most / c, -2 * left))), tfl_of_out(n, 0), 0));
}

// --- two operands, without options ---

void tfl_import_binary(TflNode *n)
{
    const NodeId x = tfl_src(n, 0), y = tfl_src(n, 1);
    tfl_same_scale(n, 0);
    tfl_same_scale(n, 1);
    tfl_out(n, 0, tfl_op2(n, n->op->op, x, y));
}

void tfl_import_floor_div(TflNode *n)
{
    const NodeId x = tfl_src(n, 0), y = tfl_src(n, 1);
    if (!n->failed && dtype_info[tfl_type(n, x)].cls == DCLASS_FLOAT) {
        const NodeId quotient = tfl_op2(n, OP_div, tfl_cast(n, x, DTYPE_f64), tfl_cast(n, y, DTYPE_f64));
        tfl_out(n, 0, tfl_cast(n, tfl_op1(n, OP_floor, quotient), tfl_type(n, x))); // not rounded before
    } else
        tfl_out(n, 0, tfl_op2(n, OP_div, tfl_op2(n, OP_sub, x, tfl_op2(n, OP_mod, x, y)), y));
}

// As TensorFlow Lite for microcontrollers: the operands, which have one scale and zero point, with 19 bits
// more (halves of 20), of which 16 sums fit into i32.
static NodeId sum_of_bytes(TflNode *n)
{
    enum { LEFT = 19, MOST = 16 };
    const TflTensor *to = tfl_of_out(n, 0);
    NodeId sum = centred(n, 0);
    if (n->n_in > MOST || dtype_info[to->dtype].bits != 8)
        return tfl_fail(n, E0206, "quantised operands must be at most %d, of 8 bits", MOST);
    for (uint32_t i = 1; i < n->n_in; i++) {
        if (!tfl_same_quant(tfl_in(n, 0), tfl_in(n, i)))
            return tfl_fail(n, E0206, "operands 0 and %u must have the same scale and zero point", i);
        sum = tfl_op2(n, OP_add, sum, centred(n, i));
    }
    const double factor = ldexp(tfl_quant(n, tfl_in(n, 0)).scale / tfl_quant(n, to).scale, -LEFT);
    return tfl_finish(n, tfl_scaled(n, tfl_op_number(n, OP_shift_left, sum, LEFT), tfl_factor(factor)), to,
                      0);
}

// Sums of i32 are raw, whatever their scales, as in LiteRT.
void tfl_import_add_n(TflNode *n)
{
    const bool is_narrow = dtype_info[tfl_of_out(n, 0)->dtype].bits < 32;
    if (is_narrow && (is_integer(n) || tfl_is_quantised(tfl_in(n, 0)))) {
        tfl_out(n, 0, sum_of_bytes(n));
        return;
    }
    NodeId sum = tfl_src(n, 0);
    for (uint32_t i = 1; i < n->n_in; i++)
        sum = tfl_op2(n, OP_add, sum, tfl_src(n, i));
    tfl_out(n, 0, sum);
}

// Quantised operands of different scales are compared with 8 bits more.
static NodeId comparable(TflNode *n, uint32_t i)
{
    enum { LEFT = 8 };
    const TflQuant q = tfl_quant(n, tfl_in(n, i));
    return tfl_scaled(n, tfl_op_number(n, OP_shift_left, centred(n, i), LEFT), tfl_factor(q.scale));
}

void tfl_import_compare(TflNode *n)
{
    const bool is_plain = tfl_same_quant(tfl_in(n, 0), tfl_in(n, 1)) || !tfl_is_quantised(tfl_in(n, 0));
    tfl_out(n, 0,
            tfl_op2(n, n->op->op, is_plain ? tfl_src(n, 0) : comparable(n, 0),
                    is_plain ? tfl_src(n, 1) : comparable(n, 1)));
}

// A condition of rank 1 chooses rows.
void tfl_import_select(TflNode *n)
{
    NodeId cond = tfl_src(n, 0);
    const NodeId x = tfl_src(n, 1), y = tfl_src(n, 2);
    const Shape s = *tfl_shape(n, x), c = *tfl_shape(n, cond);
    if (n->op->code == 64 && !n->failed && c.rank == 1 && s.rank > 1) {
        Shape rows = {.rank = s.rank, .dim = {c.dim[0], 1, 1, 1, 1, 1, 1, 1}};
        cond = tfl_reshape_like(n, cond, &rows);
    }
    tfl_same_scale(n, 1);
    tfl_same_scale(n, 2);
    tfl_out(n, 0, tfl_op3(n, OP_where, cond, x, y));
}

// Slopes broadcast; quantised ones are scaled by the built-in kernels' factors.
void tfl_import_prelu(TflNode *n)
{
    const NodeId x = tfl_src(n, 0), slope = tfl_src(n, 1);
    if (!is_integer(n)) {
        tfl_out(n, 0, tfl_op2(n, OP_leaky_relu, x, slope));
        return;
    }
    const double a = tfl_quant(n, tfl_in(n, 0)).scale, b = tfl_quant(n, tfl_in(n, 1)).scale;
    const double c = tfl_quant(n, tfl_of_out(n, 0)).scale;
    const NodeId v = centred(n, 0),
                 falls = tfl_scaled(n, tfl_op2(n, OP_mul, v, centred(n, 1)), tfl_factor(a * b / c));
    const NodeId rises = tfl_scaled(n, v, tfl_factor(a / c));
    const NodeId is_below = tfl_op2(n, OP_lt, v, tfl_number(n, DTYPE_i32, 0));
    tfl_out(n, 0, tfl_finish(n, tfl_op3(n, OP_where, is_below, falls, rises), tfl_of_out(n, 0), 0));
}

// --- types ---

void tfl_import_cast(TflNode *n)
{
    tfl_ignore(n, 0); // the types are those of the tensors
    tfl_ignore(n, 1);
    if (tfl_is_complex(n, 0)) {
        tfl_import_real(n);
        return;
    }
    const NodeId x = tfl_src(n, 0);
    const TflTensor *to = tfl_of_out(n, 0);
    if (!to->has_dtype)
        tfl_fail(n, E0206, "a result of type %s is not supported", tfl_type_name(to->type));
    tfl_out(n, 0, tfl_cast(n, x, to->dtype));
}

void tfl_import_bitcast(TflNode *n)
{
    const NodeId x = tfl_src(n, 0);
    if (n->failed)
        return;
    NodeBuild b = tfl_begin(n, OP_bitcast);
    node_src(&b, x);
    node_int(&b, A_bitcast_to, tfl_of_out(n, 0)->dtype);
    tfl_out(n, 0, tfl_end(n, &b));
}

void tfl_import_dequantize(TflNode *n)
{
    const NodeId x = tfl_src(n, 0);
    const bool is_float = dtype_info[tfl_type(n, x)].cls == DCLASS_FLOAT;
    if (n->failed)
        return;
    tfl_out(n, 0, is_float ? tfl_cast(n, x, DTYPE_f32) : tfl_dequantise(n, x, tfl_in(n, 0)));
}

static int64_t requantised(const TflQuant *from, const TflQuant *to, int64_t x, double option)
{
    TflFactor f = tfl_factor(from->scale / to->scale);
    f.is_upward = option > 0;
    return tfl_scaled_number((int32_t)x, f);
}

// The built-in kernel from bytes to bytes rounds whole sixteens of them upwards, and the rest as gemmlowp.
static NodeId requantised_bytes(TflNode *n, NodeId x)
{
    enum { WHOLE = 16 };
    const TflTensor *to = tfl_of_out(n, 0);
    const Shape s = *tfl_shape(n, x);
    int64_t count = 1;
    for (uint32_t i = 0; i < s.rank && tfl_is_byte(to->dtype); i++)
        count *= tfl_size(n, x, i);
    const int64_t split = count / WHOLE * WHOLE;
    if (n->failed || !tfl_is_byte(to->dtype) || n->model->source->options.rounds_twice || split == 0)
        return tfl_integer_table(n, x, requantised, 0);
    if (split == count)
        return tfl_integer_table(n, x, requantised, 1);
    const NodeId flat = tfl_reshape(n, x, &count, 1);
    const NodeId parts[] = {tfl_integer_table(n, tfl_slice(n, flat, 0, 0, split, 1), requantised, 1),
                            tfl_integer_table(n, tfl_slice(n, flat, 0, split, count, 1), requantised, 0)};
    return tfl_reshape_like(n, tfl_concat(n, parts, 2, 0), &s);
}

// From reals, or from integers of another scale.
void tfl_import_quantize(TflNode *n)
{
    const NodeId x = tfl_src(n, 0);
    const TflTensor *from = tfl_in(n, 0), *to = tfl_of_out(n, 0);
    if (n->failed)
        return;
    if (dtype_info[from->dtype].cls == DCLASS_FLOAT) {
        tfl_out(n, 0, tfl_quantise(n, tfl_cast(n, x, DTYPE_f32), to));
        return;
    }
    const TflQuant a = tfl_quant(n, from), b = tfl_quant(n, to);
    const bool is_coarse = from->dtype == to->dtype && !n->model->source->options.rounds_twice;
    if (dtype_info[from->dtype].bits == 8 && is_coarse && tfl_fits_256ths(&a, &b, 1))
        tfl_out(n, 0, tfl_integer_table(n, x, tfl_in_256ths, 1));
    else if (dtype_info[from->dtype].bits == 8)
        tfl_out(n, 0, requantised_bytes(n, x));
    else
        tfl_out(n, 0, tfl_finish(n, tfl_scaled(n, centred(n, 0), tfl_factor(a.scale / b.scale)), to, 0));
}

// What training rounded to, on reals.
void tfl_import_fake_quant(TflNode *n)
{
    const double lo = tfl_option_f32(n, 0, 0), hi = tfl_option_f32(n, 1, 0);
    const int64_t bits = tfl_option(n, 2, FLAT_I32, 0);
    const double least = tfl_option(n, 3, FLAT_U8, 0) ? 1 : 0;
    const NodeId x = tfl_src(n, 0);
    if (bits < 2 || bits > 16 || !(hi > lo))
        tfl_fail(n, E0203, "%lld bits between %g and %g are no quantisation", (long long)bits, lo, hi);
    if (n->failed)
        return;
    const double most = ldexp(1, (int)bits) - 1, scale = (double)(float)((hi - lo) / (most - least));
    const double zero = fmin(fmax(round(least - lo / scale), least), most);
    const double from = (least - zero) * scale, to = (most - zero) * scale;
    const NodeId steps =
        tfl_op_number(n, OP_div, tfl_op_number(n, OP_sub, tfl_clamp(n, x, from, to), from), scale);
    const NodeId whole = tfl_op1(n, OP_floor, tfl_op_number(n, OP_add, steps, 0.5));
    tfl_out(n, 0, tfl_op_number(n, OP_add, tfl_op_number(n, OP_mul, whole, scale), from));
}
