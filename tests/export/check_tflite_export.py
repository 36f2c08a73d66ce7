#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Single operators of .tflite (tests/tflite/cases.py), written as ONNX: ONNX Runtime must give the results of
LiteRT that are stored, integers to the bit. Exits with 77 when the wheels are missing.

Usage: check_tflite_export.py RLXC"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path += [str(TESTS / "common"), str(TESTS / "tflite")]
import in_venv  # noqa: E402

try:
    import numpy as np
    import onnxruntime as ort
except ImportError:
    in_venv.enter_or_skip("onnxruntime or numpy")
import cases  # noqa: E402
import check_ops  # noqa: E402
import flatbuffer  # noqa: E402
import tap  # noqa: E402

# Sums of 16-bit operands are f64, for which ONNX Runtime has no convolution, as it has no Where for i16.
NOT_IMPLEMENTED = ("conv", "depthwise", "transpose_conv", "average_pool", "max_pool_valid_i16")
ORT_TYPES = {"tensor(float)": "f4", "tensor(int16)": "i2", "tensor(int8)": "i1"}

ort.set_default_logger_severity(4)


def run(rlxc, case):
    """The results, each with its shape; or the message."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "m.tflite").write_bytes(case.model.encode())
        command = [rlxc, "convert", folder / "m.tflite", folder / "m.onnx"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return done.stderr.strip()
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        try:
            model = ort.InferenceSession(str(folder / "m.onnx"), options, providers=["CPUExecutionProvider"])
            given = {
                feed: np.frombuffer(flatbuffer.pack(type_name, values), check_ops.DESCRIPTIONS[type_name])
                for feed, type_name, _, values in case.feeds
            }
            feeds = {  # states begin with zeros
                i.name: given[i.name].reshape(i.shape)
                if i.name in given
                else np.zeros(i.shape, ORT_TYPES[i.type])
                for i in model.get_inputs()
            }
            found = model.run(None, feeds)
        except Exception as error:  # ONNX Runtime has many classes of them
            return str(error)
    return [(list(y.shape), y.ravel().tolist()) for y in found[: len(case.results)]]


def main():
    rlxc = os.path.abspath(sys.argv[1])
    stored = json.loads(check_ops.EXPECTED.read_text())
    for name, tolerance, function in cases.CASES:
        found = run(rlxc, cases.make(name, function))
        if isinstance(found, str) and "NOT_IMPLEMENTED" in found and name.startswith(NOT_IMPLEMENTED):
            tap.result(True, name, skipped="not in ONNX Runtime")
            continue
        wrong = check_ops.difference(found, stored[name], tolerance)
        tap.result(wrong is None, name, wrong)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
