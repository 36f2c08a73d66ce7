#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generated code with --threads: built without warnings as C99 and C++, run with several numbers of threads,
under the address and (where the compiler has it) the thread sanitizer. Threads must have something to share
and barriers to wait at; nothing of them is emitted without the option. Usage: check_threads.py RLXC"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

RLXC = pathlib.Path(sys.argv[1]).resolve()
HERE = pathlib.Path(__file__).resolve().parent
WARN = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
BUILDS = (
    ["cc", "-std=c99", "-O1"],
    ["c++", "-x", "c++", "-O1"],
    ["cc", "-std=gnu99", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
    ["cc", "-std=gnu99", "-O1", "-g", "-fsanitize=thread"],
    ["clang", "-std=c99", "-O1"],
)
TIME_LIMIT = 120


def compile_model(folder, *options):
    command = [RLXC, "compile", HERE / "shared.rlx", "-o", folder, "--name", "shared", *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=TIME_LIMIT)
    return (folder / "shared.c").read_text() + (folder / "shared.h").read_text()


def inspect(threads):
    command = [RLXC, "inspect", HERE / "shared.rlx", "--json", "--threads", str(threads)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, timeout=TIME_LIMIT).stdout)


def builds_here(build, folder):
    (folder / "empty.c").write_text("int main(void)\n{\n    return 0;\n}\n")
    command = [*build, "empty.c", "-o", "empty", "-pthread"]
    if shutil.which(build[0]) is None:
        return False
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=TIME_LIMIT)
    return done.returncode == 0 and subprocess.run([folder / "empty"], timeout=TIME_LIMIT).returncode == 0


def check_build(build, folder, runs):
    flags = [
        *WARN,
        "-pthread",
        "-I",
        folder,
        HERE / "threads_test.c",
        folder / "shared.c",
        "-o",
        folder / "p",
    ]
    subprocess.run([*build, *flags, "-lm"], check=True, cwd=folder, timeout=TIME_LIMIT)
    for parts in runs:
        subprocess.run([folder / "p", str(parts)], check=True, timeout=TIME_LIMIT)


def main():
    kernels = inspect(4)["kernels"]
    assert sum(k["split"] for k in kernels) >= 3 and any(k["waits"] for k in kernels), kernels
    with tempfile.TemporaryDirectory() as top:
        folder = pathlib.Path(top)
        for word in "pthread", "rlx_team", "rlx_barrier":
            assert word not in compile_model(folder), word
        for wrong in "0", "65", "two", "-1":
            command = [RLXC, "compile", HERE / "shared.rlx", "-o", folder, "--threads", wrong]
            assert subprocess.run(command, capture_output=True, timeout=TIME_LIMIT).returncode == 2, wrong
        text = compile_model(folder, "--threads", "7")
        assert "-pthread" in text.splitlines()[1], text.splitlines()[1]
        for build in BUILDS:
            if builds_here(build, folder):
                check_build(build, folder, (2, 3, 7))
            else:
                print("not here:", *build)


main()
