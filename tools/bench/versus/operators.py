# SPDX-License-Identifier: Apache-2.0
"""The cases of tools/bench/operators: of each kind of ONNX operator one, with a size and values as networks
have them, as a model of one node. Needs numpy and onnx."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

DATA = (256, 1024)  # 1 MB of f32: what elementwise operators get
IMAGE = (1, 64, 56, 56)


class Case:
    """A node: operands are arrays, which are inputs of the model; Fixed ones are constants; None is left
    out. `error` is the largest accepted difference over the largest magnitude; None: the results are random,
    of which only shape, mean and spread are compared."""

    def __init__(self, kind, *operands, outputs=1, opset=21, error=1e-4, **attrs):
        self.kind, self.operands, self.outputs = kind, operands, outputs
        self.opset, self.error, self.attrs = opset, error, attrs

    def model(self):
        names = ["" if v is None else f"x{i}" for i, v in enumerate(self.operands)]
        results = [f"y{i}" for i in range(self.outputs)] if self.outputs else []
        node = helper.make_node(self.kind, names, results, **self.attrs)
        inputs, constants = [], []
        for name, v in zip(names, self.operands):
            if isinstance(v, Fixed):
                constants.append(numpy_helper.from_array(v.array, name))
            elif v is not None:
                kind = helper.np_dtype_to_tensor_dtype(v.dtype)
                inputs.append(helper.make_tensor_value_info(name, kind, v.shape))
        found = [helper.make_empty_tensor_value_info(y) for y in results]
        graph = helper.make_graph([node], self.kind, inputs, found, constants)
        opset = helper.make_opsetid("", self.opset)
        return helper.make_model(graph, opset_imports=[opset], ir_version=10)

    def inputs(self):
        named = {f"x{i}": v for i, v in enumerate(self.operands)}
        return {n: v for n, v in named.items() if v is not None and not isinstance(v, Fixed)}


class Fixed:
    def __init__(self, array):
        self.array = np.asarray(array)


class Values:
    """Arrays with random values, the same in each run."""

    def __init__(self):
        self.rng = np.random.default_rng(7)

    def normal(self, *shape, scale=1.0, dtype=np.float32):
        return (self.rng.standard_normal(shape) * scale).astype(dtype)

    def between(self, low, high, *shape, dtype=np.float32):
        return self.rng.uniform(low, high, shape).astype(dtype)

    def whole(self, low, high, *shape, dtype=np.int64):
        return self.rng.integers(low, high, shape).astype(dtype)

    def truth(self, *shape):
        return self.rng.integers(0, 2, shape).astype(bool)

    def boxes(self, n, size):
        corner = self.between(0, size * 0.8, n, 2)
        return np.concatenate([corner, corner + self.between(size * 0.05, size * 0.2, n, 2)], 1)


# --- elementwise ---------------------------------------------------------------------------------

# kind: range of its operand; None: normally distributed
UNARY = {
    "Abs": None,
    "Acos": (-1, 1),
    "Acosh": (1, 20),
    "Asin": (-1, 1),
    "Asinh": (-9, 9),
    "Atan": (-9, 9),
    "Atanh": (-0.99, 0.99),
    "Ceil": (-9, 9),
    "Celu": None,
    "Cos": (-20, 20),
    "Cosh": (-5, 5),
    "Elu": None,
    "Erf": None,
    "Exp": None,
    "Floor": (-9, 9),
    "Gelu": None,
    "HardSigmoid": None,
    "HardSwish": None,
    "IsInf": None,
    "IsNaN": None,
    "LeakyRelu": None,
    "Log": (0.01, 9),
    "Mish": None,
    "Neg": None,
    "Reciprocal": (0.1, 9),
    "Relu": None,
    "Round": (-9, 9),
    "Selu": None,
    "Sigmoid": None,
    "Sign": None,
    "Sin": (-20, 20),
    "Sinh": (-5, 5),
    "Softplus": None,
    "Softsign": None,
    "Sqrt": (0, 9),
    "Tan": (-1.5, 1.5),
    "Tanh": None,
    "ThresholdedRelu": None,
}


def unary(v):
    for kind, span in UNARY.items():
        yield Case(kind, v.between(*span, *DATA) if span else v.normal(*DATA), error=1e-5)
    yield Case("Not", v.truth(*DATA))
    yield Case("BitwiseNot", v.whole(0, 1 << 30, *DATA, dtype=np.int32))
    yield Case("Clip", v.normal(*DATA), Fixed(np.float32(-1)), Fixed(np.float32(1)))
    yield Case("Cast", v.normal(*DATA), to=TensorProto.FLOAT16)
    yield Case("Dropout", v.normal(*DATA))


def binary(v):
    for kind in ("Add", "Sub", "Mul", "Max", "Min", "Mean", "Sum", "Greater", "Less", "GreaterOrEqual"):
        yield Case(kind, v.normal(*DATA), v.normal(*DATA))
    yield Case("LessOrEqual", v.normal(*DATA), v.normal(*DATA))
    yield Case("Equal", v.whole(0, 9, *DATA), v.whole(0, 9, *DATA))
    yield Case("Div", v.whole(-999, 999, *DATA, dtype=np.int32), Fixed(np.int32([7])))
    yield Case("Mod", v.whole(-999, 999, *DATA, dtype=np.int32), Fixed(np.int32([10])))
    yield Case("Pow", v.between(0.1, 3, *DATA), v.between(-2, 2, *DATA))
    yield Case("PRelu", v.normal(*IMAGE), Fixed(v.normal(64, 1, 1)))
    yield Case("Where", v.truth(*DATA), v.normal(*DATA), v.normal(*DATA))
    for kind in ("And", "Or", "Xor"):
        yield Case(kind, v.truth(*DATA), v.truth(*DATA))
    for kind in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        yield Case(kind, v.whole(0, 1 << 30, *DATA, dtype=np.int32), v.whole(0, 99, *DATA, dtype=np.int32))
    words = v.whole(0, 1 << 30, *DATA, dtype=np.uint32)
    yield Case("BitShift", words, Fixed(np.uint32([3])), direction="RIGHT")


def quantised(v):
    scale, zero = Fixed(np.float32(0.02)), Fixed(np.uint8(128))
    byte = v.whole(0, 256, *DATA, dtype=np.uint8)
    yield Case("QuantizeLinear", v.normal(*DATA), scale, zero)
    yield Case("DequantizeLinear", byte, scale, zero)
    yield Case("DynamicQuantizeLinear", v.normal(*DATA), outputs=3, error=0.01)
    weights = Fixed(v.whole(-99, 100, 512, 512, dtype=np.int8))
    a = v.whole(0, 256, 64, 512, dtype=np.uint8)
    yield Case("MatMulInteger", a, weights, zero, opset=13)
    sums = Fixed(np.float32(1.5))
    none = Fixed(np.int8(0))
    yield Case("QLinearMatMul", a, scale, zero, weights, scale, none, sums, zero, error=0.01, opset=13)
    image = v.whole(0, 256, 1, 64, 28, 28, dtype=np.uint8)
    kernels = Fixed(v.whole(-99, 100, 64, 64, 3, 3, dtype=np.int8))
    columns = Fixed(v.whole(-99, 100, 64, 1, 3, 3, dtype=np.int8))
    yield Case("ConvInteger", image, Fixed(v.whole(0, 200, 64, 64, 3, 3, dtype=np.uint8)), zero, pads=[1] * 4)
    yield Case(
        *("QLinearConv", image, scale, zero, kernels, scale, none, sums, zero), pads=[1] * 4, error=0.01
    )
    named = Case(
        *("QLinearConv", image, scale, zero, columns, scale, none, scale, zero),
        pads=[1] * 4,
        group=64,
        error=0.01,
    )
    named.name = "QLinearConv depthwise"
    yield named


# --- rows ----------------------------------------------------------------------------------------


def reductions(v):
    for kind in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2"):
        yield Case(kind, v.normal(*DATA), Fixed(np.int64([1])))
    for kind in ("ReduceSumSquare", "ReduceLogSumExp"):
        yield Case(kind, v.normal(*DATA), Fixed(np.int64([1])))
    yield Case("ReduceLogSum", v.between(0.1, 2, *DATA), Fixed(np.int64([1])))
    yield Case("ReduceProd", v.between(0.9, 1.1, *DATA), Fixed(np.int64([1])))
    yield Case("ArgMax", v.normal(1, 21, 128, 128), axis=1)
    yield Case("ArgMin", v.normal(*DATA), axis=1)
    yield Case("CumSum", v.normal(*DATA), Fixed(np.int64(0)))
    across = Case("Softmax", v.normal(1, 21, 128, 128), axis=1)
    across.name = "Softmax over channels"
    yield across
    yield Case("Softmax", v.normal(*DATA), axis=-1)
    yield Case("LogSoftmax", v.normal(*DATA), axis=-1)
    yield Case("Hardmax", v.normal(*DATA), axis=-1)
    yield Case("TopK", v.normal(1, 32000), Fixed(np.int64([50])), outputs=2)


def norms(v):
    channel = [Fixed(v.between(0.5, 1.5, 64)) for _ in range(4)]
    yield Case("LayerNormalization", v.normal(*DATA), Fixed(v.normal(1024)), Fixed(v.normal(1024)))
    yield Case("RMSNormalization", v.normal(*DATA), Fixed(v.normal(1024)), opset=23)
    yield Case("BatchNormalization", v.normal(*IMAGE), *channel)
    yield Case("InstanceNormalization", v.normal(*IMAGE), *channel[:2])
    yield Case("GroupNormalization", v.normal(*IMAGE), *channel[:2], num_groups=8)
    yield Case("LpNormalization", v.normal(*DATA), axis=-1, p=2)
    yield Case("MeanVarianceNormalization", v.normal(*IMAGE))
    yield Case("LRN", v.normal(*IMAGE), size=5)


# --- products, windows, recurrences --------------------------------------------------------------


def products(v):
    yield Case("MatMul", v.normal(128, 768), Fixed(v.normal(768, 768)))
    twice = Case("MatMul", v.normal(128, 256, dtype=np.float64), v.normal(256, 256, dtype=np.float64))
    twice.name = "MatMul f64"
    yield twice
    yield Case("Gemm", v.normal(128, 768), Fixed(v.normal(768, 768)), Fixed(v.normal(768)))
    yield Case("Einsum", v.normal(8, 64, 64), v.normal(8, 64, 64), equation="bij,bkj->bik")
    q, k = v.normal(1, 8, 128, 64), v.normal(1, 8, 128, 64)
    yield Case("Attention", q, k, v.normal(1, 8, 128, 64), opset=23)
    table = Fixed(v.normal(128, 32))
    place = np.arange(128, dtype=np.int64)[None]
    yield Case("RotaryEmbedding", q, table, table, place, opset=23)
    steps, batch, wide = 32, 16, 128
    x, state = v.normal(steps, batch, wide), v.normal(1, batch, wide, scale=0.1)
    for kind, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        w = [Fixed(v.normal(1, gates * wide, wide, scale=0.05)) for _ in range(2)]
        bias = Fixed(v.normal(1, 2 * gates * wide, scale=0.1))
        states = [state, state] if kind == "LSTM" else [state]
        yield Case(kind, x, *w, bias, None, *states, hidden_size=wide, outputs=2)


def windows(v):
    x = v.normal(*IMAGE)
    yield Case("Conv", x, Fixed(v.normal(64, 64, 3, 3, scale=0.05)), Fixed(v.normal(64)), pads=[1] * 4)
    columns = Case("Conv", x, Fixed(v.normal(64, 1, 5, 5)), Fixed(v.normal(64)), pads=[2] * 4, group=64)
    columns.name = "Conv depthwise"
    yield columns
    up = Fixed(v.normal(64, 32, 4, 4, scale=0.05))
    yield Case("ConvTranspose", v.normal(1, 64, 28, 28), up, pads=[1] * 4, strides=[2, 2])
    pool = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
    yield Case("MaxPool", x, **pool)
    yield Case("AveragePool", x, **pool)
    yield Case("LpPool", x, **pool)
    for kind in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
        yield Case(kind, x)
    wide = np.float32([[1, 1]]) * v.boxes(64, 200).reshape(64, 2, 2)
    rois = wide.reshape(64, 4)
    batch = np.zeros((64, 1), np.float32)
    sizes = {"spatial_scale": 0.25}
    yield Case("MaxRoiPool", x, np.concatenate([batch, rois], 1), pooled_shape=[7, 7], **sizes)
    at = np.zeros(64, np.int64)
    yield Case("RoiAlign", x, rois, at, output_height=7, output_width=7, sampling_ratio=2, **sizes)
    yield Case("GridSample", x, v.between(-1, 1, 1, 56, 56, 2), align_corners=0, opset=20)
    yield Case("Resize", x, None, Fixed(np.float32([1, 1, 2, 2])), mode="linear")
    nearest = Case("Resize", x, None, Fixed(np.float32([1, 1, 2, 2])), mode="nearest")
    nearest.name = "Resize nearest"
    yield nearest
    size, block = Fixed(np.int64([56, 56])), Fixed(np.int64([3, 3]))
    yield Case("Col2Im", v.normal(1, 64 * 9, 54 * 54), size, block)
    yield Case("AffineGrid", v.normal(1, 2, 3), Fixed(np.int64([1, 3, 224, 224])), opset=20)


# --- moves ---------------------------------------------------------------------------------------


def moves(v):
    x = v.normal(*IMAGE)
    yield Case("Concat", x, x + 1, axis=1)
    yield Case("Split", x, axis=1, num_outputs=2, outputs=2)
    cut = [Fixed(np.int64(k)) for k in ([1, 1], [-1, -1], [2, 3])]
    yield Case("Slice", x, *cut)
    yield Case("Transpose", x, perm=[0, 2, 3, 1])
    yield Case("Pad", x, Fixed(np.int64([0, 0, 1, 1, 0, 0, 1, 1])), mode="reflect")
    edge = Case("Pad", x, Fixed(np.int64([0, 0, 2, 2, 0, 0, 2, 2])), mode="edge")
    edge.name = "Pad edge"
    yield edge
    yield Case("Tile", v.normal(64, 256), Fixed(np.int64([4, 4])))
    yield Case("Expand", v.normal(256, 1), Fixed(np.int64(DATA)))
    yield Case("DepthToSpace", x, blocksize=2)
    yield Case("SpaceToDepth", x, blocksize=2)
    yield Case("Trilu", v.normal(512, 512), upper=0)
    yield Case("ReverseSequence", v.normal(64, 16, 256), v.whole(1, 64, 16), batch_axis=1, time_axis=0)
    yield Case("CenterCropPad", x, Fixed(np.int64([48, 48])), axes=[2, 3])


def named(name, case):
    case.name = name
    return case


def shapes(v):
    """Shapes on which the schedules for common ones had been slow."""
    x = v.normal(60, 200, 50)
    yield named("ReduceMax of few columns", Case("ReduceMax", x, Fixed(np.int64([1]))))
    yield named("ReduceMin of 17 columns", Case("ReduceMin", v.normal(600, 200, 17), Fixed(np.int64([1]))))
    yield named("ArgMax of short rows", Case("ArgMax", x, axis=2))
    yield named("ArgMin of rows of 10", Case("ArgMin", v.normal(60, 200, 10), axis=2))
    steps = {"strides": [32, 32], "pads": [16] * 4, "group": 21}
    up = Fixed(v.normal(21, 1, 64, 64))
    image = v.normal(1, 21, 8, 8)
    yield named("ConvTranspose depthwise, steps of 32", Case("ConvTranspose", image, up, **steps))
    up = Fixed(v.normal(512, 1, 16, scale=0.05))
    wave = Case("ConvTranspose", v.normal(1, 512, 1999), up, strides=[8])
    yield named("ConvTranspose to one channel", wave)
    image = v.normal(1, 32, 60, 60)
    yield named("MaxPool 13x1", Case("MaxPool", image, kernel_shape=[13, 1]))
    yield named("MaxPool 1x9", Case("MaxPool", image, kernel_shape=[1, 9]))
    yield named("Tile of truths", Case("Tile", v.truth(64, 256), Fixed(np.int64([4, 4]))))
    yield named("Transpose of truths", Case("Transpose", v.truth(64, 3136), perm=[1, 0]))


def lookups(v):
    table = Fixed(v.normal(8192, 256))
    yield Case("Gather", table, v.whole(0, 8192, 512))
    yield Case("GatherElements", v.normal(*DATA), v.whole(0, 1024, *DATA), axis=1)
    yield Case("GatherND", v.normal(*DATA), v.whole(0, 256, 65536, 2))
    order = np.argsort(v.normal(*DATA), 1)
    yield Case("ScatterElements", v.normal(*DATA), order, v.normal(*DATA), axis=1)
    yield Case("ScatterND", v.normal(1024, 256), v.rng.permutation(1024)[:512, None], v.normal(512, 256))
    yield Case("OneHot", v.whole(0, 512, 512), Fixed(np.int64(512)), Fixed(np.float32([0, 1])))
    yield Case("Compress", v.normal(*DATA), v.truth(256), axis=0)
    yield Case("NonZero", v.truth(65536))
    yield Case("Unique", v.whole(0, 1000, 8192), outputs=1)
    yield Case("EyeLike", v.normal(512, 512))
    boxes = v.boxes(1000, 300)[None]
    limits = [Fixed(np.int64([100])), Fixed(np.float32([0.5])), Fixed(np.float32([0.1]))]
    yield Case("NonMaxSuppression", boxes, v.between(0, 1, 1, 4, 1000), *limits)


def others(v):
    label = v.whole(0, 1000, 256)
    yield Case("NegativeLogLikelihoodLoss", v.normal(256, 1000), label)
    yield Case("SoftmaxCrossEntropyLoss", v.normal(256, 1000), label)
    yield Case("RandomNormalLike", v.normal(*DATA), error=None)
    yield Case("RandomUniformLike", v.normal(*DATA), error=None)
    yield Case("Bernoulli", v.between(0, 1, *DATA), error=None)
    yield Case("Det", v.normal(256, 8, 8))
    yield Case("DFT", v.normal(16, 512, 1), opset=17, axis=1, onesided=1)
    window = Fixed(np.hanning(400).astype(np.float32))
    yield Case("STFT", v.normal(1, 16000), Fixed(np.int64(160)), window, Fixed(np.int64(400)), opset=17)


FAMILIES = (unary, binary, quantised, reductions, norms, products, windows, moves, shapes, lookups, others)


def cases():
    """name -> Case"""
    found = {}
    for family in FAMILIES:
        for case in family(Values()):
            found[getattr(case, "name", case.kind)] = case
    return found
