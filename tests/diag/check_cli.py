#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# docs/CLI.md must be what `rlxc --help-markdown` prints. With --update it is written anew. Exit codes of a few wrong and
# right command lines are checked as well. Usage: check_cli.py RLXC [--update]
import os
import subprocess
import sys

rlxc = sys.argv[1]
root = os.environ.get("RLXC_SOURCE", ".")
page = os.path.join(root, "docs", "CLI.md")
text = subprocess.run([rlxc, "--help-markdown"], check=True, capture_output=True, text=True).stdout
if "--update" in sys.argv:
    with open(page, "w") as f:
        f.write(text)

failed = []
with open(page) as f:
    if f.read() != text:
        failed.append("docs/CLI.md is out of date: run with --update")

model = os.path.join(root, "models", "gelu_example.json")
for args, code in [(["--help"], 0), (["--version"], 0), ([], 2), (["compil"], 2), (["compile", "--help"], 0), (["compile"], 1),
                   (["compile", model, "--cpu", "z80"], 1), (["inspect", model, "--jsn"], 2), (["explain", "E0204"], 0),
                   (["explain", "E9999"], 2), (["ops", "matmul"], 0), (["ops", "matmull"], 1), (["passes"], 0), (["targets"], 0),
                   (["inspect", model], 0), (["check", "/nonexistent"], 1), (["convert", model], 0)]:
    got = subprocess.run([rlxc, *args], capture_output=True)
    if got.returncode != code:
        failed.append(f"rlxc {' '.join(args)}: exit code {got.returncode}, expected {code}")
    if code != 0 and not got.stderr:
        failed.append(f"rlxc {' '.join(args)}: failed without a message")

for line in failed:
    print(line, file=sys.stderr)
sys.exit(bool(failed))
