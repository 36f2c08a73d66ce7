#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests that the harnesses of the benchmarks on GPUs compile and link with what rlxc emits: they use the
runtime's inner functions, and no GPU is there to run them. Prints TAP. Usage: check_gpu_harness.py RLXC"""

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BENCH = ROOT / "tools/bench/gpu"
sys.path.insert(0, str(ROOT / "tests/common"))

import tap  # noqa: E402

RLXC = pathlib.Path(sys.argv[1]).resolve()


def check(folder, *command):
    done = subprocess.run([str(c) for c in command], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def link(target, harness, *options):
    """What a benchmark does before it loads a model; the names that the library defines."""
    with tempfile.TemporaryDirectory() as folder:
        model = ROOT / "models/mlp.json"
        words = ["--name", "m", "--api=full", "--target", target, *options]
        check(folder, RLXC, "compile", model, "-o", ".", *words)
        command = ["cc", "-O0", "-Wall", "-Wno-unused-function", "-Werror", "-shared", "-fPIC", "-Wl,-z,defs"]
        check(folder, *command, "-include", "m.c", BENCH / harness, "-o", "m.so", "-lm", "-ldl")
        return set(check(folder, "nm", "-D", "--defined-only", "m.so").split())


def called():
    """The functions that benchmarks call of a library."""
    return set(re.findall(r"self\.lib\.(bench_\w+)", (BENCH / "ours.py").read_text(encoding="utf-8")))


def test_cuda():
    assert len(called()) > 10
    missing = called() - link("cuda", "harness.c", "--gpu", "text")
    assert not missing, missing


def test_vulkan():
    only_cuda = {"bench_threads", "bench_chain"}
    missing = called() - only_cuda - link("vulkan", "harness_vulkan.c")
    assert not missing, missing


if __name__ == "__main__":
    sys.exit(tap.run_tests(globals()))
