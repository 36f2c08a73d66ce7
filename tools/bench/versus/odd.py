# SPDX-License-Identifier: Apache-2.0
"""Cases of tools/bench/gpu_odd: operators in shapes that no network of the sweep has. A case is a node of
ONNX, as a model for rlxc, and the facts that a peer needs to compute the same. Only `model` needs onnx, so
that cases can be run where it is not installed."""

import math

import numpy as np

# As arrays: bf16 by its bits, and the floats beside a quantised model.
DTYPES = {"f32": np.float32, "f16": np.float16, "bf16": np.uint16, "int8": np.float32}
QUANTISED = {"Conv", "ConvTranspose", "MatMul"}
STEP = 1 / 32  # of quantised values; those of weights are by their scale


def stored(array, dtype):
    """Floats as arrays of an element type."""
    if dtype != "bf16":
        return array.astype(DTYPES[dtype])
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


class Fixed:
    """A constant of the model: axes, sizes, values that are no tensor of a run."""

    def __init__(self, *values, dtype=np.int64):
        self.array = np.array(values, dtype)


class Scalar(Fixed):
    def __init__(self, value, dtype=np.int64):
        self.array = np.array(value, dtype)


class Given:
    """An operand by shape: `kind` is "data" (what a run is for), "const" (a weight of the model) or "param"
    (one that is set before the first run). Its values are normally distributed, or whole numbers from 0 to
    `below`, or spread from low to high by `span`; those of constants repeat, so that libraries of many
    cases are small when they are compressed."""

    def __init__(self, *shape, kind="data", below=None, span=None, scale=1.0, values=None, dtype=None):
        self.shape, self.kind, self.below, self.span = list(shape), kind, below, span
        self.scale, self.values, self.dtype = scale, values, dtype

    def type(self, dtype):
        return np.dtype(DTYPES[dtype] if self.is_float() else self.dtype or np.int64)

    def array(self, dtype, seed):
        rng = np.random.default_rng(seed)
        if self.values is not None:
            return self.values(rng)
        n = math.prod(self.shape)
        some = min(n, 251 if self.kind == "const" else 1 << 20)
        if self.below is not None:
            found = rng.integers(0, self.below, some)
        elif self.span is not None:
            found = rng.uniform(*self.span, some)
        else:
            found = rng.standard_normal(some, np.float32) * self.scale
        found = stored(found, dtype) if self.is_float() else found.astype(self.type(dtype))
        return np.resize(found, n).reshape(self.shape)

    def is_float(self):
        return not self.dtype and not self.values and self.below is None

    def quantised(self, seed):
        """Weights as bytes, and the step between two."""
        step = 4 * self.scale / 127
        return np.clip(np.rint(self.array("f32", seed) / step), -127, 127).astype(np.int8), step


def weight(*shape, **more):
    """A weight whose products keep the size of their rows."""
    return Given(*shape, kind="const", scale=1 / math.sqrt(math.prod(shape[1:])), **more)


class Case:
    """A node. is_image: its images are channels last outside, as they are within a network."""

    def __init__(self, family, name, kind, *operands, outputs=1, opset=21, is_image=False, **attrs):
        self.family, self.name, self.kind, self.operands = family, name, kind, operands
        self.outputs, self.opset, self.is_image, self.attrs = outputs, opset, is_image, attrs

    def can_be_quantised(self):
        return self.kind in QUANTISED and self.operands[1].kind != "data"

    def arrays(self, dtype):
        """Of each operand: an array, or None where it is left out."""
        return [self.array_of(i, v, dtype) for i, v in enumerate(self.operands)]

    def array_of(self, i, v, dtype):
        if dtype == "int8" and i == 1:
            found, step = v.quantised(i)
            return found.astype(np.float32) * np.float32(step)
        return v.array(dtype, i) if isinstance(v, Given) else fixed_of(v, dtype)

    def model(self, dtype):
        from onnx import TensorProto, helper, numpy_helper

        kinds = {np.dtype(np.uint16): TensorProto.BFLOAT16}
        names = ["" if v is None else f"x{i}" for i, v in enumerate(self.operands)]
        inputs, constants, nodes = [], [], []

        def constant(name, array):
            found = numpy_helper.from_array(array, name)
            found.data_type = kinds.get(array.dtype, found.data_type)
            constants.append(found)
            return name

        for i, (name, given) in enumerate(zip(names, self.operands)):
            if given is None:
                continue
            if dtype == "int8" and i == 1:
                array, step = given.quantised(i)
                scale = constant("step", np.float32(step)), constant("none", np.int8(0))
                more = constant("bytes", array), *scale
                nodes.append(helper.make_node("DequantizeLinear", more, [name]))
            elif isinstance(given, Given) and given.kind != "const":
                kind = given.type(dtype)
                kind = kinds.get(kind) or helper.np_dtype_to_tensor_dtype(kind)
                inputs.append(helper.make_tensor_value_info(name, kind, given.shape))
            else:
                constant(name, self.array_of(i, given, dtype))
        results = ["y"] + [f"more{i}" for i in range(1, self.outputs)]
        if dtype == "int8":
            scale = constant("scale", np.float32(STEP)), constant("zero", np.int8(0))
            for value, name in (("x0", "x"), ("sum", "y")):
                nodes.append(helper.make_node("QuantizeLinear", (value, *scale), [f"{name}_bytes"]))
                nodes.append(helper.make_node("DequantizeLinear", (f"{name}_bytes", *scale), [name]))
            node = helper.make_node(self.kind, ["x", *names[1:]], ["sum"], **self.attrs)
            nodes.insert(len(nodes) - 2, node)
        else:
            nodes.append(helper.make_node(self.kind, names, results, **self.attrs))
        found = [helper.make_empty_tensor_value_info("y")]
        graph = helper.make_graph(nodes, self.kind, inputs, found, constants)
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def fixed_of(v, dtype):
    """The array of a constant: floats in the element type of the case."""
    if v is None:
        return None
    return stored(v.array, dtype) if v.array.dtype == np.float32 else v.array


# --- convolutions --------------------------------------------------------------------------------


def conv(name, x, w, batch=1, bias=True, **attrs):
    rank = len(x) - 1
    family = f"conv{rank}d" if attrs.get("group", 1) == 1 else "grouped"
    if attrs.get("group", 1) == x[0] and w[1] == 1:
        family = "depthwise"
    more = [Given(w[0], kind="const")] if bias else []
    name = f"{name}, batch {batch}" if batch > 1 else name
    return Case(*(family, name, "Conv", Given(batch, *x), weight(*w), *more), is_image=rank == 2, **attrs)


def deconv(name, x, w, batch=1, **attrs):
    rank, steps = len(x) - 1, math.prod(attrs["strides"])
    scale = 1 / math.sqrt(max(1, w[0] * math.prod(w[2:]) / steps))
    up = Given(*w, kind="const", scale=scale)
    name = f"{name}, batch {batch}" if batch > 1 else name
    return Case("transposed", name, "ConvTranspose", Given(batch, *x), up, is_image=rank == 2, **attrs)


def long_kernels():
    for batch in (1, 8):
        yield conv(
            "wav2vec positions, 128 taps, 16 groups",
            [768, 499],
            [768, 48, 128],
            batch,
            pads=[64, 64],
            group=16,
        )
    yield conv("1x65", [64, 56, 56], [64, 64, 1, 65], pads=[0, 32, 0, 32])
    yield conv("3x39", [32, 64, 128], [64, 32, 3, 39], pads=[1, 19, 1, 19])
    yield conv("35x35", [16, 96, 96], [16, 16, 35, 35], pads=[17] * 4)
    yield conv("65 taps", [32, 16000], [32, 32, 65], pads=[32, 32])
    yield conv("65 taps of one channel", [1, 16000], [32, 1, 65], pads=[32, 32])
    yield conv("7 taps of one channel", [1, 24000], [32, 1, 7], pads=[3, 3])
    yield conv("9x9 to 3", [32, 256, 256], [3, 32, 9, 9], pads=[4] * 4)
    for batch in (1, 8, 32):
        yield conv("WaveNet, dilation 512", [64, 16000], [128, 64, 2], batch, dilations=[512])
    for rate in (12, 36):
        yield conv(f"rate {rate}", [2048, 33, 33], [256, 2048, 3, 3], pads=[rate] * 4, dilations=[rate] * 2)


def few_channels():
    for batch in (1, 8):
        yield conv("3x3 to 1 channel", [64, 256, 256], [1, 64, 3, 3], batch, pads=[1] * 4)
        yield conv("4x4 to 1", [512, 31, 31], [1, 512, 4, 4], batch, pads=[1] * 4)
        yield conv("1x1 to 1", [64, 256, 256], [1, 64, 1, 1], batch)
        yield conv("Conv-TasNet's encoder", [1, 32000], [512, 1, 16], batch, strides=[8])
    yield conv("3x3x3 to 1", [32, 32, 64, 64], [1, 32, 3, 3, 3], pads=[1] * 6)
    yield conv("3x3x3 of 1", [1, 32, 64, 64], [8, 1, 3, 3, 3], pads=[1] * 6)
    yield conv("3x3, 17 to 33", [17, 113, 113], [33, 17, 3, 3], 8, pads=[1] * 4)
    yield conv("1x1, 37 to 53", [37, 57, 57], [53, 37, 1, 1], 8)
    yield conv("7x7, 6 to 64, stride 2", [6, 224, 224], [64, 6, 7, 7], 8, pads=[3] * 4, strides=[2, 2])
    yield conv("5x5, 3 to 5, stride 3", [3, 300, 300], [5, 3, 5, 5], 8, strides=[3, 3])
    yield conv("3 taps, 80 to 384", [80, 3000], [384, 80, 3], pads=[1, 1])
    yield conv("10 taps, stride 5, 1 to 512", [1, 16000], [512, 1, 10], strides=[5])
    yield conv("2x2, stride 2, 96 to 192", [96, 56, 56], [192, 96, 2, 2], 8, strides=[2, 2])
    yield conv("3x3, strides 2 and 1", [64, 80, 200], [64, 64, 3, 3], 8, pads=[1] * 4, strides=[2, 1])
    for batch in (1, 8, 32):
        yield conv("1x1, stride 2", [256, 56, 56], [512, 256, 1, 1], batch, strides=[2, 2])
    yield conv("1x1x1", [256, 8, 14, 14], [64, 256, 1, 1, 1])
    yield conv("1x7x7", [3, 16, 112, 112], [64, 3, 1, 7, 7], pads=[0, 3, 3] * 2, strides=[1, 2, 2])


def groups():
    yield conv("41 taps, 4 groups", [128, 8192], [128, 32, 41], pads=[20, 20], strides=[2], group=4)
    yield conv("41 taps, 16 groups", [128, 4096], [256, 8, 41], pads=[20, 20], strides=[2], group=16)
    yield conv("41 taps, 16 groups of 64", [1024, 512], [1024, 64, 41], pads=[20, 20], group=16)
    for batch in (1, 8):
        yield conv("31x31", [128, 56, 56], [128, 1, 31, 31], batch, pads=[15] * 4, group=128)
    yield conv("31 taps, depthwise", [256, 499], [256, 1, 31], 8, pads=[15, 15], group=256)
    yield conv("3x3x3, depthwise", [64, 16, 28, 28], [64, 1, 3, 3, 3], pads=[1] * 6, group=64)
    yield conv("7x7, depthwise of 97", [97, 57, 57], [97, 1, 7, 7], 8, pads=[3] * 4, group=97)
    for batch in (1, 8, 32):
        yield conv("groups of 4", [128, 56, 56], [128, 4, 3, 3], batch, pads=[1] * 4, group=32)
    yield conv("groups of 2", [64, 56, 56], [64, 2, 3, 3], 8, pads=[1] * 4, group=32)
    yield conv("groups of 3", [96, 56, 56], [96, 3, 3, 3], 8, pads=[1] * 4, group=32)
    yield conv("two results a channel", [64, 56, 56], [128, 1, 3, 3], 8, pads=[1] * 4, group=64)
    yield conv("1x1 in 3 groups", [240, 28, 28], [240, 80, 1, 1], 8, group=3)
    yield conv("1x1 in 8 groups of 10", [80, 28, 28], [80, 10, 1, 1], 8, group=8)


def transposed():
    yield deconv(
        "64x64 depthwise, stride 32", [21, 16, 16], [21, 1, 64, 64], strides=[32, 32], pads=[16] * 4, group=21
    )
    yield deconv("64x64, stride 32", [21, 16, 16], [21, 21, 64, 64], strides=[32, 32], pads=[16] * 4)
    yield deconv("Conv-TasNet's decoder", [512, 3999], [512, 1, 16], strides=[8])
    yield deconv("16 taps, stride 8", [512, 128], [512, 256, 16], strides=[8], pads=[4, 4])
    yield deconv("4 taps, stride 2", [128, 8192], [128, 64, 4], strides=[2], pads=[1, 1])
    for batch in (1, 8):
        yield deconv("2x2, stride 2", [128, 64, 64], [128, 64, 2, 2], batch, strides=[2, 2])
    yield deconv(
        "3x3, stride 2", [65, 33, 33], [65, 31, 3, 3], 8, strides=[2, 2], pads=[1] * 4, output_padding=[1, 1]
    )
    yield deconv("4x4, stride 2, to 3", [64, 64, 64], [64, 3, 4, 4], 8, strides=[2, 2], pads=[1] * 4)
    yield deconv(
        "4x4 depthwise, stride 2", [64, 28, 28], [64, 1, 4, 4], 8, strides=[2, 2], pads=[1] * 4, group=64
    )
    yield deconv("2x2x2, stride 2", [64, 16, 16, 16], [64, 32, 2, 2, 2], strides=[2, 2, 2])


# --- rows ----------------------------------------------------------------------------------------


def sizes(x):
    return "x".join(map(str, x))


def reductions():
    shapes = [
        ([60, 200, 50], [1]), ([600, 200, 17], [1]), ([8, 3, 1000, 7], [2]), ([1000000, 3], [0]),
        ([3, 1000000], [1]), ([64, 1000, 100], [0, 2]), ([2, 100000, 5], [1]), ([1000, 1001], [0, 1]),
        ([100000, 3], [1]), ([12000, 37], [1]), ([8, 512, 7, 7], [2, 3]), ([33, 31, 29, 27], [1, 3]),
    ]  # fmt: skip
    for x, axes in shapes:
        for kind in ("ReduceSum", "ReduceMax"):
            yield Case("reduce", f"{kind} {sizes(x)} along {axes}", kind, Given(*x), Fixed(*axes))
    for kind in ("ReduceProd", "ReduceL2", "ReduceLogSumExp", "ReduceMean"):
        x = Given(60, 200, 50, span=(0.9, 1.1))
        yield Case("reduce", f"{kind} 60x200x50 along [1]", kind, x, Fixed(1))


def choices():
    for x, axis in (
        ([60, 200, 50], 2), ([12000, 10], 1), ([1, 21, 513, 513], 1), ([4, 50257], 1), ([1, 1000000], 1),
        ([1000, 333], 0), ([100000, 3], 1),
    ):  # fmt: skip
        yield Case("choose", f"ArgMax {sizes(x)} along {axis}", "ArgMax", Given(*x), axis=axis, keepdims=0)
    for x, k, axis in (
        ([1, 32000], 50, 1), ([1000, 1000], 5, 1), ([64, 100000], 10, 1), ([1, 84000], 300, 1),
        ([100000, 8], 2, 1), ([8, 1000, 16], 10, 1), ([100, 1000], 1000, 1), ([1, 1000000], 1000, 1),
        ([4096, 128], 8, 1), ([16, 20000], 20000, 1),
    ):  # fmt: skip
        operands = Given(*x), Fixed(k)
        yield Case("choose", f"TopK {sizes(x)}, {k}", "TopK", *operands, outputs=2, axis=axis)


def scans():
    for x, axis in (
        ([1000, 1000], 0), ([1000, 1000], 1), ([1, 1000000], 1), ([8, 1000, 64], 1), ([100000, 8], 1),
        ([7, 33333], 1),
    ):  # fmt: skip
        yield Case("scan", f"CumSum {sizes(x)} along {axis}", "CumSum", Given(*x), Scalar(axis))


def softmaxes():
    for x, axis in (
        ([100000, 3], 1), ([64, 100000], 1), ([1, 1000000], 1), ([1, 21, 513, 513], 1), ([9456, 197], 1),
        ([1000, 1001], 1), ([8, 150, 64], 1), ([12544, 49], 1), ([4, 12, 77, 77], 3),
    ):  # fmt: skip
        yield Case("softmax", f"Softmax {sizes(x)} along {axis}", "Softmax", Given(*x), axis=axis)
    yield Case("softmax", "LogSoftmax 512x50257", "LogSoftmax", Given(512, 50257), axis=1)


def norms():
    for x in ([1000, 1001], [100000, 3], [50000, 37], [64, 100000], [1, 768], [8, 197, 192]):
        scale, shift = weight(x[-1]), weight(x[-1])
        yield Case("norm", f"LayerNorm {sizes(x)}", "LayerNormalization", Given(*x), scale, shift, axis=-1)
    rms = Given(1000, 1027), weight(1027)
    yield Case("norm", "RMSNorm 1000x1027", "RMSNormalization", *rms, opset=23, axis=-1, epsilon=1e-5)
    for x, n in (([1, 64, 57, 57], 8), ([8, 33, 61, 61], 3), ([2, 320, 64, 64], 32)):
        more = weight(x[1]), weight(x[1])
        facts = {"num_groups": n, "is_image": True}
        yield Case("norm", f"GroupNorm {sizes(x)}", "GroupNormalization", Given(*x), *more, **facts)
    for x in ([8, 33, 61, 61], [1, 64, 256, 256]):
        more = weight(x[1]), weight(x[1])
        yield Case("norm", f"InstanceNorm {sizes(x)}", "InstanceNormalization", Given(*x), *more)
    yield Case("norm", "LRN 8x64x55x55", "LRN", Given(8, 64, 55, 55), size=5)


def products():
    for a, b in (
        ([1000, 1001], [1001, 999]), ([50000, 3], [3, 64]), ([1, 4096], [4096, 1001]), ([7, 1000], [1000, 7]),
        ([4000, 37], [37, 4000]), ([50000, 64], [64, 3]), ([1, 100000], [100000, 1]),
        ([33, 2047], [2047, 65]),
        ([50000, 96], [96, 288]), ([129, 129], [129, 129]), ([12, 9216], [9216, 4096]),
    ):  # fmt: skip
        name = f"{sizes(a)} by {sizes(b)}"
        yield Case("product", name, "MatMul", Given(*a), Given(*b, kind="param", scale=1 / math.sqrt(b[0])))
    for a, b in (
        ([100000, 3, 3], [100000, 3, 3]), ([10000, 4, 4], [10000, 4, 1]), ([32, 1, 64], [32, 64, 1000]),
        ([48, 197, 64], [48, 64, 197]), ([48, 197, 197], [48, 197, 64]), ([256, 49, 16], [256, 16, 49]),
        ([256, 49, 49], [256, 49, 16]), ([12, 77, 64], [12, 64, 77]), ([8, 63, 65], [8, 65, 67]),
        ([64, 1, 197], [64, 197, 64]), ([1000, 16, 16], [1000, 16, 16]),
    ):  # fmt: skip
        small = 1 / math.sqrt(a[-1])
        operands = Given(*a), Given(*b, scale=small)
        yield Case("batched", f"{sizes(a)} by {sizes(b)}", "MatMul", *operands)
    for equation, a, b in (
        ("bij,bkj->bik", [8, 63, 65], [8, 67, 65]), ("bhwc,hkc->bhwk", [48, 14, 14, 64], [14, 14, 64]),
        ("bqhd,bkhd->bhqk", [8, 197, 12, 64], [8, 197, 12, 64]), ("i,j->ij", [1000], [1000]),
        ("abc,cd->abd", [33, 31, 29], [29, 27]), ("bchw,bc->bhw", [8, 32, 64, 64], [8, 32]),
        ("bnd,bmd->bnm", [4, 1000, 3], [4, 1000, 3]), ("btc,btd->bcd", [8, 500, 40], [8, 500, 50]),
    ):  # fmt: skip
        operands = Given(*a), Given(*b)
        yield Case("einsum", f"{equation} {sizes(a)}, {sizes(b)}", "Einsum", *operands, equation=equation)
    for q, k in (
        ([1, 48, 197, 64], 197), ([256, 1, 49, 16], 49), ([64, 3, 49, 32], 49), ([1, 8, 77, 40], 77),
        ([2, 8, 1024, 80], 77), ([1, 12, 1500, 64], 1500), ([8, 12, 1, 64], 333), ([4, 6, 50, 64], 50),
    ):  # fmt: skip
        keys = [*q[:2], k, q[3]]
        operands = Given(*q), Given(*keys), Given(*keys)
        yield Case("attention", f"Attention {sizes(q)}, {k} keys", "Attention", *operands, opset=23)


# --- moves ---------------------------------------------------------------------------------------


def transposes():
    for x, perm in (
        ([100000, 3], [1, 0]), ([3, 1000000], [1, 0]), ([1000, 1001], [1, 0]),
        ([8, 197, 12, 64], [0, 2, 1, 3]),
        ([8, 3, 224, 224], [0, 2, 3, 1]), ([64, 64, 64, 64], [3, 2, 1, 0]),
        ([2, 3, 4, 5, 6, 1000], [5, 4, 3, 2, 1, 0]),
        ([1000000, 2], [1, 0]), ([7, 1000, 9, 11], [2, 0, 3, 1]), ([2, 8, 16, 16, 8, 8], [0, 1, 4, 2, 5, 3]),
        ([8, 8, 7, 8, 7, 96], [0, 1, 3, 2, 4, 5]), ([8, 12, 197, 64], [0, 1, 3, 2]),
        ([127, 129, 131], [2, 1, 0]),
        ([127, 129, 131], [1, 0, 2]), ([5, 100000, 2], [2, 1, 0]), ([300, 5, 300], [2, 1, 0]),
        ([16, 64, 3, 3, 64], [4, 1, 2, 3, 0]),
    ):  # fmt: skip
        yield Case("transpose", f"{sizes(x)} as {perm}", "Transpose", Given(*x), perm=perm)


def moves():
    odd = [8, 33, 61, 61]
    yield Case("pad", "reflect", "Pad", Given(*odd), Fixed(0, 0, 1, 2, 0, 0, 3, 4), mode="reflect")
    yield Case("pad", "edge", "Pad", Given(*odd), Fixed(0, 0, 2, 2, 0, 0, 2, 2), mode="edge")
    yield Case("pad", "zeros of 8x64x1000", "Pad", Given(8, 64, 1000), Fixed(0, 0, 3, 0, 0, 5))
    yield Case("pad", "zeros of images", "Pad", Given(*odd), Fixed(0, 0, 1, 1, 0, 0, 1, 1))
    yield Case("pad", "first axis", "Pad", Given(1000, 1001), Fixed(3, 0, 5, 0))
    for x, y in (([100000, 3], [100000, 5]), ([1000, 1001], [1000, 999])):
        yield Case("concat", f"{sizes(x)}, {sizes(y)}", "Concat", Given(*x), Given(*y), axis=1)
    many = [Given(1000, 8 + i) for i in range(10)]
    yield Case("concat", "ten of 1000 rows", "Concat", *many, axis=1)
    cut = Fixed(1, 1), Fixed(-1, -1), Fixed(0, 1), Fixed(2, 3)
    yield Case("slice", "steps of 2 and 3", "Slice", Given(1000, 1001), *cut)
    turned = Fixed(-1), Fixed(-(1 << 40)), Fixed(1), Fixed(-1)
    yield Case("slice", "backwards", "Slice", Given(1000, 1001), *turned)
    yield Case("slice", "a narrow column", "Slice", Given(10000, 100), Fixed(7), Fixed(12), Fixed(1))
    yield Case("tile", "1000x3 by 1x100", "Tile", Given(1000, 3), Fixed(1, 100))
    yield Case("tile", "33x37 by 20x20", "Tile", Given(33, 37), Fixed(20, 20))
    yield Case("expand", "1000x1 to 1000x1001", "Expand", Given(1000, 1), Fixed(1000, 1001))
    yield Case("copy", "DepthToSpace 8x36x57x57", "DepthToSpace", Given(8, 36, 57, 57), blocksize=3)
    yield Case("copy", "SpaceToDepth 8x9x57x57", "SpaceToDepth", Given(8, 9, 57, 57), blocksize=3)
    yield Case("copy", "Trilu 8x513x513", "Trilu", Given(8, 513, 513), upper=0)


def lookups():
    yield Case(
        "gather", "512 rows of 50257x768", "Gather", Given(50257, 768, kind="param"), Given(512, below=50257)
    )
    yield Case("gather", "100000 rows of 1000x3", "Gather", Given(1000, 3), Given(100000, below=1000))
    yield Case("gather", "300 of 64x1000x64", "Gather", Given(64, 1000, 64), Given(300, below=1000), axis=1)
    yield Case(
        "gather", "37 columns of 1000x1000", "Gather", Given(1000, 1000), Given(37, below=1000), axis=1
    )
    for axis in (0, 1):
        places = Given(1000, 999, below=999)
        yield Case("gather", f"elements along {axis}", "GatherElements", Given(1000, 999), places, axis=axis)
    yield Case("gather", "GatherND, elements", "GatherND", Given(256, 1024), Given(65536, 2, below=256))
    yield Case("gather", "GatherND, rows of 33", "GatherND", Given(256, 256, 33), Given(10000, 2, below=256))
    order = Given(1000, 999, values=lambda rng: np.argsort(rng.standard_normal((1000, 999)), 1))
    yield Case("scatter", "elements", "ScatterElements", Given(1000, 999), order, Given(1000, 999), axis=1)
    places = Given(10000, below=1000)
    added = Given(10000, 1, below=1000), Given(10000, 1)
    yield Case(
        "scatter", "sums of 10000 in 1000", "ScatterElements", Given(1000, 1), *added, axis=0, reduction="add"
    )
    rows = Given(500, 1, values=lambda rng: rng.permutation(1000)[:500, None])
    yield Case("scatter", "500 rows of 1000x257", "ScatterND", Given(1000, 257), rows, Given(500, 257))
    places = Given(20000, 1, below=1000)
    added = Given(1000, 33), places, Given(20000, 33)
    yield Case("scatter", "sums of 20000 rows of 33", "ScatterND", *added, reduction="add")
    values = Fixed(0, 1, dtype=np.float32)
    yield Case("one-hot", "4096 of 1000", "OneHot", Given(4096, below=1000), Scalar(1000), values)
    yield Case("one-hot", "first axis", "OneHot", Given(4096, below=1000), Scalar(1000), values, axis=0)


def broadcasts():
    truth = Given(1000, 1, 50, below=2, dtype=bool)
    yield Case("broadcast", "Where", "Where", truth, Given(1, 200, 50), Given(1000, 200, 1))
    yield Case(
        "broadcast",
        "Where of rows",
        "Where",
        Given(1000, 1001, below=2, dtype=bool),
        Given(1000, 1001),
        Given(1),
    )
    for x, y in (
        ([1000, 1], [1, 1001]), ([64, 1, 1000], [1, 64, 1]), ([100000, 3], [3]), ([100000, 3], [100000, 1]),
        ([8, 33, 61, 61], [33, 1, 1]), ([8, 33, 61, 61], [8, 33, 1, 1]), ([1000003], [1000003]),
        ([1000003], [1]),
        ([4, 1, 128, 128], [1, 12, 128, 128]),
    ):  # fmt: skip
        yield Case("broadcast", f"{sizes(x)} + {sizes(y)}", "Add", Given(*x), Given(*y))
    for kind in ("Erf", "Sin", "Tanh", "Exp", "Gelu"):
        yield Case("eltwise", f"{kind} 1000x1003", kind, Given(1000, 1003))
    whole = Given(1000, 1003, below=999, dtype=np.int32)
    yield Case("eltwise", "Div of integers", "Div", whole, Fixed(7, dtype=np.int32))
    yield Case("eltwise", "Mod of integers", "Mod", whole, Fixed(10, dtype=np.int32))


# --- images --------------------------------------------------------------------------------------


def images():
    x = [8, 32, 61, 61]
    for k in ([13, 1], [1, 9], [5, 5], [13, 13]):
        pads = [n // 2 for n in k] * 2
        yield Case(
            "pool", f"MaxPool {sizes(k)}", "MaxPool", Given(*x), kernel_shape=k, pads=pads, is_image=True
        )
    same = {"kernel_shape": [3, 3], "pads": [1] * 4, "is_image": True}
    yield Case("pool", "AveragePool 3x3", "AveragePool", Given(*x), **same, count_include_pad=1)
    yield Case(
        "pool",
        "AveragePool 7x7, stride 7",
        "AveragePool",
        Given(8, 64, 63, 63),
        kernel_shape=[7, 7],
        strides=[7, 7],
    )
    yield Case(
        "pool", "MaxPool of 3, 8x64x10000", "MaxPool", Given(8, 64, 10000), kernel_shape=[3], strides=[3]
    )
    yield Case(
        "pool", "MaxPool 2x2x2", "MaxPool", Given(2, 64, 16, 56, 56), kernel_shape=[2] * 3, strides=[2] * 3
    )
    yield Case("pool", "global, 8x1000x7x7", "GlobalAveragePool", Given(8, 1000, 7, 7))
    yield Case("pool", "global maximum, 1x64x256x256", "GlobalMaxPool", Given(1, 64, 256, 256))
    for to, mode, form in (
        ([122, 122], "linear", "half_pixel"), ([31, 29], "linear", "half_pixel"),
        ([183, 183], "nearest", "asymmetric"), ([100, 100], "cubic", "half_pixel"),
        ([200, 200], "linear", "align_corners"),
    ):  # fmt: skip
        facts = {"mode": mode, "coordinate_transformation_mode": form, "is_image": True}
        if mode == "nearest":
            facts["nearest_mode"] = "floor"
        if mode == "cubic":
            facts["cubic_coeff_a"] = -0.75
        size = Fixed(8, 32, *to)
        yield Case("resize", f"{mode} to {sizes(to)}, {form}", "Resize", Given(*x), None, None, size, **facts)
    size = Fixed(2, 16, 32, 64, 64)
    yield Case(
        "resize", "linear of volumes", "Resize", Given(2, 16, 16, 32, 32), None, None, size, mode="linear"
    )
    grid = Given(8, 64, 64, 2, span=(-1, 1))
    yield Case("sample", "GridSample 8x32x64x64", "GridSample", Given(8, 32, 64, 64), grid, opset=20)
    grid = Given(1, 512, 512, 2, span=(-1, 1))
    yield Case("sample", "GridSample 1x1x512x512", "GridSample", Given(1, 1, 512, 512), grid, opset=20)
    grid = Given(8, 100, 4, 2, span=(-1, 1))
    yield Case("sample", "GridSample of few points", "GridSample", Given(8, 32, 80, 80), grid, opset=20)
    columns = Given(1, 64 * 9, 54 * 54), Fixed(56, 56), Fixed(3, 3)
    yield Case("copy", "Col2Im 64x56x56", "Col2Im", *columns)


FAMILIES = (
    long_kernels, few_channels, groups, transposed, reductions, choices, scans, softmaxes, norms, products,
    transposes, moves, lookups, broadcasts, images,
)  # fmt: skip


def cases():
    """All cases, in the order of their families, and behind them those that came later."""
    from versus import odd_later

    return [case for family in (*FAMILIES, odd_later.later) for case in family()]
