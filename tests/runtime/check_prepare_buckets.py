#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles one model with buckets twice, its weights as constants and as parameters: each bucket prepares
what depends on parameters once after one was set, gives the same bits as with constants, and buckets that
read the same packed weights share them (runs: prepare_buckets_test.c).
Usage: check_prepare_buckets.py RLXC"""

import json
import os
import random
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../common"))
from emitted import QUICK, SANITIZE  # noqa: E402

RLXC = os.path.abspath(sys.argv[1])
WEIGHTS = {
    "rows": [40, 50],
    "columns": [33, 40],  # transposed: one row would be dot products
    "scale": [50],
    "kernel": [12, 3, 3, 3],
    "point": [20, 12, 1, 1],
    "bias": [20],
}
NODES = [
    {"name": "scaled", "op": "mul", "inputs": ["rows", "scale"]},  # depends on parameters only
    {"name": "by_rows", "op": "matmul", "inputs": ["x", "scaled"]},
    {"name": "by_columns", "op": "matmul", "inputs": ["x", "columns"], "transpose_b": True},
    {"name": "c1", "op": "conv", "inputs": ["image", "kernel"], "pads": [1, 1, 1, 1], "strides": [2, 2]},
    {"name": "c2", "op": "conv", "inputs": ["c1", "point", "bias"]},
]
SIZES = (1, 4, 16)
BUCKETS = ["--bucket", "m=1,4,16"]


def write_model(folder, kind, rng):
    tensors = {}
    for name, shape in WEIGHTS.items():
        count = 1
        for n in shape:
            count *= n
        if not os.path.exists(f"{folder}/{name}.bin"):
            with open(f"{folder}/{name}.bin", "wb") as f:
                f.write(struct.pack(f"<{count}f", *(rng.uniform(-1, 1) for _ in range(count))))
        tensors[name] = {"dtype": "f32", "shape": shape}
        if kind == "weights":
            tensors[name]["file"] = name + ".bin"
    model = {
        "rlxc": 1,
        "name": "several",
        "symbols": {"m": {"min": 1, "max": 16}},
        "inputs": {
            "x": {"dtype": "f32", "shape": ["m", 40]},
            "image": {"dtype": "f32", "shape": ["m", 3, 9, 11]},
        },
        kind: tensors,
        "nodes": NODES,
        "outputs": ["by_rows", "by_columns", "c2"],
    }
    with open(f"{folder}/{kind}.json", "w", encoding="ascii") as f:
        json.dump(model, f)


def compile_model(folder, kind, options):
    command = [RLXC, "compile", "--api=full", f"{folder}/{kind}.json", "-o", folder]
    command += ["--name", "several", "--json"]
    command += ["--accuracy", "0", *options]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def run(folder, kind, options, threads, is_checked):
    made = compile_model(folder, kind, options + BUCKETS)
    flags = [QUICK if flag == "-O3" else flag for flag in made["cc_flags"].split()]
    command = ["cc", *flags, f"-DTEAM={threads}", "-I" + folder]
    command += SANITIZE if is_checked else []
    command += [f"{HERE}/prepare_buckets_test.c", "several.c", "-o", "p", "-lm"]
    subprocess.run(command, check=True, cwd=folder)
    subprocess.run([folder + "/p", kind + ".out"], check=True, cwd=folder)
    with open(f"{folder}/{kind}.out", "rb") as f:
        return f.read()


def check_sharing(folder, cpu, options):
    """Packings depend on the bucket's size here and there; what does not is there once."""

    def state_bytes(sizes):
        bucket = ["--bucket", "m=" + ",".join(map(str, sizes))]
        return compile_model(folder, "params", options + bucket)["state_bytes"]

    raw = sum(os.path.getsize(f"{folder}/{name}.bin") + 63 & ~63 for name in WEIGHTS)
    alone, together = [state_bytes([size]) for size in SIZES], state_bytes(SIZES)
    print(f"{cpu}: state blocks of {raw} bytes of parameters: {alone} for each bucket, {together} for all")
    if together >= sum(alone) - (len(SIZES) - 1) * raw:
        sys.exit(f"{cpu}: buckets share nothing of what they prepare")
    if cpu == "generic" and state_bytes(SIZES[1:]) != alone[1]:
        sys.exit("generic: buckets that prepare the same do so twice")


def main():
    rng = random.Random(7)
    with tempfile.TemporaryDirectory() as top:
        for kind in ("weights", "params"):
            write_model(top, kind, rng)
        for cpu, threads in ("generic", 1), ("x86-64-v3", 1), ("native", 3):
            options = ["--cpu", cpu] + (["--threads", str(threads)] if threads > 1 else [])
            if cpu != "x86-64-v3":
                want = run(top, "weights", options, threads, False)
                if run(top, "params", options, threads, cpu == "generic") != want:
                    sys.exit(f"{cpu}, {threads} threads: parameters give other bits than constants")
            check_sharing(top, cpu, options)


main()
