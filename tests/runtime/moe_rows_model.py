# SPDX-License-Identifier: Apache-2.0
"""The model of moe_rows_test.c: products with experts in blocks of GGML (3 of them) and in quantised groups
(12), by experts that are inputs."""

ROWS, EACH, INNER, COLUMNS = 4, 2, 32, 4


def nested(values, shape):
    if len(shape) == 1:
        return [next(values) for _ in range(shape[0])]
    return [nested(values, shape[1:]) for _ in range(shape[0])]


def weight(dtype, shape, values):
    return {"dtype": dtype, "data": nested(iter(values), shape)}


def model():
    block = [0x00, 0x3C, *range(32)]  # q8_0: 1.0 as f16, then integers
    blocks = [byte for i in range(3 * COLUMNS) for byte in block[:2] + [(7 * i + b) % 251 for b in block[2:]]]
    groups = [(5 * i + i // 9) % 256 for i in range(12 * COLUMNS * 2 * 8)]
    numbers = [(i % 13 - 6) / 8 for i in range(12 * COLUMNS * 2)]
    return {
        "rlxc": 1,
        "name": "moe",
        "inputs": {
            "x": {"dtype": "f32", "shape": [ROWS, INNER]},
            "of3": {"dtype": "i32", "shape": [ROWS, EACH]},
            "of12": {"dtype": "i32", "shape": [ROWS, EACH]},
        },
        "weights": {
            "w3": weight("u8", [3, COLUMNS, 1, 34], blocks),
            "w12": weight("u8", [12, COLUMNS, 2, 8], groups),
            "scale": weight("f16", [12, COLUMNS, 2], numbers),
            "bias": weight("f16", [12, COLUMNS, 2], numbers[::-1]),
        },
        "nodes": [
            {"name": "y", "op": "block_grouped_matmul", "inputs": ["x", "w3", "of3"], "format": "q8_0"},
            {"name": "z", "op": "affine_grouped_matmul", "inputs": ["x", "w12", "of12", "scale", "bias"],
             "bits": 4},
        ],
        "outputs": ["y", "z"],
    }
