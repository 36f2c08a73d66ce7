#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what `rlxc check X` says about wrong models with X.expect, byte for byte.

A case is a model X (JSON, IR text or ONNX: whatever `rlxc check` reads) beside X.expect with its whole
stderr. A case with errors must end with a status that is not 0, one without them with 0. Called as
`run_diag.py RLXC [--update] [X...]`; --update rewrites the expectations: read the difference.
"""
import difflib
import os
import pathlib
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
TIME_LIMIT = 20     # seconds a case


def find_cases(names):
    if names:
        return sorted(pathlib.Path(name).name for name in names)
    return sorted(p.name for p in FOLDER.iterdir()
                  if p.suffix in (".json", ".rlx", ".onnx", ".txt") and not p.name.startswith("weights"))


def check(rlxc, case):
    """(status, stderr) of `rlxc check CASE`, run in the folder so that messages name the bare file."""
    try:
        done = subprocess.run([rlxc, "check", case], cwd=FOLDER, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=TIME_LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return -1, f"no end after {TIME_LIMIT} s\n"
    return done.returncode, done.stderr.decode("utf-8", "backslashreplace")


def find_problems(case, status, found, expected):
    problems = []
    if status < 0 or status > 99:       # a signal, or a sanitizer
        problems.append(f"status {status}")
    if (": error[" in found) == (status == 0):
        problems.append(f"status {status} does not fit the messages")
    if found != expected:
        problems += [line.rstrip("\n") for line in difflib.unified_diff(
            expected.splitlines(True), found.splitlines(True), case + ".expect", "rlxc check " + case)]
    return problems


def self_test():
    assert not find_problems("x", 1, "x:1:1: error[E0101]: a\n", "x:1:1: error[E0101]: a\n")
    assert not find_problems("x", 0, "", "")
    assert find_problems("x", 0, "x:1:1: error[E0101]: a\n", "x:1:1: error[E0101]: a\n")
    assert find_problems("x", 1, "", "")
    assert find_problems("x", -11, "x: error[E0101]: a\n", "x: error[E0101]: a\n")
    assert find_problems("x", 1, "x:1:1: error[E0101]: b\n", "x:1:1: error[E0101]: a\n")


def main(args):
    self_test()
    rlxc = os.path.abspath(args[0])
    update = "--update" in args
    cases = find_cases([a for a in args[1:] if not a.startswith("--")])
    print(f"1..{len(cases)}")
    failures = 0
    for number, case in enumerate(cases, 1):
        status, found = check(rlxc, case)
        expect = FOLDER / (case + ".expect")
        if update:
            expect.write_text(found, encoding="utf-8")
        expected = expect.read_text(encoding="utf-8") if expect.exists() else f"(no file {expect.name})\n"
        problems = find_problems(case, status, found, expected)
        failures += bool(problems)
        print(f"{'not ok' if problems else 'ok'} {number} - {case}")
        for line in problems:
            print("#", line)
    stray = [p.name for p in FOLDER.glob("*.expect") if not (FOLDER / p.stem).exists()]
    for name in stray:
        print(f"# {name} has no case")
    return 1 if failures or stray or not cases else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
