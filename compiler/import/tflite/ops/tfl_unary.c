// SPDX-License-Identifier: Apache-2.0
// Elementwise operators of one operand. Quantised ones of 8 bits are tables of 256 results, which are
// computed here as the kernel of TensorFlow Lite would: a run only looks them up.
#include "compiler/import/tflite/tfl_import.h"
#include "ir/eval/eval.h"

#include <math.h>

static double value_of_op(TflNode *n, double x)
{
    return eval_ew_f64(n->op->op, x, 0, 0);
}

// y = f(x) on reals; quantised values of 8 bits by a table, of 16 bits in f32.
static void through(TflNode *n, NodeId (*floats)(TflNode *, NodeId), TflCurve curve)
{
    const NodeId x = tfl_src(n, 0);
    const TflTensor *from = tfl_in(n, 0), *to = tfl_of_out(n, 0);
    if (n->failed)
        return;
    if (!tfl_is_quantised(from))
        tfl_out(n, 0, floats(n, x));
    else if (dtype_info[from->dtype].bits == 8)
        tfl_out(n, 0, tfl_table(n, x, from, to, curve));
    else
        tfl_out(n, 0, tfl_quantise(n, floats(n, tfl_dequantise(n, x, from)), to));
}

// The same by the integers of the built-in kernels: a table of 8 bits, `wide` for 16.
static void through_integers(TflNode *n, NodeId (*floats)(TflNode *, NodeId), TflSteps *steps,
                             NodeId (*wide)(TflNode *, NodeId), double option)
{
    const NodeId x = tfl_src(n, 0);
    const TflTensor *from = tfl_in(n, 0);
    if (n->failed)
        return;
    if (!tfl_is_quantised(from))
        tfl_out(n, 0, floats(n, x));
    else
        tfl_out(n, 0,
                dtype_info[from->dtype].bits == 8 ? tfl_integer_table(n, x, steps, option) : wide(n, x));
}

static NodeId plain(TflNode *n, NodeId x)
{
    return tfl_op1(n, n->op->op, x);
}

void tfl_import_unary(TflNode *n)
{
    through(n, plain, (TflCurve){value_of_op, round, false});
}

// XNNPACK adds the zero point before it rounds halves to even.
void tfl_squash_bytes(TflNode *n)
{
    through(n, plain, (TflCurve){value_of_op, rint, true});
}

// Activations that clamp: the real limits of this operator.
static const struct {
    int32_t code;
    double lo, hi;
} limits[] = {{19, 0, INFINITY}, {20, -1, 1}, {21, 0, 6}, {152, 0, 1}};

static uint32_t limit_of(const TflNode *n)
{
    uint32_t i = 0;
    while (limits[i].code != n->op->code)
        i++;
    return i;
}


static NodeId limit(TflNode *n, NodeId x)
{
    const uint32_t i = limit_of(n);
    return n->op->op != OP_none ? plain(n, x) : tfl_clamp(n, x, limits[i].lo, limits[i].hi);
}

// The limits of row i in steps of the result, which are rounded by themselves.
static double in_steps(double limit, const TflQuant *to)
{
    return (double)roundf((float)limit / (float)to->scale);
}

static int64_t limit_value(const TflQuant *in, const TflQuant *out, int64_t x, double row)
{
    const uint32_t i = (uint32_t)row;
    const double y = (double)tfl_rescaled(in, out, x, 0);
    return (int64_t)fmin(fmax(y, in_steps(limits[i].lo, out)), in_steps(limits[i].hi, out));
}

static NodeId rescaled_wide(TflNode *n, NodeId x)
{
    const TflQuant in = tfl_quant(n, tfl_in(n, 0)), out = tfl_quant(n, tfl_of_out(n, 0));
    return tfl_scaled(n, tfl_cast(n, x, DTYPE_i32), tfl_ratio(&in, &out, 1));
}

static NodeId limit_wide(TflNode *n, NodeId x)
{
    const uint32_t i = limit_of(n);
    const TflQuant q = tfl_quant(n, tfl_of_out(n, 0));
    const double hi = in_steps(limits[i].hi, &q);
    const NodeId y = tfl_clamp(n, rescaled_wide(n, x), in_steps(limits[i].lo, &q), fmin(hi, INT16_MAX));
    return tfl_finish(n, y, tfl_of_out(n, 0), 0);
}

void tfl_import_limit(TflNode *n)
{
    through_integers(n, limit, limit_value, limit_wide, limit_of(n));
}

static int64_t abs_value(const TflQuant *in, const TflQuant *out, int64_t x, double option)
{
    return tfl_rescaled(in, out, x < 0 ? -x : x, option);
}

static NodeId abs_wide(TflNode *n, NodeId x)
{
    const NodeId y = rescaled_wide(n, tfl_op1(n, OP_abs, tfl_cast(n, x, DTYPE_i32)));
    return tfl_finish(n, y, tfl_of_out(n, 0), 0);
}

void tfl_import_abs(TflNode *n)
{
    through_integers(n, plain, abs_value, abs_wide, 0);
}

static NodeId elu(TflNode *n, NodeId x)
{
    return tfl_op_number(n, OP_elu, x, 1);
}

static double elu_value(TflNode *n, double x)
{
    (void)n;
    return x < 0 ? (double)expm1f((float)x) : x;
}

void tfl_import_elu(TflNode *n)
{
    through(n, elu, (TflCurve){elu_value, rint, true});
}

static NodeId leaky(TflNode *n, NodeId x)
{
    return tfl_op_number(n, OP_leaky_relu, x, tfl_option_f32(n, 0, 0));
}

// The built-in kernels' factor of negative numbers, whose sign is applied last.
static int64_t leaky_value(const TflQuant *in, const TflQuant *out, int64_t x, double slope)
{
    if (x >= 0)
        return tfl_rescaled(in, out, x, 0);
    const int64_t y = tfl_scaled_number((int32_t)x, tfl_ratio(in, out, fabs(slope)));
    return slope < 0 ? -y : y;
}

static NodeId leaky_wide(TflNode *n, NodeId x, double slope)
{
    const TflQuant in = tfl_quant(n, tfl_in(n, 0)), out = tfl_quant(n, tfl_of_out(n, 0));
    const NodeId v = tfl_cast(n, x, DTYPE_i32);
    const NodeId rises = tfl_scaled(n, v, tfl_ratio(&in, &out, 1));
    NodeId falls = tfl_scaled(n, v, tfl_ratio(&in, &out, fabs(slope)));
    falls = slope < 0 ? tfl_op1(n, OP_neg, falls) : falls;
    const NodeId is_below = tfl_op2(n, OP_lt, v, tfl_number(n, DTYPE_i32, 0));
    return tfl_finish(n, tfl_op3(n, OP_where, is_below, falls, rises), tfl_of_out(n, 0), 0);
}

void tfl_import_leaky_relu(TflNode *n)
{
    const double slope = tfl_option_f32(n, 0, 0);
    const NodeId x = tfl_src(n, 0);
    const TflTensor *from = tfl_in(n, 0), *to = tfl_of_out(n, 0);
    if (!tfl_is_quantised(from)) {
        tfl_out(n, 0, leaky(n, x));
    } else if (dtype_info[from->dtype].bits == 8) {
        const TflQuant a = tfl_quant(n, from), b = tfl_quant(n, to);
        const bool is_coarse = !n->model->source->options.rounds_twice && tfl_fits_256ths(&a, &b, slope);
        tfl_out(n, 0, tfl_integer_table(n, x, is_coarse ? tfl_in_256ths : leaky_value, slope));
    } else {
        tfl_out(n, 0, leaky_wide(n, x, slope));
    }
}

// Integers are negated as they are, whatever their scale.
void tfl_import_neg(TflNode *n)
{
    tfl_out(n, 0, tfl_op1(n, OP_neg, tfl_src(n, 0)));
}

void tfl_import_sqrt(TflNode *n)
{
    through(n, plain, (TflCurve){value_of_op, trunc, false});
}

static int32_t halved(int32_t x, int by)
{
    const int32_t mask = (int32_t)((INT64_C(1) << by) - 1);
    return (x >> by) + ((x & mask) > (mask >> 1) + (x < 0));
}

// --- RSQRT of the built-in kernels: steps of Newton with 3 bits before the point, from 1 ---

static int32_t times(int32_t a, int32_t b)
{
    return tfl_scaled_number(a, (TflFactor){.multiplier = b});
}

// Before the point: 3 bits again after a product that has so many.
static int32_t in_three(int32_t x, int has)
{
    const int64_t y = (int64_t)x * (INT64_C(1) << (has - 3));
    return y > INT32_MAX ? INT32_MAX : y < INT32_MIN ? INT32_MIN : (int32_t)y;
}

static TflFactor inverse_root(int32_t x)
{
    enum { THREE_HALVES = (1 << 28) + (1 << 27), HALF_ROOT = 1518500250 };
    if (x <= 1)
        return (TflFactor){.multiplier = INT32_MAX};
    int shift = 11;
    for (; x >= 1 << 29; x /= 4)
        shift++;
    const int pairs = (__builtin_clz((uint32_t)x) - 1) / 2 - 1;
    shift -= pairs;
    x <<= 2 * pairs;
    const int32_t half = halved(x >> 1, 1);
    int32_t y = 1 << 28;
    for (int i = 0; i < 5; i++) {
        const int32_t cube = in_three(times(times(y, y), y), 9);
        y = in_three(times(THREE_HALVES, y) - times(half, cube), 6);
    }
    y = times(y, HALF_ROOT);
    return (TflFactor){.multiplier = shift < 0 ? y << -shift : y, .shift = shift < 0 ? 0 : -shift};
}

static int64_t rsqrt_value(const TflQuant *in, const TflQuant *out, int64_t x, double option)
{
    enum { MORE = 20 };
    (void)option;
    if (x <= 0)
        return INT32_MAX; // the greatest result
    TflFactor root = inverse_root((int32_t)x);
    TflFactor scale = tfl_factor(1.0 / (double)(sqrtf((float)in->scale) * (float)out->scale));
    root.shift += MORE;
    scale.shift -= MORE;
    return tfl_scaled_number(tfl_scaled_number(1, root), scale);
}

static NodeId rsqrt_wide(TflNode *n, NodeId x)
{
    return tfl_quantise(n, plain(n, tfl_dequantise(n, x, tfl_in(n, 0))), tfl_of_out(n, 0));
}

void tfl_import_rsqrt(TflNode *n)
{
    through_integers(n, plain, rsqrt_value, rsqrt_wide, 0);
}

// --- HARD_SWISH of the built-in kernels: 16-bit products ---

static int32_t product16(int32_t a, int32_t b)
{
    const int32_t p = a * b;
    return (p + (p >= 0 ? 1 << 14 : 1 - (1 << 14))) / (1 << 15);
}

static int32_t saturate16(int64_t x)
{
    return x > 32767 ? 32767 : x < -32768 ? -32768 : (int32_t)x;
}

static TflFactor factor16(double real)
{
    TflFactor f = tfl_factor(real);
    f.multiplier = f.multiplier >= INT32_MAX - (1 << 15) ? 32767 : (f.multiplier + (1 << 15)) >> 16;
    return f;
}

static int64_t hard_swish_value(const TflQuant *in, const TflQuant *out, int64_t x, double option)
{
    (void)option;
    const float fine = (float)(1.0 / 128) * (float)in->scale;
    const TflFactor to_out = factor16((double)(fine / (float)out->scale));
    const TflFactor to_gate = factor16((double)(fine / (float)(3.0 / 32768)));
    const int32_t wide = (int32_t)x * 128, y = product16(wide, to_out.multiplier);
    int32_t gate = wide;
    if (to_gate.shift > 0)
        gate = saturate16((int64_t)gate * (INT64_C(1) << (to_gate.shift - 1 < 16 ? to_gate.shift - 1 : 16)));
    gate = product16(gate, to_gate.multiplier);
    if (to_gate.shift > 0)
        gate = saturate16((int64_t)gate * 2);
    if (to_gate.shift < 0)
        gate = halved(gate, -to_gate.shift < 31 ? -to_gate.shift : 31);
    gate = (gate + (1 << 15)) >> 1;
    const int32_t product = saturate16((int64_t)gate * y / (1 << 15));
    const int up = to_out.shift > 0 ? to_out.shift : 0, down = to_out.shift < 0 ? -to_out.shift : 0;
    return up ? saturate16((int64_t)product * (INT64_C(1) << (up < 16 ? up : 16)))
              : halved(product, down < 31 ? down : 31);
}

void tfl_import_hard_swish(TflNode *n)
{
    const TflTensor *t = tfl_in(n, 0);
    if (tfl_is_quantised(t) && dtype_info[t->dtype].bits == 8)
        tfl_out(n, 0, tfl_integer_table(n, tfl_src(n, 0), hard_swish_value, 0));
    else
        tfl_import_unary(n);
}

static OpId gelu_op(TflNode *n)
{
    return tfl_option(n, 0, FLAT_U8, 0) ? OP_gelu_tanh : OP_gelu_erf;
}

static NodeId gelu(TflNode *n, NodeId x)
{
    return tfl_op1(n, gelu_op(n), x);
}

// In f32, as the kernel has it.
static double gelu_value(TflNode *n, double real)
{
    const float x = (float)real, cube = x + 0.044715f * x * x * x;
    if (gelu_op(n) == OP_gelu_tanh)
        return (double)(0.5f * x * (1.0f + tanhf((float)(M_2_SQRTPI * M_SQRT1_2) * cube)));
    return (double)(0.5f * x * erfcf(x * (float)-M_SQRT1_2));
}

void tfl_import_gelu(TflNode *n)
{
    tfl_option(n, 0, FLAT_U8, 0);
    through(n, gelu, (TflCurve){gelu_value, round, false});
}
