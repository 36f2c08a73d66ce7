#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The data of CMSIS-NN's unit tests, where its sources are: RLXC_CMSIS_NN names their folder (else skipped,
status 77). Each case becomes a .tflite model of one operator, which generated code runs with two roundings:
for this machine, and for a Cortex-M4 as a C compiler without the DSP extension sees it. Integers must be
equal. Fails where anything is wrong, or less than 95 % pass.

Usage: check_cmsis_nn.py RLXC [CASE...]"""

import os
import pathlib
import sys

import check_ops
import cmsis_cases
import cmsis_data
import flatbuffer
import peers

DATA = "Tests/UnitTest/TestCases/TestData"
CHUNK = 24
TOLERANCE = {"f32": 2e-5, "f16": 4e-3}  # of the largest magnitude
SKIPPED = 77


def read(folders, tally):
    """The cases that can be models."""
    for folder in folders:
        data = cmsis_data.Data(folder)
        try:
            yield data, cmsis_cases.build(data)[1]
        except cmsis_cases.Unreadable as why:
            tally.refuse(cmsis_cases.kind(data), data.name, str(why))


def run(rlxc, some, options):
    model = flatbuffer.Model()
    together = [cmsis_cases.build(data, model)[0] for data, _ in some]
    found = check_ops.run_rlxc(rlxc, together, options)
    if isinstance(found, str):
        return [found] if len(some) == 1 else [run(rlxc, [one], options)[0] for one in some]
    return found


def judge(data, found, tally, kind):
    c = cmsis_cases.build(data)[0]
    if isinstance(found, str):
        tally.refuse(kind, data.name, peers.reason_of(found))
        return
    wrong = check_ops.difference(found, c.expected, TOLERANCE.get(c.type_name, 0))
    if wrong:
        tally.wrong(kind, data.name, wrong)
    else:
        tally.passed(kind)


def check(rlxc, folders, cpu):
    tally = peers.Tally(f"CMSIS-NN, {cpu}")
    chosen = list(read(folders, tally))
    options = ["--rounding", "double", "--cpu", cpu, "-O", "1"]
    for at in range(0, len(chosen), CHUNK):
        some = chosen[at : at + CHUNK]
        for (data, kind), found in zip(some, run(rlxc, some, options), strict=True):
            judge(data, found, tally, kind)
    return tally.report()


def main():
    home = os.environ.get("RLXC_CMSIS_NN")
    if not home:
        print("skipped: RLXC_CMSIS_NN does not say where CMSIS-NN's sources are")
        return SKIPPED
    folders = sorted(path.parent for path in (pathlib.Path(home) / DATA).glob("*/test_data.h"))
    if sys.argv[2:]:
        folders = [folder for folder in folders if folder.name in sys.argv[2:]]
    return 0 if all([check(sys.argv[1], folders, cpu) for cpu in ("native", "cortex-m4")]) else 1


if __name__ == "__main__":
    sys.exit(main())
