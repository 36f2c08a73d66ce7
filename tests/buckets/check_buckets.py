#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a model with buckets at every size, with NaN and garbage in the arena before each run, against the
model compiled for exactly that size. Usage: check_buckets.py RLXC [CPU]"""

import ctypes
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time

RLXC, HERE = os.path.abspath(sys.argv[1]), os.path.dirname(os.path.abspath(__file__))
CPU = sys.argv[2] if len(sys.argv) > 2 else "native"
MODEL = f"{HERE}/mixing.json"
LADDERS = {"seq": (3, 7, 12), "batch": (1, 3)}
# Products take their schedule by the size that was compiled: with lanes along the summed axis a dot product
# adds the same terms in another order. All else is the same bits. The bound is relative to the magnitude.
REASSOCIATED = {"mixed", "causal", "gram", "scores"}
BOUND = 1e-5
CTX_BYTES = 1024  # more than an rlx_ctx


def aligned(n):
    memory = ctypes.create_string_buffer(n + 64)
    return memory, ctypes.addressof(memory) + -ctypes.addressof(memory) % 64


class Library:
    def __init__(self, folder, name, options, model=MODEL):
        command = [RLXC, "compile", model, "-o", folder, "--name", name, "--cpu", CPU, "--json", *options]
        made = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        flags = made["cc_flags"].split()
        command = ["cc", "-O1", *flags, "-shared", "-fPIC", "-w", f"{name}.c", "-o", f"{name}.so", "-lm"]
        subprocess.run(command, check=True, cwd=folder)
        self.code, self.name = ctypes.CDLL(f"{folder}/{name}.so"), name
        self.arena_bytes, state_bytes = made["arena_bytes"], made["state_bytes"]
        self.ctx, (self.keep, self.arena), (self.keep2, state) = (
            ctypes.create_string_buffer(CTX_BYTES),
            aligned(self.arena_bytes),
            aligned(state_bytes),
        )
        sizes = ctypes.c_size_t(self.arena_bytes), ctypes.c_size_t(state_bytes)
        init = getattr(self.code, name + "_init")
        pointers = ctypes.c_void_p(self.arena), ctypes.c_void_p(state)
        status = init(self.ctx, pointers[0], sizes[0], pointers[1], sizes[1])
        assert status == 0, f"{name}_init: {status}"

    def set(self, slot, value):
        return getattr(self.code, self.name + "_set_symbol")(self.ctx, slot, ctypes.c_int64(value))

    def run(self, inputs, outputs, garbage):
        ctypes.memset(self.arena, garbage, self.arena_bytes)
        made = [ctypes.create_string_buffer(4 * n) for n in outputs]
        status = getattr(self.code, self.name)(self.ctx, *inputs, *made)
        assert status == 0, f"{self.name}: {status}"
        return [bytes(m)[: 4 * n] for m, n in zip(made, outputs)]


def numel_of(seq, batch):
    rows = seq * batch
    return {
        "mixed": 8 * rows,
        "causal": 8 * rows,
        "weighted": 8 * rows,
        "pooled": 8 * batch,
        "average": 8 * batch,
        "largest": 8 * batch,
        "all_sum": 8,
        "over_batch": 8 * seq,
        "gram": 64 * batch,
        "scores": seq * rows,
        "convolved": 4 * rows,
    }


def compare(name, got, want, where):
    if got == want:
        return 0.0
    n = len(want) // 4
    a, b = struct.unpack(f"{n}f", got), struct.unpack(f"{n}f", want)
    magnitude = max(abs(v) for v in b)
    error = max(abs(x - y) if x == x else float("inf") for x, y in zip(a, b)) / magnitude
    if name not in REASSOCIATED or not error <= BOUND:
        sys.exit(f"{where}: {name} differs by {error:.3g} of its magnitude")
    return error


def make_inputs(seq, batch, rng):
    x = struct.pack(f"{8 * seq * batch}f", *(rng.gauss(0, 1) for _ in range(8 * seq * batch)))
    seen = bytes(rng.random() < 0.7 or i % seq == 0 for i in range(seq * batch))
    return x, seen


def check_size(buckets, seq, batch, folder, rng):
    exact = Library(folder, f"exact_{seq}_{batch}", ["--dim", f"seq={seq}", "--dim", f"batch={batch}"])
    inputs, numel = make_inputs(seq, batch, rng), numel_of(seq, batch)
    want = exact.run(inputs, numel.values(), 0)
    worst = {}
    assert buckets.set(0, seq) == 0 and buckets.set(1, batch) == 0
    for garbage in (0xFF, 0x7F, 0x41):  # NaN and -1, NaN with a payload, 12.08 and true
        got = buckets.run(inputs, numel.values(), garbage)
        for name, one, other in zip(numel, got, want):
            worst[name] = max(worst.get(name, 0), compare(name, one, other, f"seq {seq}, batch {batch}"))
    return worst


def check_cost(folder):
    """A run of 8 rows in a bucket of 512 costs far less than one of 512. tools/bench/buckets has figures."""
    rng, size = random.Random(3), 256
    weights = {"dtype": "f32", "shape": [size, size], "data": [rng.random() for _ in range(size * size)]}
    graph = {"rlxc": 1, "name": "cost", "symbols": {"m": {"min": 1, "max": 512}}, "weights": {"w": weights}}
    graph["inputs"] = {"x": {"dtype": "f32", "shape": ["m", size]}}
    graph["nodes"] = [{"name": "y", "op": "matmul", "inputs": ["x", "w"]}]
    graph["outputs"] = ["y"]
    with open(folder + "/cost.json", "w", encoding="ascii") as f:
        json.dump(graph, f)
    cost = Library(folder, "cost", ["--bucket", "m=512"], folder + "/cost.json")
    x, y = bytes(4 * 512 * size), ctypes.create_string_buffer(4 * 512 * size)
    best = {}
    for rows in (512, 8) * 30:
        assert cost.set(0, rows) == 0
        start = time.perf_counter()
        assert cost.code.cost(cost.ctx, x, y) == 0
        best[rows] = min(best.get(rows, 1e9), time.perf_counter() - start)
    print(f"8 rows of 512: {best[8] / best[512]:.1%} of the time")
    assert best[8] < best[512] / 4


def check_inspect():
    """`rlxc inspect` lists every bucket, with the numbers of the model that is compiled up to its sizes."""

    def inspect(options, *more):
        command = [RLXC, "inspect", MODEL, "--no-code", "--cpu", "generic", *options, *more]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    ladders = [
        o for name, sizes in LADDERS.items() for o in ("--bucket", f"{name}={','.join(map(str, sizes))}")
    ]
    all_of = json.loads(inspect(ladders, "--json"))
    table = inspect(ladders).split("the largest last:\n")[1].splitlines()
    assert "buckets" not in json.loads(inspect(["--dynamic", "--arena-at", "seq=12"], "--json"))
    assert table[0].split()[:2] == list(LADDERS) and len(all_of["buckets"]) == 6
    assert all_of["arena_bytes"] == max(b["arena_bytes"] for b in all_of["buckets"])
    for line, bucket in zip(table[1:], all_of["buckets"]):
        numbers = [bucket[key] for key in ("arena_bytes", "kernels", "macs", "flops", "bytes")]
        assert list(map(int, line.split())) == [*bucket["sizes"].values(), *numbers], (line, bucket)
        sizes = [o for name, size in bucket["sizes"].items() for o in ("--bucket", f"{name}={size}")]
        alone = json.loads(inspect(sizes, "--json"))
        want = [alone["arena_bytes"], len(alone["kernels"]), alone["macs"]]
        assert numbers[:3] == want and numbers[3] >= 2 * alone["macs"] > 0, (bucket, want)
        assert numbers[4] == sum(k["bytes"] for k in alone["kernels"])
    assert [b["sizes"] for b in all_of["buckets"]] == sorted(
        (b["sizes"] for b in all_of["buckets"]), key=lambda s: (s["seq"] * s["batch"], s["seq"])
    )


def check_counters(top):
    """On Vulkan, groups that share a product count in memory that only the kernels of their bucket have."""
    graph = {"rlxc": 1, "name": "parts", "inputs": {"x": {"dtype": "f32", "shape": ["T", 2048]}},
             "params": {"w": {"dtype": "f32", "shape": [2048, 64]}},
             "nodes": [{"name": "y", "op": "matmul", "inputs": ["x", "w"]}], "outputs": ["y"]}  # fmt: skip
    path, states = f"{top}/parts.json", []
    with open(path, "w", encoding="utf-8") as f:
        json.dump(graph, f)
    for sizes in ("64", "16,64", "16,64,512"):
        command = [RLXC, "inspect", path, "--target", "vulkan", "--no-code", "--json"]
        command += ["--bucket", f"T={sizes}"]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=100)
        states.append(json.loads(done.stdout)["state_bytes"])
    assert states[0] < states[1] < states[2], states


def main():
    rng, worst = random.Random(7), {}
    with tempfile.TemporaryDirectory() as top:
        options = [
            o
            for name, sizes in LADDERS.items()
            for o in ("--bucket", f"{name}={','.join(map(str, sizes))}")
        ]
        check_inspect()
        check_cost(top)
        check_counters(top)
        buckets = Library(top, "buckets", options)
        assert buckets.set(0, 13) != 0 and buckets.set(1, 4) != 0 and buckets.set(2, 1) != 0
        sizes = [(seq, 1 + seq % 3) for seq in range(1, 13)] + [(12, 2), (12, 3), (1, 1)]
        for seq, batch in sizes:
            for name, error in check_size(buckets, seq, batch, top, rng).items():
                worst[name] = max(worst.get(name, 0), error)
    for name, error in worst.items():
        print(f"{name}: {'the same bits' if error == 0 else f'at most {error:.2g} of the magnitude'}")


main()
