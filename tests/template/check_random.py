#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random templates say what jinja2 says, and fail where it fails.
Usage: check_random.py RLXC [SEED COUNT]; prints TAP."""

import json
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path[:0] = [
    str(pathlib.Path(__file__).resolve().parents[1] / "common"),
    str(pathlib.Path(__file__).resolve().parent),
]

import generator  # noqa: E402
import rotation  # noqa: E402
import tap  # noqa: E402

try:
    import jinja_reference as reference
except ImportError:
    reference = None

RLXC = pathlib.Path(sys.argv[1]).resolve()
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else rotation.DAY
COUNT = int(sys.argv[3]) if len(sys.argv) > 3 else 400
FOLDER = tempfile.TemporaryDirectory()
CONFIG = pathlib.Path(FOLDER.name) / "tokenizer_config.json"


def ours(text, variables):
    """The text; None: a message about the template; an error for anything else."""
    CONFIG.write_text(json.dumps({"chat_template": text}), encoding="utf-8")
    done = subprocess.run(
        [RLXC, "template", CONFIG], input=json.dumps(variables).encode(), capture_output=True, timeout=60
    )
    if done.returncode == 0:
        return done.stdout.decode()
    assert done.returncode == 1 and b"error[E0120]" in done.stderr, done.stderr.decode()
    return None


def one(seed):
    rng = random.Random(seed)
    text, variables = generator.Maker(rng).template(), generator.variables(rng)
    if not reference.is_complete(text):
        return False
    expected, got = reference.render(text, variables), ours(text, variables)
    about = f"template {seed}\n{text}\nvariables {json.dumps(variables)}\n"
    assert got == expected, f"{about}expected {expected!r}\nfound    {got!r}"
    return expected is not None


def test_random():
    if reference is None:
        raise tap.Skipped("jinja2 is not installed (tools/setup)")
    said = sum(one(SEED * 1000000 + i) for i in range(COUNT))
    print(f"# seed {SEED}: {said} of {COUNT} templates say something")
    assert said > COUNT / 10


if __name__ == "__main__":
    sys.exit(tap.run_tests(globals()))
