#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Emitted text that reviewers should see change: one small model as plain C and with vectors. --update
# writes it anew. Usage: check_golden.py RLXC [--update]
import difflib
import os
import subprocess
import sys
import tempfile

rlxc = sys.argv[1]
root = os.environ.get("RLXC_SOURCE", ".")
failed = False
with tempfile.TemporaryDirectory() as folder:
    for model, cpu in (("gelu_example", "generic"), ("mlp", "x86-64-v4")):
        command = [
            rlxc,
            "compile",
            f"{root}/models/{model}.json",
            "-o",
            folder,
            "--name",
            model,
            "--cpu",
            cpu,
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with open(f"{folder}/{model}.c") as f:
            text = f.read()
        golden = f"{root}/tests/golden/{model}.{cpu}.c.golden"
        if "--update" in sys.argv:
            with open(golden, "w") as f:
                f.write(text)
        with open(golden) as f:
            want = f.read()
        if text != want:
            failed = True
            sys.stderr.writelines(
                difflib.unified_diff(want.splitlines(True), text.splitlines(True), golden, "emitted")
            )
sys.exit(failed)
