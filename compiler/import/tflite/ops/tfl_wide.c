// SPDX-License-Identifier: Apache-2.0
// Curves of 16-bit values: LOGISTIC, TANH and the parts of SOFTMAX, by tables with straight lines between
// their entries, as the integer kernels of TensorFlow Lite (and of its version for microcontrollers) have
// them.
#include "compiler/import/tflite/tfl_import.h"

#include <math.h>

// --- LOGISTIC and TANH: both read one table of the sigmoid, in steps of 1/24 ---

// SLOPE: bits of an entry that have what the next one is more.
enum { SIGMOIDS = 256, SLOPE = 10 };

// Each entry with its slope, so that a run looks up one number. The last one is what values beyond have.
static NodeId sigmoids(TflNode *n, int32_t end)
{
    // Where the table of TensorFlow Lite is one above the rounded value, as its results show.
    static const uint8_t above[] = {4,  8,  12, 14, 15, 16, 17, 19, 20,  21,  22,  25,  27,  28, 29,
                                    30, 31, 33, 34, 35, 37, 39, 40, 41,  43,  44,  45,  46,  49, 50,
                                    54, 62, 63, 64, 66, 82, 86, 93, 100, 103, 112, 116, 135, 255};
    const int64_t count = SIGMOIDS;
    int32_t v[SIGMOIDS];
    for (int i = 0; i < SIGMOIDS; i++)
        v[i] = (int32_t)floor(65536 / (1 + exp(-i / 24.0)) + 0.5);
    for (size_t i = 0; i < sizeof above; i++)
        v[above[i]]++;
    Tensor t = tensor_new(n->model->arena, DTYPE_i32, 1, &count);
    for (int i = 0; i < SIGMOIDS; i++)
        ((int32_t *)t.data)[i] = i + 1 < SIGMOIDS ? v[i] << SLOPE | (v[i + 1] - v[i]) : end << SLOPE;
    const Shape s = shape_of(1, &count);
    return tfl_const(n, DTYPE_i32, &s, t.data);
}

// The operand in steps of 1/24/2^9.
static NodeId in_steps(TflNode *n, NodeId x, double scale)
{
    double real = scale * 4096 * 3;
    int shift = 0;
    while (real <= 32767.0 / 2 && shift <= 30) {
        shift++;
        real *= 2;
    }
    if (!(real < 65536))
        return tfl_fail(n, E0206, "a scale of %g is not supported", scale);
    NodeId y = tfl_op_number(n, OP_mul, tfl_cast(n, x, DTYPE_i32), trunc(real));
    if (shift > 0)
        y = tfl_op_number(n, OP_add, y, ldexp(1, shift - 1));
    return tfl_op_number(n, OP_shift_right, y, shift);
}

NodeId tfl_squash_wide(TflNode *n, NodeId x, double scale, bool is_tanh)
{
    const int bits = is_tanh ? 8 : 9; // of an entry; tanh(x) is 2 * sigmoid(2 * x) - 1
    const NodeId d = in_steps(n, x, scale);
    const NodeId size = tfl_op_number(n, OP_min, tfl_op1(n, OP_abs, d), (SIGMOIDS - 1) << bits);
    const NodeId table = sigmoids(n, is_tanh ? 0xffff : 0xfffe);
    const NodeId entry = tfl_gather(n, table, tfl_op_number(n, OP_shift_right, size, bits), 0);
    const NodeId part = tfl_op_number(n, OP_bit_and, size, (1 << bits) - 1);
    const NodeId slope = tfl_op_number(n, OP_bit_and, entry, (1 << SLOPE) - 1);
    const NodeId from = tfl_op_number(n, OP_shift_right, entry, SLOPE);
    const NodeId y =
        tfl_op2(n, OP_add, tfl_op_number(n, OP_shift_left, from, bits), tfl_op2(n, OP_mul, part, slope));
    const double up = is_tanh ? (1 << 7) - (1 << 23) : 1 << 9;
    const double down = is_tanh ? (1 << 23) + (1 << 7) - 1 : (1 << 25) + (1 << 9) - 1;
    const NodeId rises = tfl_op_number(n, OP_add, y, up);
    const NodeId falls = tfl_op_number(n, OP_add, tfl_op1(n, OP_neg, y), down);
    const NodeId is_below = tfl_op2(n, OP_lt, d, tfl_number(n, DTYPE_i32, 0));
    return tfl_cast(
        n, tfl_op_number(n, OP_shift_right, tfl_op3(n, OP_where, is_below, falls, rises), is_tanh ? 8 : 10),
        DTYPE_i16);
}

void tfl_import_squash(TflNode *n)
{
    const TflTensor *t = tfl_in(n, 0);
    if (!tfl_is_quantised(t) || dtype_info[t->dtype].bits == 8) {
        tfl_squash_bytes(n);
        return;
    }
    const TflQuant in = tfl_quant(n, t), out = tfl_quant(n, tfl_of_out(n, 0));
    if (in.zero != 0 || out.zero != 0 || fabs(out.scale - 1.0 / 32768) > 1e-9)
        tfl_fail(n, E0206, "expected 16-bit values without zero points, and a result of the scale 1/32768");
    tfl_out(n, 0, tfl_squash_wide(n, tfl_src(n, 0), in.scale, n->op->op == OP_tanh));
}

// --- SOFTMAX ---

enum { LINES = 512 };

// A curve over the 16-bit numbers of a scale and a zero point, with values in (-1, 1), at 512 places and one
// behind them. Each is moved by half of what its line misses in the middle.
static NodeId curve(TflNode *n, double (*value)(double), double scale, int32_t zero)
{
    const int64_t count = LINES + 1;
    const double lo = scale * (INT16_MIN - zero), hi = scale * (INT16_MAX - zero);
    const double step = (hi - lo) / LINES, unit = 2.0 / UINT16_MAX;
    const double up = 65536.0 / (unit * INT16_MAX - unit * INT16_MIN);
    Tensor t = tensor_new(n->model->arena, DTYPE_i32, 1, &count);
    for (int i = 0; i <= LINES; i++) {
        const double here = round(value(i < LINES ? lo + i * step : hi) * up);
        const double middle = round(value(lo + i * step + step / 2) * up);
        const double between = round((value(lo + (i + 1) * step) * up + here) / 2);
        const double y = i < LINES ? here - round((between - middle) / 2) : here;
        ((int32_t *)t.data)[i] = (int32_t)fmax(fmin(y, INT16_MAX), INT16_MIN);
    }
    const Shape s = shape_of(1, &count);
    return tfl_const(n, DTYPE_i32, &s, t.data);
}

// x in [-32768, 32767] lies over the whole curve.
static NodeId on_curve(TflNode *n, NodeId table, NodeId x)
{
    const NodeId at = tfl_op_number(n, OP_add, tfl_op_number(n, OP_shift_right, x, 7), LINES / 2);
    const NodeId a = tfl_gather(n, table, at, 0),
                 b = tfl_gather(n, table, tfl_op_number(n, OP_add, at, 1), 0);
    const NodeId rise = tfl_op2(n, OP_mul, tfl_op2(n, OP_sub, b, a), tfl_op_number(n, OP_bit_and, x, 127));
    return tfl_op2(n, OP_add, a, tfl_op_number(n, OP_shift_right, tfl_op_number(n, OP_add, rise, 64), 7));
}

static double reciprocal(double x)
{
    return 1 / (1 + x);
}

// How many bits of an i32 above 0 come before its first one, less the sign.
static NodeId headroom(TflNode *n, NodeId x)
{
    NodeId bits = tfl_op_number(n, OP_add, tfl_op_number(n, OP_mul, x, 0), 30);
    for (int i = 1; i < 31; i++)
        bits = tfl_op2(n, OP_sub, bits,
                       tfl_cast(n, tfl_op2(n, OP_ge, x, tfl_number(n, DTYPE_i32, ldexp(1, i))), DTYPE_i32));
    return bits;
}

NodeId tfl_softmax_wide(TflNode *n, NodeId x, double beta)
{
    const int64_t last = (int64_t)tfl_rank(n, x) - 1;
    const float scale = (float)tfl_quant(n, tfl_in(n, 0)).scale * (float)beta;
    const TflFactor f = tfl_factor((double)scale / (10.0 / UINT16_MAX));
    if (tfl_size(n, x, (uint32_t)last) > 1 << 15)
        return tfl_fail(n, E0206, "more than 32768 elements are not supported");
    const NodeId most = tfl_cast(n, tfl_reduce(n, OP_reduce_max, x, &last, 1, true), DTYPE_i32);
    NodeId below = tfl_scaled(n, tfl_op2(n, OP_sub, tfl_cast(n, x, DTYPE_i32), most), f);
    below = tfl_clamp(n, tfl_op_number(n, OP_add, below, 32767), -32768, 32767);
    const NodeId e = on_curve(n, curve(n, exp, 10.0 / UINT16_MAX, INT16_MAX), below);
    const NodeId sum = tfl_reduce(n, OP_reduce_sum, e, &last, 1, true);
    const NodeId room = headroom(n, sum);
    NodeId part = tfl_op2(n, OP_shift_left, tfl_cast(n, sum, DTYPE_i64), tfl_cast(n, room, DTYPE_i64));
    part = tfl_op_number(n, OP_shift_right, tfl_op_number(n, OP_add, part, 1 << 13), 14);
    part = tfl_cast(n, tfl_op_number(n, OP_sub, part, (1 << 15) + (1 << 16)), DTYPE_i32);
    const NodeId inverse = curve(n, reciprocal, 1.0 / UINT16_MAX, INT16_MIN);
    const NodeId by = on_curve(n, inverse, tfl_clamp(n, part, -32768, 32767));
    const NodeId shift = tfl_op2(n, OP_sub, tfl_number(n, DTYPE_i32, 30), room);
    const NodeId half =
        tfl_op2(n, OP_shift_left, tfl_number(n, DTYPE_i32, 1), tfl_op_number(n, OP_sub, shift, 1));
    const NodeId y = tfl_op2(n, OP_shift_right, tfl_op2(n, OP_add, tfl_op2(n, OP_mul, e, by), half), shift);
    return tfl_cast(n, tfl_clamp(n, y, 0, 32767), DTYPE_i16);
}
