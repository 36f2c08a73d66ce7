#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that figures of machines stand in ir/machine/machines.def and nowhere else in the compiler.

In ir/, passes/, codegen/ and compiler/ no constant may have a name that says what a machine does (bytes a
cycle, a bandwidth, sizes of caches, processors, cycles of a barrier or a line). In passes/ no number may be
one of the table that can be nothing else: processors of a GPU times 1, 2, 4 or 8, and sizes that are no power
of two. What a schedule makes of a figure is a share, a number without a unit. `check_machines.py --self-test`
proves that each rule can fail.
"""
import re
import sys

import csource

TABLE = "ir/machine/machines.def"
FOLDERS = ("ir/", "passes/", "codegen/", "compiler/")
EXCEPT = ("ir/machine/", "compiler/bench/")  # the probe measures machines
NAME = re.compile(
    r"\b((?:\w+_)?(?:bytes_cycle|bytes_per_cycle|bandwidth|sms|fma_latency|load_ports|loads_per_cycle|"
    r"l[123]_bytes|cache_bytes|barrier_cycles|line_cycles|remote_cycles|way_bytes|alias_bytes|"
    r"(?:l[123]|memory|dram|cache|near|far|copy|group|products)_(?:rate|bytes)))"
    r"(?:\[\])?[ \t]*=[ \t]*(?=[-{\d.(])|"
    r"#[ \t]*define[ \t]+(\w*(?:BYTES_CYCLE|BANDWIDTH|BARRIER_CYCLES|_SMS|CACHE_BYTES))\b", re.IGNORECASE)
NUMBER = re.compile(r"(?<![\w.])(\d+)(?:u|l)*\b(?!\.)", re.IGNORECASE)
GPU_ROW = re.compile(r"GPU_MACHINE\((\w+),([^\n]*),\s*CLUSTERS", re.MULTILINE)
LEAST_NUMBER = 100


def find_numbers(table):
    """The numbers of the rows of GPUs that stand for nothing else."""
    numbers = set()
    for row in GPU_ROW.finditer(csource.strip_text(table)):
        _, processors, _, *sizes = [int(n) for n in NUMBER.findall(row.group(2))]
        multiples = (processors * factor for factor in (1, 2, 4, 8))
        numbers |= {n for n in (*multiples, *sizes) if n & (n - 1) and n >= LEAST_NUMBER}
    return numbers


def check_source(path, source, numbers):
    if not path.startswith(FOLDERS) or path.startswith(EXCEPT) or not path.endswith((".c", ".h")):
        return []
    code, problems = csource.strip_text(source), []
    for match in NAME.finditer(code):
        line = code.count("\n", 0, match.start()) + 1
        name = match.group(1) or match.group(2)
        problems.append(f"{path}:{line}: {name} is a figure of a machine: {TABLE}")
    if path.startswith("passes/"):
        for match in NUMBER.finditer(code):
            if int(match.group(1)) in numbers:
                line = code.count("\n", 0, match.start()) + 1
                problems.append(f"{path}:{line}: {match.group(1)} is a figure of a GPU: {TABLE}")
    return problems


def read(path):
    return (csource.ROOT / path).read_text(encoding="utf-8")


def check_tree():
    numbers = find_numbers(read(TABLE))
    assert len(numbers) > 8, "the rows of GPUs cannot be read"
    return [problem for path in csource.list_files() if path.endswith((".c", ".h"))
            for problem in check_source(path, read(path), numbers)]


def self_test():
    rows = ("GPU_MACHINE(a, 90, 132, 2048, 233472, 65536,\n   52428800, CLUSTERS(132, 66), 1)",
            "GPU_MACHINE(b, 80, 108, 2048, 233472, 65536, 52428800, CLUSTERS(108))")
    numbers = find_numbers("\n".join(rows))
    assert {108, 216, 432, 864, 233472, 52428800} <= numbers and 2048 not in numbers, numbers
    good = ["static const double l2_share = 0.5;", "x = cpu->l2_rate * share;", "// memory_rate = 5",
            "const double rate = near_share * cpu->l2_rate;", "enum { TILE_CYCLES = 30 };", "p->l2_bytes / 2",
            "double memory = bytes / memory_rate;", 's = "DRAM_BYTES_CYCLE = 5";', "n = 65536;", "e = 107;"]
    bad = ["enum { DRAM_BYTES_CYCLE = 5 };", "static const double latency = 4, far_bytes = 6;", "SMS = 132,",
           "#define SPLIT_BARRIER_CYCLES 800.0", "const double cache_rate[] = {5700};", "n < 108 ? 1 : 2",
           "enum { CACHE_BYTES = 32 << 20 };", "const double remote_cycles = .7;", "GPU_SMS = N, b = 864u"]
    for text in good:
        assert not check_source("passes/a.c", text, numbers), text
    for text in bad:
        assert check_source("passes/a.c", text, numbers), text
    for path in ("ir/machine/a.c", "tests/a.c"):
        assert not check_source(path, bad[0], numbers), path


if __name__ == "__main__":
    self_test()
    sys.exit(0 if sys.argv[1:] == ["--self-test"] else csource.report("check_machines", check_tree()))
