#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a hash of what the outcome of ./run-tests depends on: our files, the packages, the machine.

run-tests repeats nothing when it is the same as at the last run in which everything passed. LAYER...: leaves
out the sources of these layers that are compiled into programs. Without all layers (--data) it is what tests
depend on whose programs are known (unchanged.py); without passes and compiler, what kept.h depends on.
Usage: fingerprint.py [--data | LAYER...]
"""
import hashlib
import os
import pathlib
import platform
import sys

import csource

MACHINE_FILES = ("/var/lib/dpkg/status", "build/venv/requirements.txt")
VARIABLES = ("CC", "CXX", "CFLAGS", "LDFLAGS", "LANG", "LC_ALL", "PATH")


def cpu_model():
    """The kind of CPU: generated code is compiled for the one that is here."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").split("\n")
    except OSError:
        return platform.processor()
    return "".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))


def is_compiled(name, layers):
    """Tests compile some of compiler/metal as they run."""
    return name.startswith(tuple(f"{layer}/" for layer in layers)) and \
        name.endswith((".c", ".h", ".def")) and not name.startswith("compiler/metal/")


def main():
    h = hashlib.sha256()
    left_out = csource.LAYERS if sys.argv[1:] == ["--data"] else sys.argv[1:]

    def add(*parts):
        for part in parts:
            data = part if isinstance(part, bytes) else str(part).encode()
            h.update(b"%d:" % len(data) + data)

    for name in csource.list_files():
        if is_compiled(name, left_out):
            continue
        path = csource.ROOT / name
        add(name, path.stat().st_mode, path.read_bytes())
    for name in MACHINE_FILES:
        path = csource.ROOT / name  # an absolute name stays as it is
        add(name, path.stat().st_mtime_ns if path.exists() else "missing")
    add(platform.platform(), cpu_model(), *(os.environ.get(name, "") for name in VARIABLES))
    print(h.hexdigest())


if __name__ == "__main__":
    main()
