#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Depfiles: make and ninja compile a model again when any file that it was made from has changed, and only
then; also with odd names, and when a file goes away. Usage: check_depfile.py RLXC"""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

RLXC = os.path.abspath(sys.argv[1])
ROOT = os.path.abspath(os.environ.get("RLXC_SOURCE", "."))
OPTIONS = "--dim seq=4 --tune ../a.tune --depfile m.d --cc-flags m.flags --cpu x86-64-v3"
MAKEFILE = """all: m.c
m.c:
\t@echo compiled
\t@rlxc compile "$$MODEL" -o . --name m OPTIONS >made.txt
-include m.d
""".replace("OPTIONS", OPTIONS)
NINJA = """rule compile
  command = rlxc compile "$$MODEL" -o . --name m OPTIONS >made.txt
  description = compiled
  depfile = m.d
build m.c m.h: compile
""".replace("OPTIONS", OPTIONS)
BUILDS = {"Makefile": ["make", "-s"], "build.ninja": ["ninja"]}


def write_model(path, weights):
    graph = {
        "rlxc": 1,
        "name": "m",
        "symbols": {"seq": {"min": 1, "max": 8}},
        "inputs": {"x": {"dtype": "f32", "shape": ["seq", 4]}},
        "weights": {"w": {"file": weights, "tensor": "w"}, "b": {"file": "bias.npy"}},
        "nodes": [
            {"name": "y", "op": "matmul", "inputs": ["x", "w"]},
            {"name": "z", "op": "add", "inputs": ["y", "b"]},
        ],
        "outputs": ["z"],
    }
    with open(path, "w", encoding="utf-8") as f:
        json.dump(graph, f)


def write_weights(path, value):
    data = struct.pack("<16f", *[value] * 16)
    head = json.dumps({"w": {"dtype": "F32", "shape": [4, 4], "data_offsets": [0, 64]}}).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + data)


def write_npy(path, value):
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }"
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        f.write(struct.pack("<4f", *[value] * 4))


def write_tune(path, comment):
    with open(path, "w", encoding="ascii") as f:
        f.write(f"rlxc-tune 1\ncpu x86-64-v3\n# {comment}\n")


class Project:
    def __init__(self, folder, program):
        self.model_folder = f"{folder}/a model #1 $x"
        self.build_folder = f"{folder}/build"
        os.mkdir(self.model_folder)
        os.mkdir(self.build_folder)
        os.mkdir(folder + "/bin")
        os.symlink(RLXC, folder + "/bin/rlxc")
        self.model = self.model_folder + "/m.json"
        self.environment = dict(os.environ, MODEL=self.model, PATH=f"{folder}/bin:{os.environ['PATH']}")
        self.program, self.clock = program, 1_600_000_000
        for name, text in (("Makefile", MAKEFILE), ("build.ninja", NINJA)):
            with open(f"{self.build_folder}/{name}", "w", encoding="ascii") as f:
                f.write(text)
        write_model(self.model, "w 1.safetensors")
        write_weights(self.model_folder + "/w 1.safetensors", 1)
        write_npy(self.model_folder + "/bias.npy", 1)
        write_tune(folder + "/a.tune", "first")
        for path in (self.model, self.model_folder + "/w 1.safetensors", self.model_folder + "/bias.npy",
                     folder + "/a.tune"):
            os.utime(path, (self.clock, self.clock))

    def build(self):
        """Was the model compiled?"""
        done = subprocess.run(BUILDS[self.program], cwd=self.build_folder, env=self.environment,
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{self.program}: {done.stdout}{done.stderr}"
        return "compiled" in done.stdout

    def generated(self):
        return open(self.build_folder + "/m.c", encoding="ascii").read()


def check(program, folder):
    p = Project(folder, program)
    assert p.build(), "nothing compiled at first"
    flags = open(p.build_folder + "/m.flags", encoding="ascii").read()
    assert flags == "-march=x86-64-v3\n", flags
    assert not p.build(), "compiled again though nothing changed"
    for what, change in (
        ("weights", lambda: write_weights(p.model_folder + "/w 1.safetensors", 2)),
        ("bias", lambda: write_npy(p.model_folder + "/bias.npy", 2)),
        ("model", lambda: write_model(p.model, "./w 1.safetensors")),
        ("tune file", lambda: write_tune(folder + "/a.tune", "second")),
    ):
        before = p.generated()
        change()
        assert p.build(), f"{program}: the {what} changed, but nothing was compiled"
        assert what in ("model", "tune file") or p.generated() != before
        assert not p.build(), f"{program}: compiled twice for the {what}"
    # Another file instead of one that goes away.
    write_weights(p.model_folder + "/w2.safetensors", 3)
    write_model(p.model, "w2.safetensors")
    os.remove(p.model_folder + "/w 1.safetensors")
    assert p.build() and not p.build()
    # A compile that fails leaves what there was, and is tried again.
    before = p.generated()
    write_model(p.model, "no such file")
    done = subprocess.run(BUILDS[program], cwd=p.build_folder, env=p.environment, capture_output=True,
                          check=False)
    assert done.returncode != 0 and p.generated() == before
    write_model(p.model, "w2.safetensors")
    assert p.build() and not p.build()


def main():
    absent = [t for t in ("make", "ninja") if shutil.which(t) is None]
    for program, command in BUILDS.items():
        if command[0] not in absent:
            with tempfile.TemporaryDirectory() as folder:
                check(program, folder)
    if absent:
        print("skipped: no " + " and no ".join(absent))
        sys.exit(77)


main()
