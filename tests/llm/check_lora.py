#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adapters (--lora): the logits are those of numpy with merged weights, of GGUF files and folders that PEFT
writes, over models of both kinds and in blocks; programs change the scales; sessions; and what is wrong with
an adapter is said. Usage: check_lora.py RLXC [NAME...]"""

import json
import math
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
import small_vocab  # noqa: E402
import tap  # noqa: E402
from built import build, run  # noqa: E402
from emitted import SANITIZE, flags_of  # noqa: E402
from folder_file import Folder  # noqa: E402
from lora_file import Adapter, merged  # noqa: E402
from reference import Reference  # noqa: E402

RLXC = os.path.abspath(sys.argv[1])
TOKENS = [(7 * i * i + 3 * i + 1) % models.VOCAB for i in range(29)]
CUT = [20, 8, 1]
ALLOWED = 1e-5  # sums of f32, relative to the norm of the logits
PRODUCTS = r"(attn_[qkv]|attn_qkv|attn_output|ffn_(gate|up|down)|ssm_in|ssm_out)\."


def far(got, expected):
    apart = numpy.linalg.norm(got - expected, axis=1) / numpy.linalg.norm(expected, axis=1)
    return apart.max() if got.shape == expected.shape and numpy.isfinite(got).all() else numpy.inf


def logits(model, halves):
    after = numpy.cumsum(CUT) - 1
    return Reference(model, **({"has_pairs": False} if halves else {})).logits(TOKENS)[after]


def turn_of(model, base, form):
    """How the rows of B are turned: GGUF has heads of pairs for these architectures, folders never."""
    if model.arch not in ("llama", "granite") or base == form:
        return None
    return form == "gguf"


def write_adapter(adapter, folder, name, base, form, **more):
    path = pathlib.Path(folder, name if form == "peft" else f"{name}.gguf")
    turn = turn_of(adapter.model, "peft" if base == "folder" else "gguf", form)
    if form == "peft":
        adapter.write(path, turn=turn, **more)
    else:
        path.write_bytes(adapter.file(turn=turn, **more))
    return path


def write_model(model, folder, base):
    path = pathlib.Path(folder, "model" if base == "folder" else "m.gguf")
    if base == "folder":
        Folder(model).write(path)
    else:
        path.write_bytes(model.file())
    return path


# Model, its form, the forms of two adapters, the weights that they change.
CASES = [
    ("llama", "gguf", ("gguf", "peft"), (PRODUCTS, r"attn_[qk]\.|^output\.")),
    ("llama", "folder", ("gguf", "peft"), (PRODUCTS, r"attn_[qk]\.|^output\.")),
    ("llama_q8_0", "gguf", ("gguf", "peft"), (PRODUCTS, r"attn_[qk]\.|ffn_down")),
    ("llama_bf16", "gguf", ("gguf", "gguf"), (PRODUCTS, r"attn_v\.")),
    ("mixtral", "gguf", ("gguf", "peft"), (r"ffn_.*_exps|attn_v", r"attn_q\.|ffn_gate_inp\.")),
    ("qwen2", "folder", ("gguf", "peft"), (PRODUCTS, PRODUCTS)),
    ("gpt2", "folder", ("peft", "gguf"), (PRODUCTS, PRODUCTS)),
    ("gemma3", "gguf", ("peft", "gguf"), (PRODUCTS, r"ffn_up\.")),
    ("mamba2", "folder", ("peft", "gguf"), (PRODUCTS, r"ssm_out\.")),
]  # fmt: skip


def check_merged(name, base, forms, patterns):
    """Two adapters at once, with scales of the command and of the program."""
    model, halves = models.MODELS[name](), base == "folder"
    one = Adapter(model, patterns[0], rank=4, alpha=6.0, seed=1)
    two = Adapter(model, patterns[1], rank=1, alpha=2.0, seed=2)
    with tempfile.TemporaryDirectory() as folder:
        path = write_model(model, folder, base)
        first = write_adapter(one, folder, "one", base, forms[0])
        second = write_adapter(two, folder, "two-b", base, forms[1])
        build(RLXC, path, folder, models.VOCAB, ["--lora", str(first), "--lora", f"{second}=-0.25"])
        said, got = [], []
        for a, b in ((None, None), (0, 0), (0.5, None), (0, 1)):
            scales = ([] if a is None else [f"lora_one={a}"]) + ([] if b is None else [f"lora_two_b={b}"])
            got.append(run(folder, TOKENS, [*scales, *CUT]))
            a, b = 1 if a is None else a, -0.25 if b is None else b
            apart = far(got[-1], logits(merged(model, (one, a * 6.0 / 4), (two, b * 2.0)), halves))
            said.append(f"{apart:.1e}")
            assert apart <= ALLOWED, (scales, apart)
    unchanged = far(got[0], logits(model, halves))
    assert unchanged > 0.05, unchanged  # the adapters count
    return "apart " + " ".join(said)


def check_switched():
    """One program: the scale is changed between runs, and the root of the rank divides it."""
    model = models.MODELS["llama"]()
    one = Adapter(model, PRODUCTS, rank=4, alpha=8.0, seed=3)
    with tempfile.TemporaryDirectory() as folder:
        path = write_model(model, folder, "gguf")
        lora = write_adapter(one, folder, "one", "gguf", "peft", config={"use_rslora": True})
        build(RLXC, path, folder, models.VOCAB, [])
        plain = run(folder, TOKENS, CUT)
        build(RLXC, path, folder, models.VOCAB, ["--lora", f"{lora}"])
        rows = run(folder, TOKENS, [*CUT, -29, "lora_one=0", *CUT, -29, "lora_one=1", *CUT])
    adapted, off, again = numpy.split(rows, 3)
    assert far(adapted, logits(merged(model, (one, 8.0 / math.sqrt(4))), False)) <= ALLOWED
    assert far(off, plain) <= 1e-6, far(off, plain)
    assert (adapted == again).all()
    return f"switched off, {far(off, plain):.1e} from the model without it"


def check_types():
    """Adapters of 16 bits and in blocks, over weights in blocks."""
    model, said = models.MODELS["llama_q8_0"](), []
    for kind, rank, allowed in ((gguf_file.F16, 4, 2e-3), (gguf_file.Q8_0, 32, 3e-2)):
        one = Adapter(model, PRODUCTS, rank=rank, alpha=float(rank), seed=4)
        with tempfile.TemporaryDirectory() as folder:
            path = write_model(model, folder, "gguf")
            lora = pathlib.Path(folder, "one.gguf")
            lora.write_bytes(one.file(kind=kind))
            build(RLXC, path, folder, models.VOCAB, ["--lora", str(lora)])
            apart = far(run(folder, TOKENS, CUT), logits(merged(model, (one, 1.0)), False))
        said.append(f"{apart:.1e}")
        assert ALLOWED < apart <= allowed, (kind, apart)  # rounded, and not by accident the same
    return " ".join(said)


def check_program(name, program, *options, cpu="native"):
    """A program with sessions of a model and an adapter."""
    model = models.MODELS[name]()
    model.entries |= small_vocab.entries()
    one = Adapter(model, PRODUCTS, seed=5)
    with tempfile.TemporaryDirectory() as folder:
        path = write_model(model, folder, "gguf")
        lora = write_adapter(one, folder, "one", "gguf", "gguf")
        command = [RLXC, "compile", path, "-o", folder, "--cpu", cpu, "--lora", lora, *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=300)
        flags = [*flags_of(pathlib.Path(folder, "m.c"), "-O1"), *SANITIZE, "-D_POSIX_C_SOURCE=200112L"]
        command = ["cc", *flags, "-I.", "m.c", str(HERE / program), "-o", "p", "-lm"]
        subprocess.run(command, check=True, cwd=folder, timeout=500)
        done = subprocess.run(["./p"], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return "sessions"


def check_session():
    """Sessions with scales of their own, one that goes on elsewhere, one that begins anew."""
    return check_program("llama", "lora_test.c")


def check_slots():
    """Slots with scales of their own: of plain products, and of experts."""
    for name in ("llama", "mixtral"):
        check_program(name, "lora_slots_test.c", "--slots", "3", "--context", "256", cpu="generic")
    return "slots"


# --- what is refused, and what is said of adapters ---


def entry(key, value):
    return {"entries": {key: value}}


def shape(at, to):
    def change(tensors):
        name, _, kind, _ = tensors[at]
        tensors[at] = (name, to, kind, bytes(4 * max(1, int(numpy.prod(to)))))

    return {"change": change}


def plus(name):
    return {"change": lambda tensors: tensors.append((name, (4, 64), 0, bytes(1024)))}


def renamed(at, to):
    def change(tensors):
        tensors[at] = (to, *tensors[at][1:])

    return {"change": change}


def without(at):
    return {"change": lambda tensors: tensors.pop(at)}


def typed(at, kind):
    def change(tensors):
        tensors[at] = (*tensors[at][:2], kind, tensors[at][3])

    return {"change": change}


def member(key, value):
    return {"config": {key: value}}


def tensor(name, to):
    def change(tensors):
        values = tensors.pop(f"base_model.model.model.layers.0.self_attn.{name}")
        if to is not None:
            tensors[to if isinstance(to, str) else f"base_model.model.model.layers.0.self_attn.{name}"] = (
                values if isinstance(to, str) else numpy.zeros(to))

    return {"change": change}


# The adapter changes attn_q of layer 0: A [4, 64], B [64, 4].
REFUSED_GGUF = [
    ("no adapter", entry("general.type", "model"), "'general.type' is 'model'; expected a file of"),
    ("no type", entry("general.type", None), "the entry 'general.type' is missing"),
    ("a control vector", entry("adapter.type", "control"), "'adapter.type' is 'control'; expected 'lora'"),
    ("no alpha", entry("adapter.lora.alpha", None), "the entry 'adapter.lora.alpha' is missing"),
    ("alpha 0", entry("adapter.lora.alpha", 0.0), "entry 'adapter.lora.alpha': expected a number above 0"),
    ("alpha NaN", entry("adapter.lora.alpha", math.nan), "'adapter.lora.alpha': expected a number above 0"),
    ("no architecture", entry("general.architecture", None), "the entry 'general.architecture' is missing"),
    ("another one", entry("general.architecture", "qwen2"), "of the architecture 'qwen2'; the model"),
    ("switched by tokens", entry("adapter.alora.invocation_tokens", [1, 2]), "alora.invocation_tokens"),
    ("unknown", renamed(0, "blk.0.attn_z.weight.lora_a"), "'blk.0.attn_q.weight.lora_b' has no other one"),
    ("an embedding", renamed(0, "token_embd.weight.lora_a"), "'blk.0.attn_q.weight.lora_b' has no other one"),
    ("A alone", without(1), "'blk.0.attn_q.weight.lora_a' has no other one"),
    ("a norm", plus("output_norm.weight.lora_a"), "'output_norm.weight.lora_a' is not one of A and B of a"),
    ("A of another size", shape(0, (4, 32)), "lora_a' has the shape [4, 32]; expected [4, 64]"),
    ("B of another size", shape(1, (32, 4)), "lora_b' has the shape [32, 4]; expected [64, 4]"),
    ("two ranks", shape(1, (64, 3)), "lora_b' has the shape [64, 3]; expected [64, 4]"),
    ("turned", shape(0, (64, 4)), "lora_a' has the shape [64, 4]; expected [64, 64]"),
    ("an axis more", shape(0, (1, 4, 64)), "lora_a' has the shape [1, 4, 64]; expected [1, 64]"),
    ("rank 0", shape(0, (0, 64)), "blk.0.attn_q.weight.lora_a"),
    ("ints", typed(0, 26), "'blk.0.attn_q.weight.lora_a' has the type I32; expected floats"),
    ("a type of no product", typed(0, 99), "blk.0.attn_q.weight.lora_a"),
    ("no tensors", {"change": lambda t: t.clear()}, "this adapter has no tensors"),
]  # fmt: skip
A, B = "q_proj.lora_A.weight", "q_proj.lora_B.weight"
REFUSED_PEFT = [
    ("other adapters", member("peft_type", "IA3"), "expected \"LORA\": rlxc reads no other adapters"),
    ("no kind", member("peft_type", None), "the member 'peft_type' is missing"),
    ("no alpha", member("lora_alpha", None), "the member 'lora_alpha' is missing"),
    ("a text as alpha", member("lora_alpha", "8"), "expected a number above 0"),
    ("no rank", member("r", None), "the member 'r' is missing"),
    ("rank 0", member("r", 0), "expected a number above 0"),
    ("half a rank", member("r", 1.5), "expected a whole number from 1 to 65536"),
    ("another rank", member("r", 8), f"self_attn.{A}' has the shape [4, 64]; expected [8, 64]"),
    ("DoRA", member("use_dora", True), "expected false: rlxc does not support it"),
    ("alphas", member("alpha_pattern", {"q_proj": 3}), "expected an empty object"),
    ("PiSSA", member("init_lora_weights", "pissa"), "expected a way that leaves the weights of the model"),
    ("more layers", member("layer_replication", [[0, 2]]), "expected no such member"),
    ("unknown", tensor(B, "base_model.model.lm_head.weight"), f"self_attn.{A}' has no other one beside it"),
    ("B alone", tensor(A, None), f"self_attn.{B}' has no other one beside it"),
    (
        "a weight", {"change": lambda t: t.update({"base_model.model.lm_head.weight": numpy.zeros((8, 64))})},
        "tensor 'base_model.model.lm_head.weight' is not one of A and B",
    ),
    ("a size of 0", tensor(A, (0, 64)), f"self_attn.{A}' has a size of 0"),
    ("another size", tensor(B, (32, 4)), f"self_attn.{B}' has the shape [32, 4]; expected [64, 4]"),
]  # fmt: skip


def said_of(folder, *options, command="convert", model="m.gguf"):
    arguments = [RLXC, command, str(pathlib.Path(folder, model)), *options]
    return subprocess.run(arguments, capture_output=True, text=True, timeout=200, check=False)


def need_refused(got, message, codes=(1, 2)):
    right = got.returncode in codes and got.stderr.count("error[") == 1 and message in got.stderr
    assert right, f"{got.returncode} {got.stderr.strip()}"


def check_refused(form, change, message):
    model = models.llama()
    one = Adapter(model, r"blk\.0\.attn_q\.")
    with tempfile.TemporaryDirectory() as folder:
        write_model(model, folder, "gguf")
        lora = write_adapter(one, folder, "one", "gguf", form, **change)
        got = said_of(folder, "--lora", str(lora))
        need_refused(got, message)
        assert f"{lora}" in got.stderr, got.stderr  # the file is named
    return "refused"


def check_files():
    """Files that are damaged, missing, or of another kind, and options that do not go together."""
    model = models.llama()
    one = Adapter(model, r"blk\.0\.attn_q\.")
    with tempfile.TemporaryDirectory() as folder:
        write_model(model, folder, "gguf")
        lora, peft = (write_adapter(one, folder, "one", "gguf", form) for form in ("gguf", "peft"))
        whole = lora.read_bytes()
        cut = pathlib.Path(folder, "cut.gguf")
        for n in range(0, len(whole), 97):  # none of the beginnings is one
            cut.write_bytes(whole[:n])
            need_refused(said_of(folder, "--lora", str(cut)), "cut.gguf")
        need_refused(said_of(folder, "--lora", str(pathlib.Path(folder, "none.gguf"))), "none.gguf")
        need_refused(said_of(folder, "--lora", folder), "adapter_config.json")
        need_refused(said_of(folder, "--lora", f"{lora}=x"), "expected a number behind '='")
        need_refused(said_of(folder, "--lora", f"{lora}=1e99"), "expected a number behind '='")
        need_refused(said_of(folder, "--lora", "=1"), "expected a file")
        twice = said_of(folder, "--lora", str(lora), "--lora", f"{peft}=2")
        need_refused(twice, "the parameter 'lora_one' already")
        weights = peft / "adapter_model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-8])
        need_refused(said_of(folder, "--lora", str(peft)), "adapter_model.safetensors")
        weights.unlink()
        need_refused(said_of(folder, "--lora", str(peft)), "has no weights: expected adapter_model")
        (peft / "adapter_config.json").write_text("{")
        need_refused(said_of(folder, "--lora", str(peft)), "adapter_config.json")
        other = {"rlxc": 1, "inputs": {"x": {"dtype": "f32", "shape": [1]}}, "outputs": ["x"]}
        pathlib.Path(folder, "m.json").write_text(json.dumps(other))
        need_refused(said_of(folder, "--lora", str(lora), model="m.json"), "only language models")
    return "refused"


def check_mutants():
    """Adapters with bytes that are changed at random are read or refused."""
    model, rng, refused = models.llama(), numpy.random.default_rng(6), 0
    one = Adapter(model, r"blk\.0\.attn_[qk]\.", rank=2)
    with tempfile.TemporaryDirectory() as folder:
        write_model(model, folder, "gguf")
        lora, peft = (write_adapter(one, folder, form, "gguf", form) for form in ("gguf", "peft"))
        files = [lora, peft / "adapter_model.safetensors", peft / "adapter_config.json"]
        for i in range(90):
            path = files[i % 3]
            whole = path.read_bytes()
            changed = bytearray(whole)
            for at in rng.integers(0, min(len(whole), 700), 1 + i % 4):
                changed[at] = rng.integers(0, 256)
            path.write_bytes(changed)
            got = said_of(folder, "--lora", str(lora if i % 3 == 0 else peft))
            path.write_bytes(whole)
            assert got.returncode in (0, 1), (i, got.returncode, got.stderr)
            assert (got.returncode == 1) == ("error[" in got.stderr), (i, got.stderr)
            refused += got.returncode
    assert refused > 30, refused
    return f"{refused} of 90 refused"


def check_inspect():
    """What an adapter takes is printed, in text and as JSON."""
    model = models.llama()
    one = Adapter(model, PRODUCTS, rank=16)
    numbers = sum(a.size + b.size for a, b in one.pairs.values())
    with tempfile.TemporaryDirectory() as folder:
        write_model(model, folder, "gguf")
        lora = write_adapter(one, folder, "one", "gguf", "gguf")
        text = said_of(folder, "--no-code", "--lora", f"{lora}=0.5", command="inspect").stdout
        both = [json.loads(said_of(folder, "--json", "--no-code", *more, command="inspect").stdout)
                for more in ([], ["--lora", f"{lora}=0.5"])]  # fmt: skip
    line = f"adapter lora_one: 14 products, {4 * numbers} bytes of factors, scale 0.5"
    assert line in text, text
    more = both[1]["weight_bytes"] - both[0]["weight_bytes"]
    said = {"parameter": "lora_one", "products": 14, "factor_bytes": 4 * numbers, "scale": 0.5}
    assert both[1]["adapters"] == [said]
    assert 4 * numbers <= more <= 8 * numbers, more  # in panels for one token and for many
    return f"{4 * numbers} bytes of factors, {more} in panels"


def main():
    checks = [(f"{name} {base}", check_merged, (name, base, *more)) for name, base, *more in CASES]
    others = (check_switched, check_types, check_session, check_slots, check_files, check_mutants,
              check_inspect)
    checks += [(f.__name__, f, ()) for f in others]
    checks += [(f"gguf, {name}", check_refused, ("gguf", *more)) for name, *more in REFUSED_GGUF]
    checks += [(f"peft, {name}", check_refused, ("peft", *more)) for name, *more in REFUSED_PEFT]
    if len(sys.argv) > 2:
        checks = [check for check in checks if any(re.search(p, check[0]) for p in sys.argv[2:])]
    return tap.run_checks(checks)


if __name__ == "__main__":
    sys.exit(main())
