# SPDX-License-Identifier: Apache-2.0
"""The interface of onnx.backend.base: `onnx.backend.test.BackendTest(rlxc.backend, __name__)` tests rlxc."""
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from rlxc.model import compile as compile_model


class Prepared(BackendRep):
    """A compiled model."""

    def __init__(self, model):
        self.model = model

    def run(self, inputs, **kwargs):
        del kwargs
        named = isinstance(inputs, dict)
        return self.model(**inputs) if named else self.model(*inputs)


class RlxcBackend(Backend):
    """Compiles with rlxc and runs on this machine's CPU."""

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        if not cls.supports_device(device):
            raise ValueError(f"device {device!r}: only the CPU is supported")
        options = ("cpu", "dims", "values", "cc", "options", "time_limit")
        return Prepared(compile_model(model, **{k: v for k, v in kwargs.items() if k in options}))

    @classmethod
    def run_model(cls, model, inputs, device="CPU", **kwargs):
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node, inputs, device="CPU", outputs_info=None, **kwargs):
        opset = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        names = [name for name in node.input if name]
        if isinstance(inputs, dict):
            inputs = [inputs[name] for name in names]
        given = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                 for n, a in zip(names, inputs, strict=True)]
        outputs = [name for name in node.output if name]
        if outputs_info is None:
            results = [helper.make_empty_tensor_value_info(name) for name in outputs]
        else:
            results = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape)
                       for name, (dtype, shape) in zip(outputs, outputs_info, strict=True)]
        graph = helper.make_graph([node], "node", given, results)
        domain = helper.make_opsetid(node.domain, opset)
        model = helper.make_model(graph, opset_imports=[domain])
        return namedtupledict("Outputs", outputs)(*cls.run_model(model, list(inputs), device, **kwargs))

    @classmethod
    def supports_device(cls, device):
        return device.split(":")[0] == "CPU"


prepare = RlxcBackend.prepare
run_model = RlxcBackend.run_model
run_node = RlxcBackend.run_node
supports_device = RlxcBackend.supports_device
