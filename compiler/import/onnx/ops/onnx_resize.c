// SPDX-License-Identifier: Apache-2.0
// Resize and Upsample: where opsets put scales and sizes, and what they call the modes.
#include "compiler/import/onnx/onnx_import.h"

#include <math.h>
#include <string.h>

typedef struct Modes {
    const char *mode, *coord, *nearest;
    const char *roi; // as resize's attribute
    double begin[SHAPE_MAX_RANK], end[SHAPE_MAX_RANK];
    bool antialias, excludes_outside, crops;
    double coeff, extrapolation;
} Modes;

static const char *numbers_text(OnnxNode *n, const double *v, uint32_t count)
{
    Str s = str_new(n->model->arena);
    for (uint32_t i = 0; i < count; i++) {
        str_add(&s, i ? "," : "");
        str_f64(&s, v[i]);
    }
    return str_text(&s);
}

static NodeId build(OnnxNode *n, NodeId x, const Modes *m, const double *scale, const Shape *sizes)
{
    const uint32_t rank = onnx_shape(n, x)->rank;
    for (uint32_t i = 0; i < rank && scale; i++)
        if (!(scale[i] > 0 && scale[i] < 1e6))
            onnx_fail(n, E0203, "a scale must be a positive number below 1e6");
    if (n->failed)
        return 0;
    NodeBuild b = ONNX_BEGIN(n, OP_resize, x);
    if (sizes)
        node_ints(&b, A_resize_sizes, sizes->dim, sizes->rank);
    node_str(&b, A_resize_scales, scale ? numbers_text(n, scale, rank) : "");
    node_str(&b, A_resize_mode, m->mode);
    node_str(&b, A_resize_coord, m->coord);
    node_str(&b, A_resize_nearest, m->nearest);
    node_int(&b, A_resize_antialias, m->antialias);
    node_int(&b, A_resize_exclude_outside, m->excludes_outside);
    node_float(&b, A_resize_cubic_coeff, m->coeff);
    node_str(&b, A_resize_roi, m->roi);
    node_float(&b, A_resize_extrapolation, m->extrapolation);
    return onnx_end(n, &b);
}

// One node for every axis that changes: a filter over all axes at once reads the product of their widths.
static NodeId build_by_axis(OnnxNode *n, NodeId x, const Modes *m, const double *scale, const Shape *sizes)
{
    const uint32_t rank = onnx_shape(n, x)->rank;
    for (uint32_t i = 0; i < rank && !n->failed; i++) {
        Modes part = *m;
        double ends[2 * SHAPE_MAX_RANK], one[SHAPE_MAX_RANK];
        Shape to = *onnx_shape(n, x);
        const bool is_cut = m->crops && !(fabs(m->begin[i]) <= 0 && fabs(m->end[i] - 1) <= 0);
        if ((!sizes || sizes->dim[i] == to.dim[i]) && (!scale || fabs(scale[i] - 1) <= 0) && !is_cut)
            continue;
        for (uint32_t k = 0; k < rank; k++) {
            one[k] = k == i && scale ? scale[k] : 1;
            ends[k] = k == i ? m->begin[k] : 0;
            ends[rank + k] = k == i ? m->end[k] : 1;
        }
        if (sizes)
            to.dim[i] = sizes->dim[i];
        part.roi = m->crops ? numbers_text(n, ends, 2 * rank) : "";
        x = build(n, x, &part, scale ? one : NULL, sizes ? &to : NULL);
    }
    return x;
}

// Filters work on floats.
static NodeId resize(OnnxNode *n, NodeId x, const Modes *m, const double *scale, const Shape *sizes)
{
    const DType type = onnx_dtype(n, x);
    const bool is_nearest = str_equal(m->mode, "nearest");
    const bool is_narrow = !is_nearest && dtype_info[type].cls != DCLASS_FLOAT;
    if (is_narrow)
        x = onnx_cast(n, x, DTYPE_f32);
    const bool is_wide = str_equal(m->mode, "cubic") || m->antialias || m->crops;
    x = is_wide && !is_nearest ? build_by_axis(n, x, m, scale, sizes) : build(n, x, m, scale, sizes);
    return is_narrow ? onnx_cast(n, x, type) : x;
}

// The operand `i` of numbers as doubles; empty when it is absent or has no element.
static uint32_t read_numbers(OnnxNode *n, uint32_t i, double *out, uint32_t max)
{
    Tensor t;
    if (n->failed || !onnx_has(n, i))
        return 0;
    if (shape_is_const(onnx_shape(n, n->in[i].node)) && shape_numel(onnx_shape(n, n->in[i].node)) == 0) {
        onnx_skip(n, i);
        return 0;
    }
    if (!onnx_assume(n, i, &t)) {
        onnx_fail_unknown(n, i);
        return 0;
    }
    if (t.numel > max) {
        onnx_fail(n, E0203, "%lld numbers are more than %u", (long long)t.numel, max);
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
    if (!str_equal(m->mode, "nearest") && !str_equal(m->mode, "linear") && !str_equal(m->mode, "cubic"))
        return onnx_fail(n, E0206, "mode '%s' is not supported", m->mode);
    static const char *const coords[] = {"half_pixel",         "asymmetric",           "align_corners",
                                         "pytorch_half_pixel", "half_pixel_symmetric", "tf_half_pixel_for_nn",
                                         "tf_crop_and_resize"};
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
// 0: each axis has its own.
static double keep_aspect(OnnxNode *n, NodeId x, const char *policy, const uint32_t *axes, OnnxDims *sizes)
{
    const bool is_smaller = str_equal(policy, "not_smaller");
    double factor = is_smaller ? 0 : (double)INFINITY;
    if (str_equal(policy, "stretch"))
        return 0;
    if (!is_smaller && !str_equal(policy, "not_larger"))
        onnx_fail(n, E0203, "attribute 'keep_aspect_ratio_policy' is '%s'", policy);
    for (uint32_t i = 0; i < sizes->n && !n->failed; i++) {
        const int64_t in = onnx_const_dim(n, x, axes[i]);
        const double f = in > 0 && dim_is_const(sizes->dim[i]) ? (double)sizes->dim[i] / (double)in : 1;
        factor = is_smaller ? fmax(factor, f) : fmin(factor, f);
    }
    if (!n->failed && !(factor >= 0 && factor < 1e6))
        onnx_fail(n, E0203, "the sizes ask for a factor of %g", factor);
    for (uint32_t i = 0; i < sizes->n && !n->failed; i++)
        sizes->dim[i] = (int64_t)floor((double)onnx_const_dim(n, x, axes[i]) * factor + 0.5);
    return factor;
}

static NodeId resize_to(OnnxNode *n, NodeId x, const Modes *m, const char *policy)
{
    Shape out = *onnx_shape(n, x);
    uint32_t axes[SHAPE_MAX_RANK];
    double scale[SHAPE_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    OnnxDims sizes;
    const uint32_t count = read_axes(n, out.rank, axes);
    if (count == out.rank && str_equal(policy, "stretch"))
        onnx_promise_shape(n, 3);
    if (!onnx_src_sizes(n, 3, &sizes))
        return 0;
    if (sizes.n != count) {
        onnx_fail(n, E0203, "%u sizes are given for %u axes", sizes.n, count);
        return 0;
    }
    const double factor = keep_aspect(n, x, policy, axes, &sizes);
    for (uint32_t i = 0; i < count; i++) {
        out.dim[axes[i]] = sizes.dim[i];
        scale[axes[i]] = factor;
    }
    return resize(n, x, m, factor > 0 ? scale : NULL, &out);
}

static NodeId resize_by(OnnxNode *n, NodeId x, const Modes *m, uint32_t operand)
{
    double given[SHAPE_MAX_RANK], scale[SHAPE_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    uint32_t axes[SHAPE_MAX_RANK];
    const uint32_t rank = onnx_shape(n, x)->rank, count = read_axes(n, rank, axes);
    const uint32_t n_given = read_numbers(n, operand, given, SHAPE_MAX_RANK);
    if (n->failed)
        return 0;
    if (n_given != count) {
        onnx_fail(n, E0203, "%u scales are given for %u axes", n_given, count);
        return 0;
    }
    for (uint32_t i = 0; i < count; i++)
        scale[axes[i]] = given[i];
    if (!m->crops)
        return resize(n, x, m, scale, NULL);
    // A region is scaled, not the whole operand.
    Shape out = *onnx_shape(n, x);
    for (uint32_t i = 0; i < rank && !n->failed; i++) {
        const double size = floor((double)onnx_const_dim(n, x, i) * (m->end[i] - m->begin[i]) * scale[i]);
        if (!n->failed && !(size >= 0 && size <= 1e9))
            onnx_fail(n, E0203, "the roi asks for %g elements at axis %u", size, i);
        out.dim[i] = n->failed ? 0 : (Dim)size;
    }
    return resize(n, x, m, NULL, &out);
}

// The region that tf_crop_and_resize reads: begins of all (chosen) axes, then ends, in parts of the axis.
static void read_roi(OnnxNode *n, NodeId x, Modes *m)
{
    double given[2 * SHAPE_MAX_RANK], ends[2 * SHAPE_MAX_RANK];
    uint32_t axes[SHAPE_MAX_RANK];
    const uint32_t rank = onnx_shape(n, x)->rank, count = read_axes(n, rank, axes);
    const uint32_t n_given = read_numbers(n, 1, given, 2 * SHAPE_MAX_RANK);
    if (!n->failed && n_given != 2 * count)
        onnx_fail(n, E0203, "the roi has %u numbers, expected %u", n_given, 2 * count);
    for (uint32_t i = 0; i < count && !n->failed; i++) {
        m->begin[axes[i]] = given[i];
        m->end[axes[i]] = given[count + i];
        if (!(fabs(given[i]) <= 1e6 && fabs(given[count + i]) <= 1e6))
            onnx_fail(n, E0203, "the roi is %g to %g; its numbers must be from -1e6 to 1e6", given[i],
                      given[count + i]);
    }
    for (uint32_t i = 0; i < rank; i++) {
        ends[i] = m->begin[i];
        ends[rank + i] = m->end[i];
    }
    m->roi = numbers_text(n, ends, 2 * rank);
}

static Modes default_modes(OnnxNode *n)
{
    Modes m = {.mode = onnx_str(n, "mode", "nearest"),
               .coord = "asymmetric",
               .nearest = "floor",
               .roi = "",
               .coeff = -0.75};
    for (uint32_t i = 0; i < SHAPE_MAX_RANK; i++)
        m.end[i] = 1;
    return m;
}

// Opset 10 has scales as operand 1 and one coordinate transformation; since 11 operands are X, roi, scales,
// sizes.
void onnx_import_resize(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    Modes m = default_modes(n);
    if (n->opset < 11) {
        if (check_mode(n, &m))
            onnx_out(n, 0, resize_by(n, x, &m, 1));
        return;
    }
    m.coord = onnx_str(n, "coordinate_transformation_mode", "half_pixel");
    m.nearest = onnx_str(n, "nearest_mode", "round_prefer_floor");
    m.antialias = onnx_flag(n, "antialias", 0);
    m.excludes_outside = onnx_flag(n, "exclude_outside", 0);
    m.coeff = onnx_float(n, "cubic_coeff_a", -0.75);
    m.extrapolation = onnx_float(n, "extrapolation_value", 0);
    m.crops = str_equal(m.coord, "tf_crop_and_resize");
    const char *policy = onnx_str(n, "keep_aspect_ratio_policy", "stretch");
    onnx_skip(n, 1);
    if (!check_mode(n, &m))
        return;
    if (m.antialias && str_equal(m.mode, "nearest"))
        onnx_fail(n, E0203, "only the modes linear and cubic support antialias");
    if (m.crops)
        read_roi(n, x, &m);
    const NodeId scales = onnx_opt(n, 2);
    const Shape *s = onnx_shape(n, scales);
    const bool has_scales = scales && !(s->rank == 1 && s->dim[0] == 0);
    onnx_out(n, 0, has_scales || !onnx_has(n, 3) ? resize_by(n, x, &m, 2) : resize_to(n, x, &m, policy));
}

// Scales are an attribute in opsets 1 (of height and width) and 7, and operand 1 in opset 9.
void onnx_import_upsample(OnnxNode *n)
{
    const NodeId x = onnx_src(n, 0);
    Modes m = default_modes(n);
    const Onnx__AttributeProto *a = onnx_attr(n, "scales");
    double scale[SHAPE_MAX_RANK] = {1, 1, onnx_float(n, "height_scale", 1), onnx_float(n, "width_scale", 1)};
    const uint32_t rank = onnx_shape(n, x)->rank;
    if (!check_mode(n, &m))
        return;
    if (n->opset >= 9) {
        onnx_out(n, 0, resize_by(n, x, &m, 1));
        return;
    }
    if (n->opset < 7 ? rank != 4 : !a || a->n_floats != rank) {
        onnx_fail(n, E0203,
                  n->opset < 7 ? "needs an input [N, C, H, W]"
                               : "needs the attribute 'scales' with one number per axis");
        return;
    }
    for (uint32_t i = 0; n->opset >= 7 && i < a->n_floats; i++)
        scale[i] = (double)a->floats[i];
    onnx_out(n, 0, resize(n, x, &m, scale, NULL));
}
