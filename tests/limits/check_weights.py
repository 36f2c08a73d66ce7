#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Quantised weights take no more room in what is emitted than in the model's file, on any target: groups of
every size that blocks have as they are, sizes that are filled up by a twelfth at most, and GGML's
blocks, whose packed form adds a thirty-second at most.
`check_weights.py RLXC`; prints TAP."""

import json
import os
import subprocess
import sys
import tempfile

RLXC = os.path.abspath(sys.argv[1])
COLUMNS = 96  # whole vectors
TARGETS = [
    ["--cpu", "generic"], ["--cpu", "x86-64-v3"], ["--cpu", "x86-64-v4"], ["--cpu", "armv8-a"],
    ["--target", "cuda", "--gpu", "text"], ["--target", "metal"]
]
ALIGNED = 512  # bytes that the places of arrays may add
NUMBER = {"f16": 2, "bf16": 2, "f32": 4}
# Elements of a group, groups of a row.
EXACT = [
    (4, 512), (8, 384), (12, 192), (16, 192), (20, 96), (24, 128), (32, 96), (40, 64), (48, 64), (64, 32),
    (80, 32), (96, 32), (112, 16), (120, 16), (128, 16), (144, 16), (160, 16), (192, 16),
    (256, 8), (352, 8), (480, 4), (512, 4)
]
# Longer than a block, of many prime factors, or rows of one group that is no multiple of 32.
FILLED = [
    (17, 192), (33, 64), (100, 32), (100, 31), (127, 32), (200, 16), (300, 16), (600, 8), (784, 4),
    (784, 1), (1000, 1), (1024, 4), (1184, 8), (4096, 1), (11008, 1)
]
BLOCKS = {
    "q4_0": (32, 18), "q5_1": (32, 24), "q8_0": (32, 34), "q4_k": (256, 144), "q5_k": (256, 176),
    "tq2_0": (256, 66)
}


def weight(folder, name, dtype, shape, size):
    """A member of "weights" with so many bytes, no two rows alike. Gives it."""
    with open(os.path.join(folder, f"{name}.bin"), "wb") as f:
        words = ((i * 2654435761 % 2**32).to_bytes(4, "little") for i in range((size + 3) // 4))
        f.write(b"".join(words)[:size])
    return {"dtype": dtype, "shape": shape, "file": f"{name}.bin"}


def model(folder, k, weights, node):
    nodes = [{"name": "y", "inputs": ["x", *weights], **node}]
    graph = {"rlxc": 1, "inputs": {"x": {"dtype": "f32", "shape": [1, k]}}, "weights": weights,
             "nodes": nodes, "outputs": ["y"]}
    path = os.path.join(folder, "m.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(graph, f)
    return path, sum(os.path.getsize(os.path.join(folder, w["file"])) for w in weights.values())


def groups_model(folder, bits, group, groups, kind):
    k = group * groups
    words, numbers = -(-k * bits // 32), [COLUMNS, groups]
    weights = {"w": weight(folder, "w", "u32", [COLUMNS, words], COLUMNS * words * 4)}
    for name in ("s", "b"):
        weights[name] = weight(folder, name, kind, numbers, COLUMNS * groups * NUMBER[kind])
    return model(folder, k, weights, {"op": "affine_matmul", "bits": bits})


def blocks_model(folder, name):
    elements, size = BLOCKS[name]
    blocks = 2048 // elements
    w = weight(folder, "w", "u8", [COLUMNS, blocks, size], COLUMNS * blocks * size)
    return model(folder, 2048, {"w": w}, {"op": "block_matmul", "format": name})


def emitted(path, target):
    command = [RLXC, "inspect", path, "--json", "--no-code", *target]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["weight_bytes"]


def written(path, folder):
    """Of the file that a compile writes: what `inspect` says must be what is there."""
    command = [RLXC, "compile", path, "-o", folder, "--name", "m", "--cpu", "x86-64-v4", "--weights", "file"]
    subprocess.run(command, capture_output=True, check=True)
    return os.path.getsize(os.path.join(folder, "m.weights"))


def cases():
    for i, (group, groups) in enumerate(EXACT):
        yield "groups", ((4, 6, 8)[i % 3], group, groups, list(NUMBER)[i // 3 % 3]), 0.0
    for i, (group, groups) in enumerate(FILLED):
        # a row ends with a whole block
        yield "groups", ((4, 6, 8)[i % 3], group, groups, list(NUMBER)[i % 2]), 1 / 12
    for name in BLOCKS:
        yield "blocks", (name,), 1 / 32


def main():
    failed = 0
    rows = list(cases())
    print(f"1..{len(rows)}")
    for i, (kind, case, more) in enumerate(rows):
        with tempfile.TemporaryDirectory() as folder:
            path, size = (groups_model if kind == "groups" else blocks_model)(folder, *case)
            targets = TARGETS[i % 3], TARGETS[3 + i % 3]
            sizes = [emitted(path, target) for target in targets] + [written(path, folder)]
        wrong = [n for n in sizes if not size <= n <= size * (1 + more) + ALIGNED]
        failed += bool(wrong)
        verdict = "not ok" if wrong else "ok"
        print(f"{verdict} {i + 1} - {kind} {case}: {size} bytes, emitted {sizes}", flush=True)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
