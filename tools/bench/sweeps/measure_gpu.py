# SPDX-License-Identifier: Apache-2.0
"""Measures one case on a GPU: rlxc's kernels and torch's, each recorded once and timed by events of the
device, in turns. Operands stay on the device on both sides."""

import json
import os
import pathlib
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
IMAGES = {"conv2d", "conv3d", "depthwise", "grouped", "deconv", "pool", "resize"}


def graph_of(rlxc, path, folder):
    """A model as rlxc's JSON, whose inputs are parameters and whose result is yet to be named."""
    made = os.path.join(folder, "graph.json")
    done = subprocess.run([rlxc, "convert", path, made], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-300:])
    graph = json.loads(pathlib.Path(made).read_text(encoding="utf-8"))
    graph["params"] = {**graph.get("params", {}), **graph.pop("inputs")}
    return graph, graph.pop("outputs")[0]


def start_ours(case, dtype, path, folder, result, a):
    """Our side, with its inputs on the device."""
    graph, value = graph_of(a["rlxc"], path, folder)
    kind = "i64" if case["steps"][-1][0] == "argmax" else NAMES[dtype]
    graph = gpu_ours.result(graph, value, kind, list(result.shape))
    files = [f for f in pathlib.Path(folder).iterdir() if f.suffix in (".safetensors", ".bin")]
    options = dict(rlxc=a["rlxc"], options=a["options"], target=a["target"], files=files)
    mine = gpu_ours.Ours(graph, gpu=a["gpu"] if a["target"] == "cuda" else None, **options)
    inputs = measure.as_bytes(onnx_case.inputs_of(case, dtype), dtype)
    for name, value in inputs.items():
        mine.set_param(name, value)
    mine.run()
    return mine


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
        return mine.read_state("result", np.int64, shape)
    if dtype == "bf16":
        return gpu_ours.from_bf16(mine.read_state("result", np.uint16, shape))
    return mine.read_state("result", np.float16 if dtype == "f16" else np.float32, shape).astype(np.float32)


def run(case, dtype, a):
    """The row of a case in an element type."""
    import torch

    row = {"family": case["family"], "name": cases.name_of(case), "dtype": dtype, "of": case["of"]}
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = a["tf32"]
    with tempfile.TemporaryDirectory() as folder:
        path, made = os.path.join(folder, "model.onnx"), onnx_case.made_of(case, dtype)
        with open(path, "wb") as f:
            f.write(made.model.SerializeToString())
        peer_type = "f16" if dtype == "int8" else dtype  # torch has no quantised operators on GPUs
        runners = torch_runners(case, made, peer_type, a["compiled"])
        result = runners["torch"].result
        mine = start_ours(case, dtype, path, folder, result, a)
        try:
            found = read(mine, dtype, case["steps"][-1][0], list(result.shape))
            if not any(op in ("lstm", "gru") for op, _ in case["steps"]):
                row["errors"] = {"torch": measure.error_of(found, result.float().cpu().numpy())}
                limit = measure.LIMITS["int8" if dtype == "int8" else dtype]
                if not row["errors"]["torch"] <= limit:
                    return {**row, "failed": f"results differ: {row['errors']}"}
            times = timing.in_turns({"ours": mine, **runners}, timing.small, a["rounds"])
            row["kernels_us"] = mine.kernels(5)
        finally:
            mine.close()
    us = times.pop("ours")
    peers = {name: t[0] / 1e3 for name, t in times.items()}
    best, ratio = stats.ratio(us[0] / 1e3, peers)
    row.update(ours_ms=us[0] / 1e3, peers=peers, best_peer=best, ratio=ratio)
    if ratio < a["explain_below"]:
        slow = sorted(row["kernels_us"], key=lambda k: -k[1])[:2]
        row["reason"] = f"{len(row['kernels_us'])} launches; " + ", ".join(f"{n} {t:.1f} us" for n, t in slow)
    return row
