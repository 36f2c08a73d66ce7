#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Modules of --target vulkan --gpu coopmat: of a product of f16 or bf16, and of an attention, there are two,
of which the second one is of SPV_KHR_cooperative_matrix: matrices have the types that products want, factors
of bf16 are that (SPV_KHR_bfloat16), products by elements are what they are, and nothing of the extension that
glslang was given is left. What the device at hand computes is right, whichever module it takes.
Usage: check_coopmat.py RLXC; prints TAP."""

import array
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common"))
import tap
from tap import result

RLXC = os.path.abspath(sys.argv[1])
LEFT, RIGHT, SUM = range(3)
CAPABILITY, FLOAT, CONSTANT, NV = 17, 22, 43, range(5357, 5362)
BF16, BF16_MATRIX = 5116, 5118  # capabilities
TYPE, LOAD, STORE, PRODUCT = range(4456, 4460)
BY_ELEMENTS, QUOTIENT = 133, 136


def model(dtype):
    return {
        "rlxc": 1,
        "name": "m",
        "inputs": {name: {"dtype": dtype, "shape": [64, 64]} for name in "ab"}
        | {name: {"dtype": dtype, "shape": [1, 1, 64, 64]} for name in "qkv"},
        "nodes": [
            {"name": "x", "op": "matmul", "inputs": ["a", "b"], "transpose_b": True},
            {"name": "y", "op": "matmul", "inputs": ["x", "b"]},
            {"name": "z", "op": "attention", "inputs": ["q", "k", "v"]},
        ],
        "outputs": ["y", "z"],
    }


def instructions(words):
    found, at = [], 5
    while at < len(words) and words[at] >> 16:
        found.append([words[at] & 0xFFFF, *words[at + 1 : at + (words[at] >> 16)]])
        at += words[at] >> 16
    return words[3], found


def modules(folder):
    """Name, bound and instructions of every image: from the text, or from a file, where long ones are."""
    with open(f"{folder}/m.c", encoding="utf-8") as f:
        for name, body in re.findall(r"(image_\w+)\[\d*\] = \{([^}]*)\}", f.read()):
            yield name, *instructions([int(word, 16) for word in re.findall(r"0x([0-9a-fA-F]+)u", body)])
    for path in sorted(glob.glob(f"{folder}/m.k*")):
        with open(path, "rb") as f:
            yield os.path.basename(path), *instructions(array.array("I", f.read()))


def uses_of(code):
    """{type: use} of matrices, and {id: type} of all that has one."""
    numbers = {i[2]: i[3] for i in code if i[0] == CONSTANT and len(i) == 4}
    uses = {i[1]: numbers[i[6]] for i in code if i[0] == TYPE}
    return uses, {i[2]: i[1] for i in code if len(i) > 2 and i[1] in uses}


def check_factors(name, dtype, code):
    of_bf16 = {i[1] for i in code if i[0] == FLOAT and len(i) == 4}
    factors = {i[2] for i in code if i[0] == TYPE} & {i[1] for i in code if i[0] == FLOAT and i[2] == 16}
    has = [c in [i[1] for i in code if i[0] == CAPABILITY] for c in (BF16, BF16_MATRIX)]
    is_right = factors == of_bf16 if dtype == "bf16" else not of_bf16
    result(is_right, f"{name}: factors of {dtype}", str(factors))
    result(has == [dtype == "bf16"] * 2, f"{name}: capabilities of {dtype}", str(has))


def check(name, bound, code):
    opcodes = {i[0] for i in code}
    result(not opcodes & set(NV) and [CAPABILITY, 5357] not in code, f"{name}: nothing of NV")
    result([CAPABILITY, 6022] in code and {TYPE, LOAD, STORE, PRODUCT} <= opcodes, f"{name}: all of KHR")
    uses, types = uses_of(code)
    result(sorted(uses.values()) == [LEFT, RIGHT, SUM], f"{name}: three types", str(uses))
    wanted = [SUM, LEFT, RIGHT, SUM]
    products = [[uses.get(types.get(v)) for v in i[2:6]] for i in code if i[0] == PRODUCT]
    result(all(p == wanted for p in products), f"{name}: operands of products", str(products))
    result(max(*uses, *types) < bound, f"{name}: ids")
    of_elements = {i[0] for i in code if i[0] in (BY_ELEMENTS, QUOTIENT) and i[1] in uses}
    is_right = of_elements == {BY_ELEMENTS} if "attention" in name else not of_elements
    result(is_right, f"{name}: products by elements", str(of_elements))


def run(folder, dtype):
    with open(f"{folder}/m.json", "w", encoding="ascii") as f:
        json.dump(model(dtype), f)

    def rlxc(*args):
        command = [RLXC, *args, "--target", "vulkan", "--gpu", "coopmat"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
        return done.returncode, done.stdout + done.stderr

    status, said = rlxc("compile", "m.json", "-o", ".", "--name", "m")
    if "without glslang" in said:
        print("1..0 # SKIP rlxc was built without glslang (tools/setup installs it)")
        sys.exit(77)
    result(status == 0, f"{dtype}: compiled", said)
    images = list(modules(folder))
    result(len(images) == 6, f"{dtype}: two modules for each of three kernels", str([i[0] for i in images]))
    for name, bound, code in [image for image in images if image[0].endswith("_coop")]:
        check(f"{dtype} {name}", bound, code)
        check_factors(f"{dtype} {name}", dtype, code)
    status, said = rlxc("verify", "m.json")
    has_device = "no driver, or no device" not in said
    result(status == 0 or not has_device, f"{dtype}: right", said, "" if has_device else "no Vulkan device")


for of in ("f16", "bf16"):
    with tempfile.TemporaryDirectory() as made:
        run(made, of)
sys.exit(tap.end())
