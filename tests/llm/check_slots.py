#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Slots of language models (--slots): sequences of ragged lengths in one run, in pages that lie anywhere,
with a prefix that two of them share, and a slot that gets another sequence: the logits are those of each
sequence alone, by numpy in doubles and by runs of their own. Usage: check_slots.py RLXC [NAME...]; prints
TAP."""

import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "common")]
try:
    import numpy
except ImportError:
    import in_venv

    in_venv.enter_or_skip("numpy")
import small_vocab  # noqa: E402
from emitted import QUICK, SANITIZE, flags_of  # noqa: E402
from models import MODELS, VOCAB  # noqa: E402
from reference import Reference  # noqa: E402

RLXC = os.path.abspath(sys.argv[1])
PAGE, SLOTS, POOL = 64, 3, 300
PAGES = -(-POOL // PAGE)
ALLOWED, ALLOWED_APART, ALLOWED_F16 = 1e-5, 8e-6, 2e-3


class Pool:
    """What a program keeps: the tokens of each slot, and pages, which several slots may have."""

    def __init__(self):
        self.table = numpy.full((SLOTS, PAGES), -1)
        self.texts = [[] for _ in range(SLOTS)]
        self.free = [3, 0, 4, 2, 1]  # in no order
        self.script, self.expected = [], []

    def row(self, slot, position):
        base = position // PAGE * PAGE
        if base not in self.table[slot]:
            self.table[slot, self.free.pop(0)] = base
        return int(numpy.argmax(self.table[slot] == base)) * PAGE + position % PAGE

    def run(self, parts):
        """parts: (slot, tokens) in the order of the rows of the run. The last token of each is wanted."""
        lines, wanted = [], []
        for slot, tokens in parts:
            for token in tokens:
                position = len(self.texts[slot])
                lines.append(f"{token} {slot} {position} {self.row(slot, position)}")
                self.texts[slot].append(token)
            wanted.append(len(lines) - 1)
            self.expected.append(list(self.texts[slot]))
        table = " ".join(map(str, self.table.flatten()))
        self.script.append(f"pages {table} run {len(lines)} {len(wanted)} {' '.join(lines)}")
        self.script.append(" ".join(map(str, wanted)))

    def share(self, slot, other, pages):
        """The slot begins with whole pages of the other one."""
        own = (self.table[other] >= 0) & (self.table[other] < pages * PAGE)
        self.table[slot] = numpy.where(own, self.table[other], -1)
        self.texts[slot] = self.texts[other][: pages * PAGE]

    def clear(self, slot, shared_with=()):
        kept = {p for other in shared_with for p in numpy.flatnonzero(self.table[other] >= 0)}
        self.free += [int(p) for p in numpy.flatnonzero(self.table[slot] >= 0) if p not in kept]
        self.table[slot], self.texts[slot] = -1, []


def tokens(n, seed):
    return [(7 * i * i + 3 * i + seed) % VOCAB for i in range(n)]


def scenario():
    p = Pool()
    p.run([(0, tokens(70, 1))])
    p.run([(1, tokens(5, 2)), (0, [4])])
    p.share(2, 0, 1)
    p.run([(2, tokens(9, 3)), (1, tokens(17, 4)), (0, [9])])
    for i in range(4):
        p.run([(0, [i]), (1, [i + 9]), (2, [i + 20])])
    p.clear(1)
    p.run([(2, [7]), (1, tokens(31, 6))])
    p.clear(0, shared_with=[2])
    p.run([(0, tokens(3, 8)), (2, [5]), (1, [6])])
    return p


def build(model, folder, options):
    """The model, and the program of slots_test.c."""
    pathlib.Path(folder, "m.gguf").write_bytes(model.file())
    command = [RLXC, "compile", f"{folder}/m.gguf", "-o", folder, "--cpu", "native", "--context", str(POOL)]
    subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL, timeout=300)
    text = f'#include "m.h"\n#define VOCAB {VOCAB}\n#define SLOTS {SLOTS}\n#define PAGES {PAGES}\n'
    pathlib.Path(folder, "llm_model.h").write_text(text)
    program(folder, "slots_test.c", "p")


def program(folder, source, name, *flags):
    command = ["cc", *flags_of(f"{folder}/m.c", QUICK), *SANITIZE, "-I.", "m.c", HERE / source, *flags]
    subprocess.run([*command, "-o", name, "-lm"], check=True, cwd=folder, timeout=500)


def run(folder, script):
    done = subprocess.run(["./p"], input=script.encode(), cwd=folder, capture_output=True, timeout=100)
    assert done.returncode == 0, done.stderr.decode()
    bits = [[int(word, 16) for word in line.split()] for line in done.stdout.decode().splitlines()]
    return numpy.array(bits, "u4").view("f4")


def alone(text):
    """The same tokens in slot 0, in one run."""
    p = Pool()
    p.run([(0, text)])
    return " ".join(p.script)


def far(got, expected):
    if got.shape != expected.shape or not numpy.isfinite(got).all():
        return numpy.inf
    return (numpy.linalg.norm(got - expected, axis=1) / numpy.linalg.norm(expected, axis=1)).max()


def check(name, options):
    model, plan = MODELS[name](), scenario()
    reference = Reference(model)
    with tempfile.TemporaryDirectory() as folder:
        build(model, folder, ["--slots", str(SLOTS), *options])
        got = run(folder, " ".join(plan.script))
        apart = far(got, numpy.concatenate([run(folder, alone(text)) for text in plan.expected]))
    worst = far(got, numpy.array([reference.logits(text)[-1] for text in plan.expected]))
    print(f"# {name} {options}: from numpy {worst:.1e}, from runs alone {apart:.1e}")
    if "f16" in options:
        return max(worst, apart) <= ALLOWED_F16
    return worst <= ALLOWED and apart <= ALLOWED_APART


def sessions(*options):
    """slots_session_test.c, with prompts that take more than one run."""
    model = MODELS["llama"]()
    model.entries |= small_vocab.entries()
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "m.gguf").write_bytes(model.file())
        command = [RLXC, "compile", f"{folder}/m.gguf", "-o", folder, "--cpu", "native"]
        command += ["--slots", str(SLOTS), "--context", str(POOL), "--session", "yes", "--dim"]
        command += ["T=1..48", *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=300)
        strict = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
        program(folder, "slots_session_test.c", "s", *strict, "-Wl,--wrap=malloc")
        done = subprocess.run(["./s"], cwd=folder, capture_output=True, timeout=300)
        print("#", done.returncode, done.stderr.decode()[:2000])
        return done.returncode == 0


def drafts():
    return sessions("--drafts", "4")


def refused():
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "m.gguf").write_bytes(MODELS["llama"]().file())
        for words, text in (
            (["--slots", "0"], "from 1 to 1024"),
            (["--slots", "2", "--outputs", "mean"], "no mean"),
            (["--slots", "2", "--session", "yes"], "no vocabulary"),
            (["--slots", "2", "--session", "yes", "--outputs", "all"], "logits of one token of each slot"),
        ):
            command = [RLXC, "compile", f"{folder}/m.gguf", "-o", f"{folder}/out", *words]
            done = subprocess.run(command, capture_output=True, timeout=300)
            if done.returncode != 2 or text not in done.stderr.decode():
                return False
    return True


def main():
    cases = [(name, []) for name in ("llama", "gemma3", "qwen2moe", "phi3", "llama_q8_0")]
    cases += [("gemma2", ["--kv", "f16"])]
    cases = [case for case in cases if len(sys.argv) == 2 or case[0] in sys.argv[2:]]
    failed = 0
    more = [("sessions", sessions), ("drafts", drafts), ("refused", refused)]
    print(f"1..{len(cases) + len(more)}", flush=True)
    for number, (name, options) in enumerate(cases, 1):
        ok = check(name, options)
        failed += not ok
        print("ok" if ok else "not ok", number, "-", name, *options, flush=True)
    for number, (name, test) in enumerate(more, len(cases) + 1):
        ok = test()
        failed += not ok
        print("ok" if ok else "not ok", number, "-", name, flush=True)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
