# SPDX-License-Identifier: Apache-2.0
"""Measures one case on a GPU: rlxc's kernels and torch's, each recorded once and timed by events of the
device, in turns. Operands stay on the device on both sides. Processes that prepare cases side by side use the
device one at a time."""

import contextlib
import fcntl
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "gpu"))

import ours as gpu_ours  # noqa: E402
import timing  # noqa: E402
from sweeps import cases, measure, onnx_case  # noqa: E402
from versus import stats  # noqa: E402

NAMES = {"f32": "f32", "f16": "f16", "bf16": "bf16", "int8": "f32"}
SAMPLE_US, LONG_US = 2000, 5000
IMAGES = {"conv2d", "conv3d", "depthwise", "grouped", "deconv", "pool", "resize"}


def graph_of(rlxc, path, folder, is_image):
    """A model as rlxc's JSON. Images are channels last outside, as they are within a network."""
    made = os.path.join(folder, "graph.json")
    done = subprocess.run([rlxc, "convert", path, made], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-300:])
    graph = json.loads(pathlib.Path(made).read_text(encoding="utf-8"))
    return with_channels_last(graph) if is_image else graph


def with_channels_last(graph):
    """The same with images [n, ..., c] as inputs and outputs."""
    turned = []
    for name, x in graph["inputs"].items():
        rank = len(x["shape"])
        if rank > 2:
            x["shape"] = channels_last(x["shape"])
            turned.append({"name": name, "op": "transpose", "inputs": [name + "_last"]})
            turned[-1]["perm"] = [0, rank - 1, *range(1, rank - 1)]
    last = {node["name"] for node in turned}
    graph["inputs"] = {n + "_last" if n in last else n: x for n, x in graph["inputs"].items()}
    outputs = graph["outputs"]  # names of values, or names of outputs and the values they are
    value = next(iter(outputs.values())) if isinstance(outputs, dict) else outputs[0]
    result = {"name": "result_last", "op": "transpose", "inputs": [value]}
    result["perm"] = [0, *range(2, rank), 1]
    return {**graph, "nodes": [*turned, *graph["nodes"], result], "outputs": ["result_last"]}


def channels_last(shape):
    return [shape[0], *shape[2:], shape[1]]


@contextlib.contextmanager
def turn(a):
    """The device belongs to this process."""
    with open(a["turn"], "rb") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def compile_ours(case, path, folder, a):
    """Our side as a library, which does not use the device yet."""
    graph = graph_of(a["rlxc"], path, folder, case["family"] in IMAGES)
    files = [f for f in pathlib.Path(folder).iterdir() if f.suffix in (".safetensors", ".bin")]
    options = dict(rlxc=a["rlxc"], options=a["options"], target=a["target"], files=files)
    return gpu_ours.Ours.prepared(graph, gpu=a["gpu"] if a["target"] == "cuda" else None, **options)


def result_of(mine, case, dtype, shape):
    """What our side computes of the inputs of the case, from here on on the device; in torch's order."""
    is_image = case["family"] in IMAGES
    mine.start()
    inputs = measure.as_bytes(onnx_case.inputs_of(case, dtype), dtype)
    for slot, value in enumerate(inputs.values()):
        mine.set_input(slot, np.moveaxis(value, 1, -1) if is_image and value.ndim > 2 else value)
    mine.run()
    is_turned = is_image and len(shape) > 2
    found = read(mine, dtype, case["steps"][-1][0], channels_last(shape) if is_turned else shape)
    return np.moveaxis(found, -1, 1) if is_turned else found


def torch_runners(case, made, dtype, is_compiled):
    """Runners of torch: as it is, with images channels last, and compiled if that is asked for."""
    import torch

    from sweeps import torch_case

    kind = torch_case.DTYPES[dtype]
    values = [torch.from_numpy(v).cuda() for v in onnx_case.inputs_of(case, dtype).values()]
    values = [v.to(kind) if v.is_floating_point() else v for v in values]
    run = torch_case.function_of(case, made, dtype, "cuda")
    found = {"torch": timing.Torch(lambda: run(*values))}
    if case["family"] in IMAGES and values[0].dim() == 4:
        last = [v.to(memory_format=torch.channels_last) if v.dim() == 4 else v for v in values]
        found["torch, channels last"] = timing.Torch(lambda: run(*last))
    if is_compiled:
        fast = torch.compile(run, mode="max-autotune-no-cudagraphs")
        found["torch.compile"] = timing.Torch(lambda: fast(*values))
    return found


def read(mine, dtype, kind, shape):
    if kind == "argmax":
        return mine.read_output(0, np.int64, shape)
    if dtype == "bf16":
        return gpu_ours.from_bf16(mine.read_output(0, np.uint16, shape))
    return mine.read_output(0, np.float16 if dtype == "f16" else np.float32, shape).astype(np.float32)


def samples(runner):
    """Microseconds of a run: samples of two milliseconds, or few runs of what takes longer."""
    once = statistics.median(runner.times(3))
    return runner.times(10 if once < LONG_US else 3, max(1, min(20, int(SAMPLE_US / once))))


def wanted_of(case, path, dtype, runners):
    """What a peer computes: torch, or for quantised cases, which it has not on GPUs, ONNX Runtime."""
    if dtype != "int8":
        return "torch", runners["torch"].result.float().cpu().numpy()
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return "onnxruntime", session.run(None, onnx_case.inputs_of(case, dtype))[0]


def measured(mine, runners, case, dtype, wanted, a):
    """Members of a row: how far results are apart, and times if they are close."""
    peer, values = wanted
    errors = {peer: measure.error_of(result_of(mine, case, dtype, list(values.shape)), values)}
    if any(op in ("lstm", "gru") for op, _ in case["steps"]):
        errors = {}  # torch's weights are others
    if any(not e <= measure.LIMITS[dtype] for e in errors.values()):
        return {"failed": f"results differ: {errors}"}
    times = timing.in_turns({"ours": mine, **runners}, samples, a["rounds"])
    us = times.pop("ours")
    peers = {name: t[0] / 1e3 for name, t in times.items()}
    best, ratio = stats.ratio(us[0] / 1e3, peers)
    kernels = mine.kernels(5)
    found = {"errors": errors, "kernels_us": kernels, "ours_ms": us[0] / 1e3, "peers": peers}
    if ratio < a["explain_below"]:
        slow = sorted(kernels, key=lambda k: -k[1])[:2]
        found["reason"] = f"{len(kernels)} launches; " + ", ".join(f"{n} {t:.1f} us" for n, t in slow)
    return {**found, "best_peer": best, "ratio": ratio}


def run(case, dtype, a):
    """The row of a case in an element type."""
    import torch

    row = {"family": case["family"], "name": cases.name_of(case), "dtype": dtype, "of": case["of"]}
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = a["tf32"]
    torch.backends.cudnn.benchmark = True
    peer_type = "f16" if dtype == "int8" else dtype
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as f:
            f.write(onnx_case.made_of(case, dtype).model.SerializeToString())
        mine = compile_ours(case, path, folder, a)
        with turn(a):
            runners = torch_runners(case, onnx_case.made_of(case, peer_type), peer_type, a["compiled"])
        wanted = wanted_of(case, path, dtype, runners)
        with turn(a):
            try:
                row.update(measured(mine, runners, case, dtype, wanted, a))
            finally:
                mine.close()
    return row
