#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run_readme.py finds what is wrong in a text: failing commands, other output, a bad directive. It skips."""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# [name, text, exit status, what must be printed]
CASES = [
    ["good", "```sh\necho one two\n```\n\n```output\none ...\n```\n", 0, ""],
    ["state lasts", "```sh\ncd docs\nx=5\n```\n```sh\necho $x\npwd\n```\n```output\n5\n.../docs\n```\n",
     0, ""],
    ["rlxc is on the PATH", "```sh\nrlxc --here\n```\n```output\nthe program --here\n```\n", 0, ""],
    ["plain blocks are not run", "```\nfalse\n```\n```sh\ntrue\n```\n", 0, ""],
    ["a command fails", "```sh\nfalse\necho on\n```\n", 1, "line 1: the commands failed (1)"],
    ["inside of a pipe's block", "```sh\ntrue\n```\n```sh\nexit 3\n```\n",
     1, "line 4: the commands failed (3)"],
    ["other output", "```sh\necho one\n```\n```output\ntwo\n```\n", 1, "expected a line 'two'"],
    ["wrong order", "```sh\necho a; echo b\n```\n```output\nb\na\n```\n", 1, "expected a line 'a'"],
    ["ended early", "```sh\necho a; exit 0\n```\n```sh\necho b\n```\n", 1, "ended early"],
    ["no block", "text\n", 1, "no sh block"],
    ["block without end", "```sh\ntrue\n", 1, "does not end"],
    ["bad directive", "<!-- run: sometimes -->\n```sh\ntrue\n```\n", 1, "not understood"],
    ["skip", "<!-- run: skip, too long -->\n```sh\nfalse\n```\n```sh\ntrue\n```\n", 0, "skipped: too long"],
    ["a tool is missing", "<!-- run: needs no-such-tool -->\n```sh\nfalse\n```\n```sh\nfalse\n```\n", 77,
     "skipped: no no-such-tool"],
    ["only one block needs it",
     "<!-- run: needs-only no-such-tool -->\n```sh\nfalse\n```\n```sh\ntrue\n```\n", 0,
     "skipped: no no-such-tool"],
]


def main():
    with tempfile.TemporaryDirectory() as root:
        os.mkdir(root + "/docs")
        open(root + "/meson_options.txt", "w", encoding="ascii").close()
        with open(root + "/program", "w", encoding="ascii") as f:
            f.write('#!/bin/sh\necho "the program $*"\n')
        os.chmod(root + "/program", 0o755)
        for name, text, status, printed in CASES:
            with open(root + "/docs/page.md", "w", encoding="ascii") as f:
                f.write(text)
            command = [sys.executable, HERE + "/run_readme.py", root + "/program", root + "/docs/page.md"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != status or printed not in done.stdout:
                sys.exit(f"{name}: status {done.returncode}, expected {status}:\n{done.stdout}{done.stderr}")
            for left in os.listdir(root + "/docs"):
                assert left == "page.md", f"{name}: left {left} in the sources"
    print(f"{len(CASES)} cases")


main()
