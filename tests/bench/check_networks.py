#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests tools/bench/networks without any peer: what it says about a row, and what it does without a file, a
compiler or a package. Prints TAP."""

import importlib.machinery
import importlib.util
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tools/bench/networks"
sys.path[:0] = [str(ROOT / "tools/bench"), str(ROOT / "tests/common")]
sys.dont_write_bytecode = True

import tap  # noqa: E402

loader = importlib.machinery.SourceFileLoader("networks", str(SCRIPT))
networks = importlib.util.module_from_spec(importlib.util.spec_from_loader("networks", loader))
loader.exec_module(networks)

ROW = {
    "error": 1e-6,
    "arena_bytes": 2000000,
    "peer_bytes": 3000000,
    "kernels": 7,
    "compile_s": {"rlxc": 0.5, "cc": 1.0},
    "ratio": 2.0,
    "ms": {"ours": 1.0, "onnxruntime": 2.0},
}


def test_rows():
    text = networks.describe(ROW)
    assert text.startswith("error 1.0e-06, arena 2.00 MB, peer 3.00 MB, 7 kernels"), text
    assert text.endswith("ratio 2.00 (ours 1.000, onnxruntime 2.000 ms)"), text
    assert networks.describe({**ROW, "error": 0.1}).startswith("DIFFERS: error 1.0e-01")
    assert networks.describe({**ROW, "error": float("nan")}).startswith("DIFFERS")
    assert networks.describe({"failed": "no\nmodel"}) == "FAILED: no model"


def test_sizes():
    assert networks.arguments(["--size", "batch=2", "m.onnx"]).sizes == {"batch": 2}


def test_missing_packages():
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-S", "-E", SCRIPT, "m.onnx"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=folder)
    assert done.returncode == 2, done.stderr
    assert "has no numpy and no onnxruntime: install them" in done.stderr, done.stderr


if __name__ == "__main__":
    sys.exit(tap.run_tests(globals()))
