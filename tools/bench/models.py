# SPDX-License-Identifier: Apache-2.0
"""Networks for benchmarks, made here with random weights, so that nothing has to be fetched: encoders and
decoders of transformers with the operators that exporters write (static shapes, opset 17), perceptrons, and
single matrix products with shapes from networks, MobileNetV2. Every function returns an onnx ModelProto."""

import math

import numpy as np
from onnx import TensorProto, helper, numpy_helper

OPSET = 17

# (m, k, n) of products of activations [m, k] with constant weights [k, n]: rows are tokens or images.
GEMM_SHAPES = [
    (1, 768, 768),  # one token of gpt2, bert-base: projections
    (1, 768, 3072),
    (1, 3072, 768),
    (1, 4096, 4096),  # llama-size projections
    (1, 768, 50257),  # gpt2's output
    (1, 2048, 1000),  # resnet50's classifier
    (1, 25088, 4096),  # vgg's first fully connected layer
    (2, 768, 3072),
    (4, 768, 2304),
    (8, 1024, 4096),
    (16, 768, 768),
    (16, 4096, 1024),
    (32, 768, 3072),
    (32, 2048, 1000),
    (64, 784, 256),
    (64, 3072, 768),
    (64, 768, 2304),
    (128, 768, 768),
    (128, 768, 3072),
    (128, 3072, 768),
    (128, 384, 1536),
    (128, 1536, 384),
    (197, 768, 3072),  # vit-base
    (197, 192, 576),  # vit-tiny
    (256, 1024, 1000),
    (512, 512, 512),
    (512, 768, 3072),
    (1024, 1024, 1024),
    (1500, 384, 1536),  # whisper-tiny
    (2048, 64, 256),
]


class Builder:
    """Collects nodes and random weights; values are names."""

    def __init__(self, seed=1):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights, self.inputs, self.outputs = [], [], [], []
        self.count = 0

    def name(self, hint):
        self.count += 1
        return f"{hint}_{self.count}"

    def op(self, kind, *src, n_out=1, **attrs):
        out = [self.name(kind.lower()) for _ in range(n_out)]
        self.nodes.append(helper.make_node(kind, list(src), out, **attrs))
        return out[0] if n_out == 1 else out

    def const(self, value, hint="c"):
        name = self.name(hint)
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def number(self, value):
        return self.const(np.float32(value))

    def random(self, *shape, scale=None):
        """Weights that keep the spread of what they are multiplied with: rows of a matrix are inputs."""
        scale = 1 / math.sqrt(shape[0]) if scale is None else scale
        return self.const(self.rng.standard_normal(shape, np.float32) * np.float32(scale), "w")

    def input(self, name, shape, kind=TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def output(self, value, name, shape):
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def model(self, name):
        graph = helper.make_graph(self.nodes, name, self.inputs, self.outputs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)

    # --- parts of transformers, as exporters write them ---

    def linear(self, x, k, n):
        """x of rank 3; the bias comes first in the addition."""
        return self.op("Add", self.random(n, scale=0.1), self.op("MatMul", x, self.random(k, n)))

    def conv1d(self, x, tokens, k, n):
        """gpt2's own form of a linear layer."""
        flat = self.op("Reshape", x, self.const(np.array([-1, k], np.int64)))
        y = self.op("Gemm", flat, self.random(k, n), self.random(n, scale=0.1))
        return self.op("Reshape", y, self.const(np.array([1, tokens, n], np.int64)))

    def norm(self, x, n, eps):
        scale = self.const(1 + self.rng.standard_normal(n, np.float32) * np.float32(0.1))
        return self.op("LayerNormalization", x, scale, self.random(n, scale=0.1), axis=-1, epsilon=eps)

    def gelu_erf(self, x):
        y = self.op("Add", self.op("Erf", self.op("Div", x, self.number(math.sqrt(2)))), self.number(1))
        return self.op("Mul", self.op("Mul", x, y), self.number(0.5))

    def gelu_tanh(self, x):
        cube = self.op("Mul", self.op("Pow", x, self.number(3)), self.number(0.044715))
        y = self.op("Mul", self.op("Add", x, cube), self.number(math.sqrt(2 / math.pi)))
        y = self.op("Add", self.op("Tanh", y), self.number(1))
        return self.op("Mul", self.op("Mul", x, self.number(0.5)), y)

    def split_heads(self, x, tokens, heads, size, perm):
        shape = self.const(np.array([1, tokens, heads, size], np.int64))
        return self.op("Transpose", self.op("Reshape", x, shape), perm=perm)

    def attend(self, q, k_transposed, v, size, mask):
        scores = self.op("Div", self.op("MatMul", q, k_transposed), self.number(math.sqrt(size)))
        return self.op("MatMul", self.op("Softmax", self.op("Add", scores, mask), axis=-1), v)

    def join_heads(self, x, tokens, hidden):
        y = self.op("Transpose", x, perm=[0, 2, 1, 3])
        return self.op("Reshape", y, self.const(np.array([1, tokens, hidden], np.int64)))

    def additive_mask(self, mask):
        """[1, keys] of 0 and 1 to [1, 1, 1, keys] of a large negative number and 0."""
        axes = self.const(np.array([1, 2], np.int64))
        m = self.op("Cast", self.op("Unsqueeze", mask, axes), to=TensorProto.FLOAT)
        return self.op("Mul", self.op("Sub", self.number(1), m), self.number(-10000.0))


def bert_layer(b, x, tokens, heads, hidden, inner, mask):
    size = hidden // heads
    q, k, v = (b.linear(x, hidden, hidden) for _ in range(3))
    q = b.split_heads(q, tokens, heads, size, [0, 2, 1, 3])
    k = b.split_heads(k, tokens, heads, size, [0, 2, 3, 1])
    v = b.split_heads(v, tokens, heads, size, [0, 2, 1, 3])
    y = b.join_heads(b.attend(q, k, v, size, mask), tokens, hidden)
    x = b.norm(b.op("Add", b.linear(y, hidden, hidden), x), hidden, 1e-12)
    y = b.linear(b.gelu_erf(b.linear(x, hidden, inner)), inner, hidden)
    return b.norm(b.op("Add", y, x), hidden, 1e-12)


def bert(layers=12, heads=12, hidden=768, tokens=128, inner=None, vocabulary=30522, positions=512):
    """An encoder: input_ids, attention_mask, token_type_ids [1, tokens] to last_hidden_state and
    pooler_output."""
    b = Builder()
    i64 = TensorProto.INT64
    ids, mask, kinds = (
        b.input(n, [1, tokens], i64) for n in ("input_ids", "attention_mask", "token_type_ids")
    )
    words = b.op("Gather", b.random(vocabulary, hidden, scale=1), ids)
    x = b.op("Add", words, b.op("Gather", b.random(2, hidden, scale=1), kinds))
    x = b.op("Add", x, b.random(1, tokens, hidden, scale=1))
    x = b.norm(x, hidden, 1e-12)
    additive = b.additive_mask(mask)
    for _ in range(layers):
        x = bert_layer(b, x, tokens, heads, hidden, inner or 4 * hidden, additive)
    b.output(x, "last_hidden_state", [1, tokens, hidden])
    first = b.op("Gather", x, b.const(np.int64(0)), axis=1)
    pooled = b.op("Gemm", first, b.random(hidden, hidden), b.random(hidden, scale=0.1), transB=1)
    b.output(b.op("Tanh", pooled), "pooler_output", [1, hidden])
    return b.model("bert")


def bert_base(tokens=128):
    return bert(12, 12, 768, tokens)


def minilm(tokens=128):
    """The size of all-MiniLM-L6-v2."""
    return bert(6, 12, 384, tokens)


def gpt2_layer(b, x, layer, tokens, past, heads, hidden, mask):
    size = hidden // heads
    y = b.conv1d(b.norm(x, hidden, 1e-5), tokens, hidden, 3 * hidden)
    parts = b.op("Split", y, b.const(np.array([hidden] * 3, np.int64)), n_out=3, axis=2)
    q, k, v = (b.split_heads(p, tokens, heads, size, [0, 2, 1, 3]) for p in parts)
    if past:
        k, v = (
            b.op("Concat", b.input(f"past_key_values.{layer}.{what}", [1, heads, past, size]), new, axis=2)
            for what, new in (("key", k), ("value", v))
        )
    b.output(k, f"present.{layer}.key", [1, heads, past + tokens, size])
    b.output(v, f"present.{layer}.value", [1, heads, past + tokens, size])
    y = b.attend(q, b.op("Transpose", k, perm=[0, 1, 3, 2]), v, size, mask)
    y = b.conv1d(b.join_heads(y, tokens, hidden), tokens, hidden, hidden)
    x = b.op("Add", y, x)
    y = b.gelu_tanh(b.conv1d(b.norm(x, hidden, 1e-5), tokens, hidden, 4 * hidden))
    return b.op("Add", b.conv1d(y, tokens, 4 * hidden, hidden), x)


def gpt2(past=0, tokens=64, layers=12, heads=12, hidden=768, vocabulary=50257, positions=1024):
    """A decoder: input_ids, position_ids [1, tokens], attention_mask [1, past + tokens] and, with past > 0, a
    key and a value of each layer, to logits and the keys and values with those of the tokens behind them."""
    b = Builder()
    ids = b.input("input_ids", [1, tokens], TensorProto.INT64)
    places = b.input("position_ids", [1, tokens], TensorProto.INT64)
    mask = b.additive_mask(b.input("attention_mask", [1, past + tokens], TensorProto.INT64))
    if tokens > 1:
        hidden_keys = np.triu(np.ones((tokens, past + tokens), np.float32), past + 1) * np.float32(-10000.0)
        mask = b.op("Add", mask, b.const(hidden_keys[None, None]))
    table = b.random(vocabulary, hidden, scale=0.2)
    x = b.op("Gather", b.random(positions, hidden, scale=0.1), places)
    x = b.op("Add", b.op("Gather", table, ids), x)
    for layer in range(layers):
        x = gpt2_layer(b, x, layer, tokens, past, heads, hidden, mask)
    x = b.norm(x, hidden, 1e-5)
    logits = b.op("MatMul", x, b.op("Transpose", table, perm=[1, 0]))
    b.output(logits, "logits", [1, tokens, vocabulary])
    return b.model("gpt2")


def gpt2_decode(past=128):
    """One token with `past` tokens before it."""
    return gpt2(past=past, tokens=1)


def mlp(sizes=(784, 256, 128, 10), batch=1):
    """Gemm and Relu, as exporters write linear layers."""
    b = Builder()
    x = b.input("x", [batch, sizes[0]])
    for i, (k, n) in enumerate(zip(sizes, sizes[1:])):
        x = b.op("Gemm", x, b.random(n, k, scale=1 / math.sqrt(k)), b.random(n, scale=0.1), transB=1)
        if i + 2 < len(sizes):
            x = b.op("Relu", x)
    b.output(x, "y", [batch, sizes[-1]])
    return b.model("mlp")


def gemm(m, k, n, epilogue=None):
    """x [m, k] times constant weights; epilogue: None, "bias", "relu" or "gelu" (with a bias too)."""
    b = Builder()
    y = b.op("MatMul", b.input("x", [m, k]), b.random(k, n))
    if epilogue is not None:
        y = b.op("Add", y, b.random(n, scale=0.1))
    if epilogue == "relu":
        y = b.op("Relu", y)
    if epilogue == "gelu":
        y = b.gelu_erf(y)
    b.output(y, "y", [m, n])
    return b.model(f"gemm_{m}x{k}x{n}")


# --- convolutions ---


def convolution(b, x, ic, oc, kernel, stride=1, group=1, clip=True):
    """With a bias, as exporters write it after folding the batch norm; clip: ReLU6."""
    w = b.random(oc, ic // group, kernel, kernel, scale=math.sqrt(2 / (ic // group * kernel * kernel)))
    y = b.op("Conv", x, w, b.random(oc, scale=0.1), strides=[stride] * 2, pads=[kernel // 2] * 4, group=group)
    return b.op("Clip", y, b.number(0), b.number(6)) if clip else y


def mobilenet_v2(size=224):
    """The standard network: inverted residual blocks of (expansion, channels, how many, stride)."""
    blocks = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)]
    blocks += [(6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    b = Builder()
    x, channels = convolution(b, b.input("x", [1, 3, size, size]), 3, 32, 3, stride=2), 32
    for expansion, oc, n, first_stride in blocks:
        for i in range(n):
            stride, inner = first_stride if i == 0 else 1, channels * expansion
            y = x if expansion == 1 else convolution(b, x, channels, inner, 1)
            y = convolution(b, y, inner, inner, 3, stride=stride, group=inner)
            y = convolution(b, y, inner, oc, 1, clip=False)
            x = b.op("Add", x, y) if stride == 1 and channels == oc else y
            channels = oc
    x = b.op("GlobalAveragePool", convolution(b, x, channels, 1280, 1))
    y = b.op("Gemm", b.op("Flatten", x), b.random(1280, 1000), b.random(1000, scale=0.1))
    b.output(y, "y", [1, 1000])
    return b.model("mobilenet_v2")
