# SPDX-License-Identifier: Apache-2.0
"""Models of one operator from the data of CMSIS-NN's unit tests (cmsis_data.py). The data has factors of
sums, which are made the scales of weights (as f32, so they differ by up to 2^-25); all others are 1."""

import math
import re

from case import Case, f32, i8, i32

FULL = {"i8": (-128, 127), "i16": (-32768, 32767)}


class Unreadable(Exception):
    """The data does not say what a model needs."""


def real_of(multiplier, shift):
    return math.ldexp(multiplier, shift - 31)


def nibbles(values, count):
    """Weights of 4 bits, two a byte."""
    found = [v >> part & 15 for v in values for part in (0, 4)][:count]
    return [v - 16 if v > 7 else v for v in found]


def is_float(type_name):
    return type_name[0] == "f"


def scale_of(type_name, scale, zero=0, axis=0):
    return {} if is_float(type_name) else {"scale": scale, "zero": zero, "axis": axis}


class One(Case):
    """A case with its expected results."""

    def __init__(self, data, model):
        super().__init__(re.sub(r"\W", "_", data.name), model)
        self.data = data
        self.expected, self.later = [], []  # later: operators behind the next one

    def temporary(self, type_name, shape, **more):
        return self.graph.tensor(f"{self.prefix}t{len(self.graph.tensors)}", type_name, shape, **more)

    def result(self, shape, **more):
        type_name, values = self.data.array("output_ref", "output")
        self.expected.append((list(shape), values))
        return self.y(type_name, shape, **more)

    def clamped(self, shape, low, high, **more):
        """A tensor whose values between two limits are the result."""
        type_name = self.data.array("output_ref", "output")[0]
        least, most = FULL.get(type_name, (-math.inf, math.inf))
        limits = [(code, v) for code, v, none in ((57, high, most), (55, low, least)) if v != none]
        raw = at = self.temporary(type_name, shape, **more) if limits else self.result(shape, **more)
        for code, limit in limits:
            is_last = code == limits[-1][0]
            y = self.result(shape, **more) if is_last else self.temporary(type_name, shape, **more)
            self.later.append((code, [at, self.c(type_name, [1], [limit], **more)], y))
            at = y
        return raw

    def op(self, number, inputs, outputs, options_type=0, options=None):
        super().op(number, inputs, outputs, options_type, options)
        later, self.later = self.later, []
        for code, operands, y in later:
            super().op(code, operands, [y], 39)


def factors(data, names=("output",)):
    """Of each channel, or one."""
    _, multipliers = data.array(*(f"{n}_mult" for n in names), *(f"{n}_multiplier" for n in names))
    _, shifts = data.array(*(f"{n}_shift" for n in names))
    if multipliers and shifts:
        return [real_of(q, s) for q, s in zip(multipliers, shifts, strict=True)]
    return real_of(data.first("output_mult", "output_multiplier"), data.output_shift)


# --- windows ---


class Window:
    """Sizes of an operator with a window, rows before columns."""

    def __init__(self, data):
        d = data
        self.batches = d.first("input_batches", "batch_size", "input_n")
        self.channels = d.first("in_ch", "input_c")
        self.size = d.input_h, d.input_w
        self.kernel = d.first("filter_y", "filter_h"), d.first("filter_x", "filter_w")
        self.stride = d.first("stride_y", "stride_h"), d.first("stride_x", "stride_w")
        self.pad = d.first("pad_y", "padding_h"), d.first("pad_x", "padding_w")
        self.out = d.output_h, d.output_w
        self.dilation = 1, 1
        if "dilation_y" in d.numbers or "dilation_h" in d.numbers:
            self.dilation = d.first("dilation_y", "dilation_h"), d.first("dilation_x", "dilation_w")

    def behind(self, i):
        reach = (self.kernel[i] - 1) * self.dilation[i] + 1
        return (self.out[i] - 1) * self.stride[i] + reach - self.size[i] - self.pad[i]

    def mode(self):
        """0: SAME, 1: VALID, None: neither."""
        if self.pad == (0, 0) and all(-self.stride[i] < self.behind(i) <= 0 for i in (0, 1)):
            return 1
        same = tuple(-(-n // s) for n, s in zip(self.size, self.stride, strict=True))
        total = [max(self.behind(i) + self.pad[i], 0) for i in (0, 1)]
        return 0 if self.out == same and self.pad == tuple(n // 2 for n in total) else None


def padded(c, w, x, type_name, quant):
    """An operator of its own where padding is neither SAME nor VALID."""
    after = [max(w.behind(i), 0) for i in (0, 1)]
    pads = c.c("i32", [4, 2], [0, 0, w.pad[0], after[0], w.pad[1], after[1], 0, 0])
    size = [n + p + a for n, p, a in zip(w.size, w.pad, after, strict=True)]
    y = c.temporary(type_name, [w.batches, *size, w.channels], **quant)
    c.op(34, [x, pads], [y], 22)
    return y


def limits(d):
    return d.first("out_activation_min", "activation_min"), d.first("out_activation_max", "activation_max")


def bias_of(c, d, count, quant):
    type_name, values = d.array("biases", "bias", "input_bias")
    return [] if values is None else [c.c(type_name, [count], values, **quant)]


def weights_of(c, d, shape, quant, has_nibbles):
    type_name, values = d.array("weights", "input_weights", "kernel")
    if values is None:
        raise Unreadable("there are no weights in the data")
    if has_nibbles:
        return c.c("i4", shape, nibbles(values, math.prod(shape)), **quant)
    return c.c(type_name, shape, values, **quant)


def product_quants(d, type_name, axis=0):
    """Of operand, weights, bias and result."""
    if is_float(type_name):
        return {}, {}, {}, {}
    scale = factors(d)
    scale = [s or 1e-30 for s in scale] if isinstance(scale, list) else scale
    weights = {"scale": scale, "zero": -d.numbers.get("filter_offset", 0), "axis": axis}
    return (
        {"scale": 1, "zero": -d.numbers.get("input_offset", 0)},
        weights,
        {"scale": scale, "zero": 0},
        {"scale": 1, "zero": d.numbers.get("output_offset", 0)},
    )


def input_of(c, d, shape, quant, *names):
    type_name, values = d.array(*(names or ("input", "input_tensor")))
    if values is None or len(values) != math.prod(shape):
        raise Unreadable(f"the data has no {math.prod(shape)} inputs")
    return c.x(type_name, shape, values=values, **quant)


def convolution(c, d):
    w = Window(d)
    depthwise = "ch_mult" in d.numbers
    type_name = d.array("input")[0]
    x_quant, w_quant, b_quant, y_quant = product_quants(d, type_name, 3 if depthwise else 0)
    x = input_of(c, d, [w.batches, *w.size, w.channels], x_quant)
    mode = w.mode()
    if mode is None:
        x = padded(c, w, x, type_name, x_quant)
    count = len(d.array("weights", "input_weights")[1] or []) // math.prod(w.kernel)
    has_nibbles = "int4" in d.name
    depth = d.numbers.get("filter_ch", w.channels)
    if "grouped" in d.name:
        depth = count // d.out_ch
    shape = [1, *w.kernel, d.out_ch] if depthwise else [d.out_ch, *w.kernel, depth]
    weights = weights_of(c, d, shape, w_quant, has_nibbles)
    bias = bias_of(c, d, d.out_ch, b_quant)
    y = c.clamped([w.batches, *w.out, d.out_ch], *limits(d), **y_quant)
    options = {0: i8(1 if mode is None else mode), 1: i32(w.stride[1]), 2: i32(w.stride[0])}
    more = [i32(d.ch_mult)] if depthwise else []
    more += [i8(0), i32(w.dilation[1]), i32(w.dilation[0])]
    if not depthwise and d.array("biases", "bias", "input_bias")[0] == "i32":
        more += [i8(2)]  # the type of sums
    options |= {3 + i: v for i, v in enumerate(more)}
    c.op(4 if depthwise else 3, [x, weights, *bias], [y], 2 if depthwise else 1, options)


def transposed(c, d):
    w = Window(d)
    type_name = d.array("input")[0]
    x_quant, w_quant, b_quant, y_quant = product_quants(d, type_name)
    shape = [w.batches, *w.out, d.out_ch]
    weights = weights_of(c, d, [d.out_ch, *w.kernel, w.channels], w_quant, False)
    x = input_of(c, d, [w.batches, *w.size, w.channels], x_quant)
    bias = bias_of(c, d, d.out_ch, b_quant)
    whole = [(n - 1) * s + k for n, s, k in zip(w.size, w.stride, w.kernel, strict=True)]
    is_same = all(o == n * s for o, n, s in zip(w.out, w.size, w.stride, strict=True)) and w.pad == tuple(
        max(n - o, 0) // 2 for n, o in zip(whole, w.out, strict=True)
    )
    options = {0: i8(0 if is_same else 1), 1: i32(w.stride[1]), 2: i32(w.stride[0])}
    if is_same or tuple(whole) == w.out:
        y = c.clamped(shape, *limits(d), **y_quant)
        c.op(67, [c.c("i32", [4], shape), weights, x, *bias], [y], 49, options)
        return
    full = [w.batches, *whole, d.out_ch]  # other padding: a part of the whole result
    part = c.temporary(type_name, full, **y_quant)
    c.op(67, [c.c("i32", [4], full), weights, x, *bias], [part], 49, options)
    y = c.clamped(shape, *limits(d), **y_quant)
    c.op(65, [part, c.c("i32", [4], [0, *w.pad, 0]), c.c("i32", [4], shape)], [y], 48)


def pool(c, d):
    w = Window(d)
    type_name = d.array("input_tensor")[0]
    quant = scale_of(type_name, 1)
    x = input_of(c, d, [w.batches, *w.size, w.channels], quant)
    mode = w.mode()
    if mode is None:
        raise Unreadable("neither SAME nor VALID padding")
    y = c.clamped([w.batches, *w.out, w.channels], *limits(d), **quant)
    options = [i8(mode), i32(w.stride[1]), i32(w.stride[0]), i32(w.kernel[1]), i32(w.kernel[0])]
    c.op(1 if "avg" in d.name else 17, [x], [y], 5, dict(enumerate(options)))


# --- products ---


def fully_connected(c, d):
    depth = d.numbers.get("accumulation_depth", d.in_ch * d.input_h * d.input_w)
    type_name = d.array("input")[0]
    x_quant, w_quant, b_quant, y_quant = product_quants(d, type_name)
    x = input_of(c, d, [d.input_batches, depth], x_quant)
    weights = weights_of(c, d, [d.out_ch, depth], w_quant, "int4" in d.name)
    bias = bias_of(c, d, d.out_ch, b_quant)
    y = c.clamped([d.input_batches, d.out_ch], *limits(d), **y_quant)
    c.op(9, [x, weights, *bias], [y], 8)


def turned(values, rows):
    """Matrices of so many rows, transposed."""
    size = rows * (len(values) // rows)
    columns = size // rows
    return [values[row * columns + column] for column in range(columns) for row in range(rows)]


def right_matrices(d, type_name):
    """Data of floats has them as [depth, columns], even where the operator transposes them."""
    values = d.array("rhs_input_tensor")[1]
    if not (is_float(type_name) and d.adj_y):
        return values
    size = d.rhs_rows * d.rhs_cols
    parts = [turned(values[at : at + size], d.rhs_cols) for at in range(0, len(values), size)]
    return sum(parts, [])


def batch_matmul(c, d):
    type_name = d.array("output", "output_ref")[0]
    scale = 1 if is_float(type_name) else factors(d)
    left = d.array("lhs_transposed_tensor" if is_float(type_name) and d.adj_x else "lhs_input_tensor")[1]
    operands = []
    for side, quant, values in (("lhs", 1, left), ("rhs", scale, right_matrices(d, type_name))):
        shape = [getattr(d, f"{side}_{part}") for part in ("batch", "height", "rows", "cols")]
        quant = scale_of(type_name, quant, -d.numbers.get(f"{side}_offset", 0))
        operands.append(c.x(type_name, shape, values=values, **quant))
    shape = [d.output_batch, d.output_height, d.output_rows, d.output_cols]
    y = c.clamped(shape, *limits(d), **scale_of(type_name, 1, d.numbers.get("output_offset", 0)))
    c.op(126, operands, [y], 101, {0: i8(d.adj_x), 1: i8(d.adj_y)})


# --- elementwise ---


def pair(c, d, number, options_type, scales):
    """Scales of both operands and of the result."""
    (type_name, a), (_, b) = d.array("input1"), d.array("input2")
    x = c.x(type_name, [len(a)], values=a, **scale_of(type_name, scales[0], -int(d.input1_offset)))
    y = c.x(type_name, [len(b)], values=b, **scale_of(type_name, scales[1], -int(d.input2_offset)))
    z = c.clamped([len(a)], *limits(d), **scale_of(type_name, scales[2], int(d.output_offset)))
    c.op(number, [x, y], [z], options_type)


def add(c, d):
    if is_float(d.array("input1")[0]):
        return pair(c, d, 0, 11, (1, 1, 1))
    a, b = real_of(d.input1_mult, d.input1_shift), real_of(d.input2_mult, d.input2_shift)
    result = 1 / math.ldexp(real_of(d.output_mult, d.output_shift), d.left_shift)
    return pair(c, d, 0, 11, (a, b, result))


def mul(c, d):
    scale = 1 if is_float(d.array("input1")[0]) else real_of(d.output_mult, d.output_shift)
    pair(c, d, 18, 21, (1, scale, 1))


def extremum(c, d):
    type_name = d.array("input_tensor_1")[0]
    quant = scale_of(type_name, 1)
    shapes = [[getattr(d, f"{name}_{i}") for name in ("batch", "height", "width", "channel")] for i in (1, 2)]
    operands = [input_of(c, d, shapes[i - 1], quant, f"input_tensor_{i}") for i in (1, 2)]
    y = c.result([d.output_batch, d.output_height, d.output_width, d.output_channel], **quant)
    c.op(55 if "max" in d.name else 57, operands, [y], 39)


def softmax(c, d):
    (x_type, values), y_type = d.array("input"), d.array("output_ref")[0]
    shape = [d.num_rows, d.row_size]
    scale, y_quant = 1, {}
    if x_type == "i16":
        scale = real_of(d.input_mult, d.input_left_shift) * (10 / 65535)
    elif x_type == "i8":
        scale = math.ldexp(real_of(d.input_mult, d.input_left_shift), -26)
    if not is_float(x_type):
        y_quant = {"scale": 1 / 256 if y_type == "i8" else 1 / 32768, "zero": -128 if y_type == "i8" else 0}
        y_quant = {"scale": 1 / 65536, "zero": -32768} if (x_type, y_type) == ("i8", "i16") else y_quant
    x = c.x(x_type, shape, values=values, **scale_of(x_type, scale))
    c.op(25, [x], [c.result(shape, **y_quant)], 9, {0: f32(1.0)})


# --- moves ---


def pad(c, d):
    type_name = d.array("input_tensor")[0]
    quant = scale_of(type_name, 1)
    shape = [getattr(d, f"input_{axis}") for axis in "nhwc"]
    pads = [[d.numbers[f"{side}_pad_{axis}"] for side in ("pre", "post")] for axis in "nhwc"]
    x = input_of(c, d, shape, quant)
    y = c.result([n + sum(p) for n, p in zip(shape, pads, strict=True)], **quant)
    value = c.c(type_name, [1], [d.pad_value], **quant)
    c.op(60, [x, c.c("i32", [4, 2], sum(pads, [])), value], [y], 43)


def transpose(c, d):
    type_name = d.array("input_tensor")[0]
    if "perm" in d.numbers:
        shape, perm = d.in_dim[: d.perm_size], d.perm
    else:
        shape = [getattr(d, f"input_{axis}") for axis in "nhwc"][: d.num_dims]
        perm = [getattr(d, f"perm_{i}") for i in range(d.num_dims)]
    quant = scale_of(type_name, 1)
    x = input_of(c, d, shape, quant)
    y = c.result([shape[axis] for axis in perm], **quant)
    c.op(39, [x, c.c("i32", [len(perm)], perm)], [y], 26)


def concatenation(c, d):
    shape = [d.input_n, d.input_h, d.input_w]
    x, y = (
        input_of(c, d, [*shape, d.lhs_c], {}, "lhs_input"),
        input_of(c, d, [*shape, d.rhs_c], {}, "rhs_input"),
    )
    c.op(2, [x, y], [c.result([*shape, d.output_c])], 10, {0: i32(3)})


def batch_norm(c, d):
    type_name, _ = d.array("input")
    shape = [d.input_n, d.input_h, d.input_w, d.input_c]
    x = input_of(c, d, shape, {})
    scaled = c.temporary(type_name, shape)
    scale, bias = (c.c(type_name, [d.input_c], d.array(name)[1]) for name in ("scale", "bias"))
    c.op(18, [x, scale], [scaled], 21)
    c.op(0, [scaled, bias], [c.result(shape)], 11)


def activations(c, d):
    x = input_of(c, d, [d.size], {})
    for name, number, kind, options in (
        ("sigmoid", 14, 0, {}),
        ("tanh", 28, 0, {}),
        ("hardswish", 117, 91, {}),
        ("leaky_relu", 98, 75, {0: f32(d.leaky_relu_param)}),
    ):
        type_name, values = d.array(f"output_ref_{name}")
        y = c.y(type_name, [d.size])
        c.expected.append(([d.size], values))
        c.op(number, [x], [y], kind, options)


# --- with a memory ---

GATES = ("input", "forget", "cell", "output")


def integer_lstm(c, d):
    """The data has factors; one of the scales that they come from is free."""
    type_name, values = d.array("input_tensor", "input")
    units, width, batch = d.hidden_size, d.input_size, d.batch_size
    outer = [d.time_steps, batch] if d.time_major else [batch, d.time_steps]
    x_scale, gate_scale = 2.0**-10, 2.0**-12
    state_scale = 2.0**-30 / real_of(d.output_multiplier, d.output_shift)
    x = c.x(type_name, [*outer, width], values=values, scale=x_scale, zero=-d.input_zero_point)

    def weights(kind, shape, scale):
        for gate in GATES:
            name = f"{gate}_gate_{kind}"
            factor = real_of(d.numbers[f"{name}_multiplier"], d.numbers[f"{name}_shift"])
            data = d.array(f"{name}_weights")[1]
            yield c.c("i8", shape, data, scale=factor * gate_scale / scale, zero=0)

    def biases():
        for gate in GATES:
            kind, data = d.array(f"{gate}_gate_bias")
            yield c.c(kind, [units], data, scale=x_scale, zero=0)

    result = {"scale": state_scale, "zero": d.output_zero_point}
    operands = [x, *weights("input", [units, width], x_scale), *weights("hidden", [units] * 2, state_scale)]
    operands += [-1] * 3 + [*biases(), -1, -1]
    operands.append(c.temporary(type_name, [batch, units], variable=True, **result))
    cell = {"scale": 2.0**-30 / real_of(d.input_to_cell_multiplier, d.input_to_cell_shift), "zero": 0}
    operands.append(c.temporary("i16", [batch, units], variable=True, **cell))
    clip = 0 if d.cell_clip == 32767 else d.cell_clip * cell["scale"]
    y = c.result([*outer, units], **result)
    c.op(44, operands + [-1] * 4, [y], 71, {0: i8(4), 1: f32(clip), 3: i8(d.time_major)})


def lstm(c, d):
    if "output_multiplier" in d.numbers:
        integer_lstm(c, d)
        return
    type_name, _ = d.array("input")
    units, width, batch = d.hidden_size, d.input_size, d.batch_size
    outer = [d.time_steps, batch] if d.time_major else [batch, d.time_steps]

    def weights(kind, shape):
        return [c.c(type_name, shape, d.array(f"{gate}_{kind}")[1]) for gate in GATES]

    def state():
        return c.temporary(type_name, [batch, units], variable=True)

    operands = [input_of(c, d, [*outer, width], {}), *weights("input_weights", [units, width])]
    operands += [*weights("hidden_weights", [units, units]), -1, -1, -1, *weights("bias", [units])]
    operands += [-1, -1, state(), state()] + [-1] * 4
    y = c.result([*outer, units])
    c.op(44, operands, [y], 71, {0: i8(4), 1: f32(d.cell_clip), 3: i8(d.time_major)})


def svdf(c, d):
    """Steps that follow each other, each an operator; they have one memory. The last one is compared."""
    type_name, values = d.array("input_sequence")
    quantised = not is_float(type_name)
    factor = (
        (real_of(d.multiplier_in, d.shift_1), real_of(d.multiplier_out, d.shift_2)) if quantised else (1, 1)
    )
    units, size = d.feature_batches // d.rank, d.input_batches * d.input_size
    memory = d.array("state", "initial_state")[0]
    if not quantised:
        raise Unreadable("a clamp of what is remembered, which .tflite does not have")
    time_type, bias = d.array("weights_time")[0], d.array("biases", "bias")
    weights = [
        c.c(
            type_name,
            [d.feature_batches, d.input_size],
            d.array("weights_feature")[1],
            **scale_of(type_name, factor[0]),
        ),
        c.c(
            time_type,
            [d.feature_batches, d.time_batches],
            d.array("weights_time")[1],
            **scale_of(type_name, factor[1]),
        ),
        c.c(bias[0], [units], bias[1], **scale_of(type_name, factor[1])) if bias[1] else -1,
        c.temporary(
            memory,
            [d.input_batches, d.feature_batches * d.time_batches],
            variable=True,
            **scale_of(type_name, 1),
        ),
    ]
    low, high = (
        d.first("out_activation_min", "output_activation_min"),
        d.first("out_activation_max", "output_activation_max"),
    )
    zero = d.numbers.get("input_offset", 0), d.numbers.get("output_offset", 0)
    for at in range(0, len(values), size):
        x = c.x(
            type_name,
            [d.input_batches, d.input_size],
            values=values[at : at + size],
            **scale_of(type_name, 1, zero[0]),
        )
        last = at + size == len(values)
        quant = scale_of(type_name, 1, zero[1])
        shape = [d.input_batches, units]
        y = c.clamped(shape, low, high, **quant) if last else c.temporary(type_name, shape, **quant)
        c.op(27, [x, *weights], [y], 6, {0: i32(d.rank), 1: i8(1 if quantised else 0)})


# By the beginning of a folder's name; the first that fits.
KINDS = (
    ("activation", activations),
    ("add", add),
    (r"avgpool|maxpool", pool),
    ("batch_matmul", batch_matmul),
    ("bn_", batch_norm),
    ("concat", concatenation),
    (r"fully_connected|fc_", fully_connected),
    ("lstm", lstm),
    (r"maximum|minimum", extremum),
    ("mul", mul),
    ("pad", pad),
    ("softmax", softmax),
    ("svdf", svdf),
    (r"transpose_conv|reverse_transpose", transposed),
    ("transpose", transpose),
    (r"basic|conv|depthwise|dw_|grouped|in_ch|int16|kernel1x1|requantize|stride2", convolution),
)


def kind(data):
    return next(make for pattern, make in KINDS if re.match(pattern, data.name)).__name__


def build(data, model=None):
    """A case, and what its operator is called."""
    c = One(data, model)
    globals()[kind(data)](c, data)
    return c, kind(data)
