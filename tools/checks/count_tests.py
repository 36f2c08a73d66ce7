#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up what `meson test` logged in the given build folders and prints the one closing line.

A test program that prints TAP (cmocka does) counts as its cases, any other one as one test. A program
that failed without a failed case (it crashed, or timed out) counts as one failure more. What failed or
was skipped is named. Separate from run-tests so that it can be tested: `count_tests.py --self-test`.
"""
import json
import pathlib
import re
import sys

from unchanged import MARK as unchanged_mark

CASE = re.compile(r"^(ok|not ok)\b([^#\n]*)(# *skip\b)?", re.IGNORECASE | re.MULTILINE)
PLAN = re.compile(r"^1\.\.\d+", re.MULTILINE)
KEPT = re.compile(r"^# kept: (\d+)$", re.MULTILINE)  # of tests/common/kept.h
OUTCOMES = {"OK": "passed", "EXPECTEDFAIL": "passed", "SKIP": "skipped"}


def count_cases(test):
    """[(outcome, name)] of one test program."""
    outcome = OUTCOMES.get(test["result"], "failed")
    out = test.get("stdout") or ""
    name = test["name"]
    cases = []
    if PLAN.search(out):
        for ok, case, skip in CASE.findall(out):
            state = "skipped" if skip else "passed" if ok.lower() == "ok" else "failed"
            cases.append((state, name + ":" + case.strip(" -0123456789")))
    if not cases or (outcome == "failed" and all(state != "failed" for state, _ in cases)):
        cases.append((outcome, name))
    return cases


def read_log(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return [json.loads(line) for line in f if line.strip()]


def say_unchanged(unchanged, kept):
    runs = f" and {kept} programs of cases of others" if kept else ""
    return f"{unchanged} of those that pass{runs} did not run: nothing they depend on has changed since"


def summarize(folders):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    unchanged = kept = 0
    for folder in folders:
        log = pathlib.Path(folder) / "meson-logs" / "testlog-unchanged.py.json"
        tests = read_log(log) if log.exists() else []
        if not tests:
            tests = [{"name": f"{folder}: no test ran", "result": "ERROR"}]
        for test in tests:
            cases = count_cases(test)
            said = test.get("stdout") or ""
            if unchanged_mark in said:
                unchanged += len(cases)
            else:
                kept += sum(map(int, KEPT.findall(said)))
            for outcome, name in cases:
                counts[outcome] += 1
                if outcome != "passed":
                    print(f"{outcome.upper()}: {folder}: {name}")
            if any(outcome == "failed" for outcome, _ in cases):
                print(((test.get("stdout") or "") + (test.get("stderr") or "")).rstrip()[-6000:])
    if unchanged or kept:
        print(say_unchanged(unchanged, kept))
    tail = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    print(f"{counts['passed']} passed, {counts['failed']} failed{tail}")
    return 1 if counts["failed"] or not counts["passed"] else 0


def self_test():
    tap = "1..3\nok 1 - a\nnot ok 2 - b\nok 3 - c # SKIP no GPU\n"
    states = [state for state, _ in count_cases({"name": "t", "result": "FAIL", "stdout": tap})]
    assert states == ["passed", "failed", "skipped"], states
    crashed = {"name": "t", "result": "FAIL", "stdout": "1..2\nok 1 - a\n"}
    assert [state for state, _ in count_cases(crashed)] == ["passed", "failed"]
    assert count_cases({"name": "t", "result": "TIMEOUT"}) == [("failed", "t")]
    assert count_cases({"name": "t", "result": "SKIP", "stdout": ""}) == [("skipped", "t")]
    assert count_cases({"name": "t", "result": "OK", "stdout": "not ok, but no TAP\n"}) == [("passed", "t")]
    assert summarize(["no-such-folder"]) == 1
    assert KEPT.findall("ok 1\n# kept: 12\n# not kept: 3\n") == ["12"]
    assert say_unchanged(2, 0).startswith("2 of those that pass did not run: ")
    assert say_unchanged(2, 12).startswith("2 of those that pass and 12 programs of cases of others did not")


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    else:
        sys.exit(summarize(sys.argv[1:]))
