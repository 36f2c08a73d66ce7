# SPDX-License-Identifier: Apache-2.0
"""Vocabularies that are trained here, with the packages `tokenizers` and `sentencepiece`, and files that hold
them: tokenizer.json and GGUF. Texts to try them with."""

import io
import json
import pathlib
import random
import struct

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
HIGH, LOW = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
WORDS = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|"
BEHIND = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SLASHES = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def cased(behind):
    first = r"[^\r\n\p{L}\p{N}]?"
    return f"{first}{HIGH}*{LOW}+{behind}|{first}{HIGH}+{LOW}*{behind}|"


# By the names of GGUF: the expression (None: that of ByteLevel), whether a whole piece is looked up first.
BPE = {
    "gpt-2": (None, False),
    "smollm": ("digits", False),
    "llama-bpe": (WORDS + r"\p{N}{1,3}|" + BEHIND, True),
    "qwen2": (WORDS + r"\p{N}|" + BEHIND, False),
    "qwen35": (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|"
               r"\s*[\r\n]+|\s+(?!\S)|\s+", False),
    "tekken": (cased("") + r"\p{N}|" + SLASHES, True),
    "gpt-4o": (cased(CONTRACTIONS + "?") + r"\p{N}{1,3}|" + SLASHES, False),
}
CONTROL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|im|>"]
USER = ["<tool>", "\n\n\n", "<tool_call>"]

WORD_LISTS = [
    "the and of model kernel weights don't we'll I'VE they're it's y'all Hello WORLD camelCase XMLParser",
    "Ελληνικά γλώσσα και το είναι ΜΕΓΑΛΑ Привет мир модель слово ПРОСТО русский ǅungla ʰaspirated ªº",
    "漢字 日本語 テキスト こんにちは 中文模型 한국어 텍스트 ไทย ภาษา हिन्दी भाषा العربية نموذج עברית ශ්\u200dරී",
    "123 4567 89 1000000 3.14159 ½ ² Ⅷ ٣٤٥ १२३ 0x1F 12,345 2024-01-02",
    "🙂 👩\u200d👩\u200d👧 🇩🇪 ✓ → ∑ € « » … — “ ” #!/bin/sh // /* */ <= != a/b/ ://",
]
SPACES = [" ", " ", " ", "  ", "    ", "\n", "\n\n", "\r\n", "\t", "\u00a0", "\u2028", "\u3000", "", "\x85",
          "\x1c"]
ODD = ["ſ", "'ſ", "'S", "'Re", "'lL", "'", "\u0301", "e\u0301", "ﬁ", "\u200d", "\x00", "\x7f", "K", "İ", "ŉ",
       "𝔘𝔫𝔦", "\U0010ffff"]


def corpus():
    texts = [p.read_text(encoding="utf-8") for p in sorted((ROOT / "docs").glob("*.md"))[:6]]
    rng = random.Random(1)
    lines = [line for text in texts for line in text.splitlines() if 0 < len(line) < 2000]
    words = [w for some in WORD_LISTS for w in some.split()]
    return lines + [" ".join(rng.choices(words, k=9)) for _ in range(3000)]


def random_text(rng, with_special):
    parts = []
    for _ in range(rng.choice((0, 1, 2, 3, 5, 8, 20))):
        kind = rng.randrange(10)
        if kind < 5:
            parts.append(rng.choice(rng.choice(WORD_LISTS).split()))
        elif kind < 7:
            parts.append("".join(rng.choices(SPACES, k=rng.randrange(1, 4))))
        elif kind == 7:
            parts.append("".join(rng.choices(ODD, k=rng.randrange(1, 3))))
        elif kind == 8:
            parts.append("".join(rng.choices("aAbB1'. \n/-é漢Ж", k=rng.randrange(1, 9))))
        elif with_special:
            parts.append(rng.choice(CONTROL + USER))
        parts.append(rng.choice(("", " ", " ")))
    return "".join(parts)


def broken_bytes(rng):
    data = bytearray(random_text(rng, False).encode())
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(data) + 1)
        data[at:at] = rng.choice((b"\xff", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x99", b"\x80", b"\xed\xa0\x80",
                                  b"\xc0\xaf",
                                  b"\xf5\x80\x80\x80", bytes([rng.randrange(256)])))
    return bytes(data)


# --- files ---------------------------------------------------------------------------------------

def gguf(metadata):
    """A GGUF file of version 3 without tensors. Values: str, bool, int, lists of str, bytes, int or float."""
    out = io.BytesIO()

    def text(s):
        data = s if isinstance(s, bytes) else s.encode()
        out.write(struct.pack("<Q", len(data)) + data)

    out.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(metadata)))
    for key, value in metadata.items():
        text(key)
        if isinstance(value, (str, bytes)):
            out.write(struct.pack("<I", 8))
            text(value)
        elif isinstance(value, bool):
            out.write(struct.pack("<IB", 7, value))
        elif isinstance(value, int):
            out.write(struct.pack("<II", 4, value))
        elif value and isinstance(value[0], (str, bytes)):
            out.write(struct.pack("<IIQ", 9, 8, len(value)))
            for item in value:
                text(item)
        elif value and isinstance(value[0], float):
            out.write(struct.pack(f"<IIQ{len(value)}f", 9, 6, len(value), *value))
        else:
            out.write(struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value))
    return out.getvalue()


def train_bpe(pre):
    """The tokenizer of the package `tokenizers`."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    regex, is_whole = BPE[pre]
    tokenizer = Tokenizer(models.BPE(ignore_merges=is_whole))
    if regex is None:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    elif regex == "digits":
        steps = [pre_tokenizers.Digits(individual_digits=True),
                 pre_tokenizers.ByteLevel(add_prefix_space=False)]
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    else:
        steps = [pre_tokenizers.Split(Regex(regex), "isolated"),
                 pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=1500, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_special_tokens([AddedToken(t, special=True) for t in CONTROL])
    tokenizer.add_tokens([AddedToken(t, special=False, normalized=False) for t in USER])
    return tokenizer


CHARACTERS = ("prepend", "first", "always", "never", "without bytes")


def train_characters(kind):
    """BPE of characters, as Llama 2, Mistral and Gemma have it: U+2581 for spaces, bytes for what is no
    token."""
    from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, trainers

    mark = "\u2581"
    with_bytes = kind != "without bytes"
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=with_bytes))
    replace = normalizers.Replace(" ", mark)
    if kind in ("prepend", "without bytes"):
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(mark), replace])
    elif kind == "never":
        tokenizer.normalizer = replace
        tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(mark, prepend_scheme=kind, split=False)
    single = [f"<0x{i:02X}>" for i in range(256)] if with_bytes else []
    trainer = trainers.BpeTrainer(vocab_size=1300, show_progress=False, limit_alphabet=150,
                                  max_token_length=9, special_tokens=["<unk>", *CONTROL, *single])
    tokenizer.train_from_iterator([line[:80] for line in corpus()], trainer)
    document = json.loads(tokenizer.to_str())
    document["added_tokens"] = [t for t in document["added_tokens"] if t["content"] not in single]
    tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.add_tokens([AddedToken(t, special=False, normalized=False) for t in USER])
    return tokenizer


def bpe_metadata(tokenizer, pre):
    document = json.loads(tokenizer.to_str())
    vocab = {**document["model"]["vocab"], **{t["content"]: t["id"] for t in document["added_tokens"]}}
    tokens = sorted(vocab, key=vocab.get)
    types = [3 if t in CONTROL else 4 if t in USER else 1 for t in tokens]
    return {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre, "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": [" ".join(m) for m in document["model"]["merges"]],
        "tokenizer.ggml.bos_token_id": vocab["<s>"], "tokenizer.ggml.eos_token_id": vocab["</s>"],
        "tokenizer.ggml.add_bos_token": False,
    }


def train_spm(**options):
    import sentencepiece

    model = io.BytesIO()
    settings = {"vocab_size": 1200, "model_type": "bpe", "byte_fallback": True, "user_defined_symbols": USER,
                "normalization_rule_name": "identity", "remove_extra_whitespaces": False,
                "control_symbols": CONTROL[2:], "minloglevel": 2, "character_coverage": 0.98, **options}
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(corpus()), model_writer=model, **settings)
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def spm_metadata(spm, adds_space=True):
    n = spm.vocab_size()
    types = [6 if spm.is_byte(i) else 2 if spm.is_unknown(i) else 3 if spm.is_control(i) else
             5 if spm.is_unused(i) else 4 if spm.id_to_piece(i) in USER else 1 for i in range(n)]
    return {
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": [spm.id_to_piece(i) for i in range(n)],
        "tokenizer.ggml.scores": [spm.get_score(i) for i in range(n)], "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.bos_token_id": spm.bos_id(), "tokenizer.ggml.eos_token_id": spm.eos_id(),
        "tokenizer.ggml.unknown_token_id": spm.unk_id(), "tokenizer.ggml.add_space_prefix": adds_space,
    }


def but(document, path, value):
    """The document as JSON, with another value at a path."""
    copy = json.loads(json.dumps(document))
    place = copy
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(copy)
