#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model with all that can be asked for: its header has no warnings in C99, C11 and C++ with the compilers
that are here, and each of its functions is called, and runs, where the allocator aborts (everything_test.c).
The functions come from the header's text: one that is new has to be called there.
Usage: check_everything.py RLXC
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

RLXC = pathlib.Path(sys.argv[1]).resolve()
HERE = pathlib.Path(__file__).resolve().parent
OPTIONS = [
    "--api=full",
    *("--handle", "scale=next_scale"),
    *("--keep", "inner", "--output-set", "some=total", "--profile", "--embed-source"),
    *("--threads", "2", "--bucket", "rows=16,64", "--arena", "static", "--moe-resident", "2"),
]
WARN = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
LANGUAGES = ["-std=c99"], ["-std=c11"], ["-x", "c++", "-std=c++11"], ["-x", "c++", "-std=c++17"]
ALONE = '#include "everything.h"\nint main(void)\n{\n    return everything_model.n_inputs == 99u;\n}\n'
TIME_LIMIT = 120


def run(command, folder, **more):
    return subprocess.run(command, check=True, cwd=folder, timeout=TIME_LIMIT, **more)


def check_header(folder):
    (folder / "alone.c").write_text(ALONE)
    for compiler in "gcc", "clang":
        if shutil.which(compiler) is None:
            print("NOT CHECKED, is not here:", compiler)
            continue
        for language in LANGUAGES:
            run([compiler, *language, *WARN, "-c", "alone.c", "everything.c"], folder)


# All that the header defines or declares: nothing of it is indented.
def functions_of(text):
    return set(re.findall(r"^(?:static inline )?[a-z]\w+ (?:\w+ )*\**(\w+)\(", text, re.MULTILINE))


def functions_that_ran(folder):
    sources = [HERE / "everything_test.c", "everything.c"]
    flags = ["-std=gnu99", "-O0", "-fno-builtin", "-finstrument-functions", "-pthread", "-I."]
    run(["cc", *flags, *sources, "-o", "p", "-lm"], folder)
    ran = run(["./p"], folder, capture_output=True, text=True).stdout.split()
    symbols = [
        line.split()
        for line in run(["nm", "p"], folder, capture_output=True, text=True).stdout.splitlines()
    ]
    at = {}
    for address, _, name in (s for s in symbols if len(s) == 3):
        at.setdefault(int(address, 16), set()).add(name)
    main = next(address for address, names in at.items() if "main" in names)
    return set().union(*(at[main + int(distance)] for distance in ran))


# What only models on devices call: tests/gpu runs it.
OF_DEVICES = {"rlx_lap_run", "rlx_run_overlapped", "rlx_time_ends", "rlx_times_kernels"}


def check_functions(folder):
    functions = functions_of("".join((folder / f"everything{end}.h").read_text() for end in ("", "_rlx")))
    assert {"everything", "everything_static", "rlx_run", "rlx_find_value", "rlx_set_symbol"} <= functions
    assert len(functions) > 80, sorted(functions)
    missing = functions - OF_DEVICES - functions_that_ran(folder)
    assert not missing, f"everything_test.c does not call {sorted(missing)}"


def main():
    with tempfile.TemporaryDirectory() as top:
        folder = pathlib.Path(top)
        command = [RLXC, "compile", HERE / "everything.json", "-o", ".", "--name", "everything", *OPTIONS]
        run(command, folder, stdout=subprocess.DEVNULL)
        check_header(folder)
        check_functions(folder)


main()
