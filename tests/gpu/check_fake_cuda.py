#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs of tests/runtime with models compiled by --target cuda, on the driver of fake_cuda.c, which
runs the emitted .cu on the CPU. Usage: check_fake_cuda.py RLXC LIBRARY MODEL PROGRAM [OPTION...]

LIBRARY: the fake libcuda.so.1. Exit 77: there is no NVRTC here."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

RLXC, LIBRARY = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
MODEL, PROGRAM, OPTIONS = sys.argv[3], sys.argv[4], sys.argv[5:]
HERE = os.path.dirname(os.path.abspath(__file__))
RUNTIME = os.path.join(HERE, "../runtime")
SEEDS, TIME_LIMIT = 3, 300
KERNEL = re.compile(r'^extern "C" __global__ void (?:__launch_bounds__\(\w+\) )?(\w+)\(.*?^}', re.M | re.S)
BARRIER = re.compile(r"__syncthreads|_sync\(|rlx_swap")
# NVRTC must not find the library.
PLAIN = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def run(command, folder, **environment):
    subprocess.run(command, check=True, cwd=folder, timeout=TIME_LIMIT, env={**PLAIN, **environment})


def compile_model(folder):
    command = [RLXC, "compile", f"{RUNTIME}/{MODEL}.json", "-o", folder, "--name", MODEL, "--target", "cuda"]
    done = subprocess.run([*command, "--gpu", "sm_90a", *OPTIONS], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=TIME_LIMIT, check=False, env=PLAIN)
    if done.returncode != 0 and "no NVRTC" in done.stderr:
        print("SKIPPED: no NVRTC (tools/setup installs it)")
        sys.exit(77)
    if done.returncode != 0:
        sys.exit(done.stderr)


def build_kernels(folder):
    with open(f"{folder}/{MODEL}.cu", encoding="ascii") as f:
        text = f.read()
    calls = [f"CUDA_LAUNCH({k[1]}, {int(BARRIER.search(k[0]) is not None)})" for k in KERNEL.finditer(text)]
    if len(calls) != text.count("__global__ void"):
        sys.exit("some kernels are not understood")
    with open(f"{folder}/kernels.cc", "w", encoding="ascii") as f:
        f.write(f'#include "cuda_shim.h"\n{text}\n' + "\n".join(calls) + "\n")
    compiler = ["c++", "-std=c++17", "-O1", "-w", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing"]
    run([*compiler, "-fsanitize=thread", "-I" + HERE, "-c", "kernels.cc"], folder)
    run(["c++", "-shared", "-o", "kernels.so", "kernels.o", LIBRARY], folder)


def check(folder):
    compile_model(folder)
    build_kernels(folder)
    for compiler in ["cc", "-std=gnu99"], ["c++", "-x", "c++"]:
        if shutil.which(compiler[0]) is None:
            continue
        command = [*compiler, "-g", "-O1", "-DIS_NATIVE=0", *SANITIZE, "-I" + folder, "-I" + RUNTIME]
        run([*command, f"{RUNTIME}/{PROGRAM}.c", f"{MODEL}.c", "-o", "p", "-lm"], folder)
        for seed in range(SEEDS):
            run(["./p"], folder, LD_LIBRARY_PATH=os.path.dirname(LIBRARY), FAKE_CUDA_SEED=str(seed + 1),
                FAKE_CUDA_KERNELS=f"{folder}/kernels.so")


with tempfile.TemporaryDirectory() as top:
    check(top)
