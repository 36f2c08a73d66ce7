#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles the graphs of odd_models.py: the generated code agrees with the evaluator, has no warnings as C99
and C++, and computes the same in guarded memory whatever the arena held (odd_guard.py).
Usage: check_odd.py RLXC [MODEL...]"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import odd_models

rlxc = os.path.abspath(sys.argv[1])
here = os.path.dirname(os.path.abspath(__file__))
WARNINGS = "-Wall -Wextra -Wconversion -Wshadow -Wpedantic -Werror -fsyntax-only".split()
SETTINGS = [["--cpu", "generic", "-O3"], ["--cpu", "generic", "-O0"], ["--cpu", "x86-64-v3", "-O3"]]


def has_avx2():
    with open("/proc/cpuinfo") as f:
        return " avx2 " in f.read()


def tell(problems, what, got):
    if got.returncode != 0:
        problems.append(f"{what}: exit code {got.returncode}\n{got.stdout[-2000:]}{got.stderr[-2000:]}")


def check(name, options, folder):
    problems = []
    title = " ".join([name, *options])

    def run(what, *args):
        tell(problems, f"{title}: {what}", subprocess.run(args, capture_output=True, text=True, cwd=folder))

    path = os.path.join(folder, name + ".json")
    with open(path, "w") as f:
        json.dump(odd_models.MODELS[name], f)
    run("verify", rlxc, "verify", path, "--keep", folder, *options)
    if problems:
        return problems
    source = os.path.join(folder, name + ".c")
    if "generic" in options:
        run("C99", "cc", "-std=c99", *WARNINGS, source)
        if shutil.which("c++"):
            run("C++", "c++", "-x", "c++", "-std=c++11", *WARNINGS, source)
    run("guarded run", sys.executable, os.path.join(here, "odd_guard.py"), f"{folder}/{name}.so", name)
    return problems


# Nobody can run it here: its arrays have more elements than an int counts.
def check_large(folder):
    problems = []
    wide = {"dtype": "f32", "shape": [70000, 3, 70000]}
    path = os.path.join(folder, "large.json")
    with open(path, "w") as f:
        nodes = [{"name": "y", "op": "neg", "inputs": ["x"]}]
        json.dump({"rlxc": 1, "inputs": {"x": wide}, "nodes": nodes, "outputs": ["y"]}, f)
    source = os.path.join(folder, "large.c")
    for command in (
        [rlxc, "compile", path, "-o", folder],
        ["cc", "-std=c99", *WARNINGS, source],
        ["c++", "-x", "c++", "-std=c++11", *WARNINGS, source],
    ):
        if shutil.which(command[0]):
            tell(problems, " ".join(command), subprocess.run(command, capture_output=True, text=True))
    return problems


def main():
    names = sys.argv[2:] or list(odd_models.MODELS)
    settings = SETTINGS if has_avx2() else SETTINGS[:-1]
    problems, jobs = [], []
    with tempfile.TemporaryDirectory() as root, ThreadPoolExecutor(os.cpu_count()) as pool:
        for name in names:
            for i, options in enumerate(settings):
                folder = os.path.join(root, name, str(i))
                os.makedirs(folder)
                jobs.append(pool.submit(check, name, options, folder))
        problems += check_large(root)
        for job in jobs:
            problems += job.result()
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(bool(problems))


main()
