# SPDX-License-Identifier: Apache-2.0
"""What the checks know about C: which files are ours, text without comments and strings, where functions are.

A scan by braces, not a parser: it needs no compiler and no tags program, and the project's own style
(braces balanced under every #if, one function after another) is what makes it exact.
"""
import functools
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAYERS = ("base", "ir", "passes", "codegen", "compiler")
CODE_FOLDERS = LAYERS + ("runtime-lite",)

TOKEN = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
EXTERN_C = re.compile(r'extern\s+""\s*\{')


def list_files():
    """Paths relative to ROOT of all files that are, or would be, under version control."""
    try:
        out = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                             cwd=ROOT, check=True, capture_output=True).stdout.decode()
        names = [name for name in out.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):  # a release archive has no .git
        names = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file()]
        names = [n for n in names if not n.startswith(("build", ".git/")) and "__pycache__" not in n]
    return sorted(name for name in set(names) if (ROOT / name).is_file())


def blank(text):
    return "\n".join(" " * len(line) for line in text.split("\n"))


@functools.lru_cache(maxsize=4)  # several checks ask for the same file, one after the other
def strip_text(source):
    """The source with comments blanked and literals emptied; lines stay where they are."""
    def replace(match):
        token = match.group(0)
        if token[0] == "/":
            return blank(token)
        return token[0] * 2 + blank(token)[2:]
    return TOKEN.sub(replace, source)


def find_functions(source):
    """[(name, first line, lines)] of the function bodies in C source, signature line included."""
    code = DIRECTIVE.sub(lambda m: blank(m.group(0)), strip_text(source))
    code = EXTERN_C.sub(lambda m: blank(m.group(0)), code)
    functions, depth, opened, closed, name = [], 0, 0, 0, ""
    for match in re.finditer(r"[{}]", code):
        at = match.start()
        if match.group(0) == "{":
            if depth == 0:
                name = name_of_body(code[closed:at].rstrip())
                opened = at
            depth += 1
        elif depth > 0:
            depth -= 1
            closed = at + 1
            if depth == 0 and name:
                first = code.count("\n", 0, code.rindex(name + "(", 0, opened)) + 1
                last = code.count("\n", 0, at) + 1
                functions.append((name, first, last - first + 1))
    return functions


def name_of_body(head):
    """The function whose body opens behind this text, which begins behind the last body; "" where something
    else does."""
    if not head.endswith(")"):
        return ""
    depth = 0
    for i in range(len(head) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(head[i], 0)
        if depth == 0:
            found = re.search(r"\w+$", head[:i])
            return found.group() if found else ""
    return ""


def report(program, problems):
    """Prints the problems and returns the exit status."""
    for problem in problems:
        print(problem)
    print(f"{program}: {len(problems)} problems" if problems else f"{program}: clean")
    return 1 if problems else 0
