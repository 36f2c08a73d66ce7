#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cases that passed are left out by the next run of the same program (kept.h), and only those: not a case
with another text, none where what $UNCHANGED_CORE stands for has changed (sources of the evaluator, say),
none that failed, and none with TEST_ALL=1. Usage: check_kept.py TEST_INTERP TEST_OPS"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

import tap

PLAIN = """graph "{name}" {{
  %1 = input "x" : f32[3, {n}]
  %2 = relu(%1)
  output "y" = %2
}}
"""
# Kernels add in f32, the evaluator in f64: integers made of it differ.
FAILS = """graph "exact sum" {
  %1 = input "x" : f32[4, 1000]
  %2 = const : f32[] = {1000000.0}
  %3 = reduce_sum(%1) {axes = [1]}
  %4 = mul(%3, %2)
  %5 = cast(%4) {to = i32}
  output "y" = %5
}
"""
CONFIG = "threads"


class Runs:
    """Runs of one program, with what they keep in a folder of their own."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.file = folder / "cases.rlx"
        (folder / "passed").mkdir()

    def run(self, *texts, core="1", **more):
        """(the status, how many passed before)"""
        self.file.write_text("".join(texts), encoding="ascii")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TEST_")}
        environment.update(RLXC_BUILD=str(self.folder), UNCHANGED_CORE=core, TEST_CONFIG=CONFIG, **more)
        done = subprocess.run([self.program, self.file], env=environment, stdout=subprocess.PIPE, text=True,
                              check=False)
        said = re.findall(r"^# kept: (\d+)$", done.stdout, re.M)
        return done.returncode, int(said[0]) if said else 0


def check(program):
    name = os.path.basename(program)
    one, two, other = (PLAIN.format(name=name, n=n) for name, n in (("a", 5), ("b", 6), ("b", 7)))

    def expect(what, found, wanted):
        tap.result(found == wanted, f"{name}: {what}", f"{found}, not {wanted}")

    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(program, pathlib.Path(folder))
        expect("all run at first", runs.run(one, two), (0, 0))
        expect("and not again", runs.run(one, two), (0, 2))
        expect("but for one that has changed", runs.run(one, other), (0, 1))
        expect("one that was there before is known", runs.run(one, two), (0, 2))
        expect("TEST_ALL=1 runs all", runs.run(one, two, TEST_ALL="1"), (0, 0))
        expect("one that fails fails", runs.run(one, FAILS), (1, 1))
        expect("again and again", runs.run(one, FAILS), (1, 1))
        expect("another evaluator", runs.run(one, two, core="2"), (0, 0))
        expect("is known from then on", runs.run(one, two, core="2"), (0, 2))
        expect("nothing is known without ./run-tests", runs.run(one, two, core=""), (0, 0))


def main():
    for program in sys.argv[1:]:
        check(os.path.abspath(program))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
