# SPDX-License-Identifier: Apache-2.0
"""What cases of single operators are made of: each is a .tflite model with inputs, built by a function."""

import flatbuffer

RANGES = {"i8": (-128, 127), "u8": (0, 255), "i16": (-32768, 32767), "bool": (0, 1), "i4": (-8, 7)}


class Case:
    """One operator with its tensors. Inputs get numbers of a generator that every machine has."""

    def __init__(self, name, model=None):
        self.name = name
        self.prefix = f"{name}_" if model else ""  # several cases may share a model
        self.model = model or flatbuffer.Model()
        self.graph = self.model.graphs[0] if self.model.graphs else self.model.graph()
        self.feeds = []  # (name, type, shape, values) of inputs
        self.results, self.result_types = [], []  # names and types of outputs
        self.state = sum((i + 1) * b for i, b in enumerate(name.encode())) * 2654435761 % 2**32

    def random(self):
        self.state = (self.state * 1664525 + 1013904223) % 2**32
        return self.state / 2**32

    def values(self, type_name, count, low=None, high=None):
        if type_name in ("f32", "f16"):
            low, high = (-2 if low is None else low), (2 if high is None else high)
            return [round((low + (high - low) * self.random()) * 256) / 256 for _ in range(count)]
        least, most = RANGES.get(type_name, (-1000, 1000))
        low, high = (least if low is None else low), (most if high is None else high)
        return [low + int(self.random() * (high - low + 1)) for _ in range(count)]

    def x(self, type_name, shape, *, low=None, high=None, values=None, **more):
        """An input."""
        name = f"{self.prefix}x{len(self.feeds)}"
        at = self.graph.tensor(name, type_name, shape, **more)
        self.graph.inputs.append(at)
        count = 1
        for size in shape:
            count *= size
        self.feeds.append((name, type_name, shape, values or self.values(type_name, count, low, high)))
        return at

    def c(self, type_name, shape, data=None, *, low=None, high=None, **more):
        """A constant."""
        count = 1
        for size in shape:
            count *= size
        data = self.values(type_name, count, low, high) if data is None else data
        return self.graph.tensor(f"c{len(self.graph.tensors)}", type_name, shape, data=data, **more)

    def y(self, type_name, shape, **more):
        """A result, which is an output."""
        self.results.append(f"{self.prefix}y{len(self.results)}")
        self.result_types.append(type_name)
        at = self.graph.tensor(self.results[-1], type_name, shape, **more)
        self.graph.outputs.append(at)
        return at

    def op(self, number, inputs, outputs, options_type=0, options=None):
        self.graph.operator(number, inputs, outputs, options_type, options)


CASES = []


def case(name, tolerance=0):
    def add(make):
        CASES.append((name, tolerance, make))
        return make

    return add


def make(name, function, model=None):
    """Builds a case, in a model of its own or in one that others are in."""
    c = Case(name, model)
    function(c)
    return c


def i8(n):
    return ("i8", n)


def i32(n):
    return ("i32", n)


def u8(n):
    return ("u8", n)


def f32(v):
    return ("f32", v)


Q = {"scale": 0.05, "zero": -3}
FLOAT = 2e-6
