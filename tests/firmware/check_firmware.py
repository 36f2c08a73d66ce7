#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Quantised networks on microcontrollers: compiled for each CPU of compiler/board/emulators.def with gcc and
with clang, linked with a linker script as for a board, and run by QEMU. Results must be those of the same
network on this machine, where it is computed in floats, or those that LiteRT stored; no routine for floats
may be called, and there may be no instruction on floats; nothing may be written beside the arena, and nobody
may ask for a heap. Instructions, modelled cycles and sizes are those of golden.txt, which says how far they
may be off.

Our network has what convolutional networks for microcontrollers have: a first layer with a border, a
depthwise and a pointwise one, an activation, a residual, a dense layer, and scales for each channel. The
others are layers of many kinds, random ones among them, and those of MLPerf Tiny, where they lie beside the
tree.
Usage: check_firmware.py RLXC [--update]   --update: rewrites golden.txt for the compilers of this machine"""

import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import typing

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "../common"), str(HERE / "../../tools/bench")]
import mcu_rig
import random_layers
import rotation
import tap

RLXC = os.path.abspath(sys.argv[1])
SKIPPED = 77
GOLDEN = HERE / "golden.txt"
STORED = mcu_rig.ROOT / "../shared/models/mlperf_tiny"
# Which networks of MLPerf Tiny run where: our own runs everywhere, with each compiler.
INT8 = ("kws_ref_model", "vww_96_int8", "pretrainedResnet_quant", "ad01_int8")
ELSEWHERE = [("kws_ref_model", cpu)
             for cpu in ("cortex-m0plus", "cortex-m4", "cortex-m55", "rv32imc", "rv32imafcv")]
ELSEWHERE += [(name, cpu) for name in INT8[1:]
              for cpu in ("cortex-m4", "cortex-m55", "rv32imafcv")]
UNCOUNTED = "layers"  # a network that is another one each day
WITH_FUNCTIONS = ("cortex-m4", "cortex-m7", "cortex-m33", "cortex-m55", "rv32imafcv")  # of device.def
FLOATS = re.compile(r"__aeabi_(?:f|ui2f|i2f|l2f|ul2f|f2)\w*|__(?:add|sub|mul|div)[sd]f3|\brintf|\bexpf")
# Instructions on floats: of Arm (vadd.f32, vcvt.s32.f32) and of RISC-V (fadd.s, fcvt.w.s).
FLOAT_STEPS = re.compile(r"^v\w+(?:\.\w+)*\.f(?:16|32|64)\b|^f(?!ence|[ls][wd]\b)[a-z]+\.\w+", re.M)
OBJDUMPS = {"qemu-system-arm": "arm-none-eabi-objdump", "qemu-system-riscv32": "riscv64-linux-gnu-objdump"}
INPUTS = 12 * 11 * 3


def constant(rng, dtype, shape, low, high):
    count = 1
    for size in shape:
        count *= size
    values = [rng.randint(low, high) if dtype != "f32" else rng.uniform(low, high) for _ in range(count)]
    return f"const : {dtype}[{', '.join(map(str, shape))}] = {{{', '.join(map(str, values))}}}"


class Ends(typing.NamedTuple):
    """What the sums of a convolution become: the type, what is added for it, the least and the most."""
    dtype: str = "i8"
    more: int = 0
    clamp: tuple = ()


class Net:
    """Builds IR text, node by node."""

    def __init__(self):
        self.lines, self.n = [], 0

    def add(self, text):
        self.n += 1
        self.lines.append(f"  %{self.n} = {text}")
        return f"%{self.n}"

    def requantise(self, x, channels, rank, scale, zero, ends=Ends()):
        """scale: the largest factor of a channel, or the factors of all channels, which are repeated."""
        rng = random.Random(channels)
        wide = self.add(f"cast({x}) {{to = f32}}")
        shape = [channels] + [1] * (rank - 2)
        if isinstance(scale, tuple):
            values = ", ".join(map(str, (scale * channels)[:channels]))
            factors = self.add(f"const : f32[{', '.join(map(str, shape))}] = {{{values}}}")
        else:
            factors = self.add(constant(rng, "f32", shape, scale * 0.5, scale))
        rounded = self.add(f"round({self.add(f'mul({wide}, {factors})')})")
        moved = self.add(f"add({rounded}, {self.add(f'const : f32[] = {{{float(zero + ends.more)}}}')})")
        if ends.clamp:
            least, most = (self.add(f"const : f32[] = {{{float(end)}}}") for end in ends.clamp)
            moved = self.add(f"clamp({moved}, {least}, {most})")
        return self.add(f"cast({moved}) {{to = {ends.dtype}}}")

    def conv(self, x, shape, scale, more="", *, dtype="i8", most=127, most_bias=2000, ends=Ends()):
        rng = random.Random(len(self.lines))
        weights = self.add(constant(rng, "i8", shape, -most, most))
        bias = self.add(constant(rng, "i32", shape[:1], -most_bias, most_bias))
        zero = self.add(f"const : {dtype}[] = {{{-3 if dtype == 'i8' else 125}}}")
        total = self.add(f"int_conv({x}, {weights}, {bias}, {zero}) {{{more}}}")
        return self.requantise(total, shape[0], len(shape), scale, -3, ends)

    def mean(self, x, channels, height, width, scale):
        ones = ", ".join(["1"] * (channels * height * width))
        weights = self.add(f"const : i8[{channels}, 1, {height}, {width}] = {{{ones}}}")
        total = self.add(f"int_conv({x}, {weights}) {{group = {channels}}}")
        return self.requantise(total, channels, 4, scale, 2)

    def text(self, out):
        return 'graph "net" {\n' + "\n".join(self.lines) + f'\n  output "y" = {out}\n}}\n'

    def scaled(self, x, scale):
        wide = self.add(f"cast({x}) {{to = f32}}")
        return self.add(f"mul({wide}, {self.add(f'const : f32[] = {{{scale}}}')})")


def float_steps(machine, kernels):
    """Instructions on floats in an object file."""
    listed = mcu_rig.check([OBJDUMPS[machine.qemu], "-d", "--no-show-raw-insn", kernels])
    steps = "\n".join(re.findall(r"^ *[0-9a-f]+:\s+(.*)$", listed, re.M))
    if len(steps) < 1000:
        sys.exit(f"{kernels}: no instructions were listed: {listed[:200]}")
    return FLOAT_STEPS.findall(steps)


def check_float_steps(work, machines):
    """float_steps finds what floats become."""
    source = work / "floats.c"
    text = "float f{0}(float a, int b) {{ return a * {0} / b; }}\n"
    source.write_text("".join(text.format(i) for i in range(60)))
    for cpu in "cortex-m55", "rv32imafcv":
        machine = machines[cpu]
        for name, command in mcu_rig.compilers(machine).items():
            mcu_rig.check([*command, *machine.flags, "-O2", "-c", source, "-o", work / "floats.o"])
            steps = float_steps(machine, work / "floats.o")
            tap.result(len(steps) >= 60, f"floats of {cpu} with {name} are seen", steps)


def network():
    net = Net()
    rows = net.add('input "x" : i8[1, 12, 11, 3]')
    image = net.add(f"transpose({rows}) {{perm = [0, 3, 1, 2]}}")
    first = net.conv(image, [8, 3, 3, 3], 0.004, "pads = [1, 0, 1, 1], strides = [2, 2]")
    deep = net.conv(first, [8, 1, 3, 3], 0.006, "pads = [1, 1, 1, 1], group = 8")
    active = net.add(f"silu({net.scaled(deep, 0.04)})")
    active = net.add(f"cast({net.add(f'round({net.scaled(active, 20.0)})')}) {{to = i8}}")
    point = net.conv(active, [8, 8, 1, 1], 0.005)
    total = net.add(f"add({net.scaled(first, 0.7732463)}, {net.scaled(point, 1.045217)})")
    joined = net.add(f"cast({net.add(f'round({total})')}) {{to = i8}}")
    pixels = net.add(f"transpose({joined}) {{perm = [0, 2, 3, 1]}}")
    flat = net.add(f"reshape({pixels}) {{shape = [1, 240, 1]}}")
    dense = net.conv(flat, [10, 240, 1], 0.0009)
    return net.text(net.add(f"reshape({dense}) {{shape = [1, 10]}}"))


DECIMALS = tuple(0.05 * (0.01 + 0.004 * i) / 0.6 for i in range(5))


def decimals():
    """Factors that are round numbers, so that many sums fall on halves as floats have them: bits that are
    stored say which of two bytes is right. Factors of 0.5 and more, and a residual of such numbers."""
    net = Net()
    rows = net.add('input "x" : i8[1, 12, 11, 3]')
    image = net.add(f"transpose({rows}) {{perm = [0, 3, 1, 2]}}")
    first = net.conv(image, [8, 3, 3, 3], DECIMALS, "pads = [1, 0, 1, 1], strides = [2, 2]")
    deep = net.conv(first, [8, 1, 3, 3], tuple(7 * v for v in DECIMALS),
                    "pads = [1, 1, 1, 1], group = 8")
    point = net.conv(deep, [8, 8, 1, 1], tuple(3 * v for v in DECIMALS))
    total = net.add(f"add({net.scaled(first, 0.5)}, {net.scaled(point, 0.25)})")
    joined = net.add(f"cast({net.add(f'round({total})')}) {{to = i8}}")
    large = net.conv(joined, [8, 8, 1, 1], (0.5, 0.625, 1.25, 0.51, 0.003), most=1, most_bias=20)
    both = net.add(f"concat({joined}, {large}) {{axis = 1}}")  # the second one reads a part of what it is in
    pixels = net.add(f"transpose({both}) {{perm = [0, 2, 3, 1]}}")
    return net.text(net.add(f"reshape({pixels}) {{shape = [1, -1]}}"))


def windows():
    """Depthwise layers that are computed in strips of rows, without words of channels, and with several
    channels of the result for one of the input; means of windows of few and of many pixels."""
    net = Net()
    rows = net.add('input "x" : i8[1, 12, 11, 3]')
    image = net.add(f"transpose({rows}) {{perm = [0, 3, 1, 2]}}")
    many = net.conv(image, [12, 1, 3, 3], 0.006, "pads = [1, 1, 1, 1], strides = [2, 2], group = 3")
    wide = net.conv(many, [12, 1, 3, 3], 0.006, "pads = [16, 16, 16, 16], group = 12")
    tall = net.conv(image, [3, 1, 11, 4], 0.002, "pads = [5, 1, 5, 2], group = 3")
    means = [net.mean(many, 12, 6, 6, 0.02), net.mean(wide, 12, 36, 36, 0.02),
             net.mean(tall, 3, 12, 11, 0.02)]
    both = net.add(f"concat({', '.join(means)}) {{axis = 1}}")
    flat = net.add(f"reshape({both}) {{shape = [1, 27, 1]}}")
    dense = net.conv(flat, [10, 27, 1], 0.002)
    return net.text(net.add(f"reshape({dense}) {{shape = [1, 10]}}"))


# Channels, rows and columns of the input; weights, scale and attributes.
SHAPES = [
    ((3, 12, 11), [8, 3, 3, 3], 0.003, "pads = [1, 1, 1, 1]"),
    ((1, 18, 22), [12, 1, 10, 4], 0.002, "pads = [4, 1, 5, 1], strides = [2, 2]"),
    ((4, 9, 11), [10, 4, 1, 1], 0.006, ""),
    ((11, 6, 6), [12, 11, 3, 3], 0.0015, "pads = [2, 2, 2, 2], dilations = [2, 2]"),
    ((36, 1, 11), [64, 36, 1, 1], 0.002, ""),
    ((6, 6, 11), [16, 3, 3, 3], 0.003, "pads = [1, 0, 1, 2], group = 2"),
    ((2, 18, 11), [8, 2, 3, 3], 0.003, "pads = [1, 1, 1, 1], strides = [2, 1]"),
    ((99, 2, 2), [5, 99, 2, 2], 0.0005, ""),
    ((396, 1, 1), [13, 396, 1, 1], 0.0005, ""),
    ((12, 3, 11), [24, 12, 3, 3], 0.001, "pads = [1, 1, 1, 1]"),
    ((36, 1, 11), [36, 1, 3, 3], 0.006, "pads = [1, 1, 1, 1], group = 36"),
    ((4, 9, 11), [4, 1, 3, 4], 0.006, "pads = [2, 3, 2, 3], strides = [2, 1], dilations = [1, 2], group = 4"),
    ((12, 11, 3), [12, 1, 2, 2], 0.006, "group = 12"),
    ((3, 11, 12), [8, 3, 3, 3], 0.003, "pads = [1, 1, 1, 1]"),
    ((2, 9, 22), [8, 2, 3, 3], 0.003, "pads = [1, 1, 1, 1], strides = [2, 1]"),
    ((3, 22, 6), [12, 3, 3, 1], 0.006, "pads = [2, 0, 2, 0], dilations = [2, 1]"),
    ((3, 11, 12), [4, 3, 2, 5], 0.003, "pads = [1, 2, 0, 2]"),
    ((4, 9, 11), [8, 4, 3, 2], 0.003, ""),
]


UNSIGNED = (Ends(), Ends("u8", 128), Ends("u8", 128, (125, 201)))
CLAMPED = (Ends(), Ends(clamp=(-3, 127)))


def shapes():
    """Convolutions of all kinds with a way of their own for CPUs with device functions; each with inputs
    that have a sign, that have none, and with sums too large for two in a word. So have their results, and
    some are clamped."""
    net, results = Net(), []
    x = net.add('input "x" : i8[1, 12, 11, 3]')
    for i, ((channels, rows, columns), weights, scale, more) in enumerate(SHAPES):
        for dtype, most_bias, ends in (("i8", 2000, Ends()), ("u8", 2000, UNSIGNED[i % 3]),
                                       ("i8", 12000000, CLAMPED[i % 2])):
            image = net.add(f"reshape({x}) {{shape = [1, {rows}, {columns}, {channels}]}}")
            image = net.add(f"transpose({image}) {{perm = [0, 3, 1, 2]}}")
            image = image if dtype == "i8" else net.add(f"bitcast({image}) {{to = u8}}")
            y = net.conv(image, weights, scale, more, dtype=dtype, most_bias=most_bias, ends=ends)
            y = y if ends.dtype == "i8" else net.add(f"bitcast({y}) {{to = i8}}")
            pixels = net.add(f"transpose({y}) {{perm = [0, 2, 3, 1]}}")
            results.append(net.add(f"reshape({pixels}) {{shape = [1, -1]}}"))
    return net.text(net.add(f"concat({', '.join(results)}) {{axis = 1}}"))


def layers():
    """Random layers (random_layers.py)."""
    ends_of = {"i8": (*CLAMPED, Ends()), "u8": UNSIGNED}
    return random_layers.network(Net(), random.Random(rotation.DAY), 12, ends_of, DECIMALS)


def on_this_machine(work, model):
    """What the network gives in floats, from the same program without a board."""
    mcu_rig.check([RLXC, "compile", model, "-o", work, "--name", "net", "--no-validate", "--arena", "static",
                   "--api", "full"])
    main = work / "main.c"
    main.write_text('#include "net.h"\n#include <stdio.h>\n#include <string.h>\n'
                    "extern const unsigned char rig_input[];\nint main(void)\n{\n"
                    f"    memcpy(rlx_input(net_static(), 0), rig_input, {INPUTS});\n"
                    "    if (rlx_run(net_static()) != RLX_OK)\n        return 1;\n"
                    "    for (unsigned i = 0; i < rlx_output_bytes(net_static(), 0); i++)\n"
                    '        printf("%d\\n", ((const unsigned char *)rlx_output(net_static(), 0))[i]);\n}\n')
    mcu_rig.check(["cc", "-O1", "-ffp-contract=off", "-I", work, main, work / "input.c", work / "net.c", "-o",
                   work / "here", "-lm"])
    return [int(line) for line in mcu_rig.check([work / "here"]).split()]


# --- golden figures ------------------------------------------------------------------------------------

def read_golden():
    """{(network, cpu, compiler): {figure: value}}, {figure: how far off in percent}, and the lines before."""
    lines = GOLDEN.read_text(encoding="ascii").splitlines()
    head = [line for line in lines if line.startswith("#")]
    columns, limits = (head[i].lstrip("# ").split() for i in (-2, -1))
    rows = [line.split() for line in lines if not line.startswith("#")]
    found = {tuple(row[:3]): dict(zip(columns[3:], map(int, row[3:]), strict=True)) for row in rows}
    return found, dict(zip(columns[3:], (float(word.rstrip("%")) for word in limits[3:]), strict=True)), head


def write_golden(head, rows):
    text = [f"{network:24} {cpu:14} {compiler:9} " + " ".join(f"{v:>10}" for v in figures.values())
            for (network, cpu, compiler), figures in sorted(rows.items())]
    GOLDEN.write_text("\n".join(head + text) + "\n", encoding="ascii")


def differences(found, golden, limits):
    return [f"{name} {value}, golden.txt has {golden[name]}" for name, value in found.items()
            if abs(value - golden[name]) > limits[name] / 100 * golden[name]]


# --- cases ---------------------------------------------------------------------------------------------

class Cases:
    """All that runs, and what golden.txt says of it."""

    def __init__(self, work):
        self.rig, self.machines = mcu_rig.Rig(RLXC, work), mcu_rig.machines()
        self.golden, self.limits, self.head = read_golden()
        self.found = {}

    def figures(self, folder, said, kernels, counts):
        sizes = mcu_rig.section_sizes([kernels])
        arena = re.search(r"NET_ARENA_BYTES (\d+)", (folder / "net.h").read_text()).group(1)
        return {"instructions": counts[0], "cycles": counts[1], "stack": int(said["stack"]),
                "arena": int(arena), "text": sizes[".text"], "rodata": sizes[".rodata"]}

    def judge(self, name, folder, run, kernels):
        """Compares with golden.txt. Gives what is wrong, and why something was not looked at."""
        if name[0] == UNCOUNTED:
            return [], ""
        if self.rig.plugin is None:
            return [], "no counts: this QEMU has no plugins"
        found = self.figures(folder, run.said, kernels, (run.total(0), run.total(1)))
        self.found[name] = found
        if name not in self.golden:
            return [], f"no row of {name[2]} for it in golden.txt"
        return differences(found, self.golden[name], self.limits), ""

    def run(self, model, cpu, compiler, sources):
        machine, name = self.machines[cpu], (pathlib.Path(model).stem, cpu, compiler)
        folder = self.rig.compile_network(model, machine, ["--api", "core"])
        command = mcu_rig.compilers(machine)[compiler]
        program, kernels = self.rig.build(folder, machine, command, sources)
        run = self.rig.run(program, machine)
        said = {key: run.said.get(key) for key in ("differ", "beside")}
        is_right = said == {"differ": "0", "beside": "0"} and run.status == 0
        wrong = [] if is_right else [f"status {run.status}: {run.said}"]
        floats = FLOATS.findall(mcu_rig.check(["nm", "-u", kernels]))
        wrong += [f"routines for floats: {floats}"] if floats else []
        steps = float_steps(machine, kernels)
        wrong += [f"instructions on floats: {steps}"] if steps else []
        more, why = ([], "") if wrong else self.judge(name, folder, run, kernels)
        wrong += more
        tap.result(not wrong, f"{name[0]} on {cpu} ({machine.board}) with {compiler}", "\n".join(wrong))
        if why:
            tap.result(True, f"counts of {name[0]} on {cpu} with {compiler}", skipped=why)

    def planted(self, sources):
        """The rig sees a heap that is used, a wrong result, and a byte beside the arena."""
        machine = self.machines["cortex-m4"]
        folder, command = self.rig.work / "net-cortex-m4", mcu_rig.compilers(machine)
        gcc = next(c for name, c in command.items() if name.startswith("gcc"))
        for fault, expected in ((1, {"heap": "used"}), (2, {"differ": "1", "beside": "1"})):
            program, _ = self.rig.build(folder, machine, gcc, sources, ["-O2", f"-DRIG_PLANTED={fault}"])
            run = self.rig.run(program, machine)
            seen = all(run.said.get(key) == value for key, value in expected.items())
            tap.result(seen and (fault != 1 or run.status != 0), f"planted fault {fault} is seen", run.said)


def check_inspect(cases, model, sources, cpu):
    """What `rlxc inspect` counts on inputs of zeros is what a run takes, within 2 percent; each kernel has
    its share. (On an M0+, as many instructions of a kernel can take other cycles beside other code.)"""
    model, machine = pathlib.Path(model), cases.machines[cpu]
    name = f"inspect counts what the rig counts of {model.stem} on {cpu}"
    compiler = next(iter(mcu_rig.compilers(machine).values()), None)
    if compiler is None or shutil.which(machine.qemu) is None:
        tap.result(True, name, skipped="no compiler or no QEMU for it")
        return
    found = json.loads(mcu_rig.check([RLXC, "inspect", model, "--cpu", cpu, "--json"]))
    folder = cases.rig.compile_network(model, machine, ["--api", "core"])
    program, _ = cases.rig.build(folder, machine, compiler, sources, ["-O3"])
    run = cases.rig.run(program, machine)
    parts = [("all", found, run.total(0), run.total(1))]
    for k in found["kernels"]:
        insns, cycles, calls = run.counts.get(k["name"], (0, 0, 0))
        if calls:  # other kernels share the text of one
            parts.append((k["name"], k, insns / calls, cycles / calls))
    slack = run.total(0) * 0.002  # of a kernel whose branches depend on data
    off = [(part, said["instructions"], insns, said["cycles"], cycles) for part, said, insns, cycles in parts
           if abs(said["instructions"] - insns) > insns * 0.02 + slack or
           abs(said["cycles"] - cycles) > cycles * 0.02 + slack and (part == "all" or cpu != "cortex-m0plus")]
    tap.result(not off and len(parts) > 1, name, off)
    if model.parent == STORED:
        check_estimate(found, f"{model.stem} on {cpu}")
    tap.result(0 < found["stack_bytes"] <= int(run.said["stack"]),
               f"inspect looks at the stack of {model.stem} on {cpu}", found)


def check_counts(cases, own):
    """Our networks on all CPUs, and those of MLPerf Tiny on some: others each day."""
    for model, sources in own:
        for cpu in cases.machines:
            check_inspect(cases, model, sources, cpu)
    stored = [(path, cpu) for path in sorted(STORED.glob("*.tflite")) for cpu in cases.machines
              if path.stem in INT8]
    if not stored:
        tap.result(True, "what inspect counts of MLPerf Tiny", skipped=f"they are not in {STORED}")
    for path, cpu in rotation.part_of(stored, 9):
        check_inspect(cases, path, [HERE / "rig.c", stored_case(cases.rig.work, path.stem)], cpu)


def check_estimate(facts, name, most=2, most_of_kernel=30):
    """The estimate from the kernel IR: of a network, and of each kernel with 2 percent of it and more.
    most, most_of_kernel: by how many percent they may be off."""
    percent = 100 * (facts["estimated_instructions"] / facts["instructions"] - 1)
    large = [k for k in facts["kernels"] if k.get("instructions", 0) >= 0.02 * facts["instructions"]]
    worst = max((abs(100 * (k["estimated_instructions"] / k["instructions"] - 1)), k["name"]) for k in large)
    tap.result(abs(percent) <= most and worst[0] <= most_of_kernel, f"estimate of {name}",
               f"{percent:+.1f} %, {worst}: have kernels changed? tools/fit-mcu --times")


def check_uncounted(cases, model):
    """Where nothing can be counted, inspect says why, and nothing that compilers print comes through."""
    (cases.rig.work / "empty").mkdir()
    none = {**os.environ, "PATH": str(cases.rig.work / "empty")}
    wide = cases.rig.work / "wide.rlx"
    wide.write_text('graph "wide" {\n  %1 = input "x" : f32[2000, 2000]\n  %2 = exp(%1)\n'
                    '  output "y" = %2\n}\n')
    for given, env, why in ((model, none, "no C compiler"), (wide, None, "does not fit")):
        command = [RLXC, "inspect", given, "--cpu", "cortex-m4", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=60, check=True)
        facts = json.loads(done.stdout)
        is_said = facts["counted_by"] is None and why in facts["count_unknown"]
        tap.result(is_said and done.stderr == "", f"inspect: {why}", done)


PEER = """extern "C" {
#include "net.h"
#include "start.h"
}
struct Begun {
    int value;
    Begun() : value(7) {}
} begun;
int main()
{
    rlx_ctx *net = net_static();
    board_mark();
    const bool is_good = rlx_run(net) == RLX_OK && begun.value == 7;
    board_mark();
    return is_good ? 0 : 1;
}
"""


def check_bench(cases, model):
    """tools/bench/mcu: our own network as that of somebody else takes as many instructions as ours."""
    work, machine = cases.rig.work, cases.machines["cortex-m4"]
    folder = cases.rig.compile_network(model, machine, ["--arena", "static"])
    peer = work / "peers/net"
    shutil.copytree(folder, peer, ignore=shutil.ignore_patterns("*.o", "*.elf"))
    (peer / "main.cc").write_text(PEER)
    said = mcu_rig.check([mcu_rig.ROOT / "tools/bench/mcu", "--rlxc", RLXC, model],
                         env={**os.environ, "MCU_SELF": str(work / "peers"), "MCU_NONE": str(work)})
    rows = [line.split() for line in said.splitlines() if line.startswith("net ")]
    ours, none, other = ([row for row in rows if row[1] == who] for who in ("rlxc", "none", "self"))
    near = len(ours) == len(other) == 1 and abs(float(ours[0][2]) - float(other[0][2])) <= 0.001
    tap.result(near and "has no" in " ".join(none[0]), "tools/bench/mcu beside a peer", said)


def stored_case(work, network):
    """The first case that LiteRT stored, as a C file."""
    parts = []
    for name, file in (("rig_input", "input_0.npy"), ("rig_expected", "output_0.npy")):
        data = (STORED / "cases" / network / "case_0" / file).read_bytes()
        parts.append(mcu_rig.bytes_of(name, data[10 + int.from_bytes(data[8:10], "little"):]))
    path = work / f"{network}.c"
    path.write_text("".join(parts))
    return path


def check_sizes(model):
    figures = json.loads(mcu_rig.check([RLXC, "inspect", model, "--cpu", "cortex-m4", "--json", "--no-code"]))
    # The input with the first layer's result is most of what lives at a time; weights are 2 752.
    small = figures["arena_bytes"] <= 1024 and figures["weight_bytes"] <= 2 * 2752
    tap.result(small, f"arena {figures['arena_bytes']}, weights {figures['weight_bytes']}")


def check_parts(work, model):
    """Parts of --split have no use for some functions of the prelude: no compiler complains of these."""
    mcu_rig.check([RLXC, "compile", model, "--cpu", "cortex-m4", "-o", work, "--name", "parts",
                   "--split", "3", "--no-validate"])
    warnings = "-std=c99 -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror".split()
    for part in sorted(work.glob("parts*.c")):
        done = subprocess.run(["cc", *warnings, "-c", part, "-o", "part.o"], cwd=work, capture_output=True,
                              text=True, check=False)
        tap.result(done.returncode == 0, f"{part.name} alone", done.stderr)


def run_own(cases, name, text, cpus=None):
    """Runs a network of ours on all CPUs, or some, with all compilers. Gives its file and its sources."""
    work = cases.rig.work
    model, values = work / f"{name}.rlx", work / f"{name}_data.c"
    model.write_text(text)
    rng = random.Random(1)
    data = mcu_rig.bytes_of("rig_input", [rng.randint(-128, 127) & 255 for _ in range(INPUTS)])
    (work / "input.c").write_text(data)
    expected = on_this_machine(work, model)
    values.write_text(data + mcu_rig.bytes_of("rig_expected", expected))
    if len(set(expected)) < 5:
        sys.exit(f"the network says little: {expected}")
    for cpu, machine in cases.machines.items():
        if cpus is not None and cpu not in cpus:
            continue
        if shutil.which(machine.qemu) is None:
            tap.result(True, f"{name} on {cpu}", skipped=f"there is no {machine.qemu}")
            continue
        for compiler in mcu_rig.compilers(machine):
            cases.run(model, cpu, compiler, [HERE / "rig.c", values])
    return model, [HERE / "rig.c", values]


def run_all(work):
    cases = Cases(work)
    check_float_steps(work, cases.machines)
    own = [run_own(cases, "windows", windows())]
    run_own(cases, "decimals", decimals())
    run_own(cases, UNCOUNTED, layers(), (*WITH_FUNCTIONS, "cortex-m0plus"))
    check_parts(work, run_own(cases, "shapes", shapes(), WITH_FUNCTIONS)[0])
    model, sources = run_own(cases, "net", network())
    own.append((model, sources))
    check_sizes(model)
    cases.planted(sources)
    if cases.rig.plugin is None:
        tap.result(True, "what inspect counts", skipped="this QEMU has no plugins")
    else:
        check_counts(cases, own)
        facts = mcu_rig.check([RLXC, "inspect", model, "--cpu", "cortex-m4", "--json"])
        check_estimate(json.loads(facts), model.stem, 10, 50)
        check_uncounted(cases, model)
        check_bench(cases, model)
    for name, cpu in ELSEWHERE:
        if not (STORED / f"{name}.tflite").exists():
            tap.result(True, f"{name} on {cpu}", skipped=f"it is not in {STORED}")
            continue
        compiler = next(iter(mcu_rig.compilers(cases.machines[cpu])))
        cases.run(STORED / f"{name}.tflite", cpu, compiler, [HERE / "rig.c", stored_case(work, name)])
    return cases


def main():
    if shutil.which("arm-none-eabi-gcc") is None or shutil.which("qemu-system-arm") is None:
        print("needs Debian's gcc-arm-none-eabi, libnewlib-arm-none-eabi and qemu-system-arm")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        cases = run_all(pathlib.Path(folder))
    if "--update" in sys.argv:
        write_golden(cases.head, {**cases.golden, **cases.found})
        print("golden.txt was rewritten: read the difference")
        return 0
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
