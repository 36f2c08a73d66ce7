#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes moe.json: two layers of experts (5 and 7 experts of two products each, 2 and 3 for every row) whose
weights follow a formula, which moe_test.c has too. Usage: make_moe.py > moe.json"""

import json

ROWS, WIDTH, HIDDEN = 6, 8, 12


def weight(layer, part, i):
    return ((i * 37 + layer * 11 + part * 5 + i // 16) % 17 - 8) / 16


def constant(layer, part, shape):
    n = 1
    for size in shape:
        n *= size
    return {"dtype": "f32", "shape": shape, "data": [weight(layer, part, i) for i in range(n)]}


def layer(number, x, y, experts, k, params):
    name = lambda what: f"{what}{number}"
    shapes = [
        [WIDTH, experts],
        [experts, WIDTH, HIDDEN],
        [experts, WIDTH, HIDDEN],
        [experts, HIDDEN, WIDTH],
    ]
    for part, (what, shape) in enumerate(zip(("router", "gate", "up", "down"), shapes)):
        params[name(what)] = constant(number, part, shape)
    operands = [x] + [name(what) for what in ("router", "gate", "up", "down")]
    return [
        {"name": name("mixed"), "op": "moe", "inputs": operands, "k": k},
        {"name": y, "op": "add", "inputs": [x, name("mixed")]},
    ]


constants = {}
nodes = layer(0, "x", "y", 5, 2, constants) + layer(1, "y", "z", 7, 3, constants)
print(
    json.dumps(
        {
            "rlxc": 1,
            "name": "moe",
            "inputs": {"x": {"dtype": "f32", "shape": [ROWS, WIDTH]}},
            "weights": constants,
            "nodes": nodes,
            "outputs": ["y", "z"],
        }
    )
)
