#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Many small tensors whose inner axes are unrolled, compiled for this machine as users do it, with -O3: the
cases of e2e/ops are compiled with -Og, where compilers do not try to make one vector of what lies behind a
test. Each graph has the results of many ops of one kind. Usage: check_small.py RLXC"""

import os
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "../common"))
import tap  # noqa: E402

RLXC = os.path.abspath(sys.argv[1])
TYPES = ("i8", "i16", "i32", "i64", "f16", "f32", "f64")
RESULTS = 100
MODES = ("constant", "constant", "edge", "reflect", "wrap")


class Graph:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.lines = []

    def add(self, text):
        self.lines.append(f"%{len(self.lines) + 1} = {text}")
        return f"%{len(self.lines)}"

    def input(self, dtype, shape):
        return self.add(f'input "x{len(self.lines)}" : {dtype}{list(shape)}')

    def shape(self):
        pick = self.random.choice
        lead = pick(((), (1,), (2,), (1, 2), (2, 3)))
        return (*lead, pick((1, 2, 3, 5, 17, 40, 66, 160)), self.random.randint(1, 5))


def pads_of(pick, mode, size, chance):
    """What is added on both sides of an axis of this size; what is negative leaves elements."""
    most = min(4, {"reflect": size - 1, "constant": 3}.get(mode, size))
    if pick.random() < chance:
        return [pick.randint(0, most) for _ in range(2)]
    least = (size - 1) // 2 if mode in ("constant", "edge") else 0
    return [-pick.randint(0, min(1, least)) for _ in range(2)]


def pad(g):
    shape, mode = g.shape(), g.random.choice(MODES)
    pads = [pads_of(g.random, mode, n, 0.9 if i == len(shape) - 2 else 0.2) for i, n in enumerate(shape)]
    flat = [a for a, _ in pads] + [b for _, b in pads]
    x = g.input(g.random.choice(TYPES), shape)
    return g.add(f'pad({x}) {{pads = {flat}, mode = "{mode}"}}')


def where(g):
    shape, dtype = g.shape(), g.random.choice(TYPES)
    tests = [g.input("bool", (*shape[:-1], 1)) for _ in range(2)]
    both = g.add(f"logical_and({tests[0]}, {tests[1]})")
    return g.add(f"where({both}, {g.input(dtype, shape)}, {g.input(dtype, shape[-1:])})")


def update_slice(g):
    shape, dtype = g.shape(), g.random.choice(TYPES)
    patch = [g.random.randint(1, n) for n in shape]
    x, p, start = g.input(dtype, shape), g.input(dtype, patch), g.input("i64", (len(shape),))
    return g.add(f"update_slice({x}, {p}, {start})")


def resize(g):
    rows, columns = g.random.randint(1, 20), g.random.randint(1, 5)
    mode = g.random.choice(("nearest", "linear"))
    x = g.input(g.random.choice(("f16", "f32", "f64")), (1, 2, rows, columns))
    roi = g.random.choice(("0,0,-0.4,0,1,1,1.3,1", "0,0,0.1,0.2,1,1,0.8,1.2"))
    sizes = [1, 2, g.random.randint(1, 40), g.random.randint(1, 5)]
    how = f'sizes = {sizes}, mode = "{mode}", coord = "tf_crop_and_resize", roi = "{roi}"'
    return g.add(f"resize({x}) {{{how}}}")


def window(g):
    kernel = [g.random.randint(1, 3), g.random.randint(1, 2)]
    pads = [g.random.randint(0, n - 1) for n in kernel * 2]
    x = (g.random.randint(1, 2), g.random.randint(1, 3), g.random.randint(3, 20), g.random.randint(2, 5))
    how = f"strides = [{g.random.randint(1, 2)}, 1], pads = {pads}"
    op = g.random.choice(("max_pool", "avg_pool", "conv", "conv_transpose"))
    value = g.input(g.random.choice(("f32", "f64")), x)
    if op.endswith("pool"):
        return g.add(f"{op}({value}) {{kernel = {kernel}, {how}}}")
    dtype = g.lines[-1].split(" : ")[1].split("[")[0]
    sides = (g.random.randint(1, 4), x[1])
    weights = g.input(dtype, (*(sides if op == "conv" else sides[::-1]), *kernel))
    return g.add(f"{op}({value}, {weights}) {{{how}}}")


def check(kind, folder):
    g = Graph(kind.__name__)
    results = [kind(g) for _ in range(RESULTS)]
    lines = g.lines + [f'output "y{i}" = {name}' for i, name in enumerate(results)]
    model = pathlib.Path(folder) / f"{kind.__name__}.rlx"
    model.write_text("\n".join([f'graph "{kind.__name__}" {{', *lines, "}", ""]))
    command = [RLXC, "verify", str(model), "--cpu", "native", "--random", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    good = done.returncode == 0 and done.stdout.count(": ok") == RESULTS
    bad = [line for line in done.stdout.splitlines() if not line.endswith(": ok")]
    places = {f"y{i}": g.lines[int(name[1:]) - 1] for i, name in enumerate(results)}
    said = [f"{line}\n  {places.get(line.split(':')[0], '')}" for line in bad]
    tap.result(good, f"{RESULTS} small results of {kind.__name__}", "\n".join([*said, done.stderr]))


def main():
    with tempfile.TemporaryDirectory() as folder:
        for kind in (pad, where, update_slice, resize, window):
            check(kind, folder)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
