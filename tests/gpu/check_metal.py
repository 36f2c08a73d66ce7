#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models and programs with --target metal, where their Metal text is executed on the CPU (compiler/metal),
which looks for races, for what Metal's validation would find, and for objects that are not released.

What is generated compiles without a warning as C99 and C++; runs agree with the reference evaluator; the
programs of tests/runtime pass; without Metal, or without a C++ compiler, there is a message.
Usage: check_metal.py RLXC [gcc|clang [SELFTEST...]]; prints TAP. SELFTEST: metal_selftest.c."""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common"))
import tap
from emitted import QUICK
from rotation import part_of, say
from tap import result

RLXC, FAMILY = os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "gcc"
ROOT = os.path.abspath(os.environ.get("RLXC_SOURCE", "."))
CC, CXX = {"gcc": ("gcc", "g++"), "clang": ("clang", "clang++")}[FAMILY]
MODELS = ["gelu_example", "mlp", "transformer", "lstm", "lstm_stream", "digits/digits"]
UNCHECKED = ["decoder", "transformer"]  # run without looking for races, as users run them
COMPILERS = [f"{CC} -std=c99", f"{CXX} -x c++ -std=c++11"]
WARNINGS = "-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror"
NO_DEVICE = "no driver, or no device that can run the code"


def run(command, folder=None, **env):
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=600, check=False, cwd=folder,
        env={**os.environ, **env}
    )
    return done.returncode, done.stdout + done.stderr


def runtime_rows():
    """The programs of tests/runtime that run on Metal: [model, program, option ...]."""
    with open(f"{ROOT}/tests/runtime/programs.txt", encoding="ascii") as f:
        return [line.split()[1:] for line in f if line.startswith("all: ")]


def check_host(folder):
    """The C of a model, which no compiler may complain about; without Metal it says so."""
    status, said = run([RLXC, "compile", f"{ROOT}/models/mlp.json", "--target", "metal", "-o", folder])
    result(status == 0 and os.path.exists(f"{folder}/mlp.metal"), "mlp is compiled", said)
    for compiler in COMPILERS:
        status, said = run(f"{compiler} {WARNINGS} -c {folder}/mlp.c -o {folder}/mlp.o".split())
        result(status == 0, f"its C with {compiler}", said)
    with open(f"{folder}/none.c", "w", encoding="ascii") as f:
        f.write('#include "mlp.h"\n'
                "static RLX_ALIGNED unsigned char a[MLP_ARENA_BYTES + 1], s[MLP_STATE_BYTES + 1];\n"
                "int main(void)\n{\n    rlx_ctx c;\n"
                "    return mlp_init(&c, a, sizeof a, s, sizeof s) == RLX_ERR_NO_DEVICE ? 0 : 1;\n}\n")
    status, said = run([CC, "-I.", "none.c", "mlp.c", "-lm", "-o", "none"], folder)
    result(status == 0 and run([f"{folder}/none"])[0] == 0, "without Metal", said)
    command = [RLXC, "run", f"{ROOT}/models/mlp.json", "--target", "metal", "--random", "1"]
    status, said = run(command, CXX="nothing")
    result(status != 0 and "needs a C++ compiler" in said, "without a C++ compiler", said)


def verify_graph(folder, name, shapes, nodes, outputs):
    inputs = {key: {"dtype": "f32", "shape": shape} for key, shape in shapes.items()}
    with open(f"{folder}/{name}.json", "w", encoding="ascii") as f:
        json.dump({"rlxc": 1, "name": name, "inputs": inputs, "nodes": nodes, "outputs": outputs}, f)
    return run([RLXC, "verify", f"{folder}/{name}.json", "--target", "metal"])


def check_many_inputs(folder):
    """More inputs of a sum than a kernel of Metal's can have buffers, and of kernels side by side."""
    n = 40
    nodes = [{"name": f"s{i}", "op": "add", "inputs": [f"s{i - 1}" if i > 1 else "x0", f"x{i}"]}
             for i in range(1, n)]
    status, said = verify_graph(folder, "many", {f"x{i}": [4, 8] for i in range(n)}, nodes, [f"s{n - 1}"])
    result(status == 0, f"a sum of {n} inputs", said)
    nodes = []
    for i in range(10):
        nodes += [{"name": f"s{i}", "op": "clamp", "inputs": [f"a{i}", f"b{i}", f"c{i}"]},
                  {"name": f"t{i}", "op": "clamp", "inputs": [f"d{i}", f"s{i}", f"e{i}"]},
                  {"name": f"y{i}", "op": "clamp", "inputs": [f"f{i}", f"t{i}", f"g{i}"]}]
    shapes = {f"{x}{i}": [3 + i, 5] for i in range(10) for x in "abcdefg"}
    status, said = verify_graph(folder, "beside", shapes, nodes, [f"y{i}" for i in range(10)])
    result(status == 0, "ten kernels of eight buffers", said)


def check_program(top, library, row):
    model, program, options = row[0], row[1], row[2:]
    folder = f"{top}/{model}"
    status, said = run([RLXC, "compile", "--api=full", f"{ROOT}/tests/runtime/{model}.json",
                            "-o", folder, "--name", model,
                        "--target", "metal", *options])
    for language in [CC], [CXX, "-x", "c++"]:
        if status == 0:
            command = [*language, QUICK, "-DIS_NATIVE=0", f'-DRLX_METAL_LIBRARY="{library}"', "-I" + folder]
            files = [f"{ROOT}/tests/runtime/{program}.c", f"{model}.c", "-o", "p", "-lm"]
            status, said = run([*command, *files], folder)
        if status == 0:
            status, said = run(["./p"], folder, RLX_METAL_CPU="check")
    result(status == 0, f"program of {model}", said)


def check_other_devices():
    """Other simdgroups, a system without mathMode, and groups that are too small for the kernels."""
    command = [RLXC, "verify", f"{ROOT}/models/transformer.json", "--target", "metal"]
    for what in "width=8,old", "width=64":
        status, said = run(command, RLX_METAL_CPU=f"check,leaks,{what}")
        result(status == 0, f"transformer with {what}", said)
    status, said = run(command, RLX_METAL_CPU="threads=64")
    result(status != 0 and NO_DEVICE in said, "groups of 64 threads at most", said)


def check_compiled(folder, library):
    """--metallib: text stands for what Apple's compiler makes; what the device does not take is left."""
    for name, content in ("good", None), ("bad", "no kernels"):
        metallib = f"{folder}/mlp.metal"
        if content is not None:
            metallib = f"{folder}/bad.metallib"
            with open(metallib, "w", encoding="ascii") as f:
                f.write(content)
        out = f"{folder}/{name}"
        status, said = run([RLXC, "compile", f"{ROOT}/models/mlp.json", "--target", "metal", "--metallib",
                            metallib, "-o", out])
        shutil.copy(f"{folder}/fails.c", out)
        command = [CC, f'-DRLX_METAL_LIBRARY="{library}"', "-I.", "fails.c", "mlp.c", "-lm", "-o", "fails"]
        if status == 0:
            status, said = run(command, out)
        if status == 0:  # the one that is not wanted must not be asked for
            other = "newLibraryWithSource:options:error:" if content is None else "newLibraryWithData:error:"
            status, said = run([f"{out}/fails"], RLX_METAL_CPU=f"check,leaks,fail={other}")
        result(status == 0 and said == "OK OK", f"a {name} metallib", said)


FAILURES = [  # message, what rlx_init and rlx_run then say
    ("newCommandQueue", "DEVICE", ""),
    ("newBufferWithLength:options:", "DEVICE", ""),
    ("contents", "DEVICE", ""),
    ("newLibraryWithSource:options:error:", "NO_DEVICE", ""),
    ("newFunctionWithName:", "NO_DEVICE", ""),
    ("newComputePipelineStateWithFunction:error:", "NO_DEVICE", ""),
    ("commandBufferWithUnretainedReferences", "OK", "DEVICE"),
    ("computeCommandEncoderWithDispatchType:", "OK", "DEVICE"),
    ("status", "OK", "DEVICE"),
]


def check_failures(folder, library):
    """Every call of Metal's that may fail is a status, and leaves nothing behind."""
    with open(f"{folder}/fails.c", "w", encoding="ascii") as f:
        f.write("""#include "mlp.h"
#include <stdio.h>
static RLX_ALIGNED unsigned char a[MLP_ARENA_BYTES + 1], s[MLP_STATE_BYTES + 1];
static const char *name(rlx_status s)
{
    return s == RLX_OK ? "OK" : s == RLX_ERR_DEVICE ? "DEVICE" : s == RLX_ERR_NO_DEVICE ? "NO_DEVICE" : "?";
}
int main(void)
{
    rlx_ctx c;
    rlx_status status = mlp_init(&c, a, sizeof a, s, sizeof s);
    printf("%s", name(status));
    if (status == RLX_OK) {
        printf(" %s", name(rlx_run(&c)));
        rlx_close(&c);
    }
    return 0;
}
""")
    command = [CC, f'-DRLX_METAL_LIBRARY="{library}"', "-I.", "fails.c", "mlp.c", "-lm", "-o", "fails"]
    status, said = run(command, folder)
    for message, *wanted in FAILURES if status == 0 else [("", said, "")]:
        status, said = run([f"{folder}/fails"], RLX_METAL_CPU=f"leaks,fail={message}")
        result(status == 0 and said.split() == " ".join(wanted).split(), f"{message} fails", said)


def check_selftest(top, library, source):
    status, said = run([CC, QUICK, source, "-o", f"{top}/none", "-lm"])
    if status == 0:
        status, said = run([f"{top}/none"])
    result(status == 1 and NO_DEVICE in said, "metal_selftest without Metal", said)
    status, said = run([CC, QUICK, f'-DRLX_METAL_LIBRARY="{library}"', source, "-o", f"{top}/self", "-lm"])
    if status == 0:
        status, said = run([f"{top}/self"])
    result(status == 0 and "cases are right" in said, "metal_selftest", said)


def main():
    if not shutil.which(CC) or not shutil.which(CXX):
        print(f"1..0 # SKIP {CC} and {CXX} are not both installed (tools/setup does it)")
        return 77
    with tempfile.TemporaryDirectory() as top:
        os.environ.update(CC=CC, CXX=CXX, XDG_CACHE_HOME=top, RLX_METAL_CPU="check,leaks")
        check_host(f"{top}/mlp")
        every = 1 if FAMILY == "gcc" else 3  # clang's are a part from day to day
        say()
        for model in part_of(MODELS, every):
            status, said = run([RLXC, "verify", f"{ROOT}/models/{model}.json", "--target", "metal"])
            result(status == 0 and "executed on the CPU" in said, f"{model} is right", said)
        for model in part_of(UNCHECKED, every):
            status, said = run([RLXC, "verify", f"{ROOT}/models/{model}.json", "--target", "metal"],
                               RLX_METAL_CPU="leaks")
            result(status == 0, f"{model} is right, without a search for races", said)
        check_many_inputs(top)
        library = glob.glob(f"{top}/rlxc/metal-*/")[0][:-1] + ".so"
        for row in part_of(runtime_rows(), 2 if FAMILY == "gcc" else 3):
            check_program(top, library, row)
        check_failures(f"{top}/mlp", library)
        check_compiled(f"{top}/mlp", library)
        check_other_devices()
        for selftest in part_of(sys.argv[3:], 2):
            check_selftest(top, library, selftest)
    return tap.end()


sys.exit(main())
