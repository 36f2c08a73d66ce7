#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Caches of layers with windows that keep only rows that later tokens see (--windows ring): the logits are
those of numpy in doubles over more tokens than a ring has rows, also after tokens were taken back; and the
states are as small as that. Usage: check_rings.py RLXC"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "common")]
try:
    import numpy
except ImportError:
    import in_venv

    in_venv.enter_or_skip("numpy")
from built import build, run  # noqa: E402
import models  # noqa: E402
from reference import Reference  # noqa: E402

RLXC = os.path.abspath(sys.argv[1])
ALLOWED = 1e-5
# By context: lengths of runs; negative: as many tokens are taken back. A run begins within the context. Rings
# have as many rows as the window and a run, of 40 or 512 tokens, less one.
CUTS = {
    40: [[39, 40, -40, 30], [1] * 39 + [-39, 38, -20, 21, 40]],
    600: [[512, 80] + [1] * 7 + [-499, 3, 490], [7] * 80 + [1] * 9 + [-512, 512]],
}
CASES = [("gemma3", 40), ("gemma2", 40), ("phi3", 40), ("gemma2", 600), ("gpt_oss", 40)]


def check(name, context):
    model = models.MODELS[name]()
    longest = max(numpy.cumsum(cut).max() for cut in CUTS[context])
    tokens = [(7 * i * i + 3 * i + 1) % models.VOCAB for i in range(longest)]
    expected = Reference(model).logits(tokens)
    worst = 0
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "m.gguf")
        path.write_bytes(model.file())
        build(RLXC, path, folder, models.VOCAB, ["--windows", "ring", "--context", str(context)])
        for cut in CUTS[context]:
            ends = [end - 1 for end, n in zip(numpy.cumsum(cut), cut) if n > 0]
            got, want = run(folder, tokens, cut), expected[ends]
            apart = numpy.linalg.norm(got - want, axis=1) / numpy.linalg.norm(want, axis=1)
            worst = max(worst, apart.max() if numpy.isfinite(apart).all() else numpy.inf)
    print("#", name, context, f"apart {worst:.1e}")
    return worst <= ALLOWED


def states(*options):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "m.gguf")
        path.write_bytes(models.MODELS["gemma3"]().file())
        command = [RLXC, "convert", path, *options]
        text = subprocess.run(command, check=True, capture_output=True, text=True, timeout=200).stdout
    return {name: state["shape"] for name, state in json.loads(text)["states"].items()}


def check_sizes():
    """Layer 5 of gemma3 sees all; a window that is no shorter than the context changes nothing."""
    ring, plain = states("--windows", "ring", "--context", "40"), states("--context", "40")
    ok = all(ring[f"{which}_cache{i}"] == [44, 2, 32] for i in (0, 1, 2, 3, 4, 6) for which in "kv")
    ok = ok and ring["k_cache5"] == plain["k_cache5"] == [2, "T + P", 32]
    return ok and states("--windows", "ring", "--context", "5") == states("--context", "5")


def main():
    checks = [(case[0], lambda case=case: check(*case)) for case in CASES] + [("sizes", check_sizes)]
    failed = 0
    print(f"1..{len(checks)}", flush=True)
    for number, (name, act) in enumerate(checks, 1):
        ok = act()
        failed += not ok
        print("ok" if ok else "not ok", number, "-", name, flush=True)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
