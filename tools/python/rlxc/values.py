# SPDX-License-Identifier: Apache-2.0
"""What a model calls an input or output, and the tensors of the generated code that it is made of.

The compiler's report describes both as its "interface": a tensor is one tensor, a sequence one for each
element, an optional what it holds or nothing. Strings are bytes, with their room as one more axis, filled
up with zeros.
"""
import numpy as np

from rlxc.errors import RunError


def is_text(array):
    return array.dtype.kind in "OUST"


def as_value(value):
    """What a caller gives: an array, a list or tuple of values, or None."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [as_value(v) for v in value]
    return np.asarray(value)


def arrays_in(value):
    """All arrays of a value."""
    if value is None:
        return []
    return [a for v in value for a in arrays_in(v)] if isinstance(value, list) else [value]


# --- strings -------------------------------------------------------------------------------------

def to_bytes(text):
    return text if isinstance(text, bytes) else str(text).encode("utf-8")


def longest(value):
    """Bytes of the longest string in a value."""
    texts = (s for a in arrays_in(value) if is_text(a) for s in a.reshape(-1).tolist())
    return max((len(to_bytes(s)) for s in texts), default=0)


def encode(array, shape):
    """Strings as bytes of the shape [..., room]."""
    out = np.zeros(shape, np.uint8)
    rows = out.reshape(-1, shape[-1])
    for row, text in zip(rows, array.reshape(-1).tolist(), strict=True):
        data = np.frombuffer(to_bytes(text), np.uint8)
        if data.size > shape[-1]:
            raise RunError(f"a string of {data.size} bytes; there is room for {shape[-1]}", "ERR_SIZE")
        row[:data.size] = data
    return out


def decode(data):
    """Bytes [..., room] as an array of str."""
    out = np.empty(data.shape[:-1], object)
    rows = data.reshape(-1, data.shape[-1])
    out.reshape(-1)[:] = [row.tobytes().rstrip(b"\0").decode("utf-8", "replace") for row in rows]
    return out


# --- inputs and outputs --------------------------------------------------------------------------

def split(io, value):
    """{tensor: array} of an input, or None when the value has another structure than the program expects."""
    kind = io["kind"]
    if kind == "optional":
        if (value is not None) != io["has_value"]:
            return None
        if value is None:
            return {}
        kind = io["of"]
    if (kind == "sequence") != isinstance(value, list) or value is None:
        return None
    parts = value if kind == "sequence" else [value]
    if len(parts) != len(io["tensors"]) or any(not isinstance(p, np.ndarray) for p in parts):
        return None
    return dict(zip(io["tensors"], parts, strict=True))


def fits(io, tensor, array):
    """Has the array the shape (and, for strings, the room) of the tensor?"""
    if io["element"] != "string":
        return array.shape == tensor.shape
    return array.shape == tensor.shape[:-1] and longest(array) <= tensor.shape[-1]


def convert(io, tensor, array):
    """The array as the generated code wants it."""
    if (io["element"] == "string") != is_text(array):
        raise RunError(f"input {tensor}: got {array.dtype}{list(array.shape)}", "ERR_DTYPE")
    if io["element"] == "string":
        return encode(array, tensor.shape)
    if array.dtype != tensor.dtype:
        raise RunError(f"input {tensor}: got {array.dtype}{list(array.shape)}", "ERR_DTYPE")
    return array


def maps(keys, array):
    """Rows of scores as dicts by label, as ONNX Runtime returns what ZipMap makes."""
    return [dict(zip(keys, row, strict=True)) for row in array.reshape(-1, len(keys)).tolist()]


def join(io, arrays):
    """The value of an output from {tensor: array}."""
    if "keys" in io:
        return maps(io["keys"], arrays[io["tensors"][0]])
    parts = [arrays[name] for name in io["tensors"]]
    if io["element"] == "string":
        parts = [decode(p) for p in parts]
    kind = io["kind"]
    if kind == "optional":
        if not io["has_value"]:
            return None
        kind = io["of"]
    return parts if kind == "sequence" else parts[0]
