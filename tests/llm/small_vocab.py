# SPDX-License-Identifier: Apache-2.0
"""A vocabulary of SentencePiece's kind, with as many tokens as the models of models.py have."""

from models import VOCAB

SPACE = "\u2581"
NORMAL, UNKNOWN, CONTROL = 1, 2, 3
PIECES = ["th", "he", "an", "in", "er", SPACE + "a", SPACE + "t", "on", "the", SPACE + "the", "at", "ing"]


def entries():
    """The entries of a GGUF file. Three tokens are of control, and one is a part of a character."""
    signs = SPACE + "abcdefghijklmnopqrstuvwxyz0123456789.,!?:;'\u00e4\u00f6\u00fc\u4e00"
    tokens = ["<unk>", "<s>", "</s>", "<0xC3>", *signs, *PIECES]
    tokens += [f"word{i}" for i in range(VOCAB - len(tokens))]
    types = [UNKNOWN, CONTROL, CONTROL, 6] + [NORMAL] * (VOCAB - 4)
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [-float(i) for i in range(VOCAB)],
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }
