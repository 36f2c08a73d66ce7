#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# An elementwise op is one row of one file: copies the sources, adds one row to ir/graph/ops_elementwise.def,
# builds that and runs a graph with the new op, constant folding, fusion and vector code included. A row of a
# structural op that lacks a column does not compile. Usage: check_onerow.py BUILD CC
import array
import concurrent.futures
import functools
import glob
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

ROW = 'EW(cube, 1, ARITH, 2, 0, a * a * a, (I)((uint64_t)a * (uint64_t)a * (uint64_t)a), "(mul a (mul a a))")'
TEXTS = ("/compiler/metal/", "/compiler/board/run.c", "/compiler/board/count.c")  # rlxc carries them
build, cc = os.path.abspath(sys.argv[1]), sys.argv[2].split()
root = os.environ.get("RLXC_SOURCE", ".")


@functools.cache
def tcc_library():
    """What tcc's objects call: [its path], or [] where tcc is not installed."""
    if not shutil.which("tcc"):
        return []
    said = subprocess.run(["tcc", "-print-search-dirs"], capture_output=True, text=True, check=True).stdout
    return [line.strip() for line in said.split("\n") if line.endswith("libtcc1.a")]


def compile_one(job):
    """By tcc, which takes a tenth of the time; what it does not know (some builtins) and all else by cc."""
    source, target, flags = job
    command = [*flags, "-c", source, "-o", target]
    quick = ["tcc", "-Wimplicit-function-declaration", "-Werror", *command]
    if not tcc_library() or subprocess.run(quick, stderr=subprocess.DEVNULL, check=False).returncode != 0:
        subprocess.run([*cc, "-w", *command], check=True)
    return target


def check_columns(tree):
    """A structural op without a column, or with a word that does not exist, is an error that names it."""
    check = [*cc, "-std=gnu11", "-fsyntax-only", "-I" + tree]
    for folder in ("base", "ir", "passes"):
        shutil.copytree(os.path.join(root, folder), os.path.join(tree, folder))
    table = os.path.join(tree, "ir", "graph", "ops_compute.def")
    with open(table) as f:
        text = f.read()
    spoiled = []
    for macro, op in (("OP", "det"), ("NO_KERNEL", "cast")):
        row = next(line for line in text.splitlines() if line.startswith(f"{macro}({op},"))
        columns = [column.strip() for column in row[len(macro) + 1:-1].split(",")]
        spoiled += [(row, macro, source, bad) for source, bad in (
            ("ir/graph/tables.c", columns[:-1]),
            ("ir/graph/tables.c", [*columns[:6], "SIDEWAYS", *columns[7:]]),
            ("passes/live/live.c", [*columns[:-2], "nowhere", columns[-1]]),
        )]
    for row, macro, source, bad in spoiled:
        with open(table, "w") as f:
            f.write(text.replace(row, f"{macro}({', '.join(bad)})"))
        command = [*check, os.path.join(tree, source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0 or bad[0] not in done.stderr:
            sys.exit(f"{source} with {bad}: {done.returncode} {done.stderr}")
    with open(table, "w") as f:
        f.write(text)
    for source in {source for _, _, source, _ in spoiled}:
        subprocess.run([*check, os.path.join(tree, source)], check=True)


def build_copy(tree):
    for folder in ("base", "ir", "passes", "codegen", "compiler", "runtime-lite"):
        shutil.copytree(os.path.join(root, folder), os.path.join(tree, folder))
    table = os.path.join(tree, "ir", "graph", "ops_elementwise.def")
    with open(table) as f:
        text = f.read()
    with open(table, "w") as f:
        f.write(text.replace("EW(square,", ROW + "\nEW(square,", 1))
    flags = [
        "-std=gnu11",
        "-O0",
        "-ffp-contract=off",
        '-DRLXC_VERSION="0.1.0"',
        '-DRLXC_DATE="2000-01-01"',
        "-I" + tree,
        "-I" + build + "/compiler",
    ]
    sources = [
        s
        for d in ("base", "ir", "passes", "codegen", "compiler")
        for s in glob.glob(f"{tree}/{d}/**/*.c", recursive=True)
        if not any(text in s for text in TEXTS)
    ]
    sources += glob.glob(build + "/codegen/*.c") + glob.glob(build + "/compiler/*.c")
    jobs = [(s, f"{tree}/{i}.o", flags) for i, s in enumerate(sources)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compile_one, jobs))
    program = os.path.join(tree, "rlxc")
    libs = subprocess.run(
        ["pkg-config", "--libs", "libcjson", "libprotobuf-c"], capture_output=True, text=True, check=True
    )
    command = [*cc, "-Wl,-z,noexecstack", *objects, "-o", program, *libs.stdout.split(), "-ldl", "-lm"]
    subprocess.run([*command, *tcc_library()], check=True)
    return program


def write_npy(path, values):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(values)},), }}".ljust(117) + "\n"
    with open(path, "wb") as f:
        f.write(
            b"\x93NUMPY\x01\x00"
            + struct.pack("<H", len(header))
            + header.encode()
            + array.array("f", values).tobytes()
        )


def read_npy(path):
    with open(path, "rb") as f:
        data = f.read()
    return array.array("f", data[10 + struct.unpack("<H", data[8:10])[0] :])


def check(tree, program):
    graph = {
        "rlxc": 1,
        "inputs": {"x": {"dtype": "f32", "shape": [37]}},
        "weights": {"w": {"dtype": "i32", "shape": [2], "data": [3, -2]}},
        "nodes": [
            {"name": "c", "op": "cube", "inputs": ["x"]},
            {"name": "y", "op": "neg", "inputs": ["c"]},
            {"name": "k", "op": "cube", "inputs": ["w"]},
        ],
        "outputs": ["y", "k"],
    }
    model = os.path.join(tree, "cube.json")
    with open(model, "w") as f:
        json.dump(graph, f)
    env = dict(os.environ, XDG_CACHE_HOME=tree + "/cache")
    # This one is built without glslang: it says what to install.
    vulkan = subprocess.run([program, "compile", model, "--target", "vulkan", "-o", tree + "/vk"], env=env,
                            capture_output=True, text=True, check=False)
    if vulkan.returncode != 3 or "apt-get install g++ glslang-dev spirv-tools" not in vulkan.stderr:
        sys.exit(f"--target vulkan without glslang: {vulkan.returncode} {vulkan.stderr}")
    values = [0.25 * i - 4 for i in range(37)]
    write_npy(tree + "/x.npy", values)
    for cpu in ("generic", "native"):
        subprocess.run([program, "verify", model, "--cpu", cpu, "--tolerance", "1e-6"], check=True, env=env)
        subprocess.run(
            [
                program,
                "run",
                model,
                "--cpu",
                cpu,
                "--input",
                f"x={tree}/x.npy",
                "--output-dir",
                tree + "/out",
            ],
            check=True,
            env=env,
        )
        got = read_npy(tree + "/out/y.npy")
        if list(got) != [-v * v * v for v in values]:
            sys.exit(f"cube on {cpu}: {list(got)}")
        with open(tree + "/out/k.npy", "rb") as f:
            if struct.unpack("<2i", f.read()[-8:]) != (27, -8):
                sys.exit("cube of constants was folded wrong")


with tempfile.TemporaryDirectory() as folder:
    check_columns(folder)
with tempfile.TemporaryDirectory() as folder:
    check(folder, build_copy(folder))
