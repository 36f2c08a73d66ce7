#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""That examples/two_models would notice: with one block of memory for all contexts of a model, its threads
are a race that the thread sanitizer must find. The README, which another test runs, has the program as it
is.
Usage: check_two_models.py RLXC"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

RLXC = pathlib.Path(sys.argv[1]).resolve()
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OWN, SHARED = "lstm_init(&ctx, w->arena,", "lstm_init(&ctx, together[1].arena,"


def main():
    with tempfile.TemporaryDirectory() as top:
        folder = pathlib.Path(top) / "examples/two_models"
        shutil.copytree(ROOT / "examples/two_models", folder, ignore=shutil.ignore_patterns("build"))
        shutil.copytree(ROOT / "models", pathlib.Path(top) / "models")
        program = folder / "threads.c"
        text = program.read_text()
        assert OWN in text
        program.write_text(text.replace(OWN, SHARED))
        done = subprocess.run(["make", f"RLXC={RLXC}", "SANITIZE=thread"], cwd=folder, capture_output=True,
                              text=True, timeout=120, check=False)
    assert done.returncode != 0 and "ThreadSanitizer: data race" in done.stderr, done.stdout + done.stderr


main()
