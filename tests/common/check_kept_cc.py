#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The compilers that tests find in PATH give what the system's give, fail as they do, and keep what they made
from one temporary folder to the next. Usage: check_kept_cc.py"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

MAIN = """#include "m.h"
#include <math.h>
#include <stdio.h>
int other(void);
int main(int argc, char **argv)
{
    (void)argv;
#ifdef __OPTIMIZE__
    printf("%d %d optimised\\n", WORD + other(), (int)sqrt(argc * 9.0));
#else
    printf("%d %d\\n", WORD + other(), (int)sqrt(argc * 9.0));
#endif
    return 0;
}
"""


def call(folder, *words, **environment):
    environment = {**os.environ, **environment}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def write(folder, word):
    for name, text in ("main.c", MAIN), ("other.c", "int other(void);\nint other(void) { return 40; }\n"), \
            ("m.h", f"#define WORD {word}\n"):
        pathlib.Path(folder, name).write_text(text, encoding="ascii")


def build_and_run(folder, *more, **environment):
    done = call(folder, "cc", "-O2", "-I.", "-Wall", "-Werror", "main.c", "other.c", "-o", "p", "-lm", *more,
                **environment)
    assert done.returncode == 0, done.stderr
    return call(folder, "./p").stdout


def hits(folder):
    rows = dict(line.split("\t") for line in call(folder, "ccache", "--print-stats").stdout.splitlines())
    return int(rows["direct_cache_hit"]) + int(rows["preprocessed_cache_hit"])


def check_sanitizers(folder):
    """They find what is wrong, and say it where that is wanted."""
    checked = ["-g", "-fsanitize=address,undefined"]
    assert build_and_run(folder, *checked) == "43 3\n", "a program that is checked is not optimised"
    before = hits(folder)
    assert build_and_run(folder, *checked) == "43 3\n" and hits(folder) == before + 2, "and is kept"
    for expression, trace in ("argc << 31", "shift"), ("((char *)malloc(4))[argc + 3]", "heap-buffer"), \
            ("((char[4]){0})[argc + 5]", "index 7"):
        text = "#include <stdlib.h>\nint main(int argc, char **argv)\n{\n    (void)argv;\n" + \
            f"    return {expression} == 9;\n}}\n"
        pathlib.Path(folder, "wrong.c").write_text(text, encoding="ascii")
        for environment in {}, {"TEST_SAY": "1"}:
            done = call(folder, "cc", *checked, "-fno-sanitize-recover=all", "wrong.c", "-o", "wrong",
                        **environment)
            assert done.returncode == 0, done.stderr
            done = call(folder, "./wrong", "again")
            assert done.returncode not in (0, 1) or trace in done.stderr, done
            assert not environment or trace in done.stderr, done


def main():
    if shutil.which("ccache") is None:
        print("skipped: ccache is not installed (tools/setup does it)")
        sys.exit(77)
    assert pathlib.Path(shutil.which("cc")).parent.name == "kept", os.environ["PATH"]
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as first, \
            tempfile.TemporaryDirectory() as second:
        os.environ["CCACHE_DIR"] = cache
        for folder in first, second:
            write(folder, 2)
            assert build_and_run(folder) == "42 3 optimised\n"
        assert hits(first) == 2, "the second folder compiles nothing"
        write(second, 3)
        assert build_and_run(second) == "43 3 optimised\n", "another header is another program"
        assert build_and_run(second, RLXC_TEST_LEVEL="-O0") == "43 3\n"
        assert build_and_run(second, "-DX", "-Wl,--as-needed") == "43 3 optimised\n"
        check_sanitizers(second)
        words = ["-x", "c++", "-std=c++11", f"{first}/other.c", "-c", "-o", f"{first}/other.o"]
        done = call(first, "c++", *words)
        assert done.returncode == 0 and pathlib.Path(first, "other.o").exists(), done.stderr
        wrong = call(first, "cc", "-DWORD=1", "-Werror", "main.c", "other.c", "-o", "q", "-lm")
        assert wrong.returncode != 0 and "WORD" in wrong.stderr and not pathlib.Path(first, "q").exists()
        unlinked = call(first, "cc", "-I.", "main.c", "-o", "q", "-lm")
        assert unlinked.returncode != 0 and "other" in unlinked.stderr, unlinked.stderr


main()
