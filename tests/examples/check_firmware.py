#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/firmware with the networks of MLPerf Tiny, where ../shared/models has them: the program must say
what LiteRT's stored results say. Its own networks are those of its README, which is run as well.
Exits with 77 without the networks, a cross compiler or QEMU. Usage: check_firmware.py RLXC"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

RLXC = pathlib.Path(sys.argv[1]).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
STORED = ROOT / "../shared/models/mlperf_tiny"
TIME_LIMIT = 300
CASES = 3


def outputs(network, case):
    data = (STORED / "cases" / network / f"case_{case}/output_0.npy").read_bytes()
    return [v - 256 if v > 127 else v for v in data[10 + int.from_bytes(data[8:10], "little"):]]


def expected():
    lines = []
    for case in range(CASES):
        scores = outputs("kws_ref_model", case)
        lines.append(f"keyword {scores.index(max(scores))}")
    for case in range(CASES):
        nobody, person = outputs("vww_96_int8", case)
        lines.append("a person" if person > nobody else "nobody")
    return lines


def join_inputs(folder, network):
    """The inputs of all cases in one file."""
    parts = []
    for case in range(CASES):
        data = (STORED / "cases" / network / f"case_{case}/input_0.npy").read_bytes()
        parts.append(data[10 + int.from_bytes(data[8:10], "little"):])
    path = folder / f"{network}.bin"
    path.write_bytes(b"".join(parts))
    return path


def main():
    has_tools = all(map(shutil.which, ("arm-none-eabi-gcc", "qemu-system-arm")))
    if not has_tools or not (STORED / "cases").is_dir():
        print(f"skipped: needs arm-none-eabi-gcc, qemu-system-arm and the networks in {STORED}")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name) / "firmware"
        shutil.copytree(ROOT / "examples/firmware", folder, ignore=shutil.ignore_patterns("build"))
        given = [f"{kind}={STORED / network}.tflite" for kind, network in (("KEYWORD", "kws_ref_model"),
                                                                         ("PERSON", "vww_96_int8"))]
        given += [f"KEYWORD_DATA={join_inputs(folder, 'kws_ref_model')}",
                  f"PERSON_DATA={join_inputs(folder, 'vww_96_int8')}"]
        done = subprocess.run(["make", "run", f"RLXC={RLXC}", "RAM=0x20000", *given], cwd=folder, text=True,
                              capture_output=True, timeout=TIME_LIMIT, check=False)
    said = [line for line in done.stdout.splitlines() + done.stderr.splitlines()
            if line.startswith("keyword ") or line in ("a person", "nobody")]
    print(f"{'ok' if said == expected() else 'wrong'}: {said}")
    if said != expected():
        print(expected(), done.stdout, done.stderr, sep="\n")
    return said != expected()


if __name__ == "__main__":
    sys.exit(main())
