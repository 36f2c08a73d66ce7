// SPDX-License-Identifier: Apache-2.0
// Layer norms and root-mean-square norms, of ONNX and ONNX Runtime, with the moments that some return. What
// broadcasts to the whole input, or has another type than it, is multiplied and added behind the norm.
#include "compiler/import/onnx/onnx_import.h"

typedef struct Norm {
    OpId op; // OP_layer_norm or OP_rms_norm
    NodeId x, scale, shift;
    int64_t axis;
    double epsilon;
    DType stash; // of the moments
} Norm;

// --- the norm ---

// Does the op take it as it is: no more than the normalised axes, and of the type of x?
static bool is_plain(const OnnxNode *n, const Norm *m, NodeId v)
{
    const Shape *x = onnx_shape(n, m->x), *s = onnx_shape(n, v);
    const int64_t first = m->axis < 0 ? m->axis + x->rank : m->axis;
    if (!v)
        return true;
    for (uint32_t i = 0; i < s->rank && i < x->rank; i++) {
        const Dim d = s->dim[s->rank - 1 - i];
        if (d != 1 && d != x->dim[x->rank - 1 - i])
            return false;
    }
    return onnx_dtype(n, v) == onnx_dtype(n, m->x) && s->rank + first <= x->rank;
}

static NodeId build(OnnxNode *n, const Norm *m, NodeId x, NodeId scale, NodeId shift)
{
    rlx_assert(m->op == OP_layer_norm || m->op == OP_rms_norm);
    NodeBuild b = ONNX_BEGIN(n, m->op, x, scale);
    if (m->op == OP_layer_norm)
        node_src(&b, shift);
    node_int(&b, attr_find(m->op, "axis"), m->axis);
    node_float(&b, attr_find(m->op, "epsilon"), m->epsilon);
    return onnx_end(n, &b);
}

static DType wide_type(const OnnxNode *n, NodeId x)
{
    return onnx_dtype(n, x) == DTYPE_f64 ? DTYPE_f64 : DTYPE_f32;
}

// The result has the type of the scale, and is rounded to it once.
static NodeId norm(OnnxNode *n, const Norm *m)
{
    const Shape x = *onnx_shape(n, m->x);
    uint32_t first = 0;
    if (!onnx_axis(n, m->axis, x.rank, &first))
        return 0;
    if (is_plain(n, m, m->scale) && is_plain(n, m, m->shift))
        return build(n, m, m->x, m->scale, m->shift);
    const DType wide = wide_type(n, m->x);
    NodeId y = build(n, m, onnx_cast(n, m->x, wide), 0, 0);
    if (m->scale)
        y = onnx_op2(n, OP_mul, y, onnx_cast(n, m->scale, wide));
    if (m->shift)
        y = onnx_op2(n, OP_add, y, onnx_cast(n, m->shift, wide));
    if (!n->failed && !shape_equal(onnx_shape(n, y), &x))
        onnx_fail(n, E0204, "scale and shift must broadcast to the input, whose rank is %u", x.rank);
    return onnx_cast(n, y, onnx_dtype(n, m->scale ? m->scale : m->x));
}

// --- moments ---

static NodeId mean_of(OnnxNode *n, NodeId x, int64_t first)
{
    uint32_t axis = 0, count = 0;
    int64_t axes[SHAPE_MAX_RANK];
    const uint32_t rank = onnx_shape(n, x)->rank;
    if (!onnx_axis(n, first, rank, &axis))
        return 0;
    for (uint32_t i = axis; i < rank; i++)
        axes[count++] = i;
    return onnx_reduce(n, OP_reduce_mean, x, axes, count);
}

// Results `mean_at` and `inverse_at`, where the model asks for them: the mean, and 1 / sqrt(variance +
// epsilon). A root-mean-square norm has no mean: it is 0.
static void moments(OnnxNode *n, const Norm *m, uint32_t mean_at, uint32_t inverse_at)
{
    if (!onnx_wants(n, mean_at) && !onnx_wants(n, inverse_at))
        return;
    const NodeId x = onnx_cast(n, m->x, wide_type(n, m->x));
    const bool has_mean = m->op == OP_layer_norm;
    const NodeId mean = has_mean ? mean_of(n, x, m->axis) : 0;
    const NodeId centred = has_mean ? onnx_op2(n, OP_sub, x, mean) : x;
    const NodeId variance = mean_of(n, onnx_op1(n, OP_square, centred), m->axis);
    const NodeId inverse = onnx_op1(n, OP_rsqrt, onnx_op_number(n, OP_add, variance, m->epsilon));
    onnx_out(n, inverse_at, onnx_cast(n, inverse, m->stash));
    if (mean_at == inverse_at)
        return;
    const Shape *s = onnx_shape(n, inverse);
    const NodeId none = onnx_expand(n, onnx_scalar(n, m->stash, 0), s->dim, s->rank);
    onnx_out(n, mean_at, has_mean ? onnx_cast(n, mean, m->stash) : none);
}

// --- operators ---

// Stash type 0 says nothing: moments are f32 then.
static void read_attributes(OnnxNode *n, Norm *m)
{
    m->axis = onnx_int(n, "axis", -1);
    m->epsilon = onnx_float(n, "epsilon", (double)1e-5f);
    m->stash = DTYPE_f32;
    if (onnx_int(n, "stash_type", 1) != 0)
        m->stash = onnx_type_attr(n, "stash_type", DTYPE_f32);
}

void onnx_import_layer_norm(OnnxNode *n)
{
    Norm m = {.op = OP_layer_norm, .x = onnx_src(n, 0), .scale = onnx_src(n, 1), .shift = onnx_opt(n, 2)};
    read_attributes(n, &m);
    onnx_out(n, 0, norm(n, &m));
    moments(n, &m, 1, 2);
}

void onnx_import_rms_norm(OnnxNode *n)
{
    Norm m = {.op = OP_rms_norm, .x = onnx_src(n, 0), .scale = onnx_src(n, 1)};
    read_attributes(n, &m);
    onnx_out(n, 0, norm(n, &m));
}

void onnx_import_simplified_layer_norm(OnnxNode *n)
{
    Norm m = {.op = OP_rms_norm, .x = onnx_src(n, 0), .scale = onnx_src(n, 1)};
    read_attributes(n, &m);
    onnx_out(n, 0, norm(n, &m));
    moments(n, &m, 1, 1);
}

// --- com.microsoft: of a sum, which is result 3 ---

static void import_skip(OnnxNode *n, Norm *m, NodeId bias)
{
    const NodeId x = onnx_src(n, 0), skip = onnx_src(n, 1);
    m->axis = -1;
    m->epsilon = onnx_float(n, "epsilon", (double)1e-12f);
    m->stash = DTYPE_f32;
    m->x = onnx_op2(n, OP_add, bias ? onnx_op2(n, OP_add, x, bias) : x, skip);
    onnx_out(n, 0, norm(n, m));
    moments(n, m, 1, 2);
    onnx_out(n, 3, m->x);
}

void onnx_import_ms_skip_layer_norm(OnnxNode *n)
{
    Norm m = {.op = OP_layer_norm, .scale = onnx_src(n, 2), .shift = onnx_opt(n, 3)};
    import_skip(n, &m, onnx_opt(n, 4));
}

void onnx_import_ms_skip_rms_norm(OnnxNode *n)
{
    Norm m = {.op = OP_rms_norm, .scale = onnx_src(n, 2)};
    import_skip(n, &m, onnx_opt(n, 3));
}
