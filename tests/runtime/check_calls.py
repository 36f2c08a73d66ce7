#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the programs that make many calls with their models, in the forms that the API has, with the
sanitizers, as C and as C++, and runs them: together_test.c (random calls) and errors_test.c (calls that are
refused). Usage: check_calls.py RLXC"""

import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../common"))
from emitted import QUICK, SANITIZE, flags_of  # noqa: E402

RLXC = os.path.abspath(sys.argv[1])
TIME_LIMIT = 120
C, CPP = ["cc"], ["c++", "-x", "c++"]
TOGETHER = [
    "--bucket",
    "seq=3,5,8",
    "--bucket",
    "batch=1,3",
    "--handle",
    "bias",
    "--output-set",
    "sums=cached",
]
OPEN, BUCKETS = ["--dynamic"], ["--bucket", "seq=4,8"]
FULL, PLAN, CORE = (["--api", api] for api in ("full", "plan", "core"))
FILE = ["--weights", "file"]
CASES = (
    ("together", "native", "3", C, [*TOGETHER, *FULL]),
    ("together", "generic", "0", CPP, [*TOGETHER, *FULL]),
    ("errors", "native", "3", C, [*FILE, *OPEN, *FULL]),
    ("errors", "generic", "0", CPP, [*FILE, *OPEN, *CORE]),
    ("errors", "generic", "3", C, [*FILE, *BUCKETS, *FULL]),
    ("errors", "native", "0", CPP, [*FILE, *BUCKETS, *PLAN]),
)


def check(name, cpu, level, compiler, options, folder):
    where = ["-o", folder, "--name", name, "--cpu", cpu, "-O", level]
    command = [RLXC, "compile", f"{HERE}/{name}.json", *where, *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=TIME_LIMIT)
    command = [*compiler, *flags_of(f"{folder}/{name}.c", QUICK), *SANITIZE, "-I" + folder]
    command += [f"{HERE}/{name}_test.c", f"{name}.c", "-o", "p", "-lm"]
    subprocess.run(command, check=True, cwd=folder, timeout=TIME_LIMIT)
    weights = [f"{name}.weights"] if options[: len(FILE)] == FILE else []
    subprocess.run(["./p", *weights], check=True, cwd=folder, timeout=TIME_LIMIT)


for case in CASES:
    if shutil.which(case[3][0]) is not None:
        with tempfile.TemporaryDirectory() as top:
            check(*case, top)
