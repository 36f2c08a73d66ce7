# SPDX-License-Identifier: Apache-2.0
"""The networks of vs_peers, by set. Listing them needs nothing but Python; what makes them is imported when a
network is loaded, in the environment with onnx."""

import glob
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
SHARED = ROOT / "../shared/models/onnx"
LIGHT = ["resnet50", "squeezenet", "shufflenet", "densenet121", "inception_v2", "vgg19"]
ROWS = (1024, 1024)
IMAGE = (1, 64, 128, 128)


class Net:
    """One network: build() gives an onnx ModelProto (None: it is not here); `options` are rlxc's."""

    def __init__(self, name, build, options=(), case=None, quick=False):
        self.name, self.build, self.options, self.case, self.quick = name, build, list(options), case, quick


class Skip(Exception):
    """Why a network cannot be measured here."""


def light(name):
    """A network of the package onnx, whose weights it leaves out: random ones, in the right scale."""

    def build():
        import numpy as np
        import onnx

        sys.path.insert(0, str(ROOT / "tools/conformance"))
        from cases import fill_constants

        data = os.path.join(os.path.dirname(onnx.__file__), "backend/test/data/light")
        found = glob.glob(f"{data}/light_{name}.onnx")
        if not found:
            raise Skip(f"the installed onnx has no light_{name}")
        return fill_constants(onnx.load(found[0]), np.random.default_rng(1))

    return build


def stored(name):
    """A real network, where it lies beside the tree."""

    def build():
        import onnx

        path = SHARED / name / "model.onnx"
        if not path.exists():
            raise Skip(f"{path} is not here")
        return onnx.load(path)

    return build


def call(module, name, *args):
    """module.name(*args), imported late."""

    def build():
        import importlib

        return getattr(importlib.import_module(module), name)(*args)

    return build


def chain(make, shape=ROWS, n_inputs=1, out_shape=None):
    """nets.chain of a function of nets, or of (function, arguments)."""

    def build():
        from versus import nets

        name, *args = make if isinstance(make, tuple) else (make,)
        fn = getattr(nets, name)
        return nets.chain(shape, fn(*args) if args else fn, n_inputs, out_shape)

    return build


def cnn():
    nets = [Net(n, light(n), quick=n in ("squeezenet", "resnet50")) for n in LIGHT]
    for name in ("yolox_nano", "ultraface_rfb320", "yunet_n_320"):
        nets.append(Net(name, stored(name), case=name, quick=name == "yunet_n_320"))
    return [*nets, Net("mobilenet_v2", call("versus.nets", "mobilenet_v2"), quick=True)]


def gemm():
    shapes = [
        *((1, k, n) for k, n in ((768, 768), (768, 3072), (3072, 768), (4096, 4096), (768, 50257))),
        *((1, k, n) for k, n in ((2048, 1000), (25088, 4096))),
        *((2, 768, 3072), (4, 768, 2304), (8, 1024, 4096), (16, 768, 768), (16, 4096, 1024)),
        *((32, 768, 3072), (32, 2048, 1000), (64, 784, 256), (64, 3072, 768), (64, 768, 2304)),
        *((128, 768, 768), (128, 768, 3072), (128, 3072, 768), (128, 384, 1536), (128, 1536, 384)),
        *((197, 768, 3072), (197, 192, 576), (256, 1024, 1000), (512, 512, 512), (512, 768, 3072)),
        *((1024, 1024, 1024), (1500, 384, 1536), (2048, 64, 256)),
    ]
    quick = {(1, 4096, 4096), (128, 768, 3072), (512, 512, 512)}
    return [Net("x".join(map(str, s)), call("models", "gemm", *s), quick=s in quick) for s in shapes]


def transformer():
    return [
        Net("bert_base_128", call("models", "bert_base")),
        Net("minilm_128", call("models", "minilm"), quick=True),
        Net("gpt2_decode_128", call("models", "gpt2_decode")),
    ]


def rnn():
    sizes = ["--dim", "batch=1", "--dim", "sequence=576", "--value", "sr=16000"]
    return [
        Net("dtln_1", stored("dtln_1"), case="dtln_1", quick=True),
        Net("silero_vad", stored("silero_vad"), sizes, case="silero_vad", quick=True),
        Net("gtcrn", stored("gtcrn"), case="gtcrn", quick=True),
    ]


def small():
    mlps = [(784, 256, 128, 10), (64, 64, 64, 10), (16, 32, 32, 4), (4, 16, 3), (128, 512, 512, 128)]
    nets = [Net("mlp_" + "_".join(map(str, s)), call("models", "mlp", s), quick=len(s) == 4) for s in mlps]
    nets.append(Net("mlp_784_256_128_10_batch8", call("models", "mlp", mlps[0], 8)))
    nets.append(Net("autoencoder", call("versus.nets", "autoencoder")))
    nets.append(Net("digits", call("versus.nets", "digits"), quick=True))
    nets.append(Net("gru_cell_64", chain("gru_cell", (1, 64), 2)))
    nets.append(Net("mnist_cntk", stored("mnist_cntk"), case="mnist_cntk"))
    return nets


def eltwise():
    one = [
        ("affine_relu", "affine_relu"),
        ("polynomial", "polynomial"),
        ("exp", ("unary", "Exp")),
        ("tanh", ("unary", "Tanh")),
        ("sigmoid", ("unary", "Sigmoid")),
        ("silu", "silu"),
        ("gelu_erf", "gelu_erf"),
        ("gelu_tanh", "gelu_tanh"),
        ("softmax_1024", "softmax"),
        ("layer_norm_1024", ("layer_norm", 1024)),
        ("rms_norm_1024", "rms_norm"),
    ]
    quick = {"affine_relu", "softmax_1024", "layer_norm_1024"}
    nets = [Net(name, chain(make), quick=name in quick) for name, make in one]
    nets += [Net("add", chain("unary_add", ROWS, 2)), Net("swiglu", chain("swiglu", ROWS, 2))]
    nets.append(Net("add_layer_norm_1024", chain("add_layer_norm", ROWS, 2)))
    nets.append(Net("softmax_64", chain("softmax", (16384, 64))))
    nets.append(Net("layer_norm_768", chain(("layer_norm", 768), (1366, 768))))
    nets.append(Net("batch_norm", chain("batch_norm", IMAGE)))
    nets.append(Net("group_norm", chain("group_norm", IMAGE)))
    for name, kind, axis in (("mean_inner", "ReduceMean", 1), ("mean_outer", "ReduceMean", 0)):
        nets.append(Net(name, chain(("reduce", kind, axis), ROWS, 1, (1024,)), quick=True))
    nets.append(Net("max_inner", chain(("reduce", "ReduceMax", 1), ROWS, 1, (1024,))))
    return nets


def startup():
    return [
        Net("mlp_784_256_128_10", call("models", "mlp"), quick=True),
        Net("digits", call("versus.nets", "digits")),
        Net("squeezenet", light("squeezenet"), quick=True),
        Net("mobilenet_v2", call("versus.nets", "mobilenet_v2")),
    ]


SETS = {f.__name__: f for f in (cnn, gemm, transformer, rnn, small, eltwise, startup)}


def nets_of(name, quick=False):
    return [n for n in SETS[name]() if n.quick or not quick]


# --- inputs ----------------------------------------------------------------------------------------


def shape_of(info, options):
    """Sizes of an input; symbols by --dim among rlxc's options, else 1."""
    dims = dict(o.split("=") for flag, o in zip(options, options[1:]) if flag == "--dim")
    sizes = info.type.tensor_type.shape.dim
    return tuple(d.dim_value if d.HasField("dim_value") else int(dims.get(d.dim_param, 1)) for d in sizes)


def integers(name, shape, rng):
    """Ids of tokens, masks, and positions behind what a cache holds."""
    import numpy as np

    if "mask" in name:
        return np.ones(shape, np.int64)
    if "position" in name:
        return np.full(shape, 128, np.int64)
    if "type" in name:
        return np.zeros(shape, np.int64)
    return rng.integers(0, 1000, shape, dtype=np.int64)


def inputs_of(net, model):
    """name -> array, in the order of the graph: the stored case, or random values."""
    import numpy as np
    import onnx

    rng = np.random.default_rng(1)
    weights = {w.name for w in model.graph.initializer}
    found = {}
    for i, info in enumerate(v for v in model.graph.input if v.name not in weights):
        case = SHARED / (net.case or "-") / "case_0" / f"input_{i}.npy"
        if case.exists():
            found[info.name] = np.ascontiguousarray(np.load(case)).reshape(np.load(case).shape)
        elif info.type.tensor_type.elem_type == onnx.TensorProto.INT64:
            found[info.name] = integers(info.name, shape_of(info, net.options), rng)
        else:
            found[info.name] = rng.standard_normal(shape_of(info, net.options)).astype(np.float32)
    return found
