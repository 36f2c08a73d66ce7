# SPDX-License-Identifier: Apache-2.0
"""Puts the program `rlxc` at a path, for meson.build: get_compiler.py OUTPUT BUILD_FOLDER SOURCE [PROGRAM].

With PROGRAM that one is copied. Without it the compiler is built from SOURCE in a folder of its own:
nothing of a developer's build folder, with whatever options it has, gets into a package.
"""
import os
import shutil
import subprocess
import sys


def build(folder, source):
    if not os.path.exists(os.path.join(source, "compiler", "main.c")):
        sys.exit("rlxc: its sources are not here; install from a checkout, or set RLXC to the program")
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        options = ["--buildtype=release", "-Dtests=disabled"]
        subprocess.run(["meson", "setup", *options, folder, source], check=True)
    subprocess.run(["ninja", "-C", folder, "rlxc"], check=True)
    return os.path.join(folder, "rlxc")


def main():
    output, folder, source, *program = sys.argv[1:]
    given = program[0] if program else ""
    found = shutil.which(given) if given else build(os.path.abspath(folder), os.path.abspath(source))
    if found is None:
        sys.exit(f"RLXC={given}: no such program")
    shutil.copyfile(found, output)
    os.chmod(output, 0o755)


main()
