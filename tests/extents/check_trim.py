#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loops end at the live size. Graphs with an open size run in memory full of NaN and must give what the same
graph compiled for that size gives; at a small size a run must write a small part of the memory that it writes
at the largest. Half of the cases each day (rotation.py)."""

import json
import os
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common"))
from emitted import flags_of  # noqa: E402
from rotation import part_of  # noqa: E402

MOST = 61


def node(op, *inputs, name="y", **attrs):
    return {"name": name, "op": op, "inputs": list(inputs), **attrs}


def mix(*inputs):
    """Query, key and value of rows: scores over all rows, as exporters write attention."""
    return [
        node("transpose", inputs[1], name="t", perm=[0, 2, 1]),
        node("matmul", inputs[0], "t", name="scores"),
        node("softmax", "scores", name="weights"),
        node("matmul", "weights", inputs[2]),
    ]


def heads(queries):
    """attention with rows as a cache has them."""
    nodes = [node("transpose", i, name=i + "t", perm=[1, 0, 2]) for i in ("q", "k", "v")]
    nodes += [node("attention", "qt", "kt", "vt", name="a"), node("transpose", "a", perm=[1, 0, 2])]
    return ({"q": [queries, 2, 19], "k": ["m", 2, 19], "v": ["m", 2, 19]}, {}, nodes)


def table(rows, blocks):
    """Rows of blocks in q8_0: a scale of about 0.01 and 32 bytes."""
    data = [b for i in range(rows * blocks) for b in (0x1F, 0x21, *(37 * (i + j) % 256 for j in range(32)))]
    return {"dtype": "u8", "shape": [rows, blocks, 34], "data": data}


def image(channels, *nodes, **weights):
    return ({"x": ["m", channels, 9, 10]}, weights, list(nodes))


DENSE = [node("matmul", "x", "w", name="p"), node("add", "p", "b", name="s"), node("tanh", "s")]
# name: inputs, weights, nodes, sizes, share of the writes at most at the first size (0: not checked)
CASES = {
    "elements": (
        {"x": ["m", 37]},
        {"w": [37]},
        [node("mul", "x", "w", name="a"), node("gelu", "a")],
        [3, 40],
        0.1,
    ),
    "product": (
        {"x": ["m", 40]},
        {"w": [40, 50], "b": [50]},
        DENSE,
        [2, 1, 7, 31, 60, 61],
        0.25,
    ),
    "product by rows": (
        {"x": ["m", 600]},
        {"w": [600, 90]},
        [node("matmul", "x", "w")],
        [4, 16, 33, 59],
        0.25,
    ),
    "large product": ({"x": ["m", 300]}, {"w": [300, 310], "b": [310]}, DENSE, [5, 40], 0.25),
    "several rows": ({"x": ["m", 3, 40]}, {"w": [40, 35]}, [node("matmul", "x", "w")], [1, 5, 29], 0.25),
    "scores by rows": (
        {i: ["m", 3, 20] for i in "qkv"},
        {},
        [
            node("transpose", "q", name="qt", perm=[1, 0, 2]),
            node("transpose", "k", name="kt", perm=[1, 2, 0]),
        ]
        + [node("transpose", "v", name="vt", perm=[1, 0, 2]), node("matmul", "qt", "kt", name="s")]
        + [node("mul", "s", 0.2, name="d"), node("softmax", "d", name="p"), node("matmul", "p", "vt")],
        [1, 6, 47],
        0,
    ),
    "attention in pieces": ({"x": [2, "m", 24]}, {}, mix("x", "x", "x"), [3, 17, 48], 0),
    "softmax": ({"x": ["m", 70]}, {}, [node("softmax", "x")], [5], 0.2),
    "softmax along": ({"x": [6, "m"]}, {}, [node("softmax", "x")], [1, 16, 43], 0),
    "norm": (
        {"x": ["m", 70]},
        {"s": [70], "b": [70]},
        [node("layer_norm", "x", "s", "b", name="n"), node("rms_norm", "n", "s")],
        [5],
        0.2,
    ),
    "norm along": ({"x": [3, 4, "m"]}, {}, [node("layer_norm", "x")], [2, 33], 0),
    "sums": (
        {"x": ["m", 90]},
        {},
        [
            node("reduce_sum", "x", name="a", axes=[0]),
            node("reduce_max", "x", name="b", axes=[0]),
            node("reduce_sum", "x", name="c", axes=[1], keepdims=True),
            node("reduce_mean", "x", name="d", axes=[0]),
            node("mul", "x", "c", name="e"),
            node("add", "a", "b", name="f"),
            node("add", "f", "d", name="g"),
            node("add", "e", "g"),
        ],
        [3, 50],
        0,
    ),
    "one query": (*heads(1), [4, 55], 0),
    "some queries": (*heads(13), [9, 61], 0),
    "all queries": (*heads("m"), [1, 7, 8, 30, 59], 0),
    "rows of blocks": (
        {"x": ["m"]},
        {"table": table(40, 4), "w": table(48, 4)},
        [
            node("abs", "x", name="a"),
            node("mul", "a", 39.5, name="s"),
            node("cast", "s", name="i", to="i64"),
            node("gather", "table", "i", name="g", axis=0),
            node("block_decode", "g", name="d", format="q8_0"),
            node("block_matmul", "d", "w", format="q8_0"),
        ],
        [3, 8, 40],
        0.45,
    ),
    "convolution": (
        *image(
            16,
            node("conv", "x", "w", "b", name="c", pads=[1, 1, 1, 1]),
            node("relu", "c"),
            w=[24, 16, 3, 3],
            b=[24],
        ),
        [1, 3],
        0.4,
    ),
    "many images": (
        {"x": ["m", 32, 20, 21]},
        {"w": [32, 32, 3, 3], "d": [32, 1, 3, 3]},
        [
            node("conv", "x", "w", name="c", pads=[1, 1, 1, 1]),
            node("relu", "c", name="r"),
            node("conv", "r", "d", name="d2", group=32, pads=[1, 1, 1, 1]),
            node("conv", "d2", "w", strides=[2, 2]),
        ],
        [2],
        0.6,
    ),
    "strides": (*image(5, node("conv", "x", "w", strides=[2, 2]), w=[24, 5, 3, 3]), [1, 4], 0.4),
    "depthwise": (
        *image(16, node("conv", "x", "w", group=16, pads=[1, 1, 1, 1]), w=[16, 1, 3, 3]),
        [1, 4],
        0.4,
    ),
    "pixels": (*image(16, node("conv", "x", "w"), w=[24, 16, 1, 1]), [1, 4], 0.4),
    "pools": (
        *image(16, node("max_pool", "x", name="a", kernel=[2, 2]), node("avg_pool", "a", kernel=[3, 3])),
        [1, 4],
        0.4,
    ),
}


def graph(folder, case):
    inputs, weights, nodes = case[:3]
    most = 5 if len(next(iter(inputs.values()))) == 4 else MOST
    text = {
        "rlxc": 1,
        "name": "trim",
        "symbols": {"m": {"min": 0, "max": most}},
        "inputs": {k: {"dtype": "f32", "shape": s} for k, s in inputs.items()},
        "weights": {},
        "nodes": nodes,
        "outputs": ["y"],
    }
    text["weights"] |= {key: w for key, w in weights.items() if isinstance(w, dict)}
    for key, shape in weights.items():
        if key in text["weights"]:
            continue
        n = 1
        for d in shape:
            n *= d
        text["weights"][key] = {
            "dtype": "f32",
            "shape": shape,
            "data": [random.gauss(0, 0.3) for _ in range(n)],
        }
    path = os.path.join(folder, "trim.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(text, f)
    return path, most


def run(command, folder):
    r = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=folder)
    if r.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {r.returncode}: {r.stdout}{r.stderr}")
    return r.stdout


def compile_one(rlxc, folder, path, name, *options):
    run([rlxc, "compile", path, "-o", ".", "--name", name, "--cpu", "native", "--api", "full",
         *options], folder)
    flags = flags_of(os.path.join(folder, name + ".c"), "-O1")
    run([os.environ.get("CC", "cc"), *flags, "-c", name + ".c"], folder)
    return flags


def measure(rlxc, folder, path, size, flags):
    compile_one(rlxc, folder, path, "exact", "--dim", f"m={size}")
    main = os.path.join(os.path.dirname(os.path.abspath(__file__)), "trim_test.c")
    cc = [os.environ.get("CC", "cc"), *flags, f"-DSIZE={size}", "-I.", main]
    run([*cc, "exact.o", "open.o", "-o", "trim", "-lm", "-pthread"], folder)
    error, written = run([os.path.join(folder, "trim")], folder).split()
    return float(error), int(written)


def check(rlxc, folder, case, threads):
    """What is wrong with a case, or an empty text."""
    path, most = graph(folder, case)
    options = ["--dim", f"m=0..{most}"] + (["--threads", "3"] if threads else [])
    flags = compile_one(rlxc, folder, path, "open", *options)
    wrong, share = "", case[4]
    written = {}
    for size in case[3][:1] + [most] if threads else case[3] + [most]:
        error, written[size] = measure(rlxc, folder, path, size, flags)
        if not error < 1e-5:
            wrong += f"m = {size}: error {error}\n"
    first = case[3][0]
    if share and not threads and written[first] > share * written[most]:
        wrong += f"m = {first} writes {written[first]} words, {most} writes {written[most]}\n"
    return wrong


def main():
    rlxc = os.path.abspath(sys.argv[1])
    only = sys.argv[2:]
    failures, number = 0, 0
    runs = [(n, False) for n in CASES]
    runs += [(n, True) for n in ("large product", "convolution", "all queries", "many images")]
    runs = [r for r in runs if r[0] in only] if only else part_of(runs, 2)
    print(f"1..{len(runs)}")
    random.seed(5)
    with tempfile.TemporaryDirectory() as folder:
        for name, threads in runs:
            number += 1
            try:
                wrong = check(rlxc, folder, CASES[name], threads)
            except RuntimeError as e:
                wrong = str(e)
            failures += bool(wrong)
            print(
                "not ok" if wrong else "ok", number, "-", name, "by threads" if threads else "", flush=True
            )
            if wrong:
                print("# " + wrong.strip().replace("\n", "\n# "), flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
