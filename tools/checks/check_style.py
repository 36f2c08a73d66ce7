#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what a reader would otherwise have to: width, white space, headers, lengths, names, banned calls.

The rules are in CONTRIBUTING.md. Each rule is a function from (path, text) to problems, and each has a
sample that breaks it: the samples run first, so that a rule that cannot fail is itself a failure
(`--self-test`: only they).
"""
import re
import sys

import csource

MAX_WIDTH, MAX_FILE, MAX_FUNCTION = 110, 600, 60
PLAIN_TEXT = (".c", ".h", ".def", ".py", ".md", ".sh", ".build", ".txt", ".cl", ".cu", ".comp", ".glsl",
              ".inc")
CODE = (".c", ".h", ".def", ".py", ".sh", ".build")
WIDE = (".def", ".inc", ".md", ".txt")      # tables and prose
LONG = (".def", ".inc", ".md")
DATA_FOLDERS = ("tests/golden/", "tests/ir/", "tests/diag/", "tests/json/", "tests/conformance/", "models/")
INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff]")
OUR_T = re.compile(r"\}\s*\w+_t\s*;|\btypedef\b[^;{}]*\b\w+_t\s*;|\b(?:struct|union|enum)\s+\w+_t\s*\{")
ALLOCATING = re.compile(r"(?<![\w.>])(malloc|calloc|realloc|free|printf|puts|putchar)\s*\(")
PIECE = re.compile(r"^//@ (.+)$", re.M)
UNSAFE = re.compile(r"(?<![\w.>])(gets|strcpy|strcat|v?sprintf|strtok|ato[ilf]|rand|alloca)\s*\(")


def at(path, text, position, message):
    return f"{path}:{text.count(chr(10), 0, position) + 1}: {message}"


def is_script(path, text):
    return path.endswith(CODE) or text.startswith("#!")


def check_width(path, text):
    if path.endswith(WIDE):
        return []
    return [f"{path}:{n}: {len(line)} columns; at most {MAX_WIDTH}"
            for n, line in enumerate(text.split("\n"), 1) if len(line) > MAX_WIDTH]


def check_white_space(path, text):
    problems = [at(path, text, m.start(), "white space at the end of the line")
                for m in re.finditer(r"[ \t\r]+$", text, re.MULTILINE)]
    if not text.startswith("#!/usr/bin/make"):
        problems += [at(path, text, m.start(), "a tab") for m in re.finditer(r"\t", text)]
    problems += [at(path, text, m.start(), f"invisible character U+{ord(m.group(0)):04X}")
                 for m in INVISIBLE.finditer(text)]
    if text and not text.endswith("\n"):
        problems.append(at(path, text, len(text), "no newline at the end of the file"))
    if text.endswith("\n\n"):
        problems.append(at(path, text, len(text), "an empty line at the end of the file"))
    return problems


def check_header(path, text):
    """Every source opens with the licence and a comment that says what it is."""
    if not is_script(path, text):
        return []
    lines = text.split("\n")
    if lines[0].startswith("#!"):
        lines = lines[1:]
    problems = []
    if "SPDX-License-Identifier: " not in lines[0]:
        problems.append(f"{path}:1: no SPDX-License-Identifier line")
    if len(lines) < 2 or not re.match(r'(//|#|"""|/\*|\*) ?\w|"""\w', lines[1].strip()):
        problems.append(f"{path}:2: no comment that says what this file is")
    return problems


def check_length(path, text):
    n = text.count("\n")
    return [f"{path}:1: {n} lines; at most {MAX_FILE}"] if n > MAX_FILE and not path.endswith(LONG) else []


def check_functions(path, text):
    if not path.endswith((".c", ".h")):
        return []
    return [f"{path}:{line}: {name}() has {n} lines; at most {MAX_FUNCTION}"
            for name, line, n in csource.find_functions(text) if n > MAX_FUNCTION]


def check_names(path, text):
    if not path.endswith((".c", ".h", ".def")):
        return []
    code = csource.strip_text(text)
    return [at(path, code, m.start(), "types of ours never end in _t (POSIX owns these names)")
            for m in OUR_T.finditer(code)]


def check_calls(path, text):
    if not path.endswith((".c", ".h", ".def")):
        return []
    code = csource.strip_text(text)
    problems = [at(path, code, m.start(), f"{m.group(1)}() is banned") for m in UNSAFE.finditer(code)]
    if path.startswith(("ir/", "passes/", "codegen/", "runtime-lite/")):
        problems += [at(path, code, m.start(), f"{m.group(1)}() is for base/ and compiler/ only")
                     for m in ALLOCATING.finditer(code)]
    return problems


def check_pieces(path, text):
    """Of preludes: only the first of a name would count."""
    marks = [m for m in PIECE.finditer(text) if m.group(1) != "*"] if path.endswith(".inc") else []
    first = {m.group(1): m.start() for m in reversed(marks)}
    return [at(path, text, m.start(), f"the piece {m.group(1)} is there already")
            for m in marks if first[m.group(1)] != m.start()]


RULES = (check_width, check_white_space, check_header, check_length, check_functions, check_names,
         check_calls, check_pieces)


def check_file(path, text):
    return [problem for rule in RULES for problem in rule(path, text)]


def check_tree():
    problems = []
    for path in csource.list_files():
        if path.startswith(DATA_FOLDERS) and not path.endswith((".py", ".c", ".h", ".build")):
            continue
        data = (csource.ROOT / path).read_bytes()
        if not path.endswith(PLAIN_TEXT) and not data.startswith(b"#!"):
            continue
        try:
            problems += check_file(path, data.decode("utf-8"))
        except UnicodeDecodeError as error:
            problems.append(f"{path}:1: not UTF-8: {error}")
    return problems


HEAD = "// SPDX-License-Identifier: Apache-2.0\n// A sample.\n"
GOOD = HEAD + 'int f(void)\n{\n    return g("malloc(1); \\"\\t");\n}\nuint32_t n; // free(n)\n'
BAD = (
    ("ir/a.c", HEAD + "int " + "x" * 120 + ";\n", check_width),
    ("ir/a.c", HEAD + "int x; \n", check_white_space),
    ("ir/a.c", HEAD + "\tint x;\n", check_white_space),
    ("ir/a.c", HEAD + "int x;", check_white_space),
    ("ir/a.c", HEAD + "int x; // \u202e\n", check_white_space),
    ("ir/a.c", "// A sample.\nint x;\n", check_header),
    ("ir/a.c", "// SPDX-License-Identifier: Apache-2.0\nint x;\n", check_header),
    ("tools/a", "#!/bin/sh\nset -u\n", check_header),
    ("ir/a.c", HEAD + "int x;\n" * 600, check_length),
    ("ir/a.c", HEAD + "int f(int (*g)(void))\n{\n    if (g) {\n" + "    f(g);\n" * 57 + "    }\n}\n",
     check_functions),
    ("ir/a.c", HEAD + "typedef struct A {\n    int x;\n} a_t;\n", check_names),
    ("ir/a.c", HEAD + "typedef unsigned a_t;\n", check_names),
    ("ir/a.c", HEAD + "void f(void)\n{\n    free(p);\n}\n", check_calls),
    ("runtime-lite/a.h", HEAD + "void *p = malloc (3);\n", check_calls),
    ("compiler/a.c", HEAD + "int n = atoi(text);\n", check_calls),
    ("codegen/prelude/a.inc", HEAD + "//@ a\nint a;\n//@ b\nint b;\n//@ a\nint a;\n", check_pieces),
)


def self_test():
    assert not check_file("ir/a.c", GOOD), check_file("ir/a.c", GOOD)
    assert not check_file("base/a.c", HEAD + "void *p = malloc(3);\n")
    for path, text, rule in BAD:
        assert rule(path, text), f"{rule.__name__} accepts a bad sample"
    assert {rule for _, _, rule in BAD} == set(RULES), "a rule has no sample"
    exact = HEAD + "int f(void)\n{\n" + "    g();\n" * 57 + "}\n"
    assert csource.find_functions(exact) == [("f", 3, 60)], csource.find_functions(exact)


if __name__ == "__main__":
    self_test()
    sys.exit(0 if sys.argv[1:] == ["--self-test"] else csource.report("check_style", check_tree()))
