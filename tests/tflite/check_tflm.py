#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tflite-micro's own cases of operators, where its sources are: RLXC_TFLM names their folder (else skipped,
status 77). These are the models of its integration tests, with stored results. Fails where anything is wrong,
or less than 95 % pass.

Usage: check_tflm.py RLXC [OPERATOR...]"""

import os
import pathlib
import sys

import peers
import seanet

SKIPPED = 77
TWICE = ["--rounding", "double"]


def check_seanet(rlxc, home, chosen):
    tally = peers.Tally("tflite-micro, SEANet")
    for kind, models in seanet.find(home).items():
        for model in models if not chosen or kind in chosen else ():
            found = seanet.run(rlxc, model, [*TWICE, "-O", "1"])
            if not found:
                tally.passed(kind)
            elif found[1]:
                tally.refuse(kind, model.stem, peers.reason_of(found[0]))
            else:
                tally.wrong(kind, model.stem, found[0])
    return tally.report()


def main():
    home = os.environ.get("RLXC_TFLM")
    if not home:
        print("skipped: RLXC_TFLM does not say where tflite-micro's sources are")
        return SKIPPED
    rlxc = pathlib.Path(sys.argv[1]).resolve()
    return not check_seanet(rlxc, pathlib.Path(home), sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
