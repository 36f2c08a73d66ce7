# SPDX-License-Identifier: Apache-2.0
"""The runtimes that vs_peers compares with: installation, and one class each with time(n) -> seconds of
one of n runs and outputs(). Inputs are bound once and outputs are preallocated, where the interface
allows it; the call made is the innermost one of the Python binding, whose own time (about a microsecond)
counts."""

import os
import subprocess
import sys
import time
import venv

# name: (packages of PyPI, module that shows that they are installed)
PACKAGES = {
    "onnxruntime": (["onnxruntime", "onnx", "numpy"], "onnxruntime"),
    "openvino": (["openvino"], "openvino"),
    "iree": (["iree-base-compiler[onnx]", "iree-base-runtime"], "iree.runtime"),
    "torch": (["torch", "onnx2torch"], "onnx2torch"),
    "tvm": (["apache-tvm"], "tvm"),
    "emx": (["emx-onnx-cgen"], "emx_onnx_cgen"),
}
DEFAULT = ("onnxruntime", "openvino")


def python_of(cache):
    return os.path.join(cache, "bin", "python")


def install(cache, names):
    """Makes the environment and installs what is missing; the packages that could not be had."""
    python, failed = python_of(cache), []
    if not os.path.exists(python):
        print(f"vs_peers: making {cache}", flush=True)
        venv.create(cache, with_pip=True)
    for name in names:
        packages, module = PACKAGES[name]
        probe = [
            python,
            "-c",
            f"import importlib.util as u, sys; sys.exit(u.find_spec('{module}') is None)",
        ]
        if subprocess.run(probe, stderr=subprocess.DEVNULL).returncode == 0:
            continue
        print(f"vs_peers: installing {' '.join(packages)}", flush=True)
        if subprocess.run([python, "-m", "pip", "install", "-q", *packages]).returncode:
            failed.append(name)
    return failed


def versions(names):
    """name -> version of the installed ones; runs inside the environment."""
    from importlib import metadata

    found = {}
    for name in names:
        try:
            found[name] = metadata.version(PACKAGES[name][0][0].split("[")[0])
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def timed(call, n):
    start = time.perf_counter()
    for _ in range(n):
        call()
    return (time.perf_counter() - start) / n


class OnnxRuntime:
    def __init__(self, model, inputs, threads):
        import onnxruntime as ort

        settings = ort.SessionOptions()
        settings.intra_op_num_threads, settings.inter_op_num_threads = threads, 1
        settings.log_severity_level = 3
        session = ort.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
        known = {v.name for v in session.get_inputs()}
        inputs = {k: v for k, v in inputs.items() if k in known}
        names = [v.name for v in session.get_outputs()]
        self.result = [v.copy() for v in session.run(None, inputs)]
        binding = session.io_binding()
        for name, value in inputs.items():
            binding.bind_cpu_input(name, value)
        for name, y in zip(names, self.result):
            binding.bind_output(name, "cpu", 0, y.dtype, list(y.shape), y.ctypes.data)
        self.keep = (session, binding, inputs)
        run, inner = session._sess.run_with_iobinding, binding._iobinding
        self.call = lambda: run(inner, None)

    def time(self, n):
        return timed(self.call, n)

    def outputs(self):
        self.call()
        return self.result


class OpenVino:
    def __init__(self, model, inputs, threads):
        import openvino as ov
        from openvino._pyopenvino import InferRequest

        core = ov.Core()
        graph = core.read_model(model)
        names = [p.get_any_name() for p in graph.inputs]
        if any(p.partial_shape.is_dynamic for p in graph.inputs):
            graph.reshape({n: list(inputs[n].shape) for n in names})
        settings = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "f32",
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
        }
        request = core.compile_model(graph, "CPU", settings).create_infer_request()
        tensors = [ov.Tensor(inputs[n]) for n in names]
        for i, t in enumerate(tensors):
            request.set_input_tensor(i, t)
        self.keep = (request, tensors, inputs)
        self.n_outputs, self.request = len(graph.outputs), request
        self.call = lambda: InferRequest.infer(request, {}, True, False)
        self.call()

    def time(self, n):
        return timed(self.call, n)

    def outputs(self):
        self.call()
        return [self.request.get_output_tensor(i).data.copy() for i in range(self.n_outputs)]


class Iree:
    def __init__(self, model, inputs, threads):
        import iree.compiler.tools as tools
        import iree.runtime as rt
        import numpy as np

        folder = os.path.dirname(os.path.abspath(model))
        path = os.path.join(folder, "model.mlir")
        importer = os.path.join(os.path.dirname(sys.executable), "iree-import-onnx")
        subprocess.run([importer, model, "-o", path, "--opset-version", "17"], check=True, timeout=600)
        blob = tools.compile_file(
            path,
            target_backends=["llvm-cpu"],
            extra_args=["--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3"],
        )
        config = rt.Config("local-sync" if threads == 1 else "local-task")
        module = rt.load_vm_module(rt.VmModule.copy_buffer(config.vm_instance, blob), config)
        names = [n for n in module.vm_module.function_names if not n.startswith("__") and "$" not in n]
        function = module[names[0]]
        values = [rt.asdevicearray(config.device, v) for v in inputs.values()]
        self.call = lambda: function(*values)
        self.array = lambda y: np.asarray(y.to_host() if hasattr(y, "to_host") else y)
        self.call()

    def time(self, n):
        return timed(self.call, n)

    def outputs(self):
        y = self.call()
        return [self.array(v) for v in (y if isinstance(y, (list, tuple)) else [y])]


class Torch:
    """Through onnx2torch, traced and frozen (torch.compile needs a C++ compiler at run time)."""

    def __init__(self, model, inputs, threads):
        import onnx2torch
        import torch

        torch.set_num_threads(threads)
        values = [torch.from_numpy(v) for v in inputs.values()]
        with torch.inference_mode():
            traced = torch.jit.trace(onnx2torch.convert(model).eval(), values)
            traced = torch.jit.optimize_for_inference(torch.jit.freeze(traced))
        self.torch, self.traced, self.values = torch, traced, values
        self.time(2)

    def time(self, n):
        with self.torch.inference_mode():
            return timed(lambda: self.traced(*self.values), n)

    def outputs(self):
        with self.torch.inference_mode():
            y = self.traced(*self.values)
        return [v.numpy() for v in (y if isinstance(y, (list, tuple)) else [y])]


class Tvm:
    def __init__(self, model, inputs, threads):
        import onnx
        import tvm
        from tvm import relax
        from tvm.relax.frontend.onnx import from_onnx

        os.environ["TVM_NUM_THREADS"] = str(threads)
        module = from_onnx(onnx.load(model), keep_params_in_input=False)
        cpu = tvm.target.codegen.llvm_get_system_cpu()
        target = tvm.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": threads})
        with target:
            module = relax.get_pipeline("zero")(module)
        vm = relax.VirtualMachine(tvm.compile(module, target), tvm.cpu())
        values = [tvm.runtime.tensor(v) for v in inputs.values()]
        self.call = lambda: vm["main"](*values)
        self.call()

    def time(self, n):
        return timed(self.call, n)

    def outputs(self):
        y = self.call()
        return [v.numpy() for v in (y if hasattr(y, "__len__") and not hasattr(y, "numpy") else [y])]


class Emx:
    """emx-onnx-cgen, which generates C as rlxc does; the C compiler gets -O3 -march=native."""

    def __init__(self, model, inputs, threads):
        import ctypes

        import numpy as np
        import onnx

        # It needs the shape of every value.
        known_shapes = onnx.shape_inference.infer_shapes(onnx.load(model), data_prop=True)
        graph = known_shapes.graph
        known = {v.name for v in graph.initializer}
        given = [v for v in graph.input if v.name not in known]
        values = [inputs[v.name] for v in given]
        sizes = [
            f"{v.name}:{i}={inputs[v.name].shape[i]}"
            for v in given
            for i, d in enumerate(v.type.tensor_type.shape.dim)
            if not d.HasField("dim_value")
        ]
        folder = os.path.dirname(os.path.abspath(model))
        tool = os.path.join(os.path.dirname(sys.executable), "emx-onnx-cgen")
        dims = [word for size in sizes for word in ("--input-dim", size)]
        names = ["--model-name", "emx", "--restrict-arrays"]
        # Its name for the file of weights is relative to the folder in which it runs.
        onnx.save(known_shapes, os.path.join(folder, "emx.onnx"))
        command = [tool, "compile", "emx.onnx", "emx.c", *names, *dims]
        done = subprocess.run(command, cwd=folder, timeout=900, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError((done.stdout + done.stderr).strip().split("\n")[-1])
        flags = ["-O3", "-march=native", "-shared", "-fPIC"]
        cc = os.environ.get("CC", "cc")
        subprocess.run([cc, *flags, "emx.c", "-o", "emx.so", "-lm"], cwd=folder, check=True, timeout=900)
        lib = ctypes.CDLL(os.path.join(folder, "emx.so"))
        weights = os.path.join(folder, "emx.bin")
        if os.path.exists(weights) and not lib.emx_load(weights.encode()):
            raise RuntimeError("emx-onnx-cgen's code does not take its weights")
        self.result = [
            np.empty([d.dim_value for d in v.type.tensor_type.shape.dim], np.float32) for v in graph.output
        ]
        places = [ctypes.c_void_p(v.ctypes.data) for v in [*values, *self.result]]
        self.keep = (lib, values)
        self.call = lambda: lib.emx(*places)
        self.call()

    def time(self, n):
        return timed(self.call, n)

    def outputs(self):
        self.call()
        return self.result


RUNNERS = {
    "onnxruntime": OnnxRuntime,
    "openvino": OpenVino,
    "iree": Iree,
    "torch": Torch,
    "tvm": Tvm,
    "emx": Emx,
}
