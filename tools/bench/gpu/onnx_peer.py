# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime's CUDA provider as a peer: graphs built with the package onnx, all of whose operands and
results are tensors of torch on the device (I/O binding), recorded by the provider as a CUDA graph."""

import timing

OPSET, IR_VERSION = 21, 10
CUDA_GRAPH = {"enable_cuda_graph": "1"}


class Graph:
    """Nodes on named values; inputs and outputs are tensors of torch."""

    def __init__(self):
        self.nodes, self.constants, self.inputs, self.outputs = [], [], {}, {}

    def input(self, tensor):
        name = f"x{len(self.inputs)}"
        self.inputs[name] = tensor
        return name

    def output(self, value, tensor):
        self.outputs[value] = tensor

    def constant(self, array):
        import onnx

        self.constants.append(onnx.numpy_helper.from_array(array, f"c{len(self.constants)}"))
        return self.constants[-1].name

    def node(self, op, *inputs, results=1, **attributes):
        """The name of the result; of several: a list. None: an input that is left out. Ops that are not
        ONNX's own are of `domain`."""
        import onnx

        names = [f"v{len(self.nodes)}.{i}" for i in range(results)]
        node = onnx.helper.make_node(op, [i or "" for i in inputs], names, **attributes)
        self.nodes.append(node)
        return names[0] if results == 1 else names

    def model(self):
        import onnx

        def types(tensors):
            return [
                onnx.helper.make_tensor_value_info(n, element_type(t), list(t.shape))
                for n, t in tensors.items()
            ]

        graph = onnx.helper.make_graph(
            self.nodes, "peer", types(self.inputs), types(self.outputs), self.constants
        )
        opsets = [onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid("com.microsoft", 1)]
        return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def element_type(tensor):
    import onnx
    import torch

    return {
        torch.float32: onnx.TensorProto.FLOAT,
        torch.float16: onnx.TensorProto.FLOAT16,
        torch.bfloat16: onnx.TensorProto.BFLOAT16,
        torch.int64: onnx.TensorProto.INT64,
        torch.int32: onnx.TensorProto.INT32,
    }[tensor.dtype]


class Onnx(timing.Launched):
    """A session of a Graph; `result` is its last output. Runs go to a stream of its own, and do not wait, so
    that events time them."""

    def __init__(self, graph, options):
        import onnxruntime
        import torch

        super().__init__(torch.cuda.Stream())
        settings = onnxruntime.SessionOptions()
        settings.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        settings.log_severity_level = 3
        provider = CUDA_GRAPH | {"user_compute_stream": str(self.stream.cuda_stream)} | options
        self.session = onnxruntime.InferenceSession(
            graph.model().SerializeToString(), settings, providers=[("CUDAExecutionProvider", provider)]
        )
        self.binding, self.held = self.session.io_binding(), (graph.inputs, graph.outputs)
        self.result = list(graph.outputs.values())[-1]
        bound = [(self.binding.bind_input, n, t) for n, t in graph.inputs.items()]
        bound += [(self.binding.bind_output, n, t) for n, t in graph.outputs.items()]
        for bind, name, t in bound:
            bind(name, "cuda", 0, element_type(t), list(t.shape), t.data_ptr())
        self.options = onnxruntime.RunOptions()
        self.options.add_run_config_entry("disable_synchronize_execution_providers", "1")
        torch.cuda.synchronize()
        self.runs(3)

    def launch(self):
        self.session.run_with_iobinding(self.binding, self.options)


def missing():
    """Why there is no such peer here, or None."""
    try:
        import onnx  # noqa: F401
        import onnxruntime
    except ImportError as e:
        return f"{e.name} is not installed"
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        return "this onnxruntime has no CUDA provider"
    return None


def peers(build, variants=None):
    """Runners by name, of the Graph that build(graph) fills: {} where the provider or an op of it is not at
    hand, which is said. variants: options of the provider by name."""
    why = missing()
    if why is not None:
        print(f"onnxruntime: not at hand, {why}")
        return {}
    found = {}
    for name, options in (variants or {"onnxruntime": {}}).items():
        graph = Graph()
        build(graph)
        try:
            found[name] = Onnx(graph, options)
        except Exception as e:  # of a dozen classes that have nothing else in common
            print(f"{name}: not at hand for this: {str(e).splitlines()[0][:300]}")
    return found
