# SPDX-License-Identifier: Apache-2.0
"""Adapters with random numbers for models of models.py, as GGUF files and as folders that PEFT writes, and
the models that come out when they are merged."""

import copy
import json
import pathlib
import re

import gguf_file
import numpy
from folder_file import Folder


def turned(values, heads, to_pairs):
    """The rows of each head in the other order: of pairs 2i and 2i + 1, or of halves i and i + half."""
    columns = values.shape[1]
    rows = values.reshape((heads, 2, -1, columns) if to_pairs else (heads, -1, 2, columns))
    return rows.swapaxes(1, 2).reshape(values.shape)


class Adapter:
    """For the weights of a model whose names a pattern matches: A [rank, in] and B [out, rank], of experts
    with one axis more in front. The rows of B are in the order of the model's own."""

    def __init__(self, model, pattern, rank=4, alpha=6.0, seed=0):
        self.model, self.rank, self.alpha = model, rank, alpha
        rng = numpy.random.default_rng(seed)
        self.pairs = {}
        for name, w in model.weights.items():
            if w.ndim > 1 and re.search(pattern, name):
                a = rng.standard_normal((*w.shape[:-2], rank, w.shape[-1])) / numpy.sqrt(w.shape[-1])
                b = rng.standard_normal((*w.shape[:-1], rank)) / numpy.sqrt(rank)
                self.pairs[name] = a.astype("f4").astype("f8"), b.astype("f4").astype("f8")
        assert self.pairs
        self.config = {
            "peft_type": "LORA", "r": rank, "lora_alpha": alpha, "use_rslora": False, "use_dora": False,
            "target_modules": ["q_proj"], "rank_pattern": {}, "alpha_pattern": {}, "init_lora_weights": True,
        }  # fmt: skip

    def heads(self, name):
        return self.model.size["heads" if "attn_q." in name else "kv"]

    def file(self, entries=None, kind=gguf_file.F32, turn=None, change=None):
        """The bytes of a GGUF file. entries: others, or None to leave one out. turn: to the order of pairs,
        or of halves."""
        all_entries = {
            "general.architecture": self.model.arch, "general.type": "adapter", "adapter.type": "lora",
            "adapter.lora.alpha": self.alpha,
        } | (entries or {})  # fmt: skip
        tensors = []
        for name, (a, b) in self.pairs.items():
            if turn is not None and re.search(r"attn_[qk]\.", name):
                b = turned(b, self.heads(name), turn)
            for ending, values in (("lora_a", a), ("lora_b", b)):
                tensors.append((f"{name}.{ending}", values.shape, kind, gguf_file.pack(values, kind)[0]))
        if change:
            change(tensors)
        return gguf_file.make({k: v for k, v in all_entries.items() if v is not None}, tensors)

    def write(self, path, turn=None, config=None, change=None, dtype="F32"):
        """A folder that PEFT writes."""
        path = pathlib.Path(path)
        path.mkdir()
        named = Folder(self.model, dtype)
        named.tensors = {}
        for name, (a, b) in self.pairs.items():
            if turn is not None and re.search(r"attn_[qk]\.", name):
                b = turned(b, self.heads(name), turn)
            layer, stem = re.fullmatch(r"(?:blk\.(\d+)\.)?(.*)\.weight", name).groups()
            to = named.names[stem] if layer is None else f"{named.before}{layer}.{named.names[stem]}"
            if self.model.arch == "gpt2":
                to = "transformer." + to
            named.tensors[f"base_model.model.{to}.lora_A.weight"] = a
            named.tensors[f"base_model.model.{to}.lora_B.weight"] = b
        if change:
            change(named.tensors)
        (path / "adapter_config.json").write_text(json.dumps(self.config | (config or {})))
        (path / "adapter_model.safetensors").write_bytes(named.weights_file(sorted(named.tensors)))


def merged(model, *parts):
    """The model with adapters in its weights. parts: (adapter, factor of B A)."""
    out = copy.copy(model)
    out.weights = dict(model.weights)
    for adapter, factor in parts:
        for name, (a, b) in adapter.pairs.items():
            out.weights[name] = out.weights[name] + factor * (b @ a)
    return out
