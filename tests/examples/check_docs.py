#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Commands in the texts of this project are those that a test runs, and their options exist.

usage: check_docs.py RLXC

* A fenced block that holds commands is a ```sh block of a page that tests/examples/meson.build names, where
  run_readme.py runs it.
* What a page links to in this repository is there.
* In `rlxc COMMAND ...` between backticks, the command and its --options are those of `rlxc --help-markdown`.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```$", re.M | re.S)
COMMAND = re.compile(r"^(?:\$ )?(?:rlxc|meson|ninja|cmake|make|cc|gcc|clang|pip|python3?|\./\S+|tools/\S+)\s",
                     re.M)
LINK = re.compile(r"\]\(([^)#:\s]+)(#[\w-]*)?\)")
SPAN = re.compile(r"`rlxc ([a-z][a-z-]*)( [^`]*)?`")


def pages():
    skipped = {"build", ".git", "node_modules"}
    for path in sorted(ROOT.rglob("*.md")):
        parts = path.relative_to(ROOT).parts
        if not skipped & set(parts) and not any((p / "meson-private").is_dir() for p in path.parents):
            yield path.relative_to(ROOT), path.read_text()


def known_options(rlxc):
    """command: its options. (`rlxc help COMMAND` is no row of the table of commands.)"""
    text = subprocess.run([rlxc, "--help-markdown"], capture_output=True, text=True, check=True).stdout
    return {part.split(None, 1)[0]: set(re.findall(r"^\| `(-[^\s`]+)", part, re.M)) | {"--json", "--no-color"}
            for part in text.split("\n## rlxc ")[1:]} | {"help": set()}


def check_blocks(name, text, run):
    for block in FENCE.finditer(text):
        line = text.count("\n", 0, block.start()) + 1
        has_commands = COMMAND.search(block[2]) is not None
        if has_commands and block[1] != "sh":
            yield f"{name}:{line}: a block with commands that is no ```sh block"
        if block[1] == "sh" and str(name) not in run:
            yield f"{name}:{line}: a ```sh block, but tests/examples/meson.build does not run this page"


def check_spans(name, text, options):
    for span in SPAN.finditer(FENCE.sub(lambda b: "\n" * b[0].count("\n"), text)):
        line = text.count("\n", 0, span.start()) + 1
        if span[1] not in options:
            yield f"{name}:{line}: there is no command rlxc {span[1]}"
            continue
        for option in re.findall(r"(?<=\s)--?[a-zA-Z][\w-]*", span[2] or ""):
            if option not in options[span[1]]:
                yield f"{name}:{line}: rlxc {span[1]} has no option {option}"


def check_links(name, text):
    for link in LINK.finditer(FENCE.sub(lambda b: "\n" * b[0].count("\n"), text)):
        line = text.count("\n", 0, link.start()) + 1
        if not (ROOT / name.parent / link[1]).exists():
            yield f"{name}:{line}: {link[1]} is not there"


def main():
    options = known_options(sys.argv[1])
    run = set(re.findall(r"'((?:[\w./-]+/)?[\w.-]+\.md)'", (ROOT / "tests/examples/meson.build").read_text()))
    run |= {f"examples/{name}/README.md" for name in
            re.findall(r"'([\w-]+)'", (ROOT / "tests/examples/meson.build").read_text())}
    wrong, n = [], 0
    for name, text in pages():
        wrong += [*check_blocks(name, text, run), *check_spans(name, text, options), *check_links(name, text)]
        n += 1
    print("\n".join(wrong))
    print(f"{n} pages, {len(wrong)} wrong")
    sys.exit(1 if wrong or n < 10 else 0)


main()
