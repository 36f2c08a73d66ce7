#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What kernels of thread groups take of a GPU: compiled by NVRTC, which needs none, they spill no registers,
keep nothing in local memory (arrays that should be registers would be there), and leave room for others.

  check_resources.py RLXC      77: there is no NVRTC here
"""

import ctypes
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

RLXC = sys.argv[1]
ARCHITECTURES = "sm_80", "sm_90a"
LOG = re.compile(
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads\s.*?Used (\d+) reg", re.S
)


def tensor(dtype, *shape):
    return {"dtype": dtype, "shape": list(shape)}


def model(inputs, *nodes):
    """Nodes: (op, inputs, attributes); the result of node i is ti."""
    made = [{"name": f"t{i}", "op": op, "inputs": list(of)} | more for i, (op, of, more) in enumerate(nodes)]
    return {"rlxc": 1, "name": "m", "inputs": inputs, "nodes": made, "outputs": [made[-1]["name"]]}


ROW = {"axis": 1}


def models():
    """Name, the most registers, the model."""
    for t in "bf16", "f16", "f32":
        x, w = tensor(t, 32768, 4096), tensor(t, 4096)
        yield f"softmax {t}", 64, model({"x": x}, ("softmax", "x", ROW))
        yield f"rms_norm {t}", 64, model({"x": x, "w": w}, ("rms_norm", "xw", ROW))
        yield f"layer_norm {t}", 64, model({"x": x, "w": w, "b": w}, ("layer_norm", "xwb", ROW))
        sum_of = ("add", "xz", {}), ("rms_norm", ["t0", "w"], ROW)
        yield f"add, rms_norm {t}", 64, model({"x": x, "z": x, "w": w}, *sum_of)
        yield f"silu, mul {t}", 64, model({"x": x, "z": x}, ("silu", "x", {}), ("mul", ["t0", "z"], {}))
        heads, angle = tensor(t, 32, 8192, 128), tensor(t, 8192, 64)
        for turns in False, True:
            pairs = ("rope", "xcs", {"interleaved": turns})
            yield f"rope {t} {turns}", 64, model({"x": heads, "c": angle, "s": angle}, pairs)
        pools = {"kernel": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
        yield f"max_pool {t}", 64, model({"x": tensor(t, 4, 64, 112, 112)}, ("max_pool", "x", pools))
        yield f"transpose {t}", 64, model({"x": x}, ("transpose", "x", {}))
        image, pixels = tensor(t, 32, 3, 224, 224), tensor(t, 32, 1280, 7, 7)
        channels_last = {"perm": [0, 2, 3, 1]}
        yield f"few channels {t}", 64, model({"x": image}, ("transpose", "x", channels_last))
        image = tensor(t, 32, 15, 64, 64)
        yield f"15 channels {t}", 64, model({"x": image}, ("transpose", "x", channels_last))
        factors = {"x": pixels, "s": tensor(t, 32, 1280, 1, 1)}
        yield f"mul by channels {t}", 64, model(factors, ("mul", "xs", {}))
        row_above = {"pads": [0, 0, 1, 0, 0, 0, 0, 0], "mode": "constant"}
        padded = {"x": tensor(t, 32, 8, 3136, 19), "z": tensor(t, 32, 8, 3137, 19)}
        yield f"pad, add {t}", 64, model(padded, ("pad", "x", row_above), ("add", ["t0", "z"], {}))
        table = {"x": tensor(t, 50272, 768), "i": tensor("i64", 32, 128)}
        yield f"gather {t}", 64, model(table, ("gather", "xi", {}))
    sums = ("reduce_sum", "x", {"axes": [1]})
    yield "reduce_sum of long rows", 64, model({"x": tensor("f32", 9, 1 << 20)}, sums)
    yield "rms_norm of short rows", 64, model(
        {"x": tensor("bf16", 100003, 64), "w": tensor("bf16", 64)}, ("rms_norm", "xw", ROW)
    )


def load_nvrtc():
    venv = os.environ.get("RLXC_VENV", "build/venv")
    found = glob.glob(os.path.join(venv, "lib/python3*/site-packages/nvidia/cu13/lib/libnvrtc.so.13"))
    if not found:
        print("SKIPPED: no NVRTC (tools/setup installs it)")
        sys.exit(77)
    # The wheel's library does not say where its builtins are.
    ctypes.CDLL(os.path.join(os.path.dirname(found[0]), "libnvrtc-builtins.so.13.0"), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(found[0])


def compile_text(nvrtc, text, architecture):
    """What the assembler says of each kernel."""
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, b"m.cu", 0, None, None)
    options = (ctypes.c_char_p * 2)(f"--gpu-architecture={architecture}".encode(), b"--ptxas-options=-v")
    status = nvrtc.nvrtcCompileProgram(program, 2, options)
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    if status != 0:
        sys.exit(log.value.decode())
    return [[int(n) for n in found] for found in LOG.findall(log.value.decode())]


GROUP_SHARED = 101376  # bytes that a group of an RTX 4090 can have
BYTES = {"u32": 4, "i32": 4, "f32": 4}
KERNEL = re.compile(r"__global__ void \S+ (k\d+_\w+)\(")
ARRAY = re.compile(r"__shared__ rlx_(\w+) \w+\[(\d+)\]")


def shared_bytes(text, table):
    """Bytes of each kernel: arrays, and what the table says that a launch has beside them."""
    found = list(KERNEL.finditer(text))
    for n, kernel in enumerate(found):
        body = text[kernel.end() : found[n + 1].start() if n + 1 < len(found) else None]
        launch = re.search(r"\{([^{}]*)\}, // " + kernel[1] + r"\b", table)
        raw = int(launch[1].split(",")[6].strip().rstrip("u"))
        yield kernel[1], sum(int(size) * BYTES[t] for t, size in ARRAY.findall(body)) + raw


def check_shared(folder):
    """Products of one row that stand beside each other, of which one takes most of the memory of a group."""
    weights = {"w": tensor("u8", 1024, 4, 144), "v": tensor("u8", 256, 32, 22)}
    nodes = [
        {"name": name, "op": "block_matmul", "inputs": ["x", of], "format": kind}
        for name, of, kind in (("a", "w", "q4_k"), ("b", "v", "q5_0"))
    ]
    graph = {"rlxc": 1, "name": "m", "inputs": {"x": tensor("f32", 1, 1024)}, "params": weights}
    with open(f"{folder}/m.json", "w", encoding="ascii") as f:
        json.dump(graph | {"nodes": nodes, "outputs": ["a", "b"]}, f)
    command = [RLXC, "compile", f"{folder}/m.json", "-o", folder, "--name", "m", "--target", "cuda"]
    subprocess.run([*command, "--gpu", "sm_89"], check=True, stdout=subprocess.DEVNULL)
    with open(f"{folder}/m.cu", encoding="ascii") as text, open(f"{folder}/m.c", encoding="ascii") as table:
        found = list(shared_bytes(text.read(), table.read()))
    wrong = [f"{name}: {n} bytes of shared memory" for name, n in found if n > GROUP_SHARED]
    if wrong or max((n for _, n in found), default=0) < GROUP_SHARED // 2:
        print(wrong or f"no kernel takes most of the memory: {found}")
    return len(wrong) + (not found)


def main():
    nvrtc = load_nvrtc()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, most, graph in models():
            with open(f"{folder}/m.json", "w", encoding="ascii") as f:
                json.dump(graph, f)
            command = [RLXC, "compile", f"{folder}/m.json", "-o", folder, "--name", "m", "--target", "cuda"]
            subprocess.run([*command, "--gpu", "text"], check=True, stdout=subprocess.DEVNULL)
            with open(f"{folder}/m.cu", "rb") as f:
                text = f.read()
            for architecture in ARCHITECTURES:
                kernels = compile_text(nvrtc, text, architecture)
                is_right = b"__launch_bounds__" in text and len(kernels) == text.count(b"__global__ void")
                for stack, stores, loads, registers in kernels:
                    is_right = is_right and stack + stores + loads == 0 and registers <= most
                failed += not is_right
                if not is_right:
                    print(f"{name}, {architecture}: [stack, spill stores, spill loads, registers] {kernels}")
        failed += check_shared(folder)
        # The check itself must be able to fail.
        bad = b"""extern "C" __global__ void k(float *x, float *y, int i)
        {
            float v[64];
            for (int j = 0; j < 64; j++)
                v[j * i & 63] = x[j];
            y[i] = v[y[0] > 1];
        }"""
        if sum(compile_text(nvrtc, bad, "sm_80")[0][:3]) == 0:
            sys.exit("an array that is no register passed")
    sys.exit(failed != 0)


main()
