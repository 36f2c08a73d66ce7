# SPDX-License-Identifier: Apache-2.0
"""Small networks of the sets `cnn`, `small` and `eltwise`, made here with random weights (digits: with its
own). Larger ones are in tools/bench/models.py. Every function returns an onnx ModelProto."""

import json
import math
import pathlib

import numpy as np
from models import Builder

ROOT = pathlib.Path(__file__).resolve().parents[3]

# (expansion, channels, repeats, stride) of MobileNet v2's blocks
MOBILENET_V2 = [
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
]


def finish(b, name, outputs):
    """A model of outputs (value, name, shape)."""
    for value, out, shape in outputs:
        b.output(value, out, shape)
    return b.model(name)


# --- convolution -----------------------------------------------------------------------------------


def conv(b, x, c, o, k, stride=1, group=1, clip=True):
    """Convolution with bias (a folded batch norm), then relu6."""
    w = b.const(
        b.rng.standard_normal((o, c // group, k, k), np.float32) * math.sqrt(2 / (c // group * k * k))
    )
    attrs = {"kernel_shape": [k, k], "pads": [k // 2] * 4, "strides": [stride] * 2, "group": group}
    x = b.op("Conv", x, w, b.random(o, scale=0.1), **attrs)
    return b.op("Clip", x, b.number(0), b.number(6)) if clip else x


def mobilenet_v2():
    b = Builder()
    x = conv(b, b.input("x", [1, 3, 224, 224]), 3, 32, 3, 2)
    c = 32
    for expansion, o, repeats, first_stride in MOBILENET_V2:
        for i in range(repeats):
            stride = first_stride if i == 0 else 1
            wide = c * expansion
            y = conv(b, x, c, wide, 1) if expansion > 1 else x
            y = conv(b, conv(b, y, wide, wide, 3, stride, wide), wide, o, 1, clip=False)
            x = b.op("Add", x, y) if stride == 1 and c == o else y
            c = o
    x = b.op("Flatten", b.op("GlobalAveragePool", conv(b, x, c, 1280, 1)), axis=1)
    y = b.op("Gemm", x, b.random(1280, 1000), b.random(1000, scale=0.1))
    return finish(b, "mobilenet_v2", [(y, "y", [1, 1000])])


def read_safetensors(path):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    found = {}
    for name, t in json.loads(data[8 : 8 + size]).items():
        if name != "__metadata__":
            begin, end = (8 + size + o for o in t["data_offsets"])
            found[name] = np.frombuffer(data[begin:end], np.float32).reshape(t["shape"]).copy()
    return found


def digits():
    """models/digits, as ONNX."""
    w = read_safetensors(ROOT / "models/digits/digits.safetensors")
    b = Builder()
    x = b.input("x", [1, 1, 8, 8])
    for name, pool in (("conv1", False), ("conv2", True), ("conv3", True)):
        weight, bias = b.const(w[name + ".weight"]), b.const(w[name + ".bias"])
        x = b.op("Relu", b.op("Conv", x, weight, bias, kernel_shape=[3, 3], pads=[1] * 4))
        x = b.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]) if pool else x
    x = b.op("MatMul", b.op("Flatten", x, axis=1), b.const(w["dense.weight"]))
    logits = b.op("Add", x, b.const(w["dense.bias"]))
    return finish(
        b, "digits", [(logits, "logits", [1, 10]), (b.op("Softmax", logits, axis=-1), "p", [1, 10])]
    )


def autoencoder():
    """As MLPerf Tiny's anomaly detection: dense layers with a bottle neck."""
    sizes = [640, 128, 128, 128, 128, 8, 128, 128, 128, 128, 640]
    b = Builder()
    x = b.input("x", [1, 640])
    for i, (k, n) in enumerate(zip(sizes, sizes[1:])):
        x = b.op("Gemm", x, b.random(k, n), b.random(n, scale=0.1))
        x = b.op("Relu", x) if i + 2 < len(sizes) else x
    return finish(b, "autoencoder", [(x, "y", [1, 640])])


# --- elementwise chains, norms, reductions ---------------------------------------------------------


def chain(shape, make, n_inputs=1, out_shape=None):
    """make(builder, inputs...) over inputs of one shape."""
    b = Builder()
    y = make(b, *(b.input(f"x{i}", list(shape)) for i in range(n_inputs)))
    return finish(b, "chain", [(y, "y", list(out_shape or shape))])


def affine_relu(b, x):
    return b.op("Relu", b.op("Add", b.op("Mul", x, b.random(1024)), b.random(1024)))


def polynomial(b, x):
    """Eight cheap steps."""
    y = b.op("Add", b.op("Mul", x, b.number(0.1)), b.number(-0.3))
    y = b.op("Sub", b.op("Mul", y, x), b.number(0.5))
    y = b.op("Abs", b.op("Max", b.op("Mul", y, x), b.number(-1)))
    return b.op("Clip", y, b.number(-2), b.number(2))


def silu(b, x):
    return b.op("Mul", x, b.op("Sigmoid", x))


def swiglu(b, x, gate):
    return b.op("Mul", x, silu(b, gate))


def softmax(b, x):
    return b.op("Softmax", x, axis=-1)


def layer_norm(n):
    return lambda b, x: b.norm(x, n, 1e-5)


def add_layer_norm(b, x, y):
    return b.norm(b.op("Add", x, y), 1024, 1e-5)


def rms_norm(b, x):
    mean = b.op("ReduceMean", b.op("Mul", x, x), axes=[-1], keepdims=1)
    scale = b.op("Div", x, b.op("Sqrt", b.op("Add", mean, b.number(1e-6))))
    return b.op("Mul", scale, b.random(1024))


def group_norm(b, x):
    """Instance norm of 32 groups, as exporters write it: x [1, 64, 128, 128]."""
    y = b.op("Reshape", x, b.const(np.array([1, 32, -1], np.int64)))
    y = b.op(
        "InstanceNormalization", y, b.const(np.ones(32, np.float32)), b.const(np.zeros(32, np.float32))
    )
    y = b.op("Reshape", y, b.const(np.array([1, 64, 128, 128], np.int64)))
    return b.op("Add", b.op("Mul", y, b.random(64, 1, 1)), b.random(64, 1, 1))


def batch_norm(b, x):
    stats = [b.random(64) for _ in range(3)] + [b.const(np.ones(64, np.float32))]
    return b.op("BatchNormalization", x, *stats)


def reduce(kind, axis):
    return lambda b, x: b.op(kind, x, axes=[axis], keepdims=0)


def unary(*kinds):
    def make(b, x):
        for kind in kinds:
            x = b.op(kind, x)
        return x

    return make


def gelu_erf(b, x):
    return b.gelu_erf(x)


def gelu_tanh(b, x):
    return b.gelu_tanh(x)


def gru_cell(b, x, h):
    """A step of a gated unit on one vector, as exporters unroll it."""
    gates = [
        b.op("Add", b.op("MatMul", x, b.random(64, 64)), b.op("MatMul", h, b.random(64, 64))) for _ in "rz"
    ]
    r, z = (b.op("Sigmoid", g) for g in gates)
    n = b.op("MatMul", b.op("Mul", r, h), b.random(64, 64))
    n = b.op("Tanh", b.op("Add", b.op("MatMul", x, b.random(64, 64)), n))
    rest = b.op("Sub", b.number(1), z)
    return b.op("Add", b.op("Mul", rest, n), b.op("Mul", z, h))


def unary_add(b, x, y):
    return b.op("Add", x, y)
