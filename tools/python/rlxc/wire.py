# SPDX-License-Identifier: Apache-2.0
"""Reads what an ONNX file says about its inputs and outputs, without the package onnx.

Only the few fields of ModelProto that lead to graph.input are decoded; everything else, weights too, is
skipped over. A file that cannot be read this way gives no interface: the compiler will say what is wrong
with it.
"""
from typing import NamedTuple


class Value(NamedTuple):
    """An input of a graph. kind: tensor, sequence, optional or other.

    dims: of the tensor, or of the tensors in a sequence or optional, each a number, a name, or None.
    """
    name: str
    kind: str
    elem_type: int
    dims: tuple | None


def varint(data, at):
    value, shift = 0, 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("varint too long")


def fields(data, begin, end):
    """(number, value) of every field; value is an int or the (begin, end) of bytes."""
    at = begin
    while at < end:
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            n, at = varint(data, at)
            value, at = (at, at + n), at + n
        elif kind in (1, 5):
            n = 8 if kind == 1 else 4
            value, at = (at, at + n), at + n
        else:
            raise ValueError("unknown wire type")
        if at > end:
            raise ValueError("field past the end")
        yield key >> 3, value


def text(data, span):
    return bytes(data[span[0]:span[1]]).decode("utf-8", "replace")


def read_dim(data, span):
    for number, value in fields(data, *span):
        if number == 1:
            return value - (1 << 64) if value >> 63 else value
        if number == 2:
            return text(data, value) or None
    return None


def read_tensor_type(data, span):
    elem, dims = 0, None
    for number, value in fields(data, *span):
        if number == 1:
            elem = value
        elif number == 2:
            dims = tuple(read_dim(data, v) for n, v in fields(data, *value) if n == 1)
    return elem, dims


def read_type(data, span, depth=0):
    for number, value in fields(data, *span):
        if number == 1:
            return ("tensor", *read_tensor_type(data, value))
        if number in (4, 9) and depth < 4:
            inner = next((v for n, v in fields(data, *value) if n == 1), (0, 0))
            _, elem, dims = read_type(data, inner, depth + 1)
            return ("sequence" if number == 4 else "optional"), elem, dims
    return "other", 0, None


def read_value(data, span):
    name, kind = "", ("other", 0, None)
    for number, value in fields(data, *span):
        if number == 1:
            name = text(data, value)
        elif number == 2:
            kind = read_type(data, value)
    return Value(name, *kind)


def read_graph(data, span):
    inputs, weights = [], set()
    for number, value in fields(data, *span):
        if number == 5:
            weights.update(text(data, v) for n, v in fields(data, *value) if n == 8)
        elif number == 11:
            inputs.append(read_value(data, value))
    return [v for v in inputs if v.name not in weights]


def read_inputs(data):
    """The graph's inputs, without those that are weights; None when the data is no ONNX model."""
    try:
        for number, value in fields(data, 0, len(data)):
            if number == 7 and isinstance(value, tuple):
                return read_graph(data, value)
    except (ValueError, IndexError, TypeError):
        pass
    return None
