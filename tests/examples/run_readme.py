#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of a Markdown file in a scratch copy of the sources, and compares what they print.

    run_readme.py RLXC [--prefix DIR] [--limit SECONDS] FILE.md...

Every block that opens with ```sh is run, all blocks of a file in one shell (`sh -eu`), so that folders and
variables last from one to the next, as they do for a reader. It starts in the root of the copy for files in
docs/ and for those of the root itself, else in the folder of the file (examples/make/README.md). The PATH
begins with a folder that has `rlxc`: RLXC, or with --prefix DIR the bin folder of what `meson install` put
there. Commands that change the machine (apt-get, sudo) belong into plain ``` blocks, which are not run.

A block ```output right after one (only empty lines and prose between) says what must be printed: its lines
appear in that order, others may stand between, and `...` in a line stands for anything. HTML comments right
before a block say more:

    <!-- run: skip, REASON -->      the block is not run; the reason is printed
    <!-- run: needs TOOL... -->     it is run where all of these programs are on the PATH; the same for what
                                    comes behind it in the file, which may depend on it (`needs-only`: not)

Exit status: 0, all that was run printed what it must; 77, nothing could be run; 1 otherwise.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

MARK = "@@run_readme block "
FENCE = re.compile(r"^```(\S*)\s*$")
DIRECTIVE = re.compile(r"^<!-- run: (skip|needs-only|needs)[, ]+(.*?) *-->\s*$")


class Block:
    def __init__(self, line, directive):
        self.line, self.directive = line, directive
        self.commands, self.expected = [], []


def read_blocks(text):
    """The sh blocks, each with the output that follows it."""
    blocks, open_list, is_open, directive = [], None, False, None
    for number, line in enumerate(text.split("\n"), 1):
        fence = FENCE.match(line)
        if is_open:
            if fence and not fence.group(1):
                is_open = False
            elif open_list is not None:
                open_list.append(line)
        elif fence:
            is_open, open_list = True, None
            if fence.group(1) == "sh":
                blocks.append(Block(number, directive))
                open_list = blocks[-1].commands
            elif fence.group(1) == "output" and blocks:
                open_list = blocks[-1].expected
            directive = None
        elif DIRECTIVE.match(line):
            directive = DIRECTIVE.match(line).groups()
        elif line.startswith("<!-- run:"):
            raise ValueError(f"line {number}: not understood: {line}")
    if is_open:
        raise ValueError("a ``` block does not end")
    return blocks


def matches(pattern, line):
    parts = (re.escape(part) for part in pattern.strip().split("..."))
    return re.search(".*".join(parts), line) is not None


def missing_line(expected, printed):
    """The first expected line that does not come, in order; None where all do."""
    lines = iter(printed.split("\n"))
    for pattern in expected:
        if pattern.strip() and not any(matches(pattern, line) for line in lines):
            return pattern
    return None


def source_root(path):
    folder = os.path.dirname(os.path.abspath(path))
    while not os.path.exists(os.path.join(folder, "meson_options.txt")):
        if folder == "/":
            sys.exit(f"{path}: lies in no source tree of rlxc")
        folder = os.path.dirname(folder)
    return folder


def copy_tree(root, scratch):
    """All but what git and builds made: folders build, build-*, and whatever Meson configured."""

    def ignored(folder, names):
        made = {n for n in names if os.path.isdir(os.path.join(folder, n, "meson-private"))}
        made |= {n for n in names if os.path.islink(os.path.join(folder, n))}
        made |= {n for n in names if n in (".git", "build", "__pycache__") or n.startswith("build-")}
        return made

    shutil.copytree(root, scratch, ignore=ignored, symlinks=True)


def choose(blocks, path, environment):
    """The blocks that can be run here; says why others are not."""
    chosen, is_cut = [], None
    for block in blocks:
        kind, what = block.directive or (None, "")
        reason = is_cut
        if kind == "skip":
            reason = what
        elif kind:
            absent = [t for t in what.split() if shutil.which(t, path=environment["PATH"]) is None]
            if absent:
                reason = "no " + ", ".join(absent)
                is_cut = is_cut or (reason if kind == "needs" else None)
        if reason:
            print(f"{path}:{block.line}: skipped: {reason}")
        else:
            chosen.append(block)
    return chosen


def run_blocks(blocks, start, environment, limit):
    """The output of each block that was reached, and the status of the shell."""
    script = "set -eu\nexec 2>&1\n"
    for i, block in enumerate(blocks):
        script += f"printf '\\n{MARK}{i}\\n'\n" + "\n".join(block.commands) + "\n"
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        try:
            status = subprocess.run(["sh", "-c", script], cwd=start, env=environment, timeout=limit,
                                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False).returncode
        except subprocess.TimeoutExpired:
            status = f"not done after {limit} s"
        log.seek(0)
        parts = log.read().split("\n" + MARK)[1:]
    return [part.partition("\n")[2] for part in parts], status


def check_file(path, environment, limit):
    """None: passed; else what is wrong. 77: nothing could be run."""
    with open(path, encoding="utf-8") as f:
        blocks = read_blocks(f.read())
    if not blocks:
        return "no sh block in it"
    chosen = choose(blocks, path, environment)
    if not chosen:
        return 77
    root = source_root(path)
    inside = os.path.relpath(os.path.dirname(os.path.abspath(path)), root)
    with tempfile.TemporaryDirectory(prefix="rlxc-readme-") as scratch:
        copy = os.path.join(scratch, "rlxc")
        copy_tree(root, copy)
        start = copy if inside == "docs" else os.path.join(copy, inside)
        printed, status = run_blocks(chosen, start, dict(environment, TMPDIR=scratch), limit)
    for number, (block, text) in enumerate(zip(chosen, printed), 1):
        line = missing_line(block.expected, text)
        if number == len(printed) and status != 0:
            return f"line {block.line}: the commands failed ({status}):\n{text}"
        if line is not None:
            return f"line {block.line}: expected a line '{line}' in:\n{text}"
    return None if status == 0 and len(printed) == len(chosen) else f"ended early ({status})"


def make_environment(rlxc, prefix, folder):
    environment = dict(os.environ)
    environment.pop("RLXC_LIBCLANG", None)  # other tests do without the validator, readers do not
    if prefix:
        prefix = os.path.abspath(prefix)
        first = os.path.join(prefix, "bin")
        pc = [os.path.join(top, "pkgconfig") for top, names, _ in os.walk(prefix) if "pkgconfig" in names]
        environment["PKG_CONFIG_PATH"] = ":".join(pc)
    else:
        first = folder
        os.symlink(os.path.abspath(rlxc), os.path.join(folder, "rlxc"))
    environment["PATH"] = first + ":" + environment["PATH"]
    return environment


def main():
    parser = argparse.ArgumentParser(description="Runs the sh blocks of Markdown files.")
    parser.add_argument("rlxc")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--prefix")
    parser.add_argument("--limit", type=int, default=300)
    options = parser.parse_args()
    failed, ran = [], 0
    with tempfile.TemporaryDirectory(prefix="rlxc-path-") as folder:
        environment = make_environment(options.rlxc, options.prefix, folder)
        for path in options.files:
            try:
                wrong = check_file(path, environment, options.limit)
            except ValueError as e:
                wrong = str(e)
            if wrong not in (None, 77):
                failed.append(f"{path}: {wrong}")
            ran += wrong != 77
    for text in failed:
        print(text)
    sys.exit(1 if failed else 0 if ran else 77)


if __name__ == "__main__":
    main()
