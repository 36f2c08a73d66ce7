#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loops on CUDA, on the driver of fake_cuda.c: a run is one launch of a graph, in which the device goes
around, and where the driver cannot do that, the host does, with the same results.
Usage: check_loops.py RLXC LIBRARY

LIBRARY: the fake libcuda.so.1. Exit 77: there is no NVRTC here."""

import os
import re
import subprocess
import sys
import tempfile

import on_fake_cuda as fake

RLXC, LIBRARY = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
RUNTIME = os.path.join(fake.HERE, "../runtime")
RUNS = 16  # of around_test.c, without the one with times of kernels
GRAPH, WHILE = "3", "6"  # in the log


# The kinds of all commands that a run of the program makes.
def log_of(folder, library, **more):
    more = {**fake.environment(library, folder), "FAKE_CUDA_LOG": "1", "FAKE_CUDA_STRICT": "1", **more}
    done = subprocess.run(["./p"], cwd=folder, env={**fake.PLAIN, **more}, stderr=subprocess.PIPE, text=True,
                          timeout=fake.TIME_LIMIT, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr[-3000:])
    return re.findall(r"^fake_cuda: (\d+) ", done.stderr, re.M)


# A driver that lacks a function.
def without(name, folder):
    with open(LIBRARY, "rb") as f:
        library = f.read()
    where = os.path.join(folder, "lacks_" + name)
    os.makedirs(where)
    with open(os.path.join(where, "libcuda.so.1"), "wb") as f:
        f.write(library.replace(name.encode() + b"\0", b"x" * len(name) + b"\0"))
    return os.path.join(where, "libcuda.so.1")


def expect(ok, what, log):
    print(("ok: " if ok else "FAILED: ") + what)
    if not ok:
        sys.exit(f"graphs {log.count(GRAPH)}, loops {log.count(WHILE)}")


def check(folder):
    cuda = ["--target", "cuda", "--gpu", "sm_90a"]
    fake.compile_model(RLXC, f"{RUNTIME}/around.json", "around", folder, *cuda, "--profile")
    fake.build_kernels(LIBRARY, "around", folder)
    command = ["cc", "-std=gnu99", "-DIS_NATIVE=0", "-DRLX_CUDA_FILL=255", *fake.SANITIZE, "-I" + folder]
    fake.run([*command, "-I" + RUNTIME, f"{RUNTIME}/around_test.c", "around.c", "-o", "p", "-lm"], folder)
    log = log_of(folder, LIBRARY)
    expect(log.count(GRAPH) == RUNS and log.count(WHILE) >= 2 * RUNS, "each run is one launch", log)
    for name in "cuGraphConditionalHandleCreate", "cuGraphAddNode":
        for library, more in (without(name, folder), {}), (LIBRARY, {"FAKE_CUDA_FAIL": name + ":1"}):
            log = log_of(folder, library, **more)
            expect(log.count(GRAPH) == log.count(WHILE) == 0, f"the host goes around without {name}", log)
    for name, call in ("cuModuleLoadData", 2), ("cuModuleGetFunction", 2):
        log = log_of(folder, LIBRARY, FAKE_CUDA_FAIL=f"{name}:{call}")
        expect(log.count(GRAPH) == log.count(WHILE) == 0, f"{name} fails for the kernels of loops", log)


with tempfile.TemporaryDirectory() as top:
    check(top)
