// SPDX-License-Identifier: Apache-2.0
// Cast from numbers to strings. Integers in decimal; bool as True and False; floats with the fewest digits
// that give the same number back (f64: at most 15), plain from 1e-4 up to 1e16 ("0.5", "3.0", "314.15926"),
// else with an exponent of two or three digits ("1e-05", "2.5e+20"); INF, -INF and NaN.
#include "compiler/import/onnx/onnx_text.h"

#include <stdlib.h>
#include <string.h>

enum { INT_ROOM = 20, FLOAT_ROOM = 24, MAX_DIGITS = 15 };

static NodeId int_scalar(OnnxNode *n, int64_t v)
{
    return onnx_scalar(n, DTYPE_i64, (double)v);
}

static NodeId pick(OnnxNode *n, NodeId cond, NodeId a, NodeId b)
{
    return onnx_op3(n, OP_where, cond, a, b);
}

static NodeId byte(OnnxNode *n, char c)
{
    return int_scalar(n, (uint8_t)c);
}

// With an axis of size 1 at the end, for the bytes.
static NodeId add_axis(OnnxNode *n, NodeId x)
{
    const int64_t last = onnx_shape(n, x)->rank;
    return onnx_unsqueeze(n, x, &last, 1);
}

// 10^0, 10^1 ... as u64.
static NodeId powers(OnnxNode *n, uint32_t count)
{
    uint64_t *v = ARENA_ARRAY(n->model->arena, uint64_t, count), p = 1;
    for (uint32_t i = 0; i < count; i++, p *= 10)
        v[i] = p;
    const Shape s = {.rank = 1, .dim = {count}};
    return onnx_const(n, DTYPE_u64, &s, v, count * sizeof *v);
}

// The digit of v (u64) at 10^place as a byte (i64); '0' outside of [0, count).
static NodeId digit(OnnxNode *n, NodeId v, NodeId place, uint32_t count)
{
    const NodeId is_in = onnx_op2(n, OP_logical_and, onnx_op2(n, OP_ge, place, int_scalar(n, 0)),
                                  onnx_op2(n, OP_lt, place, int_scalar(n, count)));
    const NodeId at = pick(n, is_in, place, int_scalar(n, 0));
    const NodeId shifted = onnx_op2(n, OP_div, v, onnx_gather(n, powers(n, count), at, 0));
    const NodeId d = onnx_cast(n, onnx_op2(n, OP_rem, shifted, onnx_scalar(n, DTYPE_u64, 10)), DTYPE_i64);
    return onnx_op2(n, OP_add, pick(n, is_in, d, int_scalar(n, 0)), byte(n, '0'));
}

// Decimal digits of v (u64, with an axis of size 1 at the end); 1 for zero.
static NodeId digit_count(OnnxNode *n, NodeId v, uint32_t most)
{
    const int64_t last = (int64_t)onnx_shape(n, v)->rank - 1;
    const NodeId more = onnx_op2(n, OP_ge, v, onnx_slice(n, powers(n, most), 0, 1, most, 1));
    return onnx_op2(n, OP_add, onnx_reduce(n, OP_reduce_sum, onnx_cast(n, more, DTYPE_i64), &last, 1),
                    int_scalar(n, 1));
}

// --- integers ---

static NodeId format_int(OnnxNode *n, NodeId x)
{
    const DType t = onnx_dtype(n, x);
    const NodeId v = add_axis(n, x), wide = onnx_cast(n, v, DTYPE_u64);
    const NodeId is_negative = dtype_info[t].cls == DCLASS_UINT ? onnx_op2(n, OP_ne, v, v)
                                                                : onnx_op2(n, OP_lt, v, onnx_scalar(n, t, 0));
    const NodeId size = pick(n, is_negative, onnx_op2(n, OP_sub, onnx_scalar(n, DTYPE_u64, 0), wide), wide);
    const NodeId count = digit_count(n, size, INT_ROOM), sign = onnx_cast(n, is_negative, DTYPE_i64);
    const NodeId i =
        onnx_op2(n, OP_sub, onnx_iota(n, INT_ROOM + 1), sign); // the digit's number, -1: the sign
    const NodeId place = onnx_op2(n, OP_sub, onnx_op2(n, OP_sub, count, int_scalar(n, 1)), i);
    NodeId out = pick(n, onnx_op2(n, OP_lt, i, count), digit(n, size, place, INT_ROOM), int_scalar(n, 0));
    out = pick(n, onnx_op2(n, OP_lt, i, int_scalar(n, 0)), byte(n, '-'), out);
    return onnx_cast(n, out, DTYPE_u8);
}

// --- floats ---

typedef struct Decimal {
    uint32_t digits; // of the mantissa
    NodeId mantissa; // u64: digits digits, zeros at the end
    NodeId exponent; // i64: of the first digit
    NodeId count;    // i64: digits without the zeros at the end
    NodeId is_negative;
} Decimal;

// v * 10^power with power in [-340, 340], from exact powers up to 1e22 where that is enough.
static NodeId times_power(OnnxNode *n, NodeId v, NodeId power)
{
    enum { STEPS = 341 };
    double *table = ARENA_ARRAY(n->model->arena, double, STEPS);
    for (uint32_t i = 0; i < STEPS; i++)
        table[i] = strtod(arena_printf(n->model->arena, "1e%u", i <= 308 ? i : 308), NULL);
    const Shape s = {.rank = 1, .dim = {STEPS}};
    const NodeId list = onnx_const(n, DTYPE_f64, &s, table, STEPS * sizeof *table);
    const NodeId size = onnx_op1(n, OP_abs, power);
    const NodeId first = onnx_op2(n, OP_min, size, int_scalar(n, 300));
    const NodeId a = onnx_gather(n, list, first, 0);
    const NodeId b = onnx_gather(n, list, onnx_op2(n, OP_sub, size, first), 0);
    const NodeId up = onnx_op2(n, OP_mul, onnx_op2(n, OP_mul, v, a), b);
    const NodeId down = onnx_op2(n, OP_div, onnx_op2(n, OP_div, v, a), b);
    return pick(n, onnx_op2(n, OP_lt, power, int_scalar(n, 0)), down, up);
}

// The power of ten of the first digit: by logarithm, and corrected where that is off by one.
static NodeId first_power(OnnxNode *n, NodeId size)
{
    const NodeId ln = onnx_op1(n, OP_log, size);
    const NodeId guess = onnx_cast(
        n, onnx_op1(n, OP_floor, onnx_op2(n, OP_mul, ln, onnx_scalar(n, DTYPE_f64, 0.43429448190325182))),
        DTYPE_i64);
    const NodeId lead = times_power(n, size, onnx_op1(n, OP_neg, guess));
    const NodeId less = onnx_cast(n, onnx_op2(n, OP_lt, lead, onnx_scalar(n, DTYPE_f64, 1)), DTYPE_i64);
    const NodeId more = onnx_cast(n, onnx_op2(n, OP_ge, lead, onnx_scalar(n, DTYPE_f64, 10)), DTYPE_i64);
    return onnx_op2(n, OP_add, onnx_op2(n, OP_sub, guess, less), more);
}

// The first number of digits with which the value is the same again in its own type.
static void shortest(OnnxNode *n, NodeId size, NodeId x, Decimal *d)
{
    const DType t = onnx_dtype(n, x);
    const int64_t last = (int64_t)onnx_shape(n, x)->rank - 1;
    const NodeId shift = onnx_op2(n, OP_sub, int_scalar(n, d->digits - 1), d->exponent);
    const NodeId scaled = times_power(n, size, shift);
    double *step = ARENA_ARRAY(n->model->arena, double, d->digits);
    for (uint32_t i = 0; i < d->digits; i++)
        step[i] = strtod(arena_printf(n->model->arena, "1e%u", d->digits - 1 - i), NULL);
    const Shape s = {.rank = 1, .dim = {d->digits}};
    const NodeId steps = onnx_const(n, DTYPE_f64, &s, step, d->digits * sizeof *step);
    const NodeId candidates =
        onnx_op2(n, OP_mul, onnx_op1(n, OP_round, onnx_op2(n, OP_div, scaled, steps)), steps);
    const NodeId back = times_power(n, candidates, onnx_op1(n, OP_neg, shift));
    const NodeId same = onnx_op2(n, OP_eq, onnx_cast(n, back, t), onnx_op1(n, OP_abs, x));
    const NodeId index = onnx_iota(n, d->digits);
    const NodeId best =
        onnx_reduce(n, OP_reduce_min, pick(n, same, index, int_scalar(n, d->digits - 1)), &last, 1);
    const NodeId is_best = onnx_op2(n, OP_eq, index, best);
    const NodeId chosen =
        onnx_reduce(n, OP_reduce_sum, pick(n, is_best, candidates, onnx_scalar(n, DTYPE_f64, 0)), &last, 1);
    d->mantissa = onnx_cast(n, chosen, DTYPE_u64);
    // Rounding up may have made one digit more.
    const NodeId limit =
        onnx_scalar(n, DTYPE_f64, strtod(arena_printf(n->model->arena, "1e%u", d->digits), NULL));
    const NodeId is_over = onnx_op2(n, OP_ge, chosen, limit);
    d->mantissa =
        pick(n, is_over, onnx_op2(n, OP_div, d->mantissa, onnx_scalar(n, DTYPE_u64, 10)), d->mantissa);
    d->exponent = onnx_op2(n, OP_add, d->exponent, onnx_cast(n, is_over, DTYPE_i64));
}

// The digit of the mantissa with number i, counted from the first.
static NodeId mantissa_digit(OnnxNode *n, const Decimal *d, NodeId i)
{
    return digit(n, d->mantissa, onnx_op2(n, OP_sub, int_scalar(n, d->digits - 1), i), d->digits);
}

static NodeId count_digits(OnnxNode *n, const Decimal *d)
{
    const NodeId i = onnx_iota(n, d->digits), v = mantissa_digit(n, d, i);
    const int64_t last = (int64_t)onnx_shape(n, v)->rank - 1;
    const NodeId end = pick(n, onnx_op2(n, OP_ne, v, byte(n, '0')), onnx_op2(n, OP_add, i, int_scalar(n, 1)),
                            int_scalar(n, 1));
    return onnx_reduce(n, OP_reduce_max, end, &last, 1);
}

// Byte i of "12.5", "0.001" or "300.0".
static NodeId plain(OnnxNode *n, const Decimal *d, NodeId i)
{
    const NodeId one = int_scalar(n, 1), zero = int_scalar(n, 0);
    const NodeId whole = onnx_op2(n, OP_add, onnx_op2(n, OP_max, d->exponent, zero), one);
    const NodeId rest = onnx_op2(n, OP_sub, onnx_op2(n, OP_sub, d->count, one), d->exponent);
    const NodeId length =
        onnx_op2(n, OP_add, onnx_op2(n, OP_add, whole, one), onnx_op2(n, OP_max, rest, one));
    const NodeId is_whole = onnx_op2(n, OP_lt, i, whole);
    // The power of ten at a byte, and so the digit.
    const NodeId power = pick(n, is_whole, onnx_op2(n, OP_sub, onnx_op2(n, OP_sub, whole, one), i),
                              onnx_op2(n, OP_sub, whole, i));
    NodeId out = mantissa_digit(n, d, onnx_op2(n, OP_sub, d->exponent, power));
    out = pick(n, onnx_op2(n, OP_eq, i, whole), byte(n, '.'), out);
    return pick(n, onnx_op2(n, OP_lt, i, length), out, zero);
}

// Byte i of "1e-05" or "2.5e+20".
static NodeId scientific(OnnxNode *n, const Decimal *d, NodeId i)
{
    const NodeId one = int_scalar(n, 1), zero = int_scalar(n, 0);
    const NodeId is_single = onnx_op2(n, OP_eq, d->count, one);
    const NodeId end = pick(n, is_single, one, onnx_op2(n, OP_add, d->count, one)); // of the mantissa
    const NodeId size = onnx_cast(n, onnx_op1(n, OP_abs, d->exponent), DTYPE_u64);
    const NodeId width = onnx_op2(n, OP_max, digit_count(n, size, 4), int_scalar(n, 2));
    const NodeId at = onnx_op2(n, OP_sub, i, end); // in the exponent: 0 is the e, 1 the sign
    const NodeId sign = pick(n, onnx_op2(n, OP_lt, d->exponent, zero), byte(n, '-'), byte(n, '+'));
    NodeId out = digit(n, size, onnx_op2(n, OP_sub, onnx_op2(n, OP_add, width, one), at), 4);
    out = pick(n, onnx_op2(n, OP_lt, at, onnx_op2(n, OP_add, width, int_scalar(n, 2))), out, zero);
    out = pick(n, onnx_op2(n, OP_eq, at, one), sign, out);
    out = pick(n, onnx_op2(n, OP_eq, at, zero), byte(n, 'e'), out);
    NodeId digits = mantissa_digit(n, d, onnx_op2(n, OP_max, onnx_op2(n, OP_sub, i, one), zero));
    digits = pick(n, onnx_op2(n, OP_eq, i, one), byte(n, '.'), digits);
    return pick(n, onnx_op2(n, OP_lt, i, end), digits, out);
}

// Text of `word` for the values where `cond` holds.
static NodeId put_word(OnnxNode *n, NodeId cond, const char *word, NodeId i, NodeId out)
{
    NodeId text = int_scalar(n, 0);
    for (uint32_t k = 0; word[k]; k++)
        text = pick(n, onnx_op2(n, OP_eq, i, int_scalar(n, k)), byte(n, word[k]), text);
    return pick(n, cond, text, out);
}

static NodeId format_float(OnnxNode *n, NodeId given)
{
    const DType t = onnx_dtype(n, given);
    const NodeId x = add_axis(n, given), wide = onnx_cast(n, x, DTYPE_f64);
    const NodeId zero = onnx_scalar(n, DTYPE_f64, 0), one = onnx_scalar(n, DTYPE_f64, 1);
    const NodeId size = onnx_op1(n, OP_abs, wide);
    const NodeId is_zero = onnx_op2(n, OP_eq, size, zero);
    const NodeId is_odd =
        onnx_op2(n, OP_logical_or, onnx_op1(n, OP_is_nan, wide), onnx_op1(n, OP_is_inf, wide));
    // What has no digits is computed as 1.
    const NodeId is_special = onnx_op2(n, OP_logical_or, is_zero, is_odd);
    const NodeId usual = pick(n, is_special, one, size);
    Decimal d = {.digits = t == DTYPE_f64 ? MAX_DIGITS : 9};
    // -0.0 too.
    d.is_negative = onnx_op2(n, OP_lt, pick(n, is_zero, onnx_op1(n, OP_reciprocal, wide), wide), zero);
    d.exponent = first_power(n, usual);
    shortest(n, usual, pick(n, is_special, onnx_scalar(n, t, 1), x), &d);
    d.mantissa = pick(n, is_zero, onnx_scalar(n, DTYPE_u64, 0), d.mantissa);
    d.count = count_digits(n, &d);
    const NodeId i = onnx_op2(n, OP_sub, onnx_iota(n, FLOAT_ROOM), onnx_cast(n, d.is_negative, DTYPE_i64));
    const NodeId is_plain = onnx_op2(n, OP_logical_and, onnx_op2(n, OP_ge, d.exponent, int_scalar(n, -4)),
                                     onnx_op2(n, OP_lt, d.exponent, int_scalar(n, 16)));
    NodeId out = pick(n, is_plain, plain(n, &d, i), scientific(n, &d, i));
    out = put_word(n, onnx_op1(n, OP_is_inf, wide), "INF", i, out);
    out = pick(n, onnx_op2(n, OP_lt, i, int_scalar(n, 0)), byte(n, '-'), out);
    out = put_word(n, onnx_op1(n, OP_is_nan, wide), "NaN", onnx_iota(n, FLOAT_ROOM), out);
    return onnx_cast(n, out, DTYPE_u8);
}

// --- bool ---

static NodeId format_bool(OnnxNode *n, NodeId x)
{
    const NodeId i = onnx_iota(n, 5), v = add_axis(n, x);
    const NodeId no = put_word(n, onnx_op1(n, OP_logical_not, v), "False", i, int_scalar(n, 0));
    return onnx_cast(n, put_word(n, v, "True", i, no), DTYPE_u8);
}

NodeId onnx_text_of_numbers(OnnxNode *n, NodeId x)
{
    const DTypeClass c = dtype_info[onnx_dtype(n, x)].cls;
    if (!n->failed && onnx_shape(n, x)->rank >= SHAPE_MAX_RANK)
        onnx_fail(n, E0206, "strings of rank %u are not supported", onnx_shape(n, x)->rank);
    if (n->failed)
        return 0;
    return c == DCLASS_FLOAT ? format_float(n, x) : c == DCLASS_BOOL ? format_bool(n, x) : format_int(n, x);
}
