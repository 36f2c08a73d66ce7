# SPDX-License-Identifier: Apache-2.0
"""Graphs that are valid but unusual: rank 0 or 8, no elements, outputs that are inputs, constants, views
or the same value twice, states that swap, names that no C program could use. check_odd.py runs them."""

MODELS = {}


def model(name, **members):
    MODELS[name] = {"rlxc": 1, "name": name, **members}


def f32(*shape):
    return {"dtype": "f32", "shape": list(shape)}


def i64(*shape):
    return {"dtype": "i64", "shape": list(shape)}


def node(op, name, inputs, **attributes):
    return {"op": op, "name": name, "inputs": inputs, **attributes}


def cut(name, source, start, end, axis=0, step=1):
    return node("slice", name, [source], starts=[start], ends=[end], axes=[axis], steps=[step])


def values(*data):
    return {"dtype": "f32", "data": list(data)}


def pattern(*shape):
    n = 1
    for size in shape:
        n *= size
    return {"dtype": "f32", "shape": list(shape), "data": [((k * 37) % 17 - 8) / 20 for k in range(n)]}


REVERSED = (-1, -100)

# --- shapes ------------------------------------------------------------------------------------------------

model("rank_0", inputs={"x": f32()}, nodes=[node("exp", "y", ["x"])], outputs=["y"])
model(
    "rank_8",
    inputs={"x": f32(2, 1, 3, 1, 2, 1, 2, 2), "z": f32(1, 2, 1, 2, 1, 2, 1, 2)},
    nodes=[
        node("add", "a", ["x", "z"]),
        node("transpose", "b", ["a"], perm=[7, 0, 6, 1, 5, 2, 4, 3]),
        node("reduce_sum", "c", ["b"], axes=[0, 3, 5]),
    ],
    outputs=["b", "c"],
)
model(
    "empty_rows",
    inputs={"x": f32(0, 3)},
    nodes=[node("exp", "y", ["x"])]
    + [node(f"reduce_{op}", op, ["y"], axes=[0]) for op in ("sum", "mean", "max", "min", "prod")],
    outputs=["y", "sum", "mean", "max", "min", "prod"],
)
model(
    "empty_matmul",
    inputs={"x": f32(3, 0), "w": f32(0, 4)},
    nodes=[node("matmul", "y", ["x", "w"])],
    outputs=["y"],
)
model(
    "empty_parts",
    inputs={"x": f32(0, 3), "z": f32(2, 3)},
    nodes=[node("concat", "y", ["x", "z", "x"], axis=0)],
    outputs=["y"],
)
model(
    "empty_lines",
    inputs={"x": f32(2, 0)},
    nodes=[node("softmax", "y", ["x"], axis=-1), node("layer_norm", "l", ["x"], axis=-1)],
    outputs=["y", "l"],
)
model(
    "empty_batch",
    inputs={"x": f32(0, 3, 8, 8)},
    weights={"w": pattern(4, 3, 3, 3)},
    nodes=[node("conv", "y", ["x", "w"]), node("max_pool", "p", ["y"], kernel=[2, 2])],
    outputs=["y", "p"],
)

# --- outputs -----------------------------------------------------------------------------------------------

model("output_is_input", inputs={"x": f32(3)}, nodes=[], outputs=["x"])
model(
    "output_also_input",
    inputs={"x": f32(3)},
    nodes=[node("exp", "y", ["x"])],
    outputs={"x": "x", "y": "y", "y again": "y"},
)
model(
    "output_constant",
    inputs={"unused": f32(1000)},
    weights={"w": values(1, 2, 3)},
    nodes=[node("exp", "y", ["w"])],
    outputs=["w", "y"],
)
model("no_inputs", weights={"w": values(1, 2)}, nodes=[node("exp", "y", ["w"])], outputs=["y"])
model(
    "output_views",
    inputs={"x": f32(4, 6)},
    nodes=[
        node("reshape", "flat", ["x"], shape=[24]),
        node("transpose", "turned", ["x"], perm=[1, 0]),
        node("slice", "grid", ["x"], starts=[1, 2], ends=[3, 6], axes=[0, 1], steps=[1, 2]),
        cut("rows", "x", 2, 4),
        cut("mirrored", "x", *REVERSED, axis=1, step=-1),
        node("expand", "twice", ["x"], shape=[2, 4, 6]),
    ],
    outputs=["flat", "turned", "grid", "rows", "mirrored", "twice"],
)

# --- places ------------------------------------------------------------------------------------------------

model(
    "concat_nested",
    inputs={"a": f32(2, 3), "b": f32(2, 2)},
    nodes=[
        node("exp", "ea", ["a"]),
        node("sin", "sb", ["b"]),
        node("concat", "c1", ["ea", "sb"], axis=1),
        node("concat", "c2", ["c1", "ea", "c1"], axis=1),
        cut("s", "c2", 2, 9, axis=1),
        node("concat", "c3", ["s", "s", "c2"], axis=1),
        node("concat", "c4", ["c3", "c3"], axis=0),
        node("tanh", "t", ["c1"]),
    ],
    outputs=["c4", "c2", "t"],
)
model(
    "concat_same",
    inputs={"a": f32(2, 3)},
    nodes=[
        node("exp", "e", ["a"]),
        node("concat", "c", ["e", "e", "e"], axis=0),
        node("concat", "d", ["e", "c"], axis=0),
        node("concat", "aa", ["a", "a"], axis=1),
    ],
    outputs=["c", "d", "aa"],
)
model(
    "concat_of_slices",
    inputs={"a": f32(4, 6)},
    nodes=[
        node("exp", "e", ["a"]),
        cut("left", "e", 0, 3, axis=1),
        cut("right", "e", 3, 6, axis=1),
        node("concat", "swapped", ["right", "left"], axis=1),
        node("concat", "same", ["left", "right"], axis=1),
        cut("odd", "e", 0, 6, axis=1, step=2),
        node("concat", "mixed", ["odd", "right", "odd"], axis=1),
    ],
    outputs=["swapped", "same", "mixed"],
)
model(
    "concat_of_convs",
    inputs={"x": f32(1, 4, 6, 6)},
    weights={"w": pattern(4, 4, 3, 3), "w2": pattern(4, 8, 1, 1)},
    nodes=[
        node("conv", "c", ["x", "w"], pads=[1, 1, 1, 1]),
        node("relu", "r", ["c"]),
        node("concat", "k", ["x", "r"], axis=1),
        node("conv", "d", ["k", "w2"]),
        node("concat", "k2", ["k", "d", "r"], axis=1),
        node("reduce_mean", "o", ["k2"], axes=[2, 3]),
    ],
    outputs=["k2", "o"],
)
model(
    "split_views",
    inputs={"x": f32(6, 8)},
    nodes=[
        node("tanh", "t", ["x"]),
        {"op": "split", "inputs": ["t"], "axis": 1, "sizes": [3, 3, 2], "outputs": ["a", "b", "c"]},
        node("add", "d", ["a", "b"]),
        node("concat", "e", ["d", "c"], axis=1),
        {"op": "split", "inputs": ["e"], "axis": 0, "sizes": [2, 4], "outputs": ["p", None]},
        node("reduce_sum", "o", ["p"], axes=[0, 1]),
    ],
    outputs=["e", "o", "a"],
)
model(
    "residuals",
    inputs={"x": f32(8, 16)},
    weights={"w": pattern(16, 16)},
    nodes=[
        node("matmul", "a", ["x", "w"]),
        node("add", "b", ["a", "x"]),
        node("matmul", "c", ["b", "w"]),
        node("add", "d", ["c", "b"]),
        node("add", "e", ["d", "b"]),
        node("mul", "g", ["e", "e"]),
        node("sub", "h", ["g", "e"]),
        node("matmul", "i", ["h", "w"]),
        node("add", "j", ["i", "i"]),
        node("add", "y", ["j", "h"]),
    ],
    outputs=["y", "e"],
)
model(
    "turned_onto_itself",
    inputs={"x": f32(4, 1), "y": f32(1, 4), "z": f32(4, 4)},
    nodes=[
        node("exp", "e", ["x"]),
        node("sin", "s", ["y"]),
        node("add", "a", ["e", "s"]),
        node("transpose", "t", ["a"], perm=[1, 0]),
        node("add", "b", ["a", "t"]),
        node("sub", "c", ["z", "b"]),
        node("transpose", "u", ["c"], perm=[1, 0]),
        node("sub", "d", ["u", "c"]),
    ],
    outputs=["d"],
)
model(
    "times_itself",
    inputs={"x": f32(17, 17)},
    nodes=[
        node("matmul", "a", ["x", "x"]),
        node("transpose", "t", ["a"], perm=[1, 0]),
        node("matmul", "b", ["a", "t"]),
        node("softmax", "s", ["b"], axis=0),
        node("sub", "d", ["s", "b"]),
    ],
    outputs=["d"],
)
model(
    "mirrored_onto_itself",
    inputs={"x": f32(9)},
    nodes=[node("exp", "e", ["x"]), cut("r", "e", *REVERSED, step=-1), node("add", "y", ["e", "r"])],
    outputs=["y"],
)
model(
    "moved_by_one",
    inputs={"x": f32(40)},
    nodes=[
        node("exp", "e", ["x"]),
        cut("a", "e", 0, 39),
        cut("b", "e", 1, 40),
        node("sub", "y", ["a", "b"]),
        node("sub", "z", ["b", "a"]),
        node("sin", "q", ["b"]),
    ],
    outputs=["y", "z", "q"],
)

# --- states: STATES has what their outputs and next values must be, run after run --------------

STATES = {}


def stateful(name, step, states, nodes, outputs, **members):
    """step(inputs, states) -> (outputs, next states), on flat lists in the order of the model."""
    members.setdefault("inputs", {"x": f32(3)})
    model(name, states=states, nodes=nodes, outputs=outputs, **members)
    STATES[name] = step


def state(next_name, *data, shape=None):
    of = {"data": list(data)} if data else {"shape": list(shape or [3])}
    return {"dtype": "f32", "next": next_name, **of}


def plus(a, b):
    return [x + y for x, y in zip(a, b)]


def minus(a, b):
    return [x - y for x, y in zip(a, b)]


ADD_S = [node("add", "y", ["x", "s"])]
stateful(
    "state_kept",
    lambda x, s: ([plus(x[0], s[0]), s[0]], s),
    {"s": state("s", 1, 2, 3)},
    ADD_S,
    ["y", "s"],
)
stateful(
    "states_swap",
    lambda x, s: ([plus(x[0], s[0]), s[1]], [s[1], s[0]]),
    {"s": state("t", 1, 2, 3), "t": state("s", 4, 5, 6)},
    ADD_S,
    ["y", "t"],
)
stateful(
    "states_turn",
    lambda x, s: ([plus(s[1], s[2])], [s[1], s[2], plus(x[0], s[0])]),
    {"a": state("b", 1, 2, 3), "b": state("c", 4, 5, 6), "c": state("n", 7, 8, 9)},
    [node("add", "n", ["x", "a"]), node("add", "o", ["b", "c"])],
    ["o"],
)
stateful(
    "state_new_and_old",
    lambda x, s: ([plus(x[0], s[0]), s[0]], [plus(x[0], s[0])]),
    {"s": state("y")},
    ADD_S,
    {"new": "y", "old": "s"},
)
stateful(
    "state_is_input",
    lambda x, s: ([minus(x[0], s[0])], [x[0]]),
    {"s": state("x")},
    [node("sub", "y", ["x", "s"])],
    ["y"],
)
stateful(
    "state_is_constant",
    lambda x, s: ([minus(x[0], s[0]), s[0]], [[1, 2, 3]]),
    {"s": state("w")},
    [node("sub", "y", ["x", "s"])],
    ["y", "s"],
    weights={"w": values(1, 2, 3)},
)
stateful(
    "state_is_view",
    lambda x, s: ([plus(x[0][0::2] + x[0][1::2], s[0]), s[0]], [x[0][0::2] + x[0][1::2]]),
    {"s": state("v", shape=[2, 3])},
    [node("transpose", "v", ["x"], perm=[1, 0]), node("add", "y", ["v", "s"])],
    ["y", "s"],
    inputs={"x": f32(3, 2)},
)
stateful(
    "state_moves_down",
    lambda x, s: ([plus(plus(s[0][2:4], s[0][4:6]), x[0])], [s[0][2:] + x[0]]),
    {"h": state("n", shape=[3, 2])},
    [cut("t", "h", 1, 3), node("concat", "n", ["t", "x"], axis=0), node("reduce_sum", "y", ["n"], axes=[0])],
    ["y"],
    inputs={"x": f32(1, 2)},
)
stateful(
    "state_moves_up",
    lambda x, s: ([s[0], x[0] + s[0][:4]], [x[0] + s[0][:4]]),
    {"h": state("n", shape=[3, 2])},
    [cut("t", "h", 0, 2), node("concat", "n", ["x", "t"], axis=0)],
    ["h", "n"],
    inputs={"x": f32(1, 2)},
)
stateful(
    "state_mirrored",
    lambda x, s: ([plus(s[0][::-1], x[0])], [plus(s[0][::-1], x[0])]),
    {"h": state("n", 1, 2, 3)},
    [cut("r", "h", *REVERSED, step=-1), node("add", "n", ["r", "x"])],
    ["n"],
)
stateful(
    "states_of_each_other",
    lambda x, s: ([plus(s[1], x[0]), minus(s[0], x[0]), s[0]], [plus(s[1], x[0]), minus(s[0], x[0])]),
    {"a": state("na"), "b": state("nb")},
    [node("add", "na", ["b", "x"]), node("sub", "nb", ["a", "x"])],
    ["na", "nb", "a"],
)
stateful(
    "states_share_next",
    lambda x, s: ([plus(s[1], x[0])], [plus(s[1], x[0])] * 2),
    {"a": state("n"), "b": state("n")},
    [node("add", "n", ["b", "x"])],
    ["n"],
)
stateful(
    "state_twice_in_concat",
    lambda x, s: ([plus(x[0], s[0]) + s[0] + plus(x[0], s[0]) + x[0]], [plus(x[0], s[0])]),
    {"s": state("n")},
    [
        node("add", "n", ["x", "s"]),
        node("concat", "c", ["n", "s", "n"], axis=0),
        node("concat", "d", ["c", "x"], axis=0),
    ],
    ["d"],
)

# Their initial values are more than belongs into C text.
LARGE = 20000
model(
    "params_large",
    inputs={"x": f32(LARGE)},
    params={"gain": pattern(LARGE), "offset": values(0.5)},
    states={"last": {**f32(LARGE), "next": "y"}},
    nodes=[
        node("mul", "a", ["x", "gain"]),
        node("add", "b", ["a", "offset"]),
        node("sub", "y", ["b", "last"]),
    ],
    outputs=["y"],
)

# --- names -------------------------------------------------------------------------------------------------

NAMES = (
    "int for class true operator template x X x_ a ctx status inputs outputs kernels weights states params"
    " dispatch state_init NULL memcpy float _Bool __FILE__ M_PI INT8_MAX RLX_OK rlx_ctx rlx_f32 size_t linux"
    " exp v_x a/b:0 a_b_0 1x \u00fcn\u00ef \u00e4n\u00ef ??/ tail\\ %s%n // -"
).split() + ["x y", '"q"', "*/ x", "/* x"]
CHAIN = ["sin", "erf", "neg", "tanh"]

model(
    "names_of_inputs",
    inputs={name: f32(2) for name in NAMES},
    nodes=[node("add", "sum 0", NAMES[:2])]
    + [node("add", f"sum {k - 1}", [f"sum {k - 2}", NAMES[k]]) for k in range(2, len(NAMES))],
    outputs=[f"sum {len(NAMES) - 2}"],
)
model(
    "names_of_nodes",
    inputs={"in put": f32(2)},
    nodes=[node(CHAIN[k % 4], NAMES[k], [NAMES[k - 1] if k else "in put"]) for k in range(len(NAMES))],
    outputs=NAMES,
)
model(
    "names_of_states",
    inputs={"in put": f32(2)},
    states={name: {"dtype": "f32", "shape": [2], "next": "new"} for name in NAMES[:25]},
    params={name: {"dtype": "f32", "data": [1, 2]} for name in NAMES[25:]},
    nodes=[node("add", "new", ["in put", NAMES[0]]), node("mul", "z", ["new", NAMES[30]])],
    outputs=["z"],
)

# --- element types -----------------------------------------------------------------------------------------

BINARY = "add sub mul div rem mod min max bit_and bit_or bit_xor shift_left shift_right pow eq lt".split()
UNARY = "neg abs sign bit_not square relu".split()
for kind in "i8 u8 i16 u16 i32 u32 i64 u64".split():
    model(
        f"integers_{kind}",
        inputs={name: {"dtype": kind, "shape": [37]} for name in "xz"},
        nodes=[node(op, op, ["x", "z"]) for op in BINARY]
        + [node(op, op, ["x"]) for op in UNARY]
        + [node(f"reduce_{op}", op + " of all", ["x"], axes=[0]) for op in ("sum", "mean", "max", "prod")]
        + [node("cumsum", "sums", ["x"], axis=0), node("cast", "f", ["x"], to="f32")],
        outputs=BINARY + UNARY + [f"{op} of all" for op in ("sum", "mean", "max", "prod")] + ["sums", "f"],
    )
for kind in "f16 bf16 f64".split():
    model(
        f"floats_{kind}",
        inputs={"x": {"dtype": kind, "shape": [5, 37]}, "z": {"dtype": kind, "shape": [37, 6]}},
        nodes=[
            node("matmul", "product", ["x", "z"]),
            node("softmax", "soft", ["x"], axis=-1),
            node("layer_norm", "norm", ["x"], axis=-1),
            node("gelu", "g", ["x"]),
            node("sigmoid", "e", ["x"]),
            node("concat", "c", ["g", "e"], axis=1),
            node("transpose", "t", ["c"], perm=[1, 0]),
            node("cast", "f", ["x"], to="f32"),
        ],
        outputs=["product", "soft", "norm", "g", "t", "f"],
    )
model(
    "bools",
    inputs={"a": {"dtype": "bool", "shape": [19]}, "b": {"dtype": "bool", "shape": [19]}, "x": f32(19)},
    nodes=[
        node("logical_and", "c", ["a", "b"]),
        node("logical_or", "d", ["c", "a"]),
        node("logical_xor", "e", ["d", "b"]),
        node("logical_not", "n", ["e"]),
        node("gt", "g", ["x", 0.5]),
        node("where", "w", ["g", "x", -1]),
        node("cast", "i", ["n"], to="i32"),
    ],
    outputs=["c", "d", "e", "n", "w", "i"],
)
