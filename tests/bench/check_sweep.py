#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests tools/bench/sweep without any peer: its corpus, its choice of cases, and its figures against values
worked out by hand. Prints TAP."""

import json
import math
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tools/bench/sweep"
sys.path[:0] = [str(ROOT / "tools/bench"), str(ROOT / "tests/common")]

import tap  # noqa: E402
from sweeps import cases, summary  # noqa: E402

CORPUS = cases.read(ROOT / "tools/bench/sweeps/corpus.jsonl")


def listed(*words):
    done = subprocess.run([sys.executable, str(SCRIPT), "--list", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [line.split(maxsplit=2) for line in done.stdout.splitlines()]


def test_corpus():
    keys = [cases.key_of(c) for c in CORPUS]
    assert len(set(keys)) == len(keys) >= 2000
    assert len({name for c in CORPUS for name in c["of"]}) >= 60
    assert len({c["family"] for c in CORPUS}) >= 12
    batches = {c["in"][0][0] for c in CORPUS}
    assert {1, 8, 32} <= batches


def test_facts():
    for c in CORPUS:
        assert c["count"] >= 1 and 1 <= len(c["of"]) <= 3 and c["steps"]
        assert all(size >= 1 for shape in c["in"] for size in shape), c
        used = [facts["with"] for _, facts in c["steps"] if "with" in facts]
        assert all(1 <= i < len(c["in"]) for i in used), c


def test_convolutions_fit():
    for c in CORPUS:
        op, a = c["steps"][0]
        if op == "conv":
            x = c["in"][0]
            assert len(x) == len(a["w"]) and x[1] == a["w"][1] * a["groups"], c
            assert len(a["stride"]) == len(a["pad"]) == len(a["dil"]) == len(x) - 2, c


def test_products_fit():
    for c in CORPUS:
        if c["steps"][0][0] == "linear":
            rows, n = c["in"][0][0], c["steps"][0][1]["w"][1]
            assert c["in"][0][-1] == c["steps"][0][1]["w"][0], c
            assert all(shape in ([rows, n], [n], [1]) for shape in c["in"][1:]), c


def test_choice():
    each = listed("--each", "2")
    assert len(each) == 2 * len({c["family"] for c in CORPUS}) or len(each) > 20
    assert listed("--each", "2") == each
    both = listed("--family", "product", "--dtype", "f32,int8", "--each", "3")
    assert [b[1] for b in both].count("int8") == 3 and len(both) == 6
    assert {b[0] for b in both} == {"product"}
    assert not listed("--family", "softmax", "--dtype", "int8")


def test_wrong_type():
    done = subprocess.run([sys.executable, str(SCRIPT), "--dtype", "f31"], capture_output=True, text=True)
    assert done.returncode == 2 and "f31" in done.stderr and "bf16" in done.stderr


def test_figures():
    rows = [{"ratio": r} for r in (0.5, 1, 2, 4)] + [{"failed": "x"}]
    n, mean, low, below, least = summary.figures(rows)
    assert n == 4 and math.isclose(mean, 4**0.25) and below == 0.25 and least == 0.5
    assert math.isclose(low, 0.5 + 0.15 * 0.5)
    assert summary.figures([{"failed": "x"}]) == (0, None, None, None, None)


def test_document():
    row = {
        "family": "pool",
        "dtype": "f32",
        "name": "max",
        "ours_ms": 2.0,
        "ratio": 0.5,
        "peers": {"torch": 1.0},
    }
    failed = {"family": "pool", "dtype": "f32", "name": "avg", "failed": "it stopped"}
    text = summary.document([{**row, "reason": "one kernel"}, failed])
    assert "ratio 0.50" in text and "one kernel" in text and "it stopped" in text and "1 failed" in text


def test_keys():
    case = CORPUS[0]
    again = json.loads(json.dumps(case))
    assert cases.key_of(again) == cases.key_of(case) and len(cases.spread("a")) == 64


if __name__ == "__main__":
    sys.exit(tap.run_tests(globals()))
