#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every elementwise op on NaN, infinities, zeros of both signs, denormals and the ends of the integer types:
what the generated code computes from params is what the compiler folds (by the evaluator) from constants.
Usage: check_special.py RLXC"""
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

rlxc = os.path.abspath(sys.argv[1])
FLOATS = {  # format of struct, smallest, largest, tolerance
    "f32": ("f", 1e-45, 3e38, 3e-5),
    "f64": ("d", 5e-324, 1e308, 1e-12),
    "f16": ("e", 6e-8, 65504, 3e-3),
}
INTS = {"i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q"}
# a * b + c in one rounding keeps the sign of a product that is too small to be stored.
ANY_ZERO = {"hard_sigmoid"}
CPUS = ["generic", "x86-64-v3", "x86-64-v4"]


def special_values(kind):
    if kind in FLOATS:
        _, tiny, big, _ = FLOATS[kind]
        some = [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, -2.5, 2, -3, 7.25, -100, 90, 0.01]
        return some + [tiny, -tiny, big, -big, math.inf, -math.inf, math.nan]
    bits = 8 * struct.calcsize(INTS[kind])
    low, high = (0, 2**bits - 1) if kind[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    some = {0, 1, 2, 3, -1, -2, -7, 5, high, high - 1, low, 31, 63, 8, 100, -100}
    return sorted(v for v in some if low <= v <= high)


def json_value(v):
    if isinstance(v, float):
        return str(v) if math.isnan(v) or math.isinf(v) else v
    return str(v) if abs(v) > 2**53 else v


def make_model(kind, ops):
    """All pairs of special values; results r_OP of params, k_OP of the same values as constants."""
    values = special_values(kind)
    pairs = [(a, b) for a in values for b in values]
    c = [values[-1 - i % len(values)] for i in range(len(pairs))]
    columns = {"a": [a for a, _ in pairs], "b": [b for _, b in pairs], "c": c}
    tensors = {n: {"dtype": kind, "data": [json_value(v) for v in data]} for n, data in columns.items()}
    nodes = []
    for op, arity in ops:
        nodes.append({"op": op, "name": "r_" + op, "inputs": list("abc"[:arity])})
        nodes.append({"op": op, "name": "k_" + op, "inputs": ["w" + n for n in "abc"[:arity]]})
    weights = {"w" + n: tensor for n, tensor in tensors.items()}
    outputs = [n["name"] for n in nodes]
    return columns, {"rlxc": 1, "params": tensors, "weights": weights, "nodes": nodes, "outputs": outputs}


def elementwise_ops(kind):
    """Name and arity of the ops that take the type, by asking for each."""
    listed = subprocess.run([rlxc, "ops"], check=True, capture_output=True, text=True).stdout
    ops = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "one.json")
        for name in (line.split()[0] for line in listed.splitlines() if line.endswith(" elementwise")):
            for arity in (1, 2, 3):
                x = {"dtype": kind, "shape": [2]}
                node = {"op": name, "name": "y", "inputs": ["x"] * arity}
                with open(path, "w") as f:
                    json.dump({"rlxc": 1, "inputs": {"x": x}, "nodes": [node], "outputs": ["y"]}, f)
                if subprocess.run([rlxc, "check", path], capture_output=True).returncode == 0:
                    ops.append((name, arity))
    return ops


def read_npy(path):
    with open(path, "rb") as f:
        data = f.read()
    start = 10 + struct.unpack("<H", data[8:10])[0]
    kind = data[10:start].split(b"'descr': '")[1].split(b"'")[0].decode()
    letters = {"f2": "e", "f4": "f", "f8": "d", "b1": "?", "i1": "b", "u1": "B", "i2": "h", "u2": "H"}
    letter = {**letters, "i4": "i", "u4": "I", "i8": "q", "u8": "Q"}[kind[1:]]
    n = (len(data) - start) // struct.calcsize("<" + letter)
    return list(struct.unpack(f"<{n}{letter}", data[start:]))


def is_same(op, kind, got, want):
    if kind not in FLOATS or not isinstance(want, float):
        return got == want
    _, tiny, _, tolerance = FLOATS[kind]
    if math.isnan(want) or math.isnan(got):
        return math.isnan(want) and math.isnan(got)
    if got == want:
        return want != 0 or op in ANY_ZERO or math.copysign(1, got) == math.copysign(1, want)
    small = 2 * max(tiny, 1e-37 if kind == "f32" else tiny)
    return math.isfinite(got) and math.isfinite(want) and abs(got - want) <= tolerance * abs(want) + small


def check(kind, cpu, ops, problems):
    columns, graph = make_model(kind, ops)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "special.json")
        with open(path, "w") as f:
            json.dump(graph, f)
        command = [rlxc, "run", path, "--cpu", cpu, "--output-dir", folder]
        got = subprocess.run(command, capture_output=True, text=True)
        if got.returncode != 0:
            problems.append(f"{kind} on {cpu}: exit code {got.returncode}\n{got.stderr[-2000:]}")
            return
        for op, arity in ops:
            results = zip(*(read_npy(os.path.join(folder, f"{p}_{op}.npy")) for p in "rk"))
            wrong = [i for i, (r, k) in enumerate(results) if not is_same(op, kind, r, k)]
            for i in wrong[:3]:
                operands = [columns[n][i] for n in "abc"[:arity]]
                r, k = (read_npy(os.path.join(folder, f"{p}_{op}.npy"))[i] for p in "rk")
                problems.append(f"{op} {kind} on {cpu} of {operands}: {r} instead of {k}")


def can_run(cpu):
    with open("/proc/cpuinfo") as f:
        flags = f.read()
    return {"generic": True, "x86-64-v3": " avx2 " in flags, "x86-64-v4": " avx512f " in flags}[cpu]


def main():
    problems = []
    for kind in [*FLOATS, *INTS]:
        ops = elementwise_ops(kind)
        if len(ops) < 10:
            problems.append(f"{kind}: only {len(ops)} ops")
        for cpu in filter(can_run, CPUS):
            check(kind, cpu, ops, problems)
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(bool(problems))


main()
