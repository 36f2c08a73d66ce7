#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The option --target X,c: a model for a GPU that runs as C where there is none, with the same bits as one
for C alone; and what happens when calls of a driver fail. Usage: check_fallback.py RLXC LIBRARY

LIBRARY: the libcuda of tests. Without NVRTC nothing runs on it."""

import os
import sys
import tempfile

import on_fake_cuda as fake

RLXC, LIBRARY = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
C, CPP = ["cc", "-std=gnu99"], ["c++", "-x", "c++"]
# Calls that find a device, and calls that use it.
FINDING = ("cuInit", "cuDeviceGet", "cuDeviceGetAttribute", "cuModuleLoadData", "cuModuleGetFunction")
USING = ("cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2", "cuStreamCreate", "cuEventCreate",
         "cuMemAlloc_v2")
BESIDE = ("cuMemHostRegister_v2", "cuGraphCreate", "cuGraphAddKernelNode_v2", "cuGraphInstantiateWithFlags")


def build(folder, compiler, target, *options):
    for name, to in (("both", [f"{target},c"]), ("alone", ["c"])):
        more = ["--gpu", "text"] if target == "cuda" and name == "both" and "--gpu" not in options else []
        own = options if name == "both" else [o for o in options if o not in ("--gpu", "sm_90a")]
        path = f"{fake.HERE}/fallback.json"
        fake.compile_model(RLXC, path, name, folder, "--profile", "--target", *to, *more, *own)
    command = [*compiler, *WARNINGS, *fake.SANITIZE, "-I.", f"{fake.HERE}/fallback_test.c"]
    fake.run([*command, "both.c", "alone.c", "-o", "p", "-lm"], folder)


# No image for any GPU is in it, so that even a driver does not help.
def check_without_device(compiler, target, *options):
    with tempfile.TemporaryDirectory() as top:
        build(top, compiler, target, *options)
        files = ["both.weights", "alone.weights"] if "file" in options else []
        fake.run(["./p", "cpu", *files], top)
        fake.run(["./p", "cpu", *files], top, LD_LIBRARY_PATH=os.path.dirname(LIBRARY))


def check_with_device(*options):
    with tempfile.TemporaryDirectory() as top:
        build(top, C, "cuda", "--gpu", "sm_90a", *options)
        fake.build_kernels(LIBRARY, "both", top)
        files = ["both.weights", "alone.weights"] if "file" in options else []
        driver = fake.environment(LIBRARY, top) | {"FAKE_CUDA_STRICT": "1"}
        fake.run(["./p", "device", *files], top, **driver)
        for calls, outcome in (FINDING, "cpu"), (USING, "fails"), (BESIDE, "device"):
            for call in calls:
                fake.run(["./p", outcome, *files], top, **driver, FAKE_CUDA_FAIL=f"{call}:1")


check_without_device(C, "cuda")
check_without_device(CPP, "cuda", "--weights", "file")
check_without_device(CPP, "metal", "--arena", "static")
check_with_device()
check_with_device("--weights", "file")
