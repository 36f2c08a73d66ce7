// SPDX-License-Identifier: Apache-2.0
// Convolutions and pools as ONNX.
#include "compiler/export/onnx/put.h"

#include <string.h>

static void window(Put *w, Onnx__NodeProto *n)
{
    put_copy_ints(w, n, "strides", "strides");
    put_copy_ints(w, n, "pads", "pads");
    put_copy_ints(w, n, "dilations", "dilations");
}

// The kernel stands in the last axes of the weights; all of them are numbers.
static void kernel_of_weight(Put *w, Onnx__NodeProto *n)
{
    const Shape *s = put_shape(w, 1);
    put_ints(w, n, "kernel_shape", s->dim + 2, s->rank - 2);
    put_copy_int(w, n, "group", "group");
}

// Channels [k, C / k] with these two axes exchanged.
static Value shuffled(Put *w, Value x, int64_t k)
{
    const Shape *s = put_shape(w, 0);
    int64_t perm[SHAPE_MAX_RANK + 1];
    Value sizes[SHAPE_MAX_RANK + 1];
    uint32_t n = 0;
    if (k == 1)
        return x;
    if (!dim_is_const(s->dim[1]) || s->rank == SHAPE_MAX_RANK) {
        put_fail(w, "the number of channels must be a number");
        return x;
    }
    for (uint32_t i = 0; i < s->rank; i++) {
        sizes[n++] = put_dim(w, i == 1 ? k : s->dim[i]);
        if (i == 1)
            sizes[n++] = put_dim(w, s->dim[1] / k);
    }
    for (uint32_t i = 0; i < n; i++)
        perm[i] = i == 1 ? 2 : i == 2 ? 1 : i;
    const Value split = put_op2(w, "Reshape", x, put_concat(w, sizes, n, 0));
    return put_op2(w, "Reshape", put_transpose(w, split, perm, n), put_dims(w, s->dim, s->rank));
}

Value put_conv(Put *w, const char *type)
{
    const Value x = shuffled(w, put_src(w, 0), put_get(w, "shuffle"));
    Onnx__NodeProto *n = put_begin(w, type, (const Value[]){x, put_src(w, 1), put_src(w, 2)}, 3);
    window(w, n);
    kernel_of_weight(w, n);
    return put_result(w, n);
}

// The bias, [O], along axis 1.
static Value add_bias(Put *w, Value y, uint32_t bias, uint32_t rank)
{
    int64_t shape[SHAPE_MAX_RANK] = {1, -1, 1, 1, 1, 1, 1, 1};
    return put_op2(w, "Add", y, put_reshape(w, put_src(w, bias), shape, rank));
}

// ONNX convolves bytes and floats: sums of 16-bit integers are made as f64, which holds them.
static Value wide_conv(Put *w)
{
    Value in[3] = {0};
    if (put_has(w, 3) || put_has(w, 4))
        put_fail(w, "a convolution of integers of 16 bits with zero points has no form in ONNX");
    for (uint32_t i = 0; i < 3 && (i < 2 || put_has(w, i)); i++)
        in[i] = put_cast(w, put_src(w, i), put_type(w, i), DTYPE_f64);
    Onnx__NodeProto *n = put_begin(w, "Conv", in, put_has(w, 2) ? 3 : 2);
    window(w, n);
    kernel_of_weight(w, n);
    return put_cast(w, put_result(w, n), DTYPE_f64, DTYPE_i32);
}

Value put_int_conv(Put *w, const char *type)
{
    if (dtype_info[put_type(w, 0)].bytes != 1)
        return wide_conv(w);
    Value x_zero = put_src(w, 3), w_zero = put_src(w, 4);
    if (put_has(w, 3) && put_shape(w, 3)->rank != 0)
        x_zero = put_reshape(w, x_zero, NULL, 0);
    if (put_has(w, 4) && put_shape(w, 4)->rank != 0 && put_shape(w, 4)->dim[0] == 1)
        w_zero = put_reshape(w, w_zero, NULL, 0);
    Onnx__NodeProto *n = put_begin(w, type, (const Value[]){put_src(w, 0), put_src(w, 1), x_zero, w_zero}, 4);
    window(w, n);
    kernel_of_weight(w, n);
    const Value y = put_result(w, n);
    return put_has(w, 2) ? add_bias(w, y, 2, put_shape(w, 0)->rank) : y;
}

Value put_conv_transpose(Put *w, const char *type)
{
    const Value in[] = {put_src(w, 0), put_src(w, 1), put_src(w, 2)};
    Onnx__NodeProto *n = put_begin(w, type, in, 3);
    window(w, n);
    kernel_of_weight(w, n);
    put_copy_ints(w, n, "output_padding", "output_padding");
    return put_result(w, n);
}

// ONNX pools bytes and floats: integers of 16 and 32 bits are pooled as floats that hold them.
static DType pooled_in(const Put *w)
{
    const DType t = put_type(w, 0);
    if (put_is_float(t) || dtype_info[t].bytes == 1)
        return t;
    return dtype_info[t].bytes == 2 ? DTYPE_f32 : DTYPE_f64;
}

static Onnx__NodeProto *begin_pool(Put *w, const char *type)
{
    const Value x = put_cast(w, put_src(w, 0), put_type(w, 0), pooled_in(w));
    Onnx__NodeProto *n = put_begin(w, type, &x, 1);
    put_copy_ints(w, n, "kernel", "kernel_shape");
    window(w, n);
    put_copy_int(w, n, "ceil_mode", "ceil_mode");
    return n;
}

Value put_pool(Put *w, const char *type)
{
    if (!put_is_float(put_type(w, 0)) && dtype_info[put_type(w, 0)].bytes == 8) {
        put_fail(w, "a pool of integers of 64 bits has no form in ONNX");
        return "";
    }
    Onnx__NodeProto *n = begin_pool(w, type);
    if (put_node(w)->op == OP_avg_pool)
        put_copy_int(w, n, "count_include_pad", "count_include_pad");
    return put_cast(w, put_result(w, n), pooled_in(w), put_type(w, 0));
}

// ONNX counts places through the whole tensor, not from the begin of each plane.
Value put_argmax_pool(Put *w, const char *type)
{
    Onnx__NodeProto *n = begin_pool(w, type);
    const Shape *s = put_shape(w, 0);
    put_result(w, n);
    const Value places = put_result(w, n);
    Value plane = put_number(w, DTYPE_i64, 1);
    for (uint32_t i = 2; i < s->rank; i++)
        plane = put_op2(w, "Mul", plane, put_dim(w, s->dim[i]));
    return put_op2(w, "Mod", places, plane);
}

static Value max_roi_pool(Put *w)
{
    const Value image = put_cast(w, put_src(w, 2), put_type(w, 2), put_type(w, 0));
    const Value column = put_reshape(w, image, (const int64_t[]){-1, 1}, 2);
    const Value rois = put_concat(w, (const Value[]){column, put_src(w, 1)}, 2, 1);
    Onnx__NodeProto *n = put_begin(w, "MaxRoiPool", (const Value[]){put_src(w, 0), rois}, 2);
    put_ints(w, n, "pooled_shape", (const int64_t[]){put_get(w, "height"), put_get(w, "width")}, 2);
    put_float(w, n, "spatial_scale", put_get_float(w, "scale"));
    return put_result(w, n);
}

Value put_roi_pool(Put *w, const char *type)
{
    const char *mode = put_get_text(w, "mode");
    if (strcmp(mode, "bins") == 0)
        return max_roi_pool(w);
    const Value image = put_cast(w, put_src(w, 2), put_type(w, 2), DTYPE_i64);
    Onnx__NodeProto *n = put_begin(w, type, (const Value[]){put_src(w, 0), put_src(w, 1), image}, 3);
    put_text(w, n, "mode", mode);
    put_text(w, n, "coordinate_transformation_mode",
             put_get(w, "half_pixel") != 0 ? "half_pixel" : "output_half_pixel");
    put_int(w, n, "output_height", put_get(w, "height"));
    put_int(w, n, "output_width", put_get(w, "width"));
    put_copy_int(w, n, "sampling", "sampling_ratio");
    put_float(w, n, "spatial_scale", put_get_float(w, "scale"));
    return put_result(w, n);
}
