#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles one model twice, its weights as constants and as parameters: the outputs must have the same bits,
for what is packed once after a parameter was set is what constants are packed to (runs: prepare_test.c).
Usage: check_prepare.py RLXC"""

import json
import os
import random
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../common"))
from emitted import QUICK, SANITIZE, flags_of  # noqa: E402

RLXC = os.path.abspath(sys.argv[1])
WEIGHTS = {
    "rows": ([40, 50], "f32"),  # columns next to each other
    "columns": ([33, 40], "f32"),  # transposed: one row would be dot products
    "half": ([40, 24], "f16"),
    "scale": ([50], "f32"),
    "cut": ([512, 64], "f32"),
    "kernel": ([12, 3, 3, 3], "f32"),
    "point": ([20, 12, 1, 1], "f32"),
    "groups": ([8, 6, 1, 1], "f32"),
    "bias": ([20], "f32"),
    "square": ([40, 24, 3, 3], "f32"),  # Winograd
    "mixed": ([36, 40, 3, 3], "f32"),
    "pairs": ([40, 16, 3, 3], "f32"),
    "depth": ([40, 1, 3, 3], "f32"),
    "dilated": ([40, 1, 5, 3], "f32"),
    "upwards": ([20, 12, 3, 3], "f32"),
    "line": ([24, 16, 3], "f32"),
    "line_depth": ([24, 1, 7], "f32"),
}
INPUTS = {"one": [1, 40], "many": [70, 40], "few": [5, 512], "high": [64, 512], "image": [2, 3, 11, 13]}
INPUTS.update({"planes": [2, 24, 23, 26], "pair": [1, 32, 23, 26], "wave": [2, 16, 50]})
NODES = [
    {"name": "one_rows", "op": "matmul", "inputs": ["one", "rows"]},
    {"name": "many_rows", "op": "matmul", "inputs": ["many", "rows"]},
    {"name": "one_columns", "op": "matmul", "inputs": ["one", "columns"], "transpose_b": True},
    {"name": "many_columns", "op": "matmul", "inputs": ["many", "columns"], "transpose_b": True},
    {"name": "scaled", "op": "mul", "inputs": ["rows", "scale"]},  # depends on parameters only
    {"name": "many_scaled", "op": "matmul", "inputs": ["many", "scaled"]},
    {"name": "wide", "op": "cast", "inputs": ["half"], "to": "f32"},
    {"name": "many_wide", "op": "matmul", "inputs": ["many", "wide"]},
    {"name": "narrow", "op": "cast", "inputs": ["many"], "to": "f16"},
    {"name": "many_half", "op": "matmul", "inputs": ["narrow", "half"]},
    {"name": "few_cut", "op": "matmul", "inputs": ["few", "cut"]},
    {"name": "high_cut", "op": "matmul", "inputs": ["high", "cut"]},
    {"name": "c1", "op": "conv", "inputs": ["image", "kernel"], "pads": [1, 1, 1, 1], "strides": [2, 2]},
    {"name": "c2", "op": "conv", "inputs": ["c1", "point", "bias"]},
    {"name": "c3", "op": "conv", "inputs": ["c1", "groups"], "group": 2},
    {"name": "c4", "op": "conv", "inputs": ["planes", "square"], "pads": [1, 1, 1, 1]},
    {"name": "c5", "op": "conv", "inputs": ["pair", "pairs"], "group": 2, "pads": [0, 1, 1, 0]},
    {"name": "c6", "op": "conv", "inputs": ["c4", "depth"], "group": 40, "pads": [1, 1, 1, 1]},
    {
        "name": "c7",
        "op": "conv",
        "inputs": ["c4", "dilated"],
        "group": 40,
        "strides": [2, 1],
        "dilations": [1, 2],
    },
    {
        "name": "c8",
        "op": "conv_transpose",
        "inputs": ["c2", "upwards"],
        "strides": [2, 1],
        "pads": [1, 0, 1, 1],
    },
    {"name": "c9", "op": "conv", "inputs": ["wave", "line"], "pads": [1, 1]},
    {"name": "c10", "op": "conv", "inputs": ["c9", "line_depth"], "group": 24, "pads": [3, 3]},
    {"name": "c11", "op": "conv", "inputs": ["c4", "mixed"], "pads": [1, 0, 0, 1]},
    {"name": "norm", "op": "reduce_max", "inputs": ["rows"]},  # an output that depends on a parameter only
]
OUTPUTS = [n["name"] for n in NODES if n["name"] not in ("scaled", "wide", "narrow", "c1")]


def bytes_of(shape, dtype, rng):
    count = 1
    for n in shape:
        count *= n
    return struct.pack(
        "<%d%s" % (count, "f" if dtype == "f32" else "e"), *(rng.uniform(-1, 1) for _ in range(count))
    )


def write_model(folder, kind):
    tensors = {
        name: (
            {"file": name + ".bin", "dtype": d, "shape": s}
            if kind == "weights"
            else {"dtype": d, "shape": s}
        )
        for name, (s, d) in WEIGHTS.items()
    }
    inputs = {name: {"dtype": "f32", "shape": s} for name, s in INPUTS.items()}
    model = {"rlxc": 1, "name": "twin", "inputs": inputs, kind: tensors, "nodes": NODES, "outputs": OUTPUTS}
    with open(f"{folder}/{kind}.json", "w", encoding="ascii") as f:
        json.dump(model, f)


def run(folder, kind, options, level, threads, is_checked=False):
    command = [RLXC, "compile", "--api=full", f"{folder}/{kind}.json", "-o", folder, "--name", "twin"]
    subprocess.run([*command, "-O", level, *options], check=True, stdout=subprocess.DEVNULL)
    command = ["cc", *flags_of(f"{folder}/twin.c", QUICK), *(SANITIZE if is_checked else []), "-I" + folder]
    command += [f"-DLEVEL={level}", f"-DTEAM={threads}"]
    subprocess.run([*command, f"{HERE}/prepare_test.c", "twin.c", "-o", "p", "-lm"], check=True, cwd=folder)
    subprocess.run([folder + "/p", kind + ".out"], check=True, cwd=folder)
    with open(f"{folder}/{kind}.out", "rb") as f:
        return f.read()


def main():
    rng = random.Random(7)
    with tempfile.TemporaryDirectory() as top:
        for name, (shape, dtype) in WEIGHTS.items():
            with open(f"{top}/{name}.bin", "wb") as f:
                f.write(bytes_of(shape, dtype, rng))
        for kind in ("weights", "params"):
            write_model(top, kind)
        for cpu, level, threads in ("generic", "1", 1), ("native", "3", 1), ("native", "3", 3):
            options = ["--cpu", cpu] + (["--threads", str(threads)] if threads > 1 else [])
            want = run(top, "weights", options, level, threads)
            if run(top, "params", options, level, threads, cpu == "generic") != want:
                sys.exit(f"{cpu} -O{level}, {threads} threads: parameters give other bits than constants")
        run(top, "params", ["--cpu", "generic"], "0", 1)


main()
