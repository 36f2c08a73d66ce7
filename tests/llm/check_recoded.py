#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model whose weights are IQ1, IQ2, IQ3 and TQ1_0: the generated code computes what the evaluator does, for
one row and for many, and with experts. That their elements are right is tests/unit/test_gguf_recode.c.
Usage: check_recoded.py RLXC; prints TAP."""

import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/common"), str(ROOT / "tests/llm")]

import in_venv  # noqa: E402

try:
    import numpy
except ImportError:
    in_venv.enter_or_skip("numpy")
import models  # noqa: E402
import tap  # noqa: E402

RLXC = pathlib.Path(sys.argv[1]).resolve()
# Number, bytes of a block of 256, and where the upper byte of its f16 scale is.
TYPES = [
    (16, 66, 1), (17, 74, 1), (22, 82, 1), (18, 98, 1), (21, 110, 1), (19, 50, 1), (29, 56, 55), (34, 54, 53),
]  # fmt: skip


def blocks(shape, kind, rng):
    """Random ones, with scales from 2^-9 to 2^-7."""
    size, top = TYPES[kind][1:]
    data = rng.integers(0, 256, (int(numpy.prod(shape)) // 256, size), "u1")
    data[:, top] = data[:, top] & 0x80 | 0x18 | data[:, top] & 7
    return data.tobytes()


SIZES = {"width": 256, "heads": 8, "head": 32, "ffn": 256, "layers": 1}


def check(experts):
    rng, turn = numpy.random.default_rng(5), 0
    model = models.llama(experts=experts, **SIZES)
    for at, (tensor, shape, _, _) in enumerate(model.tensors):
        if len(shape) > 1 and shape[-1] % 256 == 0 and "gate_inp" not in tensor:
            model.tensors[at] = (tensor, shape, TYPES[turn % 8][0], blocks(shape, turn % 8, rng))
            turn += 1
    assert turn >= 8, turn
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "m.gguf")
        path.write_bytes(model.file())
        for sizes in (["T=1", "P=3"], ["T=19", "P=0"]):
            words = [word for size in sizes for word in ("--dim", size)]
            done = subprocess.run([RLXC, "verify", path, *words], capture_output=True, timeout=250)
            assert done.returncode == 0, (done.stdout + done.stderr).decode()
    return f"{turn} tensors"


sys.exit(tap.run_checks([("dense", check, [0]), ("experts", check, [3])]))
