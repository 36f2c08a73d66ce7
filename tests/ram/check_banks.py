#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Banks of memory (--bank) from end to end: networks in static blocks, linked by NAME.ld with three regions
of RAM, two of flash and one that start-up code fills, as QEMU's mps2-an386 runs them. Every block must lie in
its region, nothing beside the blocks may be written, and results are those of the same network in floats.
On this machine: states, constants, errors of the caller, and what --bank refuses.

  check_banks.py RLXC

Prints TAP."""

import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "../common")]
import tap  # noqa: E402
from check_ram import RLXC, Net, call, checked, program  # noqa: E402

FIRMWARE = HERE / "../../examples/firmware"
CPU = "cortex-m4"
# Of the board: name, where it begins, bytes, and what --bank says of it.
REGIONS = [("dtcm", 0x20010000, 0x300, "fast"), ("sram", 0x20020000, 0x500, "cycles=2"),
           ("psram", 0x21000000, 0x100000, "slow"), ("itcm", 0x20300000, 0x800, "copied,fast"),
           ("rom", 0x100000, 0x1000, "weights"), ("xip", 0x200000, 0x100000, "weights,slow")]
RAM = ("dtcm", "sram", "psram")
MAIN = """#include "net.h"
#include "start.h"
#include <string.h>
extern unsigned char dtcm_at[], dtcm_end[], sram_at[], sram_end[], psram_at[], psram_end[];
extern unsigned char dtcm_used[], sram_used[], psram_used[];
extern unsigned char rlx_itcm_begin[], rlx_itcm_end[], rlx_itcm_load[];
static const signed char inputs[] = {%(inputs)s};
static int is_whole(const unsigned char *at, const unsigned char *end)
{
    while (at < end)
        if (*at++ != 0x55)
            return 0;
    return 1;
}
int main(void)
{
    memset(dtcm_at, 0x55, (size_t)(dtcm_end - dtcm_at));
    memset(sram_at, 0x55, (size_t)(sram_end - sram_at));
    memset(psram_at, 0x55, (size_t)(psram_end - psram_at));
    memcpy(rlx_itcm_begin, rlx_itcm_load, (size_t)(rlx_itcm_end - rlx_itcm_begin));
    rlx_ctx *net = net_static();
    if (net == NULL)
        return 1;
    memcpy(rlx_input(net, 0), inputs, sizeof inputs);
    if (rlx_run(net) != RLX_OK)
        return 2;
    const signed char *y = rlx_output(net, 0);
    for (int i = 0; i < %(outputs)d; i++) {
        board_say_number(y[i]);
        board_say(" ");
    }
    return !is_whole(dtcm_used, dtcm_end) || !is_whole(sram_used, sram_end) ||
           !is_whole(psram_used, psram_end);
}
"""


def linker_script(names=("net",)):
    """That of examples/firmware, with the regions and the lines of networks."""
    text = (FIRMWARE / "board.ld").read_text()
    rows = "".join(f"    {name} (rwx) : ORIGIN = {at:#x}, LENGTH = {size:#x}\n"
                   for name, at, size, _ in REGIONS)
    symbols = "".join(f"    {name}_at = ORIGIN({name}); {name}_end = ORIGIN({name}) + LENGTH({name});\n"
                      f"    {name}_used = ADDR(.rlx.{name}) + SIZEOF(.rlx.{name});\n"
                      for name in RAM)
    text = text.replace("MEMORY {\n", f"MEMORY {{\n{rows}").replace("\n}\nSECTIONS", (
        '\n}\nREGION_ALIAS("rlx_load", FLASH)\nSECTIONS'))
    vectors = "KEEP(*(.vectors)) } > FLASH\n"
    assert vectors in text
    text = text.replace(vectors, vectors + "".join(f"    INCLUDE {name}.ld\n" for name in names)).rstrip()
    return text.removesuffix("}") + symbols + "}\n"


def places_of(elf):
    """By name: where blocks and arrays of the network lie, and how many bytes they have."""
    text = checked(["arm-none-eabi-nm", "-S", elf]).decode()
    found = re.findall(r"^(\w+) (\w+) \w (arena_block_\w+|weights_\w+|state_block)$", text, re.M)
    return {name: (int(at, 16), int(size, 16)) for at, size, name in found}


def check_board(seed):
    rng = random.Random(seed)
    for tool in ("arm-none-eabi-gcc", "arm-none-eabi-nm", "qemu-system-arm"):
        if shutil.which(tool) is None:
            raise tap.Skipped(f"no {tool} here")
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        text, *sizes = Net(seed).build()
        (work / "net.rlx").write_text(text)
        inputs = bytes(rng.randrange(256) for _ in range(sizes[0]))
        wanted = checked([program(work, work / "net.rlx", "generic", sizes, 0)[0]], input=inputs)
        banks = [f"--bank={name}={size},{words}" for name, _, size, words in REGIONS]
        checked([RLXC, "compile", work / "net.rlx", f"--cpu={CPU}", "-o", work, "--arena=static",
                 "--api=core", f"--cc-flags={work}/flags", *banks])
        signed = ", ".join(str(b - 256 if b > 127 else b) for b in inputs)
        (work / "main.c").write_text(MAIN % {"inputs": signed, "outputs": sizes[1]})
        (work / "board.ld").write_text(linker_script())
        memory = "flash_at=0,--defsym=flash_bytes=1M,--defsym=ram_at=0x20000000,--defsym=ram_bytes=64K"
        checked(["arm-none-eabi-gcc", f"@{work}/flags", "-O2", "-Wall", "-Wextra", "-Werror", "-I.",
                 f"-I{FIRMWARE.resolve()}", "main.c", "net.c", FIRMWARE.resolve() / "start.c",
                 "-nostartfiles", "--specs=nano.specs", "-T", "board.ld", f"-Wl,--defsym={memory}",
                 "-o", "net.elf"], cwd=work)
        places, used = places_of(work / "net.elf"), []
        for name, at, size, words in REGIONS:
            block = ("arena_block_" if name in RAM else "weights_") + name
            if block in places:
                begin, bytes_ = places[block]
                assert at <= begin and begin + bytes_ <= at + size, (block, places)
                used.append(f"{name} {bytes_}")
        kinds = [sum(place.startswith(kind) for place in places) for kind in ("arena_block_", "weights_")]
        assert min(kinds) >= 2, places
        done = subprocess.run(["qemu-system-arm", "-M", "mps2-an386", "-nographic", "-semihosting-config",
                               "enable=on,target=native", "-kernel", work / "net.elf"], capture_output=True,
                              timeout=120, stdin=subprocess.DEVNULL)
        found = bytes(int(v) & 255 for v in (done.stdout + done.stderr).split())
        assert done.returncode == 0 and found == wanted, (done.returncode, len(found), len(wanted))
        return ", ".join(used)


TWO_MAIN = """#include "one.h"
#include "two.h"
int main(void)
{
    return rlx_run(one_static()) != RLX_OK || rlx_run(two_static()) != RLX_OK;
}
"""


def check_two():
    """Two networks of a program share all banks: what start-up code copies has the arrays of both."""
    for tool in ("arm-none-eabi-gcc", "arm-none-eabi-nm"):
        if shutil.which(tool) is None:
            raise tap.Skipped(f"no {tool} here")
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        banks = [f"--bank={name}={size},{words}" for name, _, size, words in REGIONS]
        for seed, name in ((2, "one"), (9, "two")):
            (work / f"{name}.rlx").write_text(Net(seed).build()[0])
            checked([RLXC, "compile", work / f"{name}.rlx", f"--cpu={CPU}", "-o", work, "--name", name,
                     "--no-validate", "--arena=static", "--api=core", f"--cc-flags={work}/flags", *banks])
        (work / "main.c").write_text(TWO_MAIN)
        script = linker_script(("one", "two"))
        (work / "board.ld").write_text(script.replace("LENGTH = 0x", "LENGTH = 2 * 0x"))
        memory = "flash_at=0,--defsym=flash_bytes=1M,--defsym=ram_at=0x20000000,--defsym=ram_bytes=64K"
        checked(["arm-none-eabi-gcc", f"@{work}/flags", "-O1", "-I.", f"-I{FIRMWARE.resolve()}", "main.c",
                 "one.c", "two.c", FIRMWARE.resolve() / "start.c", "-nostartfiles", "--specs=nano.specs",
                 "-T", "board.ld", f"-Wl,--defsym={memory}", "-o", "net.elf"], cwd=work)
        text = checked(["arm-none-eabi-nm", "-S", work / "net.elf"]).decode()
        arrays = [(int(at, 16), int(size, 16))
                  for at, size in re.findall(r"^(\w+) (\w+) \w weights_itcm$", text, re.M)]
        begin, end = (int(re.search(rf"^(\w+) \w rlx_itcm_{which}$", text, re.M)[1], 16)
                      for which in ("begin", "end"))
        assert len(arrays) == 2 and all(begin <= at and at + size <= end for at, size in arrays), text
        return f"{end - begin} bytes for {len(arrays)} arrays"


# --- on this machine ------------------------------------------------------------------------------

STEP = """graph "step" {
  %1 = input "x" : f32[64]
  %2 = state "sum" : f32[64]
  %3 = add(%1, %2)
  %4 = const : f32[64, 48] = {WEIGHTS}
  %5 = matmul(%3, %4)
  %6 = const : f32[48, 8] = {MORE}
  %7 = matmul(%5, %6)
  output "y" = %7
  state %2 -> %3
}
"""
STEP_MAIN = """#include "step.h"
#include <stdio.h>
#define BYTES(n) ((n) == 0 ? 1 : (n))
static RLX_ALIGNED unsigned char near[BYTES(STEP_BANK_near_BYTES)], far[BYTES(STEP_BANK_far_BYTES)];
static RLX_ALIGNED unsigned char state[STEP_STATE_BYTES], all[STEP_ARENA_BYTES];
static int init_with(rlx_ctx *c, void *a, size_t n, void *b, size_t m)
{
    const rlx_bank banks[STEP_BANKS] = {{a, n}, {b, m}};
    return (int)step_init_banks(c, banks, state, sizeof state);
}
static void steps(rlx_ctx *c)
{
    for (int i = 0; i < 3; i++) {
        float *x = (float *)rlx_input(c, 0);
        for (int k = 0; k < 64; k++)
            x[k] = (float)(k % 5 - i);
        if (rlx_run(c) != RLX_OK)
            printf("failed ");
        for (int k = 0; k < 8; k++)
            printf("%a ", (double)((const float *)rlx_output(c, 0))[k]);
    }
    printf("\\n");
}
int main(void)
{
    rlx_ctx c;
    printf("%d %d %d %d %d\\n", init_with(&c, NULL, 0, far, sizeof far),
           init_with(&c, near, STEP_BANK_near_BYTES - 1, far, sizeof far),
           init_with(&c, near + 4, sizeof near, far, sizeof far),
           init_with(&c, state, sizeof near, far, sizeof far),
           init_with(&c, near, sizeof near, far, sizeof far));
    steps(&c);
    if (step_init(&c, all, sizeof all, state, sizeof state) != RLX_OK)
        printf("failed ");
    steps(&c);
    return 0;
}
"""


def compile_step(work, *banks):
    rng = random.Random(3)
    numbers = [", ".join(str(rng.randint(-9, 9)) for _ in range(n)) for n in (64 * 48, 48 * 8)]
    (work / "step.rlx").write_text(STEP.replace("WEIGHTS", numbers[0]).replace("MORE", numbers[1]))
    given = [f"--bank={bank}" for bank in banks]
    return call([RLXC, "compile", work / "step.rlx", "-o", work, "--no-validate", *given])


def check_state():
    """The state lies in a bank; a block for each bank is the same as one for all; wrong ones are refused."""
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        done = compile_step(work, "near=1K,fast", "far=8K", "rom=4K,weights,fast", "xip=64K,weights,slow")
        assert done.returncode == 0, done.stderr
        (work / "main.c").write_text(STEP_MAIN)
        checked(["cc", "-Wall", "-Wextra", "-Werror", f"-I{work}", work / "main.c", work / "step.c", "-o",
                 work / "step", "-lm"])
        codes, first, second = checked([work / "step"]).decode().splitlines()
        assert codes == "1 2 3 19 0", codes
        assert first == second and "failed" not in first, (first, second)
        values = [float.fromhex(v) for v in first.split()]
        assert len(values) == 24 and any(values), values
        return codes


def check_facts():
    """What inspect says: each buffer in one bank, within it, and the most traffic where it is fast."""
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        assert compile_step(work).returncode == 0
        said = json.loads(checked([RLXC, "inspect", work / "step.rlx", "--json", "--no-code", "--bank=far=8K",
                                   "--bank=near=1K,fast", "--bank=xip=64K,weights,slow",
                                   "--bank=rom=4K,weights,fast"]))
        banks = {bank["name"]: bank for bank in said["banks"]}
        for bank in banks.values():
            assert bank["used"] <= bank["size"] and all(b["offset"] + b["bytes"] <= bank["bytes"]
                                                        for b in bank["buffers"]), bank
        assert sum(bank["state_bytes"] for bank in banks.values()) == said["state_bytes"] != 0
        assert banks["near"]["used"] > 0 and banks["far"]["traffic"] == 0, banks
        ids = [b["id"] for bank in banks.values() for b in bank["buffers"]]
        assert len(ids) == len(set(ids)), ids
        assert sum(b["bytes"] for n in ("rom", "xip") for b in banks[n]["buffers"]) >= 4 * (64 * 48 + 48 * 8)
        return ", ".join(f"{name} {bank['used']}" for name, bank in banks.items())


def check_bound():
    """What is said to be the least that buffers need holds of all divisions, and of none at all."""
    model = HERE / "../../models/digits/digits.json"
    command = [RLXC, "inspect", model, "--json", "--no-code", f"--cpu={CPU}", "--spare-ram=0"]
    whole, parts = (json.loads(checked([*command, *banks]))
                    for banks in ((), ("--bank=near=6K,fast", "--bank=far=1M")))
    arena, bound = parts["arena_bytes"], parts["arena_lower_bound_bytes"]
    assert bound <= whole["arena_bytes"] <= arena, (arena, bound)
    assert parts["arena_optimal"] == (arena == bound), (arena, bound)
    return f"{arena} bytes in two banks, {bound} at least"


def check_spared():
    """A bank that has room changes nothing of which schedule is chosen, and --spare-ram counts."""
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(folder) / "net.rlx"
        model.write_text(Net(1).build()[0])
        command = [RLXC, "inspect", model, "--json", "--no-code", f"--cpu={CPU}"]
        takes = {(spare, bank): json.loads(checked([*command, f"--spare-ram={spare}", *bank]))["arena_bytes"]
                 for spare in (0, 60) for bank in ((), ("--bank=ram=64K",))}
        assert takes[0, ()] == takes[0, ("--bank=ram=64K",)], takes
        assert takes[60, ()] == takes[60, ("--bank=ram=64K",)] < takes[0, ()], takes
        return f"{takes[60, ()]} bytes, or {takes[0, ()]}"


def check_cycles():
    """Cycles are said to be the least only where they equal the bound: all in the fast bank, or as much as
    fits. Where large buffers leave some of it, the gap is said."""
    with tempfile.TemporaryDirectory() as folder:
        work, found = pathlib.Path(folder), []
        assert compile_step(work).returncode == 0
        for near, rom in (("64K", "64K"), ("1K", "4K"), ("1K", "6000")):
            command = [RLXC, "inspect", work / "step.rlx", "--no-code", f"--bank=near={near},fast",
                       "--bank=far=8K", f"--bank=rom={rom},weights,fast", "--bank=xip=64K,weights,slow"]
            said = json.loads(checked([*command, "--json"]))
            text = checked(command).decode()
            for kind, names in (("ram", ("near", "far")), ("weights", ("rom", "xip"))):
                cost = said["bank_cycles"][kind]
                cycles = sum(b["traffic"] * b["cycles"] for b in said["banks"] if b["name"] in names)
                fastest = sum(b["traffic"] for b in said["banks"] if b["name"] in names)
                assert abs(cost["cost"] - cycles) <= 1 and fastest <= cost["lower_bound"] + 1, (cost, cycles)
                assert cost["optimal"] == (cost["cost"] == cost["lower_bound"]), cost
                line = re.search(rf"^banks of {kind}: (\d+) cycles .*optimal: (yes|not proved)", text, re.M)
                assert line and int(line[1]) == cost["cost"], text
                assert cost["optimal"] == (line[2] == "yes"), text
                found.append(cost)
        assert found[0]["optimal"] and found[1]["optimal"], found
        assert found[3]["lower_bound"] > found[1]["lower_bound"], found  # some of the constants are slow
        return ", ".join(f"{c['cost']} of {c['lower_bound']}" for c in found)


def check_schedule():
    """With --ram, no schedule takes fewer instructions than what is said to be the least."""
    model = HERE / "../../models/digits/digits.json"
    command = [RLXC, "inspect", model, "--json", f"--cpu={CPU}"]
    plain = json.loads(checked([*command, "--spare-ram=0"]))
    assert "schedule_instructions" not in plain, plain
    small = json.loads(checked([*command, f"--ram={plain['arena_bytes'] - 2000}"]))
    cost = small["schedule_instructions"]
    assert cost["lower_bound"] <= cost["cost"], cost
    assert cost["optimal"] == (cost["lower_bound"] == cost["cost"]), cost
    told = plain["estimated_instructions"]  # by other numbers (times.def) than schedules are compared with
    assert cost["lower_bound"] <= 1.05 * told, (cost, told)
    return f"{cost['cost']} instructions, {cost['lower_bound']} at least"


def check_certificate():
    """The certificate names the banks; static blocks keep the rules of docs/VALIDATION.md."""
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        assert compile_step(work).returncode == 0
        done = call([RLXC, "compile", work / "step.rlx", "-o", work, "--certify", "--arena=static",
                     "--bank=near=1K,fast", "--bank=far=8K", "--bank=rom=64K,weights"])
        if b"no libclang is installed" in done.stderr:
            raise tap.Skipped("no libclang here")
        assert done.returncode == 0, done.stderr
        banks = json.loads((work / "step.certificate.json").read_text())["banks"]
        assert [bank["name"] for bank in banks] == ["near", "far", "rom"] and "bank    near: " in (
            work / "step.certificate.txt").read_text()
        return f"{banks[0]['used']} bytes in near"


def check_one():
    """With one bank all is as without, apart from sections."""
    with tempfile.TemporaryDirectory() as folder:
        work, texts = pathlib.Path(folder), []
        for banks in ((), ("ram=8K",)):
            assert compile_step(work, *banks).returncode == 0
            texts.append([(work / name).read_text() for name in ("step.h", "step_rlx.h", "step.c")])
        assert texts[0] == texts[1]
        return "the same text"


REFUSED = [(["x=0"], "a size of 1 to"), (["x=4K,quick"], "a name, a size"), (["8x=4K"], "a name, a size"),
           (["x=4K", "x_BYTES=4K"], "a name, a size"),
           (["x=4K,cycles=-1"], "a name, a size"), (["x=4K", "x=8K"], "another name"), (["board"], "--board"),
           ([f"x{i}=4K" for i in range(9)], "at most 8"),
           (["near=512,fast", "far=64"], "bytes are needed here"),
           (["rom=1K,weights"], "rom: .* bytes are needed here at least, and it has 1024")]
COMBINED = [(["--target=cuda"], "without a device"), (["--api=full"], "no --api full"),
            (["--weights=file"], "weights in the program")]


def check_refused():
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        for banks, message in REFUSED:
            done = compile_step(work, *banks)
            assert done.returncode != 0 and re.search(message, done.stderr.decode()), (banks, done.stderr)
        for more, message in COMBINED:
            done = call([RLXC, "compile", work / "step.rlx", "-o", work, "--bank=a=8K", "--bank=b=8K",
                         *more])
            assert done.returncode != 0 and message in done.stderr.decode(), (more, done.stderr)
        return f"{len(REFUSED) + len(COMBINED)} times"


def main():
    checks = [("blocks of the caller and a state", check_state, ()), ("inspect", check_facts, ()),
              ("lower bound", check_bound, ()), ("spared", check_spared, ()),
              ("two networks", check_two, ()), ("least cycles", check_cycles, ()),
              ("least instructions", check_schedule, ()),
              ("certificate", check_certificate, ()), ("one bank", check_one, ()),
              ("what is refused", check_refused, ())]
    checks += [(f"network {seed} on a board", check_board, (seed,)) for seed in (2, 9, 12)]
    return tap.run_checks(checks)


if __name__ == "__main__":
    sys.exit(main())
