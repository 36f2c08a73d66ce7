# SPDX-License-Identifier: Apache-2.0
"""A model whose kernels have barriers inside: a convolution by Winograd, whose transformed input all threads
share, and scatter. Usage: make_phases.py FOLDER writes phases.json there, with its weights."""

import array
import json
import pathlib
import random
import sys

FOLDER = pathlib.Path(sys.argv[1])


def weight(name, shape, scale):
    n = 1
    for size in shape:
        n *= size
    values = array.array("f", (random.uniform(-scale, scale) for _ in range(n)))
    (FOLDER / f"phases_{name}.bin").write_bytes(values.tobytes())
    return {"file": f"phases_{name}.bin", "dtype": "f32", "shape": shape}


def main():
    random.seed(1)
    f32 = {"dtype": "f32"}
    model = {
        "rlxc": 1,
        "name": "phases",
        "inputs": {
            "x": {"dtype": "f32", "shape": [1, 128, 8, 8]},
            "base": {"dtype": "f32", "shape": [400, 300]},
            "at": {"dtype": "i64", "shape": [200]},
            "rows": {"dtype": "f32", "shape": [200, 300]},
        },
        "weights": {
            "w": weight("w", [128, 128, 3, 3], 0.1),
            "k": weight("k", [96, 128, 3, 3], 0.1),
        },
        "nodes": [
            {"name": "conv", "op": "conv", "inputs": ["x", "w"], "pads": [1, 1, 1, 1]},
            {"name": "act", "op": "relu", "inputs": ["conv"]},
            {"name": "y", "op": "conv", "inputs": ["act", "k"], "pads": [1, 1, 1, 1]},
            {"name": "placed", "op": "scatter", "inputs": ["base", "at", "rows"]},
        ],
        "outputs": ["y", "placed"],
    }
    (FOLDER / "phases.json").write_text(json.dumps(model))


main()
