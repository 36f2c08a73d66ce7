#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What rlxc inspect says about launches on a GPU: it adds up, and --plan, --no-reorder and --no-fuse change
it. Also what rlxc says where there is no NVRTC. Usage: check_inspect.py RLXC; prints TAP."""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common"))
import tap
from tap import result

RLXC = sys.argv[1]
MODEL = os.path.join(os.environ.get("RLXC_SOURCE", "."), "models/decoder.json")


def inspect(model, *options, target="vulkan"):
    command = [RLXC, "inspect", model, "--target", target, *options]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def adds_up(d):
    kernels = [k for k in d["kernels"] if "loop" not in k["name"]]
    sizes = {}
    for k in kernels:
        sizes[k["group"]] = sizes.get(k["group"], 0) + 1
    histogram = [0] * 8
    for size in sizes.values():
        histogram[min(size, 8) - 1] += 1
    return (
        d["launches"] == len(kernels)
        and d["groups"] == len(sizes) == d["barriers"] + 1
        and d["groups_by_size"] == histogram
        and d["largest_group"] == max(sizes.values())
        and all(k["level"] <= d["barriers"] for k in kernels)
    )


def check_decoder():
    plain = json.loads(inspect(MODEL, "--json"))
    single = json.loads(inspect(MODEL, "--json", "--no-fuse"))
    fast = json.loads(inspect(MODEL, "--json", "--no-fuse", "--plan", "latency"))
    for name, d in (("", plain), ("--no-fuse", single), ("--no-fuse --plan latency", fast)):
        result(adds_up(d), f"groups of the decoder {name}", d)
    result(
        fast["barriers"] < single["barriers"],
        "--plan latency: fewer barriers",
        (single["barriers"], fast["barriers"]),
    )
    result(single["fused_nodes"] == 0 < plain["fused_nodes"], "--no-fuse: nothing is fused", single)
    text = inspect(MODEL)
    want = f"launches {plain['launches']} in {plain['groups']} groups, {plain['barriers']} barriers"
    result(want in text, "the text says the same", text)


# A variable that names a wrong file is named in the message, not passed over.
def check_wrong_library(folder):
    env = {"PATH": os.environ["PATH"], "HOME": folder, "RLXC_NVRTC": os.path.join(folder, "libnvrtc.so.13")}
    command = [RLXC, "compile", "--target", "cuda", "-o", folder, MODEL]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    said = f"$RLXC_NVRTC names '{env['RLXC_NVRTC']}'" in done.stderr
    found = "NVRTC is in a place that every program finds" if done.returncode == 0 else ""
    result(said or found != "", "a wrong RLXC_NVRTC is named", done.stderr, found)


# Two chains, one after the other in the graph, which are best run side by side.
def check_chains(folder):
    path = os.path.join(folder, "chains.rlx")
    lines = ['graph "chains" {', '  %1 = input "x" : f32[4, 16]', '  %2 = input "y" : f32[4, 16]']
    lines += [f"  %{i} = softmax(%{ {3: 1, 83: 2}.get(i, i - 1)})" for i in range(3, 163)]
    lines += ['  output "a" = %82', '  output "b" = %162', "}"]
    with open(path, "w", encoding="ascii") as f:
        f.write("\n".join(lines) + "\n")
    d = json.loads(inspect(path, "--json", "--plan", "latency"))
    old = json.loads(inspect(path, "--json", "--plan", "latency", "--no-reorder"))
    result(d["barriers"] == 79 and d["groups_by_size"][1] == 80, "two chains run side by side", d["barriers"])
    result(d["moved"] > 0 and old["moved"] == 0 and old["barriers"] > 79, "--no-reorder", old["barriers"])
    result(64 <= d["split"] < 160, "a long run is submitted in two parts", d["split"])


# Who goes around which loops, and for which of them something must be read that the model computes.
def check_loops():
    model = os.path.join(os.environ.get("RLXC_SOURCE", "."), "tests/runtime/around.json")
    computed = [False, False, True, True, True, False]
    for target in "cuda", "vulkan", "metal":
        loops = json.loads(inspect(model, "--json", target=target))["loops"]
        on_device = target == "cuda"
        want = [(n, on_device) for n in (4, 2, 3, 4, 3, 2)]
        result([(x["kernels"], x["on_device"]) for x in loops] == want, f"loops of --target {target}", loops)
        result([x["computed"] for x in loops] == computed, "which of them the model computes", loops)
        unrolled = [on_device and not x for x in computed]
        result([x["unrolled"] for x in loops] == unrolled, "which of them are unrolled", loops)
    text = inspect(model, target="cuda")
    result(text.count("4 kernels, launched by the device") == 1, "the text says the same of loops", text)
    result(text.count("kernels, all iterations recorded") == 3, "and of those that are unrolled", text)


# Rows of odd length, of which a run sets the number, are for a thread an element, not for one a row.
def check_live(folder):
    path = os.path.join(folder, "rows.json")
    rows, n = 128, 709
    inputs = {"index": {"dtype": "i64", "shape": ["T"]}, "table": {"dtype": "f32", "shape": [100, n]}}
    node = {"name": "y", "op": "gather", "inputs": ["table", "index"], "axis": 0}
    with open(path, "w", encoding="ascii") as f:
        json.dump({"rlxc": 1, "name": "rows", "inputs": inputs, "nodes": [node], "outputs": ["y"]}, f)
    for target in "cuda", "vulkan", "metal":
        found = json.loads(inspect(path, "--json", "--dim", f"T=1..{rows}", target=target))
        grid = found["kernels"][0]["grid"]
        result(grid["groups"] * grid["threads"] >= rows * n, f"elements of rows of --target {target}", grid)


# Rows that a run makes shorter are no longer than a group's threads: none of them asks for elements ahead.
def check_open_rows(folder):
    path = os.path.join(folder, "softmax.json")
    node = {"name": "y", "op": "softmax", "inputs": ["x"], "axis": 1}
    inputs = {"x": {"dtype": "f32", "shape": [4, "T"]}}
    with open(path, "w", encoding="ascii") as f:
        json.dump({"rlxc": 1, "name": "rows", "inputs": inputs, "nodes": [node], "outputs": ["y"]}, f)
    for target in "cuda", "vulkan", "metal":
        for most in 8, 500:
            kernels = json.loads(inspect(path, "--json", "--dim", f"T=1..{most}", target=target))["kernels"]
            is_there = any("softmax" in k["nodes"] for k in kernels)
            result(is_there, f"rows of up to {most} of --target {target}", kernels)


check_decoder()
check_loops()
with tempfile.TemporaryDirectory() as scratch:
    check_chains(scratch)
    check_live(scratch)
    check_open_rows(scratch)
    check_wrong_library(scratch)
sys.exit(tap.end())
