#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Emits a model of this folder for CPUs and optimisation levels, of which each day has another half, builds
the C program that belongs to it with the sanitizers, as C and, for one of them, as C++, and runs it; once as
users build it, too.
Usage: check_runtime.py RLXC MODEL PROGRAM [OPTION...]: MODEL.json compiled with the options, for PROGRAM.c
"""

import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../common"))
from emitted import QUICK, SANITIZE, flags_of  # noqa: E402
from rotation import is_taken, say  # noqa: E402

RLXC = os.path.abspath(sys.argv[1])
MODEL, PROGRAM, OPTIONS = sys.argv[2], sys.argv[3], sys.argv[4:]
C, CPP = ["cc"], ["c++", "-x", "c++"]


def build_and_run(compiler, cpu, level, folder):
    if shutil.which(compiler[0]) is None:
        return
    define = [f"-DIS_NATIVE={int(cpu == 'native')}", f"-DLEVEL={level}", "-I" + folder]
    command = [*compiler, *define, f"{HERE}/{PROGRAM}.c", f"{MODEL}.c", "-o", "p", "-lm"]
    subprocess.run(command, check=True, cwd=folder)
    subprocess.run(["./p"], check=True, cwd=folder)


def check(cpu, level, languages, folder):
    where = ["-o", folder, "--name", MODEL, "--cpu", cpu, "-O", level]
    command = [RLXC, "compile", "--api=full", f"{HERE}/{MODEL}.json", *where, *OPTIONS]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    quick = [*flags_of(f"{folder}/{MODEL}.c", QUICK), *SANITIZE]
    for compiler in languages:
        build_and_run([*compiler, *quick], cpu, level, folder)
    if (cpu, level) == USERS:
        build_and_run([*C, *flags_of(f"{folder}/{MODEL}.c")], cpu, level, folder)


USERS = "native", "3"
BUILDS = ("generic", "0"), ("generic", "3"), USERS, ("native", "0")  # two next to each other on two days
say()
for i, (cpu, level) in enumerate(BUILDS):
    number = i + len(MODEL)
    languages = [*([C] if is_taken(number, 2) else []), *([CPP] if is_taken(number, len(BUILDS)) else [])]
    if languages or (cpu, level) == USERS:
        with tempfile.TemporaryDirectory() as top:
            check(cpu, level, languages, top)
