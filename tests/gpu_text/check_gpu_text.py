#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles what the GPU targets print: check_gpu_text.py PRINT_KERNELS TARGET.

vulkan: glslangValidator to SPIR-V for Vulkan 1.2, then spirv-val. cuda: NVRTC (the wheel in RLXC_VENV) for
sm_80 and sm_90a. metal: clang++ with compiler/metal/metal_stdlib, and
as OpenCL C++, which has address spaces too, because Metal's compiler runs on macOS only. A third of the
kernels each day (rotation.py).
Exit 77: the compiler is missing here.
"""
import ctypes
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../common"))
from rotation import part_of  # noqa: E402

MIN_KERNELS = 60
KERNEL = re.compile(r"RLX_KERNEL_\w+")
CAST = re.compile(r"\((const )?\w+ \*\)")  # to a pointer into no address space


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return None if done.returncode == 0 else done.stdout


def skip(what):
    print(f"SKIPPED: no {what}")
    sys.exit(77)


def make_glsl():
    if not shutil.which("glslangValidator") or not shutil.which("spirv-val"):
        skip("glslangValidator or spirv-val")

    def check(path):
        spv = path + ".spv"
        with open(path, encoding="ascii") as f:
            kernel = KERNEL.search(f.read())[0]
        options = [f"-D{kernel}", "--target-env", "vulkan1.2", "-S", "comp"]
        wrong = run("glslangValidator", *options, "-o", spv, path)
        return wrong or run("spirv-val", "--target-env", "vulkan1.2", spv)

    return check


def make_msl():
    if not shutil.which("clang++"):
        skip("clang++")
    flags = ["-x", "c++", "-std=c++14", "-fsyntax-only", "-Wall", "-Wextra", "-Werror",
             "-Wno-unused-function", "-Wno-unused-variable", "-I", os.path.join(HERE, "../../compiler/metal")]
    spaces = os.path.join(HERE, "../metal/metal_spaces.cl")
    empty = tempfile.TemporaryDirectory()
    with open(os.path.join(empty.name, "metal_stdlib"), "w", encoding="ascii"):
        pass

    def check(path):
        with open(path, encoding="ascii") as f:
            cast = CAST.search(f.read())
        if cast:
            return f"{cast[0]} names no address space"
        also = ["-x", "cl", "-cl-std=clc++", "-fsyntax-only", "-w", "-I", empty.name, "-include", spaces]
        return run("clang++", *flags, path) or run("clang", *also, path)

    return check


def load_nvrtc():
    venv = os.environ.get("RLXC_VENV", "build/venv")
    found = glob.glob(os.path.join(venv, "lib/python3*/site-packages/nvidia/cu13/lib/libnvrtc.so.13"))
    if not found:
        skip("NVRTC: tools/setup installs it")
    # The wheel's library does not say where its builtins are.
    ctypes.CDLL(os.path.join(os.path.dirname(found[0]), "libnvrtc-builtins.so.13.0"), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(found[0])


def make_cuda():
    nvrtc = load_nvrtc()

    def compile_for(path, arch):
        with open(path, "rb") as f:
            text = f.read()
        program = ctypes.c_void_p()
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, path.encode(), 0, None, None)
        options = (ctypes.c_char_p * 2)(f"--gpu-architecture={arch}".encode(), b"--Werror=all-warnings")
        rc = nvrtc.nvrtcCompileProgram(program, 1, options)
        size = ctypes.c_size_t()
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
        said = log.value.decode()
        return f"{arch}: {rc} {said}" if rc != 0 or said.strip() else None

    def check(path):
        is_form = os.path.basename(path).startswith("form_")
        return compile_for(path, "sm_90a") or (None if is_form else compile_for(path, "sm_80"))

    return check


def main(program, target):
    check = {"vulkan": make_glsl, "metal": make_msl, "cuda": make_cuda}[target]()
    with tempfile.TemporaryDirectory() as folder:
        wrong = run(program, target, folder)
        if wrong:
            sys.exit(wrong)
        paths = sorted(glob.glob(os.path.join(folder, "*.txt")))
        failed = 0
        taken = part_of(paths, 3)
        for path in taken:
            wrong = check(path)
            if wrong:
                failed += 1
                print(f"--- {os.path.basename(path)}\n{wrong}")
        # The check itself must be able to fail.
        bad = os.path.join(folder, "bad.txt")
        with open(paths[0], encoding="ascii") as f, open(bad, "w", encoding="ascii") as out:
            out.write(f.read().replace(";", "; undeclared_name;", 40))
        if not check(bad):
            sys.exit(f"{target}: a wrong text passed")
    print(f"{target}: {len(taken) - failed} of {len(taken)} kernels compile, of {len(paths)}")
    sys.exit(failed != 0 or len(paths) < MIN_KERNELS)


if __name__ == "__main__":
    main(*sys.argv[1:])
