#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs of tests/runtime with models compiled by --target cuda, on the driver of fake_cuda.c, which
runs the emitted .cu on the CPU, as C or, every other day, as C++.
Usage: check_fake_cuda.py RLXC LIBRARY MODEL PROGRAM [OPTION...]

LIBRARY: the fake libcuda.so.1. Exit 77: there is no NVRTC here."""

import os
import shutil
import sys
import tempfile

import on_fake_cuda as fake
from rotation import is_taken  # on_fake_cuda has added its folder

RLXC, LIBRARY = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
MODEL, PROGRAM, OPTIONS = sys.argv[3], sys.argv[4], sys.argv[5:]
RUNTIME = os.path.join(fake.HERE, "../runtime")
SEEDS = 3


def check(folder):
    cuda = ["--target", "cuda", "--gpu", "sm_90a"]
    fake.compile_model(RLXC, f"{RUNTIME}/{MODEL}.json", MODEL, folder, *cuda, *OPTIONS)
    fake.build_kernels(LIBRARY, MODEL, folder)
    for i, compiler in enumerate((["cc", "-std=gnu99"], ["c++", "-x", "c++"])):
        if shutil.which(compiler[0]) is None or not is_taken(len(MODEL) + i, 2):
            continue
        define = ["-DIS_NATIVE=0", "-DRLX_CUDA_FILL=255"]
        command = [*compiler, *define, *fake.SANITIZE, "-I" + folder, "-I" + RUNTIME]
        fake.run([*command, f"{RUNTIME}/{PROGRAM}.c", f"{MODEL}.c", "-o", "p", "-lm"], folder)
        for seed in range(SEEDS):
            fake.run(["./p"], folder, **fake.environment(LIBRARY, folder, seed + 1))


with tempfile.TemporaryDirectory() as top:
    check(top)
