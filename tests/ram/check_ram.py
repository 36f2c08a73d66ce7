#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random networks of bytes under random limits of RAM: what `--ram BYTES` makes of a network of 5 to 40
layers for a microcontroller must keep to the limit, and give the results of the same network in floats; a
limit below the least that it can do must be refused with the names of what takes it. The same holds of
random banks (--bank), which are blocks of their own here. The networks of MLPerf Tiny, where they lie
beside the tree (../shared/models/mlperf_tiny), must fit what docs/FIRMWARE.md says, and give LiteRT's
stored results.

  check_ram.py RLXC [COUNT [SEED]]   random networks SEED .. SEED + COUNT - 1; without a seed others each day

Prints TAP."""

import json
import math
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(os.environ.get("RLXC_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
sys.path[:0] = [str(ROOT / "tests/common"), str(ROOT / "tests/tflite")]
import rotation  # noqa: E402
import tap  # noqa: E402
from check_ops import read_npy  # noqa: E402

RLXC = os.path.abspath(sys.argv[1])
CPUS = ("cortex-m4", "cortex-m55", "cortex-m0plus", "rv32imc", "rv32imafcv")  # one for a random network
NETWORKS = ROOT / "../shared/models/mlperf_tiny"
# With --ram, for every CPU; without it, by CPU; and the least for each, of which keyword spotting takes less
# on CPUs with products of halfwords or vectors.
LIMITS = {"kws_ref_model": 8512, "vww_96_int8": 27756, "pretrainedResnet_quant": 17500, "ad01_int8": 768}
PLAIN = {"cortex-m4": (8392, 27748, 17024, 760), "cortex-m3": (8544, 27794, 17056, 792),
         "cortex-m0plus": (8532, 39265, 34468, 780), "rv32imc": (8576, 28236, 17088, 792),
         "cortex-m55": (9024, 40000, 16448, 768), "rv32imafcv": (8512, 27848, 17024, 768)}
LEAST = (5418, 27748, 15872, 764)
LEAST_OF_KEYWORDS = {"cortex-m4": 5040, "cortex-m55": 4912, "rv32imafcv": 4976}
# An odd pixel was added to its residual twice (192); a group read by words what it makes (the others).
FOUND = {192: "cortex-m4", 1011: "rv32imc", 3005: "cortex-m55"}
TIME_LIMIT = 300
MAIN = """#include "%(name)s.h"
#include <stdio.h>
#include <string.h>
%(blocks)s
static int is_whole(const unsigned char *block, size_t n)
{
    size_t i;
    for (i = n; i < n + 64; i++)
        if (block[i] != 0x55)
            return 0;
    return 1;
}
int main(void)
{
    rlx_ctx c;
    int byte;
    %(init)s
    for (;;) {
        signed char *x = (signed char *)rlx_input(&c, 0);
        for (size_t i = 0; i < %(inputs)d; i++) {
            byte = getchar();
            if (byte == EOF)
                return 0;
            x[i] = (signed char)byte;
        }
        if (rlx_run(&c) != RLX_OK)
            return 2;
        fwrite(rlx_output(&c, 0), 1, %(outputs)d, stdout);
        if (%(whole)s)
            return 3;
    }
}
"""


def call(command, **more):
    return subprocess.run([str(c) for c in command], capture_output=True, timeout=TIME_LIMIT, **more)


def checked(command, **more):
    done = call(command, **more)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stderr.decode()}")
    return done.stdout


# --- random networks ------------------------------------------------------------------------------


class Net:
    """IR text, layer by layer. A value is its name and [channels, rows, columns]. Each third network also
    joins values along channels, and has factors that are powers of two or round decimals. Some end with a
    mean over the image, and have blocks that widen their input before a depthwise convolution."""

    def __init__(self, seed):
        self.rng, self.has_more = random.Random(seed), seed % 3 == 1
        self.has_window, self.has_mean = seed % 4 == 2, seed % 8 == 4
        self.has_blocks = self.has_window
        self.lines, self.n = [], 0

    def add(self, text):
        self.n += 1
        self.lines.append(f"  %{self.n} = {text}")
        return f"%{self.n}"

    def const(self, dtype, shape, low, high):
        count = 1
        for size in shape:
            count *= size
        values = [self.rng.uniform(low, high) if dtype == "f32" else self.rng.randint(low, high)
                  for _ in range(count)]
        return self.add(f"const : {dtype}[{', '.join(map(str, shape))}] = {{{', '.join(map(str, values))}}}")

    def byte(self, wide, scale, shape):
        kind = self.rng.random() if self.has_more else 1
        even = 2.0 ** math.floor(math.log2(scale)) if kind < 0.15 else round(scale, 4)
        factors = (self.add(f"const : f32[] = {{{even}}}") if kind < 0.3 and even > 0 else
                   self.const("f32", shape, scale * 0.5, scale))
        rounded = self.add(f"round({self.add(f'mul({wide}, {factors})')})")
        zero = self.add("const : f32[] = {-3.0}")
        return self.add(f"cast({self.add(f'add({rounded}, {zero})')}) {{to = i8}}")

    def conv(self, value, channels, kernel, stride, pads, is_apart):
        x, (c, h, w) = value
        weights = self.const("i8", [channels, 1 if is_apart else c, *kernel], -127, 127)
        bias, zero = self.const("i32", [channels], -2000, 2000), self.add("const : i8[] = {-3}")
        total = self.add(f"int_conv({x}, {weights}, {bias}, {zero}) {{pads = {pads}, strides = {stride}"
                         f"{f', group = {c}' if is_apart else ''}}}")
        taps = kernel[0] * kernel[1] * (1 if is_apart else c)
        made = self.byte(self.add(f"cast({total}) {{to = f32}}"), 0.02 / taps ** 0.5, [channels, 1, 1])
        size = [(n + pads[i] + pads[i + 2] - kernel[i]) // stride[i] + 1 for i, n in enumerate((h, w))]
        return made, [channels, *size]

    def added(self, a, b):
        wide = [self.add(f"mul({self.add(f'cast({v}) {{to = f32}}')}, {self.const('f32', [], 0.4, 0.9)})")
                for v in (a[0], b[0])]
        total = self.add(f"round({self.add(f'add({wide[0]}, {wide[1]})')})")
        return self.add(f"cast({total}) {{to = i8}}"), a[1]

    def block(self, value):
        """As those of MobileNetV2: where RAM is short, parts of the wide value are computed again."""
        rng = self.rng
        wide = rng.choice([8, 16, 24, 48])
        size, stride = rng.choice([3, 3, 5]), rng.choice([1, 1, 2])
        value = self.conv(value, wide, [1, 1], [1, 1], [0, 0, 0, 0], False)
        value = self.conv(value, wide, [size, size], [stride, stride], [size // 2] * 4, True)
        return self.conv(value, rng.choice([4, 8]), [1, 1], [1, 1], [0, 0, 0, 0], False)

    def layer(self, value, before):
        rng, (c, h, w) = self.rng, value[1]
        if self.has_blocks and min(h, w) >= 5 and rng.random() < 0.3:
            return self.block(value)
        same = [v for v in before if v[1] == value[1] and v[0] != value[0]]
        near = [v for v in before if v[1][1:] == [h, w] and v[1][0] + c <= 24 and v[0] != value[0]]
        if self.has_more and near and rng.random() < 0.2:
            other = rng.choice(near[-3:])
            return self.add(f"concat({other[0]}, {value[0]}) {{axis = 1}}"), [other[1][0] + c, h, w]
        kind = rng.random()
        if same and kind < 0.25:
            return self.added(value, rng.choice(same[-3:]))
        if kind < 0.4 and min(h, w) >= 4:
            size = rng.choice([2, 3])
            wide = self.add(f"cast({value[0]}) {{to = f32}}")
            pool = self.add(f"max_pool({wide}) {{kernel = [{size}, {size}], strides = [2, 2]}}")
            return self.add(f"cast({pool}) {{to = i8}}"), [c, (h - size) // 2 + 1, (w - size) // 2 + 1]
        if kind < 0.6:
            return self.conv(value, rng.choice([c, c, 4, 7, 12, 16]), [1, 1], [1, 1], [0, 0, 0, 0], False)
        kernel = [min(rng.choice([1, 3, 3, 3, 5]), h), min(rng.choice([1, 3, 3]), w)]
        pads = [kernel[i % 2] // 2 for i in range(4)]
        if rng.random() < 0.3:
            pads = [rng.randint(0, n) for n in pads]
        stride = [2, rng.choice([1, 2])] if min(h, w) > 6 and rng.random() < 0.2 else [1, 1]
        is_apart = rng.random() < 0.5
        return self.conv(value, c if is_apart else rng.choice([4, 8, 10]), kernel, stride, pads, is_apart)

    def mean(self, value):
        x, (c, h, w) = value
        ones, none = self.const("i8", [c, 1, h, w], 1, 1), self.const("i32", [c], 0, 0)
        zero = self.add("const : i8[] = {-3}")
        total = self.add(f"int_conv({x}, {ones}, {none}, {zero}) {{group = {c}}}")
        return self.byte(self.add(f"cast({total}) {{to = f32}}"), 1 / (h * w), [c, 1, 1]), [c, 1, 1]

    def reduced(self, value):
        x, (c, h, w) = value
        wide = self.add(f"cast({x}) {{to = f32}}")
        mean = self.add(f"reduce_mean({wide}) {{axes = [2, 3], keepdims = true}}")
        return self.add(f"cast({self.add(f'round({mean})')}) {{to = i8}}"), [c, 1, 1]

    def build(self):
        rng = self.rng
        shape = [rng.choice([1, 3, 4, 8]), rng.randint(6, 24), rng.randint(4, 20)]
        rows = self.add(f'input "x" : i8[1, {shape[1]}, {shape[2]}, {shape[0]}]')
        values = [(self.add(f"transpose({rows}) {{perm = [0, 3, 1, 2]}}"), shape)]
        for _ in range(rng.randint(5, 40)):
            values.append(self.layer(values[-1], values[:-1]))
        if self.has_window or self.has_mean:
            values.append((self.mean if self.has_window else self.reduced)(values[-1]))
        last, made = values[-1]
        out = self.add(f"transpose({last}) {{perm = [0, 2, 3, 1]}}")
        text = 'graph "net" {\n' + "\n".join(self.lines) + f'\n  output "y" = {out}\n}}\n'
        return text, shape[0] * shape[1] * shape[2], made[0] * made[1] * made[2]


# --- programs -------------------------------------------------------------------------------------


def blocks_of(name, sizes):
    """What a program has of its blocks, by the macro with the size of each: C for MAIN."""
    upper, of_banks = name.upper(), "arena" not in sizes
    whole = " || ".join(f"!is_whole({block}, {size})" for block, size in sizes.items())
    values = {"blocks": "", "init": "", "whole": whole}
    for block, size in sizes.items():
        values["blocks"] += f"static RLX_ALIGNED unsigned char {block}[{size} + 64];\n"
        values["init"] += f"memset({block}, 0x55, sizeof {block});\n    "
    if of_banks:
        listed = ", ".join(f"{{{block}, {size}}}" for block, size in sizes.items())
        values["init"] += (f"const rlx_bank banks[{upper}_BANKS] = {{{listed}}};\n"
                           f"    if ({name}_init_banks(&c, banks, NULL, 0) != RLX_OK)\n        return 1;")
    else:
        values["init"] += f"if ({name}_init(&c, arena, {upper}_ARENA_BYTES, NULL, 0) != RLX_OK)"
        values["init"] += "\n        return 1;"
    return values


def program(work, model, cpu, sizes, ram, banks=()):
    """Compiles the model: the path of a program from inputs to outputs, and bytes of its arena, or of its
    banks."""
    name = f"net{ram}" + "b" * len(banks)
    limits = [f"--ram={ram}"] if ram else []
    limits += [f"--bank={bank}={size},cycles={cycles}" for bank, (size, cycles) in dict(banks).items()]
    checked([RLXC, "compile", model, f"--cpu={cpu}", "-o", work, f"--name={name}", "--weights=rodata",
             "--no-validate", *limits])
    header = (work / f"{name}.h").read_text()
    macros = {f"bank_{bank}": f"{name.upper()}_BANK_{bank}_BYTES" for bank in dict(banks)}
    macros = macros if len(banks) > 1 else {"arena": f"{name.upper()}_ARENA_BYTES"}
    taken = [int(re.search(rf"{macro} (\d+)u", header).group(1)) for macro in macros.values()]
    values = {"name": name, "inputs": sizes[0], "outputs": sizes[1], **blocks_of(name, macros)}
    (work / f"{name}_main.c").write_text(MAIN % values)
    checked(["cc", "-O0", "-ffp-contract=off", f"-I{work}", work / f"{name}_main.c", work / f"{name}.c",
             "-o", work / name, "-lm"])
    return work / name, taken if len(banks) > 1 else taken[0]


def check_banks(work, cpu, rng, sizes, bounds, run):
    """Random banks, of which some are too small: within their sizes, and a result as without."""
    fewest, most = bounds
    names = ["fast", "near", "far"][: rng.choice([2, 2, 3])]
    room = rng.choice([fewest, most, most, 2 * most])
    banks = {name: (max(64, int(room * rng.uniform(0.2, 0.9))), rng.choice([1, 1, 2, 5])) for name in names}
    ram = rng.choice([0, 0, most + 128])
    try:
        path, taken = program(work, work / "net.rlx", cpu, sizes, ram, tuple(banks.items()))
    except AssertionError as error:
        said = str(error)
        assert "error[E0405]: --bank " in said and re.search(r"note: in \w+: \d+ bytes of ", said), said
        return f"banks {banks}: too little"
    for bytes_, (size, _) in zip(taken, banks.values()):
        assert bytes_ <= size, f"{taken} bytes where {banks} are allowed"
    assert ram == 0 or sum(taken) <= ram, f"{taken} bytes where {ram} are allowed"
    run(path, f"in banks {banks}")
    return f"banks {', '.join(f'{t} of {size}' for t, (size, _) in zip(taken, banks.values()))}"


def least(work, model, cpu="cortex-m4"):
    """The fewest bytes that the message about an impossible limit names."""
    done = call([RLXC, "compile", model, f"--cpu={cpu}", "-o", work, "--ram=1"])
    text = done.stderr.decode()
    found = re.search(r"error\[E0405\]: (\d+) bytes of RAM are needed", text)
    assert done.returncode == 1 and found and re.search(r"note: in \w+: \d+ bytes of ", text), text
    return int(found.group(1))


def check_random(seed):
    rng, cpu = random.Random(-seed), FOUND.get(seed) or CPUS[seed % len(CPUS)]
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        text, *sizes = Net(seed).build()
        (work / "net.rlx").write_text(text)
        inputs = bytes(rng.randrange(256) for _ in range(2 * sizes[0]))
        wanted = checked([program(work, work / "net.rlx", "generic", sizes, 0)[0]], input=inputs)
        plain, most = program(work, work / "net.rlx", cpu, sizes, 0)
        assert checked([plain], input=inputs) == wanted, "other results without a limit"
        fewest = least(work, work / "net.rlx", cpu)
        assert fewest <= most, f"{fewest} bytes with a limit, {most} without"
        for ram in sorted({fewest, rng.randint(fewest, most)}):
            path, arena = program(work, work / "net.rlx", cpu, sizes, ram)
            assert arena <= ram, f"{arena} bytes where {ram} are allowed"
            assert ram != fewest or arena == fewest, f"{arena} bytes, {fewest} were said to be least"
            assert checked([path], input=inputs) == wanted, f"other results in {ram} bytes"

        def run(path, where):
            assert checked([path], input=inputs) == wanted, f"other results {where}"

        said = check_banks(work, cpu, rng, sizes, (fewest, most), run)
        return f"{cpu}, {most} bytes, at least {fewest}, {said}"


def check_ahead():
    """A first layer whose input is nearly all that there is: its windows lie in rows of the result."""
    net = Net(7)
    size = [3, 48, 40]
    rows = net.add(f'input "x" : i8[1, {size[1]}, {size[2]}, {size[0]}]')
    value = net.add(f"transpose({rows}) {{perm = [0, 3, 1, 2]}}"), size
    made = net.conv(value, 8, [3, 3], [2, 2], [0, 0, 1, 1], False)
    out = net.add(f"transpose({made[0]}) {{perm = [0, 2, 3, 1]}}")
    lines = "\n".join(net.lines)
    sizes = [size[0] * size[1] * size[2], made[1][0] * made[1][1] * made[1][2]]
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        (work / "net.rlx").write_text(f'graph "net" {{\n{lines}\n  output "y" = {out}\n}}\n')
        inputs = bytes(net.rng.randrange(256) for _ in range(2 * sizes[0]))
        wanted = checked([program(work, work / "net.rlx", "generic", sizes, 0)[0]], input=inputs)
        fewest = least(work, work / "net.rlx")
        path, arena = program(work, work / "net.rlx", "cortex-m4", sizes, fewest)
        text = (work / f"net{fewest}.c").read_text()
        assert arena <= sizes[0] + 100, f"{arena} bytes, of which the input has {sizes[0]}"
        assert "rlx_dsp_ahead" in text, "no windows"
        assert checked([path], input=inputs) == wanted, f"other results in {arena} bytes"
        return f"{arena} bytes, of which the input has {sizes[0]}"


def check_many():
    """More buffers than overlaps are looked for: the least that is stated must allow for all of them."""
    net, size = Net(1), [4, 1, 1]
    rows = net.add(f'input "x" : i8[1, 1, 1, {size[0]}]')
    value = net.add(f"transpose({rows}) {{perm = [0, 3, 1, 2]}}"), size
    for _ in range(620):
        value = net.conv(value, size[0], [1, 1], [1, 1], [0, 0, 0, 0], False)
    out, lines = net.add(f"transpose({value[0]}) {{perm = [0, 2, 3, 1]}}"), "\n".join(net.lines)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "net.rlx"
        path.write_text(f'graph "net" {{\n{lines}\n  output "y" = {out}\n}}\n')
        said = json.loads(checked([RLXC, "inspect", path, "--cpu=cortex-m4", "--no-code", "--json"]))
        arena, bound = said["arena_bytes"], said["arena_lower_bound_bytes"]
        assert said["arena_optimal"] == (arena == bound), f"{arena} bytes, {bound} at least, not optimal"
        return f"{arena} bytes, {bound} at least"


def check_network(cpu, at):
    name, limit = list(LIMITS.items())[at]
    with tempfile.TemporaryDirectory() as folder:
        cases = sorted((NETWORKS / "cases" / name).glob("case_*"))
        data = [[read_npy(case / f"{kind}_0.npy")[1] for kind in ("input", "output")] for case in cases]
        sizes = [len(values) for values in data[0]]
        inputs, wanted = (b"".join(bytes(v & 255 for v in pair[i]) for pair in data) for i in (0, 1))
        taken = []
        fewest = least(pathlib.Path(folder), NETWORKS / f"{name}.tflite", cpu)
        for ram in (0, limit, fewest):
            path, arena = program(pathlib.Path(folder), NETWORKS / f"{name}.tflite", cpu, sizes, ram)
            assert ram == 0 or arena <= ram, f"{arena} bytes where {ram} are allowed"
            found = checked([path], input=inputs)
            assert cases and found == wanted, f"other results than LiteRT's, {arena} bytes"
            taken.append(arena)
        assert taken[0] <= PLAIN[cpu][at], f"{taken[0]} bytes, {PLAIN[cpu][at]} are promised"
        promised = LEAST_OF_KEYWORDS.get(cpu, LEAST[at]) if at == 0 else LEAST[at]
        assert fewest <= promised, f"{fewest} bytes, {promised} are promised with --ram"
        assert taken[2] == fewest, f"{taken[2]} bytes, where {fewest} were said to be the least"
        return f"{taken[0]} bytes, {taken[1]} with --ram {limit}, {fewest} at least"


def main():
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 1 + rotation.DAY % 40 * count
    seeds = dict.fromkeys((*FOUND, *range(first, first + count)))
    checks = [(f"random network {seed}", check_random, (seed,)) for seed in seeds]
    checks.append(("windows in the result", check_ahead, ()))
    checks.append(("many layers", check_many, ()))
    cpus = [cpu for n, cpu in enumerate(PLAIN) if n == 0 or rotation.is_taken(n, len(PLAIN) - 1)]
    if NETWORKS.is_dir():
        checks += [(f"{name} on {cpu}", check_network, (cpu, at)) for cpu in cpus
                   for at, name in enumerate(LIMITS)]
    return tap.run_checks(checks)


if __name__ == "__main__":
    sys.exit(main())
