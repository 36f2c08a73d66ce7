# SPDX-License-Identifier: Apache-2.0
"""Cases of softmax, norms, reductions and moves."""

from case import FLOAT, Q, case, f32, i8, i32, u8

# --- softmax and norms ---


def softmax(c, number, options_type, t, shape=(3, 7), options=None, q=None):
    q = q or (
        [{}, {}]
        if t == "f32"
        else [{"scale": 0.1, "zero": 5}, {"scale": 1 / 256, "zero": -128 if t == "i8" else 0}]
    )
    c.op(number, [c.x(t, list(shape), **q[0])], [c.y(t, list(shape), **q[1])], options_type, options)


case("softmax_f32", 4e-6)(lambda c: softmax(c, 25, 9, "f32", options={0: f32(1.0)}))
case("softmax_beta_f32", 4e-6)(lambda c: softmax(c, 25, 9, "f32", options={0: f32(0.5)}))
case("softmax_i8")(lambda c: softmax(c, 25, 9, "i8", options={0: f32(1.0)}))
case("softmax_flat_i8")(
    lambda c: softmax(
        c,
        25,
        9,
        "i8",
        shape=(2, 300),
        options={0: f32(1.0)},
        q=[{"scale": 0.003, "zero": 5}, {"scale": 1 / 256, "zero": -128}],
    )
)
case("softmax_u8")(lambda c: softmax(c, 25, 9, "u8", options={0: f32(1.0)}))
case("softmax_i16")(
    lambda c: softmax(
        c,
        25,
        9,
        "i16",
        options={0: f32(1.0)},
        q=[{"scale": 0.0005, "zero": 0}, {"scale": 1 / 32768, "zero": 0}],
    )
)
case("softmax_many_i16")(
    lambda c: softmax(
        c,
        25,
        9,
        "i16",
        shape=(90, 31),
        options={0: f32(0.37)},
        q=[{"scale": 0.0013, "zero": 0}, {"scale": 1 / 32768, "zero": 0}],
    )
)
case("log_softmax_f32", 4e-6)(lambda c: softmax(c, 50, 36, "f32"))
for name, t, shape, scale, ends in (
    ("i8", "i8", (3, 7), 0.1, {}),
    ("wide_i8", "i8", (40, 21), 0.023, {}),
    ("flat_i8", "i8", (3, 300), 0.0007, {}),
    ("steep_i8", "i8", (5, 9), 3.0, {"low": -20, "high": 20}),
    ("one_i8", "i8", (3, 1), 0.1, {}),
    ("u8", "u8", (2, 3, 7), 0.05, {}),
):
    case("log_softmax_" + name)(
        lambda c, t=t, shape=shape, scale=scale, ends=ends: softmax(
            c,
            50,
            36,
            t,
            shape=shape,
            q=[{"scale": scale, "zero": 5, **ends}, {"scale": 1 / 16, "zero": 127 if t == "i8" else 255}],
        )
    )
case("l2_normalization_f32", 4e-6)(lambda c: softmax(c, 11, 12, "f32", shape=(2, 3, 5)))
for name, t, shape, zero, ends in (
    ("i8", "i8", (4, 9), 5, {}),
    ("many_i8", "i8", (60, 23), -128, {}),
    ("small_i8", "i8", (70, 2), 5, {"low": 4, "high": 7}),
    ("long_i8", "i8", (1, 9000), -128, {"low": 100}),
    ("u8", "u8", (3, 4, 9), 128, {}),
    ("small_u8", "u8", (70, 2), 5, {"low": 4, "high": 7}),
):
    case("l2_normalization_" + name)(
        lambda c, t=t, shape=shape, zero=zero, ends=ends: softmax(
            c,
            11,
            12,
            t,
            shape=shape,
            q=[{"scale": 0.05, "zero": zero, **ends}, {"scale": 1 / 128, "zero": 0 if t == "i8" else 128}],
        )
    )
case("local_response_f32", 4e-6)(
    lambda c: softmax(
        c, 13, 13, "f32", shape=(1, 2, 3, 8), options={0: i32(2), 1: f32(1.0), 2: f32(0.5), 3: f32(0.75)}
    )
)

# --- reductions ---


def reduce(c, number, t, *, axes=(1,), keep=False, q=None, shape=(2, 3, 4)):
    q = q or (
        [{}, {}]
        if t not in ("i8", "u8", "i16")
        else [Q, Q]
        if t == "i8"
        else [{"scale": 0.05, "zero": 0}] * 2
    )
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
case("mean_image_i8")(
    lambda c: reduce(
        c, 40, "i8", axes=(1, 2), shape=(1, 5, 6, 3), q=[Q, {"scale": 0.02, "zero": 4}], keep=True
    )
)
case("mean_image_flat_i8")(
    lambda c: reduce(c, 40, "i8", axes=(1, 2), shape=(1, 5, 6, 3), q=[Q, {"scale": 0.02, "zero": 4}])
)
case("mean_halves_i8")(lambda c: reduce(c, 40, "i8", axes=(1,), shape=(7, 6, 21)))
case("mean_halves_u8")(
    lambda c: reduce(c, 40, "u8", axes=(1, 3), shape=(4, 6, 9, 4), q=[{"scale": 0.0620577, "zero": 17}] * 2)
)
case("mean_halves_i16")(lambda c: reduce(c, 40, "i16", axes=(1,), shape=(7, 9, 7)))
case("sum_halves_i16")(
    lambda c: reduce(
        c, 74, "i16", shape=(6, 5, 9), q=[{"scale": 0.25, "zero": 0}, {"scale": 2.0, "zero": 0}]
    )
)
for name, shape, scales in (
    ("near_halves", (50, 6, 9), (0.1, 0.3)),
    ("decimals", (40, 7, 11), (0.05, 0.07)),
    ("long", (9, 3000, 3), (0.001, 0.9)),
    ("longer", (3, 2000, 2), (0.0004, 1.0)),
    ("tiny", (6, 5, 9), (1e-20, 1.0)),
    ("huge", (6, 3, 9), (2e7, 1.0)),
    ("fine", (6, 5, 9), (3.1, 0.0003)),
):
    ends = {"huge": {"low": -3, "high": 3}, "longer": {"low": 20000}}.get(name, {})
    case(f"sum_{name}_i16")(
        lambda c, shape=shape, s=scales, ends=ends: reduce(
            c, 74, "i16", shape=shape, q=[{"scale": s[0], "zero": 0, **ends}, {"scale": s[1], "zero": 0}]
        )
    )
for t in ("i8", "i16"):
    case("reduce_prod_" + t)(
        lambda c, t=t: reduce(
            c,
            81,
            t,
            axes=(0, 2),
            shape=(2, 9, 3),
            q=[{"scale": 0.02 if t == "i8" else 0.0001, "zero": 5 if t == "i8" else 0}] * 2,
        )
    )
case("reduce_prod_one_i8")(
    lambda c: reduce(
        c, 81, "i8", axes=(1,), shape=(7, 1), q=[{"scale": 0.02, "zero": 5}, {"scale": 0.03, "zero": 4}]
    )
)
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
    q = q or {"i8": Q, "i16": {"scale": 0.05, "zero": 0}}.get(t, {})
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
    "strided_slice": (
        45,
        32,
        (4, 5, 6),
        (2, 5, 3),
        [((3,), (1, 0, 5)), ((3,), (4, 5, 0)), ((3,), (2, 1, -2))],
        {1: ("i32", 2)},
    ),
    "strided_slice_shrink": (
        45,
        32,
        (4, 5, 6),
        (5, 3),
        [((3,), (2, 0, -3)), ((3,), (3, 0, 0)), ((3,), (1, 1, 1))],
        {0: ("i32", 2), 1: ("i32", 6), 4: ("i32", 1)},
    ),
    "strided_slice_new": (
        45,
        32,
        (4, 5),
        (4, 1, 3),
        [((3,), (0, 0, 1)), ((3,), (0, 0, 4)), ((3,), (1, 1, 1))],
        {2: ("i32", 1), 3: ("i32", 2)},
    ),
    "strided_slice_ellipsis": (
        45,
        32,
        (2, 3, 4, 2),
        (3, 4, 1),
        [((3,), (-1, 0, -1)), ((3,), (0, 0, 0)), ((3,), (1, 1, -2))],
        {1: ("i32", 4), 2: ("i32", 2), 4: ("i32", 1)},
    ),
    "strided_slice_no_axes": (  # an ellipsis with no axis left takes the next one, as in LiteRT
        45,
        32,
        (3, 4, 5),
        (2, 4, 1),
        [((4,), (1, 0, 2, 1)), ((4,), (3, 0, 3, 2)), ((4,), (1, 1, 1, 1))],
        {2: ("i32", 2)},
    ),
    "strided_slice_end_zero": (  # an end of 0 is that of the axis to XNNPACK
        45,
        32,
        (5, 4),
        (4, 3),
        [((2,), (1, -3)), ((2,), (0, 4)), ((2,), (1, 1))],
        None,
    ),
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
    for t in ("f32", "i8", "i32", "i16"):
        is_resize = "linear" in name or "nearest" in name
        if (t == "i32" and (is_resize or "pad" in name)) or (t == "i16" and not is_resize):
            continue
        tolerance = FLOAT if "linear" in name and t == "f32" else 0
        case(f"{name}_{t}", tolerance)(
            lambda c, n=number, o=options_type, a=a, b=b, k=constants, p=options, t=t: move(
                c, n, o, a, b, k, p, t
            )
        )


@case("gather_batch_before_f32")
def gather_batch_before(c):
    x = c.x("f32", [2, 3, 4, 2])
    index = c.c("i32", [2, 5], [0, 3, 1, 1, 2, 2, 0, 3, 3, 1])
    y = c.y("f32", [2, 3, 5, 2])
    c.op(36, [x, index], [y], 23, {0: ("i32", 2), 1: ("i32", 1)})


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
