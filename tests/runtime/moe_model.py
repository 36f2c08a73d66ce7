# SPDX-License-Identifier: Apache-2.0
"""A model of two layers of experts (5 and 7 experts of three products each, 2 and 3 for every row) whose
weights follow a formula, which moe_test.c has too. Rows are a size that can stay open."""

ROWS = 6


def weight(layer, part, i, width):
    return ((i * 37 + layer * 11 + part * 5 + i // 16) % 17 - 8) / (2 * width)


def constant(layer, part, shape, width):
    n = 1
    for size in shape:
        n *= size
    return {"dtype": "f32", "shape": shape, "data": [weight(layer, part, i, width) for i in range(n)]}


def add_layer(graph, number, x, y, experts, k, sizes):
    width, hidden = sizes
    shapes = {
        f"router{number}": [width, experts],
        f"gate{number}": [experts, width, hidden],
        f"up{number}": [experts, width, hidden],
        f"down{number}": [experts, hidden, width],
    }
    for part, (name, shape) in enumerate(shapes.items()):
        graph["weights"][name] = constant(number, part, shape, width)
    mixed = f"mixed{number}"
    graph["nodes"] += [
        {"name": mixed, "op": "moe", "inputs": [x, *shapes], "k": k},
        {"name": y, "op": "add", "inputs": [x, mixed]},
    ]


def model(width, hidden):
    graph = {
        "rlxc": 1,
        "name": "moe",
        "symbols": {"rows": {"min": 1, "max": ROWS, "default": ROWS}},
        "inputs": {"x": {"dtype": "f32", "shape": ["rows", width]}},
        "weights": {},
        "nodes": [],
        "outputs": ["y", "z"],
    }
    add_layer(graph, 0, "x", "y", 5, 2, (width, hidden))
    add_layer(graph, 1, "y", "z", 7, 3, (width, hidden))
    return graph
