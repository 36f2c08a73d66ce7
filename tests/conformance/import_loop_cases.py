# SPDX-License-Identifier: Apache-2.0
"""Loops as exporters write them, for import_cases.py."""

import numpy as np
from onnx import helper


def floats(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def case_counted_while(rng):
    """A loop without a trip count whose condition compares a counter with a size, as exporters of Keras write
    recurrent layers, and that keeps rows."""
    info, size = helper.make_tensor_value_info, int(rng.integers(2, 7))
    body = helper.make_graph(
        [helper.make_node("Constant", [], ["one"], value_int=1),
         helper.make_node("Add", ["at", "one"], ["next"]),
         helper.make_node("Gather", ["x", "at"], ["row"], axis=0),
         helper.make_node("Add", ["row", "h"], ["sum"]),
         helper.make_node("Tanh", ["sum"], ["h2"]),
         helper.make_node("Cast", ["next"], ["a"], to=1),
         helper.make_node("Cast", ["limit"], ["b"], to=1),
         helper.make_node("Less", ["a", "b"], ["on"]),
         helper.make_node("Identity", ["limit"], ["limit2"]),
         helper.make_node("Identity", ["h2"], ["out"])],
        "body",
        [info("i", 7, []), info("go", 9, []), info("at", 7, []), info("h", 1, [3]), info("limit", 7, [])],
        [info("on", 9, []), info("next", 7, []), info("h2", 1, [3]), info("limit2", 7, []),
         info("out", 1, [3])])
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Constant", [], ["zero"], value_int=0),
        helper.make_node("Gather", ["shape", "zero"], ["size"], axis=0),
        helper.make_node("Less", ["zero", "size"], ["first"]),
        helper.make_node("Constant", [], ["h0"], value_floats=[0.0, 0.0, 0.0]),
        helper.make_node("Loop", ["", "first", "zero", "h0", "size"], ["n", "y0", "m", "y1"], body=body),
    ]
    x, h, rows = floats(rng, size, 3), np.zeros(3, np.float32), []
    for row in x:
        h = np.tanh(row + h)
        rows.append(h)
    return nodes, {"x": x}, 2, {"": 17}, 1e-5, [h, np.stack(rows)]


def case_rows_set_in_loop(rng):
    """As Paddle exports loops: a counter that begins as a list of one number, values that have another shape
    before the first iteration, and a row that is set by Slice, Range, Tile and ScatterElements."""
    info, rows, stop = helper.make_tensor_value_info, 6, float(rng.integers(2, 6))

    def const(name, **value):
        return helper.make_node("Constant", [], [name], **value)

    body = helper.make_graph(
        [const("one", value_ints=[1]), const("size", value_ints=[rows]), const("zero", value_ints=[0]),
         const("ones", value_ints=[1, 3]),
         helper.make_node("Reshape", ["at", "one"], ["from"]),
         helper.make_node("Add", ["from", "one"], ["after"]),
         helper.make_node("Min", ["size", "after"], ["to"]),
         helper.make_node("Slice", ["all", "from", "to", "zero", "one"], ["part"]),
         helper.make_node("Shape", ["part"], ["shape"]),
         helper.make_node("Cast", ["at"], ["f"], to=1),
         helper.make_node("Add", ["x", "f"], ["value"]),
         helper.make_node("Expand", ["value", "shape"], ["updates"]),
         helper.make_node("Squeeze", ["from"], ["from0"]),
         helper.make_node("Squeeze", ["to"], ["to0"]),
         helper.make_node("Squeeze", ["one"], ["one0"]),
         helper.make_node("Range", ["from0", "to0", "one0"], ["range"]),
         const("column", value_ints=[-1, 1]),
         helper.make_node("Reshape", ["range", "column"], ["range2"]),
         helper.make_node("Tile", ["range2", "ones"], ["places"]),
         helper.make_node("ScatterElements", ["all", "places", "updates"], ["all2"], axis=0),
         helper.make_node("Squeeze", ["after"], ["next"]),
         helper.make_node("Cast", ["next"], ["count"], to=1),
         const("stop", value_float=stop),
         helper.make_node("Less", ["count", "stop"], ["on"])],
        "body",
        [info("i", 7, []), info("go", 9, []), info("at", 7, None), info("all", 1, [rows, 3]),
         info("late", 1, None)],
        [info("on", 9, []), info("next", 7, None), info("all2", 1, [rows, 3]), info("value", 1, None)])
    nodes = [
        const("most", value_int=100), const("begin", value_ints=[0]), const("yes", value_float=1.0),
        helper.make_node("Cast", ["yes"], ["first"], to=9),
        const("none", value_floats=[0.0]),
        helper.make_node("Mul", ["table", "table"], ["square"]),
        helper.make_node("Loop", ["most", "first", "begin", "square", "none"], ["n", "y0", "y1"], body=body),
    ]
    x, table = floats(rng, 1, 3), floats(rng, rows, 3)
    out = table * table
    for k in range(int(stop)):
        out[k] = x + k
    return nodes, {"x": x, "table": table}, 2, {"": 17}, 1e-5, [out, x + (stop - 1)]
