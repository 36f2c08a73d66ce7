#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kernels that must reach a chip's speed use its registers only: what the assembler says of their cubins must
have no spills, and no remark that matrix instructions wait for each other (C75xx) or that registers are not
moved. Without a GPU. Usage: check_products.py RLXC; prints TAP."""
import ctypes
import glob
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

RLXC = sys.argv[1]
PLACES = [f"{os.environ.get('RLXC_VENV', 'build/venv')}/lib/python3*/site-packages/nvidia/cu13/lib"]
# Rows, columns, k, b as [n, k], type, epilogue.
PRODUCTS = [
    (4096, 4096, 4096, True, "bf16", False),
    (4096, 4096, 4096, False, "f16", True),
    (1024, 6144, 4096, True, "bf16", True),
    (512, 4096, 4096, True, "bf16", False),
    (256, 4096, 14336, False, "bf16", True),
    (256, 4096, 4096, True, "bf16", True),
    (256, 6144, 4096, True, "f16", False),
    (64, 6144, 4096, True, "f16", True),
    (16, 4096, 4096, True, "bf16", False),
]
# Products of many rows with quantised blocks: rows, columns, k, format, elements and bytes of a block, type.
BLOCKS = [
    (512, 14336, 4096, "q4_k", 256, 144, "bf16"),
    (64, 14336, 4096, "q8_0", 32, 34, "f16"),
    (100, 1000, 4096, "q6_k", 256, 210, "f16"),
    (2048, 4096, 4096, "iq4_nl", 32, 18, "bf16"),
]

# Rows, columns, k of bytes, with what makes bytes of the sums again.
BYTES = [(16384, 512, 512), (50184, 576, 192), (64, 128, 2048)]

# Rows, columns, k of 8-bit floats with scales, and --accuracy: units of 8-bit floats, or of f16.
EIGHTHS = [(4096, 4096, 4096, 1e-3), (64, 6144, 4096, 1e-3), (4096, 4096, 4096, 1e-5), (300, 608, 4096, 1e-3)]

# Rows, columns, k of two products of the same rows, of which one kernel makes silu of one times the other.
GATED = [(16, 8192, 2048), (512, 8192, 2048)]


def load_nvrtc():
    library = os.environ.get("RLXC_NVRTC")
    found = [library] if library else [f for p in PLACES for f in glob.glob(f"{p}/libnvrtc.so.13")]
    if not found:
        return None
    for builtins in glob.glob(f"{pathlib.Path(found[0]).parent}/libnvrtc-builtins.so.13*"):
        ctypes.CDLL(builtins, ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(found[0])


def graph_of(m, n, k, transpose_b, dtype, has_epilogue):
    params = {"a": [m, k], "b": [n, k] if transpose_b else [k, n]}
    nodes = [{"name": "c", "op": "matmul", "inputs": ["a", "b"], "transpose_b": transpose_b}]
    last = "c"
    if has_epilogue:
        params |= {"bias": [n], "more": [m, n]}
        nodes += [{"name": "d", "op": "add", "inputs": ["c", "bias"]}]
        nodes += [{"name": "e", "op": "silu", "inputs": ["d"]}]
        nodes += [{"name": "f", "op": "add", "inputs": ["e", "more"]}]
        last = "f"
    params = {name: {"dtype": dtype, "shape": shape} for name, shape in params.items()}
    return {"rlxc": 1, "name": "m", "params": params, "nodes": nodes, "outputs": [last]}


def blocks_graph_of(m, n, k, name, elements, size, dtype):
    params = {"x": {"dtype": dtype, "shape": [m, k]}, "w": {"dtype": "u8", "shape": [n, k // elements, size]}}
    nodes = [{"name": "c", "op": "block_matmul", "inputs": ["x", "w"], "format": name}]
    return {"rlxc": 1, "name": "m", "params": params, "nodes": nodes, "outputs": ["c"]}


def bytes_graph_of(m, n, k):
    w = {"dtype": "i8", "shape": [n, k, 1], "data": [i * 37 % 251 - 125 for i in range(n * k)]}
    nodes = [{"name": "c", "op": "int_conv", "inputs": ["x", "w"]}]
    nodes += [{"name": "f", "op": "cast", "inputs": ["c"], "to": "f32"}]
    nodes += [{"name": "s", "op": "mul", "inputs": ["f", 0.001]}]
    nodes += [{"name": "r", "op": "round", "inputs": ["s"]}]
    nodes += [{"name": "y", "op": "cast", "inputs": ["r"], "to": "i8"}]
    params = {"x": {"dtype": "i8", "shape": [m, k, 1]}}
    graph = {"rlxc": 1, "name": "m", "params": params, "nodes": nodes, "outputs": ["y"]}
    return {**graph, "weights": {"w": w}}


def gated_graph_of(m, n, k):
    shapes = {"a": [m, k], "gate": [n, k], "up": [n, k]}
    params = {name: {"dtype": "bf16", "shape": shape} for name, shape in shapes.items()}
    nodes = [{"name": "x", "op": "relu", "inputs": ["a"]}]
    nodes += [{"name": "g", "op": "matmul", "inputs": ["x", "gate"], "transpose_b": True}]
    nodes += [{"name": "s", "op": "silu", "inputs": ["g"]}]
    nodes += [{"name": "u", "op": "matmul", "inputs": ["x", "up"], "transpose_b": True}]
    nodes += [{"name": "y", "op": "mul", "inputs": ["s", "u"]}]
    return {"rlxc": 1, "name": "m", "params": params, "nodes": nodes, "outputs": ["y"]}


def eighths_graph_of(m, n, k, _accuracy):
    nodes = []
    for name, scale in (("a", "rows"), ("b", "columns")):
        nodes += [{"name": f"{name}0", "op": "cast", "inputs": [name], "to": "f32"}]
        nodes += [{"name": f"{name}1", "op": "mul", "inputs": [f"{name}0", scale]}]
    nodes += [{"name": "c", "op": "matmul", "inputs": ["a1", "b1"], "transpose_b": True}]
    nodes += [{"name": "y", "op": "cast", "inputs": ["c"], "to": "bf16"}]
    params = {"a": {"dtype": "f8e4m3fn", "shape": [m, k]}, "b": {"dtype": "f8e4m3fn", "shape": [n, k]}}
    params |= {"rows": {"dtype": "f32", "shape": [m, 1]}, "columns": {"dtype": "f32", "shape": [n, 1]}}
    return {"rlxc": 1, "name": "m", "params": params, "nodes": nodes, "outputs": ["y"]}


def check_single_blocks():
    """Results leave through two blocks of shared memory in turn. Where a tile has an odd number of them, the
    next tile of the group begins with the block that is on its way still, and has to wait for it."""
    for n, waits in ((64, True), (128, False)):
        text = text_of(graph_of(100352, n, 128, True, "bf16", False))
        says = "waits" if waits else "goes on"
        yield ("rlx_bulk_wait_read<0>()" in text) == waits, f"100352x{n}x128 {says}"


def text_of(graph, accuracy=1e-5):
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "m.json").write_text(json.dumps(graph), encoding="utf-8")
        command = [os.path.abspath(RLXC), "compile", "m.json", "-o", ".", "--name", "m"]
        command += ["--target", "cuda", "--gpu", "text", "--accuracy", str(accuracy)]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        return pathlib.Path(folder, "m.cu").read_text(encoding="utf-8")


def log_of(nvrtc, text, arch):
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    options = [f"--gpu-architecture={arch}".encode(), b"--ptxas-options=-v"]
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"m.cu", 0, None, None)
    code = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value + 1)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return code, log.value.decode()


def wrong_in(code, log):
    if code != 0:
        return log
    spills = [int(n) for n in re.findall(r"(\d+) bytes spill", log)]
    if not spills or any(spills):
        return "registers are spilled" if spills else "nothing is said of spills"
    remarks = re.findall(r".*(?:C75\d\d|setmaxnreg).*", log)
    return remarks[0] if remarks else ""


def main():
    nvrtc = load_nvrtc()
    if nvrtc is None:
        print("1..0 # SKIP no NVRTC (tools/setup installs it)")
        return 77
    failed = 0
    blocks = list(check_single_blocks())
    graphs = [(case, graph_of(*case)) for case in PRODUCTS]
    graphs += [(case, blocks_graph_of(*case)) for case in BLOCKS]
    graphs += [(case, bytes_graph_of(*case)) for case in BYTES]
    graphs += [(case, eighths_graph_of(*case)) for case in EIGHTHS]
    graphs += [(case, gated_graph_of(*case)) for case in GATED]
    print(f"1..{len(graphs) + len(blocks)}")
    for i, (case, graph) in enumerate(graphs):
        text = text_of(graph, case[3] if case in EIGHTHS else 1e-5)
        wrong = wrong_in(*log_of(nvrtc, text, "sm_90a"))
        if case in BLOCKS + BYTES + EIGHTHS and "rlx_wgmma_n" not in text:
            wrong = "does not use matrix units"
        if case in GATED and len(re.findall(r"__global__ .*\bk\d+_\w*matmul", text)) != 1:
            wrong = "is not one kernel"
        if case in EIGHTHS and ("_e4m3_e4m3_" in text) != (case[3] >= 1e-3):
            wrong = "does not use the units that the accuracy allows"
        failed += wrong != ""
        print(f"{'not ' if wrong else ''}ok {i + 1} - product {case}{': ' + wrong if wrong else ''}")
    for i, (is_right, what) in enumerate(blocks):
        failed += not is_right
        print(f"{'' if is_right else 'not '}ok {len(graphs) + i + 1} - {what}")
    return failed != 0


sys.exit(main())
