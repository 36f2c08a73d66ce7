# SPDX-License-Identifier: Apache-2.0
"""Cases of elementwise operators."""

from case import FLOAT, Q, case, f32, i8, i32, u8

# --- elementwise ---


def quants(t):
    if t == "i16":
        return [{"scale": 0.05, "zero": 0}, {"scale": 0.031, "zero": 0}, {"scale": 0.083, "zero": 0}]
    middle = 128 if t == "u8" else 0
    return [
        {"scale": 0.05, "zero": middle + 5},
        {"scale": 0.031, "zero": middle - 11},
        {"scale": 0.083, "zero": middle - 4},
    ]


def binary(
    c,
    number,
    options_type,
    t,
    *,
    shapes=((2, 3, 4), (2, 3, 4)),
    act=None,
    same=False,
    result=None,
    low=None,
    high=None,
    scales=None,
    options=None,
    out=None,
):
    q = [{}, {}, {}]
    if t in ("i8", "u8", "i16"):
        q = scales or quants(t)
        if same:
            q = [q[0], q[0], q[0]]
    a = c.x(t, list(shapes[0]), low=low, high=high, **q[0])
    b = c.x(t, list(shapes[1]), low=low, high=high, **q[1])
    shape = out or (shapes[0] if len(shapes[0]) >= len(shapes[1]) else shapes[1])
    y = c.y(result or t, list(shape), **({} if result else q[2]))
    c.op(number, [a, b], [y], options_type, options or ({} if act is None else {0: i8(act)}))


for name, number, options_type in (("add", 0, 11), ("sub", 41, 28), ("mul", 18, 21)):
    for t in ("f32", "i8", "u8", "i16", "i32"):
        tolerance = FLOAT if t == "f32" else 0
        case(f"{name}_{t}", tolerance)(lambda c, n=number, o=options_type, t=t: binary(c, n, o, t))
        case(f"{name}_broadcast_{t}", tolerance)(
            lambda c, n=number, o=options_type, t=t: binary(c, n, o, t, shapes=((2, 3, 4), (4,)))
        )
        case(f"{name}_5d_{t}", tolerance)(
            lambda c, n=number, o=options_type, t=t: binary(
                c, n, o, t, shapes=((2, 1, 3, 1, 4), (3, 1, 2, 1)), out=(2, 3, 3, 2, 4)
            )
        )
        if t != "i32":
            case(f"{name}_relu_{t}", tolerance)(
                lambda c, n=number, o=options_type, t=t: binary(c, n, o, t, act=1)
            )
case("add_far_i8")(
    lambda c: binary(
        c,
        0,
        11,
        "i8",
        scales=[{"scale": 0.05, "zero": 1}, {"scale": 0.00001, "zero": 2}, {"scale": 0.06, "zero": 3}],
    )
)
case("div_f32", FLOAT)(lambda c: binary(c, 42, 29, "f32", low=1, high=3))
for t in ("i8", "u8"):
    zero = 0 if t == "u8" else -128
    case("div_" + t)(
        lambda c, t=t, z=zero: binary(
            c,
            42,
            29,
            t,
            shapes=((16, 16), (16,)),
            low=z + 50,
            scales=[{"scale": 0.05, "zero": z}, {"scale": 0.02, "zero": z}, {"scale": 0.03, "zero": z + 9}],
        )
    )
case("div_i32")(lambda c: binary(c, 42, 29, "i32", low=1, high=50))
case("squared_difference_f32", FLOAT)(lambda c: binary(c, 99, 76, "f32"))
case("squared_difference_i8")(lambda c: binary(c, 99, 76, "i8"))
for name, number in (("maximum", 55), ("minimum", 57)):
    for t in ("f32", "i8", "i32"):
        case(f"{name}_{t}")(lambda c, n=number, t=t: binary(c, n, 39, t, same=True))
case("pow_f32", 1e-5)(lambda c: binary(c, 78, 56, "f32", low=0.5, high=2))
case("floor_div_f32")(lambda c: binary(c, 90, 65, "f32", low=0.25, high=3))
case("floor_div_near_f32")(
    lambda c: c.op(
        90,
        [c.x("f32", [4], values=[10.03, -9.9, -11.0, 7.0]), c.x("f32", [1], values=[-3.3])],
        [c.y("f32", [4])],
        65,
    )
)
case("floor_div_i32")(lambda c: binary(c, 90, 65, "i32", low=-9, high=-1))
case("floor_mod_f32", FLOAT)(lambda c: binary(c, 95, 72, "f32", low=0.25, high=3))
case("floor_mod_i32")(lambda c: binary(c, 95, 72, "i32", low=-9, high=-1))
case("atan2_f32", FLOAT)(lambda c: binary(c, 156, 122, "f32"))
case("logical_and")(lambda c: binary(c, 86, 62, "bool"))
case("logical_or")(lambda c: binary(c, 84, 60, "bool"))
case("bitwise_xor_i32")(lambda c: binary(c, 160, 125, "i32"))
case("right_shift_i32")(lambda c: binary(c, 161, 126, "i32", low=1, high=20))
for name, number, options_type in (
    ("less", 58, 41),
    ("greater", 61, 44),
    ("greater_equal", 62, 45),
    ("less_equal", 63, 46),
    ("equal", 71, 53),
    ("not_equal", 72, 54),
):
    case(name + "_f32")(lambda c, n=number, o=options_type: binary(c, n, o, "f32", result="bool"))
    case(name + "_i32")(
        lambda c, n=number, o=options_type: binary(c, n, o, "i32", result="bool", low=0, high=2)
    )
    case(name + "_i8")(
        lambda c, n=number, o=options_type: binary(c, n, o, "i8", result="bool", same=True, low=0, high=2)
    )
    case(name + "_scales_i8")(lambda c, n=number, o=options_type: binary(c, n, o, "i8", result="bool"))


def unary(c, number, options_type, t, *, low=None, high=None, q=None, options=None, shape=(2, 3, 5)):
    q = q or (
        [{}, {}]
        if t not in ("i8", "u8", "i16")
        else [
            {"scale": 0.05 if t != "i16" else 0.0003, "zero": 0 if t == "i16" else 3},
            {"scale": 0.04 if t != "i16" else 0.0003, "zero": 0 if t == "i16" else -2},
        ]
    )
    c.op(
        number,
        [c.x(t, list(shape), low=low, high=high, **q[0])],
        [c.y(t, list(shape), **q[1])],
        options_type,
        options,
    )


SQUASHED = {
    "logistic": {
        "i8": {"scale": 1 / 256, "zero": -128},
        "u8": {"scale": 1 / 256, "zero": 0},
        "i16": {"scale": 1 / 32768, "zero": 0},
    },
    "tanh": {
        "i8": {"scale": 1 / 128, "zero": 0},
        "u8": {"scale": 1 / 128, "zero": 128},
        "i16": {"scale": 1 / 32768, "zero": 0},
    },
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
    case(name + "_f32", 4e-6)(
        lambda c, n=number, o=options_type, l=low, h=high: unary(c, n, o, "f32", low=l, high=h)
    )
    if name in ("logistic", "tanh"):
        for t in ("i8", "u8", "i16"):
            case(f"{name}_{t}")(
                lambda c, n=number, o=options_type, t=t, k=name: unary(
                    c,
                    n,
                    o,
                    t,
                    shape=(16, 16),
                    q=[
                        {"scale": 0.05 if t != "i16" else 0.0003, "zero": 0 if t == "i16" else 3},
                        SQUASHED[k][t],
                    ],
                )
            )
    elif name in ("relu", "relu6", "elu", "hard_swish", "gelu", "abs", "exp", "log", "rsqrt", "sqrt", "neg"):
        positive = name in ("log", "rsqrt", "sqrt")
        q8 = [{"scale": 0.05, "zero": -128 if positive else 3}, {"scale": 0.04, "zero": -2}]
        if name == "neg":
            q8 = [q8[0], {"scale": 0.05, "zero": 3}]
        case(name + "_i8")(
            lambda c, n=number, o=options_type, q=q8, p=positive: unary(
                c, n, o, "i8", shape=(16, 16), q=q, low=-126 if p else None
            )
        )
# Scales that are powers of two, and others whose steps fall on halves.
for name, number, options_type, types in (
    ("relu", 19, 0, ("i8", "u8", "i16")),
    ("relu6", 21, 0, ("i8", "u8", "i16")),
    ("relu_n1_to_1", 20, 0, ("i8", "u8")),
    ("relu_0_to_1", 152, 0, ("i8", "u8")),
    ("abs", 101, 78, ("i8", "i16")),
    ("elu", 111, 0, ("i8",)),
    ("rsqrt", 76, 0, ("i8",)),
    ("quantize", 114, 89, ("i8", "u8", "i16")),
):
    for t in types:
        for a, b in ((0.25, 0.5), (2.0, 2.0), (2.0, 4.0), (0.3, 0.9), (0.005, 0.011)):
            zeros = {"i8": (-128, 3) if name == "rsqrt" else (3, -5), "u8": (100, 131), "i16": (0, 0)}[t]
            case(f"{name}_{t}_{a}_{b}")(
                lambda c, n=number, o=options_type, t=t, a=a, b=b, z=zeros, r=name == "rsqrt": unary(
                    c,
                    n,
                    o,
                    t,
                    shape=(16, 21),
                    q=[{"scale": a, "zero": z[0]}, {"scale": b, "zero": z[1]}],
                    low=-126 if r else None,
                )
            )
for t, slope, a, b in (
    ("i8", 0.01, 0.005, 0.011),  # too small a slope for XNNPACK
    ("i8", -0.3, 0.3, 0.9),
    ("u8", -0.001, 0.3, 0.9),
    ("i16", 0.5, 0.25, 0.5),
    ("i16", -0.3, 0.3, 0.9),
):
    case(f"leaky_relu_{t}_{slope}")(
        lambda c, t=t, s=slope, a=a, b=b: unary(
            c,
            98,
            75,
            t,
            options={0: f32(s)},
            shape=(16, 21),
            q=[{"scale": a, "zero": 0 if t == "i16" else 7}, {"scale": b, "zero": 0 if t == "i16" else 9}],
        )
    )
for kind in 0, 1:
    case(f"gelu_i8_{kind}")(
        lambda c, k=kind: unary(
            c,
            150,
            116,
            "i8",
            options={0: u8(k)},
            shape=(16, 16),
            q=[{"scale": 0.015625, "zero": 3}, {"scale": 0.0078125, "zero": -5}],
        )
    )
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


for a, b in (
    ("f32", "i32"),
    ("i32", "f32"),
    ("i8", "f32"),
    ("f32", "bool"),
    ("bool", "f32"),
    ("i32", "i64"),
    ("i64", "i32"),
    ("i16", "f32"),
    ("u8", "f32"),
    ("f32", "i8"),
):

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
    ("i8", "u8", (0.25, 3), (0.5, 100)),
    ("u8", "i8", (0.3, 100), (0.9, 3)),
    ("i8", "i8", (0.001, 3), (0.5, 1)),
    ("i8", "i16", (0.25, 3), (0.5, 0)),
):

    name = f"requantize_{a}_{b}" + ("" if qa[0] in (0.05, 0.001) and qb[0] != 0.5 else f"_{qa[0]}_{qb[0]}")

    @case(name)
    def _(c, a=a, b=b, qa=qa, qb=qb):
        x = c.x(a, [16, 21], scale=qa[0], zero=qa[1])
        c.op(114, [x], [c.y(b, [16, 21], scale=qb[0], zero=qb[1])], 89)


@case("fake_quant_f32", FLOAT)
def _(c):
    c.op(80, [c.x("f32", [4, 5])], [c.y("f32", [4, 5])], 58, {0: f32(-1.0), 1: f32(1.5), 2: i32(8)})
