# SPDX-License-Identifier: Apache-2.0
"""Writes down what a network computes, without computing it: torch calls its operators on tensors that have a
shape and no elements, and each call becomes a Node. cases.py makes cases of them."""

import torch
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

RECURRENT = (nn.LSTM, nn.GRU)


class Node:
    """One operator: its inputs are Values, its arguments what torch passed for everything else."""

    def __init__(self, op, inputs, args, shape, integer):
        self.op, self.inputs, self.args, self.shape, self.integer = op, inputs, args, shape, integer
        self.users, self.strides = [], None


class Recorder(TorchDispatchMode):
    """After a run: `nodes`, in their order."""

    def __init__(self):
        super().__init__()
        self.nodes, self.latest, self.held, self.silent = [], {}, [], 0

    def value(self, tensor):
        """The node that made a tensor as it is now; a leaf for weights and inputs."""
        key = id(tensor)
        if key not in self.latest:
            self.held.append(tensor)
            leaf = Node("leaf", [], {}, list(tensor.shape), not tensor.dtype.is_floating_point)
            leaf.strides = tensor.stride()
            self.latest[key] = leaf
        return self.latest[key]

    def add(self, op, tensors, args, result):
        """Notes a call; `result` is its first tensor."""
        inputs = [self.value(t) for t in tensors]
        node = Node(op, inputs, args, list(result.shape), not result.dtype.is_floating_point)
        node.strides = result.stride()
        for value in inputs:
            value.users.append(node)
        self.held.append(result)
        self.latest[id(result)] = node
        self.nodes.append(node)
        return node

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if self.silent:
            return result
        results = [r for r in (result if isinstance(result, (tuple, list)) else [result]) if is_tensor(r)]
        if results:
            tensors, plain = sort_arguments(func, args, kwargs or {})
            self.add(func.overloadpacket.__name__, tensors, plain, results[0])
            for other in results[1:]:  # a part of the result: nothing that could go on with it
                self.latest.pop(id(other), None)
                self.value(other)
        return result


def is_tensor(x):
    return isinstance(x, torch.Tensor)


def sort_arguments(func, args, kwargs):
    """(tensors in their order, the others by name). A list of tensors counts as its tensors; the name of an
    argument that is a tensor tells its place: {"weight": 1}."""
    names = [a.name for a in func._schema.arguments]
    tensors, plain = [], {}
    for name, value in [*zip(names, args), *kwargs.items()]:
        if is_tensor(value):
            plain[name] = ("tensor", len(tensors))
            tensors.append(value)
        elif isinstance(value, (list, tuple)) and any(is_tensor(v) for v in value):
            tensors += [v for v in value if is_tensor(v)]
        else:
            plain[name] = value
    return tensors, plain


def watch_recurrent(model, recorder):
    """LSTMs and GRUs are one node each, not the steps that they consist of."""

    def before(module, inputs):
        recorder.silent += 1

    def after(module, inputs, outputs):
        recorder.silent -= 1
        if recorder.silent == 0:
            facts = {"hidden": module.hidden_size, "both": module.bidirectional, "layers": module.num_layers}
            facts["first"] = module.batch_first
            recorder.add(type(module).__name__.lower(), [inputs[0]], facts, outputs[0])

    hooks = []
    for module in model.modules():
        if isinstance(module, RECURRENT):
            hooks += [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
    return hooks


def make(build):
    """(module, function of its inputs), without elements where its initialisation allows that."""
    try:
        with FakeTensorMode():
            return build()
    except DataDependentOutputException:
        return build()


def record(made, batch):
    """The nodes of a network for a batch. no_grad, not inference_mode: only there torch breaks operators
    down to the ones that cases.py knows."""
    model, inputs_of = made
    model.requires_grad_(False)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with torch.no_grad():
        with mode:
            inputs = inputs_of(batch)
            recorder = Recorder()
            hooks = watch_recurrent(model, recorder)
            with recorder:
                model(*inputs)
    for hook in hooks:
        hook.remove()
    return recorder.nodes
