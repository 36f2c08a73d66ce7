# SPDX-License-Identifier: Apache-2.0
"""Writes .tflite models for tests: flatbuffers from Python values, without any package.

A table is a dict from field number to value; a value is one of
  ("i8" | "u8" | "i16" | "u16" | "i32" | "u32" | "i64" | "f32", number), a dict (a table), a str,
  ("list", type, [numbers]), ("bytes", bytes), or a list of dicts or strs.
"""

import struct

CODES = {"i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "f32": "f"}
SIZES = {name: struct.calcsize("<" + code) for name, code in CODES.items()}
TYPES = {
    "f32": (0, "f"),
    "f16": (1, "e"),
    "i32": (2, "i"),
    "u8": (3, "B"),
    "i64": (4, "q"),
    "bool": (6, "B"),
    "i16": (7, "h"),
    "complex64": (8, None),
    "i8": (9, "b"),
    "resource": (13, "i"),
    "u32": (15, "I"),
    "i4": (17, None),
}


CUSTOM = 32
VERSIONS = {130: 3}  # operators that have no version 1


def is_number(value):
    return isinstance(value, tuple) and value[0] in CODES


class Writer:
    def __init__(self):
        self.out = bytearray(b"\0\0\0\0TFL3")

    def align(self, size):
        self.out += bytes(-len(self.out) % size)

    def point(self, place, target):
        struct.pack_into("<I", self.out, place, target - place)

    def put(self, value):
        """Appends a value that is reached by an offset, and returns where it stands."""
        if isinstance(value, dict):
            return self.put_table(value)
        if isinstance(value, str):
            return self.put_bytes(value.encode(), b"\0")
        if isinstance(value, tuple) and value[0] == "bytes":
            return self.put_bytes(value[1], b"")
        if isinstance(value, tuple):
            return self.put_numbers(value[1], value[2])
        self.align(4)
        at = len(self.out)
        self.out += struct.pack("<I", len(value)) + bytes(4 * len(value))
        for i, entry in enumerate(value):
            self.point(at + 4 + 4 * i, self.put(entry))
        return at

    def put_bytes(self, data, end):
        self.out += bytes(-(len(self.out) + 4) % 16)
        at = len(self.out)
        self.out += struct.pack("<I", len(data)) + data + end
        return at

    def put_numbers(self, type_name, numbers):
        self.out += bytes(-(len(self.out) + 4) % 8)
        at = len(self.out)
        self.out += struct.pack(f"<I{len(numbers)}{CODES[type_name]}", len(numbers), *numbers)
        return at

    def put_table(self, fields):
        places, size = {}, 4
        for field, value in sorted(fields.items()):
            width = SIZES[value[0]] if is_number(value) else 4
            size += -size % width
            places[field] = size
            size += width
        count = max(fields, default=-1) + 1
        self.align(8)
        entries = [places.get(field, 0) for field in range(count)]
        vtable = struct.pack(f"<HH{count}H", 4 + 2 * count, size, *entries)
        self.out += bytes(-(len(self.out) + len(vtable)) % 8)
        at = len(self.out) + len(vtable)
        self.out += vtable + struct.pack("<i", len(vtable)) + bytes(size - 4)
        for field, value in fields.items():
            place = at + places[field]
            if is_number(value):
                struct.pack_into("<" + CODES[value[0]], self.out, place, value[1])
            else:
                self.point(place, self.put(value))
        return at


def encode(root):
    writer = Writer()
    writer.point(0, writer.put(root))
    return bytes(writer.out)


def pack(type_name, values):
    """The elements of a constant, as bytes."""
    if type_name == "i4":
        values = [*values, 0] if len(values) % 2 else values
        return bytes((a & 15) | (b & 15) << 4 for a, b in zip(values[::2], values[1::2], strict=True))
    return struct.pack(f"<{len(values)}{TYPES[type_name][1]}", *values)


def flex_map(values):
    """A map of FlexBuffers: numbers by name, all of four bytes."""
    out, places = bytearray(), {}
    for name in sorted(values):
        places[name] = len(out)
        out += name.encode() + b"\0"
    out += bytes(-len(out) % 4) + struct.pack("<i", len(values))
    keys = len(out)
    for name in sorted(values):
        out += struct.pack("<i", len(out) - places[name])
    out += struct.pack("<iii", len(out) - keys, 4, len(values))
    start = len(out)
    for name in sorted(values):
        out += struct.pack("<f" if isinstance(values[name], float) else "<i", values[name])
    out += bytes((3 if isinstance(values[name], float) else 1) << 2 | 2 for name in sorted(values))
    out += bytes(-len(out) % 4)
    return bytes(out + struct.pack("<I", len(out) - start) + bytes([9 << 2 | 2, 4]))


class Model:
    """A model with one or more sub-graphs, built tensor by tensor and operator by operator."""

    def __init__(self):
        self.buffers = [{}]
        self.codes = []
        self.graphs = []
        self.signatures = []

    def graph(self):
        graph = Graph(self)
        self.graphs.append(graph)
        return graph

    def code(self, number):
        """number: of a built-in operator, or the name of a custom one."""
        if number not in self.codes:
            self.codes.append(number)
        return self.codes.index(number)

    def encode(self):
        codes = [
            {0: ("i8", CUSTOM), 1: number, 2: ("i32", 1), 3: ("i32", CUSTOM)}
            if isinstance(number, str)
            else {0: ("i8", min(number, 127)), 2: ("i32", VERSIONS.get(number, 1)), 3: ("i32", number)}
            for number in self.codes
        ]
        root = {
            0: ("u32", 3),
            1: codes,
            2: [graph.table() for graph in self.graphs],
            3: "rlxc test",
            4: self.buffers,
        }
        if self.signatures:
            root[7] = self.signatures
        return encode(root)


class Graph:
    def __init__(self, model):
        self.model = model
        self.tensors, self.operators, self.inputs, self.outputs = [], [], [], []

    def tensor(
        self,
        name,
        type_name,
        shape,
        *,
        data=None,
        scale=None,
        zero=None,
        axis=0,
        open_axes=(),
        variable=False,
        sparse=None,
    ):
        """Adds a tensor and returns its number. scale and zero: a number, or a list along `axis`. sparse: the
        table of its levels; data has what exists."""
        fields = {0: ("list", "i32", list(shape)), 1: ("i8", TYPES[type_name][0]), 3: name}
        if data is not None:
            self.model.buffers.append({0: ("bytes", pack(type_name, data))})
            fields[2] = ("u32", len(self.model.buffers) - 1)
        if scale is not None:
            scales = scale if isinstance(scale, list) else [scale]
            zeros = zero if isinstance(zero, list) else [zero or 0] * len(scales)
            fields[4] = {2: ("list", "f32", scales), 3: ("list", "i64", zeros), 6: ("i32", axis)}
        if variable:
            fields[5] = ("i8", 1)
        if sparse:
            fields[6] = sparse
        if open_axes:
            fields[7] = ("list", "i32", [-1 if i in open_axes else n for i, n in enumerate(shape)])
        self.tensors.append(fields)
        return len(self.tensors) - 1

    def operator(self, number, inputs, outputs, options_type=0, options=None, *, at=3):
        """at: the field of the options' type, 3, or 11 for those of the second union."""
        fields = {
            0: ("u32", self.model.code(number)),
            1: ("list", "i32", inputs),
            2: ("list", "i32", outputs),
        }
        if options_type:
            fields[at] = ("u8", options_type)
            fields[at + 1] = options or {}
        if isinstance(number, str) and options:
            fields[5] = ("bytes", options)
        self.operators.append(fields)

    def table(self):
        return {
            0: self.tensors,
            1: ("list", "i32", self.inputs),
            2: ("list", "i32", self.outputs),
            3: self.operators,
            4: "main",
        }
