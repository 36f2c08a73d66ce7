# SPDX-License-Identifier: Apache-2.0
"""Random models with all that lives across runs, and random options, for check_lockstep.py. All values are
small whole numbers, so every target gives the same bits."""

import random

FLOATS, WHOLE = ("f32", "f16", "bf16"), ("i32", "i16", "i8", "u8", "i64", "u32")


class Model:
    """What is added to: parts of a graph that have no names in common."""

    def __init__(self, seed, is_metal):
        self.random = random.Random(seed)
        self.is_metal = is_metal
        self.symbols, self.inputs, self.params, self.states, self.weights = {}, {}, {}, {}, {}
        self.nodes, self.outputs, self.checks, self.options = [], [], [], []
        self.n = 0

    def name(self, what):
        self.n += 1
        return f"{what}{self.n}"

    def node(self, op, *inputs, **attributes):
        name = self.name(op[0])
        self.nodes.append({"name": name, "op": op, "inputs": list(inputs), **attributes})
        return name

    def input(self, dtype, *shape):
        name = self.name("x")
        self.inputs[name] = {"dtype": dtype, "shape": list(shape)}
        return name

    def state(self, dtype, shape, following):
        name = self.name("s")
        self.states[name] = {"dtype": dtype, "shape": list(shape), "next": following}
        return name

    def param(self, dtype, *shape):
        name = self.name("p")
        self.params[name] = {"dtype": dtype, "shape": list(shape)}
        if self.random.random() < 0.5 and all(isinstance(size, int) for size in shape):
            self.params[name]["data"] = self.numbers(shape)
        return name

    def numbers(self, shape):
        count = 1
        for size in shape:
            count *= size
        values = [self.random.randint(0, 3) for _ in range(count)]
        return values if shape else values[0]

    def weight(self, dtype, *shape):
        name = self.name("w")
        self.weights[name] = {"dtype": dtype, "shape": list(shape), "data": self.numbers(shape)}
        return name

    def symbol(self):
        """One of at most three sizes."""
        if len(self.symbols) < 3 and self.random.random() < 0.6 or not self.symbols:
            name = "NMK"[len(self.symbols)]
            least = self.random.choice([0, 1, 1, 2])
            most = least + self.random.randint(1, 9)
            self.symbols[name] = {"min": least, "max": most, "default": self.random.randint(least, most)}
            return name
        return self.random.choice(list(self.symbols))

    def size(self):
        return self.symbol() if self.random.random() < 0.6 else self.random.choice([1, 2, 3, 4, 5, 8, 17])

    def dtype(self):
        return self.random.choice(FLOATS + WHOLE)

    def give(self, value):
        if value not in self.outputs:
            self.outputs.append(value)


def add_elementwise(m):
    dtype, shape = m.dtype(), [m.size() for _ in range(m.random.randint(0, 3))]
    a, b = m.input(dtype, *shape), m.input(dtype, *shape)
    m.give(m.node("add", a, m.node("mul", b, 2)))
    if m.random.random() < 0.3:
        m.give(a)  # an input as it is


def add_product(m):
    rows, k, n = m.size(), m.random.choice([1, 3, 4, 16, 33]), m.random.choice([1, 4, 5, 16, 24])
    dtype = m.random.choice(["f32", "f32", "f16"])
    x = m.input(dtype, rows, k)
    w = m.param(dtype, k, n) if m.random.random() < 0.6 else m.weight(dtype, k, n)
    y = m.node("matmul", x, w)
    m.give(m.node("add", y, m.param(dtype, n)) if m.random.random() < 0.5 else y)


def add_prepared(m):
    p, q = m.param("f32", 4, 6), m.param("f32", 6)
    both = m.node("mul", p, q)
    m.give(m.node("matmul", m.input("f32", m.size(), 4), both))
    if m.random.random() < 0.4:
        m.give(m.node("transpose", both, perm=[1, 0]))


def add_param_output(m):
    m.give(m.param(m.dtype(), m.random.randint(1, 5)))


def add_sum(m):
    shape = [m.size(), m.random.choice([2, 3, 8])]
    dtype = m.random.choice(["f32", "i32", "f16"])
    x = m.input(dtype, *shape)
    total = m.node("reduce_sum", x, axes=[0], keepdims=False)
    s = m.state(dtype, [shape[1]], None)
    following = m.node("clamp", m.node("add", s, total), -500, 500)
    m.states[s]["next"] = following
    m.give(m.random.choice([following, s, total]))
    if m.random.random() < 0.5:
        m.give(m.random.choice([following, s, total]))


def add_moved(m):
    """States that exchange what they have, that take an input, that stay."""
    dtype, size = m.dtype(), m.random.randint(1, 5)
    a, b = m.state(dtype, [size], None), m.state(dtype, [size], None)
    x = m.input(dtype, size)
    m.states[a]["next"] = m.random.choice([b, x, a])
    m.states[b]["next"] = m.random.choice([a, a, x])
    m.give(m.random.choice([a, b]))
    if m.random.random() < 0.5:
        m.give(m.node("add", a, b))


def add_open_state(m):
    """A state of the largest size, of which each run changes the part that it has."""
    n = m.symbol()
    x = m.input("f32", n, 2)
    s = m.state("f32", [n, 2], None)
    m.states[s]["next"] = m.node("clamp", m.node("add", s, x), -500, 500)
    m.give(m.random.choice([s, m.states[s]["next"]]))


def add_cache(m):
    width, t, p = m.random.choice([1, 2, 4]), m.symbol(), m.name("P")
    m.symbols[p] = {"min": 0, "max": 6, "default": 2}
    outer = m.random.choice([[], [2]])
    axis = len(outer)
    past, x = m.input("f32", *outer, p, width), m.input("f32", *outer, t, width)
    present = m.node("concat", past, x, axis=axis)
    m.give(present)
    m.give(m.node("reduce_sum", present, axes=[axis]))
    if m.random.random() < 0.7:
        m.options += ["--handle", f"{past}={present}"]


def add_handle(m):
    x, y = m.input("f32", 4), m.input("f32", 4)
    total = m.node("clamp", m.node("add", x, y), -500, 500)
    m.give(total)
    m.options += ["--handle", m.random.choice([x, f"{x}={total}"])]


def add_slice(m):
    s = m.state("f32", [6, 3], None)
    row, at = m.input("f32", 1, 3), m.input("i64", 2)
    place = m.node("clamp", at, 0, 0)
    m.states[s]["next"] = m.node("update_slice", s, row, place)
    m.give(m.states[s]["next"])


def add_check(m):
    x = m.input("f32", m.random.randint(1, 4))
    least = m.node("reduce_min", x, keepdims=False)
    m.checks.append({"cond": m.node("ge", least, 0), "message": f"{x} must not be negative"})
    m.give(m.node("mul", x, 3))


def add_found(m):
    size = m.random.choice([5, 8])
    x = m.input(m.random.choice(["f32", "i32"]), size)
    m.symbols[hits := m.name("H")] = {"min": 0, "max": size}
    is_hit = m.node("gt", x, 1)
    count = m.node("reduce_sum", m.node("cast", is_hit, to="i64"), keepdims=False)
    places = m.node("nonzero", is_hit, size=[hits])
    m.extents = getattr(m, "extents", []) + [{"value": count, "size": [hits, size]}]
    m.options += ["--dim", f"{hits}={size}"]
    at = m.node("reshape", places, shape=[hits])
    m.give(at)
    if m.random.random() < 0.5:
        m.give(m.node("gather", x, at, axis=0))


def add_value(m):
    """The value of a symbol as a number."""
    one = m.name("w")
    m.weights[one] = {"dtype": "f32", "shape": [], "data": 1}
    ones = m.node("expand", one, shape=[m.symbol()])
    m.give(m.node("mul", m.input("f32", 3), m.node("reduce_sum", ones, keepdims=False)))


def add_loop(m):
    x, n = m.input("f32", 5, 3), m.input("i64")
    yes, zeros = m.name("w"), m.name("w")
    m.weights[yes] = {"dtype": "bool", "shape": [], "data": True}
    m.weights[zeros] = {"dtype": "f32", "shape": [3], "data": [0, 0, 0]}
    last, each, count = m.name("l"), m.name("l"), m.name("l")
    m.nodes.append({
        "op": "loop", "inputs": [m.node("clamp", n, 0, 5), yes, zeros, x], "carried": 1, "max_trips": [5],
        "outputs": [last, each, count],
        "body": {
            "inputs": {"i": {"dtype": "i64", "shape": []}, "go": {"dtype": "bool", "shape": []},
                       "s": {"dtype": "f32", "shape": [3]}, "x": {"dtype": "f32", "shape": [5, 3]}},
            "nodes": [{"name": "row", "op": "gather", "inputs": ["x", "i"]},
                      {"name": "more", "op": "add", "inputs": ["s", "row"]}],
            "outputs": {"go": "go", "s": "more", "each": "row"}}})
    m.give(last)
    if m.random.random() < 0.5:
        m.give(count)


def add_conv(m):
    x = m.input("f32", m.random.choice([1, m.symbol()]), 2, 6, 5)
    y = m.node("conv", x, m.weight("f32", 4, 2, 3, 3), pads=[1, 1, 1, 1])
    m.give(m.node("relu", y))
    if m.random.random() < 0.5:
        m.give(m.node("max_pool", y, kernel=[2, 2], strides=[2, 2]))


def add_constant(m):
    m.give(m.weight(m.dtype(), m.random.randint(1, 4)))


def add_double(m):
    if not m.is_metal:
        x = m.input("f64", m.size())
        m.give(m.node("add", x, m.param("f64", 1)))


def add_bool(m):
    a, b = m.input("bool", 3), m.input("bool", 3)
    m.give(m.node("logical_or", a, b))


PARTS = [add_elementwise, add_product, add_prepared, add_param_output, add_sum, add_moved, add_open_state,
         add_cache, add_handle, add_slice, add_check, add_found, add_value, add_loop, add_conv, add_constant,
         add_double, add_bool]


def make_model(seed, is_metal=False):
    """(graph, options that both programs are compiled with, names of sets and kept nodes are among them)"""
    m = Model(seed, is_metal)
    for part in m.random.choices(PARTS, k=m.random.randint(1, 5)):
        part(m)
    if not m.outputs:
        add_elementwise(m)
    used = str([m.inputs, m.params, m.states, m.nodes, getattr(m, "extents", [])])
    m.symbols = {name: size for name, size in m.symbols.items() if f"'{name}'" in used}
    graph = {"rlxc": 1, "symbols": m.symbols, "inputs": m.inputs, "params": m.params, "states": m.states,
             "weights": m.weights, "nodes": m.nodes, "checks": m.checks, "extents": getattr(m, "extents", []),
             "outputs": m.outputs}
    options = [*m.options, "--dynamic"]
    if m.random.random() < 0.4:
        free = [o for o in m.outputs if not any(h.endswith("=" + o) for h in m.options)]
        chosen = m.random.sample(free, m.random.randint(1, len(free))) if free else []
        options += ["--output-set", "few=" + ",".join(chosen)] if chosen else []
    if m.random.random() < 0.3 and m.nodes:
        named = [n["name"] for n in m.nodes if "name" in n and n["name"] not in m.outputs]
        options += ["--keep", m.random.choice(named)] if named else []
    return graph, options


def make_options(seed, graph, target):
    """Options of one of the two only."""
    r = random.Random(seed)
    options = []
    is_c = target == "c"
    if is_c and r.random() < 0.5:
        options += ["--threads", str(r.randint(2, 3))]
    for name, size in graph["symbols"].items():
        if name[0] in "NMKP" and r.random() < 0.3:
            ladder = sorted({size["max"], *(r.randint(max(1, size["min"]), size["max"]) for _ in range(2))})
            options += ["--bucket", f"{name}=" + ",".join(map(str, ladder)),
                        "--dim", f"{name}={size['min']}..{size['max']}"]
    for chance, *what in ((0.3, "--profile"), (0.2, "--tables"), (0.15, "--no-fuse"), (0.15, "--no-reorder"),
                          (0.1, "--embed-source"), (0.1, "--one-file"), (0.1, "--weights", "rodata")):
        if r.random() < chance:
            options += what
    if is_c and "--one-file" not in options and r.random() < 0.2:
        options += ["--split", "3"]
    if not is_c and r.random() < 0.3:
        options += ["--plan", "latency"]
    options += ["-O", r.choice("0123")] if r.random() < 0.5 else []
    return options
