#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Language models of every architecture (models.py), written as GGUF and compiled: their logits are those of
numpy in doubles (reference.py), however the tokens are cut into runs. Usage: check_llm.py RLXC [NAME...]"""

import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "common")]
try:
    import numpy
except ImportError:
    import in_venv

    in_venv.enter_or_skip("numpy")
from built import build, difference, run  # noqa: E402
from models import MODELS, VOCAB  # noqa: E402
from reference import Reference  # noqa: E402

RLXC = os.path.abspath(sys.argv[1])
TOKENS = [(7 * i * i + 3 * i + 1) % VOCAB for i in range(29)]
# Lengths of runs: all at once, one at a time, pieces, and one at a time behind a prompt.
CUTS = [[29], [1] * 29, [5, 7, 1, 16], [20] + [1] * 9]
# Sums of f32, relative to the norm of the logits, and keys and values of f16.
ALLOWED, ALLOWED_F16 = 1e-5, 2e-3
# Rows that are rounded for products of bytes: a model enlarges what --accuracy allows for a product.
ALLOWED_BYTES = {"1e-4": 2e-3, "1e-2": 0.15}


def check(name, options):
    model = MODELS[name]()
    expected = Reference(model).logits(TOKENS)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "m.gguf")
        path.write_bytes(model.file())
        build(RLXC, path, folder, VOCAB, options)
        worst = [difference(folder, TOKENS, cut, expected) for cut in CUTS]
    print("#", name, *options, "apart", *(f"{x:.1e}" for x in worst))
    if "f16" in options:  # rounded, and not by accident the same
        return ALLOWED < max(worst) <= ALLOWED_F16
    return max(worst) <= ALLOWED_BYTES.get(options[-1] if options else "", ALLOWED)


def far(got, expected):
    """The largest difference of rows, relative to their norms."""
    if got.shape != expected.shape or not numpy.isfinite(got).all():
        return numpy.inf
    return (numpy.linalg.norm(got - expected, axis=1) / numpy.linalg.norm(expected, axis=1)).max()


def check_outputs(name, outputs):
    """Logits of all tokens, and embeddings: of the last token, and means over the tokens of runs."""
    model = MODELS[name]()
    reference = Reference(model)
    logits, states = reference.logits(TOKENS), reference.states(TOKENS)
    worst = []
    for slot, output in enumerate(outputs.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            columns = VOCAB if output in ("last", "all") else states.shape[1]
            path = pathlib.Path(folder, "m.gguf")
            path.write_bytes(model.file())
            build(RLXC, path, folder, columns, ["--outputs", outputs], output=slot)
            for cut in CUTS:
                after = numpy.cumsum(cut)
                means = [states[end - n : end].mean(0) for n, end in zip(cut, after)]
                expected = {"last": logits[after - 1], "all": logits, "embedding": states[after - 1]}
                worst.append(far(run(folder, TOKENS, cut), expected.get(output, numpy.array(means))))
    print("#", name, outputs, "apart", *(f"{x:.1e}" for x in worst))
    return max(worst) <= ALLOWED


def main():
    failed = 0
    cases = [(name, []) for name in MODELS]
    cases += [("llama", ["--dynamic"]), ("gemma3", ["--kv", "f16"])]
    cases += [("llama_q8_0", ["--bucket", "T=1,4,32", "--bucket", "P=15,63", "--dim", "P=0..63"])]
    # enough keys for blocks of the heads that share them
    cases += [("llama", ["--context", "100"]), ("qwen2", ["--context", "100", "--kv", "f16"])]
    cases += [(f"llama_{kind}", ["--accuracy", "1e-4"]) for kind in ("q4_0", "q8_0", "q6_k")]
    cases += [("llama_q8_0", ["--accuracy", "1e-2"])]
    cases += [(name, outputs) for name, outputs in (
        ("llama", "all"), ("gemma2", "all,mean"), ("qwen2", "last,embedding"), ("llama", "embedding"),
        ("gpt2", "mean"), ("mixtral", "last,mean"))]
    cases = [case for case in cases if len(sys.argv) == 2 or case[0] in sys.argv[2:]]
    print(f"1..{len(cases)}", flush=True)
    for number, (name, options) in enumerate(cases, 1):
        is_outputs = isinstance(options, str)
        ok = check_outputs(name, options) if is_outputs else check(name, options)
        failed += not ok
        said = ["--outputs", options] if is_outputs else options
        print("ok" if ok else "not ok", number, "-", name, *said, flush=True)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
