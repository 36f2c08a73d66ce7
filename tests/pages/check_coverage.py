#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page docs/COVERAGE.md says what is so: our calls and options that it names exist, each call of the API
reference is in it, tests that it names exist, use the calls of their rows and run on the targets that it
says, and no cell is empty. Usage: check_coverage.py RLXC; RLXC_BUILD has the list of tests. Prints TAP."""
import functools
import json
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/common"))
import tap
from tap import result

TARGETS = "C", "CUDA", "Vulkan", "Metal"
# By the beginning or the end of a test's name; others run on C.
BY_NAME = {"fake_cuda ": "CUDA", "cuda_": "CUDA", "vulkan": "Vulkan", "metal_": "Metal"}
BY_END = {" cuda": "CUDA", " vulkan": "Vulkan", " metal": "Metal"}
# Tests of several targets in one.
WHOLE = {
    "gpu_inspect": TARGETS[1:], "dispatch_order": TARGETS[1:], "tables of plans": ("C", "Vulkan", "Metal"),
    "stubs": TARGETS, "cli": TARGETS, "fallback": ("C", "CUDA", "Metal"),
}  # fmt: skip


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def rows_of(page):
    """[heading, cells] of every row of a table but its head."""
    heading = ""
    for line in page.splitlines():
        heading = line[3:] if line.startswith("## ") else heading
        cells = [c.strip() for c in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if cells and cells[0] != "call" and set(line) - set("|-"):
            yield heading, cells


def tests():
    """{name: the words of its command}."""
    path = pathlib.Path(os.environ.get("RLXC_BUILD", "build")) / "meson-info/intro-tests.json"
    return {t["name"]: tuple(t["cmd"]) for t in json.loads(path.read_text(encoding="utf-8"))}


def names_of(word, known):
    """The tests that a word of the page stands for."""
    return [n for n in known if n == word or re.fullmatch(rf"(runtime|fake_cuda|vulkan) {re.escape(word)}", n)
            or re.fullmatch(rf"{re.escape(word)} (cuda|vulkan|metal)", n)]


def targets_of(name, on_metal):
    if name in WHOLE:
        return set(WHOLE[name])
    found = {t for begin, t in BY_NAME.items() if name.startswith(begin)}
    found |= {t for end, t in BY_END.items() if name.endswith(end)}
    if name.startswith("runtime ") and name[8:] in on_metal:
        found.add("Metal")  # check_metal.py runs the same programs
    return found | ({"C"} if not found or name.startswith("runtime ") else set())


@functools.lru_cache(None)
def text_of(command):
    """What a test runs: its scripts, and the programs in C that they or its command name."""
    paths = [pathlib.Path(w) for w in command if w.endswith((".py", ".c")) and os.path.exists(w)]
    if "metal_selftest" in " ".join(command):  # built from these
        paths += ROOT.glob("tests/metal/*.c")
    text = "".join(p.read_text(encoding="utf-8", errors="replace") for p in paths)
    for word in set(re.findall(r"\b\w+(?:_test|_main)\b", text + " ".join(command))):
        text += "".join(p.read_text(encoding="utf-8") for p in ROOT.glob(f"tests/**/{word}.c"))
    for name in set(re.findall(r'"(\w+)"', text)):  # check_calls.py: errors -> errors_test.c
        text += "".join(p.read_text(encoding="utf-8") for p in ROOT.glob(f"tests/runtime/{name}_test.c"))
    return text


def check_row(heading, cells, known, on_metal):
    name = f"{heading}: {cells[0]}"
    if len(cells) != 4 or not all(cells):
        result(False, name, "a row has four cells with something in them")
        return
    if cells[1].startswith("not there"):
        result(cells[3] == "none" and cells[2].startswith("none: "), name, "why it is not there")
        return
    words = re.findall(r"`([^`]+)`", cells[2])
    found = [n for w in words for n in names_of(w, known)]
    missing = [w for w in words if not names_of(w, known)]
    claimed = cells[3].split(", ")
    has = set().union(*(targets_of(n, on_metal) for n in found))
    texts = "".join(text_of(known[n]) for n in found)
    calls = set(re.findall(r"\brlx_\w+\b(?!\.)", cells[0] + cells[1])) - TYPES
    unused = sorted(c for c in calls if not re.search(rf"\b{c}\b", texts))
    wrong = f"no such tests {missing}; targets without a test {set(claimed) - has}; not used there {unused}"
    ok = words and not missing and claimed and set(claimed) <= has and not unused
    result(ok and [t for t in TARGETS if t in claimed] == claimed, name, wrong)


headers = "".join(p.read_text(encoding="ascii") for p in sorted((ROOT / "runtime-lite").glob("*.h")))
TYPES = set(re.findall(r"^\} (rlx_\w+);$", headers, re.M)) | {"rlx_stubs"}


def main():
    page, reference = read("docs/COVERAGE.md"), read("docs/REFERENCE.md")
    options = read("compiler/cli/options.def")
    on_metal = set(re.findall(r"^all: (\w+)", read("tests/runtime/programs.txt"), re.M))
    ours = set(re.findall(r"\brlx_\w+\b", page))
    result(not (gone := sorted(n for n in ours if not re.search(rf"\b{n}\b", headers) and n not in TYPES)),
           "calls of ours that the page names are in the headers", gone)
    named = set(re.findall(r"(--[a-z][\w-]+)", page))
    result(not (gone := sorted(n for n in named if f'"{n}"' not in options)), "options exist", gone)
    heads = "\n".join(line for line in reference.splitlines() if line.startswith("### "))
    public = {n for n in re.findall(r"`(rlx_\w+)`", heads) if re.search(rf"\b{n}\(", reference)}
    result(len(public) > 80 and not public - ours, "each call of the reference is in the page", public - ours)
    known = tests()
    rows = list(rows_of(page))
    result(len(rows) > 80, "the page has its tables", len(rows))
    for heading, cells in rows:
        check_row(heading, cells, known, on_metal)
    return tap.end()


sys.exit(main())
