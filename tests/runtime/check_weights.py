#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Weights wherever a program has them: intact ones pass rlx_check_weights, ones with a wrong byte do not,
and a file of another compile is refused by rlx_init. Also files of initial states and of experts, and what
rlxc says of them.
Usage: check_weights.py RLXC"""

import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

import moe_model

RLXC, HERE = os.path.abspath(sys.argv[1]), pathlib.Path(__file__).resolve().parent
SANITIZE = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
WARNINGS = ["-Wall", "-Wextra", "-Werror"]
C, CPP = ["cc", "-std=c99", *WARNINGS], ["c++", "-x", "c++", *WARNINGS]
OK, WRONG = "ok", "wrong weights"
INTACT, STALE, CORRUPT = f"{OK}, {OK}, {OK}", f"{WRONG}, {WRONG}", f"{OK}, {WRONG}, {OK}"
BOTH = ["--target", "cuda,c", "--gpu", "text"]
BUCKETS = ["--bucket", "rows=2,4"]


def tensor(seed, *shape):
    count = 1
    for size in shape:
        count *= size
    return struct.pack(f"<{count}f", *[((i * 2654435761 + seed) >> 8) % 1000 / 500 - 1 for i in range(count)])


def write_model(folder, seed, width=256):
    """x [rows, 128] times a constant, and a state of 128 KB with initial values."""
    folder.mkdir()
    (folder / "w.bin").write_bytes(tensor(seed, 128, width))
    (folder / "s.bin").write_bytes(tensor(seed + 1, 128, 256))
    model = {
        "rlxc": 1,
        "symbols": {"rows": {"min": 1, "max": 4, "default": 4}},
        "inputs": {"x": {"dtype": "f32", "shape": ["rows", 128]}},
        "weights": {"w": {"dtype": "f32", "shape": [128, width], "file": "w.bin"}},
        "states": {"s": {"dtype": "f32", "shape": [128, 256], "file": "s.bin", "next": "t"}},
        "nodes": [
            {"name": "y", "op": "matmul", "inputs": ["x", "w"]},
            {"name": "t", "op": "mul", "inputs": ["s", 0.5]},
        ],
        "outputs": ["y"],
    }
    (folder / "m.json").write_text(json.dumps(model))
    return folder / "m.json"


def rlxc(*args):
    done = subprocess.run([RLXC, *map(str, args)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def compile_model(model, folder, *options):
    code, out, err = rlxc("compile", model, "--api=full", "--name=m", "-o", folder, *options)
    assert code == 0 and err == "", err
    return out


def build(folder, compiler, defines=()):
    for source in HERE / "weights_test.c", "m.c":
        subprocess.run([*compiler, *defines, "-I.", "-c", source], check=True, cwd=folder)


def run(folder, *args):
    """Links, as objects may be others now, and runs."""
    objects = [f.name for f in folder.glob("*.o")]
    link = ["c++", "-fsanitize=address,undefined", *objects, "-o", "p", "-ldl"]
    subprocess.run(link, check=True, cwd=folder)
    done = subprocess.run(["./p", *args], check=True, cwd=folder, capture_output=True, text=True)
    return done.stdout.strip()


def expect(what, got, want):
    assert got == want, f"{what}: expected {want!r}, got {got!r}"


def flipped(data, at):
    return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


# Files that a compile writes for the program to read or take in.
def taken_files(folder):
    texts = (".c", ".h", ".cu", "")
    return sorted(f for f in folder.glob("m.*") if f.suffix not in texts and f.name != "m.o")


def check_mode(top, models, mode, options, compiler):
    """models: the one, and one with other values of the same sizes."""
    ours, other = top / "ours", top / "other"
    for folder, model in zip((ours, other), models):
        shutil.rmtree(folder, ignore_errors=True)
        compile_model(model, folder, "--weights", mode, *options)
    args = ["m.weights"] if mode == "file" else []
    what = f"{mode} {' '.join(options)}"
    compiler = [*compiler, *SANITIZE]
    build(ours, compiler)
    expect(what, run(ours, *args), INTACT)
    files = taken_files(ours)
    assert len(files) >= (0 if mode == "rodata" else 2), files
    for f in files:
        is_in_text = mode == "incbin" or f.suffix not in (".o", ".weights")
        kept = f.read_bytes()
        for name, data, want in (
            ("stale", (other / f.name).read_bytes(), STALE),
            ("wrong byte", flipped(kept, 4096), CORRUPT),
        ):
            f.write_bytes(data)
            if is_in_text:
                build(ours, compiler)
            expect(f"{what}, {name} in {f.name}", run(ours, *args), want)
        f.write_bytes(kept)
    if mode == "file":
        files[-1].write_bytes(flipped(kept, 4096))
        build(ours, compiler, ["-DRLX_CHECK_WEIGHTS"])
        expect("RLX_CHECK_WEIGHTS", run(ours, *args), STALE)
    if mode == "rodata":
        text = (ours / "m.c").read_text()
        at = re.search(r"weights\w*\[\d+\] = \{\s+0x", text).end()
        (ours / "m.c").write_text(text[:at] + ("1" if text[at] != "1" else "2") + text[at + 1 :])
        build(ours, compiler)
        expect("wrong word of text", run(ours), CORRUPT)
    print(f"# {what}: ok")


def check_experts(top):
    for name, scale in ("one", 1), ("two", 2):
        (top / name).mkdir()
        model = moe_model.model(8, 12)
        for w in model["weights"].values():
            w["data"] = [v * scale for v in w["data"]]
        (top / name / "m.json").write_text(json.dumps(model))
        compile_model(top / name / "m.json", top / name, "--moe-resident", "3", "--weights", "file")
    one, two = top / "one", top / "two"
    kept = (one / "m.experts").read_bytes()
    build(one, [*C, *SANITIZE])
    for data, want in (
        (kept, f"{OK}, {OK}, {OK}, {OK}"),
        ((two / "m.experts").read_bytes(), f"{OK}, {OK}, {WRONG}, {WRONG}"),
        (flipped(kept, 16), f"{OK}, {OK}, {OK}, {WRONG}"),
    ):
        (one / "m.experts").write_bytes(data)
        expect("experts", run(one, "m.weights", "m.experts"), want)
    print("# experts: ok")


def check_run(model):
    """The commands that run a model take weights from everywhere."""
    seen = set()
    for mode in "auto", "rodata", "incbin", "object", "file":
        code, out, err = rlxc("verify", model, "--weights", mode, "--cpu", "generic")
        assert code == 0, err
        code, out, err = rlxc("run", model, "--weights", mode, "--random", "1", "--cpu", "generic")
        assert code == 0, err
        seen.add(out.splitlines()[0])
    assert len(seen) == 1, seen
    code, out, err = rlxc("bench", model, "--weights", "file", "--runs", "3", "--cpu", "generic")
    assert code == 0, err
    print("# run, verify, bench: ok")


def check_next(top, model):
    """The command that compile prints works where it is printed, also in folders with odd names."""
    for mode, options in (("incbin", []), ("object", []), ("incbin", ["--threads", "2"])):
        folder = top / f"it's {mode}"
        out = compile_model(model, folder, "--weights", mode, *options)
        line = next(line for line in out.splitlines() if line.startswith("next: "))
        command = line[len("next: ") :].split(";")[0]
        subprocess.run(["sh", "-c", command], check=True, cwd="/")
        assert (folder / "m.o").exists()
        assert ("m.weights.o" in line) == (mode == "object"), line
    moved = top / "elsewhere with spaces"
    moved.mkdir()
    for name in "m.c", "m.h", "m_rlx.h", "m.state":
        shutil.copy(top / "it's incbin" / name, moved)
    path = str(top / "it's incbin" / "m.weights")
    command = ["cc", "-pthread", "-c", "m.c", f'-DM_WEIGHTS_PATH="{path}"']
    subprocess.run(command, check=True, cwd=moved)
    if shutil.which("tcc") is not None:
        done = subprocess.run(["tcc", "-c", "m.c"], cwd=moved, capture_output=True, text=True, check=False)
        assert done.returncode != 0 and "--weights object" in done.stderr, done.stderr
    print("# next: ok")


def check_refused(model):
    for options, words in (
        (["--object", "coff-x86-64"], "--weights object"),
        (["--weights", "object", "--object", "coff"], "coff-x86-64"),
        (["--weights", "object", "--cpu", "wasm-simd128"], "rodata or file"),
    ):
        code, _, err = rlxc("compile", model, "-o", "/nonexistent/x", *options)
        assert code != 0 and words in err, (options, err)
    print("# refused: ok")


def main(top):
    models = [write_model(top / "a", 1), write_model(top / "b", 7)]
    for mode in "rodata", "incbin", "object", "file":
        check_mode(top, models, mode, [], C)
    check_mode(top, models, "incbin", BUCKETS, CPP)
    check_mode(top, models, "file", BUCKETS, C)
    check_mode(top, models, "object", BOTH, CPP)
    check_mode(top, models, "file", BOTH, C)
    check_experts(top)
    check_run(models[0])
    check_next(top, models[0])
    check_refused(models[0])


with tempfile.TemporaryDirectory() as folder:
    main(pathlib.Path(folder))
