#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds together_test.c with its model for this machine and for any, with the sanitizers, as C and as C++,
and runs it. Usage: check_together.py RLXC"""

import os
import shutil
import subprocess
import sys
import tempfile

RLXC, HERE = os.path.abspath(sys.argv[1]), os.path.dirname(os.path.abspath(__file__))
OPTIONS = ["--bucket", "seq=3,5,8", "--bucket", "batch=1,3", "--handle", "bias"]
OPTIONS += ["--output-set", "sums=cached"]
SANITIZE = ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
TIME_LIMIT = 120


def check(cpu, level, compiler, folder):
    where = ["-o", folder, "--name", "together", "--cpu", cpu, "-O", level]
    command = [RLXC, "compile", f"{HERE}/together.json", *where, *OPTIONS]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=TIME_LIMIT)
    with open(f"{folder}/together.c", encoding="ascii") as f:
        line = next(line for line in f if line.startswith("// Compile with:"))
    flags = [flag for flag in line.split("cc ")[1].split(" -c ")[0].split() if not flag.startswith("-O")]
    files = [f"{HERE}/together_test.c", "together.c", "-o", "p", "-lm"]
    command = [*compiler, *flags, *SANITIZE, "-I" + folder, *files]
    subprocess.run(command, check=True, cwd=folder, timeout=TIME_LIMIT)
    subprocess.run(["./p"], check=True, cwd=folder, timeout=TIME_LIMIT)


for row in ("native", "3", ["cc"]), ("generic", "0", ["c++", "-x", "c++"]):
    if shutil.which(row[2][0]) is not None:
        with tempfile.TemporaryDirectory() as top:
            check(*row, top)
