# SPDX-License-Identifier: Apache-2.0
"""A language model compiled with llm_test.c to a program that feeds tokens and prints logits: what the tests
of language models run. Every other one is for this CPU, the others for all, whose kernels compile in a third
of the time; on the next day it is the other way round."""

import itertools
import pathlib
import subprocess

import numpy
from emitted import QUICK, flags_of
from rotation import is_taken

HERE = pathlib.Path(__file__).resolve().parent
BUILDS = itertools.count()


def build(rlxc, model, folder, columns, options, fill=0xFF, output=0):
    """Compiles the model at a path; the program is in the folder. fill: the bytes with which caches begin;
    output: the one that is printed, in rows of so many columns."""
    is_native = is_taken(next(BUILDS), 2) or "--accuracy" in options  # which vectors alone gain from
    cpu = "native" if is_native else "generic"
    command = [rlxc, "compile", model, "-o", folder, "--name", "m", "--cpu", cpu, *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=200)
    text = f'#include "m.h"\n#define MODEL m_model\n#define FILL {fill}\n'
    text += f"#define OUTPUT {output}\n#define COLUMNS {columns}\n"
    text += "#define HAS_PARAMETERS\n" if "--lora" in options else ""
    pathlib.Path(folder, "llm_model.h").write_text(text)
    flags = flags_of(f"{folder}/m.c", QUICK)
    command = ["cc", *flags, "-D_POSIX_C_SOURCE=200112L", "-I."]
    command += ["m.c", str(HERE / "llm_test.c"), "-o", "p", "-lm"]
    subprocess.run(command, check=True, cwd=folder, timeout=400)


def run(folder, tokens, cut):
    """The logits after each run."""
    words = " ".join(map(str, tokens)).encode()
    command = ["./p", *map(str, cut)]
    out = subprocess.run(command, input=words, cwd=folder, check=True, stdout=subprocess.PIPE, timeout=100)
    bits = [[int(word, 16) for word in line.split()] for line in out.stdout.decode().splitlines()]
    return numpy.array(bits, "u4").view("f4")


def difference(folder, tokens, cut, expected):
    """The largest distance of the logits after a run, of their norm."""
    after = numpy.cumsum(cut) - 1
    got = run(folder, tokens, cut)
    if got.shape != (len(cut), expected.shape[1]):
        return numpy.inf
    apart = numpy.linalg.norm(got - expected[after], axis=1) / numpy.linalg.norm(expected[after], axis=1)
    return apart.max() if numpy.isfinite(apart).all() else numpy.inf
