#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Emitted text that reviewers should see change: small models as plain C, with vectors, and for each GPU
target. --update writes it anew. Usage: check_golden.py RLXC PRINT_GPU [--update]"""
import difflib
import os
import subprocess
import sys
import tempfile

RLXC, PRINT_GPU = sys.argv[1:3]
ROOT = os.environ.get("RLXC_SOURCE", ".")


def emitted_c(model, cpu, name):
    with tempfile.TemporaryDirectory() as folder:
        path = f"{ROOT}/models/{model}.json"
        command = [RLXC, "compile", path, "-o", folder, "--name", name, "--cpu", cpu]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with open(f"{folder}/{name}.c", encoding="ascii") as f:
            return f.read()


def readme_is_true():
    """README shows a kernel as it is emitted."""
    with open(f"{ROOT}/README.md", encoding="utf-8") as f:
        shown = f.read().split("```c\n")[1].split("```")[0]
    if shown in emitted_c("digits/digits", "generic", "digits"):
        return True
    print("README shows a kernel of models/digits that is not emitted like that:\n" + shown, file=sys.stderr)
    return False


def gpu_kernels(model, target):
    command = [PRINT_GPU, f"{ROOT}/{model}.json", target]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def differs(golden, text):
    path = f"{ROOT}/tests/golden/{golden}.golden"
    if "--update" in sys.argv:
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
    with open(path, encoding="ascii") as f:
        want = f.read()
    sys.stderr.writelines(difflib.unified_diff(want.splitlines(True), text.splitlines(True), path, "emitted"))
    return text != want


def main():
    checks = [
        ("gelu_example.generic.c", lambda: emitted_c("gelu_example", "generic", "gelu_example")),
        ("mlp.x86-64-v4.c", lambda: emitted_c("mlp", "x86-64-v4", "mlp")),
    ]
    for language, target in (("cuda", "cuda"), ("glsl", "vulkan"), ("msl", "metal")):
        for folder, name in ("models", "gelu_example"), ("tests/golden", "softmax_rows"):
            model = f"{folder}/{name}"
            checks.append((f"{name}.{language}", lambda m=model, t=target: gpu_kernels(m, t)))
    return any([differs(golden, make()) for golden, make in checks]) or not readme_is_true()


sys.exit(main())
