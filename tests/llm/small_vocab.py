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


def words():
    """The entries of one of WordPiece: letters, that begin words and that go on, and a few parts."""
    letters = "abcdefghijklmnopqrstuvwxyz,."
    tokens = ["[UNK]", "[CLS]", "[SEP]", *(SPACE + c for c in letters), *letters, "the", "ing", SPACE + "the"]
    tokens += [SPACE + f"word{i}" for i in range(VOCAB - len(tokens))]
    return {
        "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [CONTROL] * 3 + [NORMAL] * (VOCAB - 3),
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.cls_token_id": 1,
        "tokenizer.ggml.seperator_token_id": 2,
    }


def words_json():
    """The same as a tokenizer.json."""
    entries = words()
    tokens = entries["tokenizer.ggml.tokens"]
    names = [t if i < 3 else t[1:] if t.startswith(SPACE) else "##" + t for i, t in enumerate(tokens)]
    return {
        "added_tokens": [{"id": i, "content": t, "special": True} for i, t in enumerate(names[:3])],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                       "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": {t: i for i, t in enumerate(names)}},
    }
