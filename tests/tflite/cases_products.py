# SPDX-License-Identifier: Apache-2.0
"""Cases of operators over windows and of products."""

from case import FLOAT, case, i8, i32, u8


def scales(type_name, scale, zero=0):
    """Of a tensor of this type, which has none if it is of floats. Values of 16 bits have no zero point."""
    return {} if type_name == "f32" else {"scale": scale, "zero": 0 if type_name == "i16" else zero}


def bias(c, x_type, count, scale, *, most, most_real):
    """Of a sum of products with operands of x_type."""
    most = most_real if x_type == "f32" else most
    type_name = {"f32": "f32", "i16": "i64"}.get(x_type, "i32")
    return c.c(type_name, [count], low=-most, high=most, **({} if x_type == "f32" else {"scale": scale}))


def windows(size, kernel, stride, pad, dilation):
    """How many fit, along each axis."""
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    return [-(-n // s) if pad == 0 else (n - r) // s + 1 for n, s, r in zip(size, stride, reach)]


def window_op(c, number, tensors, options_type, pad, stride, more):
    """An operator whose first options are those of a window."""
    *inputs, y = tensors
    options = {0: i8(pad), 1: i32(stride[1]), 2: i32(stride[0])}
    c.op(number, inputs, [y], options_type, options | {3 + i: v for i, v in enumerate(more)})


# --- windows ---


def conv(
    c,
    types,
    *,
    kernel=(3, 3),
    stride=(1, 1),
    pad=0,
    act=0,
    dilation=(1, 1),
    depth=3,
    out=4,
    groups=1,
    size=(7, 6),
    narrow=False,
):
    """narrow: sums of 16-bit operands are i32, as the bias is."""
    x_type, w_type = types
    weight_scale = [0.01 + 0.003 * i for i in range(out)]
    x = c.x(x_type, [1, *size, depth], **scales(x_type, 0.05, 5))
    if w_type == "u8":
        w = c.c("u8", [out, *kernel, depth], scale=0.02, zero=121)
    else:
        scale = 0.02 if x_type == "f32" else weight_scale
        w = c.c(w_type, [out, *kernel, depth // groups], **scales(w_type, scale))
    bias_scale = 0.001 if w_type == "u8" else [0.05 * s for s in weight_scale]
    b = bias(c, "i8" if narrow else x_type, out, bias_scale, most=500, most_real=3)
    y = c.y(
        x_type,
        [1, *windows(size, kernel, stride, pad, dilation), out],
        **scales(x_type, 0.01 if x_type == "i16" else 0.11, -7 if x_type == "i8" else 120),
    )
    more = [i8(act), i32(dilation[1]), i32(dilation[0])] + ([i8(2)] if narrow else [])
    window_op(c, 3, [x, w, b, y], 1, pad, stride, more)


for name, kwargs in {
    "conv_same": {},
    "conv_stride": {"stride": (2, 2)},
    "conv_valid": {"pad": 1, "stride": (2, 1)},
    "conv_1x1": {"kernel": (1, 1)},
    "conv_relu": {"act": 1},
    "conv_relu6": {"act": 3},
    "conv_relu1": {"act": 2},
    "conv_dilated": {"dilation": (2, 2), "pad": 1},
    "conv_dilated_stride": {"dilation": (2, 3), "stride": (2, 1), "size": (9, 8)},
    "conv_wide": {"kernel": (4, 2), "stride": (2, 2), "size": (9, 8)},
    "conv_groups": {"depth": 4, "groups": 2},
}.items():
    case(name + "_f32", FLOAT)(lambda c, k=kwargs: conv(c, ("f32", "f32"), **k))
    if "groups" not in name:
        case(name + "_i8")(lambda c, k=kwargs: conv(c, ("i8", "i8"), **k))
case("conv_u8")(lambda c: conv(c, ("u8", "u8")))
case("conv_i16")(lambda c: conv(c, ("i16", "i8")))
case("conv_i16_relu")(lambda c: conv(c, ("i16", "i8"), act=1))
for name, kwargs in {
    "one_channel": {"depth": 1, "out": 7, "size": (9, 11)},
    "one_channel_narrow": {"depth": 1, "out": 3, "narrow": True, "stride": (2, 1)},
    "one_channel_wide": {"depth": 1, "kernel": (5, 7), "dilation": (1, 2), "size": (13, 14)},
    "points": {"kernel": (1, 1), "depth": 9, "out": 6},
    "groups": {"depth": 6, "groups": 2},
    "groups_of_points": {"kernel": (1, 1), "depth": 16, "out": 16, "groups": 4, "stride": (2, 2)},
    "groups_of_one": {"kernel": (2, 3), "depth": 10, "out": 5, "groups": 5},
    "one_result": {"depth": 6, "out": 1, "size": (9, 8)},
}.items():
    case("conv_i16_" + name)(lambda c, k=kwargs: conv(c, ("i16", "i8"), **k))
case("conv_i16_narrow")(lambda c: conv(c, ("i16", "i8"), narrow=True))
case("conv_i4")(lambda c: conv(c, ("i8", "i4")))
# Sums near halves: the built-in kernels for weights of 4 bits round them upwards, depthwise in whole eights.
case("conv_i4_dilated")(
    lambda c: conv(c, ("i8", "i4"), dilation=(1, 3), pad=0, size=(12, 12), out=5, kernel=(3, 4))
)
case("conv_i4_valid")(lambda c: conv(c, ("i8", "i4"), pad=1, size=(16, 16), out=9, kernel=(2, 4)))
case("conv_hybrid", FLOAT)(lambda c: conv(c, ("f32", "i8")))


def depthwise(
    c,
    x_type,
    *,
    stride=(1, 1),
    pad=0,
    act=0,
    multiplier=1,
    depth=4,
    size=(7, 6),
    w_type=None,
    dilation=(1, 1),
):
    out = depth * multiplier
    w_type = w_type or ("f32" if x_type == "f32" else "i8")
    weight_scale = [0.01 + 0.004 * i for i in range(out)]
    x = c.x(x_type, [1, *size, depth], **scales(x_type, 0.05, -9))
    w = c.c(w_type, [1, 3, 3, out], **scales(w_type, weight_scale), axis=3 if w_type != "f32" else 0)
    b = bias(c, x_type, out, [0.05 * s for s in weight_scale], most=200, most_real=2)
    y = c.y(
        x_type,
        [1, *windows(size, (3, 3), stride, pad, dilation), out],
        **scales(x_type, 0.01 if x_type == "i16" else 0.06, 4),
    )
    more = [i32(multiplier), i8(act), i32(dilation[1]), i32(dilation[0])]
    window_op(c, 4, [x, w, b, y], 2, pad, stride, more)


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
case("depthwise_i16_steps")(lambda c: depthwise(c, "i16", stride=(2, 2), multiplier=3, depth=5, size=(11, 9)))
case("depthwise_i16_dilated")(lambda c: depthwise(c, "i16", dilation=(2, 1), pad=1, depth=1, multiplier=4))
case("depthwise_few_i8")(lambda c: depthwise(c, "i8", depth=2, size=(7, 12)))
case("depthwise_few_relu_i8")(lambda c: depthwise(c, "i8", depth=3, size=(6, 10), act=1, dilation=(2, 1)))
case("depthwise_five_i8")(lambda c: depthwise(c, "i8", depth=5, size=(9, 9), pad=1))
case("depthwise_i4")(lambda c: depthwise(c, "i8", w_type="i4"))
case("depthwise_i4_eights")(
    lambda c: depthwise(c, "i8", w_type="i4", multiplier=3, depth=6, size=(16, 16))
)


def transpose_conv(c, x_type, *, pad=0, strides=(2, 2), has_bias=True, size=(4, 3), kernel=(3, 3), out=3):
    out_size = [n * s if pad == 0 else (n - 1) * s + k for n, s, k in zip(size, strides, kernel)]
    weight_scale = [0.01 + 0.004 * i for i in range(out)]
    w_type = "f32" if x_type == "f32" else "i8"
    tensors = [
        c.c("i32", [4], [1, *out_size, out]),
        c.c(w_type, [out, *kernel, 2], **scales(w_type, weight_scale)),
        c.x(x_type, [1, *size, 2], **scales(x_type, 0.05, 7)),
    ]
    if has_bias:
        tensors.append(bias(c, x_type, out, [0.05 * s for s in weight_scale], most=100, most_real=1))
    y = c.y(x_type, [1, *out_size, out], **scales(x_type, 0.02 if x_type == "i16" else 0.07, -2))
    window_op(c, 67, [*tensors, y], 49, pad, strides, [])


for t in ("f32", "i8", "i16"):
    tolerance = FLOAT if t == "f32" else 0
    case("transpose_conv_same_" + t, tolerance)(lambda c, t=t: transpose_conv(c, t))
    case("transpose_conv_valid_" + t, tolerance)(lambda c, t=t: transpose_conv(c, t, pad=1))
    case("transpose_conv_plain_" + t, tolerance)(lambda c, t=t: transpose_conv(c, t, has_bias=False))

for strides, kernel in (((1, 1), (3, 2)), ((3, 2), (2, 5)), ((1, 3), (4, 3)), ((2, 4), (1, 4))):
    for pad in 0, 1:
        name = f"transpose_conv_{'x'.join(map(str, strides + kernel))}_{('same', 'valid')[pad]}"
        case(name)(lambda c, s=strides, k=kernel, p=pad: transpose_conv(c, "i8", pad=p, strides=s, kernel=k))
# Fewer taps than strides: with padding SAME, the first eight channels round otherwise than the rest.
for pad in 0, 1:
    case(f"transpose_conv_sparse_{('same', 'valid')[pad]}")(
        lambda c, p=pad: transpose_conv(c, "i8", pad=p, strides=(2, 3), kernel=(1, 2), out=11, size=(6, 6))
    )


def pool(c, number, x_type, *, kernel=(2, 2), stride=(2, 2), pad=0, act=0, size=(7, 6)):
    q = scales(x_type, 0.05, 7)
    x = c.x(x_type, [2, *size, 3], low=0 if number == 12 else None, **q)
    y = c.y(x_type, [2, *windows(size, kernel, stride, pad, (1, 1)), 3], **q)
    window_op(c, number, [x, y], 5, pad, stride, [i32(kernel[1]), i32(kernel[0]), i8(act)])


for kind, number in (("average", 1), ("max", 17)):
    for t in ("f32", "i8", "u8", "i16"):
        tolerance = FLOAT if t == "f32" else 0
        case(f"{kind}_pool_{t}", tolerance)(lambda c, n=number, t=t: pool(c, n, t))
        case(f"{kind}_pool_same_{t}", tolerance)(
            lambda c, n=number, t=t: pool(c, n, t, kernel=(3, 3), stride=(1, 2))
        )
        case(f"{kind}_pool_valid_{t}", tolerance)(
            lambda c, n=number, t=t: pool(c, n, t, kernel=(3, 2), pad=1, act=1)
        )
        case(f"{kind}_pool_whole_{t}", tolerance)(
            lambda c, n=number, t=t: pool(c, n, t, kernel=(7, 6), stride=(1, 1), pad=1)
        )
case("l2_pool_f32", FLOAT)(lambda c: pool(c, 12, "f32", kernel=(3, 3)))

# --- products ---


def fully(
    c,
    x_type,
    w_type=None,
    *,
    rows=(3,),
    keep=False,
    act=0,
    has_bias=True,
    inner=9,
    out=5,
    channels=False,
    asymmetric=False,
    bias_type=None,
):
    w_type = w_type or ("f32" if x_type == "f32" else "i8")
    scale = [0.01 + 0.003 * i for i in range(out)] if channels else 0.02
    inputs = [
        c.x(x_type, [*rows, inner], **scales(x_type, 0.05, 5)),
        c.c(w_type, [out, inner], **scales(w_type, scale, 119 if w_type == "u8" else 0)),
    ]
    if has_bias:
        bias_scale = [0.05 * s for s in scale] if channels else 0.001
        inputs.append(bias(c, bias_type or x_type, out, bias_scale, most=300, most_real=2))
    y = c.y(
        x_type,
        [*rows, out] if keep else [3, out],
        **scales(x_type, 0.01 if x_type == "i16" else 0.09, -4 if x_type == "i8" else 100),
    )
    c.op(9, inputs, [y], 8, {0: i8(act), 2: u8(keep), 3: u8(asymmetric)})


case("fully_f32", FLOAT)(lambda c: fully(c, "f32"))
case("fully_relu_f32", FLOAT)(lambda c: fully(c, "f32", act=1, has_bias=False))
case("fully_keep_f32", FLOAT)(lambda c: fully(c, "f32", rows=(1, 3), keep=True))
case("fully_i8")(lambda c: fully(c, "i8"))
case("fully_relu_i8")(lambda c: fully(c, "i8", act=1, has_bias=False))
case("fully_channels_i8")(lambda c: fully(c, "i8", channels=True))
case("fully_keep_i8")(lambda c: fully(c, "i8", rows=(1, 3), keep=True))
case("fully_u8")(lambda c: fully(c, "u8", "u8"))
case("fully_i16")(lambda c: fully(c, "i16"))
for name, kwargs in {"": {}, "_channels": {"channels": True}, "_no_bias": {"has_bias": False}}.items():
    case("fully_i4" + name)(lambda c, k=kwargs: fully(c, "i8", "i4", out=60, **k))
    case(f"fully_i4{name}_even")(lambda c, k=kwargs: fully(c, "i8", "i4", out=60, inner=8, **k))
    case(f"fully_i16{name}_many")(lambda c, k=kwargs: fully(c, "i16", out=60, inner=3, **k))
case("fully_i16_one")(lambda c: fully(c, "i16", channels=True, inner=22, out=1))
case("fully_i16_wide")(lambda c: fully(c, "i16", channels=True, inner=36, out=21))
case("fully_i16_narrow")(lambda c: fully(c, "i16", out=60, inner=3, bias_type="i8"))
case("fully_hybrid", FLOAT)(lambda c: fully(c, "f32", "i8"))
case("fully_hybrid_asymmetric", FLOAT)(lambda c: fully(c, "f32", "i8", asymmetric=True))
case("fully_hybrid_channels", FLOAT)(lambda c: fully(c, "f32", "i8", channels=True))
case("fully_hybrid_i4", FLOAT)(lambda c: fully(c, "f32", "i4"))


def batch_matmul(c, t, *, adj_x=False, adj_y=False, constant=False):
    q = [scales(t, 0.05, 3), scales(t, 0.02, -5), scales(t, 0.08 if t == "i8" else 0.01, 6)]
    a = c.x(t, [2, 5, 3] if adj_x else [2, 3, 5], **q[0])
    shape = [2, 4, 5] if adj_y else [2, 5, 4]
    b = c.c(t, shape, **q[1]) if constant else c.x(t, shape, **q[1])
    c.op(126, [a, b], [c.y(t, [2, 3, 4], **q[2])], 101, {0: u8(adj_x), 1: u8(adj_y)})


for t in ("f32", "i8", "i16"):
    tolerance = FLOAT if t == "f32" else 0
    case("batch_matmul_" + t, tolerance)(lambda c, t=t: batch_matmul(c, t))
    case("batch_matmul_adj_" + t, tolerance)(lambda c, t=t: batch_matmul(c, t, adj_y=True))
    case("batch_matmul_adj_x_" + t, tolerance)(lambda c, t=t: batch_matmul(c, t, adj_x=True))


@case("batch_matmul_plain_i8")
def batch_matmul_plain(c):
    """Without a zero point of the second operand, which XNNPACK takes; with one, the built-in kernel does."""
    a, b = c.x("i8", [1, 16, 9], **scales("i8", 0.05, 3)), c.c("i8", [1, 9, 16], **scales("i8", 0.02))
    c.op(126, [a, b], [c.y("i8", [1, 16, 16], **scales("i8", 0.09, 6))], 101)


@case("batch_matmul_built_in_i8")
def batch_matmul_built_in(c):
    a, b = c.x("i8", [3, 32, 3], **scales("i8", 0.05, 3)), c.x("i8", [3, 3, 32], **scales("i8", 0.02, 5))
    c.op(126, [a, b], [c.y("i8", [3, 32, 32], **scales("i8", 0.4, 6))], 101)


case("conv_hybrid_1x1", FLOAT)(lambda c: conv(c, ("f32", "i8"), kernel=(1, 1)))

# --- with a memory: what it is after a run from zeros ---


def svdf(c, t, rank, act=0):
    batch, inner, units, steps = 2, 4, 3, 5
    filters = units * rank
    q = t == "i8"
    x = c.x(t, [batch, inner], **({"scale": 0.05, "zero": 3} if q else {}))
    feature = c.c(t, [filters, inner], **({"scale": 0.01, "zero": 0} if q else {}))
    time_type = "i16" if q else "f32"
    time = c.c(
        time_type,
        [filters, steps],
        low=-2000 if q else -2,
        high=2000 if q else 2,
        **({"scale": 0.001} if q else {}),
    )
    bias = c.c(
        "i32" if q else "f32",
        [units],
        low=-900 if q else -1,
        high=900 if q else 1,
        **({"scale": 1e-6} if q else {}),
    )
    state = c.graph.tensor(
        f"{c.prefix}state",
        time_type,
        [batch, filters * steps],
        variable=True,
        **({"scale": 0.001} if q else {}),
    )
    y = c.y(t, [batch, units], **({"scale": 0.09, "zero": -4} if q else {}))
    c.op(27, [x, feature, time, bias, state], [y], 6, {0: i32(rank), 1: i8(act)})


case("svdf_f32", FLOAT)(lambda c: svdf(c, "f32", 1))
case("svdf_rank_f32", FLOAT)(lambda c: svdf(c, "f32", 2, 1))
case("svdf_i8")(lambda c: svdf(c, "i8", 1, 1))
case("svdf_rank_i8")(lambda c: svdf(c, "i8", 2, 1))


@case("rnn_f32", FLOAT)
def _(c):
    x, w, r, b = c.x("f32", [2, 3]), c.c("f32", [4, 3]), c.c("f32", [4, 4]), c.c("f32", [4])
    state = c.graph.tensor(f"{c.prefix}state", "f32", [2, 4], variable=True)
    c.op(24, [x, w, r, b, state], [c.y("f32", [2, 4])], 7, {0: i8(1)})


def sequence_lstm(c, time_major):
    batch, steps, inner, units = 2, 3, 4, 5
    shape = [steps, batch] if time_major else [batch, steps]
    inputs = [c.x("f32", [*shape, inner])]
    inputs += [c.c("f32", [units, inner], low=-1, high=1) for _ in range(4)]
    inputs += [c.c("f32", [units, units], low=-1, high=1) for _ in range(4)]
    inputs += [-1] * 3 + [c.c("f32", [units], low=-1, high=1) for _ in range(4)] + [-1] * 2
    inputs += [
        c.graph.tensor(f"{c.prefix}{k}", "f32", [batch, units], variable=True) for k in ("state", "cell")
    ]
    c.op(44, [*inputs, -1, -1, -1, -1], [c.y("f32", [*shape, units])], 71, {0: i8(4), 3: u8(time_major)})


case("sequence_lstm_f32", 4e-6)(lambda c: sequence_lstm(c, False))
case("sequence_lstm_time_f32", 4e-6)(lambda c: sequence_lstm(c, True))
case("depthwise_hybrid", FLOAT)(lambda c: depthwise(c, "f32", w_type="i8"))
