#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `rlxc check` says of language models that it does not compile: which entry or tensor is wrong. Also
what `inspect` says of one that it does, what --context changes, and that `convert` gives the same model.
Usage: check_refused.py RLXC"""

import json
import os
import pathlib
import re
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
import gguf_file  # noqa: E402
import models  # noqa: E402

RLXC = os.path.abspath(sys.argv[1])


def entry(key, value):
    """Another value, or none."""

    def change(m):
        m.entries.pop(key, None)
        if value is not None:
            m.entries[key] = value

    return change


def without(name):
    return lambda m: m.tensors.remove(next(t for t in m.tensors if t[0] == name))


def plus(name, shape, kind=gguf_file.F32):
    return lambda m: m.tensors.append((name, shape, kind, bytes(50 * 4 * int(numpy.prod(shape)))))


def instead(name, shape, kind=gguf_file.F32):
    def change(m):
        without(name)(m)
        plus(name, shape, kind)(m)

    return change


LLAMA, PHI3, EXPERTS, GPT2 = (models.MODELS[name] for name in ("llama", "phi3", "qwen2moe", "gpt2"))
# What, the model, what is changed, the message.
REFUSED = [
    ("no architecture", LLAMA, entry("general.architecture", None), "'general.architecture' is missing"),
    ("another one", LLAMA, entry("general.architecture", "rwkv6"), "does not know the architecture 'rwkv6'"),
    ("no entry", LLAMA, entry("llama.block_count", None), "entry 'llama.block_count' of llama is missing"),
    ("a text", LLAMA, entry("llama.block_count", "2"), "entry 'llama.block_count' of llama is missing"),
    (
        "a fraction", LLAMA, entry("llama.block_count", 1.5),
        "entry 'llama.block_count' is 1.5; expected a number",
    ),
    ("no layers", LLAMA, entry("llama.block_count", 0), "is 0.0; expected a number from 1.0 to 4096.0"),
    ("too many layers", LLAMA, entry("llama.block_count", 3), "tensor 'blk.2.attn_norm.weight' is missing"),
    (
        "too few layers", LLAMA, entry("llama.block_count", 1),
        "tensor 'blk.1.attn_norm.weight' is not one that",
    ),
    ("heads", LLAMA, entry("llama.attention.head_count_kv", 3), "4 heads are no multiple of the 3 of keys"),
    (
        "odd rope", LLAMA, entry("llama.rope.dimension_count", 7),
        "rope.dimension_count is 7; expected an even",
    ),
    ("ropes", LLAMA, entry("llama.rope.scaling.type", "ntk"), "'llama.rope.scaling.type' is 'ntk', which"),
    ("tables", LLAMA, entry("llama.rope.scaling.type", "longrope"), "scaling.type' is 'longrope'"),
    ("windows", LLAMA, entry("llama.attention.sliding_window", 8), "'llama.attention.sliding_window' is 8"),
    (
        "experts", EXPERTS, entry("qwen2moe.expert_used_count", 6),
        "entry 'qwen2moe.expert_used_count' is 6, but 'qwen2moe.expert_count' is 5",
    ),
    (
        "no tensor", LLAMA, without("blk.1.ffn_up.weight"),
        "tensor 'blk.1.ffn_up.weight' is missing (llama needs",
    ),
    ("no bias", GPT2, without("blk.0.ffn_up.bias"), "tensor 'blk.0.ffn_up.bias' is missing (gpt2 needs it)"),
    (
        "one more", LLAMA, plus("blk.0.attn_gate.weight", (4, 4)),
        "tensor 'blk.0.attn_gate.weight' is not one that",
    ),
    ("a shape", LLAMA, instead("blk.0.attn_k.weight", (32, 32)), "has the shape [32, 32]; expected [32, 64]"),
    (
        "a rank", LLAMA, instead("output.weight", (80,)),
        "tensor 'output.weight' has the shape [80]; expected [80, 64]",
    ),
    ("ints", LLAMA, instead("output_norm.weight", (64,), 26), "has the type I32; expected floats"),
    (
        "Q8_1", EXPERTS, instead("output.weight", (80, 256), gguf_file.Q8_1),
        "has the type Q8_1, which rlxc does not",
    ),
    (
        "no such type", LLAMA, instead("output.weight", (80, 64), 99),
        "has the type number 99, which rlxc does not",
    ),
    (
        "one factor", PHI3, plus("rope_factors_long.weight", (6,)),
        "tensor 'rope_factors_short.weight' is missing",
    ),
]


def run(*arguments):
    return subprocess.run([RLXC, *arguments], capture_output=True, text=True, timeout=200, check=False)


def refused(folder, make, change, message):
    m = make()
    change(m)
    path = pathlib.Path(folder, "m.gguf")
    path.write_bytes(m.file())
    got = run("check", str(path))
    right = got.returncode == 1 and got.stderr.count("error[") == 1 and message in got.stderr
    if not right:
        print("#", got.returncode, got.stderr.strip())
    return right


def contexts(folder):
    """Room of the states by --context; a longer one than the model knows is a warning, for gpt2 an error."""
    path = pathlib.Path(folder, "m.gguf")
    path.write_bytes(LLAMA().file())
    ok = True
    for given in ([], ["--context", "40"], ["--context", "900"]):
        got = run("convert", str(path), *given)
        symbols = json.loads(got.stdout)["symbols"]
        context = int(given[1]) if given else models.CONTEXT
        ok = ok and (symbols["P"]["max"], symbols["T"]["max"]) == (context - 1, min(context, 512))
        ok = ok and ("warning" in got.stderr) == (context > models.CONTEXT)
    ok = ok and "from 1 to 1048575" in run("convert", str(path), "--context", "0").stderr
    path.write_bytes(GPT2().file())
    return ok and "the model has positions for 64" in run("convert", str(path), "--context", "65").stderr


def converted(folder):
    """The model as JSON, read back, is the same JSON, also by way of .rlxb; `check` takes both."""
    names = ("m.gguf", "a/m.json", "c/m.rlxb", "b/m.json")
    path, first, binary, second = (str(pathlib.Path(folder, name)) for name in names)
    pathlib.Path(path).write_bytes(models.MODELS["mixtral_q8_0"]().file())
    for source, to in ((path, first), (path, binary), (binary, second)):
        pathlib.Path(to).parent.mkdir()
        if run("convert", source, to).returncode != 0:
            return False
    same = pathlib.Path(first).read_text() == pathlib.Path(second).read_text()
    return same and run("check", path, second).returncode == 0


def inspected(folder):
    path = pathlib.Path(folder, "m.gguf")
    path.write_bytes(LLAMA().file())
    text = run("inspect", "--no-code", str(path)).stdout
    # 2 layers, keys and values of 2 heads of 16 f32 each
    want = [r"language model: llama, 2 layers of 64, made for 64 tokens; caches 512 bytes a token$"]
    want += [rf" 2048 {512 * (2048 + 511)},", r"^state +k_cache0: f32\[2, 127, 16\]$"]
    return all(re.search(pattern, text, re.M) for pattern in want)


def others(folder):
    """What only language models have is refused for other models, and not passed over."""
    path = pathlib.Path(folder, "m.rlx")
    path.write_text('graph "m" {\n  %1 = input "x" : f32[4]\n  %2 = relu(%1)\n  output "y" = %2\n}\n')
    given = [["--slots", "2"], ["--drafts", "3"], ["--context", "64"], ["--kv", "f16"], ["--windows", "ring"],
             ["--outputs", "all"]]
    for option in given:
        done = run("inspect", "--no-code", str(path), *option)
        if done.returncode != 2 or f"{option[0]}: only language models in GGUF" not in done.stderr:
            print("\n".join(["# " + " ".join(option), done.stdout, done.stderr]))
            return False
    return run("inspect", "--no-code", str(path), "--kv", "f32").returncode == 0


def searched(folder):
    """GPUs search many logits for the best token in parts, those of a prime number of tokens too."""
    path, model = pathlib.Path(folder, "m.gguf"), models.llama()
    for vocabulary, most_bytes in ((2048, 10000), (2053, 15000)):  # 41064 with a part for each token
        content = numpy.zeros(vocabulary * model.size["width"], "f4").tobytes()
        tensors = [(name, (vocabulary, *shape[1:]), kind, content)
                   if name in ("token_embd.weight", "output.weight") else (name, shape, kind, own)
                   for name, shape, kind, own in model.tensors]
        path.write_bytes(gguf_file.make(model.entries, tensors))
        text = run("inspect", str(path), "--target", "metal", "--context", "48", "--json").stdout
        kernels = [(kernel["nodes"], kernel["bytes"]) for kernel in json.loads(text)["kernels"]]
        largest = [(int(number), read) for nodes, read in kernels
                   for number in re.findall(r"%(\d+) = reduce_max", nodes)]
        found = [read for nodes, read in kernels if "argmax" in nodes]
        found += [read for _, read in sorted(largest)[:1]]  # those behind it are of the list of the best
        print(f"# {vocabulary} tokens: {found} bytes", flush=True)
        if len(found) < 2 or max(found) > most_bytes:
            return False
    return True


def main():
    failed = number = 0
    checks = [(name, lambda folder, case=case: refused(folder, *case)) for name, *case in REFUSED]
    checks += [(check.__name__, check) for check in (contexts, converted, inspected, others, searched)]
    print(f"1..{len(checks)}", flush=True)
    for number, (name, check) in enumerate(checks, 1):
        with tempfile.TemporaryDirectory() as folder:
            ok = check(folder)
        failed += not ok
        print("ok" if ok else "not ok", number, "-", name, flush=True)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
