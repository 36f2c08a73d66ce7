// SPDX-License-Identifier: Apache-2.0
// Quantised values: their scales, integers to reals and back, and the two ways in which TensorFlow Lite
// rounds. Factors of its first one (XNNPACK's) are f32 and halves go to even; those of the second one
// (gemmlowp's) are 31-bit integers with a power of two, and each of two steps rounds.
#include "compiler/import/tflite/tfl_import.h"

#include <math.h>

bool tfl_is_quantised(const TflTensor *t)
{
    return t->has_dtype && t->scale.n != 0 && dtype_info[t->dtype].cls != DCLASS_FLOAT &&
           dtype_info[t->dtype].bits <= 32 && t->dtype != DTYPE_bool;
}

double tfl_scale_at(const TflTensor *t, uint32_t i)
{
    return flat_list_f32(t->scale, t->scale.n == 1 ? 0 : i);
}

static bool is_positive(double scale)
{
    return scale > 0 && scale < (double)INFINITY;
}

TflQuant tfl_quant(TflNode *n, const TflTensor *t)
{
    const TflQuant none = {.scale = 1};
    if (n->failed)
        return none;
    if (t->scale.n != 1 || t->zero.n > 1) {
        tfl_fail(n, E0206, "tensor '%s' needs one scale and zero point, found %u", t->name, t->scale.n);
        return none;
    }
    const TflQuant q = {tfl_scale_at(t, 0), t->zero.n ? flat_list_int(t->zero, 0, FLAT_I64) : 0};
    const int64_t low = tensor_saturate(t->dtype, -1e30), high = tensor_saturate(t->dtype, 1e30);
    if (!is_positive(q.scale) || q.zero < low || q.zero > high) {
        tfl_fail(n, E0113, "tensor '%s' has the scale %g and the zero point %lld", t->name, q.scale,
                 (long long)q.zero);
        return none;
    }
    return q;
}

bool tfl_same_quant(const TflTensor *a, const TflTensor *b)
{
    const bool has_a = tfl_is_quantised(a), has_b = tfl_is_quantised(b);
    if (!has_a || !has_b)
        return has_a == has_b;
    const int64_t za = a->zero.n ? flat_list_int(a->zero, 0, FLAT_I64) : 0;
    const int64_t zb = b->zero.n ? flat_list_int(b->zero, 0, FLAT_I64) : 0;
    return a->scale.n == 1 && b->scale.n == 1 && za == zb && !(tfl_scale_at(a, 0) < tfl_scale_at(b, 0)) &&
           !(tfl_scale_at(a, 0) > tfl_scale_at(b, 0));
}

void tfl_same_scale(TflNode *n, uint32_t i)
{
    if (tfl_is_quantised(tfl_of_out(n, 0)) && !tfl_same_quant(tfl_in(n, i), tfl_of_out(n, 0)))
        tfl_fail(n, E0206, "operand %u and the result must have the same scale and zero point", i);
}

// --- to and from reals ---

// The scales (or zero points, as i32) of a tensor in a shape that broadcasts to it.
static NodeId along(TflNode *n, const TflTensor *t, bool wants_zero)
{
    const FlatList l = wants_zero ? t->zero : t->scale;
    Shape s = {0};
    if (n->failed || l.n == 0)
        return 0;
    const int64_t count = l.n;
    if (l.n != 1) {
        s.rank = t->shape.rank - t->axis;
        for (uint32_t i = 0; i < s.rank; i++)
            s.dim[i] = i ? 1 : count;
    }
    if (l.n != 1 && (t->axis >= t->shape.rank || t->shape.dim[t->axis] != count))
        return tfl_fail(n, E0113, "tensor '%s' has %u scales or zero points for axis %u", t->name, l.n,
                        t->axis);
    Tensor v = tensor_new(n->model->arena, wants_zero ? DTYPE_i32 : DTYPE_f32, s.rank, s.dim);
    bool is_zero = true;
    for (uint32_t i = 0; i < l.n; i++) {
        const int64_t zero = wants_zero ? flat_list_int(l, i, FLAT_I64) : 1;
        is_zero = is_zero && zero == 0;
        if (wants_zero)
            tensor_set_i64(&v, i, zero);
        else
            tensor_set_f64(&v, i, flat_list_f32(l, i));
    }
    return is_zero ? 0 : tfl_const(n, v.dtype, &s, v.data);
}

NodeId tfl_dequantise(TflNode *n, NodeId x, const TflTensor *t)
{
    if (t->scale.n == 0)
        return tfl_fail(n, E0113, "tensor '%s' has no scale", t->name);
    const NodeId zero = along(n, t, true), scale = along(n, t, false);
    NodeId y = tfl_cast(n, x, DTYPE_i32);
    y = zero ? tfl_op2(n, OP_sub, y, zero) : y;
    return tfl_op2(n, OP_mul, tfl_cast(n, y, DTYPE_f32), scale);
}

NodeId tfl_quantise(TflNode *n, NodeId x, const TflTensor *t)
{
    const TflQuant q = tfl_quant(n, t);
    return tfl_from_steps(n, tfl_op2(n, OP_div, x, tfl_number(n, DTYPE_f32, q.scale)), t, 0);
}

TflRange tfl_range(TflNode *n, const TflTensor *t, int64_t activation)
{
    static const struct {
        double lo, hi;
    } limits[] = {{-INFINITY, INFINITY}, {0, INFINITY}, {-1, 1}, {0, 6}};
    TflRange r = {tensor_saturate(t->dtype, -1e30), tensor_saturate(t->dtype, 1e30)};
    if (t->type == TFL_I4)
        r = (TflRange){-8, 7};
    if (activation < 0 || (size_t)activation >= sizeof limits / sizeof *limits) {
        tfl_fail(n, E0206, "the activation %lld is not supported", (long long)activation);
        return r;
    }
    if (activation == 0)
        return r;
    const TflQuant q = tfl_quant(n, t);
    const double lo = round(limits[activation].lo / q.scale) + (double)q.zero;
    const double hi = round(limits[activation].hi / q.scale) + (double)q.zero;
    const int64_t least = lo > (double)r.lo ? (int64_t)lo : r.lo,
                  most = hi < (double)r.hi ? (int64_t)hi : r.hi;
    return (TflRange){least < r.hi ? least : r.hi, most > r.lo ? most : r.lo};
}

// The cast saturates: only a narrower range needs a clamp.
NodeId tfl_from_steps(TflNode *n, NodeId x, const TflTensor *t, int64_t activation)
{
    const TflRange full = tfl_range(n, t, 0), r = tfl_range(n, t, activation);
    const TflQuant q = tfl_quant(n, t);
    NodeId y = tfl_op1(n, OP_round, x);
    if (dtype_info[t->dtype].bits > 16)
        return tfl_fail(n, E0206, "a quantised result of type %s is not supported", tfl_type_name(t->type));
    if (q.zero != 0)
        y = tfl_op_number(n, OP_add, y, (double)q.zero);
    if (r.lo != full.lo || r.hi != full.hi || t->type == TFL_I4)
        y = tfl_clamp(n, y, (double)r.lo, (double)r.hi);
    return tfl_cast(n, y, t->dtype);
}

NodeId tfl_saturate(TflNode *n, NodeId x, const TflTensor *t, int64_t activation)
{
    const TflRange r = tfl_range(n, t, activation);
    return tfl_cast(n, tfl_clamp(n, x, (double)r.lo, (double)r.hi), t->dtype);
}

NodeId tfl_finish(TflNode *n, NodeId x, const TflTensor *t, int64_t activation)
{
    const TflQuant q = tfl_quant(n, t);
    if (q.zero != 0)
        x = tfl_op_number(n, OP_add, x, (double)q.zero);
    return tfl_saturate(n, x, t, activation);
}

NodeId tfl_activate(TflNode *n, NodeId x, int64_t activation)
{
    static const OpId ops[] = {OP_none, OP_relu, OP_none, OP_relu6};
    if (activation == 2)
        return tfl_clamp(n, x, -1, 1);
    if (activation == 4)
        return tfl_op1(n, OP_tanh, x);
    if (activation < 0 || activation > 3)
        return tfl_fail(n, E0206, "the activation %lld is not supported", (long long)activation);
    return activation == 0 ? x : tfl_op1(n, ops[activation], x);
}

// --- factors of integers ---

TflFactor tfl_factor(double real)
{
    TflFactor f = {0};
    if (!(real > 0) || !(real < 2147483648.0))
        return f;
    int64_t q = (int64_t)round(frexp(real, &f.shift) * 2147483648.0);
    if (q == INT64_C(1) << 31) {
        q /= 2;
        f.shift++;
    }
    f.multiplier = (int32_t)q;
    return f.shift < -31 ? (TflFactor){0} : f;
}

// (2 * x * multiplier + half) >> 32, as gemmlowp: a negative product rounds its halves up as well.
static int32_t high_product(int32_t a, int32_t b)
{
    const int64_t p = (int64_t)a * b;
    return (int32_t)((p + (p >= 0 ? INT64_C(1) << 30 : 1 - (INT64_C(1) << 30))) / (INT64_C(1) << 31));
}

int32_t tfl_scaled_number(int32_t x, TflFactor f)
{
    const int left = f.shift > 0 ? f.shift : 0, right = f.shift > 0 ? 0 : -f.shift;
    const int32_t h = high_product((int32_t)((uint32_t)x << left), f.multiplier);
    const int32_t mask = (int32_t)((INT64_C(1) << right) - 1), rest = h & mask;
    return (h >> right) + (rest > (mask >> 1) + (h < 0 && !f.is_upward));
}

// One of the numbers that a factor consists of, for all factors.
typedef enum Part { PART_MULTIPLIER, PART_LEFT, PART_RIGHT, PART_HALF, PART_MORE } Part;

static int64_t part_of(TflFactor f, Part part)
{
    const int left = f.shift > 0 ? f.shift : 0, right = f.shift > 0 ? 0 : -f.shift;
    const int64_t v[] = {[PART_MULTIPLIER] = f.multiplier,
                         [PART_LEFT] = left,
                         [PART_RIGHT] = right,
                         [PART_HALF] = right ? INT64_C(1) << (right - 1) : 0,
                         [PART_MORE] = right != 0 && !f.is_upward};
    return v[part];
}

// 0: all of them are 0.
static NodeId parts(TflNode *n, DType type, Part part, const TflFactor *f, const Shape *s)
{
    Tensor t = tensor_new(n->model->arena, type, s->rank, s->dim);
    bool is_zero = true;
    for (int64_t i = 0; i < t.numel; i++) {
        tensor_set_i64(&t, i, part_of(f[i], part));
        is_zero = is_zero && part_of(f[i], part) == 0;
    }
    return is_zero && part != PART_MULTIPLIER ? 0 : tfl_const(n, type, s, t.data);
}

// All in i64: the shifted operand first wraps to i32, as there. The high product rounds halves up.
NodeId tfl_scaled_by(TflNode *n, NodeId x, const TflFactor *f, const Shape *s)
{
    enum { BITS = 31 };
    if (n->failed)
        return 0;
    const NodeId left = parts(n, DTYPE_i32, PART_LEFT, f, s), right = parts(n, DTYPE_i64, PART_RIGHT, f, s);
    NodeId wide = tfl_cast(n, x, DTYPE_i32);
    if (left)
        wide = tfl_op2(n, OP_shift_left, wide, left);
    wide = tfl_op2(n, OP_mul, tfl_cast(n, wide, DTYPE_i64), parts(n, DTYPE_i64, PART_MULTIPLIER, f, s));
    const NodeId h =
        tfl_op_number(n, OP_shift_right, tfl_op_number(n, OP_add, wide, 1 << (BITS - 1)), BITS);
    if (!right)
        return tfl_cast(n, h, DTYPE_i32);
    NodeId y = tfl_op2(n, OP_add, h, parts(n, DTYPE_i64, PART_HALF, f, s));
    const NodeId more = parts(n, DTYPE_i64, PART_MORE, f, s);
    if (more) { // halves away from zero: the half is one less for negative numbers
        const NodeId is_negative = tfl_op2(n, OP_lt, h, tfl_number(n, DTYPE_i64, 0));
        const NodeId less = tfl_cast(n, is_negative, DTYPE_i64);
        y = tfl_op2(n, OP_sub, y, s->rank != 0 ? tfl_op2(n, OP_mul, less, more) : less);
    }
    return tfl_cast(n, tfl_op2(n, OP_shift_right, y, right), DTYPE_i32);
}

NodeId tfl_scaled(TflNode *n, NodeId x, TflFactor f)
{
    return tfl_scaled_by(n, x, &f, &(Shape){0});
}

// --- tables ---

// gather counts negative indices from the back, so the results for -128 to -1 stand behind those for 0 to
// 127.
static int64_t entry(DType t, int64_t i)
{
    return t == DTYPE_i8 && i > 127 ? i - 256 : i;
}

static NodeId look_up(TflNode *n, NodeId x, const TflTensor *to, const Tensor *t)
{
    const Shape s = shape_of(1, t->dim);
    return tfl_gather(n, tfl_const(n, to->dtype, &s, t->data), x, 0);
}

static int64_t limited(const TflRange *r, double y)
{
    return y < (double)r->lo ? r->lo : y > (double)r->hi ? r->hi : (int64_t)y;
}

NodeId tfl_table(TflNode *n, NodeId x, const TflTensor *from, const TflTensor *to, TflCurve curve)
{
    const TflQuant in = tfl_quant(n, from), out = tfl_quant(n, to);
    const int64_t count = 256;
    if (n->failed)
        return 0;
    rlx_assert(dtype_info[from->dtype].bits == 8);
    const float inverse = 1.0f / (float)out.scale;
    const TflRange r = tfl_range(n, to, 0);
    Tensor t = tensor_new(n->model->arena, to->dtype, 1, &count);
    for (int64_t i = 0; i < count; i++) {
        const float real = (float)in.scale * (float)(entry(from->dtype, i) - in.zero);
        const float steps = (float)curve.value(n, (double)real) * inverse;
        const double zero = (double)out.zero;
        const double whole = curve.has_zero ? curve.whole((double)(steps + (float)zero))
                                            : curve.whole((double)steps) + zero;
        const double y = isnan(steps) ? 0 : whole;
        tensor_set_i64(&t, i, limited(&r, y));
    }
    return look_up(n, x, to, &t);
}

TflFactor tfl_ratio(const TflQuant *from, const TflQuant *to, double times)
{
    return tfl_factor((double)((float)from->scale * (float)times / (float)to->scale));
}

int64_t tfl_rescaled(const TflQuant *from, const TflQuant *to, int64_t x, double option)
{
    (void)option;
    return tfl_scaled_number((int32_t)x, tfl_ratio(from, to, 1));
}

static bool fits_256ths(float factor)
{
    return fabsf(factor) >= 1.0f / 256 && factor <= 128 && factor >= -127.99609375f;
}

bool tfl_fits_256ths(const TflQuant *from, const TflQuant *to, double slope)
{
    const float scale = (float)from->scale / (float)to->scale;
    return fits_256ths(scale) && fits_256ths(scale * (float)slope);
}

int64_t tfl_in_256ths(const TflQuant *from, const TflQuant *to, int64_t x, double slope)
{
    const float scale = (float)from->scale / (float)to->scale;
    const int64_t m = lrintf(256 * (x < 0 ? scale * (float)slope : scale));
    return (x * m + 128) >> 8;
}

NodeId tfl_integer_table(TflNode *n, NodeId x, TflSteps *value, double option)
{
    const TflTensor *from = tfl_in(n, 0), *to = tfl_of_out(n, 0);
    const TflQuant in = tfl_quant(n, from), out = tfl_quant(n, to);
    const int64_t count = 256;
    if (n->failed)
        return 0;
    const TflRange r = tfl_range(n, to, 0);
    Tensor t = tensor_new(n->model->arena, to->dtype, 1, &count);
    for (int64_t i = 0; i < count; i++) {
        const int64_t y = value(&in, &out, entry(from->dtype, i) - in.zero, option) + out.zero;
        tensor_set_i64(&t, i, limited(&r, (double)y));
    }
    return look_up(n, x, to, &t);
}
