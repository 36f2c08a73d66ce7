# SPDX-License-Identifier: Apache-2.0
"""ResNet-50 in half precision with random weights: as a graph description, as a function for torch and in
ONNX. Batch norms are taken as folded into the convolutions, whose weights are scaled so that activations stay
near 1."""

import math
import pathlib

import numpy
from ours import kept

BLOCKS = (3, 4, 6, 3)
CLASSES = 1000


class Rng:
    """Weights in the order in which they are asked for: the same for every form of the network."""

    def __init__(self):
        self.rng = numpy.random.default_rng(1)

    def draw(self, *shape, gain=1.0):
        scale = gain / math.sqrt(math.prod(shape[1:]))
        return (self.rng.standard_normal(shape, numpy.float32) * scale).astype(numpy.float16)


def resnet50(net, x):
    """net has conv(x, weight, stride, pad), relu, add, pool (3x3, stride 2, pad 1), head(x, weight); all
    weights come from one Rng."""
    rng = Rng()

    def conv(x, into, out, kernel, stride=1, gain=math.sqrt(2)):
        return net.conv(x, rng.draw(out, into, kernel, kernel, gain=gain), stride, kernel // 2)

    x = net.pool(net.relu(conv(x, 3, 64, 7, 2)))
    into = 64
    for stage, blocks in enumerate(BLOCKS):
        narrow = 64 << stage
        for block in range(blocks):
            stride = 2 if block == 0 and stage > 0 else 1
            y = net.relu(conv(x, into, narrow, 1))
            y = net.relu(conv(y, narrow, narrow, 3, stride))
            y = conv(y, narrow, 4 * narrow, 1, gain=0.5)
            if block == 0:
                x = conv(x, into, 4 * narrow, 1, stride, gain=1.0)
            x, into = net.relu(net.add(y, x)), 4 * narrow
    return net.head(x, rng.draw(CLASSES, into))


class Graph:
    """Nodes of a graph description; weights go to .npy files of a folder."""

    def __init__(self, folder):
        self.folder, self.nodes, self.weights = pathlib.Path(folder), [], {}

    def weight(self, array):
        name = f"w{len(self.weights)}"
        numpy.save(self.folder / f"{name}.npy", array)
        self.weights[name] = {"file": str(self.folder / f"{name}.npy")}
        return name

    def op(self, op, *inputs, **attrs):
        name = f"v{len(self.nodes)}"
        self.nodes.append({"name": name, "op": op, "inputs": list(inputs)} | attrs)
        return name

    def conv(self, x, weight, stride, pad):
        return self.op("conv", x, self.weight(weight), strides=[stride] * 2, pads=[pad] * 4)

    def relu(self, x):
        return self.op("relu", x)

    def add(self, x, y):
        return self.op("add", x, y)

    def pool(self, x):
        return self.op("max_pool", x, kernel=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])

    def head(self, x, weight):
        mean = self.op("reduce_mean", x, axes=[2, 3])
        return self.op("matmul", mean, self.weight(numpy.ascontiguousarray(weight.T)))


def graph(batch, folder):
    """(members of a graph description, name of the result)."""
    g = Graph(folder)
    y = resnet50(g, "x")
    states = kept(x=("f16", [batch, 3, 224, 224]))
    return {"weights": g.weights, "states": states, "nodes": g.nodes}, y


class TorchNet:
    """The network as calls of torch's functions, with weights that are on the device already."""

    def __init__(self, dtype):
        import torch

        self.torch, self.dtype, self.steps = torch, dtype, []

    def step(self, function, *args):
        self.steps.append((function, args))
        return len(self.steps)

    def place(self, weight):
        return self.torch.from_numpy(weight).to("cuda", self.dtype)

    def conv(self, x, weight, stride, pad):
        weight = self.place(weight).to(memory_format=self.torch.channels_last)
        conv2d = self.torch.nn.functional.conv2d
        return self.step(lambda v: conv2d(v, weight, stride=stride, padding=pad), x)

    def relu(self, x):
        return self.step(self.torch.relu, x)

    def add(self, x, y):
        return self.step(self.torch.add, x, y)

    def pool(self, x):
        return self.step(lambda v: self.torch.nn.functional.max_pool2d(v, 3, 2, 1), x)

    def head(self, x, weight):
        weight = self.place(weight).T
        return self.step(lambda v: v.mean((2, 3)) @ weight, x)

    def __call__(self, x):
        values = [x]
        for function, args in self.steps:
            values.append(function(*(values[i] for i in args)))
        return values[-1]


def torch_function(dtype):
    """A function of x [batch, 3, 224, 224] in channels-last order."""
    net = TorchNet(dtype)
    resnet50(net, 0)
    return net


class OnnxNet:
    """The network as nodes of an onnx_peer.Graph."""

    def __init__(self, graph):
        self.graph = graph

    def conv(self, x, weight, stride, pad):
        shape = {"kernel_shape": weight.shape[2:], "strides": [stride] * 2, "pads": [pad] * 4}
        return self.graph.node("Conv", x, self.graph.constant(weight), **shape)

    def relu(self, x):
        return self.graph.node("Relu", x)

    def add(self, x, y):
        return self.graph.node("Add", x, y)

    def pool(self, x):
        return self.graph.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])

    def head(self, x, weight):
        mean = self.graph.node("Flatten", self.graph.node("GlobalAveragePool", x))
        return self.graph.node("Gemm", mean, self.graph.constant(weight), transB=1)


def onnx_builder(x):
    """A function for onnx_peer.peers: the network of x, a tensor of torch in the order N, C, H, W."""
    x = x.contiguous()

    def build(graph):
        y = resnet50(OnnxNet(graph), graph.input(x))
        graph.output(y, x.new_empty(x.shape[0], CLASSES))

    return build
