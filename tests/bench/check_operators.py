#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests tools/bench/operators without any peer: the table and its counts from stored rows, and the errors of
its arguments. Prints TAP."""

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tools/bench/operators"
sys.path.insert(0, str(ROOT / "tools/bench"))

from versus import operator_rows  # noqa: E402


def timed(name, kind, ratio):
    row = {"name": name, "kind": kind, "ours_ms": 1.0, "peer_ms": ratio, "error": 0.0}
    return {**row, "ratio": ratio, "ratio_of_best": ratio}


ROWS = [
    timed("Conv", "Conv", 2.0),
    timed("Conv depthwise", "Conv", 0.95),
    timed("Sin", "Sin", 4.0),
    timed("Pad", "Pad", 0.5),
    {"name": "Pad edge", "kind": "Pad", "failed": "results differ by 1"},
    {"name": "Det", "kind": "Det", "failed": "no compiler"},
]


def call(*words):
    return subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True, timeout=60)


def test_kinds():
    wanted = {"Conv": 0.95, "Sin": 4.0, "Pad": None, "Det": None}
    assert operator_rows.kinds(ROWS) == wanted
    assert operator_rows.kinds(ROWS[::-1]) == wanted


def test_summary():
    text = operator_rows.summary(ROWS)
    assert text.startswith("4 kinds of operators, 2 timed: 2 at 0.9 or better, 1 at 1.0 or better"), text
    assert text.endswith("geometric mean 1.95"), text
    assert "none was timed" in operator_rows.summary(ROWS[-1:])


def test_table():
    lines = operator_rows.table(ROWS).split("\n")
    assert [line.split("  ")[0] for line in lines[1:7]] == [
        *("Pad", "Conv depthwise", "Conv", "Sin", "Pad edge", "Det")
    ]
    assert "FAILED: no compiler" in lines[6]


def test_from_file():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "rows.json")
        path.write_text(json.dumps(ROWS), encoding="utf-8")
        out = call("--from", str(path))
        assert out.returncode == 0 and out.stdout == operator_rows.table(ROWS) + "\n", out.stderr


def test_arguments():
    out = call("--rlxc", "/nowhere/rlxc")
    assert out.returncode == 2 and "no compiler" in out.stderr, out.stderr
    assert call("--seconds", "x").returncode == 2


def main():
    tests = [(name, fn) for name, fn in sorted(globals().items()) if name.startswith("test_")]
    print(f"1..{len(tests)}")
    failed = 0
    for i, (name, fn) in enumerate(tests, 1):
        try:
            fn()
            print(f"ok {i} - {name}")
        except Exception as e:  # every kind of failure is one failed test
            failed += 1
            print(f"not ok {i} - {name}\n# {type(e).__name__}: {e}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
