// SPDX-License-Identifier: Apache-2.0
// Shape arithmetic on symbolic sizes: the operators that exporters put between Shape and the operand that
// wants a shape, computed on dims at import. What has no rule here, or is not certain for all sizes, is
// computed as data instead.
#include "compiler/import/onnx/onnx_import.h"

#include <string.h>

typedef bool (*DimsRule)(OnnxNode *n, OnnxDims *out);
typedef bool (*DimOp)(DimTable *t, DType type, Dim a, Dim b, Dim *out);

static bool is_float(DType t)
{
    return dtype_info[t].cls == DCLASS_FLOAT;
}

// --- on one entry ---

static bool op_add(DimTable *t, DType type, Dim a, Dim b, Dim *out)
{
    (void)type;
    *out = dim_add(t, a, b);
    return true;
}

static bool op_sub(DimTable *t, DType type, Dim a, Dim b, Dim *out)
{
    (void)type;
    *out = dim_sub(t, a, b);
    return true;
}

static bool op_mul(DimTable *t, DType type, Dim a, Dim b, Dim *out)
{
    (void)type;
    *out = dim_mul(t, a, b);
    return true;
}

static bool is_at_least(DimTable *t, Dim d, int64_t min)
{
    int64_t lo = 0, hi = 0;
    dim_range(t, d, &lo, &hi);
    return lo >= min;
}

// Integer division truncates, which is the floor of a quotient that is not negative. Division of floats must
// be exact.
static bool op_div(DimTable *t, DType type, Dim a, Dim b, Dim *out)
{
    if (!is_at_least(t, a, 0) || !is_at_least(t, b, 1) || (is_float(type) && dim_mod(t, a, b) != 0))
        return false;
    *out = dim_floor_div(t, a, b);
    return true;
}

static bool op_mod(DimTable *t, DType type, Dim a, Dim b, Dim *out)
{
    if (is_float(type) || !is_at_least(t, a, 0) || !is_at_least(t, b, 1))
        return false;
    *out = dim_mod(t, a, b);
    return true;
}

static bool op_min(DimTable *t, DType type, Dim a, Dim b, Dim *out)
{
    (void)type;
    *out = is_at_least(t, dim_sub(t, b, a), 0)   ? a
           : is_at_least(t, dim_sub(t, a, b), 0) ? b
                                                 : dim_min(t, a, b);
    return true;
}

static bool op_max(DimTable *t, DType type, Dim a, Dim b, Dim *out)
{
    (void)type;
    *out = is_at_least(t, dim_sub(t, a, b), 0)   ? a
           : is_at_least(t, dim_sub(t, b, a), 0) ? b
                                                 : dim_max(t, a, b);
    return true;
}

// Comparisons that hold, or fail, for all values of the symbols.
static bool op_less(DimTable *t, DType type, Dim a, Dim b, Dim *out)
{
    (void)type;
    *out = is_at_least(t, dim_sub(t, b, a), 1);
    return *out || is_at_least(t, dim_sub(t, a, b), 0);
}

static bool op_greater(DimTable *t, DType type, Dim a, Dim b, Dim *out)
{
    return op_less(t, type, b, a, out);
}

static bool op_less_equal(DimTable *t, DType type, Dim a, Dim b, Dim *out)
{
    Dim greater = 0;
    const bool is_known = op_less(t, type, b, a, &greater);
    *out = !greater;
    return is_known;
}

static bool op_greater_equal(DimTable *t, DType type, Dim a, Dim b, Dim *out)
{
    return op_less_equal(t, type, b, a, out);
}

static bool op_equal(DimTable *t, DType type, Dim a, Dim b, Dim *out)
{
    (void)type;
    *out = a == b && !dim_is_unknown(t, a);
    return *out || is_at_least(t, dim_sub(t, b, a), 1) || is_at_least(t, dim_sub(t, a, b), 1);
}

// --- elementwise ---

static bool broadcast(const OnnxDims *a, const OnnxDims *b, OnnxDims *out)
{
    if (a->n != b->n && a->n != 1 && b->n != 1)
        return false;
    out->dtype = a->dtype;
    out->rank = a->rank > b->rank ? a->rank : b->rank;
    out->n = a->n == 1 ? b->n : a->n;
    return true;
}

static bool combine(OnnxNode *n, DimOp op, OnnxDims *out)
{
    OnnxDims a, b;
    if (n->n_in != 2 || !onnx_peek_dims(n, 0, &a) || !onnx_peek_dims(n, 1, &b) || a.dtype != b.dtype ||
        !broadcast(&a, &b, out))
        return false;
    rlx_assert(out->n <= ONNX_MAX_LIST && out->rank <= 1);
    for (uint32_t i = 0; i < out->n; i++)
        if (!op(n->graph->dims, a.dtype, a.dim[a.n == 1 ? 0 : i], b.dim[b.n == 1 ? 0 : i], &out->dim[i]))
            return false;
    return true;
}

#define COMBINE(name, op)                                                                                    \
    static bool dims_##name(OnnxNode *n, OnnxDims *out)                                                      \
    {                                                                                                        \
        return combine(n, op, out);                                                                          \
    }
#define COMPARE(name, op)                                                                                    \
    static bool dims_##name(OnnxNode *n, OnnxDims *out)                                                      \
    {                                                                                                        \
        const bool ok = combine(n, op, out);                                                                 \
        out->dtype = DTYPE_bool;                                                                             \
        return ok;                                                                                           \
    }
COMBINE(add, op_add)
COMBINE(sub, op_sub)
COMBINE(mul, op_mul)
COMBINE(div, op_div)
COMBINE(max, op_max)
COMPARE(equal, op_equal)
COMPARE(less, op_less)
COMPARE(less_equal, op_less_equal)
COMPARE(greater, op_greater)
COMPARE(greater_equal, op_greater_equal)

// min(150, n) is 150 where the user says that n is at least that.
static bool dims_min(OnnxNode *n, OnnxDims *out)
{
    OnnxDims x[2];
    if (!combine(n, op_min, out) || !onnx_peek_dims(n, 0, &x[0]) || !onnx_peek_dims(n, 1, &x[1]))
        return false;
    for (uint32_t i = 0; i < out->n; i++)
        for (uint32_t k = 0; k < 2; k++) {
            const Dim most = x[k].dim[x[k].n == 1 ? 0 : i], other = x[!k].dim[x[!k].n == 1 ? 0 : i];
            if (dim_is_const(most) && onnx_least(n, other) >= most)
                out->dim[i] = most;
        }
    return true;
}

static bool dims_mod(OnnxNode *n, OnnxDims *out)
{
    return !onnx_flag(n, "fmod", 0) && combine(n, op_mod, out);
}

static bool dims_identity(OnnxNode *n, OnnxDims *out)
{
    return onnx_peek_dims(n, 0, out);
}

static bool dims_neg(OnnxNode *n, OnnxDims *out)
{
    if (!onnx_peek_dims(n, 0, out))
        return false;
    for (uint32_t i = 0; i < out->n; i++)
        out->dim[i] = dim_sub(n->graph->dims, 0, out->dim[i]);
    return true;
}

static bool dims_cast(OnnxNode *n, OnnxDims *out)
{
    out->dtype = DTYPE_bool;
    const DType to = onnx_type_attr(n, "to", DTYPE_bool);
    if (to == DTYPE_bool || dtype_info[to].bytes < 4 || !onnx_peek_dims(n, 0, out))
        return false;
    out->dtype = to;
    onnx_ignore_attr(n, "saturate");
    onnx_ignore_attr(n, "round_mode");
    return true;
}

static bool dims_where(OnnxNode *n, OnnxDims *out)
{
    OnnxDims cond, a, b;
    if (!onnx_peek_dims(n, 0, &cond) || !onnx_peek_dims(n, 1, &a) || !onnx_peek_dims(n, 2, &b) ||
        !broadcast(&a, &b, out) || !broadcast(out, &cond, out))
        return false;
    for (uint32_t i = 0; i < out->n; i++) {
        const Dim c = cond.dim[cond.n == 1 ? 0 : i];
        if (!dim_is_const(c))
            return false;
        out->dim[i] = c ? a.dim[a.n == 1 ? 0 : i] : b.dim[b.n == 1 ? 0 : i];
    }
    return true;
}

// --- moving entries ---

static bool dims_gather(OnnxNode *n, OnnxDims *out)
{
    OnnxDims a, at;
    const int64_t axis = onnx_int(n, "axis", 0);
    if (!onnx_peek_dims(n, 0, &a) || !onnx_peek_dims(n, 1, &at) || a.rank != 1 || (axis != 0 && axis != -1))
        return false;
    *out = (OnnxDims){.dtype = a.dtype, .rank = at.rank, .n = at.n};
    for (uint32_t i = 0; i < at.n; i++) {
        const Dim v = dim_is_const(at.dim[i]) && at.dim[i] < 0 ? at.dim[i] + a.n : at.dim[i];
        if (!dim_is_const(v) || v < 0 || v >= a.n)
            return false;
        out->dim[i] = a.dim[v];
    }
    return true;
}

static bool dims_concat(OnnxNode *n, OnnxDims *out)
{
    *out = (OnnxDims){.rank = 1};
    const int64_t axis = onnx_int(n, "axis", 1);
    for (uint32_t i = 0; i < n->n_in; i++) {
        OnnxDims a;
        if (!onnx_peek_dims(n, i, &a) || a.rank != 1 || a.n > ONNX_MAX_LIST - out->n ||
            (i && a.dtype != out->dtype))
            return false;
        out->dtype = a.dtype;
        memcpy(out->dim + out->n, a.dim, a.n * sizeof *a.dim);
        out->n += a.n;
    }
    rlx_assert(out->n <= ONNX_MAX_LIST);
    return axis == 0 || axis == -1;
}

// A constant number that is operand i, or dflt.
static bool peek_number(OnnxNode *n, uint32_t i, int64_t dflt, int64_t *out)
{
    OnnxDims d;
    *out = dflt;
    if (!onnx_has(n, i))
        return true;
    if (!onnx_peek_dims(n, i, &d) || d.n != 1 || !dim_is_const(d.dim[0]))
        return false;
    *out = d.dim[0];
    return true;
}

static bool dims_slice(OnnxNode *n, OnnxDims *out)
{
    OnnxDims a;
    OnnxInts starts, ends;
    int64_t start = 0, end = 0, axis = 0, step = 1;
    if (!onnx_peek_dims(n, 0, &a) || a.rank != 1)
        return false;
    if (n->opset < 10) {
        if (!onnx_ints(n, "starts", &starts) || !onnx_ints(n, "ends", &ends) || starts.n != 1 || ends.n != 1)
            return false;
        start = starts.v[0];
        end = ends.v[0];
        onnx_ignore_attr(n, "axes"); // there is only one
    } else if (!onnx_has(n, 1) || !onnx_has(n, 2) || !peek_number(n, 1, 0, &start) ||
               !peek_number(n, 2, 0, &end) || !peek_number(n, 3, 0, &axis) || !peek_number(n, 4, 1, &step)) {
        return false;
    }
    const int64_t size = a.n;
    start = start < -size ? 0 : start < 0 ? start + size : start > size ? size : start;
    end = end < -size ? 0 : end < 0 ? end + size : end > size ? size : end;
    rlx_assert(start >= 0 && start <= size && end >= 0 && end <= size);
    *out = (OnnxDims){.dtype = a.dtype, .rank = 1};
    for (int64_t i = start; step >= 1 && i < end; i += step < size ? step : size)
        out->dim[out->n++] = a.dim[i];
    return step >= 1 && (axis == 0 || axis == -1);
}

static bool dims_unsqueeze(OnnxNode *n, OnnxDims *out)
{
    onnx_ignore_attr(n, "axes");
    if (!onnx_peek_dims(n, 0, out) || out->rank != 0)
        return false;
    out->rank = 1;
    return true;
}

static bool dims_squeeze(OnnxNode *n, OnnxDims *out)
{
    onnx_ignore_attr(n, "axes");
    if (!onnx_peek_dims(n, 0, out) || out->rank != 1 || out->n != 1)
        return false;
    out->rank = 0;
    return true;
}

// To a list or a single number of as many entries.
static bool dims_reshape(OnnxNode *n, OnnxDims *out)
{
    OnnxDims shape;
    if (!onnx_peek_dims(n, 0, out) || !onnx_peek_dims(n, 1, &shape) || shape.rank != 1 || shape.n > 1)
        return false;
    onnx_ignore_attr(n, "allowzero");
    out->rank = shape.n;
    return shape.n ? shape.dim[0] == -1 || shape.dim[0] == out->n : out->n == 1;
}

static bool dims_expand(OnnxNode *n, OnnxDims *out)
{
    OnnxDims shape;
    if (!onnx_peek_dims(n, 0, out) || !onnx_peek_dims(n, 1, &shape) || out->n != 1 || shape.n != 1 ||
        !dim_is_const(shape.dim[0]) || shape.dim[0] < 1 || shape.dim[0] > ONNX_MAX_LIST)
        return false;
    out->rank = 1;
    out->n = (uint32_t)shape.dim[0];
    for (uint32_t i = 1; i < out->n; i++)
        out->dim[i] = out->dim[0];
    return true;
}

// --- reductions ---

// first: what an empty list gives.
static bool reduce(OnnxNode *n, DimOp op, Dim first, OnnxDims *out)
{
    OnnxDims a;
    OnnxInts axes;
    if (!onnx_peek_dims(n, 0, &a) || a.rank != 1 || onnx_int(n, "noop_with_empty_axes", 0))
        return false;
    onnx_ints(n, "axes", &axes); // of rank 1 there is only one
    *out = (OnnxDims){.dtype = a.dtype, .rank = onnx_int(n, "keepdims", 1) ? 1 : 0, .n = 1, .dim = {first}};
    for (uint32_t i = 0; i < a.n; i++)
        if (i == 0)
            out->dim[0] = a.dim[0];
        else if (!op(n->graph->dims, a.dtype, out->dim[0], a.dim[i], &out->dim[0]))
            return false;
    return true;
}

static bool dims_reduce_min(OnnxNode *n, OnnxDims *out)
{
    return reduce(n, op_min, 0, out) && n->in[0].dims->n != 0;
}

static bool dims_reduce_max(OnnxNode *n, OnnxDims *out)
{
    return reduce(n, op_max, 0, out) && n->in[0].dims->n != 0;
}

static bool dims_reduce_prod(OnnxNode *n, OnnxDims *out)
{
    return reduce(n, op_mul, 1, out);
}

static bool dims_reduce_sum(OnnxNode *n, OnnxDims *out)
{
    return reduce(n, op_add, 0, out);
}

static const struct {
    const char *name;
    DimsRule rule;
} rules[] = {
    {"Add", dims_add},
    {"Cast", dims_cast},
    {"Ceil", dims_identity},
    {"Concat", dims_concat},
    {"Div", dims_div},
    {"Equal", dims_equal},
    {"Expand", dims_expand},
    {"Floor", dims_identity},
    {"Gather", dims_gather},
    {"Greater", dims_greater},
    {"GreaterOrEqual", dims_greater_equal},
    {"Identity", dims_identity},
    {"Less", dims_less},
    {"LessOrEqual", dims_less_equal},
    {"Max", dims_max},
    {"Min", dims_min},
    {"Mod", dims_mod},
    {"Mul", dims_mul},
    {"Neg", dims_neg},
    {"ReduceMax", dims_reduce_max},
    {"ReduceMin", dims_reduce_min},
    {"ReduceProd", dims_reduce_prod},
    {"ReduceSum", dims_reduce_sum},
    {"Reshape", dims_reshape},
    {"Round", dims_identity},
    {"Slice", dims_slice},
    {"Squeeze", dims_squeeze},
    {"Sub", dims_sub},
    {"Unsqueeze", dims_unsqueeze},
    {"Where", dims_where},
};

static DimsRule find_rule(const OnnxNode *n)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strcmp(rules[i].name, n->op) == 0)
            return rules[i].rule;
    return NULL;
}

bool onnx_import_dims(OnnxNode *n)
{
    bool is_symbolic = false;
    for (uint32_t i = 0; i < n->n_in; i++)
        is_symbolic = is_symbolic || n->in[i].kind == ONNX_DIMS;
    const DimsRule rule = is_symbolic ? find_rule(n) : NULL;
    OnnxDims out = {0};
    if (!rule || !rule(n, &out) || n->failed)
        return false;
    rlx_assert(out.rank == 1 || (out.rank == 0 && out.n == 1));
    for (uint32_t i = 0; i < out.n; i++)
        if (dim_is_unknown(n->graph->dims, out.dim[i]))
            return false;
    for (uint32_t i = 0; i < n->n_in; i++)
        onnx_skip(n, i);
    onnx_out_dims(n, 0, &out);
    return true;
}
