#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares operators of com.microsoft, and quantised matrices, with ONNX Runtime: `rlxc run` on small models.

The cases stand in microsoft_cases.py. Runs again in the environment that RLXC_VENV names when the wheels are
missing here, and exits with 77 when they are missing there too. Half of the cases each day (rotation.py).
`microsoft.py RLXC [--only NAME] [--keep FOLDER]`.
"""

import argparse
import os
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common"))
import in_venv  # noqa: E402
from rotation import part_of  # noqa: E402

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import helper, numpy_helper

    import microsoft_cases
except ImportError:
    in_venv.enter_or_skip("onnx, onnxruntime or numpy")


def model_of(case, operands, attributes):
    """One node; operands are inputs, those that the case calls constant are initializers."""
    feeds, inputs, initializers, names = {}, [], [], []
    for i, v in enumerate(operands):
        names.append("" if v is None else f"x{i}")
        if v is None:
            continue
        if i in case.constants:
            initializers.append(numpy_helper.from_array(v, f"x{i}"))
            continue
        feeds[f"x{i}"] = v
        inputs.append(helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(v.dtype),
                v.shape))
    outputs = [f"y{i}" if i in case.results else "" for i in range(max(case.results) + 1)]
    nodes = []
    if case.dequantise is not None:
        nodes = [helper.make_node("DequantizeLinear", names[1:], ["d"], **case.dequantise)]
        names = [names[0], "d"]
    nodes.append(helper.make_node(case.op, names, outputs, domain=case.domain, **attributes))
    graph = helper.make_graph(
        nodes, "g", inputs, [helper.make_empty_tensor_value_info(f"y{i}") for i in case.results],
                initializers
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), feeds


def oracle(model, feeds):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def ours(rlxc, model, feeds, folder):
    onnx.save(model, os.path.join(folder, "m.onnx"))
    command = [rlxc, "run", os.path.join(folder, "m.onnx"), "--output-dir", os.path.join(folder, "out")]
    for name, value in feeds.items():
        np.save(os.path.join(folder, f"{name}.npy"), value)
        command += ["--input", f"{name}={os.path.join(folder, name)}.npy"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        return None, done.stderr.strip()
    return [np.load(os.path.join(folder, "out", f"{o.name}.npy")) for o in model.graph.output], ""


def difference(got, want, case):
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"is {got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
    if case.counts is not None and got.ndim == 4:
        got, want = np.where(case.counts, got, 0), np.where(case.counts, want, 0)
    if want.dtype.kind in "iub":
        off = np.abs(got.astype(np.int64) - want.astype(np.int64)).max(initial=0)
        return f"is off by {off}" if off > case.steps else None
    scale = max(1.0, float(np.abs(want.astype(np.float64)).max(initial=0)))
    off = np.abs(got.astype(np.float64) - want.astype(np.float64)).max(initial=0) / scale
    return None if off <= case.tolerance else f"is off by {off:.3g}"


def check(case, rlxc, folder):
    want = oracle(*model_of(case, case.like or case.operands, case.attributes))
    model, feeds = model_of(case, case.operands, {**case.attributes, **case.own_attributes})
    got, message = ours(rlxc, model, feeds, folder)
    if got is None:
        return message
    wrong = [f"result {i} {d}" for i, (g, w) in enumerate(zip(got, want)) if (d := difference(g, w, case))]
    return "; ".join(wrong) or None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rlxc")
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", default="")
    options = parser.parse_args()
    failures = count = 0
    cases = microsoft_cases.all_cases()
    for case in cases if options.only else part_of(list(cases), 2):
        if options.only not in case.name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            if options.keep:
                folder = os.path.join(options.keep, case.name)
                os.makedirs(folder, exist_ok=True)
            message = check(case, options.rlxc, folder)
        count += 1
        failures += message is not None
        print(f"{'not ok' if message else 'ok'} - {case.name}{': ' + message if message else ''}", flush=True)
    print(f"# {count} cases, {failures} failures")
    return 1 if failures or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
