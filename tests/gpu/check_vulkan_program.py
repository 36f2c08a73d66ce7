#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program of tests/runtime with its model compiled by --target vulkan, on the device that is there: as C
with a sanitizer, and one of two other ways each day (rotation.py): as C with memory that the host cannot read
fast, or as C++ as if the host did not see the device's memory.
Usage: check_vulkan_program.py RLXC MODEL PROGRAM [OPTION...]

Exit 77: there is no device, or no glslang."""

import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../common"))
from emitted import QUICK  # noqa: E402
from rotation import part_of, say  # noqa: E402

RLXC = os.path.abspath(sys.argv[1])
MODEL, PROGRAM, OPTIONS = sys.argv[2], sys.argv[3], sys.argv[4:]
RUNTIME = os.path.join(HERE, "../runtime")
WARNINGS = "-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror".split()
# Memory that the host sees; that it cannot read fast; that it does not see. buckets_test compares the whole
# state block behind a call that copies to the device: that counts there.
STAGED = [[], ["-DRLX_VULKAN_STAGED=1"], ["-DRLX_VULKAN_STAGED=2"]]
if PROGRAM == "buckets_test":
    STAGED = [[], [], []]
WAYS = [
    ["cc", "-std=gnu99", QUICK, "-fsanitize=undefined", "-fno-sanitize-recover=all"],
    ["cc", "-std=gnu99", "-O1"],
    ["c++", "-x", "c++", QUICK],
]
MISSING = ["without glslang", "no driver, or no device that can run the code"]


def call(command, folder):
    """Status, and what is said."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout + done.stderr


def run(command, folder):
    status, said = call(command, folder)
    if status == 0:
        return
    print(" ".join(command) + "\n" + said)
    is_missing, why = call([RLXC, "verify", f"{RUNTIME}/../../models/mlp.json", "--target", "vulkan"], folder)
    sys.exit(77 if is_missing and any(text in said + why for text in MISSING) else 1)


with tempfile.TemporaryDirectory() as top:
    model = f"{RUNTIME}/{MODEL}.json"
    run([RLXC, "compile", "--api=full", model, "-o", ".", "--name", MODEL, "--target", "vulkan",
         *OPTIONS], top)
    ways = list(zip(WAYS, STAGED))
    say()
    for way, staged in [ways[0], *part_of(ways[1:], 2)]:
        sources = [f"{RUNTIME}/{PROGRAM}.c", f"{MODEL}.c", "-o", "p", "-lm", "-ldl"]
        run([*way, *staged, *WARNINGS, "-DIS_NATIVE=0", "-I.", "-I" + RUNTIME, *sources], top)
        run(["./p"], top)
