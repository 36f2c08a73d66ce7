#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a small language model as a GGUF file, so that the example has one: make_model.py FILE TEXT...

It has learned the texts in the simplest way. Its tokens are made of the pairs of tokens that are most
frequent, merged again and again, and its weights are the logarithms of how often a token follows another one.
As a llama it has one layer, whose weights are zeros."""

import array
import collections
import math
import pathlib
import struct
import sys

MERGES, LEAST_COUNT = 600, 2
SPACE = "\u2581"
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
F32 = 0


def merge(words, pair):
    joined, found = pair[0] + pair[1], {}
    for word, count in words.items():
        parts, i = [], 0
        while i < len(word):
            is_here = word[i : i + 2] == pair
            parts.append(joined if is_here else word[i])
            i += 2 if is_here else 1
        found[tuple(parts)] = found.get(tuple(parts), 0) + count
    return found


def learn_tokens(text):
    """Tokens of SentencePiece's kind: characters, and merges with falling scores."""
    words = collections.Counter(tuple(SPACE + w) for w in text.split(" "))
    signs = sorted({c for word in words for c in word})
    merged = []
    while len(merged) < MERGES:
        pairs = collections.Counter()
        for word, count in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += count
        pair, count = max(pairs.items(), key=lambda p: (p[1], p[0]))
        if count < LEAST_COUNT:
            break
        merged.append(pair[0] + pair[1])
        words = merge(words, pair)
    return signs, merged, words


def vocabulary(signs, merged):
    """(text, score, type) of each token."""
    found = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]
    found += [(f"<0x{b:02X}>", 0.0, BYTE) for b in range(256)]
    found += [(m, -float(i), NORMAL) for i, m in enumerate(merged)]
    return found + [(s, -1e6, NORMAL) for s in signs]


def followers(text, tokens, words):
    """Rows of logits: how often each token follows a token, with a little for all others."""
    number = {t[0]: i for i, t in enumerate(tokens)}
    parts = {"".join(word): word for word in words}
    order = [1] + [number[p] for w in text.split(" ") for p in parts[SPACE + w]]
    counts = collections.defaultdict(collections.Counter)
    for a, b in zip(order, order[1:]):
        counts[a][b] += 1
    return counts


def text_of(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, value):
    if isinstance(value, bool):
        return text_of(key) + struct.pack("<IB", 7, value)
    if isinstance(value, str):
        return text_of(key) + struct.pack("<I", 8) + text_of(value)
    if isinstance(value, list):
        number, code = {str: (8, ""), float: (6, "<f"), int: (5, "<i")}[type(value[0])]
        members = [struct.pack(code, v) if code else text_of(v) for v in value]
        return text_of(key) + struct.pack("<IIQ", 9, number, len(value)) + b"".join(members)
    is_int = isinstance(value, int)
    return text_of(key) + struct.pack("<II" if is_int else "<If", 4 if is_int else 6, value)


def write(path, entries, tensors):
    out, at = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(entries))], 0
    out += [entry(k, v) for k, v in entries.items()]
    for name, (shape, values) in tensors.items():
        sizes = shape[::-1]  # innermost first
        out.append(text_of(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, F32, at))
        at += (4 * len(values) + 31) // 32 * 32
    head = b"".join(out)
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % 32))
        for _, values in tensors.values():
            f.write(values.tobytes() + bytes(-4 * len(values) % 32))


def weights_of(counts, n, width):
    """A row of the embedding has a single one, of which norms make sqrt(width): it chooses a column."""
    hidden, head = 32, 32
    rows, logits = array.array("f", bytes(4 * n * width)), array.array("f", bytes(4 * n * width))
    for i in range(n):
        rows[i * width + i] = 1
        total = sum(counts[i].values()) + 1e-3 * n
        for j in range(n):
            logits[j * width + i] = math.log((counts[i][j] + 1e-3) / total)
    zeros = lambda *shape: (shape, array.array("f", bytes(4 * math.prod(shape))))  # noqa: E731
    ones = lambda value: ((width,), array.array("f", [value] * width))  # noqa: E731
    layer = {"attn_q": (head, width), "attn_k": (head, width), "attn_v": (head, width),
             "attn_output": (width, head), "ffn_gate": (hidden, width), "ffn_up": (hidden, width),
             "ffn_down": (width, hidden)}  # fmt: skip
    found = {"token_embd.weight": ((n, width), rows), "output.weight": ((n, width), logits)}
    found["output_norm.weight"] = ones(width**-0.5)
    found.update({f"blk.0.{norm}.weight": ones(1) for norm in ("attn_norm", "ffn_norm")})
    found.update({f"blk.0.{name}.weight": zeros(*shape) for name, shape in layer.items()})
    return found


def main(path, names):
    text = " ".join(" ".join(pathlib.Path(n).read_text(encoding="utf-8").split()) for n in names)
    signs, merged, words = learn_tokens(text)
    tokens = vocabulary(signs, merged)
    n, width = len(tokens), (len(tokens) + 31) // 32 * 32
    entries = {
        "general.architecture": "llama", "llama.block_count": 1, "llama.context_length": 512,
        "llama.embedding_length": width, "llama.feed_forward_length": 32, "llama.attention.head_count": 1,
        "llama.attention.key_length": 32, "llama.attention.value_length": 32,
        "llama.attention.layer_norm_rms_epsilon": 1e-9, "llama.vocab_size": n,
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": [t[0] for t in tokens],
        "tokenizer.ggml.scores": [t[1] for t in tokens], "tokenizer.ggml.token_type": [t[2] for t in tokens],
        "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.chat_template": "{% for m in messages %}{{ m.content }} {% endfor %}",
    }  # fmt: skip
    write(path, entries, weights_of(followers(text, tokens, words), n, width))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
