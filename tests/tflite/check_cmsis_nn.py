#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The data of CMSIS-NN's unit tests, where its sources are: RLXC_CMSIS_NN names their folder (else skipped,
status 77). Each case becomes a .tflite model of one operator, which generated code runs with two roundings:
on this machine, and on a Cortex-M4 where there are a compiler and QEMU. Integers must be equal. Fails where
anything is wrong, or less than 95 % pass.

Usage: check_cmsis_nn.py RLXC [CASE...]"""

import os
import pathlib
import shutil
import sys
import tempfile

import check_ops
import cmsis_cases
import cmsis_data
import flatbuffer
import on_board
import peers
from on_board import mcu_rig

DATA = "Tests/UnitTest/TestCases/TestData"
CHUNK = 24
TOLERANCE = {"f32": 2e-5, "f16": 4e-3}  # of the largest magnitude
SKIPPED = 77
TWICE = ["--rounding", "double"]
CPU = "cortex-m4"


def read(folders, tally):
    """The cases that can be models."""
    for folder in folders:
        data = cmsis_data.Data(folder)
        try:
            yield data, cmsis_cases.build(data)[1]
        except cmsis_cases.Unreadable as why:
            tally.refuse(cmsis_cases.kind(data), data.name, str(why))


def run_all(run, some):
    """What each of some cases gives; run takes those that share a model."""
    model = flatbuffer.Model()
    found = run([cmsis_cases.build(data, model)[0] for data, _ in some])
    if isinstance(found, str):
        return [found] if len(some) == 1 else [run_all(run, [one])[0] for one in some]
    return found


def judge(data, found, tally, kind):
    c = cmsis_cases.build(data)[0]
    if isinstance(found, str):
        tally.refuse(kind, data.name, peers.reason_of(found))
        return
    wrong = check_ops.difference(found, c.expected, TOLERANCE.get(c.result_types[0], 0))
    if wrong:
        tally.wrong(kind, data.name, wrong)
    else:
        tally.passed(kind)


def check(where, folders, run):
    tally = peers.Tally(f"CMSIS-NN, {where}")
    chosen = list(read(folders, tally))
    for at in range(0, len(chosen), CHUNK):
        some = chosen[at : at + CHUNK]
        for (data, kind), found in zip(some, run_all(run, some), strict=True):
            judge(data, found, tally, kind)
    return tally.report()


def main():
    home = os.environ.get("RLXC_CMSIS_NN")
    if not home:
        print("skipped: RLXC_CMSIS_NN does not say where CMSIS-NN's sources are")
        return SKIPPED
    folders = sorted(path.parent for path in (pathlib.Path(home) / DATA).glob("*/test_data.h"))
    folders = [folder for folder in folders if "ds_cnn" not in folder.name]  # networks
    if sys.argv[2:]:
        folders = [folder for folder in folders if folder.name in sys.argv[2:]]
    rlxc = pathlib.Path(sys.argv[1]).resolve()
    good = check(
        "here", folders, lambda some: check_ops.run_rlxc(rlxc, some, [*TWICE, "--cpu", "native", "-O", "1"])
    )
    machine = mcu_rig.machines()[CPU]
    if not mcu_rig.compilers(machine) or not shutil.which(machine.qemu):
        print(f"{CPU}: skipped, there is no compiler or no {machine.qemu} for it")
        return not good
    with tempfile.TemporaryDirectory() as work:
        rig = mcu_rig.Rig(rlxc, work)
        good &= check(CPU, folders, lambda some: on_board.run(rig, machine, some, TWICE))
    return not good


if __name__ == "__main__":
    sys.exit(main())
