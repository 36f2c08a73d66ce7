#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tflite-micro's own cases of operators, where its sources are: RLXC_TFLM names their folder (else skipped,
status 77). These are the models of its integration tests, with stored results, and the tests of its kernels,
which judge what rlxc gives instead of the kernels; they need RLXC_FLATBUFFERS and RLXC_GEMMLOWP as well, and
stay compiled in a folder beside rlxc. Fails where anything is wrong, or less than 95 % pass.

Usage: check_tflm.py RLXC [OPERATOR...]   operators by the names of folders and of tests"""

import os
import pathlib
import re
import sys
import tempfile

import kernel_tests
import peers
import seanet

SKIPPED = 77
TWICE = ["--rounding", "double"]


def check_seanet(rlxc, home, chosen):
    tally = peers.Tally("tflite-micro, SEANet")
    for kind, models in seanet.find(home).items():
        for model in models if not chosen or kind in chosen else ():
            found = seanet.run(rlxc, model, [*TWICE, "--cpu", "native", "-O", "1"])
            if not found:
                tally.passed(kind)
            elif found[1]:
                tally.refuse(kind, model.stem, peers.reason_of(found[0]))
            else:
                tally.wrong(kind, model.stem, found[0])
    return tally.report()


def check_kernels(rlxc, home, chosen):
    tally = peers.Tally("tflite-micro, kernels")
    names = [name for name in kernel_tests.names_of(home) if not chosen or name in chosen]
    programs = kernel_tests.Builder(home, rlxc.parent / "tflm-here").programs(names)
    with tempfile.TemporaryDirectory() as folder:
        found = kernel_tests.run(
            rlxc, programs, pathlib.Path(folder), [*TWICE, "--cpu", "native", "-O", "1"]
        )
    for kind, tests in found.items():
        for test, (passed, text) in tests.items():
            refused = re.search(r"^rlxc refused (.*)", text, re.M)
            if passed:
                tally.passed(kind)
            elif test in kernel_tests.WIDER:
                tally.refuse(kind, test, kernel_tests.WIDER[test])
            elif refused:
                tally.refuse(kind, test, peers.reason_of(refused.group(1)))
            else:
                tally.wrong(kind, test, " ".join(text.split())[:300])
    return tally.report()


def main():
    home = os.environ.get("RLXC_TFLM")
    if not home:
        print("skipped: RLXC_TFLM does not say where tflite-micro's sources are")
        return SKIPPED
    rlxc, home, chosen = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(home), sys.argv[2:]
    good = check_seanet(rlxc, home, chosen)
    lacking = [name for name in kernel_tests.NEEDED if not os.environ.get(name)]
    if lacking:
        print(f"tests of kernels: skipped, set {', '.join(lacking)}")
        return not good
    return not (check_kernels(rlxc, home, chosen) and good)


if __name__ == "__main__":
    sys.exit(main())
