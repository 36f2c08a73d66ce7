# SPDX-License-Identifier: Apache-2.0
"""Operators that move elements, and files whose nodes are not sorted, for import_cases.py."""

import numpy as np
from onnx import AttributeProto, helper

from import_loop_cases import floats


def case_squeeze_none(rng):
    """An empty list of axes, as an operand and as an attribute."""
    axes = helper.make_node("Constant", [], ["axes"], value=helper.make_tensor("a", 7, [0], []))
    x = floats(rng, *rng.integers(1, 3, 4))
    if rng.random() < 0.5:
        return [axes, helper.make_node("Squeeze", ["x", "axes"], ["y0"])], {"x": x}, 1, {"": 17}, 0
    node = helper.make_node("Squeeze", ["x"], ["y0"])
    node.attribute.append(helper.make_attribute("axes", [], attr_type=AttributeProto.INTS))
    return [node], {"x": x}, 1, {"": 11}, 0


# --- pads ---


def case_pad(rng):
    """Of any sign, known or set at run time: then the model declares the shape that comes of them."""
    mode = ["constant", "reflect", "edge", "wrap"][rng.integers(4)]
    shape = rng.integers(3, 6, int(rng.integers(1, 4)))
    pads = np.zeros((2, len(shape)), np.int64)
    for axis, size in enumerate(shape):
        cut = rng.integers(0, 3, 2) * (rng.random(2) < 0.5)
        cut[1] = min(cut[1], size - 1 - cut[0])
        most = {"reflect": size - cut.sum() - 1, "wrap": size - cut.sum()}.get(mode, 4)
        pads[:, axis] = np.where(cut > 0, -cut, rng.integers(0, most + 1, 2))
    x = floats(rng, *shape)
    given = {"x": x, "pads": pads.reshape(-1)}
    node = helper.make_node("Pad", ["x", "pads"], ["y0"], mode=mode)
    if rng.random() < 0.5:
        return [node], given, [(shape + pads.sum(0)).tolist()], {"": 19}, 0
    known = helper.make_node("Constant", [], ["pads"], value_ints=given.pop("pads").tolist())
    return [known, node], given, 1, {"": 19}, 0


# --- files that are not sorted ---


def case_unsorted(rng):
    """Nodes in any order, also those of branches and bodies (which ONNX Runtime does not sort)."""
    def branch(name, ops):
        names = ["h", *(f"{name}{i}" for i in range(1, len(ops))), name]
        nodes = [helper.make_node(op, [names[i]], [names[i + 1]]) for i, op in enumerate(ops)]
        return helper.make_graph([nodes[k] for k in rng.permutation(len(nodes))], name, [],
                                 [helper.make_empty_tensor_value_info(name)])

    def body():
        nodes = [helper.make_node("Add", ["before", "h"], ["next"]),
                 helper.make_node("Identity", ["go"], ["on"]),
                 helper.make_node("Mul", ["next", "h2"], ["after"])]
        info = helper.make_tensor_value_info
        inputs = [info("i", 7, []), info("go", 9, []), info("before", 1, [3, 4])]
        outputs = [info("on", 9, []), info("after", 1, [3, 4])]
        return helper.make_graph([nodes[k] for k in rng.permutation(3)], "body", inputs, outputs)

    nodes = [
        helper.make_node("Tanh", ["x"], ["h"]),
        helper.make_node("Sigmoid", ["h"], ["h2"]),
        helper.make_node("ReduceSum", ["h2"], ["s"], keepdims=0),
        helper.make_node("Constant", [], ["six"], value_float=6.0),
        helper.make_node("Greater", ["s", "six"], ["cond"]),
        helper.make_node("If", ["cond"], ["chosen"], then_branch=branch("t", ["Neg", "Exp", "Sqrt"]),
                         else_branch=branch("e", ["Exp", "Neg"])),
        helper.make_node("Constant", [], ["three"], value_int=3),
        helper.make_node("Loop", ["three", "", "chosen"], ["y0"], body=body()),
        helper.make_node("Add", ["chosen", "h2"], ["y1"]),
    ]
    x = floats(rng, 3, 4)
    h = np.tanh(x)
    h2 = 1 / (1 + np.exp(-h))
    chosen = after = np.sqrt(np.exp(-h)) if h2.sum() > 6 else -np.exp(h)
    for _ in range(3):
        after = (after + h) * h2
    shuffled = [nodes[k] for k in rng.permutation(len(nodes))]
    return shuffled, {"x": x}, 2, {"": 17}, 1e-5, [after, chosen + h2]


def case_unsorted_chain(rng):
    """As ONNX Runtime sorts it."""
    nodes = [helper.make_node(op, [f"h{i}" if i else "x"], [f"h{i + 1}" if i < 7 else "y0"])
             for i, op in enumerate(["Tanh", "Neg", "Exp", "Sqrt", "Relu", "Abs", "Sigmoid", "Cos"])]
    return [nodes[k] for k in rng.permutation(8)], {"x": floats(rng, 2, 3)}, 1, {"": 17}, 1e-5


def case_col2im(rng):
    """Blocks side by side half of the time, else with any strides."""
    axes, batch, channels = int(rng.integers(1, 3)), int(rng.integers(1, 3)), int(rng.integers(1, 4))
    kernel, blocks = rng.integers(1, 4, axes), rng.integers(1, 5, axes)
    stride = kernel if rng.random() < 0.5 else rng.integers(1, 4, axes)
    image = (blocks - 1) * stride + kernel + (rng.random(axes) < 0.2)
    count = np.prod((image - kernel) // stride + 1)
    x = rng.standard_normal((batch, channels * int(np.prod(kernel)), int(count))).astype(np.float32)
    nodes = [
        helper.make_node("Constant", [], ["size"], value_ints=[int(v) for v in image]),
        helper.make_node("Constant", [], ["block"], value_ints=[int(v) for v in kernel]),
        helper.make_node("Col2Im", ["x", "size", "block"], ["y0"], strides=[int(v) for v in stride]),
    ]
    return nodes, {"x": x}, 1, {"": 18}, 1e-6
