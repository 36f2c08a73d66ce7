# SPDX-License-Identifier: Apache-2.0
"""GGUF files of Llama's shapes with random weights, written quickly: the rows of a tensor are drawn once for
each size, and each layer has them in another order (rlxc would store equal tensors once)."""

import pathlib
import struct
import sys

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "llm"))
import gguf_file  # noqa: E402

ALIGNMENT = 32
SHAPES = {
    "tiny": dict(width=256, heads=8, kv=4, head=32, ffn=512, layers=2, vocab=1024, tied=True),
    "1b": dict(width=2048, heads=32, kv=8, head=64, ffn=8192, layers=16, vocab=128256, tied=True),
    "8b": dict(width=4096, heads=32, kv=8, head=128, ffn=14336, layers=32, vocab=128256, tied=False),
}
KINDS = {"bf16": gguf_file.BF16, "q4_k": gguf_file.Q4_K, "q8_0": gguf_file.Q8_0}


def vocabulary(n):
    """One of SentencePiece's kind: bytes, and words that nobody reads."""
    space = "\u2581"
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))]
    types = [2, 3, 3] + [6] * 256
    tokens += [f"{space}w{i}" for i in range(n - len(tokens))]
    types += [1] * (n - len(types))
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [-float(i) for i in range(n)],
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
    }


def entries(s, context):
    numbers = {
        "block_count": s["layers"],
        "context_length": context,
        "embedding_length": s["width"],
        "feed_forward_length": s["ffn"],
        "attention.head_count": s["heads"],
        "attention.head_count_kv": s["kv"],
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.freq_base": 500000.0,
    }
    named = {f"llama.{key}": value for key, value in numbers.items()}
    return {"general.architecture": "llama", **named, **vocabulary(s["vocab"])}


def tensors(s):
    """(name, shape) of all tensors."""
    q, k, width, ffn = s["heads"] * s["head"], s["kv"] * s["head"], s["width"], s["ffn"]
    yield "token_embd", (s["vocab"], width)
    for i in range(s["layers"]):
        for name, shape in (
            ("attn_norm", (width,)),
            ("attn_q", (q, width)),
            ("attn_k", (k, width)),
            ("attn_v", (k, width)),
            ("attn_output", (width, q)),
            ("ffn_norm", (width,)),
            ("ffn_gate", (ffn, width)),
            ("ffn_up", (ffn, width)),
            ("ffn_down", (width, ffn)),
        ):
            yield f"blk.{i}.{name}", shape
    yield "output_norm", (width,)
    if not s["tied"]:
        yield "output", (s["vocab"], width)


def draw_bf16(rng, n, k):
    return (rng.standard_normal(n, "f4") * k**-0.5).view("u4").__rshift__(16).astype("<u2").tobytes()


def draw_q8_0(rng, n, k):
    b = rng.integers(0, 256, (n // 32, 34), "u1")
    b[:, :2] = gguf_file.halves(numpy.full(n // 32, k**-0.5 / 74, "f4"))
    return b.tobytes()


def draw_q4_k(rng, n, k):
    """Scales and mins of 32 of 64, so that elements are from -8 to 7 times d * 32."""
    b = rng.integers(0, 256, (n // 256, 144), "u1")
    d = numpy.full(n // 256, k**-0.5 / 4.6 / 32, "f4")
    b[:, :2] = gguf_file.halves(d)
    b[:, 2:4] = gguf_file.halves(d * 8)
    b[:, 4:16] = [32] * 8 + [0] * 4
    return b.tobytes()


DRAWS = {gguf_file.BF16: draw_bf16, gguf_file.Q8_0: draw_q8_0, gguf_file.Q4_K: draw_q4_k}
BITS = {gguf_file.F32: 32, gguf_file.BF16: 16, gguf_file.Q8_0: 8.5, gguf_file.Q4_K: 4.5}


def kind_of(shape, kind):
    return gguf_file.F32 if len(shape) == 1 else kind


def describe(s, kind, context):
    data, described, n = 0, b"", 0
    for name, shape in tensors(s):
        data += -data % ALIGNMENT
        described += gguf_file.text(name + ".weight") + struct.pack("<I", len(shape))
        described += b"".join(struct.pack("<Q", size) for size in reversed(shape))
        described += struct.pack("<IQ", kind_of(shape, kind), data)
        data += int(numpy.prod(shape) * BITS[kind_of(shape, kind)] / 8)
        n += 1
    keys = entries(s, context)
    head = b"GGUF" + struct.pack("<IQQ", 3, n, len(keys))
    head += b"".join(gguf_file.entry(key, value) for key, value in keys.items()) + described
    return head + bytes(-len(head) % ALIGNMENT)


def make(path, shape, kind, context=8192):
    """Writes the file. Returns the bytes of weights that each token reads."""
    s, kind, rng, drawn = SHAPES[shape], KINDS[kind], numpy.random.default_rng(7), {}
    read = 0
    with open(path, "wb") as f:
        f.write(describe(s, kind, context))
        for number, (name, sizes) in enumerate(tensors(s)):
            f.write(bytes(-f.tell() % ALIGNMENT))
            if len(sizes) == 1:
                content = numpy.ones(sizes, "<f4").tobytes()
            else:
                if sizes not in drawn:
                    drawn[sizes] = DRAWS[kind](rng, int(numpy.prod(sizes)), sizes[1])
                first = len(drawn[sizes]) // sizes[0] * (number % sizes[0])
                content = drawn[sizes][first:] + drawn[sizes][:first]
            f.write(content)
            read += len(content) if name != "token_embd" or s["tied"] else 0
    return read
