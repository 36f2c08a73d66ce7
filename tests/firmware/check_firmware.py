#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A quantised network on microcontrollers: compiled for each CPU without a floating-point register, linked
with a linker script as for a board, and run by QEMU. Results must be those of the same network on this
machine, where it is computed in floats; no routine for floats may be called; weights and activations must
take a byte.

The network has what convolutional networks for microcontrollers have: a first layer with a border, a
depthwise and a pointwise one, an activation, a residual, a dense layer, and scales for each channel.
Usage: check_firmware.py RLXC"""

import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

RLXC = os.path.abspath(sys.argv[1])
HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77
# CPU, board of QEMU. The M3's board runs what is made for an M0+.
BOARDS = [("cortex-m0plus", "mps2-an385"), ("cortex-m3", "mps2-an385"), ("cortex-m4", "mps2-an386"),
          ("cortex-m7", "mps2-an500")]
FLOATS = re.compile(r"__aeabi_(?:f|ui2f|i2f|l2f|ul2f|f2)\w*|\brintf|\bexpf")
TIME_LIMIT = 60


def constant(rng, dtype, shape, low, high):
    count = 1
    for size in shape:
        count *= size
    values = [rng.randint(low, high) if dtype != "f32" else rng.uniform(low, high) for _ in range(count)]
    return f"const : {dtype}[{', '.join(map(str, shape))}] = {{{', '.join(map(str, values))}}}"


class Net:
    """Builds IR text, node by node."""

    def __init__(self):
        self.lines, self.n = [], 0

    def add(self, text):
        self.n += 1
        self.lines.append(f"  %{self.n} = {text}")
        return f"%{self.n}"

    def requantise(self, x, channels, rank, scale, zero):
        rng = random.Random(channels)
        wide = self.add(f"cast({x}) {{to = f32}}")
        factors = self.add(constant(rng, "f32", [channels] + [1] * (rank - 2), scale * 0.5, scale))
        rounded = self.add(f"round({self.add(f'mul({wide}, {factors})')})")
        moved = self.add(f"add({rounded}, {self.add(f'const : f32[] = {{{float(zero)}}}')})")
        return self.add(f"cast({moved}) {{to = i8}}")

    def conv(self, x, shape, scale, more=""):
        rng = random.Random(len(self.lines))
        weights = self.add(constant(rng, "i8", shape, -127, 127))
        bias = self.add(constant(rng, "i32", shape[:1], -2000, 2000))
        zero = self.add("const : i8[] = {-3}")
        total = self.add(f"int_conv({x}, {weights}, {bias}, {zero}) {{{more}}}")
        return self.requantise(total, shape[0], len(shape), scale, -3)

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


def network():
    net = Net()
    rows = net.add('input "x" : i8[1, 12, 11, 3]')
    image = net.add(f"transpose({rows}) {{perm = [0, 3, 1, 2]}}")
    first = net.conv(image, [8, 3, 3, 3], 0.004, "pads = [1, 0, 1, 1], strides = [2, 2]")
    deep = net.conv(first, [8, 1, 3, 3], 0.006, "pads = [1, 1, 1, 1], group = 8")
    deep = net.conv(deep, [16, 1, 2, 5], 0.006, "pads = [1, 4, 0, 4], dilations = [1, 2], group = 8")
    deep = net.conv(deep, [8, 16, 1, 1], 0.003)
    active = net.add(f"silu({net.scaled(deep, 0.04)})")
    active = net.add(f"cast({net.add(f'round({net.scaled(active, 20.0)})')}) {{to = i8}}")
    point = net.conv(active, [8, 8, 1, 1], 0.005)
    total = net.add(f"add({net.scaled(first, 0.7732463)}, {net.scaled(point, 1.045217)})")
    joined = net.add(f"cast({net.add(f'round({total})')}) {{to = i8}}")
    pixels = net.add(f"transpose({joined}) {{perm = [0, 2, 3, 1]}}")
    flat = net.add(f"reshape({pixels}) {{shape = [1, 240, 1]}}")
    dense = net.conv(flat, [10, 240, 1], 0.0009)
    return net.text(net.add(f"reshape({dense}) {{shape = [1, 10]}}"))


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


def run(command, **more):
    command = [str(c) for c in command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def compile_net(work, cpu):
    run([RLXC, "compile", work / "net.rlx", "--cpu", cpu, "-o", work, "--name", "net", "--arena", "static",
         "--weights", "rodata", "--api", "core", "--no-validate"])


def on_this_machine(work):
    """What the network gives in floats, from the same program without a board."""
    compile_net(work, "generic")
    main = work / "main.c"
    main.write_text('#include "net.h"\n#include <stdio.h>\n#include <string.h>\n'
                    "extern const signed char board_input[];\nint main(void)\n{\n"
                    "    memcpy(rlx_input(net_static(), 0), board_input, 396);\n"
                    "    if (rlx_run(net_static()) != RLX_OK)\n        return 1;\n"
                    "    for (int i = 0; i < 10; i++)\n"
                    '        printf("%d\\n", ((const signed char *)rlx_output(net_static(), 0))[i]);\n}\n')
    run(["cc", "-O1", "-ffp-contract=off", "-I", work, main, work / "input.c", work / "net.c", "-o",
         work / "here", "-lm"])
    return [int(line) for line in run([work / "here"]).split()]


def on_board(work, cpu, board, cc):
    compile_net(work, cpu)
    program, kernels = work / f"{cpu}.elf", work / f"{cpu}.o"
    flags = [f"-mcpu={cpu}", "-mthumb", "-mfloat-abi=soft", "-mgeneral-regs-only", "-O2", "-Wall", "-Wextra",
             "-Werror", "-ffunction-sections", "-fdata-sections", "-I", work]
    run([cc, *flags, "-c", work / "net.c", "-o", kernels])
    run([cc, *flags, HERE / "board.c", work / "input.c", kernels, "-nostartfiles", "--specs=nano.specs",
         "-Wl,--gc-sections", "-T", HERE / "board.ld", "-o", program])
    floats = FLOATS.findall(run(["arm-none-eabi-nm", "-u", kernels]))
    done = subprocess.run(["qemu-system-arm", "-M", board, "-nographic", "-semihosting-config",
                           "enable=on,target=native", "-kernel", program], capture_output=True, text=True,
                          timeout=TIME_LIMIT)
    return [int(v) for v in (done.stdout + done.stderr).split()], floats


def main():
    cc = shutil.which("arm-none-eabi-gcc")
    if cc is None or shutil.which("qemu-system-arm") is None:
        print("needs Debian's gcc-arm-none-eabi, libnewlib-arm-none-eabi and qemu-system-arm")
        sys.exit(SKIPPED)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        rng = random.Random(1)
        values = ", ".join(str(rng.randint(-128, 127)) for _ in range(12 * 11 * 3))
        (work / "input.c").write_text("extern const signed char board_input[];\n"
                                      f"const signed char board_input[] = {{{values}}};\n")
        (work / "net.rlx").write_text(network())
        figures = json.loads(run([RLXC, "inspect", work / "net.rlx", "--cpu", "cortex-m4", "--json"]))
        # Most of what lives at a time: the input, the results of two layers and planes of four channels;
        # weights are 3 040.
        small = figures["arena_bytes"] <= 2048 and figures["weight_bytes"] <= 2 * 3040
        failed += not small
        print(f"1..{2 * len(BOARDS) + 1}")
        print(f"{'ok' if small else 'not ok'} 1 - arena {figures['arena_bytes']}, "
              f"weights {figures['weight_bytes']}")
        number = 1
        for name, text in (("layers", network()), ("windows", windows())):
            (work / "net.rlx").write_text(text)
            expected = on_this_machine(work)
            if len(set(expected)) < 5:
                sys.exit(f"the network says little: {expected}")
            for cpu, board in BOARDS:
                number += 1
                found, floats = on_board(work, cpu, board, cc)
                good = found == expected and not floats
                failed += not good
                print(f"{'ok' if good else 'not ok'} {number} - {name}, {cpu} on {board}")
                if not good:
                    print(f"# found {found}, expected {expected}; routines for floats: {floats}")
    sys.exit(1 if failed else 0)


main()
