#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares whole models of one or a few ONNX operators, imported, compiled and run, with ONNX Runtime.

For what ONNX's own cases leave out or hardly touch: operators of ai.onnx.ml, einsum, transforms, losses.
Models are random but seeded (import_cases.py). Exits with 77 when the wheels are missing.
`import_vs_onnx.py RLXC [--count N] [--seed N] [--only NAME] [--keep FOLDER]`.
"""

import argparse
import os
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common"))
import in_venv  # noqa: E402

try:
    import numpy as np
    import onnxruntime as ort
    from onnx import helper

    import import_cases
except ImportError:
    in_venv.enter_or_skip("onnx, onnxruntime or numpy")


def build(nodes, feeds, results, opsets):
    inputs = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for k, v in feeds.items()
    ]
    if isinstance(results, int):
        outputs = [helper.make_empty_tensor_value_info(f"y{i}") for i in range(results)]
    else:
        outputs = [helper.make_tensor_value_info(f"y{i}", 1, shape) for i, shape in enumerate(results)]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()


def oracle(model, feeds):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, feeds)


def run(rlxc, folder, model, feeds, results):
    path = os.path.join(folder, "m.onnx")
    with open(path, "wb") as f:
        f.write(model)
    command = [rlxc, "run", path, "--output-dir", folder]
    for name, value in feeds.items():
        is_text = value.dtype == object
        np.save(os.path.join(folder, name + ".npy"), value.astype(str) if is_text else value)
        command += ["--input", f"{name}={folder}/{name}.npy"]
    p = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if p.returncode:
        return None, p.stderr.strip()[-600:]
    count = results if isinstance(results, int) else len(results)
    return [np.load(os.path.join(folder, f"y{i}.npy")) for i in range(count)], ""


def difference(got, want, tolerance):
    for i, (g, w) in enumerate(zip(got, want)):
        if w.dtype == object:  # strings
            if g.tolist() != w.tolist():
                return f"y{i} is {g.tolist()}, expected {w.tolist()}"
            continue
        if g.dtype != w.dtype or g.shape != w.shape:
            return f"y{i} is {g.dtype}{list(g.shape)}, expected {w.dtype}{list(w.shape)}"
        if not np.allclose(g, w, rtol=tolerance, atol=tolerance, equal_nan=True):
            return f"y{i} is {g.ravel()[:8]}, expected {w.ravel()[:8]}"
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rlxc")
    parser.add_argument("--count", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep")
    args = parser.parse_args()
    failed = total = refused = 0
    for name, make in import_cases.CASES.items():
        if args.only and args.only not in name:
            continue
        for i in range(args.count):
            rng = np.random.default_rng([args.seed, i, *name.encode()])
            nodes, feeds, results, opsets, tolerance, *expected = make(rng)
            model = build(nodes, feeds, results, opsets)
            total += 1
            try:
                want = expected[0] if expected else oracle(model, feeds)
            except Exception as e:  # noqa: BLE001: whatever ONNX Runtime does not take is no case
                refused += 1
                print(f"# {name} {i}: ONNX Runtime refuses it: {str(e)[:200]}")
                continue
            with tempfile.TemporaryDirectory() as folder:
                got, message = run(args.rlxc, folder, model, feeds, results)
                wrong = message if got is None else difference(got, want, tolerance)
            if wrong:
                failed += 1
                print(f"{name} {i}: {wrong}")
                if args.keep:
                    with open(os.path.join(args.keep, f"{name}_{i}.onnx"), "wb") as f:
                        f.write(model)
    print(f"{total} cases, {failed} wrong, {refused} that ONNX Runtime refuses")
    return 1 if failed or refused * 2 > total else 0


if __name__ == "__main__":
    sys.exit(main())
