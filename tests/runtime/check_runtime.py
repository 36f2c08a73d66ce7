#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Emits a model of this folder for CPUs and optimisation levels, builds the C program that belongs to it with
the sanitizers, as C and as C++, and runs it.
Usage: check_runtime.py RLXC MODEL PROGRAM [OPTION...]: MODEL.json compiled with the options, for PROGRAM.c
"""

import os
import shutil
import subprocess
import sys
import tempfile

RLXC, HERE = os.path.abspath(sys.argv[1]), os.path.dirname(os.path.abspath(__file__))
MODEL, PROGRAM, OPTIONS = sys.argv[2], sys.argv[3], sys.argv[4:]
SANITIZE = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def flags_of(path):
    with open(path, encoding="ascii") as f:
        line = next(line for line in f if line.startswith("// Compile with:"))
    return line.split("cc ")[1].split(" -c ")[0].split()


def check(cpu, level, folder):
    where = ["-o", folder, "--name", MODEL, "--cpu", cpu, "-O", level]
    command = [RLXC, "compile", f"{HERE}/{MODEL}.json", *where, *OPTIONS]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    flags = flags_of(f"{folder}/{MODEL}.c")
    for compiler in ["cc"], ["c++", "-x", "c++"]:
        if shutil.which(compiler[0]) is None:
            continue
        define = [f"-DIS_NATIVE={int(cpu == 'native')}", f"-DLEVEL={level}"]
        command = [*compiler, *flags, *SANITIZE, *define, "-I" + folder, f"{HERE}/{PROGRAM}.c", f"{MODEL}.c"]
        subprocess.run([*command, "-o", "p", "-lm"], check=True, cwd=folder)
        subprocess.run(["./p"], check=True, cwd=folder)


for cpu in "generic", "native":
    for level in "0", "3":
        with tempfile.TemporaryDirectory() as top:
            check(cpu, level, top)
