# SPDX-License-Identifier: Apache-2.0
"""Rows of ir/plan/times.def for tools/fit-mcu: numbers of instructions for each kind of kernels, fitted to
all kernels and networks of some CPUs together."""

import re

KERNEL, NETWORK = 1.0, 3.0  # what a kernel (by its share of its network) and a network weigh
HOLD = 0.02                 # how much a number is held where it was: compilers decide, noise does not
ROUNDS = 6                  # in each, networks that are off by more weigh more
DIGITS = 3
FUNCTIONS = ("copied", "pairs", "singles", "rows", "block", "scaled", "planes", "windows", "strided")
PRODUCTS = ("product", "upper", "in_product")
NEVER = {"deep": FUNCTIONS, "sums": FUNCTIONS, "moves": FUNCTIONS + PRODUCTS}  # kinds do not have these


def non_negative(np, gram, right):
    """The least squares without negative numbers (Lawson and Hanson)."""
    x, on = np.zeros(len(right)), np.zeros(len(right), bool)
    while not on.all():
        slope = np.where(on, -np.inf, right - gram @ x)
        if slope.max() <= 1e-9:
            break
        on[slope.argmax()] = True
        while True:
            best = np.zeros(len(right))
            best[on] = np.linalg.solve(gram[np.ix_(on, on)], right[on])
            bad = on & (best <= 0)
            if not bad.any():
                break
            x = x + (x[bad] / (x[bad] - best[bad])).min() * (best - x)
            on &= x > 1e-12
            x[~on] = 0
        x = best
    return x


class Fit:
    """networks: {name: facts}; prior: [a number for each kind of work] of the CPU, which is kept where
    kernels say nothing else."""

    def __init__(self, networks, names, prior):
        import numpy as np
        self.np, self.names, self.networks = np, names, networks
        self.kinds = sorted({k["kind"] for facts in networks.values() for k in facts["kernels"]})
        self.prior = np.array([*prior, *[0.0] * (len(names) - len(prior))] * len(self.kinds))
        self.numbers = self.fit()

    def columns(self, kernel):
        row = self.np.zeros(len(self.prior))
        first = self.kinds.index(kernel["kind"]) * len(self.names)
        row[first:first + len(self.names)] = [kernel["work"][name] for name in self.names]
        return row

    def whole(self, facts):
        return sum(self.columns(k) for k in facts["kernels"]) / facts["instructions"]

    def fit(self):
        np = self.np
        rows, right = [], []
        for facts in self.networks.values():
            for kernel in facts["kernels"]:
                if kernel.get("instructions"):
                    share = KERNEL * (kernel["instructions"] / facts["instructions"]) ** 0.5
                    rows.append(self.columns(kernel) * (share / kernel["instructions"]))
                    right.append(share)
        rows, right = np.array(rows), np.array(right)
        size = np.sqrt((rows ** 2).mean(axis=0) * len(self.kinds)) + 1e-6
        wholes = np.array([self.whole(f) for f in self.networks.values()])
        weights = np.ones(len(wholes))
        for _ in range(ROUNDS):
            heavy = wholes * (NETWORK * weights)[:, None]
            both = np.vstack([rows, heavy, HOLD * np.diag(size)]) / size
            wanted = np.concatenate([right, NETWORK * weights, HOLD * size * self.prior])
            numbers = non_negative(np, both.T @ both, both.T @ wanted) / size
            off = abs(wholes @ numbers - 1)
            weights = weights * (0.5 + off / (off.max() or 1))
            weights = weights / weights.mean()
        return np.array([float(f"{v:.{DIGITS}g}") for v in numbers])

    def errors(self, networks):
        """{network: percent}, and {network: (percent, share in percent, kernel)} of its worst kernel with a
        share of 2 % and more."""
        wholes = {name: 100 * (float(self.whole(f) @ self.numbers) - 1) for name, f in networks.items()}
        worst = {}
        for name, facts in networks.items():
            large = [k for k in facts["kernels"] if k.get("instructions", 0) >= 0.02 * facts["instructions"]]
            worst[name] = max(((100 * (float(self.columns(k) @ self.numbers) / k["instructions"] - 1),
                                100 * k["instructions"] / facts["instructions"], k["name"]) for k in large),
                              key=lambda row: abs(row[0]), default=(0.0, 0.0, ""))
        return wholes, worst

    def rows(self, cpu):
        """Lines of times.def."""
        lines = []
        for i, kind in enumerate(self.kinds):
            numbers = self.numbers[i * len(self.names):][:len(self.names)]
            cells = [f"N({name}, {v:g})" for name, v in zip(self.names, numbers)
                     if v > 0 and name not in NEVER.get(kind, ())]
            lines += wrapped(f'TIMES("{cpu}", {kind}, ' + ", ".join(cells) + ")")
        return lines


def wrapped(text, columns=110):
    """At most so many columns a line."""
    lines = [""]
    for word in re.findall(r"\S+\([^()]*\)[,)]*\s*|\S+\s*", text):
        if len(lines[-1]) + len(word.rstrip()) > columns:
            lines.append("      ")
        lines[-1] += word
    return [line.rstrip() for line in lines]
