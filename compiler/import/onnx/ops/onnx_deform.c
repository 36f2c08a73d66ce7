// SPDX-License-Identifier: Apache-2.0
// DeformConv: the image is sampled where the offsets say, which gives the columns of a matrix product.
#include "compiler/import/onnx/ops/onnx_sample.h"

typedef struct Deform {
    NodeId x, offset, mask;
    int64_t groups, offset_groups, channels, out_channels;
    int64_t kernel[2], stride[2], dilation[2], pad[4], out[2];
    int64_t taps, points; // elements of the kernel, and of one plane of the result
    Dim batch;
} Deform;

static bool check_divides(OnnxNode *n, int64_t part, int64_t whole, const char *attr)
{
    return n->failed || (part >= 1 && part <= whole && whole % part == 0) ||
           onnx_fail(n, E0203, "attribute '%s' is %lld, but there are %lld channels", attr, (long long)part,
                     (long long)whole);
}

static bool read_deform(OnnxNode *n, NodeId weight, Deform *d)
{
    const Shape x = *onnx_shape(n, d->x), w = *onnx_shape(n, weight), o = *onnx_shape(n, d->offset);
    if (n->failed)
        return false;
    if (x.rank != 4 || w.rank != 4 || o.rank != 4)
        return onnx_fail(n, E0206, "only images [N, C, H, W] are supported");
    d->batch = x.dim[0];
    d->channels = onnx_const_dim(n, d->x, 1);
    d->out_channels = onnx_const_dim(n, weight, 0);
    d->groups = onnx_int(n, "group", 1);
    d->offset_groups = onnx_int(n, "offset_group", 1);
    check_divides(n, d->groups, d->channels, "group");
    check_divides(n, d->groups, d->out_channels, "group");
    check_divides(n, d->offset_groups, d->channels, "offset_group");
    onnx_steps(n, "strides", d->stride, 2, 1);
    onnx_steps(n, "dilations", d->dilation, 2, 1);
    onnx_steps(n, "pads", d->pad, 4, 0);
    onnx_ignore_attr(n, "kernel_shape"); // is that of the weight
    for (uint32_t i = 0; i < 2; i++) {
        d->kernel[i] = onnx_const_dim(n, weight, 2 + i);
        d->out[i] = onnx_const_dim(n, d->offset, 2 + i);
        if (!n->failed && (d->kernel[i] > ONNX_MAX_STEP || d->out[i] > INT32_MAX))
            return onnx_fail(n, E0004, "the kernel or the result is too large");
    }
    d->taps = d->kernel[0] * d->kernel[1];
    d->points = d->out[0] * d->out[1];
    if (!n->failed && (d->taps > ONNX_MAX_STEP || d->points > INT32_MAX || d->offset_groups > 256))
        return onnx_fail(n, E0004, "the kernel or the result is too large");
    return !n->failed;
}

// Where the taps would be without offsets, along one axis: [taps, points].
static NodeId base_positions(OnnxNode *n, const Deform *d, uint32_t axis)
{
    rlx_assert(axis < 2 && d->taps >= 0 && d->points >= 0);
    double *tap = ARENA_ARRAY(n->model->arena, double, (uint64_t)d->taps + 1),
           *point = ARENA_ARRAY(n->model->arena, double, (uint64_t)d->points + 1);
    if (!onnx_spend(n, d->taps + d->points))
        return 0;
    for (int64_t i = 0; i < d->taps; i++)
        tap[i] =
            (double)((axis == 0 ? i / d->kernel[1] : i % d->kernel[1]) * d->dilation[axis] - d->pad[axis]);
    for (int64_t i = 0; i < d->points; i++)
        point[i] = (double)((axis == 0 ? i / d->out[1] : i % d->out[1]) * d->stride[axis]);
    const Shape of_tap = {.rank = 2, .dim = {d->taps, 1}}, of_point = {.rank = 1, .dim = {d->points}};
    const NodeId a = onnx_const(n, DTYPE_f64, &of_tap, tap, (uint64_t)d->taps * sizeof *tap);
    const NodeId b = onnx_const(n, DTYPE_f64, &of_point, point, (uint64_t)d->points * sizeof *point);
    const DType type = onnx_dtype(n, d->offset) == DTYPE_f64 ? DTYPE_f64 : DTYPE_f32;
    return onnx_op2(n, OP_add, onnx_cast(n, a, type), onnx_cast(n, b, type));
}

// What one group of channels sees: [N, points, channels, taps].
static NodeId columns(OnnxNode *n, const Deform *d, int64_t group)
{
    rlx_assert(group >= 0 && group < d->offset_groups);
    const int64_t each = d->channels / d->offset_groups;
    const NodeId image = onnx_slice(n, d->x, 1, group * each, (group + 1) * each, 1);
    NodeId offset =
        onnx_reshape_to(n, d->offset, (const Dim[]){d->batch, d->offset_groups, d->taps, 2, d->points}, 5);
    offset = onnx_slice(n, offset, 1, group, group + 1, 1);
    NodeId coord[2];
    for (uint32_t i = 0; i < 2; i++) {
        const NodeId base = base_positions(n, d, i);
        NodeId at = onnx_slice(n, offset, 3, i, i + 1, 1);
        at = onnx_reshape_to(n, at, (const Dim[]){d->batch, d->taps, d->points}, 3);
        at = onnx_op2(n, OP_add, onnx_cast(n, at, onnx_dtype(n, base)), base);
        coord[i] = onnx_reshape_to(n, at, (const Dim[]){d->batch, d->taps * d->points}, 2);
    }
    NodeId v = onnx_sample(n, image, coord, (Sampling){.mode = SAMPLE_LINEAR, .align_corners = true});
    v = onnx_reshape_to(n, v, (const Dim[]){d->batch, d->taps, d->points, each}, 4);
    if (d->mask) {
        NodeId mask =
            onnx_reshape_to(n, d->mask, (const Dim[]){d->batch, d->offset_groups, d->taps, d->points, 1}, 5);
        mask = onnx_squeeze(n, onnx_slice(n, mask, 1, group, group + 1, 1), (const int64_t[]){1}, 1);
        v = onnx_op2(n, OP_mul, v, mask);
    }
    return onnx_transpose(n, v, (const int64_t[]){0, 2, 3, 1});
}

void onnx_import_deform_conv(OnnxNode *n)
{
    const NodeId weight = onnx_src(n, 1);
    Deform d = {.x = onnx_src(n, 0), .offset = onnx_src(n, 2), .mask = onnx_opt(n, 4)};
    const NodeId bias = onnx_opt(n, 3);
    if (!read_deform(n, weight, &d))
        return;
    rlx_assert(d.offset_groups >= 1 && d.groups >= 1);
    NodeId *part = ARENA_ARRAY(n->model->arena, NodeId, (uint64_t)d.offset_groups);
    for (int64_t i = 0; i < d.offset_groups; i++)
        part[i] = columns(n, &d, i);
    const int64_t in = d.channels / d.groups * d.taps, out = d.out_channels / d.groups;
    NodeId v = d.offset_groups > 1 ? onnx_concat(n, part, (uint32_t)d.offset_groups, 2) : part[0];
    v = onnx_reshape_to(n, v, (const Dim[]){d.batch, d.points, d.groups, in}, 4);
    v = onnx_transpose(n, v, (const int64_t[]){0, 2, 1, 3});
    const NodeId w = onnx_reshape_to(n, weight, (const Dim[]){d.groups, out, in}, 3);
    NodeId y = onnx_transpose(n, onnx_matmul(n, v, w, false, true), (const int64_t[]){0, 1, 3, 2});
    y = onnx_reshape_to(n, y, (const Dim[]){d.batch, d.out_channels, d.out[0], d.out[1]}, 4);
    if (bias)
        y = onnx_op2(n, OP_add, y, onnx_reshape_to(n, bias, (const Dim[]){d.out_channels, 1, 1}, 3));
    onnx_out(n, 0, y);
}
