# SPDX-License-Identifier: Apache-2.0
"""Puts the program `rlxc` into a folder, for meson.build: get_compiler.py FOLDER BUILD SOURCE [PROGRAM].

With PROGRAM that one is copied. Without it the compiler is built from SOURCE in BUILD, a folder of its own:
nothing of a developer's build folder, with whatever options it has, gets into a package. The libraries that
Debian has as shared ones only (--libraries prints their names) are put beside it, where it looks first.
"""
import os
import shutil
import subprocess
import sys


LIBRARIES = ("libcjson.so.1", "libprotobuf-c.so.1")


def find_library(name):
    """Its path, or None where the C compiler knows no such file."""
    command = [*os.environ.get("CC", "cc").split(), "-print-file-name=" + name]
    path = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    return path if os.path.isabs(path) else None


def build(folder, source):
    if not os.path.exists(os.path.join(source, "compiler", "main.c")):
        sys.exit("rlxc: its sources are not here; install from a checkout, or set RLXC to the program")
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        options = ["--buildtype=release", "-Dtests=disabled", "-Dc_link_args=-Wl,-rpath,$ORIGIN"]
        subprocess.run(["meson", "setup", *options, folder, source], check=True)
    subprocess.run(["ninja", "-C", folder, "rlxc"], check=True)
    return os.path.join(folder, "rlxc")


def main():
    if sys.argv[1] == "--libraries":
        print(" ".join(name for name in LIBRARIES if find_library(name)))
        return
    output, folder, source, *program = sys.argv[1:]
    given = program[0] if program else ""
    found = shutil.which(given) if given else build(os.path.abspath(folder), os.path.abspath(source))
    if found is None:
        sys.exit(f"RLXC={given}: no such program")
    files = {"rlxc": found}
    if not given:
        files.update((name, find_library(name)) for name in LIBRARIES if find_library(name))
    for name, path in files.items():
        shutil.copyfile(path, os.path.join(output, name))
        os.chmod(os.path.join(output, name), 0o755)


main()
