#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The sizes that rlxc prints for GPU targets are those of the generated header: of the program's own blocks,
and of the device's memory. Usage: check_sizes.py RLXC; prints TAP."""
import json
import os
import re
import subprocess
import sys
import tempfile

RLXC = sys.argv[1]
ROOT = os.environ.get("RLXC_SOURCE", ".")
MODELS = ["mlp", "lstm_stream", "digits/digits"]
TARGETS = [["cuda", "--gpu", "text"], ["vulkan"]]
SIZES = ["arena_bytes", "state_bytes", "weight_bytes", "device_bytes"]


def compile_model(model, target, folder):
    command = [RLXC, "compile", f"{ROOT}/models/{model}.json", "-o", folder, "--name", "m", "--json"]
    done = subprocess.run([*command, "--target", *target], capture_output=True, check=True, timeout=100)
    with open(f"{folder}/m.h", encoding="utf-8") as f:
        header = f.read()
    printed = json.loads(done.stdout)
    found = dict(re.findall(r"^#define M_(\w+_BYTES) (\d+)u", header, re.MULTILINE))
    return [printed.get(s) for s in SIZES], [int(found[s.upper()]) for s in SIZES]


def main():
    cases = [(m, t) for m in MODELS for t in TARGETS]
    failed = 0
    print(f"1..{len(cases)}")
    for i, (model, target) in enumerate(cases):
        with tempfile.TemporaryDirectory() as folder:
            printed, found = compile_model(model, target, folder)
        ok = printed == found and found[-1] > found[0]
        failed += not ok
        print(f"{'' if ok else 'not '}ok {i + 1} - {model}, {target[0]}: {printed}, in the header {found}")
    return failed != 0


sys.exit(main())
