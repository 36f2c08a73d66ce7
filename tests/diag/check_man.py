#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# The man pages: mandoc finds nothing wrong with any, they name every option, and all are installed.
# Usage: check_man.py RLXC PAGE...
import datetime
import os
import re
import shutil
import subprocess
import sys
import tempfile

rlxc, installed = os.path.abspath(sys.argv[1]), sys.argv[2:]


def output(*args):
    return subprocess.run([rlxc, *args], check=True, capture_output=True, text=True).stdout


overview = output("--help")
commands = re.findall(r"^  ([a-z-]+) +\S", overview[overview.index("Commands:") :], re.MULTILINE)
expected = ["rlxc.1"] + [f"rlxc-{c}.1" for c in commands]
assert sorted(map(os.path.basename, installed)) == sorted(expected), (installed, expected)
root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
with open(os.path.join(root, "debian/changelog")) as f:
    written = re.search(r"^ -- .*>  \w+, (\d+ \w+ \d+)", f.read(), re.MULTILINE)[1]
date = datetime.datetime.strptime(written, "%d %b %Y").date().isoformat()
folder = tempfile.TemporaryDirectory()
pages = [os.path.join(folder.name, name) for name in expected]
for command, page in zip([None, *commands], pages):
    text = output("--help-man", *([command] if command else []))
    with open(page, "w") as f:
        f.write(text)
    assert f" 1 {date} " in text.splitlines()[0], (text.splitlines()[0], date)
    options = re.findall(r"^  (--?[A-Za-z-]+)", output("help", command), re.MULTILINE) if command else []
    text = text.replace("\\-", "-")
    assert all(f"\\fB{o}\\fR" in text for o in options) and (options or not command), (command, options)
if not shutil.which("mandoc"):
    print("mandoc is not installed: the pages were not checked by it", file=sys.stderr)
    sys.exit(77)
lint = subprocess.run(["mandoc", "-Tlint", *pages], capture_output=True, text=True)
assert lint.returncode == 0 and not lint.stdout, lint.stdout
bad = subprocess.run(["mandoc", "-Tlint"], input=".TH A\n.SH\n", capture_output=True, text=True)
assert bad.returncode != 0, "mandoc finds nothing wrong with a broken page"
