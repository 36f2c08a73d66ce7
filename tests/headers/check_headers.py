#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles every header alone, twice in one unit: it must bring what it needs, and guard itself.

Ours as C with the strict warnings; those of runtime-lite as C99, C11 and C++, because users' programs include
them. Usage: check_headers.py BUILD_DIR CC [CXX] -- FLAGS. A header that is broken on purpose goes first.
When ./run-tests runs it again, and no header has changed since all passed, it is not repeated.
"""
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAYERS = ("base", "ir", "passes", "codegen", "compiler")
MARK = "# unchanged since it passed"  # unchanged.py's
PEDANTIC = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wundef", "-Werror"]


def compile_text(command, text):
    """The compiler's complaints, "" if there are none."""
    command = command + ["-fsyntax-only", "-"]
    run = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    return run.stderr.decode(errors="replace") if run.returncode else ""


def check_header(command, header):
    return compile_text(command, f'#include "{header}"\n#include "{header}"\n')


def self_test(command):
    with tempfile.TemporaryDirectory() as folder:
        bad = pathlib.Path(folder) / "bad.h"
        bad.write_text("size_t n;\n", encoding="ascii")
        assert check_header(command, bad), "a header without its includes passes"
        bad.write_text("struct A { int x; };\n", encoding="ascii")
        assert check_header(command, bad), "a header without a guard passes"


def hash_inputs(build):
    """Of all that the headers and the machine are."""
    h = hashlib.sha256("\0".join([os.environ["UNCHANGED_DATA"], *sys.argv[1:]]).encode())
    folders = [ROOT / name for name in (*LAYERS, "runtime-lite")] + [pathlib.Path(build, x) for x in LAYERS]
    for path in sorted(p for folder in folders for p in folder.rglob("*") if p.suffix in (".h", ".def")):
        text = path.read_bytes()
        h.update(b"%s %d\n" % (os.fsencode(path), len(text)) + text)
    return h.hexdigest()


def main():
    args, flags = sys.argv[1:], []
    if "--" in args:
        args, flags = args[:args.index("--")], args[args.index("--") + 1:]
    build, cc, cxx = args[0], args[1].split(), args[2:]
    kept = pathlib.Path(build, "passed", "headers")
    key = hash_inputs(build) if os.environ.get("UNCHANGED_DATA") and kept.parent.exists() else None
    was, _, said = kept.read_text(encoding="ascii").partition("\n") if key and kept.exists() else ("", "", "")
    if key and was == key:
        print(said + MARK)
        return 0
    includes = [f"-I{ROOT}", f"-I{build}", f"-I{build}/compiler"]
    ours = cc + ["-x", "c", "-std=gnu11"] + flags + PEDANTIC + includes
    self_test(ours)
    jobs = [(ours, path) for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.h"))]
    for path in sorted((ROOT / "runtime-lite").rglob("*.h")):
        jobs += [(cc + ["-x", "c", f"-std={std}"] + PEDANTIC, path) for std in ("c99", "c11")]
        jobs += [(cxx + ["-x", "c++", f"-std={std}"] + PEDANTIC, path) for std in ("c++11", "c++20") if cxx]
    failed, said = 0, f"1..{len(jobs)}\n"
    print(said, end="")
    for n, (command, path) in enumerate(jobs, 1):
        errors = check_header(command, path.relative_to(ROOT) if command is ours else path)
        std = next(flag for flag in command if flag.startswith("-std="))
        line = f"{'not ok' if errors else 'ok'} {n} - {path.relative_to(ROOT)} {std}\n{errors}"
        print(line, end="")
        said += line
        failed += bool(errors)
    if key and not failed:
        kept.write_text(f"{key}\n{said}", encoding="ascii")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
