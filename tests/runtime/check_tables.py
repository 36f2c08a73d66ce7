#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tables of --tables: they say what inspect says with the same options, on every target; and without the
option nothing of them is in a program. Usage: check_tables.py RLXC; prints TAP."""
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../common"))
import tap
from tap import result

RLXC = os.path.abspath(sys.argv[1])
ROOT = os.path.join(HERE, "../..")
COUNTS = "launches barriers barriers_placed moved groups largest_group fused_nodes split".split()
BUFFER = re.compile(
    r'^    \{(\d+)u, (\d+)u, "(.*)", "(.*)",\n     RLX_REGION_(\w+), (\d+)u, (\d+)u, \w+, \d+u, \d+u, ', re.M
)
CASES = [
    ("models/transformer.json", "c"), ("models/transformer.json", "c", "--threads", "2"),
    ("models/decoder.json", "c"), ("models/decoder.json", "vulkan", "--plan", "latency"),
    ("models/decoder.json", "metal"), ("models/transformer.json", "vulkan", "--no-fuse"),
    ("tests/runtime/plan.json", "metal", "--bucket", "rows=4,16"),
]  # fmt: skip


def rlxc(*args):
    return subprocess.run([RLXC, *args], check=True, capture_output=True, text=True, timeout=60).stdout


def table(text, name):
    """What stands between the braces behind the name of a table of NAME.c."""
    return re.search(rf" {name}(?:\[\])? = \{{(.*?)\}};\n", text, re.S)[1]


def check(folder, model, target, *options):
    line = [os.path.join(ROOT, model), "--target", target, "--name", "m", "--tables", *options]
    rlxc("compile", *line, "-o", folder, "--no-validate")
    said = json.loads(rlxc("inspect", *line, "--json", "--no-code"))
    with open(f"{folder}/m.c", encoding="ascii") as f:
        text = f.read()
    name = " ".join([model, target, *options])
    counts = [int(n) for n in re.findall(r"\d+", table(text, "rlx_tables tables"))][: len(COUNTS)]
    result(counts == [said[key] for key in COUNTS], f"counts of {name}", counts)
    rows = [m.groups() for m in BUFFER.finditer(table(text, "rlx_buffer buffers"))]
    placed = [
        [b["id"], b["name"], b["nodes"], b["offset"], b["bytes"]] for b in said["buffers"] if b["bytes"] > 0
    ]
    found = [
        [int(r[0]), r[2], r[3], int(r[5]), int(r[6])] for r in rows if r[4] == "ARENA" and r[1] == "0"
    ]
    result(found == placed and len(placed) > 2, f"buffers of {name}", (found, placed))
    lines = table(text, "rlx_grid grids").split("\n")
    grids = [[int(n) for n in re.findall(r"\d+", line)] for line in lines if "{" in line]
    if target != "c":
        none = {"groups": 0, "threads": 0}
        want = [list(k.get("grid", none).values()) for k in said["kernels"]]
        result(grids[-len(want) :] == want, f"grids of {name}", grids)


def check_costs(folder):
    """One object file with and without: nothing is left of them but the pointer."""
    sizes = {}
    for name, options in ("none", []), ("some", ["--tables"]):
        to = f"{folder}/{name}"
        rlxc("compile", f"{HERE}/plan.json", "--dim", "rows=4", "--name", "plan", *options, "-o", to)
        with open(f"{folder}/{name}/plan_rlx.h", encoding="ascii") as f:
            has = "rlx_buffer" in f.read()
        result(has == (name == "some"), f"the header of a model with {name}")
        command = ["cc", "-O2", "-c", f"{folder}/{name}/plan.c", "-o", f"{folder}/{name}.o"]
        subprocess.run(command, check=True, timeout=60)
        command = ["nm", f"{folder}/{name}.o"]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        sizes[name] = {"tables", "buffers", "grids"} & set(said.split())
    want = {"none": set(), "some": {"tables", "buffers", "grids"}}
    result(sizes == want, "objects with and without", sizes)


with tempfile.TemporaryDirectory() as top:
    for case in CASES:
        check(top, *case)
    check_costs(top)
sys.exit(tap.end())
