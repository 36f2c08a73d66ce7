#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Boards: every row of codegen/target/boards.def can be used, and what inspect says of a board follows from
its row and from the model. Usage: check_boards.py RLXC; prints TAP."""

import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../common"))
import tap

RLXC = os.path.abspath(sys.argv[1])
MODEL = pathlib.Path(__file__).resolve().parents[2] / "models/digits/digits.json"


def call(*arguments):
    return subprocess.run([RLXC, *map(str, arguments)], capture_output=True, text=True, timeout=60)


def inspect(board, *more):
    return json.loads(call("inspect", MODEL, "--board", board["name"], "--json", "--no-code", *more).stdout)


def check_board(board):
    """The arena goes into the smallest bank that holds it."""
    facts = inspect(board)
    said, arena = facts["board"], facts["arena_bytes"]
    banks = [bank for bank in board["banks"] if bank["bytes"] >= arena]
    names = [bank["name"] for bank in banks if bank["bytes"] == min(b["bytes"] for b in banks)]
    right = (facts["cpu"] == board["cpu"] and said["mhz"] == board["mhz"] and said["chip"] == board["chip"]
             and said["ram_bytes"] == sum(bank["bytes"] for bank in board["banks"])
             and said["ram_used_bytes"] == arena + facts["state_bytes"]
             and said["flash_used_bytes"] == facts["weight_bytes"]
             and (said["arena_bank"] in names if names else said["arena_bank"] is None))
    tap.result(right, board["name"], facts)


def check_banks(board):
    """--bank board is its RAM; an arena that no bank holds lies in several of them."""
    facts = inspect(board, "--bank", "board", "--shape", "image=40,1,8,8", "--ram", "500K")
    banks = [{"name": bank["name"], "bytes": bank["size"]} for bank in facts["banks"]]
    wanted = [{"name": bank["name"], "bytes": bank["bytes"]} for bank in board["banks"]]
    used = sum(bank["used"] > 0 for bank in facts["banks"])
    tap.result(banks == wanted and used > 1, f"banks of {board['name']}: {used} used", facts["banks"])


def main():
    targets = json.loads(call("targets", "--json").stdout)
    boards, cpus = targets["boards"], {cpu["name"] for cpu in targets["cpus"]}
    names = {board["name"] for board in boards}
    tap.result(len(boards) >= 30 and len(names) == len(boards), "30 boards and more")
    used = {board["cpu"] for board in boards}
    tap.result(used <= cpus and len(used) >= 7, "their CPUs", used)
    small = {"name": "frdm-kl25z"}
    tap.result(inspect(small, "--memory-price", "0")["board"]["arena_bank"] == "sram", "12 KB go into 16")
    for board in boards:
        check_board(board)
    check_banks(next(board for board in boards if board["name"] == "stm32f746g-disco"))
    big = call("inspect", MODEL, "--board", "nucleo-l4r5zi", "--shape", "image=64,1,8,8", "--no-code")
    tap.result("the arena fits into no single bank" in big.stdout, "an arena that is too large", big)
    for wrong, why in ((("--board", "nucleo"), "no such board"),
                       (("--board", "nucleo-l4r5z"), "did you mean 'nucleo-l4r5zi'?"),
                       (("--cpu", "cortex-m44"), "did you mean 'cortex-m4'?"),
                       (("--cpu", "riscv"), "`rlxc targets` lists all"),
                       (("--bank", "a=99999999999999M"), "expected a size of 1 to 549755813887 bytes"),
                       (("--board", "nrf52dk", "--cpu", "cortex-m7"), "has a cortex-m4"),
                       (("--board", "nrf52dk", "--target", "metal"), "no program for a cortex-m4 drives"),
                       (("--cpu", "rv32imc", "--threads", "2"), "expected --pool caller with it"),
                       (("--board", "nrf52dk", "--threads", "2", "--pool", "posix"), "no POSIX threads"),
                       (("--board", "nrf52dk", "--target", "vulkan", "--ram", "9K"), "no program for")):
        done = call("inspect", MODEL, *wrong)
        tap.result(done.returncode == 2 and why in done.stderr, " ".join(wrong), done)
    return tap.end()


sys.exit(main())
