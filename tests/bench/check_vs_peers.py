#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests tools/bench/vs_peers without a network or any peer: its statistics against values worked out by
hand, its list and arguments, and its tables from stored rows. Prints TAP."""

import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tools/bench/vs_peers"
sys.path[:0] = [str(ROOT / "tools/bench"), str(ROOT / "tests/common")]

import tap  # noqa: E402
from versus import report, sets, stats  # noqa: E402


def near(a, b):
    return abs(a - b) <= 1e-12 * max(1, abs(b))


def test_quantile():
    assert stats.quantile([3, 1, 2], 0.5) == 2
    assert stats.quantile([4, 1, 2, 3], 0.5) == 2.5
    assert stats.quantile([7], 0.9) == 7
    assert near(stats.quantile(range(11), 0.1), 1) and near(stats.quantile(range(11), 0.9), 9)
    assert near(stats.quantile([0, 10], 0.25), 2.5)
    values = [random.Random(1).random() for _ in range(101)]
    assert stats.quantile(values, 0) == min(values) and stats.quantile(values, 1) == max(values)


def test_no_values():
    try:
        stats.quantile([], 0.5)
    except ValueError:
        return
    raise AssertionError("a quantile of nothing")


def test_summary():
    s = stats.summary([0.002, 0.001, 0.004])
    assert near(s["median"], 2) and near(s["best"], 1) and s["samples"] == 3
    assert near(s["p10"], 1.2) and near(s["p90"], 3.6)


def test_ratio():
    assert stats.ratio(2, {"a": 6, "b": 3}) == ("b", 1.5)
    assert stats.ratio(2, {"a": None, "b": 1}) == ("b", 0.5)
    assert stats.ratio(2, {}) == (None, None) and stats.ratio(None, {"a": 1}) == (None, None)


def test_geometric_mean():
    assert near(stats.geometric_mean([2, 8]), 4) and stats.geometric_mean([]) is None


def test_relative_error():
    e = stats.relative_error
    assert e([1, 2], [1, 2]) == 0 and near(e([1, 2.5], [1, 2]), 0.25)
    assert e([0.5], [0]) == 0.5
    assert e([math.nan], [1]) == math.inf and e([1], [math.nan]) == math.inf and e([1], [1, 2]) == math.inf
    assert e([math.nan, math.inf, 3], [math.nan, math.inf, 3]) == 0
    assert e([math.inf], [-math.inf]) == math.inf


def row(name, ours, peer, **more):
    s = stats.summary([ours / 1e3])
    found = {
        "set": "cnn",
        "name": name,
        "threads": 1,
        "ours_ms": ours,
        "ours": s,
        "peers": {"onnxruntime": peer},
    }
    found.update(ratio=peer / ours, ratio_of_best=peer / ours, share_of_peak=0.5, share_of_bandwidth=0.25)
    return {**found, **more}


def rows():
    return [
        row("a", 1.0, 2.0),
        row("b", 2.0, 1.0),
        {"set": "cnn", "name": "c", "threads": 1, "skipped": "not here"},
        {"set": "cnn", "name": "d", "threads": 2, "failed": "results differ"},
    ]


def test_summarise():
    one, two = stats.summarise(rows())
    assert (one["networks"], one["timed"], one["worst"]) == (3, 2, "b")
    assert near(one["ratio"], 1) and near(one["worst_ratio"], 0.5) and near(one["share_of_peak"], 0.5)
    assert two["threads"] == 2 and two["ratio"] is None and two["worst"] is None


def test_tables():
    for markdown in (True, False):
        text = report.document(rows(), {"cpu": "some"}, ["onnxruntime"], markdown)
        for word in ("not here", "results differ", "50 %", "25 %", "0.50"):
            assert word in text, word
    head, body = report.summary_table(rows())
    assert all(len(r) == len(head) for r in body)
    lines = report.markdown_table(["x", "y"], [["a", "1"], ["b"]]).split("\n")
    assert len({line.count("|") for line in lines}) == 1


def call(*words):
    return subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True, timeout=60)


def test_list():
    out = call("--list")
    assert out.returncode == 0 and out.stdout.count("\n") == len(sets.SETS) == 7, out.stderr
    found = dict(line.split(": ", 1) for line in out.stdout.strip().split("\n"))
    assert len(found["gemm"].split(", ")) == 30 and "resnet50" in found["cnn"].split(", ")


def test_names():
    for name in sets.SETS:
        names = [n.name for n in sets.nets_of(name)]
        assert len(set(names)) == len(names), name
        assert sets.nets_of(name, quick=True) or name == "transformer", name


def test_arguments():
    for words in (
        ["--set", "none"],
        ["--threads", "x"],
        ["--threads", "0"],
        ["--threads", "100000"],
        ["--net", "none"],
        ["--with", "none"],
        ["--cores", "100000"],
    ):
        out = call(*words)
        assert out.returncode == 2 and "error:" in out.stderr, words
    out = call("--set", "cnn", "--rlxc", "/nowhere/rlxc")
    assert out.returncode == 2 and "no compiler" in out.stderr, out.stderr


def test_from_file():
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "rows.json")
        path.write_text(json.dumps(rows()), encoding="utf-8")
        out = call("--from", str(path), "--markdown")
        assert out.returncode == 0 and "| a |" in out.stdout, out.stderr
        again = call("--from", str(path), "--json")
        assert json.loads(again.stdout) == rows()


if __name__ == "__main__":
    sys.exit(tap.run_tests(globals()))
