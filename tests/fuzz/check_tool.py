#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What tools/fuzz does without running long: it is skipped where clang has no libFuzzer, refuses targets that
it does not have, and has those that the build has. `check_tool.py TOOL`.
"""

import os
import pathlib
import re
import subprocess
import sys

TOOL = pathlib.Path(sys.argv[1])


def run(*arguments, **environment):
    command = [sys.executable, TOOL, *arguments]
    environment = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


missing = run("json", CLANG="/no/such/clang")
assert missing.returncode == 77 and "skipped" in missing.stdout, missing
wrong = run("yaml")
assert wrong.returncode == 2 and "found 'yaml'" in wrong.stderr, wrong
for option in ("--minutes", "--jobs", "--mutants"):
    assert run(option, "0").returncode == 2, option
listed = re.search(r"foreach format : \[(.*?)\]", (TOOL.parent.parent / "tests/fuzz/meson.build").read_text())
for name in re.findall(r"'(\w+)'", listed.group(1)):
    assert f"{name}," in wrong.stderr or f"{name} or" in wrong.stderr, name
