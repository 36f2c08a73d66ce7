#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Weights in the user's file (--weights inplace): the same bits as with weights in the program, as C and as
C++ under the sanitizers, from .safetensors as others write it and from .rlxb; what is where; what is refused.
Usage: check_inplace.py RLXC"""

import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "common"))
from emitted import QUICK, SANITIZE, flags_of  # noqa: E402

RLXC = os.path.abspath(sys.argv[1])
# The table, two products (one transposed), one that is not at a multiple of 8, a convolution, a small one.
WEIGHTS = {"table": [512, 48], "turned": [64, 48], "plain": [64, 48], "three": [3], "shifted": [48, 40]}
WEIGHTS |= {"kernel": [32, 8, 3, 3], "bias": [40]}


def write_weights(path):
    header, data, seed = {}, b"", 1
    for name, shape in WEIGHTS.items():
        begin, count = len(data), 1
        for size in shape:
            count *= size
        for _ in range(count):
            seed = seed * 1103515245 + 12345 & 0x7FFFFFFF
            data += struct.pack("<f", (seed >> 8) / (1 << 22) - 1)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
    text = json.dumps(header | {"__metadata__": {"format": "pt"}}).encode()
    text += b" " * (-len(text) % 16)  # data then begin at 8 beyond a multiple of 16, as in many files
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_model(path):
    def node(name, op, *inputs, **attributes):
        return {"name": name, "op": op, "inputs": list(inputs)} | attributes

    model = {
        "rlxc": 1,
        "inputs": {
            "ids": {"dtype": "i64", "shape": [9]},
            "image": {"dtype": "f32", "shape": [1, 8, 6, 6]},
        },
        "weights": {w: {"file": "m.safetensors"} for w in WEIGHTS if w != "three"},
        "nodes": [
            node("row", "gather", "table", "ids"),
            node("wide", "matmul", "row", "turned", transpose_b=True),
            node("again", "matmul", "wide", "plain"),
            node("last", "matmul", "again", "shifted"),
            node("y", "add", "last", "bias"),
            node("z", "conv", "image", "kernel"),
        ],
        "outputs": ["y", "z"],
    }
    path.write_text(json.dumps(model))


def rlxc(*args):
    done = subprocess.run([RLXC, *map(str, args)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def compiled(model, weights, cpu, folder):
    """What rlxc says of it."""
    options = ["--name=m", "--cpu", cpu, "--weights", weights, "--json", "-o", folder]
    code, out, err = rlxc("compile", model, *options)
    assert code == 0, err
    return json.loads(out)


def outputs(folder, compiler, in_place, file):
    command = [*compiler, *flags_of(folder / "m.c", QUICK), *SANITIZE, f"-DIN_PLACE={in_place}"]
    sources = ["-I.", f"-I{HERE}", HERE / "inplace_test.c", "m.c"]
    subprocess.run([*command, *sources, "-o", "p", "-lm"], check=True, cwd=folder)
    return subprocess.run(["./p", file], check=True, cwd=folder, capture_output=True).stdout


def check_bits(folder, cpu, compiler):
    if shutil.which(compiler[0]) is not None:
        compiled(folder / "m.json", "rodata", cpu, folder / "rodata")
        wanted = outputs(folder / "rodata", compiler, 0, "")
        for model, file in ("m.json", "m.safetensors"), ("m.rlxb", "m.rlxb"):
            compiled(folder / model, "inplace", cpu, folder / "in")
            assert outputs(folder / "in", compiler, 1, folder / file) == wanted, (cpu, compiler, model)
    print(f"# {cpu}: the same bits")


def check_report(folder):
    said = compiled(folder / "m.json", "inplace", "generic", folder / "in")["in_place"]
    assert said["file"].endswith("m.safetensors") and said["tensors"] == 3, said
    assert {e["name"] for e in said["elsewhere"]} == {"shifted", "kernel"}, said
    assert not (folder / "in" / "m.weights").exists()
    said = compiled(folder / "m.rlxb", "inplace", "generic", folder / "in")["in_place"]
    assert said["file"].endswith("m.rlxb") and said["tensors"] == 4, said
    assert [e["name"] for e in said["elsewhere"]] == ["kernel"], said
    header = (folder / "in" / "m.h").read_text()
    assert '#define M_WEIGHT_FILE "m.rlxb"' in header
    assert f"#define M_WEIGHT_BYTES {(folder / 'm.rlxb').stat().st_size}u" in header


def check_refused(folder):
    for options, words in (
        (["--target=cuda", "--gpu=text"], "not with GPU targets"),
        (["--arena=static"], "weights in the program"),
    ):
        fixed = ["compile", folder / "m.json", "--weights=inplace", "-o", folder / "none"]
        code, _, err = rlxc(*fixed, *options)
        assert code in (1, 2) and words in err, err
    small = HERE / "constant.json"
    code, _, err = rlxc("compile", small, "--weights=inplace", "-o", folder / "none")
    assert code in (1, 2) and "expected weights of 4096 bytes or more" in err, err
    assert not (folder / "none").exists()


with tempfile.TemporaryDirectory() as top:
    top = pathlib.Path(top)
    write_weights(top / "m.safetensors")
    write_model(top / "m.json")
    assert rlxc("convert", top / "m.json", top / "m.rlxb")[0] == 0
    check_report(top)
    check_refused(top)
    check_bits(top, "generic", ["cc"])
    check_bits(top, "native", ["c++", "-x", "c++"])
