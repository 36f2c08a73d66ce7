#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sizes that are set between runs: each model is compiled once, and `rlxc verify` runs it at its least
sizes, the largest ones and some between, against the reference evaluator at exactly these, and it must have a
plan for GPUs. What cannot be compiled for open sizes must say so."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

from dynamic_cases import CASES, REFUSED

HEAD = """graph "dynamic" {
  symbol seq [1, 19] multiple 1 default 7
  symbol batch [1, 3] multiple 1
  symbol past [0, 11] multiple 1
  symbol block [8, 32] multiple 8
"""
OPEN = "  symbol open [1, 1099511627776] multiple 1\n"


def const(node, shape):
    """A constant of some whole numbers."""
    count = 1
    for d in shape:
        count *= d
    values = ", ".join(str((i * 5 % 7 - 3) / 4) for i in range(count))
    return f"%{node} = const : f32[{', '.join(map(str, shape))}] = {{{values}}}"


# Arguments of `rlxc run` on a model of f32[batch, seq, open], where open has no largest size; what it prints.
LINES = [
    (["--dynamic", "--dim", "open=3", "--random", "1"], "y2: f32[3, 7, 3]"),
    (["--dim", "seq=2..5", "--dim", "batch=2", "--dim", "open=1", "--random", "1"], "y2: f32[2, 5, 1]"),
    (["--dim", "seq=1..9", "--dim", "batch=2", "--dim", "open=1..4", "--random", "1"], "y2: f32[2, 7, 4]"),
    (
        ["--dynamic", "--dim", "open=1..4", "--arena-at", "seq=4", "--arena-at", "open=2", "--random", "1"],
        "y2: f32[3, 4, 2]",
    ),
    (
        ["--dynamic", "--random", "1"],
        "'open' (axis 2 of input 'x') needs a size: give it with --dim open=1..VALUE",
    ),
    (["--dim", "open=dynamic"], "dimension 'open' has no largest size: give it with --dim open=1..VALUE"),
    (["--dim", "seq=0..5"], "--dim seq=0..5: the sizes must be from 1 to 19"),
    (["--dim", "seq=5..20"], "--dim seq=5..20: the sizes must be from 1 to 19"),
    (["--dim", "more=dynamic"], "the graph has no symbolic dimension 'more'"),
    (["--dim", "seq=sometimes"], "only for ONNX models"),
    (
        ["--dim", "seq=dynamic", "--arena-at", "seq=20"],
        "--arena-at seq=20: the size must be from 1 to 19",
    ),
    (["--dim", "seq=4", "--arena-at", "seq=4"], "--arena-at seq=4: the size is not set between runs"),
    (["--dynamic", "--arena-at", "more=4"], "--arena-at more: the graph has no symbolic dimension 'more'"),
    (["--dynamic", "--arena-at", "seq"], "--arena-at seq: expected NAME=VALUE"),
    (["--dim", "block=9..15", "--dim", "open=1"], "there is no multiple of 8 from 9 on"),
]
LINES_MODEL = [
    "lines",
    """%1 = input "x" : f32[batch, seq, open]
    %2 = neg(%1)""",
    [2],
]


def transformer(folder):
    """The block of models/ for several tokens at once, whose keys go into the cache together."""
    models = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "models")
    with open(os.path.join(models, "transformer.json"), encoding="utf-8") as f:
        m = json.load(f)
    shutil.copy(os.path.join(models, "small.safetensors"), folder)
    m["symbols"] = {"seq": {"min": 1, "max": 24, "default": 4}}
    m["inputs"] = {
        "x": {"dtype": "f32", "shape": ["seq", 64]},
        "position": {"dtype": "i64", "shape": ["seq"]},
    }
    shapes = {"q_heads": ["seq", 4, 16], "k_heads": ["seq", 2, 16], "v_row": ["seq", 2, 16]}
    nodes = []
    for n in m["nodes"]:
        if n["name"] in shapes:
            n["shape"] = shapes[n["name"]]
        if n["name"] in ("q_heads", "k_heads"):
            nodes.append(dict(n, name=n["name"] + "_rows"))
            n = {"name": n["name"], "op": "transpose", "inputs": [n["name"] + "_rows"], "perm": [1, 0, 2]}
        if n["name"] == "k_row":
            n = {"name": "k_row", "op": "transpose", "inputs": ["k"], "perm": [1, 0, 2]}
        if n["name"] == "row_start":
            nodes.append({"name": "at", "op": "slice", "inputs": ["position"], "starts": [0], "ends": [1]})
            n["inputs"] = ["at", "origin"]
        if n["name"] == "seen":
            nodes.append({"name": "column", "op": "reshape", "inputs": ["position"], "shape": ["seq", 1]})
            n["inputs"] = ["slots", "column"]
        if n["name"] == "mixed":
            nodes.append(n)
            n = {"name": "mixed_rows", "op": "transpose", "inputs": ["mixed"], "perm": [1, 0, 2]}
        if n["name"] == "mixed_flat":
            n.update(inputs=["mixed_rows"], shape=["seq", 64])
        nodes.append(n)
    m["nodes"] = nodes
    path = os.path.join(folder, "transformer.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(m, f)
    return path


def graph(case):
    lines = []
    for line in case[1].split("\n"):
        words = line.split()
        if words and words[0] == "CONST":
            line = const(words[1], [int(w) for w in words[2:]])
        lines.append("  " + line.strip() + "\n")
    text = HEAD + "".join(sorted(lines, key=lambda line: line.startswith("  state %")))
    return text + "".join(f'  output "y{i}" = %{i}\n' for i in case[2]) + "}\n"


def main():
    rlxc = sys.argv[1]
    number, failed = 0, []
    print(f"1..{2 * len(CASES) + len(REFUSED) + len(LINES) + 2}")

    def report(name, ok, r):
        nonlocal number
        number += 1
        print("ok" if ok else "not ok", number, "-", name)
        if not ok:
            failed.append(name)
            print("# " + (r.stdout + r.stderr).replace("\n", "\n# "), flush=True)

    def run(command, path, *options):
        command = [rlxc, command, path, *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "case.rlx")

        def write(text):
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)

        for case in CASES:
            write(graph(case))
            r = run("verify", path, "--dynamic")
            report(case[0], r.returncode == 0, r)
            r = run("inspect", path, "--dynamic", "--target", "cuda")
            report(case[0] + ", on GPUs", r.returncode == 0, r)
        for case in REFUSED:
            write(graph(case))
            r = run("verify", path, "--dynamic")
            report("refused: " + case[0], r.returncode == 1 and case[3] in r.stderr, r)
        r = run("verify", transformer(folder), "--dynamic")
        report("a block of a transformer", r.returncode == 0, r)
        write(graph(LINES_MODEL).replace(HEAD, HEAD + OPEN))
        r = run(
            "compile",
            path,
            "-o",
            folder,
            "--json",
            "--dim",
            "seq=2..9",
            "--dim",
            "batch=1",
            "--dim",
            "open=1",
        )
        ok = json.loads(r.stdout)["symbols"] == [
            {"name": "seq", "min": 2, "max": 9, "multiple": 1, "first": 7}
        ]
        report("symbols in what compile says", ok, r)
        for options, expected in LINES:
            r = run("run", path, *options)
            report("run " + " ".join(options), expected in r.stdout + r.stderr, r)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
