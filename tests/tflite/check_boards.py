#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cases of integers of single operators (cases.py) on microcontrollers that QEMU emulates: results are
those that LiteRT stored, and no kernel of them has floats. A part of the cases each day.
Usage: check_boards.py RLXC [CPU...]"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "../common"), str(HERE / "../../tools/bench")]
import cases  # noqa: E402
import check_ops  # noqa: E402
import flatbuffer  # noqa: E402
import mcu_rig  # noqa: E402
import on_board  # noqa: E402
import rotation  # noqa: E402
import tap  # noqa: E402

CPUS = ("cortex-m4", "cortex-m55", "cortex-m0plus", "rv32imafcv")  # one of each kind of kernels
CHUNK, EVERY = 12, 6
OTHERS = {"f32", "f16", "f64"}
KERNEL = re.compile(r"^RLX_KERNEL void (k\d+\w*)\(.*?^}", re.M | re.S)


def is_of_integers(function):
    c = cases.make("c", function)
    return not ({feed[1] for feed in c.feeds} | set(c.result_types)) & OTHERS


def floats_of(rlxc, work, c, cpu):
    """Names of kernels with floats of a case, or a message."""
    (work / "one.tflite").write_bytes(c.model.encode())
    done = subprocess.run([rlxc, "compile", work / "one.tflite", "--cpu", cpu, "-o", work / "one", "--name",
                           "net", "--no-validate", "--one-file", "--weights", "rodata"],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr
    kernels = KERNEL.finditer((work / "one/net.c").read_text())
    return [found.group(1) for found in kernels if re.search(r"\b(float|double)\b", found.group())]


def results_of(rig, machine, chunk, expected):
    """The results of some cases, or a message for each."""
    model = flatbuffer.Model()
    together = [cases.make(name, function, model) for name, _, function in chunk]
    for c, (name, _, _) in zip(together, chunk, strict=True):
        c.expected = expected[name]
    found = on_board.run(rig, machine, together, [])
    return [found] * len(chunk) if isinstance(found, str) else found


def check(rlxc, cpu, chosen):
    machine, expected = mcu_rig.machines()[cpu], json.loads(check_ops.EXPECTED.read_text())
    if not mcu_rig.compilers(machine) or not shutil.which(machine.qemu):
        tap.result(True, f"operators on {cpu}", skipped=f"there is no compiler or no {machine.qemu}")
        return
    with tempfile.TemporaryDirectory() as folder:
        rig = mcu_rig.Rig(rlxc, folder)
        for at in range(0, len(chosen), CHUNK):
            chunk = chosen[at : at + CHUNK]
            for found, (name, tolerance, function) in zip(results_of(rig, machine, chunk, expected), chunk,
                                                          strict=True):
                wrong = check_ops.difference(found, expected[name], tolerance)
                floats = floats_of(rlxc, rig.work, cases.make(name, function), cpu)
                tap.result(not wrong and not floats, f"{name} on {cpu}", wrong or f"floats in {floats}")


def main():
    rlxc, cpus = pathlib.Path(sys.argv[1]).resolve(), tuple(sys.argv[2:]) or CPUS
    chosen = [case for case in cases.CASES if is_of_integers(case[2])]
    rotation.say()
    for i, cpu in enumerate(cpus):
        part = [case for n, case in enumerate(chosen) if rotation.is_taken(n + i, EVERY)]
        check(rlxc, cpu, part)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
