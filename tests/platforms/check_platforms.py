#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Other systems: a third of the sources of rlxc compile for macOS or musl each day (rotation.py);
generated code, with threads and weights, for Windows, macOS, musl and ARM, with GNU's and Microsoft's C, and
not for big-endian machines; linkers take the object files that rlxc writes. Headers and a compiler are those
of the wheel ziglang, linkers are lld's. A program with threads runs one day where pointers have 32 bits and
the next, where Wine is (Debian's wine64), on Windows.
Usage: check_platforms.py RLXC"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common"))
from rotation import part_of, say  # noqa: E402

RLXC = os.path.abspath(sys.argv[1])
ROOT, BUILD = pathlib.Path(os.environ["RLXC_SOURCE"]), pathlib.Path(os.environ["RLXC_BUILD"])
PYTHON = pathlib.Path(os.environ["RLXC_VENV"]) / "bin" / "python"
SKIPPED = 77
# What is taken from the system's libraries, without its libc's headers.
LIBRARIES = ["cjson", "protobuf-c", "google", "xxhash.h", "xxh3.h", "glslang", "spirv-tools"]
SYSTEMS = {
    "arm64-apple-macos11": ["any-macos-any"],
    "x86_64-linux-musl": ["x86_64-linux-musl", "generic-musl", "x86_64-linux-any", "any-linux-any"],
}
DEFINES = ["-D_GNU_SOURCE", '-DRLXC_VERSION="0"', '-DRLXC_DATE="0"', '-DMETAL_SHIM="0"']
TARGETS = [
    ("x86_64-windows-gnu", "coff-x86-64"),
    ("aarch64-windows-gnu", "coff-arm64"),
    ("x86-windows-gnu", "coff-i386"),
    ("x86_64-linux-musl", "elf-x86-64"),
    ("aarch64-linux-musl", "elf-aarch64"),
    ("arm-linux-musleabihf", "elf-arm"),
    ("riscv64-linux-musl", "elf-riscv64"),
    ("aarch64-macos", "macho-arm64"),
    ("x86_64-macos", "macho-x86-64"),
]
COFF = ["lld-link", "/dll", "/noentry", "/safeseh:no", "/export:m_weights_blob,DATA", "/out:linked"]
MACHO = ["ld64.lld", "-dylib", "-platform_version", "macos", "11.0", "11.0", "-undefined", "dynamic_lookup"]
MACHO += ["-o", "linked"]
LINKERS = {
    "coff-x86-64": COFF,
    "coff-arm64": COFF,
    "coff-i386": COFF,
    "macho-arm64": [*MACHO, "-arch", "arm64"],
    "macho-x86-64": [*MACHO, "-arch", "x86_64"],
    "elf-x86-64": ["ld.lld", "-r", "-o", "linked"],
    "elf-aarch64": ["ld.lld", "-r", "-o", "linked"],
    "elf-arm": ["ld.lld", "-r", "-o", "linked"],
    "elf-i386": ["ld.lld", "-r", "-o", "linked"],
    "elf-riscv64": ["ld.lld", "-r", "-o", "linked"],
}
WARNINGS = ["-Wall", "-Wextra", "-Werror"]
MOST_KEPT = 1 << 30  # bytes


def run(command, **more):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **more)
    assert done.returncode == 0, f"{' '.join(map(str, command))[:300]}\n{done.stdout}{done.stderr}"
    return done.stdout


def zig_folder():
    find = "import ziglang, os; print(os.path.dirname(ziglang.__file__))"
    done = subprocess.run([PYTHON, "-c", find], capture_output=True, text=True, check=False)
    return pathlib.Path(done.stdout.strip()) if done.returncode == 0 else None


def make_cache():
    """Zig keeps the C libraries of systems there, which take most of the time. It never forgets anything."""
    folder = BUILD / "zig-cache"
    if folder.exists() and sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) > MOST_KEPT:
        shutil.rmtree(folder)
    folder.mkdir(exist_ok=True)
    return folder


def check_sources(zig, top):
    """All of rlxc, as text: nothing is linked."""
    includes = top / "include"
    includes.mkdir()
    for name in LIBRARIES:
        path = pathlib.Path("/usr/include") / name
        if path.exists():
            (shutil.copytree if path.is_dir() else shutil.copy)(path, includes / name)
    layers = ("base", "ir", "passes", "codegen", "compiler")
    texts = ROOT / "compiler/board"  # programs for boards, which include what they are compiled with
    sources = [p for layer in layers for p in sorted((ROOT / layer).rglob("*.c"))
               if p.name not in ("run.c", "count.c") or p.parent != texts]
    assert len(sources) > 300
    own = ["-I", ROOT, "-I", BUILD / "compiler", "-I", ROOT / "compiler", "-isystem", includes]
    for system, folders in part_of(SYSTEMS.items(), 2):
        headers = [w for f in folders for w in ("-isystem", zig / "lib/libc/include" / f)]
        fixed = ["clang", f"--target={system}", "-nostdlibinc", "-fsyntax-only", "-std=gnu11", "-w", *headers]
        has_glslang = int((includes / "glslang").exists())
        taken = part_of(sources, 3)  # not 2: each system shall get all sources
        run([*fixed, *own, *DEFINES, f"-DRLXC_HAS_GLSLANG={has_glslang}", *taken])
        print(f"# {system}: {len(taken)} sources of rlxc compile, of {len(sources)}")


def find_linker(name):
    """Debian has ld64.lld in the folder of its LLVM only."""
    folders = sorted(map(str, pathlib.Path("/usr/lib").glob("llvm-*/bin")), reverse=True)
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(folders))


def check_objects(folder):
    model = ROOT / "models/digits/digits.json"
    block = None
    for form, linker in LINKERS.items():
        run([RLXC, "compile", model, "--name=m", "-o", folder, "--weights", "object", "--object", form])
        if block is None:
            run([RLXC, "compile", model, "--name=m", "-o", folder, "--weights", "file"])
            block = (folder / "m.weights").read_bytes()
        program = find_linker(linker[0])
        assert program is not None, f"{linker[0]} is not here: Debian's package lld has it"
        run([program, *linker[1:], "m.weights.o"], cwd=folder)
        assert block in (folder / "linked").read_bytes(), form
    print("# linkers take object files")


def check_code(zig, folder):
    model = ROOT / "models/digits/digits.json"
    common = [RLXC, "compile", model, "--api=full", "--name=m", "-o", folder, "--threads", "2", "--weights"]
    compile_c = [zig / "zig", "cc", "-std=c99", *WARNINGS, "-O1", "-c", "m.c", "-o", "m.o"]
    for mode in "incbin", "object":
        run([*common, mode])
        targets = part_of(TARGETS, 2 if mode == "incbin" else 3)
        for target, _ in targets:
            run([*compile_c, "-target", target], cwd=folder)
        print(f"# {mode}: compiles for {len(targets)} targets")
    for target in "powerpc-linux-musl", "mips-linux-musl":
        done = subprocess.run([*map(str, compile_c), "-target", target], cwd=folder, capture_output=True,
                              text=True, check=False)
        assert done.returncode != 0 and "little-endian" in done.stderr, done.stderr


def check_windows_h(zig, folder):
    """Headers of models and windows.h, in either order, with its macros."""
    model = ROOT / "models/digits/digits.json"
    run([RLXC, "compile", model, "--api=full", "--name=m", "-o", folder, "--threads=2"])
    lines = ["#include <windows.h>\n", '#include "m.h"\n']
    use = "int main(void) { return (int)sizeof(rlx_pool) - max(min(1, 2), (int)GetTickCount()); }\n"
    macros = "#define min(a, b) ((a) < (b) ? (a) : (b))\n#define max(a, b) ((a) < (b) ? (b) : (a))\n"
    for target in "x86_64-windows-gnu", "x86-windows-gnu":
        for language in "c", "c++":
            for first in 0, 1:
                text = lines[first] + lines[1 - first] + use
                (folder / "w.c").write_text((macros if language == "c++" else "") + text, encoding="ascii")
                compiler = [zig / "zig", "cc", "-target", target, "-x", language]
                run([*compiler, *WARNINGS, "-c", "w.c", "-o", "w.o"], cwd=folder)
    print("# windows.h may come before or after the header of a model")


def find_wine():
    return shutil.which("wine64") or shutil.which("wine64", path="/usr/lib/wine") or shutil.which("wine")


def check_programs(zig, folder):
    """A program with threads and an object of weights says the same here and where pointers have 32 bits, or
    on Windows."""
    program = [ROOT / "tests/platforms/run_threads.c", "m.c", "m.weights.o", "-I.", "-O1"]
    model = ROOT / "models/digits/digits.json"
    said = {}
    here = ("x86_64-linux-gnu", "elf-x86-64", [])
    others = [  # of each, Zig makes the C library first, which takes most of this test's time
        ("x86-linux-musl", "elf-i386", []),
        ("x86_64-windows-gnu", "coff-x86-64", [find_wine()]),
    ]
    for name, form, start in [here, *part_of(others, 2)]:
        if None in start:
            print(f"NOT RUN: programs for {name}, no Wine is here (Debian's wine64)")
            continue
        weights = ["--weights=object", "--object", form]
        run([RLXC, "compile", model, "--api=full", "--name=m", "-o", folder, "--threads=2", *weights])
        compiler = ["cc", "-pthread"] if not said else [zig / "zig", "cc", "-target", name]
        run([*compiler, *program, "-o", "m.exe", *([] if said else ["-lm"])], cwd=folder)
        env = {**os.environ, "WINEDEBUG": "-all", "WINEPREFIX": str(folder / "wine")}
        said[name] = run([*start, "./m.exe"], cwd=folder, env=env).split()
        assert len(said[name]) == 30 and said[name] == said["x86_64-linux-gnu"], said
    print(f"# a program with threads says the same on {len(said)} systems")


def main(top):
    zig = zig_folder()
    if zig is None:
        print("SKIPPED: no ziglang (tools/setup installs it)")
        return SKIPPED
    os.environ["ZIG_GLOBAL_CACHE_DIR"] = str(make_cache())
    say()
    check_objects(top / "o")
    check_code(zig, top / "c")
    check_windows_h(zig, top / "h")
    check_sources(zig, top)
    if os.uname().machine == "x86_64":
        check_programs(zig, top / "w")
    return 0


with tempfile.TemporaryDirectory() as folder:
    sys.exit(main(pathlib.Path(folder)))
