#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles every header alone, twice in one unit: it must bring what it needs, and guard itself.

Ours as C with the strict warnings; those of runtime-lite as C99, C11 and C++, because users' programs include
them. Headers that a source of ours includes before all else bring what they need, as it is built: those of a
folder share a unit, which includes each twice. So do those of runtime-lite in the newer standards.
Usage: check_headers.py BUILD_DIR CC [CXX] -- FLAGS. A header that is broken on purpose goes first.
When ./run-tests runs it again, and no header has changed since all passed, it is not repeated.
"""
import hashlib
import itertools
import os
import pathlib
import re
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


def check_headers(command, headers):
    return compile_text(command, "".join(f'#include "{header}"\n' * 2 for header in headers))


def first_include(source):
    """Of the text of a source: the header, or "" if something stands before it."""
    found = re.match(r'(?:\s*//[^\n]*\n)*\s*#include "([^"]+)"', source)
    return found.group(1) if found else ""


def by_folder(paths):
    """Lists of those of one folder: names are one's own only there."""
    return [list(group) for _, group in itertools.groupby(paths, lambda path: path.parent)]


def proven_headers():
    """Those that a source includes before all else."""
    sources = (path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.c")))
    return {first_include(path.read_text(encoding="utf-8")) for path in sources} - {""}


def self_test(command):
    with tempfile.TemporaryDirectory() as folder:
        bad = pathlib.Path(folder) / "bad.h"
        bad.write_text("size_t n;\n", encoding="ascii")
        assert check_headers(command, [bad]), "a header without its includes passes"
        bad.write_text("struct A { int x; };\n", encoding="ascii")
        assert check_headers(command, [bad, bad]), "a header without a guard passes"


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
    build, cxx = args[0], args[2:]
    cc = [word for word in args[1].split() if os.path.basename(word) != "ccache"]  # it keeps objects only
    kept = pathlib.Path(build, "passed", "headers")
    key = hash_inputs(build) if os.environ.get("UNCHANGED_DATA") and kept.parent.exists() else None
    was, _, said = kept.read_text(encoding="ascii").partition("\n") if key and kept.exists() else ("", "", "")
    if key and was == key:
        print(said + MARK)
        return 0
    includes = [f"-I{ROOT}", f"-I{build}", f"-I{build}/compiler"]
    ours = cc + ["-x", "c", "-std=gnu11"] + flags + PEDANTIC + includes
    self_test(ours)
    own = [path.relative_to(ROOT) for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.h"))]
    proven = proven_headers()
    jobs = [(ours, [path]) for path in own if str(path) not in proven]
    jobs += [(ours, paths) for paths in by_folder(path for path in own if str(path) in proven)]
    for command, alone, together in ((cc, "c99", "c11"), (cxx, "c++11", "c++20")):
        runtime = sorted((ROOT / "runtime-lite").rglob("*.h")) if command else []
        language = ["-x", "c++" if command is cxx else "c", *PEDANTIC]
        jobs += [(command + [f"-std={alone}"] + language, [path]) for path in runtime]
        jobs += [(command + [f"-std={together}"] + language, paths) for paths in by_folder(runtime)]
    failed, said = 0, f"1..{len(jobs)}\n"
    print(said, end="")
    for n, (command, paths) in enumerate(jobs, 1):
        errors = check_headers(command, paths)
        std = next(flag for flag in command if flag.startswith("-std="))
        path = os.path.relpath(ROOT / paths[0], ROOT)
        what = path if len(paths) == 1 else f"{len(paths)} in {os.path.dirname(path)}"
        line = f"{'not ok' if errors else 'ok'} {n} - {what} {std}\n{errors}"
        print(line, end="")
        said += line
        failed += bool(errors)
    if key and not failed:
        kept.write_text(f"{key}\n{said}", encoding="ascii")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
