# SPDX-License-Identifier: Apache-2.0
"""What the case generators of eval_vs_onnx.py share: a case, and random choices that one seed repeats."""

import numpy as np
from onnx import helper

NAMES = {
    "float32": "f32",
    "float64": "f64",
    "float16": "f16",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint64": "u64",
    "uint32": "u32",
    "uint16": "u16",
    "uint8": "u8",
    "bool": "bool",
}
rng = np.random.default_rng()


def seed(*words):
    rng.bit_generator.state = np.random.default_rng(words).bit_generator.state


class Case:
    """One op: operands (None = absent), its attributes in our text, and the ONNX nodes that mean the same."""

    def __init__(self, op, operands, attrs, nodes, results=1, feeds=None, opset=22, exact=False):
        self.op, self.operands, self.attrs, self.nodes, self.exact = op, operands, attrs, nodes, exact
        self.results, self.opset = results, opset
        self.feeds = {f"x{i}": v for i, v in enumerate(operands) if v is not None}
        self.feeds.update(feeds or {})


def node(op, inputs, outputs="y0", **attrs):
    return helper.make_node(op, inputs.split(","), outputs.split(","), **attrs)


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def pick(*choices):
    return choices[rng.integers(len(choices))]


def between(lo, hi):
    return int(rng.integers(lo, hi + 1))


def flag(v):
    return "true" if v else "false"
