#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the passes on small graphs and compares what they make, as text.

A case is X.rlx beside this file: `# pass: NAME [OPTIONS]`, what the case is about in further comments, a
graph in IR text, a line `=>`, and the graph or plan after that pass. The passes before it run too. Nodes that
nothing reads are left out and the others are counted anew in the order in which they come up, so that a case
does not depend on what was made in between. Passes that work on kernels show their listings; of the plans of
other passes behind them only arguments and buffers are shown. Called as `run_ir.py RLXC [--update] [X...]`;
--update rewrites what is expected: read the difference. Every pass must have a case.
"""
import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
TIME_LIMIT = 20     # seconds a case
ARROW = "=>\n"
ON_KERNELS = ("lower", "prepare", "beside", "behind", "dispatch", "threads")
PLAN_LINE = re.compile(r"kernel \d+: |  arg |b\d+ |arena ")


def split_case(text):
    """(pass, options, graph, expected) of a case; expected is None where there is no arrow yet."""
    first = text.split("\n", 1)[0]
    found = re.fullmatch(r"# pass: (\w+)((?: \S+)*)", first)
    if not found:
        raise ValueError(f"the first line is '{first}', expected '# pass: NAME'")
    graph, arrow, expected = text.partition("\n" + ARROW)
    return found[1], found[2].split(), graph + "\n", expected if arrow else None


def renumber(text):
    numbers = {}
    return re.sub(r"%(\d+)", lambda m: "%" + numbers.setdefault(m[1], str(len(numbers) + 1)), text)


def drop_dead(lines):
    """Without the nodes that nothing reads; inputs stay. Operands come before their users."""
    read, kept = set(), []
    for line in reversed(lines):
        made = re.match(r"  %(\d+) = (\w+)", line)
        if made and made[1] not in read and made[2] not in ("input", "state"):
            continue
        read.update(re.findall(r"%(\d+)", line))
        kept.append(line)
    return kept[::-1]


def normalise(dump, name):
    lines = [line for line in dump.splitlines(True) if not line.startswith("===")]
    if not any(line.startswith("  arg ") for line in lines):
        return renumber("".join(drop_dead(lines)))
    plan = renumber("".join(line for line in lines if PLAN_LINE.match(line)))
    if name not in ON_KERNELS:
        return plan
    rest = iter(plan.splitlines(True))  # values of a listing have numbers of their own
    return "".join(next(rest) if PLAN_LINE.match(line) else line for line in lines
                   if not line.startswith("  # "))


def run(rlxc, name, options, graph):
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "case.rlx"
        model.write_text(graph, encoding="utf-8")
        command = [rlxc, "compile", str(model), "-o", folder, "--stop-after=" + name, "--dump=" + name]
        command += options
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIME_LIMIT,
                                  check=False)
        except subprocess.TimeoutExpired:
            return f"no end after {TIME_LIMIT} s\n"
    text = done.stderr.decode("utf-8", "backslashreplace").replace(str(model), "case.rlx")
    return normalise(text, name) if done.returncode == 0 else f"status {done.returncode}\n{text}"


def self_test():
    head = "# pass: fold -O1\n# why\ngraph\n"
    assert split_case(head + "=>\nafter\n") == ("fold", ["-O1"], head, "after\n")
    assert split_case("# pass: fold\ngraph\n")[3] is None
    assert normalise("=== after x ===\n  %7 = neg(%3)\n  %8 = exp(%3)\n  output = %7\n", "x") == \
        "  %1 = neg(%2)\n  output = %1\n"
    plan = "kernel 0: %5 = neg\n  arg 0: b1\nkernel k0\n  # %5 = neg\n  %2 = load\nb1 arena\n"
    assert normalise(plan, "order") == "kernel 0: %1 = neg\n  arg 0: b1\nb1 arena\n"
    assert normalise(plan, "lower") == "kernel 0: %1 = neg\n  arg 0: b1\nkernel k0\n  %2 = load\nb1 arena\n"
    try:
        split_case("graph\n")
    except ValueError:
        return
    raise AssertionError("a case without a pass is accepted")


def passes_without_case(rlxc):
    listed = subprocess.run([rlxc, "passes"], capture_output=True, text=True, check=True).stdout
    tested = {split_case(p.read_text(encoding="utf-8"))[0] for p in FOLDER.glob("*.rlx")}
    return [line.split()[0] for line in listed.splitlines() if line.split()[0] not in tested]


def main(args):
    self_test()
    rlxc = os.path.abspath(args[0])
    names = [pathlib.Path(a).stem for a in args[1:] if not a.startswith("--")]
    cases = sorted(p for p in FOLDER.glob("*.rlx") if not names or p.stem in names)
    print(f"1..{len(cases) + 1}")
    failures = 0
    for number, path in enumerate(cases, 1):
        name, options, graph, expected = split_case(path.read_text(encoding="utf-8"))
        found = run(rlxc, name, options, graph)
        if "--update" in args:
            path.write_text(graph + ARROW + found, encoding="utf-8")
            expected = found
        failures += found != expected
        print(f"{'not ok' if found != expected else 'ok'} {number} - {path.name}")
        if found != expected:
            for line in difflib.unified_diff((expected or "").splitlines(True), found.splitlines(True),
                                             "expected", "after " + name):
                print("#", line.rstrip("\n"))
    missing = passes_without_case(rlxc)
    print(f"{'not ok' if missing else 'ok'} {len(cases) + 1} - every pass has a case {' '.join(missing)}")
    return 1 if failures or missing or not cases else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
