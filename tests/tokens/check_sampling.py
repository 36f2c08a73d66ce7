#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sampling of generated code: how often each token comes against probabilities that NumPy computes by the
documented order of filters (chi-square with fixed seeds), edge cases, and stop strings against plain
searching. Usage: check_sampling.py"""

import pathlib
import random
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "common"))
import in_venv  # noqa: E402

try:
    import numpy as np
except ImportError:
    in_venv.enter_or_skip("numpy")

import tap  # noqa: E402

N_DRAWS = 20000
FLAGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror", "-O1",
         "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
START = {"k": 0, "top_p": 1.0, "min_p": 0.0, "temperature": 1.0, "repeat": 1.0, "frequency": 0.0,
         "presence": 0.0,
         "last": [], "bias": []}
SETTINGS = {
    "temperature 1": {},
    "temperature 0.8": {"temperature": 0.8},
    "temperature 3": {"temperature": 3.0},
    "top-k": {"k": 5},
    "top-p": {"top_p": 0.7},
    "min-p": {"min_p": 0.1},
    "top-k and min-p": {"k": 12, "min_p": 0.15},
    "all filters": {"k": 12, "top_p": 0.9, "min_p": 0.05, "temperature": 0.8},
    "top-p before temperature": {"top_p": 0.8, "temperature": 2.5},
    "repeat penalty": {"repeat": 1.5, "last": [0, 3, 3, 7]},
    "frequency and presence": {"frequency": 0.4, "presence": 0.3, "last": [1, 1, 1, 2, 19]},
    "bias": {"bias": [(4, 2.0), (5, -3.0), (4, 0.5), (6, float("-inf"))]},
    "everything": {"k": 9, "top_p": 0.95, "min_p": 0.02, "temperature": 1.3, "repeat": 1.2, "frequency": 0.1,
                   "presence": 0.2, "last": [2, 2, 8], "bias": [(2, 1.0), (11, 4.0)]},
}


def penalised(x, s):
    x = x.astype(np.float64).copy()
    for token, bias in s["bias"]:
        x[token] += bias
    for token in set(s["last"]):
        x[token] = x[token] / s["repeat"] if x[token] > 0 else x[token] * s["repeat"]
        x[token] -= s["frequency"] * s["last"].count(token) + s["presence"]
    return x


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def probabilities(logits, s):
    x = penalised(logits, s)
    order = np.argsort(-x, kind="stable")[: s["k"] or len(x)]
    p = softmax(x[order])
    kept = int(np.searchsorted(np.cumsum(p), s["top_p"]) + 1) if s["top_p"] < 1 else len(p)
    order = order[:kept][p[:kept] >= s["min_p"] * p[0]]
    found = np.zeros(len(x))
    found[order] = softmax(x[order] / s["temperature"])
    return found


def request(logits, s, seed):
    last = [float(t) for t in s["last"]]
    bias = [v for pair in s["bias"] for v in pair]
    head = [N_DRAWS, seed, len(logits), s["k"], s["top_p"], s["min_p"], s["temperature"], s["repeat"],
            s["frequency"],
            s["presence"], len(last), len(s["bias"])]
    return "draw " + " ".join(str(x) for x in [*head, *last, *bias, *map(repr, map(float, logits))]) + "\n"


def chi_square(counts, p):
    """How far the counts are from what is expected, and the bound that one of 100 000 exceeds by chance."""
    some = p > 0
    expected = p[some] * counts.sum()
    value, degrees = float(((counts[some] - expected) ** 2 / expected).sum()), int(some.sum()) - 1
    if degrees == 0:
        return value, 1e-9
    z = 4.265  # Wilson and Hilferty
    return value, degrees * (1 - 2 / (9 * degrees) + z * (2 / (9 * degrees)) ** 0.5) ** 3


def draws():
    """(name, settings, logits): few logits, and for the best ones also many, with equal ones among them."""
    for number, (name, settings) in enumerate(SETTINGS.items()):
        s = {**START, **settings}
        logits = np.random.default_rng(number).normal(0, 1.5, 20).astype(np.float32)
        yield name, s, logits
        if s["k"] != 0:
            many = (np.random.default_rng(number).normal(0, 12, 1700).round() / 8).astype(np.float32)
            many[600:640] = -np.inf
            s = {**s, "last": [*s["last"], 900, 1699], "bias": [*s["bias"], (1300, 9.0)]}
            yield f"{name}, of many", s, many


def check_draws(program):
    for number, (name, s, logits) in enumerate(draws()):
        said = subprocess.run([program], input=request(logits, s, number), text=True, capture_output=True,
                              check=False)
        counts, p = np.array(said.stdout.split(), dtype=float), probabilities(logits, s)
        if len(counts) != len(p):
            tap.result(False, name, said.stderr)
            continue
        value, bound = chi_square(counts, p)
        ok = value < bound and counts[p == 0].sum() == 0 and counts.sum() == N_DRAWS
        tap.result(ok, f"draws: {name}", f"chi-square {value}, bound {bound}\n{counts}\n{p * N_DRAWS}")


def self_test():
    p = np.array([0.5, 0.3, 0.2])
    good, bad = chi_square(p * 1000, p), chi_square(np.array([600.0, 250, 150]), p)
    assert good[0] < good[1] and bad[0] > bad[1], "the measure finds no difference"


def check_stops(program):
    rng = random.Random(5)
    lines, wanted = [], []
    for _ in range(4000):
        stops = ["".join(rng.choices("ab", k=rng.randrange(1, 6))) for _ in range(rng.randrange(0, 4))]
        text = "".join(rng.choices("abc", k=rng.randrange(1, 24)))
        ends = [(text.find(s) + len(s), -len(s)) for s in stops if s in text]
        end, length = min(ends) if ends else (len(text), 0)
        lines.append(f"stop {len(stops)} {' '.join(stops)} {text} {rng.randrange(1, 5)}\n")
        wanted.append(f"{int(bool(ends))} [{text[: end + length]}]")
    said = subprocess.run([program], input="".join(lines), text=True, capture_output=True, check=False)
    wrong = [(a, b, c) for a, b, c in zip(lines, wanted, said.stdout.splitlines()) if b != c]
    tap.result(said.returncode == 0 and not wrong and len(said.stdout.splitlines()) == len(lines),
               "stop strings",
               f"{wrong[:3]} {said.stderr}")


def main():
    self_test()
    with tempfile.TemporaryDirectory() as folder:
        for standard, compiler in (("c99", ["cc"]), ("c++11", ["c++", "-xc++"])):
            program = pathlib.Path(folder) / standard.replace("+", "p")
            subprocess.run([*compiler, f"-std={standard}", *FLAGS, "-I", ROOT, HERE / "sampling_main.c", "-o",
                            program, "-lm"], check=True)
            said = subprocess.run([program], input="cases\n", text=True, capture_output=True, check=False)
            for line in said.stdout.splitlines():
                tap.result(line.startswith("ok "), f"{line.partition('ok ')[2]} as {standard}")
            tap.result(said.returncode == 0 and said.stdout.count("\n") > 15, f"all cases as {standard}",
                       said.stderr)
        check_draws(program)
        check_stops(program)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
