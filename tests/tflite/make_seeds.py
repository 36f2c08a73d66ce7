#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the .tflite files of tests/fuzz/seeds, of several operators (cases.py) or sub-graphs (graphs.py)."""

import pathlib

import cases
import flatbuffer
from graphs import GRAPHS

SEEDS = pathlib.Path(__file__).resolve().parent.parent / "fuzz" / "seeds"
GROUPS = {
    "window": (
        "conv_same_f32",
        "conv_wide_i8",
        "depthwise_stride_i8",
        "average_pool_same_i8",
        "transpose_conv_same_i8",
    ),
    "product": ("fully_i8", "fully_hybrid", "batch_matmul_i8", "softmax_i8", "add_i8", "mul_i8", "prelu_i8"),
    "curves": (
        "logistic_i8",
        "tanh_i16",
        "hard_swish_i8",
        "quantize_i8",
        "requantize_i16_i8",
        "mean_image_i8",
        "less_scales_i8",
    ),
    "moves": (
        "strided_slice_i8",
        "gather_f32",
        "space_to_batch_i8",
        "bilinear_i8",
        "pad_f32",
        "split_v_f32",
        "tile_i32",
        "one_hot_f32",
    ),
    "select": (
        "detection_2_classes_a_box_f32",
        "detection_by_class_u8",
        "nms_v5_f32",
        "unsorted_segment_max_f32",
        "segment_sum_f32",
        "sparse_to_dense_f32",
        "matrix_set_diag_3x5_f32",
        "bucketize_f32",
        "reverse_sequence_1_0_f32",
        "conv_3d_same_f32",
    ),
    "signals": ("rfft2d_filled_abs", "rfft2d_frames", "densify_f32", "densify_f16_blocks"),
}


def main():
    functions = {name: function for name, _, function in cases.CASES}
    for group, names in GROUPS.items():
        model = flatbuffer.Model()
        for name in names:
            cases.make(name, functions[name], model)
        (SEEDS / f"{group}.tflite").write_bytes(model.encode())
    for name in ("composite", "if_then", "while", "variable", "open_size_range", "signature"):
        (SEEDS / f"{name}.tflite").write_bytes(GRAPHS[name]()[0].encode())


if __name__ == "__main__":
    main()
