# SPDX-License-Identifier: Apache-2.0
"""Runs cases (case.py) that share a model on a board that QEMU emulates."""

import math
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

import check_ops
import flatbuffer

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tools/bench"))
import mcu_rig

SAY = """
static void say_hex(const unsigned char *data, uint32_t bytes)
{
    char line[2 * 64 + 2];
    for (uint32_t i = 0; i < bytes;) {
        uint32_t n = 0;
        for (; n < 64 && i < bytes; n++, i++) {
            line[2 * n] = "0123456789abcdef"[data[i] >> 4];
            line[2 * n + 1] = "0123456789abcdef"[data[i] & 15];
        }
        line[2 * n] = '\\n';
        line[2 * n + 1] = 0;
        board_say(line);
    }
}
"""


def main_text(feeds, count):
    lines = ['#include "net.h"', '#include "start.h"', "#include <string.h>", SAY]
    for i, (_, type_name, _, values) in enumerate(feeds):
        data = ", ".join(map(str, flatbuffer.pack(type_name, values)))
        lines.append(f"static const unsigned char input_{i}[] = {{{data}}};")
    lines += ["int main(void)", "{", "    rlx_ctx *net = net_static();"]
    lines += [f"    memcpy(rlx_input(net, {i}), input_{i}, sizeof input_{i});" for i in range(len(feeds))]
    lines += [
        "    if (rlx_run(net) != RLX_OK)",
        "        return 1;",
        f"    for (int i = 0; i < {count}; i++)",
        "        say_hex(rlx_output(net, i), rlx_output_bytes(net, i));",
        "    return 0;",
        "}",
        "",
    ]
    return "\n".join(lines)


def run(rig, machine, together, options):
    """Results like those of check_ops.run_rlxc, or a message."""
    with tempfile.TemporaryDirectory(dir=rig.work) as name:
        folder = pathlib.Path(name)
        model = folder / "net.tflite"
        model.write_bytes(together[0].model.encode())
        command = [
            rig.rlxc,
            "compile",
            model,
            "--cpu",
            machine.cpu,
            "-o",
            folder,
            "--name",
            "net",
            "--weights",
            "rodata",
            "--one-file",
            "--no-validate",
            "--arena",
            "static",
            "--api",
            "full",
            *options,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return done.stderr.strip()
        feeds = [feed for c in together for feed in c.feeds]
        (folder / "main.c").write_text(main_text(feeds, sum(len(c.results) for c in together)))
        compiler = next(iter(mcu_rig.compilers(machine).values()))
        program, _ = rig.build(folder, machine, compiler, [folder / "main.c"], ["-O1"])
        done = subprocess.run(
            [*machine.qemu_command(), "-kernel", program],
            capture_output=True,
            text=True,
            timeout=mcu_rig.TIME_LIMIT,
            check=False,
        )
        text = done.stdout + done.stderr
        data = bytes.fromhex("".join(re.findall(r"^[0-9a-f]+$", text, re.M)))
        if done.returncode:
            return f"QEMU: status {done.returncode}: {text[:200]}"
        return results(together, data)


def results(together, data):
    found, at = [], 0
    for c in together:
        found.append([])
        for type_name, (shape, _) in zip(c.result_types, c.expected, strict=True):
            code = check_ops.CODES[check_ops.DESCRIPTIONS[type_name]]
            count = math.prod(shape)
            found[-1].append((shape, list(struct.unpack_from(f"<{count}{code}", data, at))))
            at += struct.calcsize(f"<{count}{code}")
    if at != len(data):
        raise SystemExit(f"{together[0].name}: the board gave {len(data)} bytes, expected {at}")
    return found
