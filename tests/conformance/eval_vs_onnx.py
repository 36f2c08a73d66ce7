#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the reference evaluator with ONNX Runtime (where that lacks a kernel, with ONNX's own reference).

For every structural op it makes random small cases (eval_cases_*.py), writes each as a graph in the text
form with its operands as constants, lets eval_tool evaluate it, and compares types, shapes and values.
Runs again in the environment that RLXC_VENV names when the wheels are missing here, and exits with 77 when
they are missing there too. `eval_vs_onnx.py EVAL_TOOL [--count N] [--seed N] [--only OP] [--keep FOLDER]`.
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
    import onnx
    import onnxruntime as ort
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    import eval_case
    import eval_cases_compute
    import eval_cases_move
except ImportError:
    in_venv.enter_or_skip("onnx, onnxruntime or numpy")

MAKERS = {
    name[5:]: maker
    for module in (eval_cases_compute, eval_cases_move)
    for name, maker in vars(module).items()
    if name.startswith("case_")
}


# --- what the oracles say ---


def oracle(case):
    inputs = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for k, v in case.feeds.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(f"y{i}") for i in range(case.results)]
    graph = helper.make_graph(case.nodes, "g", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset)], ir_version=10)
    try:
        model = onnx.shape_inference.infer_shapes(model)
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        session = ort.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return session.run(None, case.feeds)
    except Exception as e:  # ONNX Runtime raises its own types for what it does not implement
        if "NOT_IMPLEMENTED" not in str(e) and "NotImplemented" not in type(e).__name__:
            raise
        return ReferenceEvaluator(model).run(None, case.feeds)


# --- what we say ---


def type_text(v):
    return f"{eval_case.NAMES[str(v.dtype)]}[{', '.join(str(n) for n in v.shape)}]"


def text_of(case, want):
    lines = ['graph "case" {']
    refs = []
    for v in case.operands:
        if v is None:
            refs.append("_")
            continue
        number = len(lines)
        digits = v.astype(v.dtype.newbyteorder(">")).tobytes().hex()
        lines.append(f'  %{number} = const : {type_text(v)} = hex"{digits}"')
        refs.append(f"%{number}")
    while refs[-1] == "_":
        refs.pop()
    number = len(lines)
    types = ", ".join(type_text(v) for v in want)
    attrs = ", ".join(f"{k} = {v}" for k, v in case.attrs.items())
    lines.append(
        f"  %{number} = {case.op}({', '.join(refs)}){' {' + attrs + '}' if attrs else ''} : "
        + (f"({types})" if case.results > 1 else types)
    )
    lines.append(f'  output "y0" = %{number}')
    for i in range(1, case.results):
        lines.append(f"  %{number + i} = result(%{number}) {{index = {i}}} : {type_text(want[i])}")
        lines.append(f'  output "y{i}" = %{number + i}')
    return "\n".join(lines + ["}", ""])


def run_tool(tool, paths):
    """The outputs by file; a file whose graph was refused has none."""
    done = subprocess.run([tool, *paths], capture_output=True, text=True)
    outputs = {}
    by_name = {v: np.dtype(k) for k, v in eval_case.NAMES.items()}
    for line in done.stdout.splitlines():
        if line.startswith("= "):
            outputs[line[2:]] = current = []
            continue
        _, dtype, shape, digits = line.split(" ")
        dims = [int(n) for n in shape.split(",")] if shape else []
        current.append(np.frombuffer(bytes.fromhex(digits), by_name[dtype]).reshape(dims))
    if done.returncode != 0:
        sys.exit(f"{tool} ended with {done.returncode}\n{done.stderr}")
    return outputs, done.stderr


def difference(case, got, want):
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if want.dtype.kind != "f" or case.exact:
        return "" if np.array_equal(got, want, equal_nan=want.dtype.kind == "f") else "values differ"
    with np.errstate(invalid="ignore"):
        special = ~np.isfinite(want) | ~np.isfinite(got)
        if not np.array_equal(np.where(special, got, 0), np.where(special, want, 0), equal_nan=True):
            return "infinities or NaN differ"
        scale = max(1.0, float(np.abs(np.where(special, 0, want)).max(initial=0)))
        error = float(np.abs(np.where(special, 0, got.astype(np.float64) - want)).max(initial=0))
    return "" if error <= 2e-5 * scale else f"error {error:g} of {scale:g}"


# --- running ---


def check_op(tool, name, count, folder):
    cases = []
    for i in range(count):
        case = MAKERS[name]()
        want = getattr(case, "want", None)
        want = [np.asarray(v) for v in (want if want is not None else oracle(case))]
        path = os.path.join(folder, f"{name}-{i}.ir")
        with open(path, "w") as f:
            f.write(text_of(case, want))
        cases.append((path, case, want))
    outputs, messages = run_tool(tool, [path for path, _, _ in cases])
    failures = 0
    for path, case, want in cases:
        got = outputs[path]
        wrong = (
            "refused"
            if len(got) != len(want)
            else "; ".join(filter(None, (difference(case, g, w) for g, w in zip(got, want))))
        )
        if wrong:
            failures += 1
            if failures <= 3:
                print(f"# {path}: {wrong}")
                print(
                    "".join(
                        "#   " + (s if len(s) < 200 else s[:200] + "...") + "\n"
                        for s in text_of(case, want).splitlines()
                    )
                )
    if messages and failures:
        print("".join(f"# {s}\n" for s in messages.splitlines()[:12]))
    return failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only")
    parser.add_argument("--keep", help="a folder for the case files")
    args = parser.parse_args()
    failed = 0
    names = [args.only] if args.only else sorted(MAKERS)
    print(f"1..{len(names)}")
    with tempfile.TemporaryDirectory() as scratch:
        for i, name in enumerate(names, 1):
            eval_case.seed(args.seed, *name.encode())
            failures = check_op(args.tool, name, args.count, args.keep or scratch)
            failed += failures > 0
            print(
                f"{'not ok' if failures else 'ok'} {i} - {name}: {args.count - failures} of {args.count}",
                flush=True,
            )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
