# SPDX-License-Identifier: Apache-2.0
"""Models whose pages are tested: a large one, one with a loop, one whose names are an attack."""

import json

HOSTILE = '</script><img src=x onerror="alert(1)"><!--<script>\'&quot;\u2028'

BARE = """graph "bare" {
  %1 = input "x" : f32[4]
  %2 = input "unused" : f32[4]
  %3 = const : f32[4] = {1.0, 2.0, 3.0, 4.0}
  output "same" = %1
  output "fixed" = %3
}
"""
LOOP = """graph "turns" {
  %1 = input "x" : f32[64, 64]
  %2 = const : i64[] = {3}
  %3 = const : bool[] = {true}
  %4 = loop(%2, %3, %1) {carried = 1, body = graph "body" {
    %1 = input "i" : i64[]
    %2 = input "go" : bool[]
    %3 = input "x" : f32[64, 64]
    %4 = matmul(%3, %3)
    %5 = tanh(%4)
    output "go" = %2
    output "x" = %5
  }}
  output "y" = %4
}
"""


def write(path, document):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(document, f)
    return path


def tower(path, blocks):
    """A convolutional network with branches, gates and residuals: nine nodes a block."""
    weights, nodes = {}, []
    for b in range(blocks):
        x = "image" if b == 0 else f"block{b - 1}.out"
        for k, size in ("a", 3), ("b", 1), ("c", 3):
            weights[f"block{b}.{k}"] = {
                "dtype": "f32",
                "shape": [8, 8, size, size],
                "data": [0.01] * (64 * size**2),
            }
        conv = [("a", x, 1), ("b", x, 0), ("c", f"block{b}.gated", 1)]
        node = lambda name, op, *inputs, **more: nodes.append(  # noqa: E731
            {"name": f"block{b}.{name}", "op": op, "inputs": list(inputs), **more}
        )
        for k, source, pad in conv[:2]:
            node("conv_" + k, "conv", source, f"block{b}.{k}", pads=[pad] * 4)
        node("relu", "relu", f"block{b}.conv_a")
        node("gate", "sigmoid", f"block{b}.conv_b")
        node("gated", "mul", f"block{b}.relu", f"block{b}.gate")
        node("conv_c", "conv", f"block{b}.gated", f"block{b}.c", pads=[1] * 4)
        node("tanh", "tanh", f"block{b}.conv_c")
        node("half", "mul", f"block{b}.tanh", 0.5)
        node("out", "add", f"block{b}.half", x)
    return write(path, {
        "rlxc": 1, "name": "tower", "inputs": {"image": {"dtype": "f32", "shape": [1, 8, 16, 16]}},
        "weights": weights, "nodes": nodes, "outputs": [f"block{blocks - 1}.out"],
    })  # fmt: skip


def hostile(path):
    """An ONNX-like graph may call its values anything."""
    nodes = [
        {"name": HOSTILE, "op": "relu", "inputs": ["x"]},
        {"name": HOSTILE + "2", "op": "matmul", "inputs": [HOSTILE, HOSTILE]},
    ]
    return write(path, {
        "rlxc": 1, "name": "hostile", "inputs": {"x": {"dtype": "f32", "shape": [4, 4]}},
        "nodes": nodes, "outputs": {HOSTILE: HOSTILE + "2"},
    })  # fmt: skip


def text(path, graph):
    with open(path, "w") as f:
        f.write(graph)
    return path


def loop(path):
    """Three iterations of a product and a tanh."""
    return text(path, LOOP)


def bare(path):
    """Nothing is computed: an input and a constant are outputs, another input is not used."""
    return text(path, BARE)
