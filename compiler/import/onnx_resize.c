// SPDX-License-Identifier: Apache-2.0
// Resize and Upsample: where opsets put scales and sizes, and what they call the modes.
#include "compiler/import/onnx_import.h"

#include <math.h>
#include <string.h>

typedef struct Modes {
    const char *mode, *coord, *nearest;
} Modes;

// Scales of all axes from a list for some of them; 1 for the others.
static const char *scales_text(OnnxNode *n, const double *scale, uint32_t rank)
{
    Str s = str_new(n->model->arena);
    for (uint32_t i = 0; i < rank; i++) {
        if (!(scale[i] > 0 && scale[i] < 1e6))
            onnx_fail(n, E0203, "a scale must be a positive number below 1e6");
        str_add(&s, i ? "," : "");
        str_f32(&s, (float)scale[i]);
    }
    return str_text(&s);
}

static NodeId build(OnnxNode *n, NodeId x, Modes m, const double *scale, const Shape *sizes)
{
    const char *scales = scale ? scales_text(n, scale, onnx_shape(n, x)->rank) : "";
    if (n->failed)
        return 0;
    NodeBuild b = onnx_begin(n, OP_resize);
    node_src(&b, x);
    if (sizes)
        node_ints(&b, A_resize_sizes, sizes->dim, sizes->rank);
    node_str(&b, A_resize_scales, scales);
    node_str(&b, A_resize_mode, m.mode);
    node_str(&b, A_resize_coord, m.coord);
    node_str(&b, A_resize_nearest, m.nearest);
    return onnx_end(n, &b);
}

// The operand `i` of numbers as doubles; empty when it is absent or has no element.
static uint32_t read_scales(OnnxNode *n, uint32_t i, double *out)
{
    const NodeId id = onnx_opt(n, i);
    if (!id || n->failed)
        return 0;
    if (!node_is_const(n->graph, id)) {
        onnx_fail(n, E0206, "the scales must be constants");
        return 0;
    }
    const Tensor t = tensor_of_const(n->graph, id);
    if (t.numel > SHAPE_MAX_RANK) {
        onnx_fail(n, E0203, "%lld scales are more than %d", (long long)t.numel, SHAPE_MAX_RANK);
        return 0;
    }
    for (int64_t k = 0; k < t.numel; k++)
        out[k] = tensor_get_f64(&t, k);
    return (uint32_t)t.numel;
}

static bool check_mode(OnnxNode *n, Modes *m)
{
    if (str_equal(m->mode, "bilinear"))
        m->mode = "linear";
    if (!str_equal(m->mode, "nearest") && !str_equal(m->mode, "linear"))
        return onnx_fail(n, E0206, "mode '%s' is not supported", m->mode);
    static const char *const coords[] = {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"};
    for (size_t i = 0; i < sizeof coords / sizeof *coords; i++)
        if (str_equal(m->coord, coords[i]))
            return true;
    return onnx_fail(n, E0206, "coordinate transformation '%s' is not supported", m->coord);
}

// The axes that scales or sizes are for, in order.
static uint32_t read_axes(OnnxNode *n, uint32_t rank, uint32_t *out)
{
    OnnxInts axes;
    if (!onnx_ints(n, "axes", &axes)) {
        for (uint32_t i = 0; i < rank; i++)
            out[i] = i;
        return rank;
    }
    if (axes.n > rank)
        onnx_fail(n, E0203, "%u axes are more than the rank %u", axes.n, rank);
    for (uint32_t i = 0; i < axes.n && !n->failed; i++)
        onnx_axis(n, axes.v[i], rank, &out[i]);
    return n->failed ? 0 : axes.n;
}

// Sizes that keep the aspect ratio: one factor for all axes, the smallest or the largest of those asked for.
static void keep_aspect(OnnxNode *n, NodeId x, const char *policy, const uint32_t *axes, OnnxDims *sizes)
{
    const bool is_smaller = str_equal(policy, "not_smaller");
    double factor = is_smaller ? 0 : (double)INFINITY;
    if (str_equal(policy, "stretch"))
        return;
    if (!is_smaller && !str_equal(policy, "not_larger"))
        onnx_fail(n, E0203, "attribute 'keep_aspect_ratio_policy' is '%s'", policy);
    for (uint32_t i = 0; i < sizes->n && !n->failed; i++) {
        const int64_t in = onnx_const_dim(n, x, axes[i]);
        const double f = in > 0 && dim_is_const(sizes->dim[i]) ? (double)sizes->dim[i] / (double)in : 1;
        factor = is_smaller ? fmax(factor, f) : fmin(factor, f);
    }
    for (uint32_t i = 0; i < sizes->n && !n->failed; i++)
        sizes->dim[i] = (int64_t)floor((double)onnx_const_dim(n, x, axes[i]) * factor + 0.5);
}

static NodeId resize_to(OnnxNode *n, NodeId x, Modes m, const char *policy)
{
    Shape out = *onnx_shape(n, x);
    uint32_t axes[SHAPE_MAX_RANK];
    OnnxDims sizes;
    const uint32_t count = read_axes(n, out.rank, axes);
    if (!onnx_src_dims(n, 3, &sizes))
        return 0;
    if (sizes.n != count) {
        onnx_fail(n, E0203, "%u sizes are given for %u axes", sizes.n, count);
        return 0;
    }
    keep_aspect(n, x, policy, axes, &sizes);
    for (uint32_t i = 0; i < count; i++)
        out.dim[axes[i]] = sizes.dim[i];
    return build(n, x, m, NULL, &out);
}

static NodeId resize_by(OnnxNode *n, NodeId x, Modes m, uint32_t operand)
{
    double given[SHAPE_MAX_RANK], scale[SHAPE_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    uint32_t axes[SHAPE_MAX_RANK];
    const uint32_t rank = onnx_shape(n, x)->rank, count = read_axes(n, rank, axes);
    const uint32_t n_given = read_scales(n, operand, given);
    if (n->failed)
        return 0;
    if (n_given != count) {
        onnx_fail(n, E0203, "%u scales are given for %u axes", n_given, count);
        return 0;
    }
    for (uint32_t i = 0; i < count; i++)
        scale[axes[i]] = given[i];
    return build(n, x, m, scale, NULL);
}

// Opset 10 has scales as operand 1 and one coordinate transformation; since 11 operands are X, roi, scales,
// sizes.
void onnx_import_resize(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    Modes m = {.mode = onnx_str(n, "mode", "nearest"), .coord = "asymmetric", .nearest = "floor"};
    if (n->opset < 11) {
        if (check_mode(n, &m))
            onnx_out(n, 0, resize_by(n, x, m, 1));
        return;
    }
    m.coord = onnx_str(n, "coordinate_transformation_mode", "half_pixel");
    m.nearest = onnx_str(n, "nearest_mode", "round_prefer_floor");
    const char *policy = onnx_str(n, "keep_aspect_ratio_policy", "stretch");
    if (onnx_int(n, "antialias", 0) != 0)
        onnx_fail(n, E0206, "attribute 'antialias' is not supported");
    onnx_ignore_attr(n, "cubic_coeff_a"); // these two are for mode cubic,
    onnx_ignore_attr(n, "exclude_outside");
    onnx_ignore_attr(n, "extrapolation_value"); // and these for tf_crop_and_resize
    onnx_skip(n, 1);
    if (!check_mode(n, &m))
        return;
    double ignored[SHAPE_MAX_RANK];
    const bool has_scales = onnx_has(n, 2) && read_scales(n, 2, ignored) > 0;
    onnx_out(n, 0, has_scales || !onnx_has(n, 3) ? resize_by(n, x, m, 2) : resize_to(n, x, m, policy));
}

// Scales are an attribute in opset 7 and operand 1 in opset 9.
void onnx_import_upsample(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    Modes m = {.mode = onnx_str(n, "mode", "nearest"), .coord = "asymmetric", .nearest = "floor"};
    const Onnx__AttributeProto *a = onnx_attr(n, "scales");
    double scale[SHAPE_MAX_RANK];
    if (!check_mode(n, &m))
        return;
    if (n->opset >= 9) {
        onnx_out(n, 0, resize_by(n, x, m, 1));
        return;
    }
    if (!a || a->n_floats != onnx_shape(n, x)->rank) {
        onnx_fail(n, E0203, "needs the attribute 'scales' with one number per axis");
        return;
    }
    for (uint32_t i = 0; i < a->n_floats; i++)
        scale[i] = (double)a->floats[i];
    onnx_out(n, 0, build(n, x, m, scale, NULL));
}
