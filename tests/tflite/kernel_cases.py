# SPDX-License-Identifier: Apache-2.0
"""Models of the operators that tflite-micro's tests of kernels run (tflm/kernel_runner.cc writes them)."""

import math
import struct

import flatbuffer
from case import Case

TYPES = {number: name for name, (number, _) in flatbuffer.TYPES.items()}
# Operators all of whose operands are inputs of the model; of others it is the first one, and the rest are
# constants, as in most files.
ALL_INPUTS = {
    0,
    2,
    18,
    36,
    41,
    42,
    55,
    57,
    58,
    61,
    62,
    63,
    71,
    72,
    83,
    84,
    86,
    90,
    95,
    99,
    106,
    107,
    123,
    126,
}
# Others with another input than the first one.
INPUTS = {7: {0, 1}, 49: {1}, 67: {2}, 94: {1}, 145: set(), 151: {0, 1}}
SPLITS = {49: 35, 102: 79}  # and their tables of options, which tests leave out


class Tensor:
    def __init__(self, words):
        self.index = int(words[0])
        self.type = TYPES.get(int(words[1]))
        self.is_variable = words[2] == "1"
        self.shape = [int(word) for word in words[3:]]
        self.axis, self.scales, self.zeros, self.data = 0, [], [], b""

    def quantisation(self):
        if not self.scales or self.type in ("f32", "bool"):
            return {}
        return {"scale": self.scales, "zero": self.zeros, "axis": self.axis}


class Run:
    """One run of an operator."""

    def __init__(self):
        self.code, self.table = 0, 0
        self.options, self.inputs, self.outputs = {}, [], []

    def take(self, word, rest):
        if word == "op":
            self.code = int(rest[0])
        elif word == "table":
            self.table = int(rest[0])
        elif word == "option":
            self.options[int(rest[0])] = option(rest[1], rest[2:])
        elif word in ("in", "out"):
            (self.inputs if word == "in" else self.outputs).append(
                None if rest[0] == "none" else Tensor(rest)
            )
        else:
            self.take_part((self.outputs or self.inputs)[-1], word, rest)

    @staticmethod
    def take_part(tensor, word, rest):
        if word == "axis":
            tensor.axis = int(rest[0])
        elif word == "scale":
            tensor.scales.append(float(rest[0]))
            tensor.zeros.append(int(rest[1]))
        else:
            tensor.data = bytes.fromhex(rest[0]) if rest else b""

    def is_input(self, i):
        return i in INPUTS.get(self.code, {0}) or self.code in ALL_INPUTS


def option(kind, words):
    if kind == "list":
        return ("list", "i32", [int(word) for word in words])
    return (kind, float(words[0]) if kind == "f32" else int(float(words[0])))


def read(text):
    """The runs of a text; with a state there may be several."""
    runs = [Run()]
    for line in text.splitlines():
        word, *rest = line.split(" ")
        if word == "next":
            runs.append(Run())
        else:
            runs[-1].take(word, rest)
    return runs


def unpack(type_name, data, shape):
    count = math.prod(shape)
    if not data:
        return [0] * count  # what does not matter
    if type_name == "i4":
        found = [b >> part & 15 for b in data for part in (0, 4)][:count]
        return [v - 16 if v > 7 else v for v in found]
    return list(struct.unpack_from(f"<{count}{flatbuffer.TYPES[type_name][1]}", data))


class KernelCase(Case):
    """The runs of a text as a model: operators that have one memory. The last one's results are outputs."""

    def __init__(self, name, runs, model):
        super().__init__(name, model)
        self.made = {}  # of variables and constants, by their number
        self.expected = []
        for run in runs:
            self.add(run, run is runs[-1])

    def add(self, run, is_last):
        unknown = [t for t in run.inputs + run.outputs if t and t.type is None]
        if unknown:
            raise ValueError("an element type that rlxc does not have")
        if run.code in SPLITS and not run.options:
            run.table, run.options = SPLITS[run.code], {0: ("i32", len(run.outputs))}
        if run.code == 77 and not run.options:
            run.table, run.options = 55, {0: ("i8", flatbuffer.TYPES[run.outputs[0].type][0])}
        inputs = [-1 if t is None else self.operand(run, i, t) for i, t in enumerate(run.inputs)]
        outputs = [self.outcome(t, is_last) for t in run.outputs]
        self.op(run.code, inputs, outputs, run.table, run.options)

    def operand(self, run, i, t):
        if t.is_variable:
            if t.index not in self.made:
                if any(t.data):
                    raise ValueError("error: a memory that begins with other values than zeros")
                self.made[t.index] = self.graph.tensor(
                    f"{self.prefix}v{t.index}", t.type, t.shape, variable=True, **t.quantisation()
                )
            return self.made[t.index]
        values = unpack(t.type, t.data, t.shape)
        if run.is_input(i) and t.type != "i4":
            return self.x(t.type, t.shape, values=values, **t.quantisation())
        return self.c(t.type, t.shape, values, **t.quantisation())

    def outcome(self, t, is_last):
        if is_last:
            self.expected.append((t.shape, None))
            return self.y(t.type, t.shape, **t.quantisation())
        name = f"{self.prefix}t{len(self.graph.tensors)}"
        return self.graph.tensor(name, t.type, t.shape, **t.quantisation())


def build(name, text, model=None):
    return KernelCase(name, read(text), model)
