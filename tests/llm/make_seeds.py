#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the .gguf files of tests/fuzz/seeds: small models that touch many parts of the reader."""

import pathlib

import gguf_file
import models

SEEDS = pathlib.Path(__file__).resolve().parent.parent / "fuzz" / "seeds"
SMALL = dict(width=8, heads=2, kv=1, head=4, ffn=8, layers=1)
BLOCKS = dict(width=32, heads=2, kv=1, head=16, ffn=32, layers=1)


def with_more(model):
    """Entries of types that architectures do not ask for, and layers that say their own numbers."""
    model.entries |= {"a.bool": True, "a.words": "x", "general.alignment": 32, "a.list": [1.5, 2.5]}
    model.number("attention.head_count", [2])
    return model


def main():
    models.VOCAB = 12
    seeds = {
        "llama": with_more(models.llama(freqs=True, **SMALL)),
        "llama_blocks": models.llama(gguf_file.Q8_0, **BLOCKS),
        "experts": models.qwen("qwen2moe", experts=3, **SMALL),
        "sinks": models.gpt_oss(**SMALL | {"experts": 3}),
        "encoder": models.encoder("bert", **SMALL | {"kv": 2}),
        "mamba": models.mamba("mamba", width=8, inner=8, state=2, kernel=3, rank=2, layers=1),
        "mamba2": models.mamba("mamba2", width=8, inner=8, state=2, kernel=3, rank=2, layers=1),
        "windows": models.gemma("gemma3", **SMALL),
    }
    for name, model in seeds.items():
        (SEEDS / f"{name}.gguf").write_bytes(model.file())


if __name__ == "__main__":
    main()
