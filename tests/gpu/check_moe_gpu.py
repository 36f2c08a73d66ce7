#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The model of tests/runtime/moe_model.py on a GPU target: with all experts on the device and with slots for
three, for one size, for sizes that are set between runs and in buckets, by the program of the C target
(moe_test.c), one of two ways each day (rotation.py).
Usage: check_moe_gpu.py RLXC cuda LIBRARY | vulkan | metal

LIBRARY: the fake libcuda.so.1; Metal is executed on the CPU. Exit 77: there is no NVRTC, no Vulkan device."""

import glob
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, f"{HERE}/../runtime", f"{HERE}/../common"]

import moe_model  # noqa: E402
import moe_rows_model  # noqa: E402
import on_fake_cuda as fake  # noqa: E402
from emitted import QUICK  # noqa: E402
from rotation import part_of, say  # noqa: E402

RLXC, TARGET = os.path.abspath(sys.argv[1]), sys.argv[2]
LIBRARY = os.path.abspath(sys.argv[3]) if TARGET == "cuda" else ""
SIZES = (8, 12)  # width, hidden width
WARNINGS = "-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror".split()
C, CPP = ["cc", "-std=gnu99"], ["c++", "-x", "c++"]
SLOTS, OPEN, BUCKETS = ["--moe-resident", "3"], ["--dynamic"], ["--bucket", "rows=1,4,6"]
CASES = {"cuda": (([], C), ([*BUCKETS, *SLOTS], CPP)), "vulkan": ((BUCKETS, C), ([*OPEN, *SLOTS], CPP)),
         "metal": ((SLOTS, C), (OPEN, CPP))}
MISSING = ["without glslang", "no NVRTC", "no driver, or no device that can run the code"]


def run(command, folder, **environment):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False,
                          env={**fake.PLAIN, **environment})
    if done.returncode != 0:
        said = done.stdout + done.stderr
        print(" ".join(command) + "\n" + said)
        sys.exit(77 if any(text in said for text in MISSING) else 1)


def build(folder, target, options, compiler, flags, program="moe_test"):
    has_rows = program == "moe_rows_test"
    with open(f"{folder}/moe.json", "w", encoding="ascii") as f:
        json.dump(moe_rows_model.model() if has_rows else moe_model.model(*SIZES), f)
    if has_rows:
        with open(f"{folder}/rows.h", "w", encoding="ascii") as f:
            f.write(moe_rows_model.expected())
    sets = [] if has_rows else ["--output-set", "first=y"]
    run([RLXC, "compile", "--api=full", "moe.json", "-o", ".", "--name", "moe", *sets, "--target", target,
         *options],
        folder)
    own = [f"-DWIDTH={SIZES[0]}", f"-DHIDDEN={SIZES[1]}", "-I.", f"-I{HERE}/../runtime"]
    sources = [f"{HERE}/../runtime/{program}.c", "moe.c", "-o", "p", "-lm"]
    run([*compiler, *WARNINGS, *flags, *own, *sources], folder)


def check(folder, options, compiler, metal, program="moe_test"):
    flags = {"cuda": fake.SANITIZE, "metal": [QUICK, f'-DRLX_METAL_LIBRARY="{metal}"'],
             "vulkan": [QUICK] if compiler is C else [QUICK, "-DRLX_VULKAN_STAGED=2"]}
    gpu = ["--gpu", "sm_90a"] if TARGET == "cuda" else []
    build(folder, TARGET, [*gpu, *options], compiler, flags[TARGET], program)
    if TARGET == "cuda":
        fake.build_kernels(LIBRARY, "moe", folder)
        run(["./p"], folder, **fake.environment(LIBRARY, folder))
    else:
        run(["./p"], folder, RLX_METAL_CPU="check,leaks")


with tempfile.TemporaryDirectory() as top:
    if TARGET == "metal":
        os.environ["XDG_CACHE_HOME"] = fake.PLAIN["XDG_CACHE_HOME"] = top
    if TARGET != "cuda":
        run([RLXC, "verify", f"{HERE}/../../models/mlp.json", "--target", TARGET], top)
    shim = [d[:-1] + ".so" for d in glob.glob(f"{top}/rlxc/metal-*/")]
    for each in part_of(CASES[TARGET], 2):
        with tempfile.TemporaryDirectory() as own_folder:
            check(own_folder, *each, shim[0] if shim else "")
    say()
    for each in [([], C), *part_of([(SLOTS, CPP), ([*OPEN, *SLOTS], C)], 2)]:
        with tempfile.TemporaryDirectory() as own_folder:
            check(own_folder, *each, shim[0] if shim else "", "moe_rows_test")
    if TARGET == "cuda":  # no device: the experts of the other side
        for each in part_of([[], SLOTS], 2):
            with tempfile.TemporaryDirectory() as own_folder:
                build(own_folder, "cuda,c", ["--gpu", "text", *each], C, [])
                run(["./p"], own_folder)
            with tempfile.TemporaryDirectory() as own_folder:
                build(own_folder, "cuda,c", ["--gpu", "text", *each], C, [], "moe_rows_test")
                run(["./p"], own_folder)
