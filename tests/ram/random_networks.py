# SPDX-License-Identifier: Apache-2.0
"""Random networks for check_random.py, as .tflite models: of 5 to 40 layers, of bytes, of 16-bit
activations, of floats or of several of them, with residuals, joined and divided channels, windows of all
kinds, weights of 4 bits, sizes that change both ways, axes that change places, reductions over one axis, one
to three inputs and one to three outputs."""

import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tflite"))
import flatbuffer  # noqa: E402
from case import f32, i8, i32, u8  # noqa: E402

MOST_ELEMENTS, MOST_CHANNELS, MOST_WEIGHTS = 6000, 40, 6000
SIZES = {"i8": 1, "u8": 1, "i16": 2, "f32": 4}
KINDS = ("i8", "i8", "i8", "i16", "f32", "mixed")  # of a network
SAME, VALID = 0, 1
# Number and type of options of operators.
ADD, SUB, MUL, MAXIMUM, MINIMUM = (0, 11), (41, 28), (18, 21), (55, 39), (57, 39)
UNARY = {"i8": (14, 28, 19, 21, 117, 98), "i16": (14, 28, 19, 21, 98), "f32": (19, 21, 117, 98)}
UNARY_OPTIONS = {98: (75, {0: f32(0.25)})}


class Value:
    def __init__(self, at, kind, shape, scale=0.0, zero=0):
        self.at, self.kind, self.shape, self.scale, self.zero = at, kind, shape, scale, zero

    def quantised(self):
        return {} if self.kind == "f32" else {"scale": self.scale, "zero": self.zero}


def count(shape):
    n = 1
    for size in shape:
        n *= size
    return n


class Network:
    """A model with `inputs` and `outputs`: (name, bytes). is_exact: integers only, the same on each CPU.
    is_wide: all that there is; without, what seeds made that were found before there was more."""

    def __init__(self, seed, is_wide=True):
        self.rng, self.is_wide = random.Random(seed), is_wide
        self.model = flatbuffer.Model()
        self.graph = self.model.graph()
        self.kind = self.rng.choice(KINDS)
        self.inputs, self.outputs, self.values, self.may_turn = [], [], [], False
        self.build()
        self.is_exact = all(value.kind != "f32" for value in self.values)

    # --- tensors ---

    def tensor(self, kind, shape, scale=None, zero=None, **more):
        rng = self.rng
        scale = scale if scale is not None else rng.choice((0.05, 0.0417, 0.0312, 2.0 ** -5))
        if kind == "i16":
            scale, zero = (scale / 100 if scale > 0.01 else scale), 0
        zero = zero if zero is not None else rng.choice((0, -3, 5, -128, 17))
        value = Value(0, kind, list(shape), scale, zero)
        name = f"t{len(self.graph.tensors)}"
        value.at = self.graph.tensor(name, kind, [1, *shape], **value.quantised(), **more)
        return value

    def const(self, kind, shape, low, high, **more):
        values = [self.rng.uniform(low, high) if kind == "f32" else self.rng.randint(low, high)
                  for _ in range(count(shape))]
        return self.data(kind, shape, values, **more)

    def data(self, kind, shape, values, **more):
        return self.graph.tensor(f"t{len(self.graph.tensors)}", kind, list(shape), data=values, **more)

    def op(self, number, inputs, outputs, options_type=0, options=None):
        self.graph.operator(number, [getattr(v, "at", v) for v in inputs], [v.at for v in outputs],
                            options_type, options)
        return outputs[0]

    def as_kind(self, value, kind):
        """The value in another type."""
        if value.kind == kind:
            return value
        made = self.tensor(kind, value.shape)
        if kind == "f32":
            return self.op(6, [value], [made], 38)
        return self.op(114, [value], [made], 89)

    # --- layers ---

    def window(self, value, kernel):
        """Stride, padding, dilation and the size of a result; None: none fits."""
        rng, size = self.rng, value.shape[:2]
        pad = rng.choice((SAME, SAME, SAME, VALID))
        step = rng.random()
        strides = ((2, 1), (1, 2), (3, 2), *(((3, 3), (4, 1)) if self.is_wide else ()))
        dilations = ((2, 2), (1, 2), (3, 1), *(((4, 4),) if self.is_wide else ()))
        stride = (2, 2) if step < 0.15 else rng.choice(strides) if step < 0.22 else (1, 1)
        dilation = (1, 1) if rng.random() < 0.9 or stride != (1, 1) else rng.choice(dilations)
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
        out = [-(-n // s) if pad == SAME else (n - r) // s + 1 for n, s, r in zip(size, stride, reach)]
        if min(out) < 1 or (min(size) < 5 and stride != (1, 1)):
            return None
        return stride, pad, dilation, out

    def weights(self, kind, shape, channels, axis, scale):
        """Weights and a bias for sums of inputs of this type and scale."""
        if kind == "f32":
            return [self.const("f32", shape, -0.5, 0.5), self.const("f32", [channels], -1, 1)]
        rng, taps = self.rng, max(1, count(shape) // channels)
        size = rng.choice((0.02, 0.03)) / taps ** 0.5
        each = [size * rng.uniform(0.5, 1.5) for _ in range(channels)]
        if rng.random() < 0.1:
            each = [2.0 ** -rng.choice((6, 7, 8)) for _ in range(channels)]
        each = each if rng.random() < 0.9 else each[0]
        low = 0 if rng.random() < 0.05 else -127
        is_small = self.is_wide and kind == "i8" and rng.random() < 0.1
        biases = [scale * s for s in each] if isinstance(each, list) else scale * each
        wide = "i64" if kind == "i16" else "i32"
        made = (self.const("i4", shape, -7, 7, scale=each, zero=0, axis=axis) if is_small else
                self.const("i8", shape, low, 127, scale=each, zero=0, axis=axis))
        return [made,
                self.const(wide, [channels], -2000, 2000, scale=biases, zero=0)]

    def conv(self, value, channels, kernel=None, window=None, act=None):
        rng = self.rng
        kernel = kernel or rng.choice(((1, 1), (1, 1), (3, 3), (3, 3), (5, 3), (1, 3), (3, 1), (2, 2)))
        window = window or self.window(value, kernel)
        c = value.shape[2]
        if window is None or count(kernel) * c * channels > MOST_WEIGHTS:
            return None
        stride, pad, dilation, size = window
        groups = rng.choice([n for n in (1, 1, 1, 2, 3, 4) if c % n == 0 and channels % n == 0])
        parts = self.weights(value.kind, [channels, *kernel, c // groups], channels, 0, value.scale)
        made = self.tensor(value.kind, [*size, channels])
        act = rng.choice((0, 1, 1, 3)) if act is None else act
        options = {0: i8(pad), 1: i32(stride[1]), 2: i32(stride[0]), 3: i8(act), 4: i32(dilation[1]),
                   5: i32(dilation[0])}
        return self.op(3, [value, *parts], [made], 1, options)

    def deep(self, value, window=None):
        rng = self.rng
        kernel = rng.choice(((3, 3), (3, 3), (3, 3), (5, 5), (1, 3), (3, 1), (2, 4), (7, 7)))
        window = window or self.window(value, kernel)
        multiplier = 1 if rng.random() < 0.85 else rng.choice((2, 3))
        channels = value.shape[2] * multiplier
        if window is None or channels > MOST_CHANNELS:
            return None
        stride, pad, dilation, size = window
        parts = self.weights(value.kind, [1, *kernel, channels], channels, 3, value.scale)
        made = self.tensor(value.kind, [*size, channels])
        options = {0: i8(pad), 1: i32(stride[1]), 2: i32(stride[0]), 3: i32(multiplier),
                   4: i8(rng.choice((0, 1, 3))), 5: i32(dilation[1]), 6: i32(dilation[0])}
        return self.op(4, [value, *parts], [made], 2, options)

    def block(self, value):
        """As those of MobileNetV2, some with a residual."""
        width = self.rng.choice((12, 16, 24, 40))
        wide = self.conv(value, width, (1, 1), ((1, 1), SAME, (1, 1), value.shape[:2]))
        if wide is None:
            return None
        deep = self.deep(wide)
        if deep is None:
            return None
        c = value.shape[2] if self.rng.random() < 0.5 else self.rng.choice((4, 8, 10))
        narrow = self.conv(deep, c, (1, 1), ((1, 1), SAME, (1, 1), deep.shape[:2]), 0)
        if narrow is not None and narrow.shape == value.shape:
            return self.binary(narrow, value)
        return narrow

    def spread(self, value):
        rng, (h, w, c) = self.rng, value.shape
        kernel, stride, pad = rng.choice(((2, 2), (3, 3), (4, 2))), rng.choice(((2, 2), (1, 2), (2, 1))), \
            rng.choice((SAME, VALID))
        channels = rng.choice((2, 4, 7))
        size = [n * s if pad == SAME else (n - 1) * s + max(k, s) for n, s, k in zip((h, w), stride, kernel)]
        if count(size) * channels > MOST_ELEMENTS or count(kernel) * c * channels > MOST_WEIGHTS:
            return None
        weights, bias = self.weights(value.kind, [channels, *kernel, c], channels, 0, value.scale)
        made = self.tensor(value.kind, [*size, channels])
        shape = self.data("i32", [4], [1, *size, channels])
        options = {0: i8(pad), 1: i32(stride[1]), 2: i32(stride[0])}
        return self.op(67, [shape, weights, value, bias], [made], 49, options)

    def pool(self, value):
        kernel = self.rng.choice(((2, 2), (3, 3), (2, 3), (3, 1)))
        window = self.window(value, kernel)
        if window is None or window[2] != (1, 1) or min(value.shape[:2]) < 3:
            return None
        stride, pad, _, size = window
        if self.rng.random() < 0.5 and min(value.shape[:2]) > 5:
            stride = (2, 2)
            size = [-(-n // 2) if pad == SAME else (n - k) // 2 + 1 for n, k in zip(value.shape, kernel)]
        made = self.tensor(value.kind, [*size, value.shape[2]], value.scale, value.zero)
        options = {0: i8(pad), 1: i32(stride[1]), 2: i32(stride[0]), 3: i32(kernel[1]), 4: i32(kernel[0]),
                   5: i8(self.rng.choice((0, 0, 1)))}
        return self.op(self.rng.choice((1, 17)), [value], [made], 5, options)

    def binary(self, a, b):
        rng = self.rng
        kind = rng.random()
        number, options = ADD if kind < 0.7 else SUB if kind < 0.8 else MUL
        shape = [max(n, m) for n, m in zip(a.shape, b.shape)]
        if a.kind == b.kind and kind > 0.95 and (a.scale, a.zero) == (b.scale, b.zero):
            made = self.tensor(a.kind, shape, a.scale, a.zero)
            return self.op(rng.choice((55, 57)), [a, b], [made], 39)
        made = self.tensor(a.kind, shape)
        return self.op(number, [a, b], [made], options, {0: i8(rng.choice((0, 0, 1)))})

    def constant(self, value):
        """A sum or product with constants of one or all channels."""
        shape = self.rng.choice(([1], [1, 1, 1, value.shape[2]]))
        low, high = (-1, 1) if value.kind == "f32" else (-100, 100)
        q = {} if value.kind == "f32" else {"scale": 0.0213, "zero": 0}
        made = self.tensor(value.kind, value.shape)
        number, options = self.rng.choice((ADD, MUL))
        return self.op(number, [value, self.const(value.kind, shape, low, high, **q)], [made], options,
                       {0: i8(0)})

    def unary(self, value):
        number = self.rng.choice(UNARY[value.kind])
        scale, zero = None, None
        if number in (14, 28) and value.kind == "i8":
            scale, zero = (1 / 256, -128) if number == 14 else (1 / 128, 0)
        elif number in (14, 28):
            scale, zero = 1 / 32768, 0
        made = self.tensor(value.kind, value.shape, scale, zero)
        return self.op(number, [value], [made], *UNARY_OPTIONS.get(number, (0, None)))

    def join(self, value):
        near = [v for v in self.values if v.shape[:2] == value.shape[:2] and v.kind == value.kind
                and v is not value and v.shape[2] + value.shape[2] <= MOST_CHANNELS]
        if not near:
            return None
        other = self.rng.choice(near[-3:])
        parts = [other, value] if self.rng.random() < 0.5 else [value, other]
        is_same = value.kind != "i8" or self.rng.random() < 0.7  # others must have one scale
        if is_same and value.kind != "f32":
            parts = [self.rescaled(part, value.scale, value.zero) for part in parts]
        made = self.tensor(value.kind, [*value.shape[:2], value.shape[2] + other.shape[2]],
                           value.scale if is_same else None, value.zero if is_same else None)
        return self.op(2, parts, [made], 10, {0: i32(3)})

    def rescaled(self, value, scale, zero):
        if (value.scale, value.zero) == (scale, zero):
            return value
        return self.op(114, [value], [self.tensor(value.kind, value.shape, scale, zero)], 89)

    def split(self, value):
        """Channels or rows in two or three parts, of which all may be read later."""
        axis = self.rng.choice((3, 3, 1))
        n = self.rng.choice((2, 3))
        size = value.shape[axis - 1]
        if size % n or size == n or self.rng.random() < 0.2:
            return self.cut(value)
        shape = [size // n if i == axis - 1 else old for i, old in enumerate(value.shape)]
        parts = [self.tensor(value.kind, shape, value.scale, value.zero) for _ in range(n)]
        self.op(49, [self.data("i32", [], [axis]), value], parts, 35, {0: i32(n)})
        self.values += parts[1:]
        return parts[0]

    def cut(self, value):
        rng, shape = self.rng, value.shape
        begin = [rng.randint(0, min(2, n - 1)) for n in shape]
        size = [n - b if rng.random() < 0.7 else max(1, n - b - 1) for n, b in zip(shape, begin)]
        made = self.tensor(value.kind, size, value.scale, value.zero)
        return self.op(65, [value, self.data("i32", [4], [0, *begin]), self.data("i32", [4], [1, *size])],
                       [made], 48)

    def pad(self, value):
        sides = [self.rng.randint(0, 2) for _ in range(4)] + [0, 0]
        if self.rng.random() < 0.15:
            sides[5] = self.rng.randint(1, 3)
        size = [n + sides[2 * i] + sides[2 * i + 1] for i, n in enumerate(value.shape)]
        made = self.tensor(value.kind, size, value.scale, value.zero)
        return self.op(34, [value, self.data("i32", [4, 2], [0, 0, *sides])], [made], 22)

    def resize(self, value):
        rng, (h, w, c) = self.rng, value.shape
        size = rng.choice(([2 * h, 2 * w], [2 * h, 2 * w], [h + 3, w + 1], [max(1, h // 2), max(1, w // 2)]))
        made = self.tensor(value.kind, [*size, c], value.scale, value.zero)
        shape = self.data("i32", [2], size)
        how = rng.randint(0, 2)
        if rng.random() < 0.5:
            return self.op(97, [value, shape], [made], 74, [{}, {1: u8(1)}, {0: u8(1)}][how])
        return self.op(23, [value, shape], [made], 15, [{}, {3: u8(1)}, {2: u8(1)}][how])

    def turn(self, value):
        """Pixels as channels, or channels as pixels."""
        h, w, c = value.shape
        if c % 4 == 0 and self.rng.random() < 0.5:
            made = self.tensor(value.kind, [2 * h, 2 * w, c // 4], value.scale, value.zero)
            return self.op(5, [value], [made], 94, {0: i32(2)})
        if h % 2 == 0 and w % 2 == 0 and 4 * c <= MOST_CHANNELS:
            made = self.tensor(value.kind, [h // 2, w // 2, 4 * c], value.scale, value.zero)
            return self.op(26, [value], [made], 19, {0: i32(2)})
        return None

    def residual(self, value):
        near = [v for v in self.values if v.kind == value.kind and v is not value and (
            v.shape == value.shape or v.shape == [1, 1, value.shape[2]])]
        return self.binary(value, self.rng.choice(near[-4:])) if near else None

    def stack(self, value):
        """Rows or columns of two or three values as one."""
        axis = self.rng.choice((1, 2))
        near = [v for v in self.values if v.kind == value.kind
                and all(n == m for i, (n, m) in enumerate(zip(v.shape, value.shape)) if i != axis - 1)]
        parts = [value, *(self.rng.choice(near) for _ in range(self.rng.choice((1, 1, 2)) if near else 0))]
        if value.kind != "f32":
            parts = [self.rescaled(part, value.scale, value.zero) for part in parts]
        shape = list(value.shape)
        shape[axis - 1] = sum(part.shape[axis - 1] for part in parts)
        if len(parts) == 1 or count(shape) > MOST_ELEMENTS:
            return None
        made = self.tensor(value.kind, shape, value.scale, value.zero)
        return self.op(2, parts, [made], 10, {0: i32(axis)})

    def swap(self, value):
        """Rows as columns, or as channels."""
        self.may_turn = True
        perm = self.rng.choice(((0, 2, 1, 3), (0, 2, 1, 3), (0, 3, 2, 1)))
        shape = [value.shape[axis - 1] for axis in perm[1:]]
        made = self.tensor(value.kind, shape, value.scale, value.zero)
        return self.op(39, [value, self.data("i32", [4], perm)], [made], 26)

    def every(self, value):
        """Every second or third row, column or channel."""
        steps = [self.rng.choice((1, 2, 2, 3)) if n > 3 else 1 for n in value.shape[:2]] + [1]
        begin = [self.rng.randint(0, step - 1) for step in steps]
        shape = [-(-(n - b) // step) for n, b, step in zip(value.shape, begin, steps)]
        made = self.tensor(value.kind, shape, value.scale, value.zero)
        places = ([0, *begin], [1, *value.shape], [1, *steps])
        return self.op(45, [value, *(self.data("i32", [4], v) for v in places)], [made], 32)

    def reduced(self, value):
        """A mean, sum or maximum over rows or columns, which stay as an axis of 1."""
        axis, number = self.rng.choice((1, 2)), self.rng.choice((40, 40, 74, 82))
        if number == 74 and value.kind != "i8":
            return None
        shape = [1 if i == axis - 1 else n for i, n in enumerate(value.shape)]
        same = (value.scale, value.zero) if number == 82 else (None, None)
        made = self.tensor(value.kind, shape, *same)
        return self.op(number, [value, self.data("i32", [1], [axis])], [made], 27, {0: u8(1)})

    def dense(self, value):
        """A fully connected layer of each pixel."""
        inner, out = value.shape[2], self.rng.choice((4, 6, 12))
        weights = self.weights(value.kind, [out, inner], out, 0, value.scale)
        made = self.tensor(value.kind, [*value.shape[:2], out])
        return self.op(9, [value, *weights], [made], 8, {0: i8(self.rng.choice((0, 1))), 2: u8(1)})

    def squeeze(self, value):
        """A mean over the image, which scales the channels (SE)."""
        h, w, c = value.shape
        made = self.tensor(value.kind, [1, 1, c])
        mean = self.op(40, [value, self.data("i32", [2], [1, 2])], [made], 27, {0: u8(1)})
        gate = self.conv(mean, c, (1, 1), ((1, 1), SAME, (1, 1), [1, 1]), 0)
        if gate is None:
            return None
        sigmoid = self.unary(gate)
        out = self.tensor(value.kind, [h, w, c])
        return self.op(18, [value, sigmoid], [out], 21, {0: i8(0)})

    LAYERS = ((conv, 22), (deep, 22), (block, 8), (residual, 14), (pool, 7), (join, 7), (unary, 4),
              (spread, 3), (constant, 3), (split, 3), (pad, 3), (resize, 2), (turn, 2), (squeeze, 2))
    MORE_LAYERS = ((stack, 3), (swap, 2), (every, 2), (reduced, 2), (dense, 2))

    def layer(self, value):
        layers = self.LAYERS + self.MORE_LAYERS if self.is_wide else self.LAYERS
        make = self.rng.choices([row[0] for row in layers], [row[1] for row in layers])[0]
        name = make.__name__
        if name == "conv":
            return self.conv(value, self.rng.choice((1, 3, 4, 7, 8, 12, 16)))
        return make(self, value)

    # --- the whole ---

    def tail(self, value):
        """A mean over the image, a dense layer, softmax: each or none."""
        rng = self.rng
        if rng.random() < 0.5:
            made = self.tensor(value.kind, [value.shape[2]])
            value = self.op(40, [value, self.data("i32", [2], [1, 2])], [made], 27, {0: u8(0)})
        inner = count(value.shape)
        if rng.random() < 0.5 and inner * 10 <= MOST_WEIGHTS:
            weights, bias = self.weights(value.kind, [10, inner], 10, 0, value.scale)
            if value.kind != "f32":
                weights = self.const("i8", [10, inner], -127, 127, scale=0.004, zero=0)
                bias = self.const("i64" if value.kind == "i16" else "i32", [10], -2000, 2000,
                                  scale=0.004 * value.scale, zero=0)
            flat = self.tensor(value.kind, [inner], value.scale, value.zero)
            flat = self.op(22, [value, self.data("i32", [2], [1, inner])], [flat], 17)
            value = self.op(9, [flat, weights, bias], [self.tensor(value.kind, [10])], 8, {0: i8(0)})
        if rng.random() < 0.3 and value.kind == "i8":
            made = self.tensor("i8", value.shape, 1 / 256, -128)
            value = self.op(25, [value], [made], 9, {0: f32(1.0)})
        return value

    def build(self):
        rng = self.rng
        kind = self.kind if self.kind != "mixed" else rng.choice(("i8", "f32"))
        more = 1 if rng.random() < 0.85 else 2
        for _ in range(rng.choice((more, more, more, 3)) if self.is_wide else more):
            shape = [rng.randint(6, 24), rng.randint(4, 20), rng.choice((1, 3, 4, 8))]
            if self.inputs:
                shape = self.values[0].shape if rng.random() < 0.5 else shape
            value = self.tensor(kind, shape)
            self.graph.inputs.append(value.at)
            self.inputs.append((f"t{value.at}", count(shape) * SIZES[kind], kind))
            self.values.append(value)
        value, layers = self.values[-1], rng.randint(5, 40)
        made_layers, tries = 0, 0
        while made_layers < layers and tries < 200:
            tries += 1
            if rng.random() < 0.08:
                value = rng.choice(self.values[-6:])
            if self.kind == "mixed" and rng.random() < 0.1:
                value = self.as_kind(value, rng.choice(("i8", "i16", "f32")))
                self.values.append(value)
            before = len(self.graph.operators)
            made = self.layer(value)
            made_layers += (len(self.graph.operators) - before + 1) // 2
            if made is None or count(made.shape) > MOST_ELEMENTS or made.shape[2] > MOST_CHANNELS:
                continue
            value = made
            self.values.append(value)
        outs = [self.tail(value)]
        self.values.append(outs[0])
        inputs = set(self.graph.inputs)
        while rng.random() < 0.15 and len(outs) < 3:
            more = rng.choice(self.values)
            if more.at not in inputs and all(more is not out for out in outs):
                outs.append(more)
        for out in outs:
            self.graph.outputs.append(out.at)
            self.outputs.append((f"t{out.at}", count(out.shape) * SIZES[out.kind], out.kind))

    def encode(self):
        return self.model.encode()


class Averaged(Network):
    """A 1x1 convolution whose result, of 1600 bytes, is only averaged."""

    def build(self):
        value = self.tensor("i8", [5, 5, 16])
        self.graph.inputs.append(value.at)
        self.inputs.append((f"t{value.at}", 400, "i8"))
        wide = self.conv(value, 64, (1, 1), ((1, 1), SAME, (1, 1), [5, 5]), 1)
        mean = self.tensor("i8", [1, 1, 64])
        self.op(40, [wide, self.data("i32", [2], [1, 2])], [mean], 27, {0: u8(1)})
        self.graph.outputs.append(mean.at)
        self.outputs.append((f"t{mean.at}", 64, "i8"))
        self.values += [value, mean]


class Detector(Network):
    """The first layers of a detector like MobileNetV2, for 48x40 gray pixels."""

    def relu6(self, value, channels, taps, stride, is_clamped=True):
        """A convolution, or a depthwise one where `channels` is 0."""
        is_deep = channels == 0
        out = value.shape[2] if is_deep else channels
        shape = [1, taps, taps, out] if is_deep else [out, taps, taps, value.shape[2]]
        parts = self.weights("i8", shape, out, 3 if is_deep else 0, value.scale)
        size = [-(-n // stride) for n in value.shape[:2]]
        made = self.tensor("i8", [*size, out], *((6 / 255, -128) if is_clamped else ()))
        act = i8(3 if is_clamped else 0)
        options = {0: i8(SAME), 1: i32(stride), 2: i32(stride)}
        options.update({3: i32(1), 4: act} if is_deep else {3: act})
        return self.op(4 if is_deep else 3, [value, *parts], [made], 2 if is_deep else 1, options)

    def build(self):
        self.kind = "i8"
        value = self.tensor("i8", [48, 40, 1])
        self.graph.inputs.append(value.at)
        self.inputs.append((f"t{value.at}", count(value.shape), "i8"))
        self.values.append(value)
        value = self.relu6(self.relu6(value, 16, 3, 2), 0, 3, 1)
        value = self.relu6(value, 8, 1, 1, False)
        for stride in (1, 2):
            value = self.relu6(self.relu6(value, 48, 1, 1), 0, 3, stride)
            value = self.relu6(value, 8, 1, 1, False)
        self.values.append(value)
        self.graph.outputs.append(value.at)
        self.outputs.append((f"t{value.at}", count(value.shape), "i8"))
