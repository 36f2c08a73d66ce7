# SPDX-License-Identifier: Apache-2.0
"""Models of more than one operator: control flow, variables, open sizes, signatures. Each function gives a
model, its inputs, its results, and options of rlxc."""

from flatbuffer import Model, flex_map

ADD, MUL, RESHAPE, PACK, SHAPE, STRIDED_SLICE, LESS = 0, 18, 22, 83, 77, 45, 58
IF, WHILE, CALL_ONCE, VAR_HANDLE, READ, ASSIGN = 118, 119, 129, 142, 143, 144


def scalar_step(model, number, options_type, constant, type_name="f32"):
    """A sub-graph: x op constant."""
    g = model.graph()
    x, c = g.tensor("x", type_name, [2]), g.tensor("c", type_name, [1], data=[constant])
    y = g.tensor("y", type_name, [2])
    g.operator(number, [x, c], [y], options_type)
    g.inputs, g.outputs = [x], [y]


def branches(chosen):
    model = Model()
    g = model.graph()
    cond, x, y = g.tensor("cond", "bool", [1]), g.tensor("x", "f32", [2]), g.tensor("y", "f32", [2])
    g.operator(IF, [cond, x], [y], 92, {0: ("i32", 1), 1: ("i32", 2)})
    g.inputs, g.outputs = [cond, x], [y]
    scalar_step(model, ADD, 11, 10.0)
    scalar_step(model, MUL, 21, 3.0)
    feeds = [("cond", "bool", [1], [chosen]), ("x", "f32", [2], [1.5, -2.0])]
    return model, feeds, {"y": [11.5, 8.0] if chosen else [4.5, -6.0]}, []


def composite():
    """An operator that the file spells out in a sub-graph."""
    model = Model()
    g = model.graph()
    x, y = g.tensor("x", "f32", [2]), g.tensor("y", "f32", [2])
    options = {0: "own.triple", 1: ("i32", 1), 2: ("bytes", b"1234"), 4: ("i32", 1)}
    g.operator(206, [x], [y], 21, options, at=11)
    g.inputs, g.outputs = [x], [y]
    scalar_step(model, MUL, 21, 3.0)
    return model, [("x", "f32", [2], [1.5, -2.0])], {"y": [4.5, -6.0]}, []


def loop():
    """While i < 5: i += 2, x *= 3."""
    model = Model()
    g = model.graph()
    i, x = g.tensor("i", "i32", [1]), g.tensor("x", "f32", [2])
    j, y = g.tensor("last", "i32", [1]), g.tensor("y", "f32", [2])
    g.operator(WHILE, [i, x], [j, y], 93, {0: ("i32", 1), 1: ("i32", 2)})
    g.inputs, g.outputs = [i, x], [j, y]
    cond = model.graph()
    i, x, less = cond.tensor("i", "i32", [1]), cond.tensor("x", "f32", [2]), cond.tensor("less", "bool", [1])
    cond.operator(LESS, [i, cond.tensor("five", "i32", [1], data=[5])], [less], 41)
    cond.inputs, cond.outputs = [i, x], [less]
    body = model.graph()
    i, x = body.tensor("i", "i32", [1]), body.tensor("x", "f32", [2])
    j, y = body.tensor("j", "i32", [1]), body.tensor("y", "f32", [2])
    body.operator(ADD, [i, body.tensor("two", "i32", [1], data=[2])], [j], 11)
    body.operator(MUL, [x, body.tensor("three", "f32", [1], data=[3.0])], [y], 21)
    body.inputs, body.outputs = [i, x], [j, y]
    feeds = [("i", "i32", [1], [0]), ("x", "f32", [2], [1.0, -0.5])]
    return model, feeds, {"last": [6], "y": [27.0, -13.5]}, []


def variable():
    """A variable that begins with [1, 2] and grows by x in each run; its value before the run is a result."""
    model = Model()
    g = model.graph()
    x, handle = g.tensor("x", "f32", [2]), g.tensor("handle", "resource", [1])
    before, after = g.tensor("before", "f32", [2]), g.tensor("after", "f32", [2])
    name = {1: "sum"}
    g.operator(CALL_ONCE, [], [], 103, {0: ("i32", 1)})
    g.operator(VAR_HANDLE, [], [handle], 111, name)
    g.operator(READ, [handle], [before], 112)
    g.operator(ADD, [before, x], [after], 11)
    g.operator(ASSIGN, [handle, after], [], 113)
    g.inputs, g.outputs = [x], [before, after]
    first = model.graph()
    handle = first.tensor("handle", "resource", [1])
    first.operator(VAR_HANDLE, [], [handle], 111, name)
    first.operator(ASSIGN, [handle, first.tensor("c", "f32", [2], data=[1.0, 2.0])], [], 113)
    feeds = [("x", "f32", [2], [0.5, 4.0])]
    return model, feeds, {"before": [1.0, 2.0], "after": [1.5, 6.0]}, []


def open_rows(options):
    """x [n, 3] to [n * 3] by its shape, as data."""
    model = Model()
    g = model.graph()
    x = g.tensor("x", "f32", [1, 3], open_axes=(0,))
    shape, rows = g.tensor("shape", "i32", [2]), g.tensor("rows", "i32", [])
    count, sizes = g.tensor("count", "i32", []), g.tensor("sizes", "i32", [1])
    y = g.tensor("y", "f32", [3], open_axes=(0,))

    def c(name, values, shape=None):
        return g.tensor(name, "i32", [len(values)] if shape is None else shape, data=values)

    g.operator(SHAPE, [x], [shape], 55, {0: ("i8", 2)})
    g.operator(STRIDED_SLICE, [shape, c("b", [0]), c("e", [1]), c("s", [1])], [rows], 32, {4: ("i32", 1)})
    g.operator(MUL, [rows, c("three", [3], [])], [count], 21)
    g.operator(PACK, [count], [sizes], 59, {0: ("i32", 1)})
    g.operator(RESHAPE, [x, sizes], [y], 17)
    g.inputs, g.outputs = [x], [y]
    values = [0.5 * i for i in range(6)]
    return model, [("x", "f32", [2, 3], values)], {"y": values}, options


def signature(options=()):
    """Names of inputs and outputs come from a signature, which has a sub-graph."""
    model = Model()
    g = model.graph()
    x, y = g.tensor("serving_default_image:0", "f32", [2]), g.tensor("StatefulPartitionedCall:0", "f32", [2])
    g.operator(ADD, [x, x], [y], 11)
    g.inputs, g.outputs = [x], [y]
    scalar_step(model, MUL, 21, 3.0)
    model.signatures = [
        {
            0: [{0: "image", 1: ("u32", 0)}],
            1: [{0: "scores", 1: ("u32", 1)}],
            2: "serving_default",
            4: ("u32", 0),
        },
        {0: [{0: "image", 1: ("u32", 0)}], 1: [{0: "scores", 1: ("u32", 2)}], 2: "triple", 4: ("u32", 1)},
    ]
    scores = [3.0, 6.0] if options else [2.0, 4.0]
    return model, [("image", "f32", [2], [1.0, 2.0])], {"scores": scores}, list(options)


def whole(seed, count, most):
    """Whole numbers from -most to most that only depend on the seed."""
    values = []
    for _ in range(count):
        seed = (seed * 1103515245 + 12345) % 2**31
        values.append(seed // 65536 % (2 * most + 1) - most)
    return values


LSTM_WEIGHTS = [0.011, 0.006, 0.013, 0.008, 0.005, 0.012, 0.007, 0.009]  # scales
# What the kernels of TensorFlow Lite for microcontrollers give (lstm_eval.h, with the reference kernels).
LSTM_RESULTS = {
    "plain": [-19, 19, 9, -26, 17, -19, 56, 14, -31, -5, -50, 37, -18, 4, -18, -27, 20, -18],
    "clipped": [-4, -4, -3, -17, 3, -4, 47, 33, 14, -49, 35, 7, 48, 15, 0, 78, 20, 8, 6, 61, -27, -6, -6, 5],
    "plain wide": [
        -2520, 472, -5999, -6703, 286, -7480, -9013, 19, -8024, 2607, 317, -3459, -2151, 605, -7325,
        -1140, 1004, -7782,
    ],
    "clipped wide": [
        -812, -518, 5834, -2200, -490, 8508, -3869, -1529, 9837, -3274, 4718, 7490, -220, -1323, 16082,
        -4485, -1326, 8902, -127, -1584, 5530, -8383, -2415, 8574,
    ],
}


def lstm(kind):
    """A LSTM of bytes, or wide, of 16 bits: 2 batches of 3 steps in batch order, or 4 steps in time order
    with a clipped cell."""
    is_plain, is_wide = kind.startswith("plain"), kind.endswith("wide")
    steps, batch, inputs, units = (3, 2, 4, 3) if is_plain else (4, 1, 5, 6)
    shape = [batch, steps] if is_plain else [steps, batch]
    number, most, x_scale = ("i16", 32767, 0.00004) if is_wide else ("i8", 127, 0.02)
    model = Model()
    g = model.graph()
    x = g.tensor("x", number, [*shape, inputs], scale=x_scale, zero=0 if is_wide else -7)
    sizes = [inputs] * 4 + [units] * 4
    operands = [x]
    for k, scale in enumerate(LSTM_WEIGHTS):
        data = whole(k, units * sizes[k], 127)
        operands.append(g.tensor(f"w{k}", "i8", [units, sizes[k]], data=data, scale=scale, zero=0))
    operands += [-1] * 3
    for k in range(4):
        scale = x_scale * LSTM_WEIGHTS[k]
        data = [150 * v for v in whole(20 + k, units, 16000)] if is_wide else whole(20 + k, units, 3000)
        bias_number = "i64" if is_wide else "i32"
        operands.append(g.tensor(f"b{k}", bias_number, [units], data=data, scale=scale, zero=0))
    result = {"scale": 1 / 32768, "zero": 0} if is_wide else {"scale": 1 / 128, "zero": 5}
    state = g.tensor("state", number, [batch, units], variable=True, **result)
    cell = g.tensor(
        "cell", "i16", [batch, units], scale=2.0 ** (-12 if is_plain else -14), zero=0, variable=True
    )
    y = g.tensor("y", number, [*shape, units], **result)
    options = {0: ("i8", 4), 1: ("f32", 0.0 if is_plain else 0.75), 3: ("u8", not is_plain)}
    g.operator(44, [*operands, -1, -1, state, cell, -1, -1, -1, -1], [y], 71, options)
    g.inputs, g.outputs = [x], [y]
    values = whole(40, steps * batch * inputs, most)
    return model, [("x", number, [*shape, inputs], values)], {"y": LSTM_RESULTS[kind]}, []


def lstm_of_reals():
    """One step with a clipped cell, whose gates are all open: the cell is 0.25, not tanh(1)."""
    model = Model()
    g = model.graph()
    x = g.tensor("x", "f32", [1, 1, 1])
    weights = [g.tensor(f"w{k}", "f32", [1, 1], data=[1.0 if k == 2 else 0.0]) for k in range(8)]
    biases = [g.tensor(f"b{k}", "f32", [1], data=[0.0 if k == 2 else 100.0]) for k in range(4)]
    states = [g.tensor(name, "f32", [1, 1], variable=True) for name in ("state", "cell")]
    y = g.tensor("y", "f32", [1, 1, 1])
    options = {0: ("i8", 4), 1: ("f32", 0.25)}
    g.operator(44, [x, *weights, -1, -1, -1, *biases, -1, -1, *states, -1, -1, -1, -1], [y], 71, options)
    g.inputs, g.outputs = [x], [y]
    return model, [("x", "f32", [1, 1, 1], [1.0])], {"y": [0.24491866]}, []


SCALED = {
    "name": "ScaledRows",
    "operands": ["x: f32[n]", "options: u8[k]"],
    "results": ["y: f32[n]", "bytes: i32[1]"],
    "attributes": {
        "gain": {"type": "float"},
        "shift": {"type": "int", "default": 9},
        "least": {"type": "float", "default": -1.5},
    },
    "c": [
        "    for (rlx_idx j = 0; j < n; j++)",
        "        y[j] = x[j] * gain + (float)shift + least;",
        "    bytes[0] = options[k - 1] + (int32_t)k;",
    ],
}


def custom(takes_bytes):
    """A custom operator whose options are a map, with a default for what is not in it."""
    model = Model()
    g = model.graph()
    x, y, count = g.tensor("x", "f32", [2]), g.tensor("y", "f32", [2]), g.tensor("count", "i32", [1])
    options = flex_map({"gain": 0.5, "shift": -3})
    g.operator("ScaledRows", [x], [y, count] if takes_bytes else [y], options=options)
    g.inputs, g.outputs = [x], [y, count] if takes_bytes else [y]
    declared = dict(SCALED)
    if not takes_bytes:
        declared |= {name: SCALED[name][:1] for name in ("operands", "results")} | {"c": SCALED["c"][:2]}
    expected = {"y": [-4.0, -2.5]} | ({"count": [4 + len(options)]} if takes_bytes else {})
    return model, [("x", "f32", [2], [1.0, 4.0])], expected, ["--allow-custom", "--custom", declared]


def sum_of_bytes():
    """ADD_N of three operands: scales 0.5 and 0.75, zero points -3 and 7."""
    model = Model()
    g = model.graph()
    values = [[-128, -3, 0, 9, 100, 127], [-128, -3, 4, -77, 26, 127], [-128, -3, -9, 1, 55, 127]]
    g.inputs = [g.tensor(f"x{i}", "i8", [6], scale=0.5, zero=-3) for i in range(3)]
    g.outputs = [g.tensor("y", "i8", [6], scale=0.75, zero=7)]
    g.operator(106, g.inputs, g.outputs, 82)
    feeds = [(f"x{i}", "i8", [6], v) for i, v in enumerate(values)]
    steps = [round(sum(v + 3 for v in column) / 1.5) + 7 for column in zip(*values)]
    return model, feeds, {"y": [min(127, max(-128, step)) for step in steps]}, []


GRAPHS = {
    "sum_of_bytes": sum_of_bytes,
    "lstm_bytes": lambda: lstm("plain"),
    "lstm_bytes_clipped": lambda: lstm("clipped"),
    "lstm_wide": lambda: lstm("plain wide"),
    "lstm_wide_clipped": lambda: lstm("clipped wide"),
    "lstm_clipped": lstm_of_reals,
    "custom": lambda: custom(False),
    "custom_bytes": lambda: custom(True),
    "composite": composite,
    "if_then": lambda: branches(1),
    "if_else": lambda: branches(0),
    "while": loop,
    "while_bound": lambda: (*loop()[:3], ["--dim", "last_trips=4"]),
    "variable": variable,
    "open_size": lambda: open_rows([]),
    "open_size_given": lambda: open_rows(["--dim", "x_dim0=2"]),
    "open_size_numbered": lambda: open_rows(["--dim", "input0_dim0=2"]),
    "open_size_range": lambda: open_rows(["--dim", "x_dim0=1..8"]),
    "signature": signature,
    "signature_named": lambda: signature(["--signature", "triple"]),
}
