#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Folders of Hugging Face with models of models.py: the logits are those of numpy in doubles, also of weights
in several files and of 16 bits; and what is wrong with a folder is said, with the member or tensor.
Usage: check_folder.py RLXC [NAME...]"""

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
from built import build, difference  # noqa: E402
from emitted import QUICK, flags_of  # noqa: E402
from folder_file import Folder  # noqa: E402
import models  # noqa: E402
from reference import Reference  # noqa: E402

RLXC = os.path.abspath(sys.argv[1])
TOKENS = [(7 * i * i + 3 * i + 1) % models.VOCAB for i in range(29)]
CUTS = [[29], [5, 7, 1, 16]]
ALLOWED = {"F32": 1e-5, "F16": 5e-3, "BF16": 4e-2}  # weights are rounded, and not by accident the same
# Model, type of the weights, files.
CASES = [
    ("llama", "F32", 1), ("llama", "F16", 3), ("llama", "BF16", 2), ("mixtral", "F32", 2),
    ("qwen2", "F32", 1), ("qwen3", "F32", 1), ("qwen2moe", "F32", 1), ("qwen3moe", "F32", 1),
    ("gemma", "F32", 1),
    ("gemma2", "F32", 1), ("gemma3", "F32", 1), ("phi3_full", "F32", 1), ("granite", "F32", 1),
    ("mamba", "F32", 2), ("mamba2", "F32", 1),
    ("olmo2", "F32", 1), ("gpt2", "F32", 1), ("gpt_oss", "F32", 1), ("gpt_oss_mxfp4", "F32", 2),
]  # fmt: skip


def model_of(name):
    if name != "phi3_full":
        return models.MODELS[name]()
    m = models.MODELS["phi3"]()
    m.entries.pop("phi3.rope.dimension_count")
    return m


def check(name, dtype, parts):
    model = model_of(name)
    expected = Reference(model, has_pairs=False).logits(TOKENS)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "Model-1.5")
        Folder(model, dtype).write(path, parts)
        build(RLXC, path, folder, models.VOCAB, [])
        worst = max(difference(folder, TOKENS, cut, expected) for cut in CUTS)
    print("#", name, dtype, f"apart {worst:.1e}")
    return worst <= ALLOWED[dtype] and (dtype == "F32" or worst > ALLOWED["F32"])


# --- what is refused ---


def member(key, value):
    def change(folder, f):
        f.config[key] = value

    return change


def without(key):
    return lambda folder, f: f.config.pop(key)


def tensor(name, shape=None):
    def change(folder, f):
        f.tensors.pop(name, None)
        if shape is not None:
            f.tensors[name] = numpy.ones(shape)

    return change


LLAMA, MIXTRAL = "llama", "mixtral"
REFUSED = [
    ("type", LLAMA, member("model_type", "bloom"), "does not know models of the type 'bloom'"),
    ("no type", LLAMA, without("model_type"), "the member 'model_type' is missing"),
    ("number type", LLAMA, member("model_type", 3), "/model_type"),
    ("no layers", LLAMA, without("num_hidden_layers"), "entry '/num_hidden_layers' of llama is missing"),
    ("a text", LLAMA, member("num_hidden_layers", "2"), "expected a number, found the string \"2\""),
    ("a fraction", LLAMA, member("num_hidden_layers", 1.5), "entry '/num_hidden_layers' is 1.5"),
    ("huge", LLAMA, member("hidden_size", 1e30), "entry '/hidden_size' is 1e30"),
    ("pointer", LLAMA, member("rope_scaling", {"type": "linear", "factor": "x"}), "/rope_scaling/factor"),
    ("dynamic", LLAMA, member("rope_scaling", {"type": "dynamic"}), "'/rope_scaling/type' is 'dynamic'"),
    ("activation", LLAMA, member("hidden_act", "relu"), "expected \"silu\""),
    ("quantised", LLAMA, member("quantization_config", {"quant_method": "gptq"}),
     "weights of 'llama' that are quantised by gptq"),
    ("types", LLAMA, member("layer_types", ["full_attention"]), "expected 2 types, one for each layer"),
    ("a type", LLAMA, member("layer_types", ["full_attention", "linear"]), "/layer_types/1"),
    ("no tensor", LLAMA, tensor("model.layers.1.mlp.up_proj.weight"),
     "tensor 'model.layers.1.mlp.up_proj.weight' is missing"),
    ("one more", LLAMA, tensor("model.layers.1.mlp.extra.weight", (3, 3)),
     "tensor 'model.layers.1.mlp.extra.weight' is not one"),
    ("a shape", LLAMA, tensor("model.layers.0.self_attn.k_proj.weight", (3, 64)),
     "has the shape [3, 64]; expected [32, 64]"),
    ("nothing", LLAMA, tensor("model.layers.0.mlp.up_proj.weight", (0, 64)), "has a size of 0"),
    ("rank", LLAMA, tensor("model.norm.weight", (1, 1, 1, 1, 64)), "has 5 sizes; expected at most 4"),
    ("no head", LLAMA, tensor("lm_head.weight"), "tensor 'lm_head.weight' is missing"),
    ("no expert", MIXTRAL, tensor("model.layers.1.block_sparse_moe.experts.2.w3.weight"),
     "tensor 'model.layers.1.block_sparse_moe.experts.2.w3.weight' is missing"),
    ("an expert", MIXTRAL, tensor("model.layers.0.block_sparse_moe.experts.3.w1.weight", (3, 3)),
     "experts.3.w1.weight' has another type or shape"),
    ("experts more", MIXTRAL, tensor("model.layers.0.block_sparse_moe.experts.4.w1.weight", (3, 3)),
     "experts.4.w1.weight' is not one"),
    ("blocks", "gpt_oss_mxfp4", tensor("model.layers.0.mlp.experts.down_proj_scales", (4, 64, 2)),
     "experts.down_proj' has blocks and scales that do not fit"),
    ("no blocks", "gpt_oss_mxfp4", tensor("model.layers.0.mlp.experts.down_proj_blocks"),
     "tensor 'model.layers.0.mlp.experts.down_proj' is missing"),
    ("experts", MIXTRAL, member("num_local_experts", 1 << 40), "entry '/num_local_experts' is"),
]  # fmt: skip


def run(*arguments):
    command = [RLXC, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


def is_refused(path, message):
    got = run("check", path)
    right = got.returncode == 1 and got.stderr.count("error[") == 1 and message in got.stderr
    if not right:
        print("#", got.returncode, got.stderr.strip())
    return right


def refused(folder, name, change, message):
    path, made = pathlib.Path(folder, "m"), Folder(models.MODELS[name]())
    change(path, made)
    made.write(path)
    return is_refused(path, message)


def files(folder):
    """Files that are missing, cut off or no JSON; an index that names others."""
    path, ok = pathlib.Path(folder, "m"), True
    path.mkdir()
    ok = is_refused(path, "is a folder without config.json") and ok
    path.rmdir()
    Folder(models.MODELS["llama"]()).write(path, 2)
    index = path / "model.safetensors.index.json"
    good = json.loads(index.read_text())
    name = "model.norm.weight"
    for file, message in [
        ("model-00002-of-00002.safetensors" if "1-of" in good["weight_map"][name] else
         "model-00001-of-00002.safetensors", "has no tensor 'model.norm.weight'"),
        ("../x.safetensors", "expected a .safetensors file in the folder"),
        ("model-00009-of-00002.safetensors", "model-00009-of-00002.safetensors"),
        (7, "/weight_map/model.norm.w"),
    ]:  # fmt: skip
        index.write_text(json.dumps({"weight_map": good["weight_map"] | {name: file}}))
        ok = is_refused(path, message) and ok
    index.write_text("{}")
    ok = is_refused(path, "the member 'weight_map'") and ok
    index.write_text("[")
    ok = is_refused(path, "E0101") and ok
    index.unlink()
    ok = is_refused(path, "has no weights: expected model.safetensors") and ok
    (path / "pytorch_model.bin").write_bytes(b"")
    ok = "safe_serialization" in run("check", path).stderr and ok
    (path / "config.json").write_text('{"model_type": ')
    return is_refused(path, "E0101") and ok


def commands(folder):
    """check, inspect, convert and verify take folders; the name is that of the folder, dots and all."""
    path = pathlib.Path(folder, "Tiny-1.5")
    Folder(models.MODELS["llama"]()).write(path)
    said = run("inspect", "--no-code", path).stdout
    ok = "language model: llama, 2 layers of 64, made for 64 tokens" in said
    ok = run("convert", f"{path}/", f"{folder}/m.json").returncode == 0 and ok
    ok = run("check", path, f"{folder}/m.json").returncode == 0 and ok
    ok = run("verify", path).returncode == 0 and ok
    ok = run("compile", path, "-o", f"{folder}/out").returncode == 0 and ok
    return ok and pathlib.Path(folder, "out/Tiny_1_5.c").exists()


def pictures(folder):
    """The language model of one that also reads pictures: members and names are one step further down."""
    path, made = pathlib.Path(folder, "m"), Folder(models.MODELS["gemma3"]())
    text, ok = made.config, True
    made.tensors = {f"language_model.{name}": values for name, values in made.tensors.items()}
    made.tensors["vision_tower.x.weight"] = numpy.ones((2, 2))
    made.config = {"model_type": "gemma3", "text_config": text, "vision_config": {}}
    made.write(path)
    ok = run("check", path).returncode == 0 and ok
    text["num_hidden_layers"] = "many"
    (path / "config.json").write_text(json.dumps(made.config))
    return is_refused(path, "/text_config/num_hidden_layers") and ok


LETTERS = [chr(ord("A") + i) for i in range(26)] + [chr(ord("a") + i) for i in range(26)]
WORDS = {letter: i for i, letter in enumerate(LETTERS)}
VOCABULARY = {
    "model": {"type": "BPE", "vocab": WORDS, "merges": []},
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
    "decoder": {"type": "ByteLevel"},
}


def with_letters(folder):
    """A model with a vocabulary of single letters, and the six tokens behind "Hello"."""
    path, made = pathlib.Path(folder, "m"), Folder(models.MODELS["llama"]())
    made.write(path)
    (path / "tokenizer.json").write_text(json.dumps(VOCABULARY))
    tokens = [WORDS[c] for c in "Hello"]
    reference = Reference(made.model, has_pairs=False)
    for _ in range(6):
        tokens.append(int(reference.logits(tokens)[-1][: len(WORDS)].argmax()))
    return path, tokens[5:]


def prompt(folder):
    """`run --prompt`; texts end where generation_config.json says."""
    path, tokens = with_letters(folder)
    command = ["run", path, "--prompt", "Hello", "-n", "6", "--temperature", "0"]
    ok = run(*command).stdout == "".join(LETTERS[t] for t in tokens) + "\n"
    (path / "generation_config.json").write_text(json.dumps({"eos_token_id": [0, tokens[2]]}))
    said = [t for t in tokens[:3] if t not in (0, tokens[2])]
    ok = run(*command).stdout == "".join(LETTERS[t] for t in said) + "\n" and ok
    wide = {"model": VOCABULARY["model"] | {"vocab": WORDS | {"\u0100" * (i + 1): 52 + i for i in range(40)}}}
    (path / "tokenizer.json").write_text(json.dumps(VOCABULARY | wide))
    ok = "the vocabulary has 92 tokens, but the model has 80 logits" in run(*command).stderr and ok
    (path / "tokenizer.json").unlink()
    return "tokenizer.json" in run(*command).stderr and ok


def chat(folder):
    """`chat`, with the template of tokenizer_config.json or chat_template.jinja."""
    path, tokens = with_letters(folder)
    command = [RLXC, "chat", path, "-n", "6", "--temperature", "0"]
    ask = lambda: subprocess.run(command, input="Hello\nHi\n", capture_output=True, text=True, timeout=300)
    refused_first = ask()
    template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    (path / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    said = ask()
    (path / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ wrong"}))
    (path / "chat_template.jinja").write_text(template)
    again = ask()
    lines = said.stdout.split("\n")
    return (
        refused_first.returncode == 1 and "no chat template" in refused_first.stderr
        and said.returncode == 0 and lines[0] == "".join(LETTERS[t] for t in tokens) and len(lines) == 3
        and again.stdout == said.stdout
    )  # fmt: skip


SESSION = """#include "m.h"
#include <stdio.h>
static RLX_ALIGNED unsigned char memory[M_SESSION_BYTES];
static rlx_session s;
int main(void)
{
    if (m_open(&s, memory, sizeof memory, NULL, 0) < 0 || m_feed_text(&s, "Hello", 5, 0) != 5)
        return 1;
    for (int i = 0; i < 6 && m_next(&s, NULL) >= 0; i++)
        fwrite(s.text, 1, s.n_text, stdout);
    return 0;
}
"""


def session(folder):
    """Sessions, which know their model by its weights, its vocabulary and config.json."""
    path, tokens = with_letters(folder)
    out, prints = pathlib.Path(folder), []
    config = json.loads((path / "config.json").read_text())
    for config["rms_norm_eps"] in (config["rms_norm_eps"], 2e-5):
        (path / "config.json").write_text(json.dumps(config))
        for end in ("", " "):
            (path / "tokenizer.json").write_text(json.dumps(VOCABULARY) + end)
            if run("compile", path, "-o", out, "--name", "m", "--session", "yes").returncode != 0:
                return False
            prints += re.findall(r"rlx_bpe, (0x[0-9a-f]{16})u", (out / "m.c").read_text())
            if len(prints) == 1:
                (out / "p.c").write_text(SESSION)
                command = ["cc", *flags_of(out / "m.c", QUICK), "-I.", "m.c", "p.c", "-o", "p", "-lm"]
                subprocess.run(command, check=True, cwd=out, timeout=500)
                said = subprocess.run([out / "p"], capture_output=True, check=True, timeout=60).stdout
                if said.decode() != "".join(LETTERS[t] for t in tokens):
                    return False
    (path / "tokenizer.json").unlink()
    none = run("compile", path, "-o", out, "--session", "yes")
    return len(set(prints)) == 4 and none.returncode == 2 and "no vocabulary" in none.stderr


def main():
    checks = [(" ".join(map(str, case)), lambda folder, case=case: check(*case)) for case in CASES]
    checks += [(name, lambda folder, case=case: refused(folder, *case)) for name, *case in REFUSED]
    checks += [(c.__name__, c) for c in (files, commands, pictures, prompt, chat, session)]
    checks = [c for c in checks if len(sys.argv) == 2 or c[0].split()[0] in sys.argv[2:]]
    failed = 0
    print(f"1..{len(checks)}", flush=True)
    for number, (name, act) in enumerate(checks, 1):
        with tempfile.TemporaryDirectory() as folder:
            ok = act(folder)
        failed += not ok
        print("ok" if ok else "not ok", number, "-", name, flush=True)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
