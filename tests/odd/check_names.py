#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names of models: none of those that generated code has at file scope can be one (--name), nor can words of
C and names of its library; the message says which of these it is. A model file of such a name compiles.
Usage: check_names.py RLXC"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

RLXC = pathlib.Path(sys.argv[1]).resolve()
SOURCE = pathlib.Path(__file__).resolve().parents[2]
MODEL = SOURCE / "tests/runtime/everything.json"
OPEN = ["--handle", "scale=next_scale", "--output-set", "some=total"]
ON_CPU = ["--keep", "inner", "--profile", "--threads", "2", "--bucket", "rows=16,64", "--arena", "static"]
FORMS = (
    [*OPEN, *ON_CPU, "--moe-resident", "2"],
    [*OPEN, "--dynamic", "--weights", "file", "--embed-source"],
    [*OPEN, "--dynamic", "--target", "cuda", "--gpu", "text"],
    [*OPEN, "--bucket", "rows=16,64", "--target", "cuda", "--gpu", "text", "--profile"],
    [*OPEN, "--dynamic", "--target", "vulkan"],
    [*OPEN, "--dynamic", "--target", "metal"],
)
KEPT = {
    "static": "a word of C",
    "__x": "a word of C",
    "main": "a name of the C library",
    "tanhf": "a name of the C library",
    "pthread_create": "a name of the C library",
    "rlx_run": "a name of rlxc's runtime",
    "steps": "the generated code uses",
    "k0_add": "the generated code uses",
    "image_k0_add": "the generated code uses",
}
NOT_NAMES = {"a-b": "a_b", "1x": "_1x", "": "_", "a" * 201: "at most 200 bytes"}
FREE = ["model", "tan_model", "k0", "image", "ctx", "status", "arena", "i", "x", "edge"]


def rlxc(*args):
    return subprocess.run([RLXC, *args], capture_output=True, text=True, check=False, timeout=60)


# What the object file defines, but what has the model's name. (Variables of functions have a dot.)
def names_of(source):
    built = source.with_suffix(".o")
    subprocess.run(["cc", "-w", "-O0", "-c", source, "-o", built], check=True)
    listed = subprocess.check_output(["nm", "--defined-only", built], text=True)
    names = {line.split()[-1] for line in listed.splitlines()}
    return {n for n in names if re.fullmatch(r"\w+", n) and not re.search(r"(?i)model_zz", n)}


def check_own_names(folder):
    for form in FORMS:
        out = folder / "own"
        made = rlxc("compile", MODEL, "-o", out, "--name", "model_zz", *form)
        if made.returncode == 3:
            print("NOT CHECKED:", made.stderr.splitlines()[0])
            continue
        assert made.returncode == 0, (form, made.stderr)
        names = names_of(out / "model_zz.c")
        assert len(names) > 20, (form, names)
        free = {n for n in names if rlxc("compile", "none.json", "--name", n).returncode != 2}
        assert not free, f"{form}: these can be names of a model: {sorted(free)}"


def compile_mlp(folder, *args):
    return rlxc("compile", SOURCE / "models/mlp.json", "-o", folder, *args)


def check_messages(folder):
    for name, words in KEPT.items():
        got = compile_mlp(folder, "--name", name)
        assert got.returncode == 2 and f"such as m_{name}: this is" in got.stderr, got.stderr
        assert words in got.stderr, got.stderr
    for name, words in NOT_NAMES.items():
        got = compile_mlp(folder, "--name", name)
        assert got.returncode == 2 and words in got.stderr, got.stderr
    for name in FREE:
        assert compile_mlp(folder, "--name", name).returncode == 0, name
        for language in ["-std=c99"], ["-x", "c++", "-std=c++11"]:
            command = ["cc", *language, "-Wall", "-Wextra", "-Wshadow", "-Werror", "-fsyntax-only"]
            subprocess.run([*command, folder / f"{name}.c"], check=True)


def check_files(folder):
    for name, made in {"main": "m_main", "steps": "m_steps", "x_on_c": "x_on_c_", "1 b": "_1_b"}.items():
        model = folder / f"{name}.json"
        shutil.copy(SOURCE / "models/mlp.json", model)
        got = rlxc("compile", model, "-o", folder / "files")
        assert got.returncode == 0 and (folder / "files" / f"{made}.h").exists(), (name, got.stderr)


def main():
    with tempfile.TemporaryDirectory() as folder:
        for check in check_own_names, check_messages, check_files:
            check(pathlib.Path(folder))


main()
