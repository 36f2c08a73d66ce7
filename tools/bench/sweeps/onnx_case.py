# SPDX-License-Identifier: Apache-2.0
"""A case as an ONNX model: what rlxc, ONNX Runtime and OpenVINO get.

Weights are random, of a size that keeps results near one. int8 is a quantised model as tools write it:
QuantizeLinear and DequantizeLinear around the first operator, the weights stored as bytes."""

import math

import numpy as np
from onnx import TensorProto, helper, numpy_helper

OPSET, IR_VERSION = 20, 10
TYPES = {
    "f32": TensorProto.FLOAT,
    "f16": TensorProto.FLOAT16,
    "bf16": TensorProto.BFLOAT16,
    "int8": TensorProto.FLOAT,
}
SIMPLE = {
    "relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "hardswish": "HardSwish", "exp": "Exp",
    "sqrt": "Sqrt",
    "neg": "Neg", "abs": "Abs", "erf": "Erf", "softplus": "Softplus", "mish": "Mish", "log": "Log",
    "sin": "Sin",
    "cos": "Cos",
}  # fmt: skip
BINARY = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div"}
INTEGERS = {"embedding"}  # whose input is of i64


class Model:
    """Collects nodes; values are names."""

    def __init__(self, case, dtype):
        self.case, self.dtype = case, dtype
        self.rng = np.random.default_rng(7)
        self.nodes, self.constants, self.inputs = [], [], []
        self.shape = list(case["in"][0])

    def op(self, kind, *inputs, n=1, **facts):
        names = [f"v{len(self.nodes)}_{i}" for i in range(n)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **facts))
        return names[0]

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def floats(self, array):
        """A constant in the element type of the case."""
        name = f"c{len(self.constants)}"
        array = np.asarray(array, np.float32)
        if self.dtype == "bf16":
            bits = array.view(np.uint32)
            raw = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).tobytes()
            self.constants.append(helper.make_tensor(name, TensorProto.BFLOAT16, array.shape, raw, raw=True))
        else:
            kind = np.float16 if self.dtype == "f16" else np.float32
            self.constants.append(numpy_helper.from_array(array.astype(kind), name))
        return name

    def number(self, value):
        return self.floats(np.float32(value))

    def random(self, shape, scale):
        return self.floats(self.rng.standard_normal(shape, np.float32) * np.float32(scale))

    def ones(self, shape):
        return self.floats(1 + 0.1 * self.rng.standard_normal(shape, np.float32))

    def weights(self, shape, fan_in, axis):
        """Weights of a product; of int8: bytes with a scale for each output channel."""
        scale = 1 / math.sqrt(fan_in)
        if self.dtype != "int8":
            return self.random(shape, scale)
        bytes_ = self.constant(self.rng.integers(-127, 128, shape, np.int8))
        scales = self.constant(np.full(shape[axis], scale / 64, np.float32))
        return self.op(
            "DequantizeLinear", bytes_, scales, self.constant(np.zeros(shape[axis], np.int8)), axis=axis
        )

    def quantised(self, value):
        if self.dtype != "int8":
            return value
        scale, zero = self.constant(np.float32(1 / 32)), self.constant(np.int8(0))
        return self.op("DequantizeLinear", self.op("QuantizeLinear", value, scale, zero), scale, zero)

    def bias(self, n):
        if self.dtype != "int8":
            return self.random([n], 0.1)
        return self.constant(self.rng.standard_normal(n, np.float32) * np.float32(0.1))


def pads(facts):
    return [*facts["pad"], *facts["pad"]]


def conv(m, x, a):
    o, c = a["w"][:2]
    w = m.weights(a["w"], c * math.prod(a["w"][2:]), 0)
    more = [m.bias(o)] if a["bias"] else []
    facts = dict(strides=a["stride"], pads=pads(a), dilations=a["dil"], group=a["groups"])
    return m.quantised(m.op("Conv", m.quantised(x), w, *more, **facts))


def deconv(m, x, a):
    c, o = a["w"][:2]
    w = m.weights(a["w"], c * math.prod(a["w"][2:]) // math.prod(a["stride"]), 1)
    more = [m.bias(o * a["groups"])] if a["bias"] else []
    facts = dict(strides=a["stride"], pads=pads(a), dilations=a["dil"], group=a["groups"])
    y = m.op("ConvTranspose", m.quantised(x), w, *more, output_padding=a["more"], **facts)
    return m.quantised(y)


def linear(m, x, a):
    y = m.op("MatMul", m.quantised(x), m.weights(a["w"], a["w"][0], 1))
    if a["bias"]:
        y = m.op("Add", y, m.bias(a["w"][1]))
    return m.quantised(y)


def matmul(m, x, a):
    y = m.inputs[a["with"]]
    scaled = m.op("Mul", x, m.number(1 / math.sqrt(m.case["in"][0][2])))
    return m.op("MatMul", scaled, m.op("Transpose", y, perm=[0, 2, 1]) if a["turned"] else y)


def attention(m, x, a):
    """As exporters write it."""
    q, k, v = m.inputs[:3]
    rank = len(m.case["in"][0])
    order = [*range(rank - 2), rank - 1, rank - 2]
    heads, size = m.case["in"][0][1], m.case["in"][0][-1]
    if m.case["in"][1][1] != heads:
        k, v = repeat(m, k, 1, heads), repeat(m, v, 2, heads)
    scores = m.op("MatMul", m.op("Mul", q, m.number(1 / math.sqrt(size))), m.op("Transpose", k, perm=order))
    if "mask" in a:
        scores = m.op("Add", scores, m.inputs[a["mask"]])
    if a["causal"]:
        rows, columns = m.case["in"][0][-2], m.case["in"][1][-2]
        scores = m.op("Add", scores, m.floats(np.triu(np.full((rows, columns), -1e4, np.float32), 1)))
    return m.op("MatMul", m.op("Softmax", scores, axis=-1), v)


def repeat(m, value, which, heads):
    """Heads of keys or values for all heads of queries."""
    n, given, rows, size = m.case["in"][which]
    wide = m.op("Unsqueeze", value, m.constant(np.array([2])))
    wide = m.op("Expand", wide, m.constant(np.array([n, given, heads // given, rows, size])))
    return m.op("Reshape", wide, m.constant(np.array([n, heads, rows, size])))


def softmax(m, x, a):
    return m.op("Softmax", x, axis=a["axis"])


def layer_norm(m, x, a):
    shape = m.shape[-a["axes"] :]
    return m.op(
        "LayerNormalization", x, m.ones(shape), m.random(shape, 0.1), axis=-a["axes"], epsilon=a["eps"]
    )


def group_norm(m, x, a):
    """As torch exports it: instance norm of the groups as rows."""
    n, c = m.shape[:2]
    g = a["groups"]
    rows = m.op("Reshape", x, m.constant(np.array([0, g, -1])))
    y = m.op("InstanceNormalization", rows, m.floats(np.ones(g)), m.floats(np.zeros(g)), epsilon=a["eps"])
    y = m.op("Reshape", y, m.constant(np.array(m.shape)))
    wide = [c] + [1] * (len(m.shape) - 2)
    return m.op("Add", m.op("Mul", y, m.ones(wide)), m.random(wide, 0.1))


def batch_norm(m, x, a):
    c = m.shape[1]
    return m.op(
        "BatchNormalization", x, m.ones([c]), m.random([c], 0.1), m.random([c], 0.1), m.floats(np.ones(c))
    )


def max_pool(m, x, a):
    return m.op(
        "MaxPool", x, kernel_shape=a["k"], strides=a["stride"], pads=pads(a), ceil_mode=int(a["ceil"])
    )


def avg_pool(m, x, a):
    facts = dict(kernel_shape=a["k"], strides=a["stride"], pads=pads(a), ceil_mode=int(a["ceil"]))
    return m.op("AveragePool", x, count_include_pad=int(a["counts"]), **facts)


def mean(m, x, a):
    return m.op("ReduceMean", x, m.constant(np.array(a["axes"])), keepdims=1)


def total(m, x, a):
    return m.op("ReduceSum", x, m.constant(np.array(a["axes"])), keepdims=1)


def cat(m, x, a):
    return m.op("Concat", *m.inputs, axis=a["axis"])


def transpose(m, x, a):
    return m.op("Transpose", x, perm=a["perm"])


def resize(m, x, a):
    how = "align_corners" if a["corners"] else "asymmetric" if a["mode"] == "nearest" else "half_pixel"
    sizes = m.constant(np.array([*m.shape[:2], *a["size"]], np.int64))
    facts = dict(mode=a["mode"], coordinate_transformation_mode=how, nearest_mode="floor")
    return m.op("Resize", x, "", "", sizes, **facts)


def embedding(m, x, a):
    return m.op("Gather", m.random(a["w"], 1), x, axis=0)


def recurrent(kind, gates):
    def make(m, x, a):
        h, d, i = a["hidden"], 2 if a["both"] else 1, m.shape[2]
        w, r = m.random([d, gates * h, i], 1 / math.sqrt(i)), m.random([d, gates * h, h], 1 / math.sqrt(h))
        b = m.random([d, 2 * gates * h], 0.1)
        facts = {"linear_before_reset": 1} if kind == "GRU" else {}
        way = "bidirectional" if a["both"] else "forward"
        return m.op(kind, x, w, r, b, hidden_size=h, direction=way, **facts)

    return make


def topk(m, x, a):
    return m.op("TopK", x, m.constant(np.array([a["k"]])), axis=a["axis"], n=2)


def argmax(m, x, a):
    return m.op("ArgMax", x, axis=a["axis"], keepdims=1)


def cumsum(m, x, a):
    return m.op("CumSum", x, m.constant(np.int64(a["axis"])))


def pixel_shuffle(m, x, a):
    return m.op("DepthToSpace", x, blocksize=a["by"], mode="CRD")


def pad(m, x, a):
    rank, p = len(m.shape), a["pads"]
    before, after = [0] * rank, [0] * rank
    for i in range(len(p) // 2):
        before[rank - 1 - i], after[rank - 1 - i] = p[2 * i], p[2 * i + 1]
    return m.op("Pad", x, m.constant(np.array(before + after)), mode=a["mode"])


def binary(kind):
    def make(m, x, a):
        other = m.inputs[a["with"]] if "with" in a else m.number(a["by"])
        return m.op(kind, *((other, x) if a.get("right") else (x, other)))

    return make


def silu(m, x, a):
    return m.op("Mul", x, m.op("Sigmoid", x))


def gelu(m, x, a):
    """As exporters write it below opset 20."""
    if a["form"] == "tanh":
        cube = m.op("Mul", x, m.op("Mul", x, x))
        inner = m.op("Add", x, m.op("Mul", cube, m.number(0.044715)))
        half = m.op("Add", m.op("Tanh", m.op("Mul", inner, m.number(math.sqrt(2 / math.pi)))), m.number(1))
    else:
        half = m.op("Add", m.op("Erf", m.op("Div", x, m.number(math.sqrt(2)))), m.number(1))
    return m.op("Mul", m.op("Mul", x, half), m.number(0.5))


def clip(m, x, a):
    bounds = [m.number(b) if b is not None else "" for b in (a["low"], a["high"])]
    return m.op("Clip", x, *bounds)


MAKERS = {
    "conv": conv, "deconv": deconv, "linear": linear, "matmul": matmul, "attention": attention,
    "softmax": softmax,
    "layer_norm": layer_norm, "group_norm": group_norm, "batch_norm": batch_norm, "max_pool": max_pool,
    "avg_pool": avg_pool, "mean": mean, "sum": total, "cat": cat, "transpose": transpose, "resize": resize,
    "embedding": embedding, "lstm": recurrent("LSTM", 4), "gru": recurrent("GRU", 3), "topk": topk,
    "argmax": argmax, "cumsum": cumsum, "pixel_shuffle": pixel_shuffle, "pad": pad, "silu": silu,
    "gelu": gelu,
    "clip": clip, **{op: binary(kind) for op, kind in BINARY.items()},
    "square": lambda m, x, a: m.op("Mul", x, x),
    "rsqrt": lambda m, x, a: m.op("Reciprocal", m.op("Sqrt", x)),
    "hardsigmoid": lambda m, x, a: m.op("HardSigmoid", x, alpha=1 / 6),
    "leaky_relu": lambda m, x, a: m.op("LeakyRelu", x, alpha=a["alpha"]),
    "elu": lambda m, x, a: m.op("Elu", x, alpha=float(a["alpha"])),
    "pow": lambda m, x, a: m.op("Pow", x, m.number(a["by"])),
    **{op: (lambda m, x, a, kind=kind: m.op(kind, x)) for op, kind in SIMPLE.items()},
}  # fmt: skip


class Made:
    """A case as a model, and where the constants of each of its steps begin."""

    def __init__(self, model, starts):
        self.model, self.starts = model, starts


def made_of(case, dtype):
    """A case in an element type, as a Made."""
    m = Model(case, dtype)
    kinds = [TYPES[dtype]] * len(case["in"])
    if case["steps"][0][0] in INTEGERS:
        kinds[0] = TensorProto.INT64
    m.inputs = [f"x{i}" for i in range(len(kinds))]
    value, starts = "x0", []
    for op, facts in case["steps"]:
        starts.append(len(m.constants))
        value = MAKERS[op](m, value, facts)
    given = [helper.make_tensor_value_info(n, t, s) for n, t, s in zip(m.inputs, kinds, case["in"])]
    kind = TensorProto.INT64 if case["steps"][-1][0] == "argmax" else TYPES[dtype]
    out = helper.make_tensor_value_info(value, kind, None)
    graph = helper.make_graph(m.nodes, "case", given, [out], m.constants)
    opsets = [helper.make_opsetid("", OPSET)]
    return Made(helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION), starts)


def inputs_of(case, dtype):
    """name -> array; positive where a logarithm or root follows."""
    rng = np.random.default_rng(3)
    found = {}
    is_positive = any(s[0] in ("log", "sqrt", "rsqrt", "pow") for s in case["steps"])
    for i, shape in enumerate(case["in"]):
        if i == 0 and case["steps"][0][0] in INTEGERS:
            found[f"x{i}"] = rng.integers(0, case["steps"][0][1]["w"][0], shape)
            continue
        x = np.asarray(rng.standard_normal(shape, np.float32))
        x = np.abs(x) + np.float32(0.1) if is_positive else x
        if any(s[0] == "div" and s[1].get("with") == i for s in case["steps"]):
            x = np.abs(x) + np.float32(0.5)
        found[f"x{i}"] = np.asarray(x, np.float16 if dtype == "f16" else np.float32)
    return found
