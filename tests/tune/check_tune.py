#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rlxc tune on a small model: the file that it writes, that every candidate of every choice gives the same
bits, and what is said about files that are wrong.

    check_tune.py RLXC
"""
import json
import pathlib
import subprocess
import sys
import tempfile

MODEL = """graph "tune" {
  %%1 = input "x" : f32[1, 16, 19, 23]
  %%2 = const : f32[40, 16, 3, 3] = {%s}
  %%3 = conv(%%1, %%2) {pads = [1, 1, 1, 1]}
  %%4 = relu(%%3)
  %%5 = const : f32[48, 40, 1, 1] = {%s}
  %%6 = conv(%%4, %%5)
  %%7 = reshape(%%6) {shape = [48, 437]}
  %%8 = const : f32[437, 30] = {%s}
  %%9 = matmul(%%7, %%8)
  output "y" = %%6
  output "z" = %%9
}
"""
WRONG = [
    ("", "first line"),
    ("rlxc-tune 2\ncpu generic\n", ":1:"),
    ("rlxc-tune 1\n", "no line 'cpu NAME'"),
    ("rlxc-tune 1\ncpu generic\n\nsomething\n", ":4:"),
    ("rlxc-tune 1\ncpu generic\na -> b c\n", ":3:"),
    ("rlxc-tune 1\ncpu generic\na -> b\n# one\na -> c\n", "two answers to 'a'"),
    ("rlxc-tune 1\ncpu generic\na \x00-> b\n", ":3:"),
]


CPUS = ["x86-64-v4", "x86-64-v3", "native"]  # the first that runs here is taken: all kernels are tiles


def numbers(n):
    return ", ".join(str((i * 37 % 101 - 50) / 64) for i in range(n))


def call(rlxc, *args):
    done = subprocess.run([rlxc, *map(str, args)], capture_output=True, timeout=300)
    return done.returncode, done.stdout.decode(), done.stderr.decode("utf-8", "backslashreplace")


def outputs(rlxc, model, folder, cpu, *args):
    args = ["--cpu", cpu, "--random", 3, "--output-dir", folder, *args]
    code, _, text = call(rlxc, "run", model, *args)
    assert code == 0, text
    return [(folder / name).read_bytes() for name in ("y.npy", "z.npy")]


def check_file(path, choices):
    lines = path.read_text().splitlines()
    assert lines[0] == "rlxc-tune 1" and lines[1].startswith("cpu "), lines[:2]
    body = [line for line in lines[2:] if not line.startswith("#")]
    assert body == sorted(body) and len(body) == len(choices) > 0, body
    for line, choice in zip(body, choices):
        assert line == f"{choice['question']} -> {choice['answer']}", line


def check_bits(rlxc, model, folder, cpu, choices):
    """Every candidate, the r-th of all questions at once."""
    want = outputs(rlxc, model, folder / "plain", cpu)
    most = max(len(choice["times"]) for choice in choices)
    assert most > 1, "no question has a second candidate"
    for r in range(most):
        forced = folder / f"forced{r}.tune"
        text = f"rlxc-tune 1\ncpu {cpu}\n"
        for choice in choices:
            names = list(choice["times"])
            text += f"{choice['question']} -> {names[r % len(names)]}\n"
        forced.write_text(text)
        got = outputs(rlxc, model, folder / f"out{r}", cpu, "--tune", forced)
        assert got == want, f"candidates {r} differ"
    return most


def check_changes_code(rlxc, model, folder, cpu, n):
    """Forced answers are taken: not all texts are the same."""
    texts = set()
    for r in range(n):
        out = folder / f"code{r}"
        args = ["--cpu", cpu, "--name", "m", "-o", out, "--tune", folder / f"forced{r}.tune"]
        code, _, text = call(rlxc, "compile", model, *args)
        assert code == 0, text
        texts.add((out / "m.c").read_text())
    assert len(texts) > 1, "no forced answer changes the code"


def check_wrong_files(rlxc, model, folder):
    for i, (text, expected) in enumerate(WRONG):
        path = folder / f"wrong{i}.tune"
        path.write_text(text)
        code, _, error = call(rlxc, "compile", model, "-o", folder / "none", "--tune", path)
        assert code == 1 and "E0006" in error and expected in error, (text, code, error)
    code, _, error = call(rlxc, "compile", model, "-o", folder / "none", "--tune", folder / "missing.tune")
    assert code == 1 and "E0001" in error, error
    (folder / "cpu.tune").write_text("rlxc-tune 1\ncpu another\n")
    code, _, error = call(rlxc, "compile", model, "-o", folder / "none", "--tune", folder / "cpu.tune")
    assert code == 0 and "was measured for --cpu another" in error, error


def main():
    rlxc = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = folder / "tune.rlx"
        model.write_text(MODEL % (numbers(40 * 16 * 9), numbers(48 * 40), numbers(437 * 30)))
        for cpu in CPUS:
            code, text, error = call(rlxc, "tune", model, "-o", folder / "m.tune", "--json", "--cpu", cpu)
            if "E0302" not in error:
                break
        assert code == 0, error
        report = json.loads(text)
        check_file(folder / "m.tune", report["choices"])
        n = check_bits(rlxc, model, folder, report["cpu"], report["choices"])
        check_changes_code(rlxc, model, folder, report["cpu"], n)
        check_wrong_files(rlxc, model, folder)
        print(f"{len(report['choices'])} choices, up to {n} candidates: the same bits")


if __name__ == "__main__":
    main()
