#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs ONNX's backend test suite and compares what fails with what is known to fail.

  check_suite.py RLXC [--update]

known.json lists the cases that rlxc refuses, by name with the reason. A case that is refused and not listed
fails this test, and so does one that is listed and passes (take it out). A wrong result, a crash and a hang
can not be listed: they always fail. docs/ONNX.md must have the counts. --update writes both anew.
"""
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
KNOWN = HERE / "known.json"
# Cases that must be there.
LEAST = {"node": 1700, "simple": 20, "pytorch-operator": 30, "pytorch-converted": 80}
DOCUMENT = HERE.parent.parent / "docs" / "ONNX.md"
TOOL = HERE.parent.parent / "tools" / "onnx-conformance"


def run_suites(rlxc, options):
    command = [sys.executable, str(TOOL), "--suite", "quick", "--json", *options]
    done = subprocess.run(command, env={**os.environ, "RLXC": rlxc}, stdout=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode == 77:
        sys.exit(77)
    if not done.stdout:
        sys.exit(f"check_suite: {' '.join(command)} printed nothing (exit {done.returncode})")
    return json.loads(done.stdout)


def problems_of(result, known, document):
    """What is not as known.json and docs/ONNX.md say."""
    refused = {c["name"]: c["reason"] for c in result["unsupported"] + result["random"]}
    bad = [c["name"] for what in ("wrong", "crashed") for c in result[what]]
    problems = [f"{what}: {c['name']}: {c['reason']}" for what in ("wrong", "crashed") for c in result[what]]
    problems += [f"refused: {name}: {why}" for name, why in refused.items() if name not in known]
    problems += [f"passes now: {name}: take it out of known.json" for name in known
                 if name in result["names"] and name not in refused and name not in bad]
    row = (f"| {result['suite']} | {result['total']} | {result['passed']} | {len(result['unsupported'])} | "
           f"{len(result['random'])} | {len(bad)} |")
    if f"onnx {result['onnx']} " in document and row not in document:
        problems.append(f"docs/ONNX.md is out of date: it lacks {row} (--update)")
    if result["total"] < LEAST[result["suite"]]:
        problems.append(f"only {result['total']} cases in suite {result['suite']}")
    return problems


def self_test():
    """The comparison must be able to fail."""
    result = {"suite": "simple", "total": 20, "names": ["a", "b", "c", "d"], "crashed": [], "random": [],
              "passed": 18, "onnx": "1", "unsupported": [{"name": "a", "reason": "x"}],
              "wrong": [{"name": "b", "reason": "y"}]}
    assert len(problems_of(result, {"a": "x"}, "")) == 1
    assert len(problems_of(result, {}, "")) == 2
    assert len(problems_of(result, {"a": "x", "c": "z", "gone": "z"}, "")) == 2
    assert len(problems_of({**result, "total": 1, "wrong": []}, {"a": "x"}, "")) == 1
    assert len(problems_of(result, {"a": "x"}, "onnx 1 says: | simple | 20 | 18 | 1 | 0 | 1 |")) == 1
    assert len(problems_of(result, {"a": "x"}, "onnx 1 says: | simple | 20 | 17 | 1 | 0 | 2 |")) == 2


def main():
    self_test()
    rlxc, update = os.path.abspath(sys.argv[1]), "--update" in sys.argv[2:]
    known = json.loads(KNOWN.read_text(encoding="utf-8"))
    problems = []
    for result in run_suites(rlxc, ["--document", str(DOCUMENT)] if update else []):
        suite = result["suite"]
        print(f"{suite} of onnx {result['onnx']}: {result['passed']} of {result['total']} pass, "
              f"{len(result['unsupported'])} refused, {len(result['random'])} random, {result['seconds']} s",
              flush=True)
        if update:
            known[suite] = {c["name"]: c["reason"] for c in result["unsupported"] + result["random"]}
        document = DOCUMENT.read_text(encoding="utf-8")
        problems += problems_of(result, known.get(suite, {}), document)
    if update:
        KNOWN.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print("\n".join(problems))
    sys.exit(1 if problems else 0)


main()
