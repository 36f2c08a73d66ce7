// SPDX-License-Identifier: Apache-2.0
// Shape rules of ops with windows and of ops that move elements: what fits (constant and symbolic), and each
// way not to fit.
#include "shape_cases.h"

static const Good convs_good[] = {
    {OP_conv, "f32[1, 3, 8, 9]; f32[4, 3, 3, 3]; f32[4]", {{0}}, "f32[1, 4, 6, 7]"},
    {OP_conv,
     "f32[n, 4, 8]; f32[6, 2, 3]",
     {INT(A_conv_group, 2), LIST(A_conv_pads, 2, 1), LIST(A_conv_strides, 3)},
     "f32[n, 6, 3]"},
    {OP_conv, "f32[1, 3, 8, 8]; f32[4, 3, 3, 3]", {LIST(A_conv_dilations, 2, 3)}, "f32[1, 4, 4, 2]"},
    {OP_conv, "f32[1, 3, h, w]; f32[4, 3, 3, 3]", {LIST(A_conv_pads, 1, 1, 1, 1)}, "f32[1, 4, h, w]"},
    {OP_conv, "f32[1, 1, t]; f32[1, 1, 4]", {LIST(A_conv_strides, 2)}, "f32[1, 1, floor(t / 2) - 1]"},
    {OP_conv, "f32[0, 3, 8, 8]; f32[4, 3, 3, 3]", {{0}}, "f32[0, 4, 6, 6]"},
    {OP_conv, "f32[1, 2, 4, 5, 6]; f32[1, 2, 2, 2, 2]", {{0}}, "f32[1, 1, 3, 4, 5]"},
    {OP_conv_transpose,
     "f32[1, 4, 5, 5]; f32[4, 3, 3, 3]; f32[3]",
     {LIST(A_conv_transpose_strides, 2, 2)},
     "f32[1, 3, 11, 11]"},
    {OP_conv_transpose,
     "f32[1, 4, h]; f32[4, 3, 4]",
     {INT(A_conv_transpose_group, 2), LIST(A_conv_transpose_strides, 2), LIST(A_conv_transpose_pads, 1, 1)},
     "f32[1, 6, 2*h]"},
    {OP_conv_transpose,
     "f32[1, 4, 5]; f32[4, 3, 3]",
     {LIST(A_conv_transpose_strides, 2), LIST(A_conv_transpose_output_padding, 1),
      LIST(A_conv_transpose_dilations, 2)},
     "f32[1, 3, 14]"},
};

static void convs(void **state)
{
    CHECK_GOOD(*state, convs_good);
}

static const Bad conv_failures_bad[] = {
    {OP_conv,
     "f32[1, 3, 8, 8]; f32[4, 2, 3, 3]",
     {{0}},
     E0204,
     "input channels of a group and of the weight, 3 and 2 differ"},
    {OP_conv,
     "f32[1, 3, 8, 8]; f32[4, 3, 3, 3]",
     {INT(A_conv_group, 2)},
     E0204,
     "input channels 3 are not a multiple of `group` 2"},
    {OP_conv, "f32[1, 4, 8, 8]; f32[5, 2, 3, 3]", {INT(A_conv_group, 2)}, E0204, "output channels 5 are not"},
    {OP_conv, "f32[1, 4, 8, 8]; f32[4, 4, 3, 3]", {INT(A_conv_group, 0)}, E0203, "`group` is 0"},
    {OP_conv, "f32[1, 3, 8, 8]; f32[4, 3, 3]", {{0}}, E0204, "operand 1 must have rank 4, not 3"},
    {OP_conv, "f32[1, 3]; f32[4, 3]", {{0}}, E0204, "operand 0 must have a rank of 3 to 5"},
    {OP_conv,
     "f32[1, 3, 8, 8]; f32[4, 3, 3, 3]; f32[5]",
     {{0}},
     E0204,
     "output channels and bias size 4 and 5"},
    {OP_conv,
     "f32[1, 3, 8, 8]; f32[4, 3, 3, 3]",
     {LIST(A_conv_strides, 1, 0)},
     E0203,
     "`strides` has the entry 0"},
    {OP_conv,
     "f32[1, 3, 8, 8]; f32[4, 3, 3, 3]",
     {LIST(A_conv_strides, 1)},
     E0203,
     "`strides` has 1 entries, expected 2"},
    {OP_conv,
     "f32[1, 3, 8, 8]; f32[4, 3, 3, 3]",
     {LIST(A_conv_pads, 1, 1, 1, -1)},
     E0203,
     "`pads` has the entry -1"},
    {OP_conv,
     "f32[1, 3, 8, 8]; f32[4, 3, 3, 3]",
     {LIST(A_conv_pads, 0, 0, 0, INT64_MAX)},
     E0203,
     "`pads` has the entry"},
    {OP_conv,
     "f32[1, 3, 8, 8]; f32[4, 3, 3, 3]",
     {LIST(A_conv_dilations, 0, 1)},
     E0203,
     "`dilations` has the entry 0"},
    {OP_conv,
     "f32[1, 3, 8, 8]; f32[4, 3, 3, 9]",
     {{0}},
     E0204,
     "the kernel spans 9 positions, but the padded input has 8"},
    {OP_conv,
     "f32[1, 3, 8, 8]; f32[4, 3, 0, 3]",
     {{0}},
     E0204,
     "the kernel has the size 0 at spatial axis 0"},
    {OP_conv, "f32[1, 3, 8, 8]; f32[4, 3, k, 3]", {{0}}, E0204, "the kernel size k must be a constant"},
    {OP_conv, "i32[1, 3, 8]; i32[4, 3, 3]", {{0}}, E0205, "must be a float type"},
    {OP_conv,
     "f32[1, 1, 8]; f32[1, 1, 2048]",
     {LIST(A_conv_dilations, 2147483647)},
     E0004,
     "the dilated kernel spans"},
    {OP_conv_transpose,
     "f32[1, 4, 5]; f32[3, 4, 3]",
     {{0}},
     E0204,
     "channels of the input and of the weight, 4 and 3"},
    {OP_conv_transpose,
     "f32[1, 4, 5]; f32[4, 3, 3]",
     {LIST(A_conv_transpose_pads, 4, 4)},
     E0204,
     "negative size -1"},
    {OP_conv_transpose,
     "f32[1, 4, 5]; f32[4, 3, 3]",
     {LIST(A_conv_transpose_output_padding, -1)},
     E0203,
     "`output_padding`"},
    {OP_conv_transpose,
     "f32[1, 1, 1099511627776]; f32[1, 1, 1]",
     {LIST(A_conv_transpose_strides, 2147483647)},
     E0004,
     "too large"},
};

static void conv_failures(void **state)
{
    CHECK_BAD(*state, conv_failures_bad);
}

static const Good pools_good[] = {
    {OP_max_pool,
     "f32[1, 3, 8, 8]",
     {LIST(A_max_pool_kernel, 2, 2), LIST(A_max_pool_strides, 2, 2)},
     "f32[1, 3, 4, 4]"},
    {OP_max_pool,
     "f32[1, 3, 8]",
     {LIST(A_max_pool_kernel, 3), LIST(A_max_pool_dilations, 2)},
     "f32[1, 3, 4]"},
    // 7 with kernel 2, stride 2: a fourth window hangs over; with padding it would start behind
    // the input.
    {OP_max_pool,
     "f32[1, 1, 7]",
     {LIST(A_max_pool_kernel, 2), LIST(A_max_pool_strides, 2), INT(A_max_pool_ceil_mode, 1)},
     "f32[1, 1, 4]"},
    {OP_avg_pool,
     "f32[1, 1, 4]",
     {LIST(A_avg_pool_kernel, 3), LIST(A_avg_pool_strides, 3), LIST(A_avg_pool_pads, 1, 1),
      INT(A_avg_pool_ceil_mode, 1)},
     "f32[1, 1, 2]"},
    {OP_avg_pool,
     "f32[1, 1, 2]",
     {LIST(A_avg_pool_kernel, 3), LIST(A_avg_pool_strides, 3), LIST(A_avg_pool_pads, 1, 1),
      INT(A_avg_pool_ceil_mode, 1)},
     "f32[1, 1, 1]"},
    {OP_avg_pool,
     "f32[1, 3, h, 8]",
     {LIST(A_avg_pool_kernel, 2, 2), LIST(A_avg_pool_strides, 2, 2)},
     "f32[1, 3, floor(h / 2), 4]"},
};

static const Bad pools_bad[] = {
    {OP_max_pool,
     "f32[1, 3, 8, 8]",
     {LIST(A_max_pool_kernel, 2)},
     E0203,
     "`kernel` has 1 entries, expected 2"},
    {OP_max_pool, "f32[1, 3, 8]", {LIST(A_max_pool_kernel, 0)}, E0203, "`kernel` has the entry 0"},
    {OP_max_pool, "f32[1, 3, 8]", {LIST(A_max_pool_kernel, 9)}, E0204, "the kernel spans 9 positions"},
    {OP_max_pool,
     "f32[1, 3, 8]",
     {LIST(A_max_pool_kernel, 2), LIST(A_max_pool_pads, 2, 0)},
     E0203,
     "must be smaller than the 2 positions"},
    {OP_max_pool, "f32[3, 8]", {LIST(A_max_pool_kernel, 2)}, E0204, "operand 0 must have a rank of 3 to 5"},
    {OP_avg_pool, "i32[1, 3, 8]", {LIST(A_avg_pool_kernel, 2)}, E0205, "must be a float type"},
    {OP_avg_pool,
     "f32[1, 3, 0]",
     {LIST(A_avg_pool_kernel, 2), INT(A_avg_pool_ceil_mode, 1)},
     E0204,
     "but the input has 0"},
};

static void pools(void **state)
{
    CHECK_GOOD(*state, pools_good);
    CHECK_BAD(*state, pools_bad);
}

static const Good resizes_good[] = {
    {OP_resize, "f32[1, 2, 4, 5]", {LIST(A_resize_sizes, 1, 2, 8, 3)}, "f32[1, 2, 8, 3]"},
    {OP_resize, "f32[1, 2, 4, 5]", {TEXT(A_resize_scales, "1, 1.0, 2.5,0.5")}, "f32[1, 2, 10, 2]"},
    {OP_resize,
     "f32[4, 5]",
     {LIST(A_resize_sizes, 9, 5), TEXT(A_resize_scales, "2.2,1"), TEXT(A_resize_mode, "cubic")},
     "f32[9, 5]"},
    {OP_resize, "u8[h, 5]", {TEXT(A_resize_scales, "2,1")}, "u8[2*h, 5]"},
    {OP_resize, "f32[0, 5]", {LIST(A_resize_sizes, 0, 10), TEXT(A_resize_mode, "linear")}, "f32[0, 10]"},
};

static const Bad resizes_bad[] = {
    {OP_resize, "f32[4, 5]", {{0}}, E0203, "expected `sizes` or `scales`"},
    {OP_resize,
     "f32[4]",
     {LIST(A_resize_sizes, 8), TEXT(A_resize_scales, "1.5")},
     E0203,
     "8 is not the size 4, scaled by 1.5"},
    {OP_resize, "f32[4]", {LIST(A_resize_sizes, 8), TEXT(A_resize_roi, "0")}, E0203, "expected 2 numbers"},
    {OP_resize,
     "f32[4]",
     {LIST(A_resize_sizes, 8), TEXT(A_resize_roi, "0,nan")},
     E0203,
     "expected 2 numbers"},
    {OP_resize, "f32[4, 5]", {LIST(A_resize_sizes, 4)}, E0203, "`sizes` has 1 entries, but the rank is 2"},
    {OP_resize, "f32[4, 5]", {TEXT(A_resize_scales, "2")}, E0203, "expected 2 positive numbers"},
    {OP_resize, "f32[4, 5]", {TEXT(A_resize_scales, "2,x")}, E0203, "expected 2 positive numbers"},
    {OP_resize, "f32[4, 5]", {TEXT(A_resize_scales, "2,-1")}, E0203, "expected 2 positive numbers"},
    {OP_resize, "f32[4, 5]", {TEXT(A_resize_scales, "2,inf")}, E0203, "expected 2 positive numbers"},
    {OP_resize, "f32[4, 5]", {TEXT(A_resize_scales, "2,1,")}, E0203, "expected 2 positive numbers"},
    {OP_resize, "f32[4, 5]", {TEXT(A_resize_scales, "1e300,1")}, E0004, "too large"},
    {OP_resize, "f32[h, 5]", {TEXT(A_resize_scales, "1.5,1")}, E0203, "only be scaled by a whole number"},
    {OP_resize,
     "f32[4]",
     {LIST(A_resize_sizes, 8), TEXT(A_resize_mode, "lanczos")},
     E0203,
     "expected one of: nearest, linear, cubic"},
    {OP_resize, "f32[4]", {LIST(A_resize_sizes, 8), TEXT(A_resize_coord, "tf")}, E0203, "`coord` is \"tf\""},
    {OP_resize,
     "i8[4]",
     {LIST(A_resize_sizes, 8), TEXT(A_resize_mode, "linear")},
     E0205,
     "must be a float type"},
    {OP_resize, "f32[0]", {LIST(A_resize_sizes, 8)}, E0204, "axis 0 has no element to resize"},
    {OP_resize, "f32[4]", {LIST(A_resize_sizes, -8)}, E0204, "negative size -8"},
};

static void resizes(void **state)
{
    CHECK_GOOD(*state, resizes_good);
    CHECK_BAD(*state, resizes_bad);
}

static const Good moves_good[] = {
    {OP_cast, "f32[2, seq]", {INT(A_cast_to, DTYPE_u8)}, "u8[2, seq]"},
    {OP_bitcast, "f32[2, seq]", {INT(A_bitcast_to, DTYPE_i32)}, "i32[2, seq]"},
    {OP_bitcast, "i4[3]", {INT(A_bitcast_to, DTYPE_f4e2m1)}, "f4e2m1[3]"},
    {OP_bitcast, "bool[3]", {INT(A_bitcast_to, DTYPE_i8)}, "i8[3]"},
    {OP_copy, "i8[2]", {TEXT(A_copy_order, "channels_last")}, "i8[2]"},
    {OP_gather, "f32[5, 6, 7]; i32[2, 3]", {INT(A_gather_axis, 1)}, "f32[5, 2, 3, 7]"},
    {OP_gather, "f32[5, 6]; u8[]", {{0}}, "f32[6]"},
    {OP_gather, "f32[0, 6]; i64[0]", {{0}}, "f32[0, 6]"},
    {OP_gather, "f32[vocab, 8]; i64[b, s]", {{0}}, "f32[b, s, 8]"},
    {OP_concat, "f32[2, 3]; f32[2, 0]; f32[2, s]", {INT(A_concat_axis, -1)}, "f32[2, s + 3]"},
    {OP_concat, "bool[3]", {{0}}, "bool[3]"},
    {OP_transpose, "f32[2, 3, s]", {{0}}, "f32[s, 3, 2]"},
    {OP_transpose, "f32[2, 3, s]", {LIST(A_transpose_perm, 1, -1, 0)}, "f32[3, s, 2]"},
    {OP_expand, "f32[3, 1]", {LIST(A_expand_shape, 2, 1, 4)}, "f32[2, 3, 4]"},
    {OP_expand, "f32[3, 1]", {LIST(A_expand_shape, 0)}, "f32[3, 0]"},
    {OP_update_slice, "f32[2, 8]; f32[2, 3]; i32[2]", {{0}}, "f32[2, 8]"},
    {OP_update_slice, "f32[cap, 8]; f32[s, 8]; i64[]", {{0}}, "f32[cap, 8]"},
    {OP_split,
     "f32[2, 7]",
     {INT(A_split_axis, 1), LIST(A_split_sizes, 3, 0, 4)},
     "f32[2, 3]; f32[2, 0]; f32[2, 4]"},
};

static const Bad moves_bad[] = {
    {OP_copy, "i8[2]", {TEXT(A_copy_order, "random")}, E0203, "`order` is \"random\""},
    {OP_gather, "f32[5]; f32[2]", {{0}}, E0205, "operand 1 must be of an integer type"},
    {OP_gather, "f32[0]; i32[2]", {{0}}, E0204, "axis 0 has no element to gather"},
    {OP_gather, "f32[]; i32[2]", {{0}}, E0203, "axis 0 is out of range"},
    {OP_gather, "f32[1, 1, 1, 1, 1]; i32[1, 1, 1, 1, 1]", {{0}}, E0204, "rank 9"},
    {OP_concat,
     "f32[2, 3]; f32[3, 3]",
     {INT(A_concat_axis, 1)},
     E0204,
     "operands 0 and 1 differ at axis 0: 2 and 3"},
    {OP_concat, "f32[2, 3]; f32[3]", {{0}}, E0204, "operand 1 must have rank 2"},
    {OP_concat, "f32[2]; i32[3]", {{0}}, E0205, "operands 0 and 1"},
    {OP_concat, "f32[2]; -; f32[3]", {{0}}, E0202, "operand 1 is missing"},
    {OP_transpose, "f32[2, 3]", {LIST(A_transpose_perm, 0, 0)}, E0203, "names axis 0 twice"},
    {OP_transpose, "f32[2, 3]", {LIST(A_transpose_perm, 0, 2)}, E0203, "the axis 2"},
    {OP_transpose, "f32[2, 3]", {LIST(A_transpose_perm, 0)}, E0203, "`perm` has 1 entries, expected 2"},
    {OP_bitcast, "f32[3]", {INT(A_bitcast_to, DTYPE_f64)}, E0205, "f32 has 32 bits and f64 has 64"},
    {OP_bitcast, "i4[3]", {INT(A_bitcast_to, DTYPE_i8)}, E0205, "i4 has 4 bits and i8 has 8"},
    {OP_expand, "f32[3]", {LIST(A_expand_shape, 2)}, E0204, "does not broadcast with [2]"},
    {OP_expand, "f32[3]", {LIST(A_expand_shape, 1, 1, 1, 1, 1, 1, 1, 1, 1)}, E0203, "`shape` has 9 entries"},
    {OP_update_slice,
     "f32[2, 8]; f32[3, 3]; i32[2]",
     {{0}},
     E0204,
     "the patch is larger than operand 0 at axis 0"},
    {OP_update_slice, "f32[2, 8]; f32[2, 3]; i32[3]", {{0}}, E0204, "a scalar or have 2 entries"},
    {OP_update_slice, "f32[2, 8]; f32[2, 3]; f32[2]", {{0}}, E0205, "operand 2 must be of an integer type"},
    {OP_split, "f32[7]", {LIST(A_split_sizes, 3, 3)}, E0204, "7 and 6 differ"},
    {OP_split, "f32[7]", {LIST(A_split_sizes, -1, 8)}, E0203, "the entry -1"},
};

static void moves(void **state)
{
    CHECK_GOOD(*state, moves_good);
    CHECK_BAD(*state, moves_bad);
}

static const Good slices_good[] = {
    {OP_slice, "f32[5, 7]", {LIST(A_slice_starts, 1), LIST(A_slice_ends, 4)}, "f32[3, 7]"},
    {OP_slice,
     "f32[5, 7]",
     {LIST(A_slice_starts, -3), LIST(A_slice_ends, INT64_MAX), LIST(A_slice_axes, -1)},
     "f32[5, 3]"},
    {OP_slice,
     "f32[5, 7]",
     {LIST(A_slice_starts, -1), LIST(A_slice_ends, INT64_MIN), LIST(A_slice_axes, 1),
      LIST(A_slice_steps, -2)},
     "f32[5, 4]"},
    {OP_slice, "f32[5]", {LIST(A_slice_starts, 4), LIST(A_slice_ends, 2)}, "f32[0]"},
    {OP_slice,
     "f32[5]",
     {LIST(A_slice_starts, 0), LIST(A_slice_ends, 5), LIST(A_slice_axes, 0), LIST(A_slice_steps, 3)},
     "f32[2]"},
    {OP_slice,
     "f32[0]",
     {LIST(A_slice_starts, -1), LIST(A_slice_ends, -9), LIST(A_slice_axes, 0), LIST(A_slice_steps, -1)},
     "f32[0]"},
    {OP_slice, "f32[s]", {LIST(A_slice_starts, 0), LIST(A_slice_ends, INT64_MAX)}, "f32[s]"},
    {OP_slice, "f32[s]", {LIST(A_slice_starts, 1), LIST(A_slice_ends, INT64_MAX)}, "f32[s - 1]"},
    {OP_slice, "f32[s]", {LIST(A_slice_starts, -1), LIST(A_slice_ends, INT64_MAX)}, "f32[1]"},
};

static const Bad slices_bad[] = {
    {OP_slice,
     "f32[5]",
     {LIST(A_slice_starts, 0), LIST(A_slice_ends, 5), LIST(A_slice_axes, 0), LIST(A_slice_steps, 0)},
     E0203,
     "`steps` must not be 0"},
    {OP_slice,
     "f32[5]",
     {LIST(A_slice_starts, 0, 1), LIST(A_slice_ends, 5, 2)},
     E0203,
     "have 2, 2 and 0 entries"},
    {OP_slice,
     "f32[5, 5]",
     {LIST(A_slice_starts, 0, 1), LIST(A_slice_ends, 5)},
     E0203,
     "have 2, 1 and 0 entries"},
    {OP_slice,
     "f32[5, 5]",
     {LIST(A_slice_starts, 0, 1), LIST(A_slice_ends, 5, 2), LIST(A_slice_axes, 0, 0)},
     E0203,
     "axis 0 twice"},
};

static void slices(void **state)
{
    CHECK_GOOD(*state, slices_good);
    CHECK_BAD(*state, slices_bad);
}

static const Good pads_good[] = {
    {OP_pad, "f32[2, s]; f32[]", {LIST(A_pad_pads, 1, 0, -1, 3)}, "f32[2, s + 3]"},
    {OP_pad, "i8[4]", {LIST(A_pad_pads, 3, 3), TEXT(A_pad_mode, "reflect")}, "i8[10]"},
    {OP_pad, "i8[4]", {LIST(A_pad_pads, 9, 0), TEXT(A_pad_mode, "edge")}, "i8[13]"},
    {OP_pad, "bool[4]", {LIST(A_pad_pads, 4, 4), TEXT(A_pad_mode, "wrap")}, "bool[12]"},
};

static const Bad pads_bad[] = {
    {OP_pad, "f32[2]", {LIST(A_pad_pads, 1)}, E0203, "`pads` has 1 entries, expected 2"},
    {OP_pad, "f32[2]", {LIST(A_pad_pads, -2, -1)}, E0204, "negative size -1"},
    {OP_pad, "f32[4]", {LIST(A_pad_pads, 4, 0), TEXT(A_pad_mode, "reflect")}, E0204, "can add at most 3"},
    {OP_pad, "f32[0]", {LIST(A_pad_pads, 1, 0), TEXT(A_pad_mode, "edge")}, E0204, "can add at most 0"},
    {OP_pad, "f32[2]", {LIST(A_pad_pads, 3, 0), TEXT(A_pad_mode, "wrap")}, E0204, "can add at most 2"},
    {OP_pad, "f32[2]", {LIST(A_pad_pads, 1, 1), TEXT(A_pad_mode, "mirror")}, E0203, "`mode` is \"mirror\""},
    {OP_pad, "f32[2]; f32[2]", {LIST(A_pad_pads, 1, 1)}, E0204, "operand 1 must have one element"},
    {OP_pad, "f32[2]; i32[]", {LIST(A_pad_pads, 1, 1)}, E0205, "operands 0 and 1"},
    {OP_pad, "f32[2]", {LIST(A_pad_pads, INT64_MAX, 1)}, E0203, "`pads` has the entry"},
};

static void pads(void **state)
{
    CHECK_GOOD(*state, pads_good);
    CHECK_BAD(*state, pads_bad);
}

static const Good reshapes_good[] = {
    {OP_reshape, "f32[2, 6]", {LIST(A_reshape_shape, 3, -1)}, "f32[3, 4]"},
    {OP_reshape, "f32[2, 6]", {LIST(A_reshape_shape, 0, 2, 3)}, "f32[2, 2, 3]"},
    {OP_reshape, "f32[b, s, 64]", {LIST(A_reshape_shape, 0, 0, 4, -1)}, "f32[b, s, 4, 16]"},
    {OP_reshape, "f32[b, s, 64]", {LIST(A_reshape_shape, -1, 64)}, "f32[b*s, 64]"},
    {OP_reshape, "f32[b, s, 64]", {LIST(A_reshape_shape, -1, 32)}, "f32[2*b*s, 32]"},
    {OP_reshape, "f32[]", {LIST(A_reshape_shape, 1, 1)}, "f32[1, 1]"},
    {OP_reshape, "f32[0, 3]", {LIST(A_reshape_shape, 3, 0)}, "f32[3, 0]"},
    {OP_reshape, "f32[0, 3]", {LIST(A_reshape_shape, 0, -1)}, "f32[0, 0]"},
    {OP_reshape, "f32[3, 0]", {LIST(A_reshape_shape, 3, -1)}, "f32[3, 0]"},
    {OP_flatten, "f32[b, 3, 4]", {{0}}, "f32[b, 12]"},
    {OP_flatten, "f32[2, 3]", {INT(A_flatten_axis, 2)}, "f32[6, 1]"},
    {OP_flatten, "f32[2, 3, 4]", {INT(A_flatten_axis, -1)}, "f32[6, 4]"},
    {OP_flatten, "f32[]", {INT(A_flatten_axis, 0)}, "f32[1, 1]"},
    {OP_squeeze, "f32[1, s, 1]", {{0}}, "f32[s]"},
    {OP_squeeze, "f32[1, s, 1]", {LIST(A_squeeze_axes, -1)}, "f32[1, s]"},
    {OP_squeeze, "f32[1, s]", {LIST(A_squeeze_axes, 1)}, "f32[1]"},
    {OP_unsqueeze, "f32[s]", {LIST(A_unsqueeze_axes, 0, -1)}, "f32[1, s, 1]"},
};

static const Bad reshapes_bad[] = {
    {OP_reshape, "f32[2, 6]", {LIST(A_reshape_shape, 5, -1)}, E0204, "no size at -1"},
    {OP_reshape, "f32[2, 6]", {LIST(A_reshape_shape, 5, 2)}, E0204, "[5, 2] has another number of elements"},
    {OP_reshape, "f32[s]", {LIST(A_reshape_shape, 4)}, E0204, "[4] has another number of elements"},
    {OP_reshape, "f32[2, 6]", {LIST(A_reshape_shape, -1, -1)}, E0203, "more than one -1"},
    {OP_reshape, "f32[2, 6]", {LIST(A_reshape_shape, -2, 6)}, E0203, "the entry -2"},
    {OP_reshape, "f32[2]", {LIST(A_reshape_shape, 0, 0)}, E0204, "has another number of elements"},
    {OP_reshape, "f32[2]", {LIST(A_reshape_shape, 1 << 30, 1 << 30, 16)}, E0004, "too many elements"},
    {OP_reshape,
     "f32[2]",
     {LIST(A_reshape_shape, 1, 1, 1, 1, 1, 1, 1, 1, 2)},
     E0203,
     "`shape` has 9 entries"},
    {OP_flatten, "f32[2, 3]", {INT(A_flatten_axis, 3)}, E0203, "axis 3 is out of range"},
    {OP_squeeze, "f32[1, 2*s]", {LIST(A_squeeze_axes, 1)}, E0204, "axis 1 has the size 2*s, not 1"},
    {OP_unsqueeze, "f32[1, 1, 1, 1, 1, 1, 1, 1]", {LIST(A_unsqueeze_axes, 0)}, E0203, "at most 8"},
};

static void reshapes(void **state)
{
    CHECK_GOOD(*state, reshapes_good);
    CHECK_BAD(*state, reshapes_bad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(convs), TEST(conv_failures), TEST(pools), TEST(resizes),
        TEST(moves), TEST(slices),        TEST(pads),  TEST(reshapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
