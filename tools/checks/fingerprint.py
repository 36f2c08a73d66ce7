#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a hash of what the outcome of ./run-tests depends on: our files, the packages, the machine.

run-tests repeats nothing when it is the same as at the last run in which everything passed. --data leaves out
the sources that are compiled into programs: what tests depend on whose programs are known (unchanged.py).
--cases is what single cases depend on besides their text and what the compiler made of them (kept.h): of our
files only those of the given layers and of what runs and checks cases.
Usage: fingerprint.py [--data | --cases LAYER...]      its own test: fingerprint.py --self-test
"""
import hashlib
import os
import pathlib
import platform
import sys

import csource

MACHINE_FILES = ("/var/lib/dpkg/status", "build/venv/requirements.txt")
SOURCES = (".c", ".h", ".def")
RUNNERS = ("tests/common", "tests/e2e", "tests/gpu")  # of what the test programs that ask kept.h are made
VARIABLES = ("CC", "CXX", "CFLAGS", "LDFLAGS", "LANG", "LC_ALL", "PATH")


def cpu_model():
    """The kind of CPU: generated code is compiled for the one that is here."""
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").split("\n")
    except OSError:
        return platform.processor()
    return "".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))


def is_in(name, folders):
    return name.startswith(tuple(f"{folder}/" for folder in folders))


def is_data(name):
    """Is no source of our programs. Tests compile some of compiler/metal as they run."""
    return not (is_in(name, csource.LAYERS) and name.endswith(SOURCES)) or is_in(name, ["compiler/metal"])


def is_of_cases(name, layers):
    """layers: those that are no part of the key of a case."""
    if name.endswith(".md"):
        return False
    return is_in(name, layers) or is_in(name, RUNNERS) and name.endswith(SOURCES) or \
        name.startswith(("meson", "tests/meson", "runtime-lite/", "tools/embed"))


def choose(words):
    """What to take of our files."""
    if words[:1] == ["--cases"]:
        return lambda name: is_of_cases(name, words[1:])
    return is_data if words == ["--data"] else lambda name: True


def self_test():
    names = ("passes/lower/x.c", "ir/eval/x.c", "tests/e2e/x.c", "tests/e2e/ops/x.rlx", "docs/x.md",
             "runtime-lite/x.h", "ir/x.def", "compiler/metal/x.h", "tests/x.py", "meson.build",
             "ir/README.md")
    assert [all(map(choose([]), names)), *map(choose(["--data"]), names)] == \
        [True, False, False, True, True, True, True, False, True, True, True, True]
    assert [name for name in names if choose(["--cases", "ir"])(name)] == \
        ["ir/eval/x.c", "tests/e2e/x.c", "runtime-lite/x.h", "ir/x.def", "meson.build"]
    files = csource.list_files()
    for folder in RUNNERS + csource.CODE_FOLDERS:
        assert any(is_in(name, [folder]) and name.endswith(SOURCES) for name in files), folder


def main():
    h = hashlib.sha256()
    is_taken = choose(sys.argv[1:])

    def add(*parts):
        for part in parts:
            data = part if isinstance(part, bytes) else str(part).encode()
            h.update(b"%d:" % len(data) + data)

    for name in csource.list_files():
        if not is_taken(name):
            continue
        path = csource.ROOT / name
        add(name, path.stat().st_mode, path.read_bytes())
    for name in MACHINE_FILES:
        path = csource.ROOT / name  # an absolute name stays as it is
        add(name, path.stat().st_mtime_ns if path.exists() else "missing")
    add(platform.platform(), cpu_model(), *(os.environ.get(name, "") for name in VARIABLES))
    print(h.hexdigest())


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    else:
        main()
