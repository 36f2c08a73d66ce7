#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# docs/CLI.md must be what `rlxc --help-markdown` prints. With --update it is written anew. Exit codes of a
# few wrong and right command lines are checked as well. Usage: check_cli.py RLXC [--update]
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
COMMANDS = {
    0: [
        ["--help"],
        ["--version"],
        ["compile", "--help"],
        ["explain", "E0204"],
        ["ops", "matmul"],
        ["passes"],
        ["targets"],
        ["inspect", model],
        ["convert", model],
    ],
    1: [["compile"], ["compile", model, "--cpu", "z80"], ["ops", "matmull"], ["check", "/nonexistent"]],
    2: [[], ["compil"], ["inspect", model, "--jsn"], ["explain", "E9999"]],
}
for args, code in [(args, code) for code, lines in COMMANDS.items() for args in lines]:
    got = subprocess.run([rlxc, *args], capture_output=True)
    if got.returncode != code:
        failed.append(f"rlxc {' '.join(args)}: exit code {got.returncode}, expected {code}")
    if code != 0 and not got.stderr:
        failed.append(f"rlxc {' '.join(args)}: failed without a message")

for line in failed:
    print(line, file=sys.stderr)
sys.exit(bool(failed))
