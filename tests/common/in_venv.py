# SPDX-License-Identifier: Apache-2.0
"""Tests that need packages of tools/requirements.txt go on in the Python environment that has them: the one
that RLXC_VENV names, else build/venv. To be called where an import has failed. A test must not put tests/
itself on sys.path: `import onnx` would take the folder tests/onnx for the package and would not fail."""
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77


def enter():
    """Starts the program again in the environment. Returns where there is none, or where it is in it."""
    python = pathlib.Path(os.environ.get("RLXC_VENV") or ROOT / "build" / "venv") / "bin" / "python"
    if python.exists() and "RLXC_IN_VENV" not in os.environ:
        os.environ["RLXC_IN_VENV"] = "1"
        os.execv(python, [str(python), *sys.argv])


def enter_or_skip(what):
    """The same, but ends the program as skipped. what: "onnx or numpy"."""
    enter()
    print(f"{what} is missing: tools/setup installs it", file=sys.stderr)
    sys.exit(SKIPPED)
