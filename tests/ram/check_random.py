#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random networks (random_networks.py) under random limits: --ram, --spare-ram, --bank and --stream-input,
for every CPU of microcontrollers. Each keeps to its limit, has the results of the plan that rlxc makes for a
host (of integers) or without a limit (of floats) to the bit, and writes nothing beside its blocks. What is
too little is refused with the least, which then fits. All variants of a network are one program.

  check_random.py RLXC [COUNT [SEED]]   SEED .. SEED + COUNT - 1; without a seed others each day

Prints TAP."""

import os
import pathlib
import random
import re
import resource
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "../common")]
import rotation  # noqa: E402
import tap  # noqa: E402
from random_networks import Averaged, Detector, Network  # noqa: E402

RLXC = os.path.abspath(sys.argv[1])
CPUS = ("cortex-m4", "cortex-m55", "cortex-m0plus", "rv32imc", "rv32imafcv", "cortex-m3", "cortex-m33",
        "cortex-m7", "rv32imafc", "esp32-s3")
TIME_LIMIT = 120  # seconds of a processor, so that it is the same beside other work
# Of least bytes that were more than without a limit, and of rows along the wrong axis; the first two were
# found before there were more kinds of layers.
FOUND = {10149: False, 710260: False, 905016: True, 910542: True}
RUNS = 2
# Where it is included: the code of one variant, which runs all inputs and writes all outputs.
VARIANT = """#include "%(name)s.h"
#include <stdio.h>
#include <string.h>
%(blocks)s
int run_%(name)s(const unsigned char *const *inputs, FILE *out);
int run_%(name)s(const unsigned char *const *inputs, FILE *out)
{
    rlx_ctx c;
    %(init)s
    for (int run = 0; run < %(runs)d; run++) {
        %(fill)s
        %(write)s
    }
    %(whole)s
    return 0;
}
"""
MAIN = """#include <stdio.h>
%(declared)s
int main(void)
{
    static unsigned char data[%(bytes)d + 1];
    const unsigned char *inputs[] = {%(inputs)s};
    if (fread(data, 1, sizeof data, stdin) != sizeof data - 1)
        return 1;
    %(calls)s
    return 0;
}
"""


def limit_time():
    resource.setrlimit(resource.RLIMIT_CPU, (TIME_LIMIT, TIME_LIMIT))


def call(command, **more):
    return subprocess.run([str(c) for c in command], capture_output=True, timeout=30 * TIME_LIMIT,
                          check=False, preexec_fn=limit_time, **more)


class Refused(Exception):
    """rlxc says that it does not compile this."""


class OtherRows(Exception):
    """Behind an axis that changed places, rows are columns of the input."""


class Variants:
    """Programs of one network."""

    def __init__(self, work, net):
        self.work, self.net, self.names, self.labels = work, net, [], []
        self.model = work / "net.tflite"
        self.model.write_bytes(net.encode())

    def compile(self, name, options):
        done = call([RLXC, "compile", self.model, "-o", self.work, f"--name={name}", "--weights=rodata",
                     "--no-validate", *options])
        said = done.stderr.decode()
        assert done.returncode in (0, 1), f"{' '.join(options)}: {done.returncode}\n{said}"
        if done.returncode == 1:
            raise Refused(said)
        return (self.work / f"{name}.h").read_text()

    def add(self, options, *, banks=()):
        """Bytes of the arena or, by their order, of the banks."""
        name = f"v{len(self.names)}"
        header = self.compile(name, options)
        upper = name.upper()
        macros = {f"bank_{bank}": f"{upper}_BANK_{bank}_BYTES" for bank in banks}
        macros = macros or {"arena": f"{upper}_ARENA_BYTES"}
        # State and parameters are none of these networks.
        assert re.search(rf"{upper}_STATE_BYTES 0u", header), header
        taken = [int(re.search(rf"{macro} (\d+)u", header).group(1)) for macro in macros.values()]
        is_fed = any(option.startswith("--stream-input") for option in options)
        if is_fed and "follow each other along axis 1." not in header:
            assert self.net.may_turn, f"other rows: {header}"
            raise OtherRows
        self.names.append(name)
        self.labels.append(" ".join(options))
        (self.work / f"{name}_run.c").write_text(self.variant(name, macros, bool(banks), is_fed))
        return taken if banks else taken[0]

    def variant(self, name, macros, has_banks, is_fed):
        upper, net = name.upper(), self.net
        values = {"name": name, "runs": RUNS, "blocks": "", "init": "", "fill": "", "write": "", "whole": ""}
        for block, size in macros.items():
            block = f"{name}_{block}"
            values["blocks"] += f"static RLX_ALIGNED unsigned char {block}[{size} + 64];\n"
            values["init"] += f"memset({block}, 0x55, sizeof {block});\n    "
            values["whole"] += (f"for (size_t i = {size}; i < {size} + 64u; i++)\n"
                                f"        if ({block}[i] != 0x55)\n            return 3;\n    ")
        if has_banks:
            listed = ", ".join(f"{{{name}_{block}, {size}}}" for block, size in macros.items())
            values["init"] += (f"const rlx_bank banks[{upper}_BANKS] = {{{listed}}};\n"
                               f"    if ({name}_init_banks(&c, banks, NULL, 0) != RLX_OK)\n        return 1;")
        else:
            size = f"{upper}_ARENA_BYTES"
            values["init"] += (f"if ({name}_init(&c, {name}_arena, {size}, NULL, 0) != RLX_OK)\n"
                               f"        return 1;")
        run = "if (rlx_run(&c) != RLX_OK)\n            return 2;"
        for i, (tensor, size, _) in enumerate(net.inputs):
            at = f"inputs[{i}] + (size_t)run * {size}"
            if is_fed:
                run = (f"if ({name}_feed_{tensor}(&c, (const void *)({at}), rlx_rows_left(&c)) != RLX_OK)\n"
                       f"            return 2;\n        {run}")
            else:
                values["fill"] += f"memcpy(rlx_input(&c, {i}), {at}, {size});\n        "
        values["fill"] += run
        for i, (_, size, _) in enumerate(net.outputs):
            values["write"] += f"fwrite(rlx_output(&c, {i}), 1, {size}, out);\n        "
        return VARIANT % values

    def run(self, data):
        """The results of each variant."""
        sizes = [RUNS * size for _, size, _ in self.net.inputs]
        places = [f"data + {sum(sizes[:i])}" for i in range(len(sizes))]
        declared = "\n".join(f"int run_{name}(const unsigned char *const *inputs, FILE *out);"
                             for name in self.names)
        calls = "\n    ".join(f"if (run_{name}(inputs, stdout) != 0)\n        return {10 + i};"
                              for i, name in enumerate(self.names))
        (self.work / "main.c").write_text(MAIN % {"declared": declared, "bytes": sum(sizes), "calls": calls,
                                                  "inputs": ", ".join(places)})
        sources = [f"{name}{end}.c" for name in self.names for end in ("", "_run")]
        done = call(["cc", "-O0", "-w", "-ffp-contract=off", "main.c", *sources, "-o", "run", "-lm"],
                    cwd=self.work)
        assert done.returncode == 0, done.stderr.decode()
        done = call([self.work / "run"], input=data)
        failed = self.labels[done.returncode - 10] if done.returncode >= 10 else ""
        assert done.returncode == 0, f"{done.returncode} {failed} {done.stderr.decode()[:2000]}"
        each = RUNS * sum(size for _, size, _ in self.net.outputs)
        assert len(done.stdout) == each * len(self.names), len(done.stdout)
        return [done.stdout[i * each:(i + 1) * each] for i in range(len(self.names))]


def random_inputs(net, rng):
    made = b""
    for _, size, kind in net.inputs:
        if kind == "f32":
            made += b"".join(struct.pack("<f", rng.uniform(-2, 2)) for _ in range(RUNS * size // 4))
        else:
            made += bytes(rng.randrange(256) for _ in range(RUNS * size))
    return made


def limited(variants, options, most, rng):
    """With the least RAM, and with some number between that and `most`."""
    try:
        variants.compile("least", [*options, "--ram=1"])
    except Refused as refused:
        found = re.search(r"error\[E0405\]: (\d+) bytes of RAM are needed", str(refused))
        assert found and re.search(r"note: in \w+: \d+ bytes of ", str(refused)), str(refused)
    else:
        raise AssertionError("a network in one byte")
    fewest = int(found.group(1))
    assert fewest <= most, f"{' '.join(options)}: {fewest} bytes are the least, {most} without a limit"
    for ram in sorted({fewest, rng.randint(fewest, most)}):
        try:
            arena = variants.add([*options, f"--ram={ram}"])
        except Refused as refused:
            raise AssertionError(f"{' '.join(options)} --ram={ram}, least {fewest}: {refused}") from refused
        assert arena <= ram, f"{arena} bytes where {ram} are allowed"
        assert ram != fewest or arena == fewest, f"{arena} bytes, {fewest} were said to be least"
    return fewest


def add_banks(variants, cpu, bounds, rng):
    fewest, most = bounds
    names = ["fast", "near", "far"][: rng.choice([2, 2, 3])]
    room = rng.choice([fewest, most, most, 2 * most])
    banks = {name: max(64, int(room * rng.uniform(0.2, 0.9))) for name in names}
    options = [f"--bank={name}={size},cycles={rng.choice([1, 1, 2, 5])}" for name, size in banks.items()]
    ram = rng.choice([0, 0, most + 128])
    options += [f"--ram={ram}"] if ram else []
    try:
        taken = variants.add([cpu, *options], banks=names)
    except Refused as refused:
        said = str(refused)
        lacks = "error[E0405]: --bank " in said or (ram and "bytes of RAM are needed at least" in said)
        assert lacks and re.search(r"note: in \w+: \d+ bytes of ", said), said
        return "banks too small"
    assert all(t <= size for t, size in zip(taken, banks.values())), f"{taken} where {banks} are allowed"
    assert ram == 0 or sum(taken) <= ram, f"{taken} bytes where {ram} are allowed"
    return "banks " + ", ".join(map(str, taken))


def add_rows(variants, cpu, rng):
    """The input comes row by row, if the network allows."""
    options = [cpu, f"--stream-input={variants.net.inputs[0][0]}"]
    try:
        most = variants.add(options)
    except Refused as refused:
        assert "error[E0406]: input " in str(refused), str(refused)
        return "no rows"
    except OtherRows:
        return "other rows"
    return f"in rows {most}, at least {limited(variants, options, most, rng)}"


def check(seed):
    rng, net = random.Random(-seed), Network(seed, is_wide=FOUND.get(seed, True))
    name = CPUS[seed % len(CPUS)]
    cpu = f"--cpu={name}"
    with tempfile.TemporaryDirectory() as folder:
        variants, said = Variants(pathlib.Path(folder), net), []
        variants.add(["--cpu=generic"] if net.is_exact else [cpu, "--spare-ram=0"])
        more = rng.choice(([], [], ["--spare-ram=0"], ["--spare-ram=60"], ["--no-prune"]))
        most = variants.add([cpu, *more])
        fewest = limited(variants, [cpu], most, rng)
        said = [f"{most} bytes, at least {fewest}", add_banks(variants, cpu, (fewest, most), rng)]
        if len(net.inputs) == 1:
            said.append(add_rows(variants, cpu, rng))
        results = variants.run(random_inputs(net, rng))
        for label, found in zip(variants.labels[1:], results[1:]):
            assert found == results[0], f"other results with {label}"
        return f"{net.kind}, {name}, {len(net.graph.operators)} operators, {', '.join(said)}"


def check_least(kind, name, below):
    """A mean adds up rows as they come, so that the value that it reads need not be whole. What detectors
    have between their first layers are parts of rows."""
    net, cpu = kind(1, is_wide=False), f"--cpu={name}"
    with tempfile.TemporaryDirectory() as folder:
        variants = Variants(pathlib.Path(folder), net)
        most = variants.add(["--cpu=generic"])
        fewest = limited(variants, [cpu], most, random.Random(1))
        assert fewest < below, f"{fewest} bytes are the least"
        results = variants.run(random_inputs(net, random.Random(2)))
        assert all(found == results[0] for found in results), "other results"
        return f"at least {fewest} bytes"


def main():
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 1 + rotation.DAY % 400 * count
    seeds = dict.fromkeys((*FOUND, *range(first, first + count)))
    checks = [(f"network {seed}", check, (seed,)) for seed in seeds]
    checks += [(f"a mean on {cpu}", check_least, (Averaged, cpu, 1200)) for cpu in ("cortex-m4", "cortex-m3")]
    checks += [("a detector", check_least, (Detector, "cortex-m4", 5300))]
    return tap.run_checks(checks)


if __name__ == "__main__":
    sys.exit(main())
