# SPDX-License-Identifier: Apache-2.0
"""Single operators as .tflite models, with inputs. A case is made by a function of a Case, which is named by it."""

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
        self.results = []  # names of outputs
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

# --- windows ---


def conv(c, types, *, kernel=(3, 3), stride=(1, 1), pad=0, act=0, dilation=(1, 1), depth=3, out=4, groups=1, size=(7, 6)):
    x_type, w_type = types
    quantised = x_type != "f32"
    hybrid = not quantised and w_type != "f32"
    weight_scale = [0.01 + 0.003 * i for i in range(out)]
    symmetric = x_type == "i16"
    x = c.x(x_type, [1, *size, depth], **({"scale": 0.05, "zero": 0 if symmetric else 5} if quantised else {}))
    w = c.c(
        w_type,
        [out, *kernel, depth // groups],
        **({"scale": 0.02 if hybrid else weight_scale, "zero": 0} if quantised or hybrid else {}),
        **({"low": 100, "high": 156, "scale": 0.02, "zero": 128} if w_type == "u8" else {}),
    ) if w_type != "u8" else c.c("u8", [out, *kernel, depth], scale=0.02, zero=121)
    bias_type = "f32" if not quantised else "i64" if x_type == "i16" else "i32"
    b = c.c(
        bias_type,
        [out],
        low=-3 if bias_type == "f32" else -500,
        high=3 if bias_type == "f32" else 500,
        **({"scale": [0.05 * s for s in weight_scale] if w_type != "u8" else 0.001} if quantised else {}),
    )
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    hw = [
        -(-n // s) if pad == 0 else (n - r) // s + 1 for n, s, r in zip(size, stride, reach)
    ]
    y = c.y(x_type, [1, *hw, out], **({"scale": 0.11 if not symmetric else 0.01, "zero": 0 if symmetric else -7 if x_type == "i8" else 120} if quantised else {}))
    c.op(3, [x, w, b], [y], 1, {0: i8(pad), 1: i32(stride[1]), 2: i32(stride[0]), 3: i8(act), 4: i32(dilation[1]), 5: i32(dilation[0])})


for name, kwargs in {
    "conv_same": {},
    "conv_stride": {"stride": (2, 2)},
    "conv_valid": {"pad": 1, "stride": (2, 1)},
    "conv_1x1": {"kernel": (1, 1)},
    "conv_relu": {"act": 1},
    "conv_relu6": {"act": 3},
    "conv_relu1": {"act": 2},
    "conv_dilated": {"dilation": (2, 2), "pad": 1},
    "conv_wide": {"kernel": (4, 2), "stride": (2, 2), "size": (9, 8)},
    "conv_groups": {"depth": 4, "groups": 2},
}.items():
    case(name + "_f32", FLOAT)(lambda c, k=kwargs: conv(c, ("f32", "f32"), **k))
    if "groups" not in name:
        case(name + "_i8")(lambda c, k=kwargs: conv(c, ("i8", "i8"), **k))
case("conv_u8")(lambda c: conv(c, ("u8", "u8")))
case("conv_i16")(lambda c: conv(c, ("i16", "i8")))
case("conv_i16_relu")(lambda c: conv(c, ("i16", "i8"), act=1))
case("conv_i4")(lambda c: conv(c, ("i8", "i4")))
case("conv_hybrid", FLOAT)(lambda c: conv(c, ("f32", "i8")))


def depthwise(c, x_type, *, stride=(1, 1), pad=0, act=0, multiplier=1, depth=4, size=(7, 6), w_type=None, dilation=(1, 1)):
    quantised = x_type != "f32"
    out = depth * multiplier
    scales = [0.01 + 0.004 * i for i in range(out)]
    symmetric = x_type == "i16"
    x = c.x(x_type, [1, *size, depth], **({"scale": 0.05, "zero": 0 if symmetric else -9} if quantised else {}))
    w = c.c(w_type or ("i8" if quantised else "f32"), [1, 3, 3, out], **({"scale": scales, "zero": 0, "axis": 3} if quantised else {}))
    b = c.c("i64" if symmetric else "i32" if quantised else "f32", [out], low=-200 if quantised else -2, high=200 if quantised else 2, **({"scale": [0.05 * s for s in scales]} if quantised else {}))
    reach = [2 * d + 1 for d in dilation]
    hw = [-(-n // s) if pad == 0 else (n - r) // s + 1 for n, s, r in zip(size, stride, reach)]
    y = c.y(x_type, [1, *hw, out], **({"scale": 0.06 if not symmetric else 0.01, "zero": 0 if symmetric else 4} if quantised else {}))
    c.op(4, [x, w, b], [y], 2, {0: i8(pad), 1: i32(stride[1]), 2: i32(stride[0]), 3: i32(multiplier), 4: i8(act), 5: i32(dilation[1]), 6: i32(dilation[0])})


for name, kwargs in {
    "depthwise": {},
    "depthwise_stride": {"stride": (2, 2), "act": 1},
    "depthwise_valid": {"pad": 1, "act": 3},
    "depthwise_multiplier": {"multiplier": 2},
    "depthwise_dilated": {"dilation": (2, 2)},
}.items():
    case(name + "_f32", FLOAT)(lambda c, k=kwargs: depthwise(c, "f32", **k))
    case(name + "_i8")(lambda c, k=kwargs: depthwise(c, "i8", **k))
case("depthwise_i16")(lambda c: depthwise(c, "i16"))
case("depthwise_i4")(lambda c: depthwise(c, "i8", w_type="i4"))


def transpose_conv(c, x_type, *, pad=0, stride=2, bias=True, size=(4, 3), out_size=None):
    quantised = x_type != "f32"
    symmetric = x_type == "i16"
    out_size = out_size or [n * stride if pad == 0 else (n - 1) * stride + 3 for n in size]
    scales = [0.01 + 0.004 * i for i in range(3)]
    shape = c.c("i32", [4], [1, *out_size, 3])
    w = c.c("i8" if quantised else "f32", [3, 3, 3, 2], **({"scale": scales} if quantised else {}))
    x = c.x(x_type, [1, *size, 2], **({"scale": 0.05, "zero": 0 if symmetric else 7} if quantised else {}))
    inputs = [shape, w, x]
    if bias:
        inputs.append(c.c("i64" if symmetric else "i32" if quantised else "f32", [3], low=-100 if quantised else -1, high=100 if quantised else 1, **({"scale": [0.05 * s for s in scales]} if quantised else {})))
    y = c.y(x_type, [1, *out_size, 3], **({"scale": 0.07 if not symmetric else 0.02, "zero": 0 if symmetric else -2} if quantised else {}))
    c.op(67, inputs, [y], 49, {0: i8(pad), 1: i32(stride), 2: i32(stride)})


for t in ("f32", "i8", "i16"):
    tolerance = FLOAT if t == "f32" else 0
    case("transpose_conv_same_" + t, tolerance)(lambda c, t=t: transpose_conv(c, t))
    case("transpose_conv_valid_" + t, tolerance)(lambda c, t=t: transpose_conv(c, t, pad=1))
    case("transpose_conv_plain_" + t, tolerance)(lambda c, t=t: transpose_conv(c, t, bias=False))


def pool(c, number, x_type, *, kernel=(2, 2), stride=(2, 2), pad=0, act=0, size=(7, 6)):
    q = {} if x_type == "f32" else {"scale": 0.05, "zero": 0 if x_type == "i16" else 7}
    low = 0 if number == 12 else None
    x = c.x(x_type, [2, *size, 3], low=low, **q)
    hw = [-(-n // s) if pad == 0 else (n - k) // s + 1 for n, s, k in zip(size, stride, kernel)]
    y = c.y(x_type, [2, *hw, 3], **q)
    c.op(number, [x], [y], 5, {0: i8(pad), 1: i32(stride[1]), 2: i32(stride[0]), 3: i32(kernel[1]), 4: i32(kernel[0]), 5: i8(act)})


for kind, number in (("average", 1), ("max", 17)):
    for t in ("f32", "i8", "u8", "i16"):
        tolerance = FLOAT if t == "f32" else 0
        case(f"{kind}_pool_{t}", tolerance)(lambda c, n=number, t=t: pool(c, n, t))
        case(f"{kind}_pool_same_{t}", tolerance)(lambda c, n=number, t=t: pool(c, n, t, kernel=(3, 3), stride=(1, 2)))
        case(f"{kind}_pool_valid_{t}", tolerance)(lambda c, n=number, t=t: pool(c, n, t, kernel=(3, 2), pad=1, act=1))
case("l2_pool_f32", FLOAT)(lambda c: pool(c, 12, "f32", kernel=(3, 3)))

# --- products ---


def fully(c, x_type, w_type=None, *, rows=(3,), keep=False, act=0, bias=True, inner=9, out=5, channels=False, asymmetric=False):
    quantised = x_type != "f32"
    w_type = w_type or ("i8" if quantised else "f32")
    symmetric = x_type == "i16"
    scale = [0.01 + 0.003 * i for i in range(out)] if channels else 0.02
    x = c.x(x_type, [*rows, inner], **({"scale": 0.05, "zero": 0 if symmetric else 5} if quantised else {}))
    w = c.c(w_type, [out, inner], **({} if w_type == "f32" else {"scale": scale, "zero": 119 if w_type == "u8" else 0}))
    inputs = [x, w]
    if bias:
        scales = [0.05 * s for s in scale] if channels else 0.001
        inputs.append(c.c("i64" if symmetric else "i32" if quantised else "f32", [out], low=-300 if quantised else -2, high=300 if quantised else 2, **({"scale": scales} if quantised else {})))
    y = c.y(x_type, [*rows, out] if keep else [3, out], **({"scale": 0.09 if not symmetric else 0.01, "zero": 0 if symmetric else -4 if x_type == "i8" else 100} if quantised else {}))
    c.op(9, inputs, [y], 8, {0: i8(act), 2: u8(keep), 3: u8(asymmetric)})


case("fully_f32", FLOAT)(lambda c: fully(c, "f32"))
case("fully_relu_f32", FLOAT)(lambda c: fully(c, "f32", act=1, bias=False))
case("fully_keep_f32", FLOAT)(lambda c: fully(c, "f32", rows=(1, 3), keep=True))
case("fully_i8")(lambda c: fully(c, "i8"))
case("fully_relu_i8")(lambda c: fully(c, "i8", act=1, bias=False))
case("fully_channels_i8")(lambda c: fully(c, "i8", channels=True))
case("fully_keep_i8")(lambda c: fully(c, "i8", rows=(1, 3), keep=True))
case("fully_u8")(lambda c: fully(c, "u8", "u8"))
case("fully_i16")(lambda c: fully(c, "i16"))
case("fully_i4")(lambda c: fully(c, "i8", "i4", out=60))
case("fully_i4_channels", 1)(lambda c: fully(c, "i8", "i4", out=60, channels=True))
case("fully_hybrid", FLOAT)(lambda c: fully(c, "f32", "i8"))
case("fully_hybrid_asymmetric", FLOAT)(lambda c: fully(c, "f32", "i8", asymmetric=True))
case("fully_hybrid_channels", FLOAT)(lambda c: fully(c, "f32", "i8", channels=True))
case("fully_hybrid_i4", FLOAT)(lambda c: fully(c, "f32", "i4"))


def batch_matmul(c, t, *, adj_x=False, adj_y=False, constant=False):
    q = [{}, {}, {}] if t == "f32" else [{"scale": 0.05, "zero": 0 if t == "i16" else 3}, {"scale": 0.02, "zero": 0 if t == "i16" else -5}, {"scale": 0.08 if t == "i8" else 0.01, "zero": 0 if t == "i16" else 6}]
    a = c.x(t, [2, 5, 3] if adj_x else [2, 3, 5], **q[0])
    shape = [2, 4, 5] if adj_y else [2, 5, 4]
    b = c.c(t, shape, **q[1]) if constant else c.x(t, shape, **q[1])
    c.op(126, [a, b], [c.y(t, [2, 3, 4], **q[2])], 101, {0: u8(adj_x), 1: u8(adj_y)})


for t in ("f32", "i8", "i16"):
    tolerance = FLOAT if t == "f32" else 0
    case("batch_matmul_" + t, tolerance)(lambda c, t=t: batch_matmul(c, t))
    case("batch_matmul_adj_" + t, tolerance)(lambda c, t=t: batch_matmul(c, t, adj_y=True))
    case("batch_matmul_adj_x_" + t, tolerance)(lambda c, t=t: batch_matmul(c, t, adj_x=True))

# --- elementwise ---


def quants(t):
    if t == "i16":
        return [{"scale": 0.05, "zero": 0}, {"scale": 0.031, "zero": 0}, {"scale": 0.083, "zero": 0}]
    middle = 128 if t == "u8" else 0
    return [{"scale": 0.05, "zero": middle + 5}, {"scale": 0.031, "zero": middle - 11}, {"scale": 0.083, "zero": middle - 4}]


def binary(c, number, options_type, t, *, shapes=((2, 3, 4), (2, 3, 4)), act=None, same=False, result=None, low=None, high=None, scales=None, options=None):
    q = [{}, {}, {}]
    if t in ("i8", "u8", "i16"):
        q = scales or quants(t)
        if same:
            q = [q[0], q[0], q[0]]
    a = c.x(t, list(shapes[0]), low=low, high=high, **q[0])
    b = c.x(t, list(shapes[1]), low=low, high=high, **q[1])
    shape = shapes[0] if len(shapes[0]) >= len(shapes[1]) else shapes[1]
    y = c.y(result or t, list(shape), **({} if result else q[2]))
    c.op(number, [a, b], [y], options_type, options or ({} if act is None else {0: i8(act)}))


for name, number, options_type in (("add", 0, 11), ("sub", 41, 28), ("mul", 18, 21)):
    for t in ("f32", "i8", "u8", "i16", "i32"):
        tolerance = FLOAT if t == "f32" else 0
        case(f"{name}_{t}", tolerance)(lambda c, n=number, o=options_type, t=t: binary(c, n, o, t))
        case(f"{name}_broadcast_{t}", tolerance)(lambda c, n=number, o=options_type, t=t: binary(c, n, o, t, shapes=((2, 3, 4), (4,))))
        if t != "i32":
            case(f"{name}_relu_{t}", tolerance)(lambda c, n=number, o=options_type, t=t: binary(c, n, o, t, act=1))
case("add_far_i8")(lambda c: binary(c, 0, 11, "i8", scales=[{"scale": 0.05, "zero": 1}, {"scale": 0.00001, "zero": 2}, {"scale": 0.06, "zero": 3}]))
case("div_f32", FLOAT)(lambda c: binary(c, 42, 29, "f32", low=1, high=3))
case("div_i32")(lambda c: binary(c, 42, 29, "i32", low=1, high=50))
case("squared_difference_f32", FLOAT)(lambda c: binary(c, 99, 76, "f32"))
case("squared_difference_i8")(lambda c: binary(c, 99, 76, "i8"))
for name, number in (("maximum", 55), ("minimum", 57)):
    for t in ("f32", "i8", "i32"):
        case(f"{name}_{t}")(lambda c, n=number, t=t: binary(c, n, 39, t, same=True))
case("pow_f32", 1e-5)(lambda c: binary(c, 78, 56, "f32", low=0.5, high=2))
case("floor_div_f32")(lambda c: binary(c, 90, 65, "f32", low=0.25, high=3))
case("floor_div_i32")(lambda c: binary(c, 90, 65, "i32", low=-9, high=-1))
case("floor_mod_f32", FLOAT)(lambda c: binary(c, 95, 72, "f32", low=0.25, high=3))
case("floor_mod_i32")(lambda c: binary(c, 95, 72, "i32", low=-9, high=-1))
case("atan2_f32", FLOAT)(lambda c: binary(c, 156, 122, "f32"))
case("logical_and")(lambda c: binary(c, 86, 62, "bool"))
case("logical_or")(lambda c: binary(c, 84, 60, "bool"))
case("bitwise_xor_i32")(lambda c: binary(c, 160, 125, "i32"))
case("right_shift_i32")(lambda c: binary(c, 161, 126, "i32", low=1, high=20))
for name, number, options_type in (("less", 58, 41), ("greater", 61, 44), ("greater_equal", 62, 45), ("less_equal", 63, 46), ("equal", 71, 53), ("not_equal", 72, 54)):
    case(name + "_f32")(lambda c, n=number, o=options_type: binary(c, n, o, "f32", result="bool"))
    case(name + "_i32")(lambda c, n=number, o=options_type: binary(c, n, o, "i32", result="bool", low=0, high=2))
    case(name + "_i8")(lambda c, n=number, o=options_type: binary(c, n, o, "i8", result="bool", same=True, low=0, high=2))
    case(name + "_scales_i8")(lambda c, n=number, o=options_type: binary(c, n, o, "i8", result="bool"))


def unary(c, number, options_type, t, *, low=None, high=None, q=None, options=None, shape=(2, 3, 5)):
    q = q or ([{}, {}] if t not in ("i8", "u8", "i16") else [{"scale": 0.05 if t != "i16" else 0.0003, "zero": 0 if t == "i16" else 3}, {"scale": 0.04 if t != "i16" else 0.0003, "zero": 0 if t == "i16" else -2}])
    c.op(number, [c.x(t, list(shape), low=low, high=high, **q[0])], [c.y(t, list(shape), **q[1])], options_type, options)


SQUASHED = {
    "logistic": {"i8": {"scale": 1 / 256, "zero": -128}, "u8": {"scale": 1 / 256, "zero": 0}, "i16": {"scale": 1 / 32768, "zero": 0}},
    "tanh": {"i8": {"scale": 1 / 128, "zero": 0}, "u8": {"scale": 1 / 128, "zero": 128}, "i16": {"scale": 1 / 32768, "zero": 0}},
}
ALL8 = list(range(-128, 128))
for name, number, options_type, low, high in (
    ("floor", 8, 0, None, None),
    ("logistic", 14, 0, None, None),
    ("relu", 19, 0, None, None),
    ("relu_n1_to_1", 20, 0, None, None),
    ("relu6", 21, 0, None, None),
    ("relu_0_to_1", 152, 0, None, None),
    ("tanh", 28, 0, None, None),
    ("exp", 47, 33, None, None),
    ("neg", 59, 42, None, None),
    ("sin", 66, 0, None, None),
    ("log", 73, 0, 0.25, 4),
    ("sqrt", 75, 0, 0, 4),
    ("rsqrt", 76, 0, 0.25, 4),
    ("square", 92, 66, None, None),
    ("abs", 101, 78, None, None),
    ("ceil", 104, 0, None, None),
    ("cos", 108, 84, None, None),
    ("elu", 111, 0, None, None),
    ("round", 116, 0, None, None),
    ("hard_swish", 117, 91, None, None),
    ("gelu", 150, 116, None, None),
    ("sign", 158, 123, None, None),
):
    case(name + "_f32", 4e-6)(lambda c, n=number, o=options_type, l=low, h=high: unary(c, n, o, "f32", low=l, high=h))
    if name in ("logistic", "tanh"):
        for t in ("i8", "u8", "i16"):
            case(f"{name}_{t}")(lambda c, n=number, o=options_type, t=t, k=name: unary(c, n, o, t, shape=(16, 16), q=[{"scale": 0.05 if t != "i16" else 0.0003, "zero": 0 if t == "i16" else 3}, SQUASHED[k][t]]))
    elif name in ("relu", "relu6", "elu", "hard_swish", "gelu", "abs", "exp", "log", "rsqrt", "sqrt", "neg"):
        positive = name in ("log", "rsqrt", "sqrt")
        q8 = [{"scale": 0.05, "zero": -128 if positive else 3}, {"scale": 0.04, "zero": -2}]
        if name == "neg":
            q8 = [q8[0], {"scale": 0.05, "zero": 3}]
        case(name + "_i8")(lambda c, n=number, o=options_type, q=q8, p=positive: unary(c, n, o, "i8", shape=(16, 16), q=q, low=-126 if p else None))
case("leaky_relu_f32")(lambda c: unary(c, 98, 75, "f32", options={0: f32(0.125)}))
case("leaky_relu_i8")(lambda c: unary(c, 98, 75, "i8", options={0: f32(0.2)}, shape=(16, 16)))
case("leaky_relu_i16")(lambda c: unary(c, 98, 75, "i16", options={0: f32(0.2)}, shape=(16, 16)))
case("gelu_tanh_f32", FLOAT)(lambda c: unary(c, 150, 116, "f32", options={0: u8(1)}))
case("logical_not")(lambda c: unary(c, 87, 63, "bool"))
case("relu_i16")(lambda c: unary(c, 19, 0, "i16"))
case("abs_i32")(lambda c: unary(c, 101, 78, "i32"))
case("abs_i16")(lambda c: unary(c, 101, 78, "i16"))


@case("prelu_f32")
def _(c):
    c.op(54, [c.x("f32", [2, 3, 4]), c.c("f32", [1, 1, 4])], [c.y("f32", [2, 3, 4])])


@case("prelu_i8")
def _(c):
    x = c.x("i8", [2, 9, 4], scale=0.05, zero=3)
    c.op(54, [x, c.c("i8", [1, 1, 4], scale=0.01, zero=2)], [c.y("i8", [2, 9, 4], scale=0.06, zero=-5)])


@case("add_n_f32", FLOAT)
def _(c):
    c.op(106, [c.x("f32", [2, 3]) for _ in range(3)], [c.y("f32", [2, 3])], 82)


for t in ("f32", "i8", "i32"):
    q = {} if t != "i8" else Q

    @case("select_" + t)
    def _(c, t=t, q=q):
        c.op(123, [c.x("bool", [2, 1]), c.x(t, [2, 3], **q), c.x(t, [2, 3], **q)], [c.y(t, [2, 3], **q)], 98)


@case("select_rows_f32")
def _(c):
    c.op(64, [c.x("bool", [2]), c.x("f32", [2, 3]), c.x("f32", [2, 3])], [c.y("f32", [2, 3])], 47)


for a, b in (("f32", "i32"), ("i32", "f32"), ("i8", "f32"), ("f32", "bool"), ("bool", "f32"), ("i32", "i64"), ("i64", "i32"), ("i16", "f32"), ("u8", "f32"), ("f32", "i8")):

    @case(f"cast_{a}_{b}")
    def _(c, a=a, b=b):
        x = c.x(a, [2, 5], **({"low": -100, "high": 100} if b == "i8" else {}))
        c.op(53, [x], [c.y(b, [2, 5])], 37)


@case("bitcast_f32_i32")
def _(c):
    c.op(159, [c.x("f32", [2, 5])], [c.y("i32", [2, 5])], 124)


for t in ("i8", "u8", "i16"):
    zero = 0 if t == "i16" else 7

    @case("dequantize_" + t)
    def _(c, t=t, zero=zero):
        c.op(6, [c.x(t, [4, 5], scale=0.05, zero=zero)], [c.y("f32", [4, 5])], 38)

    @case("quantize_" + t)
    def _(c, t=t, zero=zero):
        c.op(114, [c.x("f32", [8, 9], low=-9, high=9)], [c.y(t, [8, 9], scale=0.05, zero=zero)], 89)


@case("dequantize_f16")
def _(c):
    c.op(6, [c.x("f16", [4, 5])], [c.y("f32", [4, 5])], 38)


for a, b, qa, qb in (
    ("i8", "i8", (0.05, 3), (0.07, -9)),
    ("i8", "u8", (0.05, 3), (0.05, 131)),
    ("u8", "i8", (0.05, 131), (0.05, 3)),
    ("i16", "i8", (0.001, 0), (0.2, 5)),
    ("i8", "i16", (0.05, 3), (0.001, 0)),
    ("i16", "i16", (0.001, 0), (0.0013, 0)),
):

    @case(f"requantize_{a}_{b}")
    def _(c, a=a, b=b, qa=qa, qb=qb):
        x = c.x(a, [16, 16], scale=qa[0], zero=qa[1])
        c.op(114, [x], [c.y(b, [16, 16], scale=qb[0], zero=qb[1])], 89)


@case("fake_quant_f32", FLOAT)
def _(c):
    c.op(80, [c.x("f32", [4, 5])], [c.y("f32", [4, 5])], 58, {0: f32(-1.0), 1: f32(1.5), 2: i32(8)})


# --- softmax and norms ---


def softmax(c, number, options_type, t, shape=(3, 7), options=None, q=None):
    q = q or ([{}, {}] if t == "f32" else [{"scale": 0.1, "zero": 5}, {"scale": 1 / 256, "zero": -128 if t == "i8" else 0}])
    c.op(number, [c.x(t, list(shape), **q[0])], [c.y(t, list(shape), **q[1])], options_type, options)


case("softmax_f32", 4e-6)(lambda c: softmax(c, 25, 9, "f32", options={0: f32(1.0)}))
case("softmax_beta_f32", 4e-6)(lambda c: softmax(c, 25, 9, "f32", options={0: f32(0.5)}))
case("softmax_i8")(lambda c: softmax(c, 25, 9, "i8", options={0: f32(1.0)}))
case("softmax_flat_i8")(lambda c: softmax(c, 25, 9, "i8", shape=(2, 300), options={0: f32(1.0)}, q=[{"scale": 0.003, "zero": 5}, {"scale": 1 / 256, "zero": -128}]))
case("softmax_u8")(lambda c: softmax(c, 25, 9, "u8", options={0: f32(1.0)}))
case("softmax_i16", 1)(lambda c: softmax(c, 25, 9, "i16", options={0: f32(1.0)}, q=[{"scale": 0.0005, "zero": 0}, {"scale": 1 / 32768, "zero": 0}]))
case("log_softmax_f32", 4e-6)(lambda c: softmax(c, 50, 36, "f32"))
case("log_softmax_i8")(lambda c: softmax(c, 50, 36, "i8", q=[{"scale": 0.1, "zero": 5}, {"scale": 16 / 256, "zero": 127}]))
case("l2_normalization_f32", 4e-6)(lambda c: softmax(c, 11, 12, "f32", shape=(2, 3, 5)))
case("l2_normalization_i8")(lambda c: softmax(c, 11, 12, "i8", shape=(4, 9), q=[{"scale": 0.05, "zero": 5}, {"scale": 1 / 128, "zero": 0}]))
case("local_response_f32", 4e-6)(lambda c: softmax(c, 13, 13, "f32", shape=(1, 2, 3, 8), options={0: i32(2), 1: f32(1.0), 2: f32(0.5), 3: f32(0.75)}))

# --- reductions ---


def reduce(c, number, t, *, axes=(1,), keep=False, q=None, shape=(2, 3, 4)):
    q = q or ([{}, {}] if t not in ("i8", "i16") else [Q, Q] if t == "i8" else [{"scale": 0.05, "zero": 0}] * 2)
    wanted = [a % len(shape) for a in axes]
    out = [1 if i in wanted else n for i, n in enumerate(shape) if keep or i not in wanted]
    x = c.x(t, list(shape), **q[0])
    c.op(number, [x, c.c("i32", [len(axes)], list(axes))], [c.y(t, out, **q[1])], 27, {0: u8(keep)})


for name, number in (("mean", 40), ("sum", 74), ("reduce_max", 82), ("reduce_min", 89), ("reduce_prod", 81)):
    case(name + "_f32", FLOAT)(lambda c, n=number: reduce(c, n, "f32"))
    case(name + "_keep_f32", FLOAT)(lambda c, n=number: reduce(c, n, "f32", axes=(0, -1), keep=True))
    if name != "reduce_prod":
        case(name + "_i8")(lambda c, n=number: reduce(c, n, "i8"))
case("mean_image_f32", FLOAT)(lambda c: reduce(c, 40, "f32", axes=(1, 2), shape=(1, 5, 6, 3)))
case("mean_image_i8")(lambda c: reduce(c, 40, "i8", axes=(1, 2), shape=(1, 5, 6, 3), q=[Q, {"scale": 0.02, "zero": 4}], keep=True))
case("mean_image_flat_i8")(lambda c: reduce(c, 40, "i8", axes=(1, 2), shape=(1, 5, 6, 3), q=[Q, {"scale": 0.02, "zero": 4}]))
case("mean_i16")(lambda c: reduce(c, 40, "i16", axes=(1,)))
case("sum_scale_i8")(lambda c: reduce(c, 74, "i8", axes=(2,), q=[Q, {"scale": 0.2, "zero": 4}]))
case("sum_i32")(lambda c: reduce(c, 74, "i32"))
case("reduce_any")(lambda c: reduce(c, 91, "bool"))
case("reduce_all")(lambda c: reduce(c, 140, "bool"))
for name, number, options_type in (("arg_max", 56, 40), ("arg_min", 79, 57)):
    for t in ("f32", "i8"):

        @case(f"{name}_{t}")
        def _(c, n=number, o=options_type, t=t):
            x = c.x(t, [2, 5, 3], **({} if t == "f32" else Q))
            c.op(n, [x, c.c("i32", [1], [1])], [c.y("i32", [2, 3])], o, {0: i8(2)})


for name, options in (("cumsum", {}), ("cumsum_exclusive", {0: u8(1)}), ("cumsum_reverse", {1: u8(1)})):

    @case(name + "_f32", FLOAT)
    def _(c, options=options):
        c.op(128, [c.x("f32", [2, 5, 3]), c.c("i32", [1], [1])], [c.y("f32", [2, 5, 3])], 102, options)


@case("top_k_f32")
def _(c):
    c.op(48, [c.x("f32", [2, 6]), c.c("i32", [1], [3])], [c.y("f32", [2, 3]), c.y("i32", [2, 3])], 34)


# --- moves ---


def move(c, number, options_type, in_shape, out_shape, constants=(), options=None, t="f32", q=None):
    q = q or ({} if t != "i8" else Q)
    x = c.x(t, list(in_shape), **q)
    extra = [c.c("i32", list(shape), list(data)) for shape, data in constants]
    c.op(number, [x, *extra], [c.y(t, list(out_shape), **q)], options_type, options)


MOVES = {
    "reshape": (22, 17, (2, 3, 4), (4, 6), [((2,), (4, -1))], None),
    "reshape_option": (22, 17, (2, 3, 4), (4, 6), [], {0: ("list", "i32", [4, 6])}),
    "squeeze": (43, 30, (1, 3, 1, 4), (3, 4), [], None),
    "squeeze_axis": (43, 30, (1, 3, 1, 4), (1, 3, 4), [], {0: ("list", "i32", [2])}),
    "expand_dims": (70, 52, (2, 3), (2, 1, 3), [((1,), (1,))], None),
    "transpose": (39, 26, (2, 3, 4), (4, 2, 3), [((3,), (2, 0, 1))], None),
    "slice": (65, 48, (3, 4, 5), (2, 4, 2), [((3,), (1, 0, 2)), ((3,), (2, -1, 2))], None),
    "strided_slice": (45, 32, (4, 5, 6), (2, 5, 3), [((3,), (1, 0, 5)), ((3,), (4, 5, 0)), ((3,), (2, 1, -2))], {1: ("i32", 2)}),
    "strided_slice_shrink": (45, 32, (4, 5, 6), (5, 3), [((3,), (2, 0, -3)), ((3,), (3, 0, 0)), ((3,), (1, 1, 1))], {0: ("i32", 2), 1: ("i32", 6), 4: ("i32", 1)}),
    "strided_slice_new": (45, 32, (4, 5), (4, 1, 3), [((3,), (0, 0, 1)), ((3,), (0, 0, 4)), ((3,), (1, 1, 1))], {2: ("i32", 1), 3: ("i32", 2)}),
    "tile": (69, 51, (2, 3), (4, 9), [((2,), (2, 3))], None),
    "reverse": (105, 81, (2, 3, 4), (2, 3, 4), [((1,), (1,))], None),
    "broadcast_to": (130, 104, (3, 1), (2, 3, 4), [((3,), (2, 3, 4))], None),
    "pad": (34, 22, (2, 3), (4, 6), [((2, 2), (1, 1, 0, 3))], None),
    "mirror_pad_reflect": (100, 77, (3, 4), (5, 7), [((2, 2), (1, 1, 2, 1))], {0: ("i8", 0)}),
    "mirror_pad_symmetric": (100, 77, (3, 4), (6, 8), [((2, 2), (1, 2, 3, 1))], {0: ("i8", 1)}),
    "space_to_depth": (26, 19, (1, 4, 6, 3), (1, 2, 3, 12), [], {0: ("i32", 2)}),
    "depth_to_space": (5, 94, (1, 2, 3, 12), (1, 4, 6, 3), [], {0: ("i32", 2)}),
    "space_to_batch": (38, 25, (2, 3, 4, 3), (8, 2, 3, 3), [((2,), (2, 2)), ((2, 2), (0, 1, 1, 1))], None),
    "batch_to_space": (37, 24, (8, 2, 3, 3), (2, 3, 4, 3), [((2,), (2, 2)), ((2, 2), (0, 1, 1, 1))], None),
    "space_to_batch_1d": (38, 25, (2, 4, 3), (4, 2, 3), [((1,), (2,)), ((1, 2), (0, 0))], None),
    "gather": (36, 23, (3, 4, 5), (3, 2, 5), [((2,), (3, 1))], {0: ("i32", 1)}),
    "gather_nd": (107, 83, (3, 4, 5), (2, 5), [((2, 2), (1, 2, 0, 3))], None),
    "nearest": (97, 74, (1, 3, 4, 2), (1, 5, 9, 2), [((2,), (5, 9))], None),
    "nearest_half": (97, 74, (1, 3, 4, 2), (1, 5, 9, 2), [((2,), (5, 9))], {1: ("u8", 1)}),
    "nearest_corners": (97, 74, (1, 3, 4, 2), (1, 5, 9, 2), [((2,), (5, 9))], {0: ("u8", 1)}),
    "bilinear": (23, 15, (1, 3, 4, 2), (1, 5, 9, 2), [((2,), (5, 9))], None),
    "bilinear_half": (23, 15, (1, 3, 4, 2), (1, 5, 9, 2), [((2,), (5, 9))], {3: ("u8", 1)}),
    "bilinear_corners": (23, 15, (1, 3, 4, 2), (1, 5, 9, 2), [((2,), (5, 9))], {2: ("u8", 1)}),
    "bilinear_smaller": (23, 15, (1, 7, 8, 2), (1, 3, 5, 2), [((2,), (3, 5))], None),
}
for name, (number, options_type, a, b, constants, options) in MOVES.items():
    for t in ("f32", "i8", "i32"):
        if t == "i32" and ("linear" in name or "nearest" in name or "pad" in name):
            continue
        tolerance = FLOAT if "linear" in name and t == "f32" else 0
        case(f"{name}_{t}", tolerance)(
            lambda c, n=number, o=options_type, a=a, b=b, k=constants, p=options, t=t: move(c, n, o, a, b, k, p, t)
        )


@case("gather_batch_f32")
def _(c):
    index = c.c("i32", [2, 3], [0, 2, 1, 1, 3, 0])
    c.op(36, [c.x("f32", [2, 4, 5]), index], [c.y("f32", [2, 3, 5])], 23, {0: i32(1), 1: i32(1)})


for t in ("f32", "i8"):

    @case("concatenation_" + t)
    def _(c, t=t):
        q = Q if t == "i8" else {}
        parts = [c.x(t, [2, n, 3], **q) for n in (1, 2, 4)]
        c.op(2, parts, [c.y(t, [2, 7, 3], **q)], 10, {0: i32(1)})

    @case("pack_" + t)
    def _(c, t=t):
        q = Q if t == "i8" else {}
        parts = [c.x(t, [2, 3], **q) for _ in range(3)]
        c.op(83, parts, [c.y(t, [2, 3, 3], **q)], 59, {0: i32(3), 1: i32(1)})

    @case("unpack_" + t)
    def _(c, t=t):
        q = Q if t == "i8" else {}
        c.op(88, [c.x(t, [2, 3], **q)], [c.y(t, [2], **q) for _ in range(3)], 64, {0: i32(3), 1: i32(1)})

    @case("split_" + t)
    def _(c, t=t):
        q = Q if t == "i8" else {}
        axis = c.c("i32", [1], [1])
        c.op(49, [axis, c.x(t, [2, 6], **q)], [c.y(t, [2, 2], **q) for _ in range(3)], 35, {0: i32(3)})

    @case("split_v_" + t)
    def _(c, t=t):
        q = Q if t == "i8" else {}
        x, sizes, axis = c.x(t, [2, 6], **q), c.c("i32", [3], [1, -1, 2]), c.c("i32", [1], [1])
        c.op(102, [x, sizes, axis], [c.y(t, [2, n], **q) for n in (1, 3, 2)], 79, {0: i32(3)})

    @case("padv2_" + t)
    def _(c, t=t):
        q = Q if t == "i8" else {}
        x, pads, value = c.x(t, [2, 3], **q), c.c("i32", [2, 2], [1, 1, 0, 2]), c.c(t, [1], [7], **q)
        c.op(60, [x, pads, value], [c.y(t, [4, 5], **q)], 43)

    @case("zeros_like_" + t)
    def _(c, t=t):
        if t == "i8":
            t = "i32"
        c.op(93, [c.x(t, [2, 3])], [c.y(t, [2, 3])], 67)

    @case("embedding_lookup_" + t, FLOAT)
    def _(c, t=t):
        rows = c.c(t, [5, 3], **({} if t == "f32" else {"scale": 0.05}))
        c.op(7, [c.x("i32", [4], low=0, high=4), rows], [c.y("f32", [4, 3])])


@case("concatenation_scales_i8")
def _(c):
    a, b = c.x("i8", [2, 3], scale=0.05, zero=3), c.x("i8", [2, 4], scale=0.05, zero=3)
    c.op(2, [a, b], [c.y("i8", [2, 7], scale=0.05, zero=3)], 10, {0: i32(-1)})


@case("fill_f32")
def _(c):
    c.op(94, [c.c("i32", [2], [2, 3]), c.x("f32", [])], [c.y("f32", [2, 3])], 68)


@case("shape")
def _(c):
    c.op(77, [c.x("f32", [2, 3, 4])], [c.y("i32", [3])], 55, {0: i8(2)})


@case("rank")
def _(c):
    c.op(110, [c.x("f32", [2, 3, 4])], [c.y("i32", [])], 86)


@case("broadcast_args")
def _(c):
    c.op(145, [c.c("i32", [3], [2, 1, 4]), c.c("i32", [2], [3, 1])], [c.y("i32", [3])])


@case("one_hot_f32")
def _(c):
    numbers = [c.c("i32", [], [4]), c.c("f32", [], [2.5]), c.c("f32", [], [-1.0])]
    c.op(85, [c.x("i32", [2, 3], low=0, high=4), *numbers], [c.y("f32", [2, 3, 4])], 61, {0: i32(-1)})


@case("range_i32")
def _(c):
    numbers = [c.c("i32", [], [n]) for n in (2, 11, 3)]
    c.op(96, numbers, [c.y("i32", [3])], 73)


@case("scatter_nd_f32")
def _(c):
    index, shape = c.c("i32", [3, 1], [4, 1, 4]), c.c("i32", [2], [6, 2])
    c.op(122, [index, c.x("f32", [3, 2]), shape], [c.y("f32", [6, 2])], 97)


@case("dynamic_update_slice_f32")
def _(c):
    start = c.x("i32", [2], values=[1, 2])
    c.op(151, [c.x("f32", [4, 5]), c.x("f32", [2, 2]), start], [c.y("f32", [4, 5])], 117)
