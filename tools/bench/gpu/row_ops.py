# SPDX-License-Identifier: Apache-2.0
"""The operations of tools/bench/gpu_rows three times: on float32 of numpy, on tensors of torch, and as nodes
of ONNX. Values have + and * in all three."""

import numpy

EPSILON = 1e-5


class Numpy:
    @staticmethod
    def softmax(x):
        e = numpy.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    @staticmethod
    def rms(x, w):
        return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * w

    @staticmethod
    def layer(x, w, b):
        return (x - x.mean(-1, keepdims=True)) / numpy.sqrt(x.var(-1, keepdims=True) + EPSILON) * w + b

    @staticmethod
    def silu(x):
        return x / (1 + numpy.exp(-x))

    @staticmethod
    def sum(x):
        return x.sum(-1)

    @staticmethod
    def rope(x, c, s):
        a, b = numpy.split(x, 2, -1)
        return numpy.concatenate([a * c - b * s, b * c + a * s], -1)

    @staticmethod
    def turn(x):
        return x.T


def torch_ops():
    import torch

    class Ops:
        silu = torch.nn.functional.silu

        @staticmethod
        def softmax(x):
            return torch.softmax(x, -1)

        @staticmethod
        def rms(x, w):
            return torch.nn.functional.rms_norm(x, x.shape[-1:], w, EPSILON)

        @staticmethod
        def layer(x, w, b):
            return torch.nn.functional.layer_norm(x, x.shape[-1:], w, b, EPSILON)

        @staticmethod
        def sum(x):
            return x.sum(-1)

        @staticmethod
        def rope(x, c, s):
            a, b = x.chunk(2, -1)
            return torch.cat([a * c - b * s, b * c + a * s], -1)

        @staticmethod
        def turn(x):
            return x.T.contiguous()

    return Ops


class OnnxValue:
    def __init__(self, graph, name):
        self.graph, self.name = graph, name

    def node(self, op, *inputs, **attributes):
        names = [i.name if isinstance(i, OnnxValue) else i for i in inputs]
        return OnnxValue(self.graph, self.graph.node(op, self.name, *names, **attributes))

    def constant(self, *numbers):
        return self.graph.constant(numpy.array(numbers, numpy.int64))

    def __add__(self, other):
        return self.node("Add", other)

    def __mul__(self, other):
        return self.node("Mul", other)


class OnnxOps:
    @staticmethod
    def softmax(x):
        return x.node("Softmax", axis=-1)

    @staticmethod
    def rms(x, w):
        return x.node("SimplifiedLayerNormalization", w, axis=-1, epsilon=EPSILON)

    @staticmethod
    def layer(x, w, b):
        return x.node("LayerNormalization", w, b, axis=-1, epsilon=EPSILON)

    @staticmethod
    def silu(x):
        return x * x.node("Sigmoid")

    @staticmethod
    def sum(x):
        return x.node("ReduceSum", x.constant(-1), keepdims=0)

    @staticmethod
    def rope(x, c, s):
        one = x.node("Unsqueeze", x.constant(0))
        return one.node("RotaryEmbedding", x.constant(0), c, s, domain="com.microsoft").node(
            "Squeeze", x.constant(0)
        )

    @staticmethod
    def turn(x):
        return x.node("Transpose", perm=[1, 0])
