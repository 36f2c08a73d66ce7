#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Emitted text that reviewers should see change: small models as plain C, with vectors, and for each GPU
target. --update writes it anew. Usage: check_golden.py RLXC PRINT_GPU [--update]"""
import difflib
import os
import re
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


def members_are_named():
    """The descriptor says which member each of its values is, in the order of rlx_model."""
    with open(f"{ROOT}/runtime-lite/rlx_types.h", encoding="ascii") as f:
        struct = f.read().split("typedef struct rlx_model {")[1].split("} rlx_model;")[0]
    struct = re.sub(r"^#.*\n", "", re.sub(r"^#else\n.*?^#endif\n", "", struct, flags=re.M | re.S), flags=re.M)
    declared = re.sub(r"//.*", "", struct).replace("(struct rlx_ctx *ctx)", "").split(";")
    want = [re.findall(r"\w+", name)[-1] for group in declared[:-1] for name in group.split(",")]
    text = emitted_c("digits/digits", "generic", "digits").split("const rlx_model digits_model = {\n")[1]
    lines = text.split("};")[0].splitlines()
    found = [line.rpartition(", // ")[2] for line in lines]
    for line in difflib.unified_diff(want, found, "rlx_model", "descriptor", lineterm=""):
        print(line, file=sys.stderr)
    return found == want


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
    right = [not differs(golden, make()) for golden, make in checks]
    return not all(right + [readme_is_true(), members_are_named()])


sys.exit(main())
