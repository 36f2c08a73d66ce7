#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Kernels, arena, weights and emitted text of the models, against limits.json: more of any is a
# regression. Models under ../shared are compared where they are. --update writes the table anew. Usage:
# check_limits.py RLXC [--update]
import glob
import json
import os
import subprocess
import sys
import tempfile

rlxc = sys.argv[1]
root = os.environ.get("RLXC_SOURCE", ".")
table = os.path.join(root, "tests", "limits", "limits.json")
FIELDS = ("kernels", "functions", "arena_bytes", "state_bytes", "weight_bytes", "text_bytes")


def models():
    for path in sorted(glob.glob(root + "/models/*.json") + glob.glob(root + "/models/*/*.json")):
        yield os.path.splitext(os.path.basename(path))[0], path
    for name in ("mnist_cntk", "ultraface_rfb320", "yolox_nano", "yunet_n_320", "dtln_1"):
        yield name, f"{root}/../shared/models/onnx/{name}/model.onnx"


def measure(path, cpu):
    text = subprocess.run(
        [rlxc, "inspect", path, "--json", "--no-code", "--cpu", cpu], check=True, capture_output=True
    ).stdout
    d = json.loads(text)
    d["kernels"] = len(d["kernels"])
    if d["arena_bytes"] > 1.10 * d["arena_lower_bound_bytes"]:
        failed.append(f"{path} {cpu}: arena {d['arena_bytes']}, bound {d['arena_lower_bound_bytes']}")
    return {field: d[field] for field in FIELDS}


def inspect(path, *options):
    command = [rlxc, "inspect", path, "--no-code", "--cpu", "x86-64-v4", *options]
    d = json.loads(subprocess.run([*command, "--json"], check=True, capture_output=True).stdout)
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    trades = [k["traded"] for k in d["kernels"] if "traded" in k]
    assert text.count("traded ") == len(trades), text
    return d["arena_bytes"] + d["weight_bytes"], trades


def check_prices():
    """Memory is traded for time at the given price only, and inspect says what was traded: in the small
    network Winograd's convolution saves too little for what it takes."""
    digits = root + "/models/digits/digits.json"
    default = inspect(digits)
    none, some, most = (inspect(digits, "--memory-price", x) for x in ("1e9", "0.02", "0"))
    assert none[1] == [] and default == none, (default, none)
    assert len(some[1]) == len(most[1]) == 1, (some, most)
    assert none[0] < some[0] < most[0], (none, some, most)
    for t in some[1] + most[1]:
        assert t["scratch_bytes"] > 0 and t["weight_bytes"] > 0 and t["cycles"] < 0.87 * t["plain_cycles"], t
    assert some[1][0]["scratch_bytes"] < most[1][0]["scratch_bytes"]
    for wrong in ("-1", "x", "nan"):
        command = [rlxc, "inspect", digits, "--memory-price", wrong]
        done = subprocess.run(command, capture_output=True, check=False)
        assert done.returncode == 2 and b"--memory-price" in done.stderr, done


def check_headers():
    """A network of fixed size without states has little of runtime-lite in its headers: lines of both."""
    for options, most in (((), 399), (("--api", "core"), 249)):
        with tempfile.TemporaryDirectory() as folder:
            digits = root + "/models/digits/digits.json"
            command = [rlxc, "compile", digits, "--dim", "batch=1", "-o", folder, "--no-validate", *options]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            lines = sum(len(open(path).readlines()) for path in glob.glob(folder + "/*.h"))
        assert 150 < lines <= most, f"headers of digits {options}: {lines} lines, limit {most}"


check_headers()
check_prices()
failed, now, skipped = [], {}, []
limits = json.load(open(table)) if os.path.exists(table) else {}
for name, path in models():
    for cpu in ("generic", "x86-64-v3"):
        key = f"{name} {cpu}"
        if not os.path.exists(path):
            skipped.append(key)
            now[key] = limits.get(key)
            continue
        now[key] = measure(path, cpu)
        for field in FIELDS:
            limit = limits.get(key, {}).get(field)
            if limit is None or now[key][field] > limit:
                failed.append(f"{key}: {field} {now[key][field]}, limit {limit}")
# Few bytes of file that ask for minutes of folding, or for gigabytes: what exceeds the budget stays in the
# graph. Constants of 64 MiB may be made, and packed once more.
WORK_SECONDS, NEW_BYTES = 4, 128 << 20
WORK = {
    "product": '"op": "matmul", "inputs": ["big", "big"]',
    "scan": '"op": "cumsum", "inputs": ["big"], "axis": 0',
}


def child_seconds():
    """Of processor: other processes of a busy machine do not count."""
    t = os.times()
    return t.children_user + t.children_system


def check_work(what, node, size):
    model = """{"rlxc": 1, "name": "w", "inputs": {"x": {"dtype": "f32", "shape": [SIZE, SIZE]}},
 "weights": {"one": {"dtype": "f32", "data": [[1.5]]}},
 "nodes": [{"name": "big", "op": "expand", "inputs": ["one"], "shape": [SIZE, SIZE]},
  {"name": "w", NODE}, {"name": "y", "op": "add", "inputs": ["w", "x"]}],
 "outputs": ["y"]}"""
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/w.json", "w") as f:
            f.write(model.replace("NODE", node).replace("SIZE", str(size)))
        began = child_seconds()
        command = [rlxc, "compile", f"{folder}/w.json", "-o", folder, "--no-validate"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds, weights = child_seconds() - began, f"{folder}/w.weights"
        new = os.path.getsize(weights) if os.path.exists(weights) else 0
        if done.returncode != 0 or seconds > WORK_SECONDS or new > NEW_BYTES:
            failed.append(
                f"constant {what} of {size}: status {done.returncode}, {seconds:.1f} s, "
                f"{new} bytes of weights: {done.stderr}"
            )


for what, node in WORK.items():
    for size in (4000, 8192):
        check_work(what, node, size)
if "--update" in sys.argv:
    with open(table, "w") as f:
        json.dump(now, f, indent=1)
        f.write("\n")
    failed = []
for line in failed:
    print(line, file=sys.stderr)
if skipped:
    print(f"skipped, not here: {', '.join(skipped)}")
sys.exit(bool(failed))
