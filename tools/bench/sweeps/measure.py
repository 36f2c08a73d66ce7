# SPDX-License-Identifier: Apache-2.0
"""Measures one case: rlxc's code and its peers in this process, in turns."""

import json
import os
import subprocess
import tempfile
import time

import numpy as np

from sweeps import cases, onnx_case
from versus import ours, peers, stats

LIMITS = {"f32": 1e-3, "f16": 2e-2, "bf16": 6e-2, "int8": 6e-2}  # errors relative to the largest magnitude
INTEGER_RESULTS = {"argmax"}
ROUNDS = 6
SHORT = 1e-3  # seconds, in which few runs are interrupted


class Torch:
    """The peer torch on this CPU, in eager mode."""

    def __init__(self, case, made, dtype, inputs, threads):
        import torch

        from sweeps import torch_case

        torch.set_num_threads(threads)
        kind = torch_case.DTYPES[dtype]
        values = [torch.from_numpy(v) for v in inputs.values()]
        values = [v.to(kind) if v.is_floating_point() else v for v in values]
        run = torch_case.function_of(case, made, dtype)
        self.torch = torch
        self.is_comparable = not any(op in torch_case.OTHER_NUMBERS for op, _ in case["steps"])
        self.call = lambda: run(*values)
        self.time(1)

    def time(self, n):
        with self.torch.inference_mode():
            return peers.timed(self.call, n)

    def outputs(self):
        with self.torch.inference_mode():
            y = self.call()
        return [(y.float() if y.is_floating_point() else y).numpy()]


def start(case, made, dtype, inputs, path, threads):
    """(runners, why not by name) of the peers on CPUs."""
    makers = {
        "onnxruntime": lambda: peers.OnnxRuntime(path, inputs, threads),
        "openvino": lambda: peers.OpenVino(path, inputs, threads),
    }
    if dtype != "int8":
        makers["torch"] = lambda: Torch(case, made, dtype, inputs, threads)
    if dtype == "bf16":
        del makers["onnxruntime"], makers["openvino"]  # their bindings take no arrays of bf16
    found, failed = {}, {}
    for name, make in makers.items():
        try:
            found[name] = make()
        except Exception as e:  # whatever a peer raises: the row says so
            failed[name] = f"{type(e).__name__}: {str(e).strip()[:200]}"
    return found, failed


def as_bytes(inputs, dtype):
    """The inputs in the element type of the case."""
    if dtype != "bf16":
        return inputs
    turn = lambda x: ((x.view(np.uint32) + 0x8000) >> 16).astype(np.uint16)  # noqa: E731
    return {n: turn(v) if v.dtype == np.float32 else v for n, v in inputs.items()}


def first_output(mine, like, dtype, kind):
    """Our first output with the shape of a peer's, as f32."""
    if kind in INTEGER_RESULTS:
        return mine.outputs([like.astype(np.int64)])[0]
    if dtype == "bf16":
        bits = mine.outputs([like.astype(np.uint16)])[0]
        return (bits.astype(np.uint32) << 16).view(np.float32)
    return mine.outputs([like.astype(np.float16 if dtype == "f16" else np.float32)])[0].astype(np.float32)


def error_of(found, wanted):
    found, wanted = found.astype(np.float64).ravel(), wanted.astype(np.float64).ravel()
    if found.size != wanted.size or not np.array_equal(np.isfinite(found), np.isfinite(wanted)):
        return float("inf")
    keep = np.isfinite(wanted)
    largest = np.abs(wanted[keep]).max(initial=0.0)
    worst = np.abs(found[keep] - wanted[keep]).max(initial=0.0)
    return float(worst / largest if largest else worst)


def plain_result(path, inputs):
    """What ONNX Runtime computes step by step, in f32 between bytes. On machines without dot products of
    bytes the joined kernels of peers add pairs of products in 16 bits, which saturate."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)[0]


def compare(mine, runners, case, dtype, path, inputs):
    """Our error against each peer whose numbers are ours."""
    mine.time(1)
    last, errors = case["steps"][-1][0], {}
    if dtype == "int8":
        y = plain_result(path, inputs)
        errors["plain"] = error_of(first_output(mine, y, dtype, last), y)
    for name, runner in runners.items():
        if getattr(runner, "is_comparable", True):
            y = np.asarray(runner.outputs()[0])
            errors[name] = error_of(first_output(mine, y, dtype, last), y)
    return errors


def time_once(runner, is_shared):
    """Seconds of a run. On a shared core those for which the process had it, where others may interrupt."""
    start = time.process_time()
    seconds = runner.time(1)
    return min(seconds, time.process_time() - start) if is_shared and seconds > SHORT else seconds


def turns(runners, seconds, is_shared):
    """Median milliseconds of each runner over rounds; the copy of our inputs is not in the time."""
    times = {name: [] for name in runners}
    names = list(runners)
    for k in range(ROUNDS):
        for i in range(len(names)):
            name = names[(i + k) % len(names)]
            runner, end = runners[name], time.perf_counter() + seconds / ROUNDS
            runner.time(1)
            n = 0
            while n < 2 or (time.perf_counter() < end and n < 400):
                times[name].append(time_once(runner, is_shared))
                n += 1
    return {name: stats.summary(t) for name, t in times.items()}


def measure(case, dtype, a):
    """The row of a case in an element type."""
    row = {"family": case["family"], "name": cases.name_of(case), "dtype": dtype, "of": case["of"]}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        made, inputs = onnx_case.made_of(case, dtype), onnx_case.inputs_of(case, dtype)
        with open(path, "wb") as f:
            f.write(made.model.SerializeToString())
        mine = ours.build(a["rlxc"], path, folder, a["threads"], a["options"])
        mine.set_inputs(as_bytes(inputs, dtype))
        runners, failed = start(case, made, dtype, inputs, path, a["threads"])
        errors = compare(mine, runners, case, dtype, path, inputs)
        row.update(failed_peers=failed, errors=errors)
        if row["errors"] and not min(row["errors"].values()) <= LIMITS[dtype]:
            return {**row, "failed": f"results differ: {row['errors']}"}
        mine.keep_intact()  # as the peers' inputs
        found = turns({"ours": mine, **runners}, a["seconds"], a["shared"])
        us = found.pop("ours")
        best, ratio = stats.ratio(us["median"], {n: s["median"] for n, s in found.items()})
        row.update(ours_ms=us["median"], ours=us, peers={n: s["median"] for n, s in found.items()})
        row.update(best_peer=best, ratio=ratio, macs=mine.macs, kernels=mine.n_kernels)
        shortest = {n: s["best"] for n, s in found.items()}
        row.update(shortest=shortest, of_best=stats.ratio(us["best"], shortest)[1])
        if ratio and ratio < a["explain_below"]:
            row["reason"] = explain(a["rlxc"], path)
    return row


def explain(rlxc, path):
    """What takes the time, by rlxc's own profile: the kernels with the largest shares."""
    command = [rlxc, "bench", path, "--random", "1", "--seconds", "0.3", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode:
        return "no profile: " + done.stderr.strip()[:100]
    kernels = sorted(json.loads(done.stdout)["kernels"], key=lambda k: -k["us"])
    words = []
    for k in kernels[:2]:
        op, share, limit = k["nodes"].split(" = ")[-1], 100 * k["share"], 100 * k["roofline_share"]
        words.append(f"{op} {share:.0f} % of the time at {limit:.0f} % of the limit")
    return f"{len(kernels)} kernels; " + ", ".join(words)
