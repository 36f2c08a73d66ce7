# SPDX-License-Identifier: Apache-2.0
"""What tests in Python have in common that build emitted C. They find it beside their folder, as tap.py.

Most of a test's time is the C compiler's: with the sanitizers, -O0 takes a tenth of the time of -O3 and finds
the same. What optimisation may break is tested where a program is built as users build it."""

QUICK = "-O0"
SANITIZE = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def flags_of(path, level=None):
    """The flags that an emitted file names in "Compile with". level: "-O1", instead of its own."""
    with open(path, encoding="ascii") as f:
        line = next(line for line in f if line.startswith("// Compile with:"))
    flags = line.split("cc ")[1].split(" -c ")[0].split()
    return [level if level and flag.startswith("-O") else flag for flag in flags]
