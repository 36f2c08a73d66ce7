# SPDX-License-Identifier: Apache-2.0
"""A case as a function of tensors of torch: the peer on CPUs and on GPUs. It has the weights of the ONNX
model, so that results can be compared."""

import numpy as np
import torch
from onnx import numpy_helper
from torch.nn import functional as F

CONVS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
DECONVS = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
MAX_POOLS = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVG_POOLS = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


class Weights:
    """The constants of an ONNX model one after the other, as makers of onnx_case.py made them."""

    def __init__(self, model, dtype, device):
        self.found = [numpy_helper.to_array(c) for c in model.graph.initializer]
        self.dtype, self.device, self.at = dtype, device, 0

    def skip(self, n=1):
        self.at += n

    def next(self):
        array = np.array(self.found[self.at]).astype(np.float32)
        self.at += 1
        return torch.from_numpy(array).to(self.device, self.dtype)


def conv(w, a):
    weight, bias = w.next(), w.next() if a["bias"] else None
    run = CONVS[len(a["stride"])]
    return lambda x, more: run(x, weight, bias, a["stride"], a["pad"], a["dil"], a["groups"])


def deconv(w, a):
    weight, bias = w.next(), w.next() if a["bias"] else None
    run = DECONVS[len(a["stride"])]
    return lambda x, more: run(x, weight, bias, a["stride"], a["pad"], a["more"], a["groups"], a["dil"])


def linear(w, a):
    weight, bias = w.next().t().contiguous(), w.next() if a["bias"] else None
    return lambda x, more: F.linear(x, weight, bias)


def matmul(w, a):
    which, is_turned = a["with"], a["turned"]

    def run(x, more):
        y = more[which].transpose(1, 2) if is_turned else more[which]
        empty = x.new_empty(1)
        return torch.baddbmm(empty, x, y, beta=0, alpha=x.shape[2] ** -0.5)

    return run


def attention(w, a):
    which = a.get("mask")

    def run(q, more):
        k, v = more[1], more[2]
        mask = more[which] if which else None
        shared = {"enable_gqa": True} if q.dim() == 4 and k.shape[1] != q.shape[1] else {}
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=a["causal"], **shared)

    return run


def layer_norm(w, a):
    scale, shift = w.next(), w.next()
    return lambda x, more: F.layer_norm(x, scale.shape, scale, shift, a["eps"])


def group_norm(w, a):
    w.skip(4)
    scale, shift = w.next().flatten(), w.next().flatten()
    return lambda x, more: F.group_norm(x, a["groups"], scale, shift, a["eps"])


def batch_norm(w, a):
    scale, shift, mean, var = (w.next() for _ in range(4))
    return lambda x, more: F.batch_norm(x, mean, var, scale, shift)


def max_pool(w, a):
    run = MAX_POOLS[len(a["k"])]
    return lambda x, more: run(x, a["k"], a["stride"], a["pad"], 1, a["ceil"])


def avg_pool(w, a):
    run = AVG_POOLS[len(a["k"])]
    return lambda x, more: run(x, a["k"], a["stride"], a["pad"], a["ceil"], a["counts"])


def resize(w, a):
    mode = {1: "linear", 2: "bilinear"}[len(a["size"])] if a["mode"] == "linear" else "nearest"
    corners = {"align_corners": a["corners"]} if mode != "nearest" else {}
    return lambda x, more: F.interpolate(x, size=a["size"], mode=mode, **corners)


def embedding(w, a):
    table = w.next()
    return lambda x, more: F.embedding(x, table)


def topk(w, a):
    return lambda x, more: torch.topk(x, a["k"], a["axis"])[0]


def pad(w, a):
    return lambda x, more: F.pad(x, a["pads"], a["mode"])


def recurrent(kind):
    """torch's own order of gates differs from ONNX's: its numbers are other ones, its work is the same."""

    def make(w, a):
        size = w.next().shape[2]
        net = kind(size, a["hidden"], bidirectional=a["both"]).to(w.device, w.dtype).eval()
        return lambda x, more: net(x)[0]

    return make


def binary(function):
    def make(w, a):
        which, by, is_right = a.get("with"), a.get("by"), a.get("right")

        def run(x, more):
            other = more[which] if which is not None else by
            return function(other, x) if is_right else function(x, other)

        return run

    return make


def plain(function):
    return lambda w, a: lambda x, more: function(x)


MAKERS = {
    "conv": conv, "deconv": deconv, "linear": linear, "matmul": matmul, "attention": attention,
    "layer_norm": layer_norm, "group_norm": group_norm, "batch_norm": batch_norm, "max_pool": max_pool,
    "avg_pool": avg_pool, "resize": resize, "embedding": embedding, "topk": topk, "pad": pad,
    "lstm": recurrent(torch.nn.LSTM), "gru": recurrent(torch.nn.GRU),
    "softmax": lambda w, a: lambda x, more: F.softmax(x, a["axis"]),
    "mean": lambda w, a: lambda x, more: x.mean(a["axes"], keepdim=True),
    "sum": lambda w, a: lambda x, more: x.sum(a["axes"], keepdim=True),
    "cat": lambda w, a: lambda x, more: torch.cat(more, a["axis"]),
    "transpose": lambda w, a: lambda x, more: x.permute(a["perm"]).contiguous(),
    "argmax": lambda w, a: lambda x, more: x.argmax(a["axis"], keepdim=True),
    "cumsum": lambda w, a: lambda x, more: x.cumsum(a["axis"]),
    "pixel_shuffle": lambda w, a: lambda x, more: F.pixel_shuffle(x, a["by"]),
    "gelu": lambda w, a: lambda x, more: F.gelu(x, approximate=a["form"]),
    "clip": lambda w, a: lambda x, more: x.clamp(a["low"], a["high"]),
    "leaky_relu": lambda w, a: lambda x, more: F.leaky_relu(x, a["alpha"]),
    "elu": lambda w, a: lambda x, more: F.elu(x, a["alpha"]),
    "pow": lambda w, a: lambda x, more: x.pow(a["by"]),
    "square": plain(torch.square), "relu": plain(F.relu), "silu": plain(F.silu),
    "sigmoid": plain(torch.sigmoid),
    "tanh": plain(torch.tanh), "hardswish": plain(F.hardswish), "hardsigmoid": plain(F.hardsigmoid),
    "exp": plain(torch.exp), "rsqrt": plain(torch.rsqrt), "sqrt": plain(torch.sqrt), "neg": plain(torch.neg),
    "abs": plain(torch.abs), "erf": plain(torch.erf), "softplus": plain(F.softplus), "mish": plain(F.mish),
    "log": plain(torch.log), "sin": plain(torch.sin), "cos": plain(torch.cos),
    "add": binary(torch.add), "sub": binary(torch.sub), "mul": binary(torch.mul), "div": binary(torch.div),
}  # fmt: skip

OTHER_NUMBERS = {"lstm", "gru"}  # whose results are not comparable


def function_of(case, made, dtype, device="cpu"):
    """A function of the inputs of a case, with the weights of its ONNX form `made` (onnx_case.Made)."""
    w = Weights(made.model, DTYPES[dtype], device)
    steps = []
    for (op, facts), start in zip(case["steps"], made.starts):
        w.at = start
        steps.append(MAKERS[op](w, facts))

    def run(*inputs):
        y = inputs[0]
        for step in steps:
            y = step(y, inputs)
        return y

    return run
