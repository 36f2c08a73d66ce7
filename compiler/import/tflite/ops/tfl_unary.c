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

static NodeId plain(TflNode *n, NodeId x)
{
    return tfl_op1(n, n->op->op, x);
}

void tfl_import_unary(TflNode *n)
{
    through(n, plain, (TflCurve){value_of_op, round});
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

static double limited(TflNode *n, double x)
{
    const uint32_t i = limit_of(n);
    return fmin(fmax(x, limits[i].lo), limits[i].hi);
}

static NodeId limit(TflNode *n, NodeId x)
{
    const uint32_t i = limit_of(n);
    return n->op->op != OP_none ? plain(n, x) : tfl_clamp(n, x, limits[i].lo, limits[i].hi);
}

void tfl_import_limit(TflNode *n)
{
    through(n, limit, (TflCurve){limited, round});
}

static NodeId elu(TflNode *n, NodeId x)
{
    return tfl_op_number(n, OP_elu, x, 1);
}

static double elu_value(TflNode *n, double x)
{
    (void)n;
    return x < 0 ? expm1(x) : x;
}

void tfl_import_elu(TflNode *n)
{
    through(n, elu, (TflCurve){elu_value, rint});
}

static NodeId leaky(TflNode *n, NodeId x)
{
    return tfl_op_number(n, OP_leaky_relu, x, tfl_option_f32(n, 0, 0));
}

// XNNPACK: a factor in 1/256 for each side, halves up.
static int64_t leaky_value(const TflQuant *in, const TflQuant *out, int64_t x, double slope)
{
    const float scale = (float)in->scale / (float)out->scale;
    const int64_t m = lrintf(256 * (x < 0 ? scale * (float)slope : scale));
    return (x * m + 128) >> 8;
}

// The built-in kernel, for 16 bits.
static NodeId leaky_wide(TflNode *n, NodeId x, double slope)
{
    const TflQuant in = tfl_quant(n, tfl_in(n, 0)), out = tfl_quant(n, tfl_of_out(n, 0));
    const NodeId v = tfl_op_number(n, OP_sub, tfl_cast(n, x, DTYPE_i32), (double)in.zero);
    const NodeId rises = tfl_scaled(n, v, tfl_factor(in.scale / out.scale));
    const NodeId falls = tfl_scaled(n, v, tfl_factor(in.scale * slope / out.scale));
    const NodeId is_below = tfl_op2(n, OP_lt, v, tfl_number(n, DTYPE_i32, 0));
    return tfl_finish(n, tfl_op3(n, OP_where, is_below, falls, rises), tfl_of_out(n, 0), 0);
}

void tfl_import_leaky_relu(TflNode *n)
{
    const double slope = tfl_option_f32(n, 0, 0);
    const NodeId x = tfl_src(n, 0);
    if (!tfl_is_quantised(tfl_in(n, 0)))
        tfl_out(n, 0, leaky(n, x));
    else
        tfl_out(n, 0,
                dtype_info[tfl_in(n, 0)->dtype].bits == 8 ? tfl_integer_table(n, x, leaky_value, slope)
                                                          : leaky_wide(n, x, slope));
}

// Integers are negated as they are, whatever their scale.
void tfl_import_neg(TflNode *n)
{
    tfl_out(n, 0, tfl_op1(n, OP_neg, tfl_src(n, 0)));
}

void tfl_import_sqrt(TflNode *n)
{
    through(n, plain, (TflCurve){value_of_op, trunc});
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

static int32_t halved(int32_t x, int by)
{
    const int32_t mask = (int32_t)((INT64_C(1) << by) - 1);
    return (x >> by) + ((x & mask) > (mask >> 1) + (x < 0));
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

static double gelu_value(TflNode *n, double x)
{
    return eval_ew_f64(gelu_op(n), x, 0, 0);
}

void tfl_import_gelu(TflNode *n)
{
    tfl_option(n, 0, FLAT_U8, 0);
    through(n, gelu, (TflCurve){gelu_value, round});
}
