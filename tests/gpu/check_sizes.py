#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The sizes that rlxc prints for GPU targets are those of the generated header: of the program's own blocks,
and of the device's memory. What is not small begins there with a line of the cache, whatever lies before it.
Usage: check_sizes.py RLXC; prints TAP."""
import json
import os
import re
import subprocess
import sys
import tempfile

RLXC = sys.argv[1]
ROOT = os.environ.get("RLXC_SOURCE", ".")
MODELS = ["mlp", "lstm_stream", "digits/digits"]
TARGETS = [["cuda", "--gpu", "text"], ["vulkan"]]
LINE = 256
# Values of no whole lines before others: a counter, a bias of 3 numbers.
ODD = {
    "rlxc": 1,
    "name": "m",
    "inputs": {"x": {"dtype": "f32", "shape": [5, 33]}, "y": {"dtype": "f32", "shape": [64, 33]}},
    "params": {"bias": {"dtype": "f32", "shape": [3]}, "w": {"dtype": "f32", "shape": [33, 64]}},
    "nodes": [
        {"name": "z", "op": "matmul", "inputs": ["x", "w"]},
        {"name": "u", "op": "matmul", "inputs": ["z", "y"]},
        {"name": "next", "op": "add", "inputs": ["count", "bias"]},
    ],
    "states": {
        "count": {"dtype": "f32", "shape": [3], "next": "next"},
        "last": {"dtype": "f32", "shape": [5, 64], "next": "z"},
    },
    "outputs": ["next", "u"],
}
SIZES = ["arena_bytes", "state_bytes", "weight_bytes", "device_bytes"]


def compile_model(model, target, folder):
    command = [RLXC, "compile", f"{ROOT}/models/{model}.json", "-o", folder, "--name", "m", "--json"]
    done = subprocess.run([*command, "--target", *target], capture_output=True, check=True, timeout=100)
    with open(f"{folder}/m.h", encoding="utf-8") as f:
        header = f.read()
    printed = json.loads(done.stdout)
    found = dict(re.findall(r"^#define M_(\w+_BYTES) (\d+)u", header, re.MULTILINE))
    return [printed.get(s) for s in SIZES], [int(found[s.upper()]) for s in SIZES]


def begins(target, folder):
    """{name: (begin, bytes)} of the parameters and states of ODD, and of its inputs in the device's arena."""
    with open(f"{folder}/odd.json", "w", encoding="utf-8") as f:
        json.dump(ODD, f)
    command = [RLXC, "compile", f"{folder}/odd.json", "-o", folder, "--name", "m", "--target", *target]
    subprocess.run(command, capture_output=True, check=True, timeout=100)
    with open(f"{folder}/m.c", encoding="utf-8") as f:
        rows = re.findall(r'^    \{"(\w+)", RLX_F32, .*\}, (\d+), (\d+)\},$', f.read(), re.MULTILINE)
    return {name: (int(begin), int(size)) for name, begin, size in rows}


def main():
    cases = [(m, t) for m in MODELS for t in TARGETS]
    failed = 0
    print(f"1..{len(cases) + len(TARGETS)}")
    for i, (model, target) in enumerate(cases):
        with tempfile.TemporaryDirectory() as folder:
            printed, found = compile_model(model, target, folder)
        ok = printed == found and found[-1] > found[0]
        failed += not ok
        print(f"{'' if ok else 'not '}ok {i + 1} - {model}, {target[0]}: {printed}, in the header {found}")
    for i, target in enumerate(TARGETS):
        with tempfile.TemporaryDirectory() as folder:
            found = begins(target, folder)
        split = [name for name, (begin, size) in found.items() if size >= LINE and begin % LINE != 0]
        ok = split == [] and set(found) == {"x", "y", "bias", "w", "count", "last", "next", "u"}
        failed += not ok
        print(f"{'' if ok else 'not '}ok {len(cases) + 1 + i} - lines, {target[0]}: {found}, split: {split}")
    return failed != 0


sys.exit(main())
