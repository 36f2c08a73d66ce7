#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime runs what `rlxc convert` writes: op cases of today (test_onnx_export --write leaves models,
inputs and results of the reference evaluator), and the networks of MLPerf Tiny where they lie beside the
tree, whose stored results it must give, integers to the bit. What ONNX Runtime itself cannot do or does in
another way is listed here; nothing else may fail. Exits with 77 when the wheels are missing.

Usage: check_onnx_export.py RLXC TEST_ONNX_EXPORT CASES..."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common"))
import in_venv  # noqa: E402

try:
    import numpy as np
    import onnxruntime as ort
except ImportError:
    in_venv.enter_or_skip("onnxruntime or numpy")
import tap  # noqa: E402

ort.set_default_logger_severity(4)

ROOT = pathlib.Path(os.environ.get("RLXC_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
NETWORKS = ROOT / "../shared/models/mlperf_tiny"
LEAST = 0.75  # of the cases that it takes must agree

# What ONNX Runtime says of models that are right, or of values that ONNX does not define.
REFUSALS = [
    r"NOT_IMPLEMENTED",
    r"Type 'tensor\((bfloat16|float8\w+|float4e2m1|u?int[24])\)' of input parameter",
    r"No corresponding Numpy type",
    r"Unexpected input data type",  # types that NumPy lacks, which are read as bytes
    r"Type 'tensor\(u?int(8|32)\)' of input parameter \(x\) of operator \(Pow\)",
    r"Type 'tensor\(bool\)' of input parameter \(x\) of operator \(TopK\)",
    r"(division|modulo) by zero",
    r"out of data bounds|invalid indice found|batch_indices value|must be finite",
    r"pool_attributes\.h",  # pads of dilated kernels, and windows of padding alone
    r"upsamplebase\.h",  # linear with other than two or three axes
    r"attention_parameters\.h|attention\.cc:\d+ .*scale_ > 0",  # no key, no query; negative scales
    r"output_padding.* must be less than",
    r"conv_integer\.cc",  # a zero point for each channel
    r"(LSTM|GRU) operator does not support double",
    r"Pad reflect: post-pad",
    r"matmul_nbits\.cc",
]
# Cases on which it has other results.
DIFFERENT = [
    (r"arg(max|min).*(special|of NaN|and NaN)|(reduce_max|reduce_min|max_pool).*(special|of NaN|with NaN)",
     "NaN is skipped"),
    (r"max_pool of short rows in several lines", "NaN is skipped"),
    (r"attention .*(hides? (infinities|special)|infinite values behind)", "hidden values count"),
    (r"attention f16.* behind a small weight", "weights are f16"),
    (r"attention units masked rows", "rows that see nothing are means"),
    (r"attention f64", "computed in f32"),
    (r"cast special", "floats beyond the type"),
    (r"factors of channels of 7 x 7|operands scaled beyond f16", "no f16 between two operators"),
    (r"(lstm|gru|rnn)( that resets before,)? no (step|batch|input)|lstm sums before .* 101 hidden, both",
     "the last state of no step, which ends it for gru; no batch ends it; no input leaves all open"),
    (r"lstm (tiles f16|sums before.*), infinite weights",
     "its kernels for some CPUs make NaN of infinite sums"),
    (r"qmatmul .* zero rounded", "rows are rounded in other blocks"),
    (r"resize cubic align_corners down|resize linear (corners of a fractional size|same size by scale)",
     "other coordinates where sizes and scales disagree"),
    (r"roi_pool bins no numbers", "regions that are no numbers"),
    (r"windows of special weights on units|conv depthwise stored weights",
     "zeros around an image are multiplied"),
]  # fmt: skip
TOLERANCE = {"float32": 2e-5, "float64": 1e-9, "float16": 2e-2}


def session(path):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def difference(found, wanted):
    """None: they agree."""
    if wanted.dtype.kind == "V":  # floats of 8 bits, as bytes
        wanted = wanted.view(np.uint8)
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return f"{found.dtype}{found.shape}, expected {wanted.dtype}{wanted.shape}"
    if found.tobytes() == wanted.tobytes():
        return None
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    other = ~((np.isnan(a) & np.isnan(b)) | (a == b))
    if not (np.isfinite(a[other]).all() and np.isfinite(b[other]).all()):
        return "numbers and what is none"
    most = max(np.abs(b[np.isfinite(b)]).max(initial=0), 1)
    error = np.abs(a[other] - b[other]).max(initial=0)
    limit = TOLERANCE.get(str(found.dtype), 0) * most
    return None if error <= limit else f"error {error} of {most}"


def check(case):
    """None, or what is wrong."""
    try:
        model = session(case / "model.onnx")
        names = [i.name for i in model.get_inputs()]
        feeds = {n: np.load(case / f"in_{n}.npy") for n in names if (case / f"in_{n}.npy").exists()}
        found = model.run(None, feeds)
    except Exception as error:  # ONNX Runtime has many classes of them
        known = any(re.search(pattern, f"{type(error).__name__} {error}") for pattern in REFUSALS)
        return "refused" if known else f"{type(error).__name__}: {error}"
    for i, y in enumerate(found):
        wrong = difference(np.asarray(y), np.load(case / f"out_{i:02}.npy"))
        if wrong:
            return f"output {i}: {wrong}"
    return None


def check_rest(cases, pipe):
    """Writes a line for each case."""
    with os.fdopen(pipe, "w") as lines:
        for case in cases:
            print((check(case) or "").replace("\n", " ")[:2000], file=lines, flush=True)


def check_all(cases):
    """What check says of each, in a process of their own: some models end it, and a new one goes on."""
    found = []
    while len(found) < len(cases):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            check_rest(cases[len(found) :], write)
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            found += pipe.read().split("\n")[:-1]
        _, status = os.waitpid(child, 0)
        if status != 0:
            found.append(f"status {status}")
    return found


def check_file(program, file):
    """The number of cases that agree, and of those that ONNX Runtime refuses; what is wrong."""
    agreed, refused, wrong = 0, 0, []
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "--write", folder, file]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
        if done.returncode:
            return 0, 0, [done.stdout]
        cases = sorted(pathlib.Path(folder).iterdir())
        for case, said in zip(cases, check_all(cases), strict=True):
            is_known = any(re.search(f"{pattern}", case.name) for pattern, _ in DIFFERENT)
            if not said:
                agreed += 1
            elif said == "refused":
                refused += 1
            elif not is_known:
                wrong.append(f"{case.name}: {said}")
    return agreed, refused, wrong


def check_network(rlxc, case):
    name = case.parent.name
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.onnx"
        subprocess.run([rlxc, "convert", NETWORKS / f"{name}.tflite", path], check=True, capture_output=True)
        model = session(path)
        (found,) = model.run(None, {model.get_inputs()[0].name: np.load(case / "input_0.npy")})
    return difference(found, np.load(case / "output_0.npy"))


def main():
    rlxc, program, *files = (os.path.abspath(path) for path in sys.argv[1:])
    total, taken = 0, 0
    for file in files:
        agreed, refused, wrong = check_file(program, file)
        total += agreed
        taken += agreed + refused + len(wrong)
        name = pathlib.Path(file).name
        tap.result(not wrong, f"{name}: {agreed} agree, {refused} refused", "\n".join(wrong))
    tap.result(total > LEAST * taken, f"{total} of {taken} cases agree")
    cases = sorted((NETWORKS / "cases").glob("*/case_*"))
    for case in cases:
        wrong = check_network(rlxc, case)
        tap.result(wrong is None, f"{case.parent.name} {case.name}", wrong)
    if not cases:
        tap.result(True, "networks of MLPerf Tiny", skipped=f"there are none in {NETWORKS}")
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
