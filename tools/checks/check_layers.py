#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the structure: base <- ir <- passes, codegen <- compiler; runtime-lite includes nothing of ours.

passes and codegen meet in ir/ and never include each other. Within a layer, every folder is a room, and no
circle of includes leads from a room back to itself. Includes name the folder, and every source file stands in
the meson.build of its layer. Each folder has a README.md that says what lives there, what comes
in, what goes out and what may be touched. `check_layers.py --self-test` proves that each rule can fail.
"""
import posixpath
import re
import sys

import csource

MAY_INCLUDE = {
    "base": {"base"},
    "ir": {"base", "ir"},
    "passes": {"base", "ir", "passes"},
    "codegen": {"base", "ir", "codegen"},
    "compiler": {"base", "ir", "passes", "codegen", "compiler", "runtime-lite"},
    "runtime-lite": {"runtime-lite"},
}
GENERATED = {"onnx.pb-c.h"}
SOURCES = (".c", ".h", ".def", ".inc", ".js")
WITHOUT_SOURCES = ("tests", "tools")  # their sources lie in folders below, which need no page of their own
PARTS = ("What lives here", "What comes in", "What goes out", "What you may touch")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)


def check_includes(path, text, known):
    """Problems of one file; known is the set of all our files."""
    layer = path.split("/")[0]
    if layer not in MAY_INCLUDE:
        return []
    problems = []
    for match in INCLUDE.finditer(text):
        target, line = match.group(1), text.count("\n", 0, match.start()) + 1
        if target in GENERATED:
            continue
        if layer == "runtime-lite" and ("/" not in target or target.startswith("../")):
            # users copy these files without our folders
            target = posixpath.normpath(path.rpartition("/")[0] + "/" + target)
        if target.split("/")[0] not in MAY_INCLUDE[layer]:
            problems.append(f'{path}:{line}: {layer} must not include "{match.group(1)}"')
        elif target not in known:
            problems.append(f'{path}:{line}: "{target}" is no file of ours; name it from the top folder')
    return problems


def find_includes(files, read):
    """{room: {room it includes: "file that does"}} of the compiler's layers."""
    rooms = {}
    for path in files:
        if path.split("/")[0] not in csource.LAYERS or not path.endswith((".c", ".h", ".def")):
            continue
        here = path.rpartition("/")[0]
        for target in INCLUDE.findall(read(path)):
            there = target.rpartition("/")[0]
            if there not in ("", here) and target.split("/")[0] in csource.LAYERS:
                rooms.setdefault(here, {}).setdefault(there, path)
    return rooms


def check_circles(rooms):
    """Takes away rooms that include no room that is left; what remains is on a circle or leads to one."""
    left = {room: dict(includes) for room, includes in rooms.items()}
    while True:
        free = [room for room, includes in left.items() if not any(other in left for other in includes)]
        if not free:
            break
        for room in free:
            del left[room]
    return [f"{by}:1: {room} includes {other}, which leads back to it or to another circle of rooms"
            for room, includes in sorted(left.items())
            for other, by in sorted(includes.items()) if other in left]


def check_listed(path, meson_text):
    """A .c file of a layer must be in that layer's list of sources."""
    layer, _, rest = path.partition("/")
    if layer not in csource.LAYERS or not path.endswith(".c") or path == "compiler/main.c":
        return []
    if f"'{rest}'" in meson_text:
        return []
    return [f"{path}:1: not listed in {layer}/meson.build"]


def find_folders(files):
    """The folders that need a README.md: all that hold sources of the compiler or of the runtime."""
    found = {path.rpartition("/")[0] for path in files
             if path.split("/")[0] in csource.CODE_FOLDERS and path.endswith(SOURCES)}
    return sorted(found | set(WITHOUT_SOURCES))


def check_readme(folder, text):
    """A folder's README.md, None where there is none, has a line for each part, and words behind its name."""
    if text is None:
        return [f"{folder}/README.md:1: missing; say " + ", ".join(part.lower() for part in PARTS)]
    return [f'{folder}/README.md:1: no line "* **{part}**: ..."' for part in PARTS
            if not re.search(rf"^\* \*\*{part}\*\*: \S", text, re.MULTILINE)]


def read_readme(folder):
    path = csource.ROOT / folder / "README.md"
    return path.read_text(encoding="utf-8") if path.exists() else None


def read_source(path):
    return (csource.ROOT / path).read_text(encoding="utf-8")


def check_tree():
    files = csource.list_files()
    known, problems = set(files), []
    for path in files:
        if not path.endswith((".c", ".h", ".def")):
            continue
        problems += check_includes(path, read_source(path), known)
        meson = csource.ROOT / path.split("/")[0] / "meson.build"
        problems += check_listed(path, meson.read_text(encoding="utf-8") if meson.exists() else "")
    problems += check_circles(find_includes(files, read_source))
    for folder in find_folders(files):
        problems += check_readme(folder, read_readme(folder))
    return problems


def self_test():
    known = {"base/str.h", "passes/fuse.h", "codegen/c.h", "ir/graph.h", "runtime-lite/rlx.h"}
    good = [("base/str.c", "base/str.h"), ("passes/fuse.c", "ir/graph.h"), ("compiler/a.c", "codegen/c.h"),
            ("runtime-lite/rlx.c", "rlx.h"), ("tests/t.c", "codegen/c.h")]
    bad = [("base/str.c", "ir/graph.h"), ("ir/graph.c", "passes/fuse.h"), ("passes/fuse.c", "codegen/c.h"),
           ("codegen/c.c", "passes/fuse.h"), ("runtime-lite/rlx.c", "base/str.h"), ("base/str.c", "str.h"),
           ("ir/graph.c", "ir/missing.h")]
    for path, target in good:
        assert not check_includes(path, f'#include "{target}"\n', known), (path, target)
    for path, target in bad:
        assert check_includes(path, f'\n  # include "{target}"\n', known), (path, target)
    assert check_listed("ir/graph.c", "files('a.c')") and not check_listed("ir/graph.c", "files('graph.c')")
    texts = {"ir/a/x.c": '#include "ir/b/x.h"\n', "ir/b/x.h": '#include "ir/c/x.h"\n', "ir/c/x.h": ""}
    assert not check_circles(find_includes(texts, texts.get))
    texts["ir/c/x.h"] = '#include "ir/a/x.h"\n'
    assert len(check_circles(find_includes(texts, texts.get))) == 3
    folders = find_folders(["ir/graph.h", "compiler/html/main.js", "docs/API.md", "tests/e2e/test_ops.c"])
    assert folders == ["compiler/html", "ir", "tests", "tools"], folders
    page = "# ir\n" + "".join(f"* **{part}**: words.\n" for part in PARTS)
    assert not check_readme("ir", page) and check_readme("ir", None)
    for part in PARTS:
        assert len(check_readme("ir", page.replace(f"**{part}**: words", f"**{part}**:"))) == 1, part
        assert len(check_readme("ir", page.replace(f"* **{part}**: words.\n", ""))) == 1, part


if __name__ == "__main__":
    self_test()
    sys.exit(0 if sys.argv[1:] == ["--self-test"] else csource.report("check_layers", check_tree()))
