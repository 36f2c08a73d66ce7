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

rlxc = sys.argv[1]
root = os.environ.get("RLXC_SOURCE", ".")
table = os.path.join(root, "tests", "limits", "limits.json")
FIELDS = ("kernels", "functions", "arena_bytes", "state_bytes", "weight_bytes", "code_bytes")


def models():
    for path in sorted(glob.glob(root + "/models/*.json") + glob.glob(root + "/models/*/*.json")):
        yield os.path.splitext(os.path.basename(path))[0], path
    for name in ("mnist_cntk", "ultraface_rfb320", "yolox_nano", "yunet_n_320", "dtln_1"):
        yield name, f"{root}/../shared/models/onnx/{name}/model.onnx"


def measure(path, cpu):
    text = subprocess.run(
        [rlxc, "inspect", path, "--json", "--cpu", cpu], check=True, capture_output=True
    ).stdout
    d = json.loads(text)
    d["kernels"] = len(d["kernels"])
    if d["arena_bytes"] > 1.10 * d["arena_lower_bound_bytes"]:
        failed.append(f"{path} {cpu}: arena {d['arena_bytes']}, bound {d['arena_lower_bound_bytes']}")
    return {field: d[field] for field in FIELDS}


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
