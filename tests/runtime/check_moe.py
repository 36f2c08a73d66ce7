#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Emits the model of moe_model.py with all experts in the weights and with three in memory, for one size, for
sizes that are set between runs, for buckets and for two threads, and runs moe_test.c with each, under
sanitizers, as C and as C++. Usage: check_moe.py RLXC"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

import moe_model
import moe_rows_model

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../common"))
from emitted import QUICK, flags_of  # noqa: E402

RLXC = os.path.abspath(sys.argv[1])
SMALL, LARGE = (8, 12), (64, 256)  # width, hidden width; large: products that threads share
C, CPP = ["cc"], ["c++", "-x", "c++"]
ADDRESS, THREAD = "address,undefined", "thread"
OPEN, BUCKETS, BUCKETS4 = ["--dynamic"], ["--bucket", "rows=1,4,6"], ["--bucket", "rows=1,4"]
TIME_LIMIT = 240
SLOTS = ["--moe-resident", "3"]
CASES = (
    ("generic", "0", SMALL, [], C, ADDRESS),
    ("generic", "0", SMALL, SLOTS, C, ADDRESS),
    ("native", "3", SMALL, SLOTS, CPP, ADDRESS),
    ("native", "0", SMALL, OPEN, C, ADDRESS),
    ("native", "3", SMALL, [*OPEN, *SLOTS], C, ADDRESS),
    ("generic", "0", SMALL, [*BUCKETS, *SLOTS], C, ADDRESS),
    ("native", "3", SMALL, BUCKETS, CPP, ADDRESS),
    ("native", "3", LARGE, ["--threads", "2"], C, ADDRESS),
    ("native", "3", LARGE, ["--threads", "2", *OPEN, *SLOTS], C, THREAD),
    ("native", "3", LARGE, ["--threads", "2", *BUCKETS, *SLOTS], C, THREAD),
)

ROW_CASES = (
    ("generic", "0", SLOTS, C, ADDRESS),
    ("native", "0", [], CPP, ADDRESS),
    ("native", "3", ["--threads", "2", *OPEN, *SLOTS], C, ADDRESS),
    ("native", "3", [*BUCKETS4, *SLOTS], C, ADDRESS),
    ("generic", "0", BUCKETS4, C, ADDRESS),
)


def run(command, folder):
    subprocess.run(command, check=True, cwd=folder, timeout=TIME_LIMIT, stdout=subprocess.DEVNULL)


def check(case, folder):
    cpu, level, sizes, options, compiler, sanitizers = case
    if shutil.which(compiler[0]) is None:
        print("NOT CHECKED, is not here:", compiler[0])
        return
    with open(f"{folder}/moe.json", "w", encoding="ascii") as f:
        json.dump(moe_model.model(*sizes), f)
    given = ["--cpu", cpu, "-O", level, "--output-set", "first=y", *options]
    run([RLXC, "compile", "--api=full", "moe.json", "-o", ".", "--name", "moe", *given], folder)
    sanitize = ["-g", "-fsanitize=" + sanitizers, "-fno-sanitize-recover=all"]
    own = [f"-DWIDTH={sizes[0]}", f"-DHIDDEN={sizes[1]}", "-I."]
    flags = flags_of(f"{folder}/moe.c", QUICK)
    run([*compiler, *flags, *sanitize, *own, f"{HERE}/moe_test.c", "moe.c", "-o", "p", "-lm"], folder)
    run(["./p"], folder)


def check_rows(case, folder):
    """Experts in blocks and groups, in layers of different numbers."""
    cpu, level, options, compiler, sanitizers = case
    with open(f"{folder}/moe.json", "w", encoding="ascii") as f:
        json.dump(moe_rows_model.model(), f)
    with open(f"{folder}/rows.h", "w", encoding="ascii") as f:
        f.write(moe_rows_model.expected())
    given = ["--cpu", cpu, "-O", level, *options]
    run([RLXC, "compile", "--api=full", "moe.json", "-o", ".", "--name", "moe", *given], folder)
    sanitize = ["-g", "-fsanitize=" + sanitizers, "-fno-sanitize-recover=all"]
    flags = flags_of(f"{folder}/moe.c", QUICK)
    run([*compiler, *flags, *sanitize, "-I.", f"{HERE}/moe_rows_test.c", "moe.c", "-o", "p", "-lm"], folder)
    run(["./p"], folder)


for each in CASES:
    with tempfile.TemporaryDirectory() as top:
        check(each, top)
for each in ROW_CASES:
    with tempfile.TemporaryDirectory() as top:
        check_rows(each, top)
