#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generated code with --threads: built without warnings as C99 and C++, run with several numbers of threads,
under the address and (where there is one) the thread sanitizer. Threads must have something to share, with
barriers; nothing of them is emitted without the option, and no POSIX threads with --pool caller.
Contexts of two models run in threads of their own, shared in all ways that there are. Kernels with barriers
inside are cut at them, so that the parts of a parallel_for share them too: for one of two CPUs each day.
Usage: check_threads.py RLXC"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "common"))
from rotation import part_of, say  # noqa: E402

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


def compile_model(folder, *options, name="shared"):
    command = [RLXC, "compile", HERE / f"{name}.rlx", "-o", folder, "--name", name, "--api", "full", *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=TIME_LIMIT)
    return "".join((folder / f"{name}{end}").read_text() for end in (".c", ".h", "_rlx.h"))


def inspect(threads):
    command = [RLXC, "inspect", HERE / "shared.rlx", "--json", "--no-code", "--threads", str(threads)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, timeout=TIME_LIMIT).stdout)


def builds_here(build, folder):
    (folder / "empty.c").write_text("int main(void)\n{\n    return 0;\n}\n")
    command = [*build, "empty.c", "-o", "empty", "-pthread"]
    if shutil.which(build[0]) is None:
        return False
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=TIME_LIMIT)
    return done.returncode == 0 and subprocess.run([folder / "empty"], timeout=TIME_LIMIT).returncode == 0


def build_program(build, folder, program, models, *flags):
    sources = [HERE / program, *(folder / f"{model}.c" for model in models)]
    command = [*build, *WARN, *flags, "-I", folder, *sources, "-o", folder / "p", "-lm"]
    subprocess.run(command, check=True, cwd=folder, timeout=TIME_LIMIT)


def run_program(folder, *arguments):
    subprocess.run([folder / "p", *arguments], check=True, timeout=TIME_LIMIT)


def check_build(build, folder):
    build_program(build, folder, "threads_test.c", ["shared"], "-pthread")
    for parts in 2, 3, 7:
        run_program(folder, str(parts))
    build_program(build, folder, "contexts_test.c", ["shared", "other"], "-pthread")
    run_program(folder)


# The program brings the threads: here none at all, parts in several orders.
def check_caller(folder):
    for name in "shared", "other":
        text = compile_model(folder, "--threads", "7", "--pool", "caller", name=name)
        for word in "pthread", "sched_yield", "unistd.h", "struct rlx_pool {":
            assert word not in text, word
    for build in part_of(BUILDS, 2):
        if "-fsanitize=thread" not in build and builds_here(build, folder):
            build_program(build, folder, "contexts_test.c", ["shared", "other"], "-DALONE")
            run_program(folder)


def flags_of(folder, name):
    """What the first lines of NAME.c say."""
    words = (folder / f"{name}.c").read_text().splitlines()[1].split()
    return [word for word in words if word.startswith("-m")]


def runs_here(flags, folder):
    names = [flag[2:] for flag in flags if flag in ("-mavx2", "-mfma", "-mf16c")]
    tests = " && ".join(["1", *(f'__builtin_cpu_supports("{name}")' for name in names if name != "f16c")])
    (folder / "cpu.c").write_text(f"int main(void)\n{{\n    return !({tests});\n}}\n")
    build = ["cc", "cpu.c", "-o", "cpu"]
    if subprocess.run(build, cwd=folder, capture_output=True, timeout=TIME_LIMIT).returncode != 0:
        return not flags
    return subprocess.run([folder / "cpu"], timeout=TIME_LIMIT).returncode == 0


# No segment whose kernels are split may be left to one part.
def check_segments(text):
    part = text[text.index("static rlx_status dispatch_part") :]
    flags = [int(n) for n in re.search(r"segments\[\] = \{([^}]*)\}", part).group(1).split(",")]
    cases = re.split(r"\n    case \d+:\n", part[: part.index("\n}\n")])[1:]
    assert len(cases) == len(flags), (len(cases), flags)
    for case, flag in zip(cases, flags):
        assert ("team);" in case) == (flag < 2), (flag, case)
    assert "rlx_barrier(team)" not in text[text.index("RLX_KERNEL void") :]
    return sum("_phase" in case for case in cases)


# Models of which all kernels are cut at their barriers, as the second one of the program.
def check_phases(top, cpu, n_phases):
    folder = top / cpu
    folder.mkdir()
    make = [sys.executable, HERE / "make_phases.py", folder]
    subprocess.run(make, check=True, timeout=TIME_LIMIT)
    compile_model(folder, "--threads", "3")
    model = [RLXC, "compile", folder / "phases.json", "-o", folder, "--name", "other", "--cpu", cpu]
    model += ["--api", "full"]
    for pool in "posix", "caller":
        command = [*model, "--threads", "4", "--pool", pool]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=TIME_LIMIT)
        assert check_segments((folder / "other.c").read_text()) >= n_phases, cpu
    flags = flags_of(folder, "other")
    if not runs_here(flags, folder):
        print("NOT RUN, not for this machine:", cpu)
        return
    subprocess.run([*model, "--threads", "4"], check=True, stdout=subprocess.DEVNULL, timeout=TIME_LIMIT)
    for build in part_of(BUILDS, 3):
        if builds_here(build, folder):
            build_program(build, folder, "contexts_test.c", ["shared", "other"], "-pthread", *flags)
            run_program(folder)


# Variants for several sizes, each with phases of its own.
def check_variants(folder):
    text = compile_model(folder, "--bucket", "S=100,200", "--threads", "2", name="sizes")
    assert text.count("RLX_KERNEL void k1_scatter_phase1") == 2, text
    command = ["cc", "-std=c99", *WARN, "-c", "sizes.c", "-pthread"]
    subprocess.run(command, check=True, cwd=folder, timeout=TIME_LIMIT)


def main():
    kernels = inspect(4)["kernels"]
    assert sum(k["split"] for k in kernels) >= 3 and any(k["waits"] for k in kernels), kernels
    with tempfile.TemporaryDirectory() as top:
        folder = pathlib.Path(top)
        say()
        for word in "pthread", "rlx_team", "rlx_barrier", "rlx_schedule":
            assert word not in compile_model(folder), word
        for wrong in "0", "65", "two", "-1":
            command = [RLXC, "compile", HERE / "shared.rlx", "-o", folder, "--threads", wrong]
            assert subprocess.run(command, capture_output=True, timeout=TIME_LIMIT).returncode == 2, wrong
        for wrong in ["--pool", "caller"], ["--threads", "2", "--pool", "mine"]:
            command = [RLXC, "compile", HERE / "shared.rlx", "-o", folder, *wrong]
            assert subprocess.run(command, capture_output=True, timeout=TIME_LIMIT).returncode == 2, wrong
        text = compile_model(folder, "--threads", "7")
        compile_model(folder, "--threads", "5", name="other")
        assert "-pthread" in text.splitlines()[1], text.splitlines()[1]
        for build in BUILDS:
            if builds_here(build, folder):
                check_build(build, folder)
            else:
                print("NOT CHECKED, does not work here:", *build)
        check_caller(folder)
        check_variants(folder)
        for cpu, n_phases in part_of([("generic", 2), ("x86-64-v3", 4)], 2):
            check_phases(folder, cpu, n_phases)


main()
