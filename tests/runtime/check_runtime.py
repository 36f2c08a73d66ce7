#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Emits the models of this folder for CPUs and optimisation levels, builds the C program that belongs to each
with the sanitizers, as C and as C++, and runs it. Usage: check_runtime.py RLXC"""

import os
import shutil
import subprocess
import sys
import tempfile

RLXC, HERE = os.path.abspath(sys.argv[1]), os.path.dirname(os.path.abspath(__file__))
SETS = ["--output-set", "product=y", "--output-set", "rest=z,total"]
HANDLES = ["--handle", "table", "--handle", "bias", "--handle", "cache=grown"]
LOOK = ["--keep", "inner", "--profile", "--embed-source"]
TRAINING = [part for name in ("w1", "b1", "w2", "b2") for part in ("--handle", f"{name}={name}_next")]
BUCKETS = ["--bucket", "seq=4,8,16", "--bucket", "batch=1,3"]
PROGRAMS = (
    ("mission", "runtime_test.c", []),
    ("constant", "constant_test.c", []),
    ("checked", "checked_test.c", []),
    ("runs", "runs_test.c", SETS),
    ("look", "look_test.c", LOOK),
    ("sizes", "sizes_test.c", ["--dynamic", "--arena-at", "seq=20"]),
    ("handles", "handles_test.c", HANDLES),
    ("buckets", "buckets_test.c", BUCKETS),
    ("setparam", "setparam_test.c", ["--dim", "n=1..8"]),
    ("training", "training_test.c", TRAINING),
    ("moe", "moe_test.c", ["--output-set", "first=y"]),
    ("moe", "moe_test.c", ["--output-set", "first=y", "--moe-resident", "3"]),
)
SANITIZE = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def flags_of(path):
    with open(path, encoding="ascii") as f:
        line = next(line for line in f if line.startswith("// Compile with:"))
    return line.split("cc ")[1].split(" -c ")[0].split()


def check(model, program, options, compilers, folder):
    command = [RLXC, "compile", f"{HERE}/{model}.json", "-o", folder, "--name", model, *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    flags = flags_of(f"{folder}/{model}.c")
    for compiler in compilers:
        if shutil.which(compiler[0]) is None:
            continue
        command = [*compiler, *flags, *SANITIZE, "-I" + folder, f"{HERE}/{program}", f"{model}.c"]
        subprocess.run([*command, "-o", "p", "-lm"], check=True, cwd=folder)
        subprocess.run([folder + "/p"], check=True)


C, CPP = ["cc"], ["c++", "-x", "c++"]
CONFIGS = (("generic", "0", [C]), ("generic", "3", [C, CPP]), ("native", "3", [C]))
for name, source, extra in PROGRAMS:
    for cpu, level, compilers in CONFIGS:
        with tempfile.TemporaryDirectory() as top:
            check(name, source, ["--cpu", cpu, "-O", level, *extra], compilers, top)
