# SPDX-License-Identifier: Apache-2.0
"""What tests do that run programs on the driver of fake_cuda.c: emitted kernels become a library that it
loads. NVRTC is needed to compile models."""

import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../common"))
import emitted  # noqa: E402

TIME_LIMIT = 300
LIMITS = r"(?:(?:__launch_bounds__|RLX_CLUSTER)\([\w, ]+\) )*"
KERNEL = re.compile(r'^extern "C" __global__ void ' + LIMITS + r"(\w+)\(.*?^}", re.M | re.S)
BARRIER = re.compile(r"__syncthreads|_sync\(|rlx_swap\(")
# NVRTC must not find the library.
PLAIN = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
SANITIZE = [emitted.QUICK, *emitted.SANITIZE]


def run(command, folder, **environment):
    subprocess.run(command, check=True, cwd=folder, timeout=TIME_LIMIT, env={**PLAIN, **environment})


def compile_model(rlxc, path, name, folder, *options):
    """Exit 77: there is no NVRTC here."""
    command = [rlxc, "compile", "--api=full", path, "-o", folder, "--name", name, *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=TIME_LIMIT, check=False, env=PLAIN)
    if done.returncode != 0 and "no NVRTC" in done.stderr:
        print("SKIPPED: no NVRTC (tools/setup installs it)")
        sys.exit(77)
    if done.returncode != 0:
        sys.exit(done.stderr)


def build_kernels(library, name, folder):
    """kernels.so of NAME.cu."""
    with open(f"{folder}/{name}.cu", encoding="ascii") as f:
        text = f.read()
    calls = [f"CUDA_LAUNCH({k[1]}, {int(BARRIER.search(k[0]) is not None)})" for k in KERNEL.finditer(text)]
    if len(calls) != text.count("__global__ void"):
        sys.exit("some kernels are not understood")
    with open(f"{folder}/kernels.cc", "w", encoding="ascii") as f:
        f.write(f'#include "cuda_shim.h"\n{text}\n' + "\n".join(calls) + "\n")
    compiler = ["c++", "-std=c++17", "-Og", "-w", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing"]
    run([*compiler, "-fsanitize=thread", "-I" + HERE, "-c", "kernels.cc"], folder)
    run(["c++", "-shared", "-o", "kernels.so", "kernels.o", library], folder)


def environment(library, folder, seed=1):
    return {"LD_LIBRARY_PATH": os.path.dirname(library), "FAKE_CUDA_SEED": str(seed),
            "FAKE_CUDA_KERNELS": f"{folder}/kernels.so", "FAKE_CUDA_DEVICES": "9.0,9.0,7.5"}
