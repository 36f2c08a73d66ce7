#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the headers of runtime-lite into C (codegen/host/runtime_text.h), in pieces: rlxc pastes only those
that a model needs. A piece is what stands between two blank lines: a function, a type, some macros. Lines
between `#if RLX_HAS_X` and its `#else` or `#endif` are for models that have X, and the lines behind that
`#else` for the others. The comment of a piece is cut to its first sentence, because docs/REFERENCE.md has
all of it. Where calls say nothing of what they failed at (RLX_HAS_ERRORS is off), `rlx_fail(ctx, STATUS,
...)` is STATUS.
Usage: embed_runtime.py GUIDE OUTPUT HEADER...: what the guide, docs/API.md, names is public."""

import pathlib
import re
import sys
import textwrap

WIDTH = 108
FAILS = {"rlx_fail_size": "RLX_ERR_SIZE", "rlx_fail_null": "RLX_ERR_NULL", "rlx_fail_bucket": "RLX_ERR_RANGE",
         "rlx_fail": None}
FAIL = re.compile(rf"\b({'|'.join(FAILS)})\(")
HAS = re.compile(r"^#if RLX_HAS_(\w+)$")
END = re.compile(r"[;{})]$")  # of a line before a statement
WORD = re.compile(r"\b(?:rlx|RLX)_\w+\b")
FRAME, PUBLIC = "PIECE_FRAME", "PIECE_PUBLIC"


def code_of(line):
    return re.sub(r"//.*", "", re.sub(r'"(?:[^"\\]|\\.)*"', '""', line))


def names_of(lines):
    """What a piece defines: functions, types, enumerators and macros."""
    text = "\n".join(code_of(line) for line in lines)
    names = re.findall(r"^static [^;={]*?\b(rlx_\w+)\(", text, re.M)
    names += re.findall(r"^(?:\} |typedef [^{;]*?\b)(rlx_\w+)(?:\[\w*\])?;", text, re.M)
    names += re.findall(r"^typedef (?:enum|struct) (rlx_\w+) \{", text, re.M)
    names += re.findall(r"^typedef [^{;]*\(\*?(?:\w+ \*)?(rlx_\w+)\)", text, re.M)
    names += re.findall(r"^#define (\w+)", text, re.M)
    for enum in re.findall(r"\benum(?: \w+)? \{(.*?)\}", text, re.S):
        names += re.findall(r"\bRLX_\w+", enum)
    return list(dict.fromkeys(n for n in names if WORD.fullmatch(n)))


def text_of(lines):
    return "\n".join(line for _, _, line in lines)


def is_public(names, public, text):
    """Does the piece have a call, or no more than macros, that the guide names?"""
    calls = set(names) & set(re.findall(r"^static [^;={]*?\b(rlx_\w+)\(", text, re.M))
    return bool(public & (calls or (set() if "typedef" in text or "enum" in text else set(names))))


def first_sentence(comment):
    text = " ".join(re.sub(r"^// ?", "", line) for line in comment)
    return re.split(r"(?<=[\w)\]>\"'`][.?])\s+(?=[A-Z(])", text)[0].strip()


def brief(comment):
    return ["// " + line for line in textwrap.wrap(first_sentence(comment), WIDTH - 3)]


def end_of_call(text, at):
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return i + 1
    raise SystemExit(f"embed_runtime: no end of a call in {text}")


def second_argument(text):
    depth, parts = 0, [""]
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return parts[1].strip()


def without_text(statement):
    """The statement with the status alone, where it has a call that says what it failed at."""
    while (found := FAIL.search(statement)) is not None:
        end = end_of_call(statement, found.end() - 1)
        status = FAILS[found[1]] or second_argument(statement[found.end() : end - 1])
        statement = statement[: found.start()] + status + statement[end:]
    return statement


def wrap(statement, indent):
    return textwrap.wrap(statement, WIDTH, initial_indent=indent, subsequent_indent=indent + "    ",
                         break_long_words=False, break_on_hyphens=False)


def members_of(pieces):
    """By type: members of rlx_model and rlx_ctx that point to it, as code that looks inside of it has them.
    Where none does the type may stay incomplete."""
    members = {}
    for _, _, lines in pieces:
        for _, _, line in lines:
            if (found := re.match(r"    (?:const )?struct (rlx_\w+) \*(\w+);", line)) is not None:
                members.setdefault(found[1], []).append("->" + found[2])
    return members


class Reader:
    """The pieces of one header: [names, flags, [(has, has_not, line)]]."""

    def __init__(self, path):
        self.lines = path.read_text(encoding="ascii").splitlines()
        self.conditions, self.pieces, self.piece = [], [], []

    def add(self, line, has=(), has_not=()):
        known = [c for c in self.conditions if c is not None]
        self.piece.append((sorted({c[0] for c in known if c[1]} | set(has)),
                           sorted({c[0] for c in known if not c[1]} | set(has_not)), line))

    def close(self, flags):
        lines = [line for _, _, line in self.piece]
        code = [line for line in lines if not line.startswith("//")]
        if code:
            names = [] if flags == [FRAME] else names_of(code)
            if flags != [FRAME]:
                n = next(i for i, line in enumerate(lines) if not line.startswith("//"))
                head = self.piece[:n]
                short = [(h, w, line) for line in brief(lines[:n]) for h, w, _ in head[:1]]
                self.piece = short + self.piece[n:]
            self.pieces.append((names, flags, self.piece))
        self.piece = []

    def condition(self, line):
        """Is the line one of a condition, and has it been dealt with?"""
        if (found := HAS.match(line)) is not None:
            self.conditions.append((found[1], True))
        elif line.startswith("#if"):
            self.conditions.append(None)
            return False
        elif line.startswith("#else") and self.conditions and self.conditions[-1] is not None:
            self.conditions[-1] = (self.conditions[-1][0], not self.conditions[-1][1])
        elif line.startswith("#endif"):
            return self.conditions.pop() is not None
        else:
            return False
        return True

    def take(self, lines):
        """Lines of C, the calls that fail in both forms."""
        i = 0
        while i < len(lines):
            n = 1
            if FAIL.search(code_of(lines[i])) and not lines[i].startswith("static"):
                while i > 0 and lines[i - 1][:1] == " " and not END.search(code_of(lines[i - 1]).strip()):
                    i -= 1
                    self.piece.pop()
                while not code_of(lines[i + n - 1]).rstrip().endswith(";"):
                    n += 1
                whole = lines[i : i + n]
                comment = re.search(r" // .*", whole[-1])
                statement = without_text(" ".join(code_of(line).strip() for line in whole))
                indent = re.match(" *", whole[0])[0]
                for line in whole:
                    self.add(line, has=["ERRORS"])
                for line in wrap(statement, indent):
                    behind = comment[0] if comment and line.endswith(";") else ""
                    self.add(line + behind, has_not=["ERRORS"])
            else:
                self.add(lines[i])
            i += n

    def read(self, public):
        guard, body = self.frame()
        depth, pending = 0, []

        def flush():
            self.take(pending)
            pending.clear()

        for line in body:
            if not line and depth == 0 and not any(c is None for c in self.conditions):
                flush()
                self.close([])
                continue
            if self.condition_comes(line):
                flush()
            if self.condition(line):
                continue
            pending.append(line)
            depth += code_of(line).count("{") - code_of(line).count("}")
        flush()
        self.close([])
        return [guard, *[(names, [PUBLIC] if is_public(names, public, text_of(lines)) else flags, lines)
                         for names, flags, lines in self.pieces]]

    @staticmethod
    def condition_comes(line):
        return line.startswith(("#if", "#else", "#endif"))

    def frame(self):
        """Takes the guard, the includes of other headers and what C++ needs off."""
        text = "\n".join(self.lines)
        text = re.sub(r'#ifdef __cplusplus\n(?:extern "C" \{|\})\n#endif\n', "", text)
        guard = re.search(r"^#ifndef (\w+)\n#define \1\n", text, re.M)
        includes = re.findall(r'^#include "rlx.*\n', text, re.M)
        features = re.findall(r"^#define RLX_HAS_\w+ .*\n", text, re.M)
        text = re.sub(r"^#ifdef RLX_FEATURES\n.*\n#endif\n#define RLX_FEATURES .*\n", "", text, flags=re.M)
        body = text[guard.end() :].rsplit("#endif", 1)[0]
        body = re.sub(r'^#include "rlx.*\n|^#define RLX_HAS_\w+ .*\n', "", body, flags=re.M)
        head = [f"#ifndef {guard[1]}", f"#define {guard[1]}", *"".join(includes).splitlines()]
        named = [(re.findall(r"RLX_HAS_(\w+)", line), [], line) for line in "".join(features).splitlines()]
        return ([], [FRAME], [([], [], line) for line in head] + named), body.splitlines()


def bits(names):
    return " | ".join("HAS_" + n for n in names) or "0"


def quote(line):
    return '"' + line.replace("\\", "\\\\").replace('"', '\\"') + '\\n"'


def main():
    guide, output, *headers = map(pathlib.Path, sys.argv[1:])
    public = set(re.findall(r"\b(?:rlx|RLX)_\w+\b(?!\.h)", guide.read_text(encoding="utf-8")))
    pieces, lines, parts, members = [], [], [], {}
    for header in headers:
        own = Reader(header).read(public)
        members = members or members_of(own)  # of rlx_types.h, which is the first
        own = [(names + [m for name in names for m in members.get(name, [])], *more) for names, *more in own]
        parts.append(f'    {{"{header.name}", {len(pieces)}, {len(own)}}},')
        for names, flags, text in own:
            place = f"{' | '.join(flags) or 0}, {len(lines)}, {len(text)}"
            pieces.append(f'    {{"{" ".join(names)}", {place}}},')
            lines += [f"    {{{bits(has)}, {bits(lacks)}, {quote(line)}}}," for has, lacks, line in text]
    table = "const Runtime{}[] = {{\n{}\n}};\n"
    text = '#include "codegen/host/runtime_text.h"\n\n'
    text += table.format("Line runtime_lines", "\n".join(lines)) + "\n"
    text += table.format("Piece runtime_pieces", "\n".join(pieces)) + "\n"
    text += table.format("Part runtime_parts", "\n".join(parts))
    text += f"const uint32_t n_runtime_parts = {len(parts)}, n_runtime_pieces = {len(pieces)};\n"
    output.write_text(text, encoding="ascii")


main()
