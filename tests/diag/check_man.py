#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# The man pages: mandoc finds nothing wrong with any, and they name every option.
# Usage: check_man.py RLXC PAGE...
import os
import pathlib
import re
import shutil
import subprocess
import sys

rlxc, pages = os.path.abspath(sys.argv[1]), [pathlib.Path(p) for p in sys.argv[2:]]
overview = subprocess.run([rlxc, "--help"], check=True, capture_output=True, text=True).stdout
commands = re.findall(r"^  ([a-z-]+) +\S", overview[overview.index("Commands:") :], re.MULTILINE)
assert {p.name for p in pages} == {"rlxc.1"} | {f"rlxc-{c}.1" for c in commands}, pages
for command in commands:
    page = next(p for p in pages if p.name == f"rlxc-{command}.1").read_text().replace("\\-", "-")
    text = subprocess.run([rlxc, "help", command], check=True, capture_output=True, text=True).stdout
    options = re.findall(r"^  (--?[A-Za-z-]+)", text, re.MULTILINE)
    assert options and all(f"\\fB{o}\\fR" in page for o in options), (command, options)
if not shutil.which("mandoc"):
    print("mandoc is not installed: the pages were not checked by it", file=sys.stderr)
    sys.exit(77)
lint = subprocess.run(["mandoc", "-Tlint", *pages], capture_output=True, text=True)
assert lint.returncode == 0 and not lint.stdout, lint.stdout
bad = subprocess.run(["mandoc", "-Tlint"], input=".TH A\n.SH\n", capture_output=True, text=True)
assert bad.returncode != 0, "mandoc finds nothing wrong with a broken page"
